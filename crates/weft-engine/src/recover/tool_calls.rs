//! The calls of tools that a journal tells of.

use std::sync::Arc;

use weft_core::context::{ToolFinished, ToolStarted};

use super::JournalReader;

impl JournalReader {
    pub(super) fn call_started(&mut self, activation: u32, call: &ToolStarted) {
        if let Some(open) = self.active.get_mut(&activation) {
            open.calls.push(call.clone());
        }
    }

    pub(super) fn call_finished(&mut self, activation: u32, call: &ToolFinished) {
        let Some(open) = self.active.get_mut(&activation) else { return };
        // What was cut off then is made again, or told as interrupted, by the work that begins again.
        if activation >= self.lives_from {
            self.all.calls.note(&self.all.machine.plan.nodes[open.place.1], call);
        }
        open.calls.retain(|started| *started != call.started);
        open.before.told.insert((Arc::clone(&call.started.path), Arc::clone(&call.started.call)));
    }
}
