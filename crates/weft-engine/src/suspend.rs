//! Work that waits for a person midway: how a node is suspended, what happens to the nodes listening to it,
//! and how it resumes.

use std::sync::Arc;

use serde_json::Map;
use weft_core::Json;
use weft_core::component::Suspension;
use weft_core::seam::task_store::TaskStatus;
use weft_dsl::plan::NodeIx;

use crate::form::satisfied;
use crate::machine::{Machine, RunningNode};
use crate::output_dedup::SaidSoFar;
use crate::scope::{EdgeState, ScopeId, ScopedNode, Status, SuspendedNode};

impl Machine {
    /// Returns a node's saved state while it waits in the middle of its work.
    pub(crate) fn suspended_node(&self, scope: ScopeId, ix: NodeIx) -> Option<&SuspendedNode> {
        self.scopes.get(&scope)?.nodes[self.plan.nodes[ix].local].suspended.as_deref()
    }

    /// Stops a running node's text for now: no listener may start with it.
    pub fn stop_speaking(&mut self, activation: u32) {
        let Some(&RunningNode { scope, node, .. }) = self.running.get(&activation) else { return };
        let plan = Arc::clone(&self.plan);
        let Some(run) = self.scopes.get_mut(&scope) else { return };
        run.nodes[plan.nodes[node].local].published = None;
        let mut targets = Vec::new();
        for &edge in &plan.nodes[node].outs {
            if run.edges[edge] == EdgeState::Early {
                run.edges[edge] = EdgeState::Open;
                targets.push(plan.scopes[run.plan_scope].edges[edge].to);
            }
        }
        for target in targets {
            self.recount_pending(scope, target);
        }
    }

    /// Whether a running node reads a text that another one writes, so that it cannot end before it.
    pub fn hears(&self, listener: u32, alternative: usize, writer: u32) -> bool {
        if !self.listening_to(writer).contains(&listener) {
            return false;
        }
        let (Some(listener), Some(writer)) = (self.running.get(&listener), self.running.get(&writer)) else {
            return false;
        };
        let node = &self.plan.nodes[listener.node];
        let chosen = node.alternative_reads.get(alternative).into_iter().flatten();
        node.reads.iter().chain(chosen).any(|read| read.node == Some(writer.node))
    }

    /// Suspends an activation: its node waits for a person in the middle of its work.
    pub fn suspend(
        &mut self,
        activation: u32,
        suspension: Suspension,
        alternative: usize,
        spoken: SaidSoFar,
    ) {
        self.stop_speaking(activation);
        let Some(RunningNode { scope, node, works, .. }) = self.running.remove(&activation) else { return };
        self.working -= usize::from(works);
        let Suspension { form, state } = suspension;
        let suspended = SuspendedNode { form, state, answers: Map::new(), alternative };
        let local = self.plan.nodes[node].local;
        if let Some(run) = self.scopes.get_mut(&scope) {
            run.change(local, |node| {
                node.status = Status::Suspended;
                node.suspended = Some(Box::new(suspended));
                // What it asks now is a new question, with its own task and timeout.
                node.asked = None;
                node.spoken = kept(spoken);
            });
        }
        self.weigh_node(scope, local);
        self.settle();
    }

    /// Requeues an activation that was listening to a node that was suspended: its node waits for its turn
    /// again, and the edges that had reached it reach it again.
    pub fn requeue(&mut self, activation: u32, spoken: SaidSoFar) {
        self.stop_speaking(activation);
        let Some(RunningNode { scope, node, works, took }) = self.running.remove(&activation) else { return };
        self.working -= usize::from(works);
        let plan = Arc::clone(&self.plan);
        let Some(run) = self.scopes.get_mut(&scope) else { return };
        run.change(plan.nodes[node].local, |state| {
            state.status = Status::Waiting;
            state.spoken = kept(spoken);
        });
        for edge in took {
            let from = plan.scopes[run.plan_scope].edges[edge].from;
            let writes = run.nodes[plan.nodes[from].local].published.is_some();
            run.edges[edge] = match run.edges[edge] {
                EdgeState::EarlyTaken if writes => EdgeState::Early,
                EdgeState::EarlyTaken => EdgeState::Open,
                EdgeState::Fired => EdgeState::Fresh,
                other => other,
            };
        }
        self.recount_pending(scope, node);
        self.work.push_back((scope, node));
        self.settle();
    }

    /// Stores a person's decisions about a suspended node's work; the node resumes when none is missing.
    /// Earlier decisions stand.
    pub fn decide(&mut self, place: ScopedNode, decisions: Map<String, Json>, status: TaskStatus) {
        let (scope, ix) = place;
        let local = self.plan.nodes[ix].local;
        let mut decided = Vec::new();
        let Some(run) = self.scopes.get_mut(&scope) else { return };
        let Some(suspended) = run.nodes[local].suspended.as_deref_mut() else { return };
        for (field, decision) in decisions {
            let new = suspended.form.fields.contains_key(&field) && !suspended.answers.contains_key(&field);
            // The first decision stands: an approved call may be made as soon as the last decision is in.
            if new && !decision.is_null() {
                decided.push(field.clone());
                suspended.answers.insert(field, decision);
            }
        }
        let complete = satisfied(&suspended.form, &suspended.answers);
        for field in decided {
            self.end_task(place, Some(&field), status);
        }
        let Some(run) = self.scopes.get_mut(&scope) else { return };
        if complete {
            run.change(local, |state| state.status = Status::Resuming);
            self.work.push_back((scope, ix));
            self.settle();
        }
    }
}

fn kept(spoken: SaidSoFar) -> Option<Box<SaidSoFar>> {
    (!spoken.is_empty()).then(|| Box::new(spoken))
}
