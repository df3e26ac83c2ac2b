//! Counters of an engine's runs, for whoever operates the process.

use weft_core::counts::{Counter, Counts, Success};
use weft_core::{Ending, Record};

/// Counters of stored runs, and of the tools they call, since the engine was created.
#[derive(Debug, Default)]
pub struct RunCounts {
    /// Runs that started here.
    pub started: Counter,
    /// Runs that were interrupted or forked, and resumed here.
    pub picked_up: Counter,
    /// Runs that ended here, by ending.
    pub ended: Counts<Ending>,
    /// Tool calls made by agents.
    pub tools: Counts<Success>,
}

impl RunCounts {
    /// Counts records once they are stored, so that repeated work is not counted twice.
    pub(crate) fn note(&self, record: &Record) {
        match record {
            Record::RunStarted { .. } => self.started.add(1),
            Record::PickedUp { .. } => self.picked_up.add(1),
            Record::RunFinished { ending, .. } => self.ended.add(*ending, 1),
            Record::ToolFinished { call, .. } => {
                self.tools.add(if call.failed { Success::Failed } else { Success::Succeeded }, 1);
            }
            _ => {}
        }
    }
}
