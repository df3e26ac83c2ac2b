//! Iterations and Loops: opens rounds, closes them, and collects their results in the order of the items.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weft_core::component::Role;
use weft_core::journal::FrameStep;
use weft_core::value::to_text;
use weft_core::{Json, Outputs};
use weft_dsl::plan::{NodeIx, PlannedRead};

use crate::machine::{BrokenFrame, Closed, Consequence, Machine};
use crate::perform::ERROR;
use crate::scope::{Past, RoundOf, ScopeId, ScopeRun};
use crate::weight::weight_of;

/// An open frame.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FrameRun {
    /// The Iteration or Loop.
    pub node: NodeIx,
    /// The scope it is in.
    pub scope: ScopeId,
    /// The items of an Iteration.
    pub items: Option<Arc<Vec<Json>>>,
    /// The round that opens next.
    pub next_round: usize,
    /// The rounds under way.
    pub live: Vec<ScopeId>,
    /// What each finished round contributes, by round number.
    pub collected: BTreeMap<usize, Vec<Json>>,
    /// No further round opens.
    pub ended: bool,
    /// Approximate size in bytes of its items and of what it has collected.
    #[serde(skip)]
    pub bytes: usize,
}

impl Machine {
    /// Opens the frame of an Iteration or Loop: its outputs so far become readable, and its first rounds open.
    pub fn open_frame(&mut self, activation: u32, outputs: Outputs, items: Option<Arc<Vec<Json>>>) {
        let Some(running) = self.running.get(&activation) else { return };
        let (scope, node) = (running.scope, running.node);
        let plan = Arc::clone(&self.plan);
        if let Some(run) = self.scopes.get_mut(&scope) {
            run.nodes[plan.nodes[node].local].outputs = Some(Arc::new(outputs));
        }
        self.weigh_node(scope, plan.nodes[node].local);
        let (next_round, live, collected, ended) = (0, Vec::new(), BTreeMap::new(), false);
        let bytes = items.as_deref().map_or(0, weight_of);
        self.replace_bytes(0, bytes);
        let frame = FrameRun { node, scope, items, next_round, live, collected, ended, bytes };
        self.frames.insert(activation, frame);
        self.advance(activation);
        self.settle();
    }

    /// Opens as many rounds as may run concurrently; ends the frame when there are none left.
    fn advance(&mut self, activation: u32) {
        let plan = Arc::clone(&self.plan);
        loop {
            let Some(frame) = self.frames.get_mut(&activation) else { return };
            let node = &plan.nodes[frame.node];
            let more =
                !frame.ended && frame.items.as_ref().is_none_or(|items| frame.next_round < items.len());
            if !more {
                break;
            }
            // The rounds of a Loop build on each other.
            let at_once = if node.role == Role::Each { node.shape.parallelism.max(1) } else { 1 };
            if frame.live.len() >= at_once {
                return;
            }
            let (index, id) = (frame.next_round, self.next_scope);
            frame.next_round += 1;
            frame.live.push(id);
            self.next_scope += 1;
            let item = frame.items.as_ref().map(|items| Arc::new(items[index].clone()));
            let (parent, owner) = (frame.scope, node.id.clone());
            let Some(body) = node.body else { return };
            // The number of rounds is bounded by the items of an Iteration or the limit of a Loop: the
            // activation limit is meant for cycles.
            self.allowance = self.allowance.saturating_add(plan.scopes[body].nodes.len() as u64);
            let mut path = self.scopes.get(&parent).map(|run| run.path.to_vec()).unwrap_or_default();
            path.push(FrameStep { node: owner, activation, round: index });
            let round = RoundOf { parent, frame: activation, index, item };
            self.scopes.insert(id, ScopeRun::new(body, &plan.scopes[body], Some(round), path.into()));
            let start = plan.scopes[body].start;
            if let (Some(run), Some(start)) = (self.scopes.get_mut(&id), plan.nodes.get(start)) {
                run.change(start.local, |state| state.pending = true);
            }
            self.work.push_back((id, start));
        }
        if self.frames.get(&activation).is_some_and(|frame| frame.live.is_empty()) {
            self.complete(activation);
        }
    }

    /// Closes rounds in which nothing is active any more. Returns whether there were any.
    pub(crate) fn close_rounds(&mut self) -> bool {
        let over = self.scopes.iter().find(|(_, run)| run.round.is_some() && run.active == 0);
        // One at a time: its end may open the next round or wake nodes around it, which are examined first.
        let Some((&scope, _)) = over else { return false };
        self.collect(scope);
        self.close_round(scope);
        true
    }

    /// Ends a frame whose RoundStart found that there is no further round: this round does not count.
    pub(crate) fn end_frame(&mut self, scope: ScopeId) {
        let frame = self.scopes.get(&scope).and_then(|run| run.round.as_ref()).map(|round| round.frame);
        if let Some(frame) = frame.and_then(|frame| self.frames.get_mut(&frame)) {
            frame.ended = true;
        }
        self.close_round(scope);
        self.settle();
    }

    fn collect(&mut self, scope: ScopeId) {
        let plan = Arc::clone(&self.plan);
        let Some(round) = self.scopes.get(&scope).and_then(|run| run.round.clone()) else { return };
        let Some(node) = self.frames.get(&round.frame).map(|frame| &plan.nodes[frame.node]) else { return };
        let values = node.shape.collects.iter().map(|(_, reference)| {
            let node = reference.component().and_then(|id| plan.by_id.get(id)).copied();
            let read =
                PlannedRead { reference: reference.clone(), key: Arc::default(), node, same_pass: true };
            (*self.value(scope, &read).snapshot()).clone()
        });
        let values: Vec<_> = values.collect();
        let bytes = weight_of(&values);
        if let Some(frame) = self.frames.get_mut(&round.frame) {
            // Keyed by round instead of pushed: concurrent rounds end in any order.
            frame.collected.insert(round.index, values);
            frame.bytes += bytes;
            self.replace_bytes(0, bytes);
        }
    }

    fn close_round(&mut self, scope: ScopeId) {
        let Some(round) = self.drop_scope(scope) else { return };
        if let Some(frame) = self.frames.get_mut(&round.frame) {
            frame.live.retain(|&live| live != scope);
        }
        self.advance(round.frame);
    }

    fn complete(&mut self, activation: u32) {
        let Some(frame) = self.frames.get(&activation) else { return };
        let node = &self.plan.nodes[frame.node];
        let current = self.scopes.get(&frame.scope).and_then(|run| run.nodes[node.local].outputs.clone());
        let mut outputs = current.map(|outputs| (*outputs).clone()).unwrap_or_default();
        for (place, (name, _)) in node.shape.collects.iter().enumerate() {
            let list = frame.collected.values().filter_map(|values| values.get(place).cloned());
            outputs.set(name, Json::Array(list.collect()));
        }
        // Left for the driver to record: the machine writes no journal.
        self.consequences.push_back(Consequence::FrameDone(activation, Arc::new(outputs)));
    }

    /// Closes the nearest Loop around an ExitLoop and stops what is under way inside it.
    pub(crate) fn leave(&mut self, scope: ScopeId) {
        let mut at = Some(scope);
        while let Some(round) = at.and_then(|scope| self.scopes.get(&scope)).and_then(|run| run.round.clone())
        {
            let node = self.frames.get(&round.frame).map(|frame| frame.node);
            if node.is_some_and(|node| self.plan.nodes[node].role == Role::Repeat) {
                self.abandon(round.frame);
                return self.settle();
            }
            at = Some(round.parent);
        }
        self.settle();
    }

    /// Returns the nearest frame around an activation whose exception settings catch failures inside it.
    pub fn catching(&self, activation: u32) -> Option<u32> {
        let mut scope = self.running.get(&activation)?.scope;
        while let Some(round) = self.scopes.get(&scope).and_then(|run| run.round.as_ref()) {
            let node = self.frames.get(&round.frame)?.node;
            if self.plan.nodes[node].exception.catches() {
                return Some(round.frame);
            }
            scope = round.parent;
        }
        None
    }

    /// Returns the reason and the outputs with which a frame that catches a failure is closed.
    pub(crate) fn broken(&self, activation: u32, failed: NodeIx, outputs: &Outputs) -> BrokenFrame {
        let node = &self.plan.nodes[failed];
        let id = if *node.name == *node.id.as_str() { String::new() } else { format!(" ({})", node.id) };
        let error = outputs.get(ERROR).map(|error| to_text(&error.snapshot())).unwrap_or_default();
        let own = self.frames.get(&activation).and_then(|frame| {
            self.scopes.get(&frame.scope)?.nodes[self.plan.nodes[frame.node].local].outputs.clone()
        });
        let reason = format!("{}{id} failed: {error}", node.name);
        BrokenFrame { reason, outputs: own.unwrap_or_default() }
    }

    /// Closes a frame in which something has failed; its exception settings determine what happens then.
    pub(crate) fn break_off(&mut self, activation: u32, broken: BrokenFrame) {
        self.clear(activation, Closed::Failed);
        if let Some(frame) = self.frames.get_mut(&activation) {
            frame.ended = true;
        }
        self.consequences.push_back(Consequence::FrameFailed(activation, broken));
        self.settle();
    }

    fn abandon(&mut self, activation: u32) {
        self.clear(activation, Closed::Left);
        if let Some(frame) = self.frames.get_mut(&activation) {
            frame.ended = true;
        }
        self.complete(activation);
    }

    /// Drops the rounds of a frame and stops everything under way in them.
    fn clear(&mut self, activation: u32, why: Closed) {
        let Some(frame) = self.frames.get_mut(&activation) else { return };
        // Taken first: what is cleared below must not open the next round.
        for scope in std::mem::take(&mut frame.live) {
            let inside: Vec<u32> =
                self.running.iter().filter(|(_, running)| running.scope == scope).map(|(&a, _)| a).collect();
            for inner in inside {
                // Innermost first, so that the ends of what is stopped follow each other from the inside out.
                self.clear(inner, why);
                self.drop_frame(inner);
                if let Some(running) = self.running.remove(&inner) {
                    self.working -= usize::from(running.works);
                }
                self.consequences.push_back(Consequence::Stop(inner, why));
            }
            self.drop_scope(scope);
        }
    }

    /// Removes a round; what its nodes produced stays readable from the enclosing scope.
    fn drop_scope(&mut self, scope: ScopeId) -> Option<RoundOf> {
        let plan = Arc::clone(&self.plan);
        let run = self.scopes.remove(&scope)?;
        self.forget_scope(&run);
        let round = run.round?;
        if let Some(parent) = self.scopes.get_mut(&round.parent) {
            let own = plan.scopes[run.plan_scope].nodes.iter().zip(run.nodes);
            let own = own.filter_map(|(&ix, state)| Some((ix, state.outputs?, state.bytes)));
            let deeper = run.past.into_iter().map(|(ix, past)| (ix, past.outputs, past.bytes));
            let (mut kept, mut let_go) = (0, 0);
            for (ix, outputs, bytes) in deeper.chain(own) {
                kept += bytes;
                let_go +=
                    parent.remember(ix, Past { frame: round.frame, round: round.index, outputs, bytes });
            }
            self.replace_bytes(let_go, kept);
        }
        Some(round)
    }
}
