//! What an engine counts of its runs, for whoever looks after the process.

use weft_core::counts::{Counter, Counts, Success};
use weft_core::{Ending, Record};

/// What has become of stored runs, and of the tools that they call, since the engine was made.
#[derive(Debug, Default)]
pub struct RunCounts {
    /// Runs that began here.
    pub started: Counter,
    /// Runs that were cut off, or forked, and went on here.
    pub picked_up: Counter,
    /// Runs that ended here, by how.
    pub ended: Counts<Ending>,
    /// Calls of tools that agents have made.
    pub tools: Counts<Success>,
}

impl RunCounts {
    /// Counts what has been written down, so what is done again is not counted again.
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
