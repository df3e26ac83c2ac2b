//! Suspends activations until a person has answered: those that ask, and those that were listening to them.

use std::sync::Arc;

use weft_core::component::Finished;
use weft_core::journal::{NextEdges, WaitingForm};
use weft_core::{ErrorKind, Record};

use super::RunDriver;
use super::conclude::Onward;
use crate::perform::{ActivationOutcome, NodeResult};

impl RunDriver<'_> {
    /// Whether a listener ended because the text it reads broke off while its writer is still at work: only
    /// the writer's end tells why.
    pub(super) fn was_cut_off(&self, outcome: &ActivationOutcome) -> bool {
        // A text that breaks off is `Cancelled` for its readers, whatever its writer ends with.
        let broken = outcome.result.as_ref().is_err_and(|error| error.kind == ErrorKind::Cancelled);
        let at_work = |writer: &u32| !self.held.iter().any(|held| held.activation == *writer);
        broken && self.active.keys().any(|writer| at_work(writer) && self.hears(outcome.activation, *writer))
    }

    fn hears(&self, listener: u32, writer: u32) -> bool {
        let alternative = self.active.get(&listener).map(|active| active.alternative);
        alternative.is_some_and(|alternative| self.machine.hears(listener, alternative, writer))
    }

    /// Returns the suspension of an activation that asks a person, or that was listening to one that does;
    /// `None` when it has really ended.
    pub(super) fn suspension_of(&self, outcome: &mut ActivationOutcome) -> Option<NodeResult> {
        let activation = outcome.activation;
        let suspended = outcome.result.as_mut().ok().and_then(|finished| finished.suspended.take());
        let mut waiting = self.held.iter().filter(|held| held.onward == NextEdges::Suspended);
        if suspended.is_none() && !waiting.any(|writer| self.hears(activation, writer.activation)) {
            return None;
        }
        let finished = Finished { suspended, ..Finished::default() };
        Some(NodeResult { activation, finished, onward: NextEdges::Suspended, error: None })
    }

    /// Reopens Iterations and Loops that were open when the run paused: each run records the start and the
    /// end of what it works on.
    pub(super) fn reopen_frames(&mut self) {
        for activation in std::mem::take(&mut self.reopens) {
            if let Some((who, _)) = self.machine.who(activation) {
                self.journal.note(Record::NodeStarted { who });
                self.ensure_active(activation);
            }
        }
    }

    /// Suspends the Iterations and Loops that are open while the run waits, innermost first.
    fn suspend_frames(&mut self) {
        let open: Vec<_> = self.machine.frames.keys().rev().copied().collect();
        for activation in open {
            self.ensure_active(activation);
            if let Some(active) = self.active.remove(&activation) {
                self.note_finished(*active, &Arc::default(), None, Onward::along(&NextEdges::Suspended));
            }
        }
    }

    /// Suspends the work, and returns the forms of the waiting nodes.
    pub(super) fn ask_people(&mut self) -> Vec<WaitingForm> {
        self.suspend_frames();
        self.machine.note_asked(&self.context.run, self.context.seams.clock.now_ms());
        let forms = self.forms();
        if !forms.is_empty() {
            self.journal.note(Record::Waiting { forms: forms.clone() });
        }
        forms
    }

    /// Returns the forms of the waiting nodes.
    fn forms(&self) -> Vec<WaitingForm> {
        let waiting = self.machine.waiting_nodes().into_iter();
        let mut forms: Vec<_> = waiting.map(|place| self.machine.waiting_form(place)).collect();
        if let Some((node, message)) = &self.machine.unused
            && let Some(waiting) = forms.iter_mut().find(|waiting| waiting.node == *node)
        {
            let tips = waiting.form.tips.get_or_insert_default();
            tips.push('\n');
            tips.push_str(message);
        }
        forms
    }

    /// Suspends an activation.
    pub(super) fn finish_suspended(&mut self, settled: NodeResult) {
        let activation = settled.activation;
        let Some(mut active) = self.end_activation(activation) else { return };
        active.suspension = settled.finished.suspended.clone();
        let (alternative, spoken) = (active.alternative, active.speech.spoken());
        // A listener begins its work anew, and a recording counts that work as one activation.
        if active.suspension.is_none() {
            self.ledger.requeue(&active.who);
        }
        self.note_finished(active, &Arc::default(), None, Onward::along(&NextEdges::Suspended));
        match settled.finished.suspended {
            Some(suspension) => self.machine.suspend(activation, *suspension, alternative, spoken),
            None => self.machine.requeue(activation, spoken),
        }
        self.follow();
    }
}
