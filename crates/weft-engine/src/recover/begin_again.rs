//! Requeues the work that was under way when a run was interrupted.

use std::sync::Arc;

use weft_core::component::Role;

use super::ScopedNode;
use crate::machine::{Machine, RunningNode};
use crate::output_dedup::SaidSoFar;
use crate::scope::{EdgeState, Filled, Status, SuspendedNode};

impl Machine {
    /// Returns the scope and node of a running activation.
    pub(crate) fn place(&self, activation: u32) -> Option<ScopedNode> {
        self.running.get(&activation).map(|running| (running.scope, running.node))
    }

    /// Whether an interrupted node may still begin again: it is neither finished nor suspended until a person
    /// has answered.
    pub(crate) fn may_come(&self, place: ScopedNode) -> bool {
        let (scope, node) = place;
        let local = self.plan.nodes[node].local;
        self.scopes.get(&scope).is_some_and(|run| {
            !matches!(run.nodes[local].status, Status::Done | Status::Skipped | Status::Suspended)
        })
    }

    /// Requeues an interrupted activation: whatever let it start the first time still holds.
    pub(super) fn begin_again(
        &mut self,
        activation: u32,
        spoken: SaidSoFar,
        suspended: Option<SuspendedNode>,
        filled: Option<Filled>,
    ) {
        self.stop_speaking(activation);
        let Some(RunningNode { scope, node, works, took }) = self.running.remove(&activation) else { return };
        self.working -= usize::from(works);
        let plan = Arc::clone(&self.plan);
        // What a person has filled in is not asked for again.
        if let Some(filled) = filled.filter(|_| plan.nodes[node].role == Role::Pause) {
            self.filled.insert((scope, node), filled);
        }
        let Some(run) = self.scopes.get_mut(&scope) else { return };
        // Writers that have not finished are interrupted as well, and will write again.
        for edge in took {
            run.edges[edge] = match run.edges[edge] {
                EdgeState::EarlyTaken => EdgeState::Open,
                EdgeState::Fired => EdgeState::Fresh,
                other => other,
            };
        }
        let heard = plan.nodes[node].ins.iter().any(|&edge| run.edges[edge] == EdgeState::Fresh);
        let listens = plan.nodes[node].shape.listens;
        run.change(plan.nodes[node].local, |state| {
            state.spoken = (!spoken.is_empty()).then(|| Box::new(spoken));
            // A listener waits for the nodes that wrote what it heard; other nodes wait for nothing. What has
            // reached a node in the middle of its work since then is for its next start.
            if suspended.is_none() {
                state.pending = !listens || heard;
            }
            state.status = if suspended.is_some() { Status::Resuming } else { Status::Waiting };
            state.suspended = suspended.map(Box::new);
        });
        self.weigh_node(scope, plan.nodes[node].local);
        self.work.push_back((scope, node));
    }
}
