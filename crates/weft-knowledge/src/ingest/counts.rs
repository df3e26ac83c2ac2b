//! Counters of a library's work on documents, for whoever operates the process.

use weft_core::counts::{Counts, Label, Success};
use weft_core::seam::ingest_queue::IngestOutcome;

/// How work on a document ended, whether temporarily or for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IngestEnding {
    /// Its new chunks can be found.
    Done,
    /// The file cannot be read.
    Failed,
    /// It was attempted too often.
    Abandoned,
    /// It will be attempted again later.
    PutOff,
    /// It was stopped on request.
    Stopped,
    /// Its worker had to stop.
    Released,
    /// Another worker has it, or it was removed.
    Lost,
}

impl Label for IngestEnding {
    const ALL: &'static [Self] =
        &[Self::Done, Self::Failed, Self::Abandoned, Self::PutOff, Self::Stopped, Self::Released, Self::Lost];

    fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Abandoned => "abandoned",
            Self::PutOff => "put_off",
            Self::Stopped => "stopped",
            Self::Released => "released",
            Self::Lost => "lost",
        }
    }
}

impl From<&IngestOutcome> for IngestEnding {
    fn from(outcome: &IngestOutcome) -> Self {
        match outcome {
            IngestOutcome::Done { .. } => Self::Done,
            IngestOutcome::Failed { .. } => Self::Failed,
            IngestOutcome::Abandoned { .. } => Self::Abandoned,
            IngestOutcome::RetryAt { .. } => Self::PutOff,
            IngestOutcome::Stopped => Self::Stopped,
            IngestOutcome::Released => Self::Released,
        }
    }
}

/// Outcomes of this process's work on documents.
#[derive(Debug, Default)]
pub struct IngestCounts {
    /// Documents that were processed, by outcome.
    pub documents: Counts<IngestEnding>,
    /// Datasets that were to get new vectors, by whether they are searched by them.
    pub reembeddings: Counts<Success>,
}
