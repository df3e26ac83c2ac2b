//! What a run that was cut off has used of models.

use std::sync::Arc;

use weft_core::Record;
use weft_core::usage::{self, UsedModel};

use super::Reading;

impl Reading {
    /// A model was used. What the run whose beginning this one shares has used for that counts there.
    pub(super) fn used(&mut self, record: &Record) {
        let Record::ModelUsed { activation, usage, model, micros, .. } = record else { return };
        self.all.usage += *usage;
        let open = self.active.get(activation).filter(|_| self.all.seq > self.shared_to);
        if let Some(open) = open {
            let used = UsedModel { model: Arc::clone(model), usage: *usage, micros: *micros };
            usage::add(&mut self.all.uses, &open.who.node, &used);
        }
    }
}
