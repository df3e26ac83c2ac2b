//! Decides which activation starts next, and with which inputs.

use std::sync::Arc;

use weft_core::component::Role;
use weft_core::context::Round;
use weft_dsl::plan::{NodeIx, Plan, PlanNode};

use crate::machine::{ActivationStart, Machine, RunningNode};
use crate::scope::{EdgeState, Filled, ScopeId, ScopeRun, Status};

/// The run has started as many activations as it may.
#[derive(Debug, PartialEq)]
pub struct OutOfActivations;

impl Machine {
    /// Returns the next activation that may start, if there is one and a slot is free.
    ///
    /// # Errors
    /// When the run has used up its activations.
    pub fn next_start(&mut self) -> Result<Option<ActivationStart>, OutOfActivations> {
        if self.ready.is_empty() && self.in_line.is_empty() {
            return Ok(None);
        }
        let plan = Arc::clone(&self.plan);
        loop {
            let free = self.working < self.limits.at_once;
            // Queued nodes go first; otherwise nodes that keep becoming ready would starve them.
            let first = if free { self.in_line.pop_front() } else { None };
            let Some((scope, ix)) = first.or_else(|| self.ready.pop_front()) else { return Ok(None) };
            let node = &plan.nodes[ix];
            // Its round may have been closed while it was queued.
            let Some(run) = self.scopes.get_mut(&scope) else { continue };
            let state = &mut run.nodes[node.local];
            // Whatever happens next, it has left the queue: whatever reaches it from here on queues it again.
            state.queued = false;
            let asks = node.role == Role::Pause && state.status != Status::Resuming;
            // A node that was ready when it was queued need not be ready now: a loop may have come round and
            // opened its edges again.
            let Some(alternative) = self.can_start(scope, node) else { continue };
            if asks && !self.filled.contains_key(&(scope, ix)) {
                self.wait_for_form(scope, ix);
                continue;
            }
            if works(node) && !free {
                self.mark_queued(scope, node.local);
                self.in_line.push_back((scope, ix));
                continue;
            }
            // Not earlier: a node that only stops to ask, or is queued, has not started anything that counts.
            if self.allowance == 0 {
                return Err(OutOfActivations);
            }
            return Ok(Some(self.begin(scope, ix, alternative)));
        }
    }

    pub(crate) fn mark_queued(&mut self, scope: ScopeId, local: usize) {
        if let Some(run) = self.scopes.get_mut(&scope) {
            run.nodes[local].queued = true;
        }
    }

    fn begin(&mut self, scope: ScopeId, ix: NodeIx, alternative: usize) -> ActivationStart {
        let plan = Arc::clone(&self.plan);
        let node = &plan.nodes[ix];
        let works = works(node);
        let activation = self.next_activation;
        self.next_activation += 1;
        self.allowance -= 1;
        self.working += usize::from(works);
        let (inputs, named) = self.inputs(scope, node, alternative);
        let (mut suspended, mut spoken, mut took) = (None, None, Vec::new());
        if let Some(run) = self.scopes.get_mut(&scope) {
            run.change(node.local, |state| {
                suspended = state.suspended.take();
                spoken = state.spoken.take();
                state.status = Status::Running(activation);
                state.asked = None;
                state.published = None;
                // A resumed node has been started already: whatever has reached it since then is for its next start.
                if suspended.is_none() {
                    state.pending = false;
                    state.excused = false;
                }
            });
            if suspended.is_none() {
                // Not for resumed work: it used up its edges when it first started.
                took = take_edges(run, &plan, ix);
                self.await_again(scope, ix);
            }
        }
        if suspended.is_some() {
            self.weigh_node(scope, node.local);
        }
        self.running.insert(activation, RunningNode { scope, node: ix, works, took });
        let (Filled { values: filled, timed_out }, resumed) = match suspended {
            Some(suspended) => {
                (Filled { values: suspended.answers, timed_out: false }, Some(suspended.state))
            }
            None => (self.filled.remove(&(scope, ix)).unwrap_or_default(), None),
        };
        let who = self.name(activation, scope, ix);
        let heard = !node.listeners.is_empty();
        let (round, spoken) = (self.round(scope), spoken.map(|spoken| *spoken).unwrap_or_default());
        ActivationStart {
            who,
            node: ix,
            inputs,
            named,
            alternative,
            round,
            filled,
            timed_out,
            resumed,
            spoken,
            heard,
        }
    }

    /// Successors that have not started since the node last finished wait for its new result.
    fn await_again(&mut self, scope: ScopeId, ix: NodeIx) {
        let Some(run) = self.scopes.get_mut(&scope) else { return };
        let mut reopened = Vec::new();
        for &edge in &self.plan.nodes[ix].outs {
            if run.edges[edge] == EdgeState::Fresh {
                run.edges[edge] = EdgeState::Again;
                reopened.push(self.plan.scopes[run.plan_scope].edges[edge].to);
            }
        }
        for target in reopened {
            self.recount_pending(scope, target);
        }
    }

    fn round(&self, scope: ScopeId) -> Option<Round> {
        let round = self.scopes.get(&scope)?.round.as_ref()?;
        Some(Round { index: round.index, item: round.item.clone() })
    }
}

/// Whether a node takes one of the slots for concurrent nodes. Listeners do not: they would queue behind the
/// very node they listen to. Frames do not: their bodies do.
fn works(node: &PlanNode) -> bool {
    !node.shape.listens && !matches!(node.role, Role::Each | Role::Repeat | Role::RoundStart)
}

/// Marks the edges that have fired as used up, because the node starts. For a listener these are the edges it
/// is about to read.
fn take_edges(run: &mut ScopeRun, plan: &Plan, ix: NodeIx) -> Vec<usize> {
    let shape = &plan.scopes[run.plan_scope];
    let closing = shape.loops.iter().any(|region| region.header == ix);
    let mut taken = Vec::new();
    let mut take = |edge: usize| {
        run.edges[edge] = match run.edges[edge] {
            EdgeState::Fresh => EdgeState::Fired,
            EdgeState::Early => EdgeState::EarlyTaken,
            _ => return,
        };
        // A listener that is requeued has to get them back.
        if plan.nodes[ix].shape.listens {
            taken.push(edge);
        }
    };
    plan.nodes[ix].ins.iter().copied().for_each(&mut take);
    if closing {
        (0..shape.edges.len()).filter(|&e| shape.edges[e].to == ix).for_each(take);
    }
    taken
}
