//! What an interrupted run has used: models and time.

use std::sync::Arc;

use weft_core::Record;
use weft_core::usage::{self, UsedModel};

use super::{JournalReader, span};

impl JournalReader {
    /// Counts the use of a model. What the run whose beginning this one shares used for that beginning is
    /// counted there.
    pub(super) fn used(&mut self, record: &Record) {
        let Record::ModelUsed { activation, usage, model, micros, .. } = record else { return };
        self.all.usage += *usage;
        let open = self.active.get(activation).filter(|_| self.all.seq > self.shared_to);
        if let Some(open) = open {
            let used = UsedModel { model: Arc::clone(model), usage: *usage, micros: *micros };
            usage::add(&mut self.all.uses, &open.who.node, &used);
        }
    }

    /// Counts the time worked up to the last entry, when the process ended. A clock that was set back
    /// subtracts nothing.
    pub(super) fn end_life(&mut self) {
        let last_ms = self.last_ms;
        if let Some(began_ms) = self.began_ms.take() {
            self.all.spent.millis += span(began_ms, last_ms);
        }
        // Each activation has its own time limit, which covers all processes that worked on it.
        for open in self.active.values_mut() {
            open.before.millis += span(open.began_ms, last_ms);
        }
    }
}
