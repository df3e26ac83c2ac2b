//! Ends activations: applies their assignments, determines whether their failure fails the run, records their
//! end, and checks whether the run has grown too large.

use std::sync::Arc;

use weft_core::journal::NextEdges;
use weft_core::{Assignment, Error, ErrorKind, Outputs, Record, Result};

use super::{RunDriver, RunningActivation};
use crate::assign::VariableChanges;
use crate::machine::FinishedActivation;
use crate::perform::{ActivationOutcome, NodeResult, failed_with, settle, settled_inputs, too_much};

/// What an activation passes on to its successors.
#[derive(Clone, Copy)]
pub(super) struct Onward<'a> {
    pub(super) edges: &'a NextEdges,
    pub(super) assigned: &'a [Assignment],
}

impl<'a> Onward<'a> {
    /// The edges it continues along, with nothing assigned.
    pub(super) fn along(edges: &'a NextEdges) -> Self {
        Self { edges, assigned: &[] }
    }
}

impl RunDriver<'_> {
    /// Computes the values that an activation's assignments produce. An assignment that cannot be applied
    /// fails its node.
    pub(super) fn changes(&self, settled: &mut NodeResult) -> VariableChanges {
        if settled.finished.assigned.is_empty() {
            return VariableChanges::default();
        }
        let activation = settled.activation;
        let assigned = &settled.finished.assigned;
        let (text_max, values_max) = (self.limits.output_bytes, self.limits.values_bytes);
        let changes = self.machine.changes(activation, assigned, text_max, values_max).and_then(|changes| {
            // Checked before the changes are made, so that a value which is too large fails its node and
            // leaves the values as they were.
            let bytes = self.machine.held_bytes().saturating_add(self.machine.growth(&changes));
            if bytes > self.limits.values_bytes {
                return Err(too_much(self.limits.values_bytes));
            }
            Ok(changes)
        });
        // Through the node's exception settings: to the canvas, a failed assignment is a failure of its node.
        changes.unwrap_or_else(|error| {
            if let Some(active) = self.active.get(&activation) {
                *settled = settle(
                    &self.plan.nodes[active.node],
                    ActivationOutcome { activation, result: Err(error) },
                );
            }
            VariableChanges::default()
        })
    }

    /// Ends an activation. Returns the error if the run fails with it.
    pub(super) fn conclude(&mut self, settled: NodeResult, changes: VariableChanges) -> Result<()> {
        // Asked before the machine drops the activation: afterwards it is not known which frames are around it.
        let failure = self.failure(&settled);
        self.failed |= failure.is_some();
        self.finish(settled, changes);
        failure.map_or(Ok(()), Err)
    }

    /// Records the end of an activation and passes its results to the machine for the nodes behind it.
    fn finish(&mut self, settled: NodeResult, changes: VariableChanges) {
        if settled.onward == NextEdges::Suspended {
            self.finish_suspended(settled);
            return;
        }
        let Some(active) = self.end_activation(settled.activation) else { return };
        let outputs = Arc::new(settled.finished.outputs);
        let assigned = settled.finished.assigned;
        self.last = Arc::clone(&outputs);
        self.note_finished(
            active,
            &outputs,
            settled.error.as_ref(),
            Onward { edges: &settled.onward, assigned: &assigned },
        );
        let done = FinishedActivation { outputs, onward: settled.onward, changes };
        self.machine.finished(settled.activation, done);
        self.follow();
    }

    /// Removes an activation from those under way.
    pub(super) fn end_activation(&mut self, activation: u32) -> Option<RunningActivation> {
        self.speakers.leave(activation);
        self.active.remove(&activation).map(|active| *active)
    }

    /// Records the end of an activation that is no longer among those under way, and closes what it left
    /// open: calls and sources.
    pub(super) fn note_finished(
        &mut self,
        active: RunningActivation,
        outputs: &Arc<Outputs>,
        error: Option<&Error>,
        onward: Onward<'_>,
    ) {
        self.end_calls(&active);
        self.note_sources();
        let spent = active.budget.map(|budget| budget.own_without_time()).unwrap_or_default();
        self.machine.spent += spent;
        self.journal.note(Record::NodeFinished {
            inputs: settled_inputs(&active.named),
            who: active.who,
            outputs: Arc::clone(outputs),
            error: error.map(|error| error.full().into()),
            elapsed: active.began.elapsed().as_secs_f64(),
            route: onward.edges.clone(),
            assigned: onward.assigned.to_vec(),
            suspension: active.suspension,
            spent,
        });
    }

    /// Returns why the run fails with this activation, if it does: when neither the settings of its node nor
    /// those of an enclosing frame catch the error.
    fn failure(&self, settled: &NodeResult) -> Option<Error> {
        let error = settled.error.as_ref().filter(|_| settled.onward == NextEdges::None)?;
        if self.machine.catching(settled.activation).is_some() {
            return None;
        }
        let who = &self.active.get(&settled.activation)?.who;
        Some(Error::new(error.kind, failed_with(who, &error.full())))
    }

    /// Checks that the run is still within its limits. What a single activation produces was checked before;
    /// this covers what rounds collect, what messages say, and the journal.
    pub(super) fn check_size(&self) -> Result<()> {
        let limits = &self.limits;
        if self.machine.held_bytes().saturating_add(self.said.bytes()) > limits.values_bytes {
            return Err(too_much(limits.values_bytes));
        }
        if self.journal.bytes() > limits.journal_bytes {
            let message = format!("the journal of the run is larger than {} bytes", limits.journal_bytes);
            return Err(Error::new(ErrorKind::QuotaExceeded, message)
                .help("go over fewer items, keep outputs smaller, or raise limits.journal_bytes"));
        }
        Ok(())
    }
}
