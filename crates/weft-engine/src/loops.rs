//! Decides about cycles: when a loop comes round again, when it has come to rest, and what that means for the
//! edges that leave it.

use std::collections::HashMap;
use std::sync::Arc;

use weft_dsl::plan::{NodeIx, Plan};

use crate::machine::Machine;
use crate::scope::{EdgeState, ScopeRun, Status};

impl Machine {
    /// Kills the edges that leave a loop which has come to rest. Returns whether there were any.
    pub(crate) fn bury(&mut self) -> bool {
        let plan = Arc::clone(&self.plan);
        let mut buried = Vec::new();
        for (&scope, run) in self.scopes.iter_mut().filter(|(_, run)| !run.dying.is_empty()) {
            let shape = &plan.scopes[run.plan_scope];
            let dying = std::mem::take(&mut run.dying);
            // Several edges usually leave the same loop, and each check visits all of its nodes.
            let mut known = HashMap::new();
            for edge in dying {
                if run.edges[edge] != EdgeState::Dying {
                    continue;
                }
                let mut rests =
                    |region: usize| *known.entry(region).or_insert_with(|| at_rest(run, &plan, region));
                if shape.edges[edge].leaves.iter().all(|&region| rests(region)) {
                    run.edges[edge] = EdgeState::Dead;
                    buried.push((scope, shape.edges[edge].to));
                } else {
                    run.dying.push(edge);
                }
            }
        }
        let any = !buried.is_empty();
        self.work.extend(buried);
        any
    }

    /// Starts a node without what it waits for, when nothing is under way and nothing is ready but a node has
    /// been reached: what it waits for can only run after it. This happens around loops, when a node of a
    /// loop reads something behind one of the loop's exits. The first such node starts. Returns whether there
    /// was one.
    pub fn excuse(&mut self) -> bool {
        let plan = Arc::clone(&self.plan);
        let reached = self.scopes.iter().find_map(|(&scope, run)| {
            let nodes = plan.scopes[run.plan_scope].nodes.iter().zip(&run.nodes);
            let held = |ix: NodeIx| plan.nodes[ix].ins.iter().any(|&e| run.edges[e].holds());
            let mut waiting = nodes.filter(|(_, state)| state.pending && !state.excused);
            let found = waiting.find(|(ix, state)| {
                !matches!(state.status, Status::Running(_) | Status::Suspended) && !held(**ix)
            });
            found.map(|(&ix, _)| (scope, ix))
        });
        let Some((scope, ix)) = reached else { return self.bury_all() };
        if let Some(run) = self.scopes.get_mut(&scope) {
            // One at a time: its effects may let the others start in the ordinary way.
            run.nodes[plan.nodes[ix].local].excused = true;
        }
        self.work.push_back((scope, ix));
        self.settle();
        true
    }

    /// Kills all dying edges: with nothing under way, no loop comes round again.
    fn bury_all(&mut self) -> bool {
        let plan = Arc::clone(&self.plan);
        for (&scope, run) in &mut self.scopes {
            let edges = &plan.scopes[run.plan_scope].edges;
            for edge in std::mem::take(&mut run.dying) {
                if run.edges[edge] == EdgeState::Dying {
                    run.edges[edge] = EdgeState::Dead;
                    self.work.push_back((scope, edges[edge].to));
                }
            }
        }
        let any = !self.work.is_empty();
        self.settle();
        any
    }
}

/// Starts the next pass of a loop: its nodes wait anew, and its edges are open.
pub(crate) fn next_pass(run: &mut ScopeRun, plan: &Plan, region: usize) {
    let shape = &plan.scopes[run.plan_scope];
    let region = &shape.loops[region];
    let inside = |ix: NodeIx| region.nodes.binary_search(&ix).is_ok();
    for &ix in &region.nodes {
        run.change(plan.nodes[ix].local, |state| {
            // What is under way in the middle of a pass continues; only finished nodes wait anew.
            if matches!(state.status, Status::Done | Status::Skipped) {
                state.status = Status::Waiting;
            }
        });
    }
    for (place, edge) in shape.edges.iter().enumerate().filter(|(_, edge)| inside(edge.from)) {
        let target_waits = run.nodes[plan.nodes[edge.to].local].pending;
        let state = &mut run.edges[place];
        if inside(edge.to) {
            // A node that was reached but has not started keeps the edges that reached it for its next start.
            if !target_waits {
                *state = EdgeState::Open;
            }
        } else if matches!(state, EdgeState::Dead | EdgeState::Dying) {
            *state = EdgeState::Open;
        }
    }
}

/// Whether a loop can no longer come round again: nothing in it is active and nothing can enter it.
fn at_rest(run: &ScopeRun, plan: &Plan, region: usize) -> bool {
    let shape = &plan.scopes[run.plan_scope];
    // Another loop may come round into the middle of this one: they come to rest together.
    let mut together = vec![region];
    let mut next = 0;
    while let Some(region) = together.get(next).map(|&region| &shape.loops[region]) {
        if region.nodes.iter().any(|&ix| run.nodes[plan.nodes[ix].local].is_active()) {
            return false;
        }
        for closed in region.entries.iter().filter_map(|&edge| shape.edges[edge].closes) {
            if !together.contains(&closed) {
                together.push(closed);
            }
        }
        next += 1;
    }
    let inside = |ix: NodeIx| together.iter().any(|&r| shape.loops[r].nodes.binary_search(&ix).is_ok());
    let mut entries = together.iter().flat_map(|&region| &shape.loops[region].entries);
    !entries.any(|&edge| run.edges[edge].holds() && !inside(shape.edges[edge].from))
}
