//! What a library counts of the work on its documents, for whoever looks after the process.

use weft_core::counts::{Counts, Label, Success};
use weft_core::seam::ingest_queue::IngestOutcome;

/// How the work on a document has ended, for now or for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IngestEnding {
    /// Its new chunks are found.
    Done,
    /// It cannot be read.
    Failed,
    /// It was tried too often.
    Abandoned,
    /// It is tried again later.
    PutOff,
    /// Somebody wanted it to stop.
    Stopped,
    /// Its worker had to go.
    Released,
    /// Another worker has it, or it is gone.
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

/// What has become of the work of this process on documents.
#[derive(Debug, Default)]
pub struct IngestCounts {
    /// Documents that were read, by how that has ended.
    pub documents: Counts<IngestEnding>,
    /// Datasets that were to get new vectors, by whether they are searched by them.
    pub reembeddings: Counts<Success>,
}
