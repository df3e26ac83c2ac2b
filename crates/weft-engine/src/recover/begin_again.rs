//! Work that was under way when a run was cut off, put back so that it begins again.

use std::sync::Arc;

use weft_core::component::Role;

use super::ScopedNode;
use crate::machine::{Machine, RunningNode};
use crate::output_dedup::SaidSoFar;
use crate::scope::{EdgeState, Filled, Status, SuspendedNode};

impl Machine {
    /// Where an activation under way is.
    pub(crate) fn place(&self, activation: u32) -> Option<ScopedNode> {
        self.running.get(&activation).map(|running| (running.scope, running.node))
    }

    /// Whether a node that was cut off may still begin again: it is neither over nor put off until a person
    /// has answered.
    pub(crate) fn may_come(&self, place: ScopedNode) -> bool {
        let (scope, node) = place;
        let local = self.plan.nodes[node].local;
        self.scopes.get(&scope).is_some_and(|run| {
            !matches!(run.nodes[local].status, Status::Done | Status::Skipped | Status::Suspended)
        })
    }

    /// An activation that was cut off begins again: whatever let it start the first time still holds.
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
        // What a person filled in is not asked for twice.
        if let Some(filled) = filled.filter(|_| plan.nodes[node].role == Role::Pause) {
            self.filled.insert((scope, node), filled);
        }
        let Some(run) = self.scopes.get_mut(&scope) else { return };
        // Whoever is not the last to write is cut off as well, and will write again.
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
            // A listener waits for those that wrote what it heard; nobody else waits for anything.
            // What has reached a node in the middle of its work since is for later.
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
