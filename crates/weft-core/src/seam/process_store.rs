//! The processes that work on the runs of a store.

use async_trait::async_trait;

use crate::error::Result;
use crate::id::ProcessId;

/// Where a process runs, so that others of the same machine can see whether it still does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessPlace {
    /// The machine's name.
    pub host: String,
    /// The machine's current start, and the space of process numbers: numbers mean the same only within one.
    pub boot: String,
    /// The process number.
    pub pid: u32,
    /// When the process began, in the system's own count: numbers are used again.
    pub started: u64,
}

/// A process that said that it is at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredProcess {
    /// The process.
    pub id: ProcessId,
    /// Where, as far as that is known.
    pub place: Option<ProcessPlace>,
    /// How often it has said so. Nobody's clock is in it: who wants to know whether the process has fallen
    /// silent watches whether the number still grows, by a clock of their own.
    pub beat: i64,
}

/// Where processes say that they are at work. Runs name their process, so one word for all of them is enough,
/// and a run under way costs nothing here.
#[async_trait]
pub trait ProcessStore: Send + Sync {
    /// Says that a process is at work; the first time also who it is.
    ///
    /// # Errors
    /// `Invalid` for an id that cannot be stored; when the store cannot be written.
    async fn beat(&self, id: &ProcessId, place: Option<&ProcessPlace>) -> Result<()>;

    /// All that have said so and were not forgotten, by id.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list(&self) -> Result<Vec<StoredProcess>>;

    /// Forgets a process that has not said anything since `beat`, unless it has a run that has not ended.
    /// Whether it was forgotten.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn forget(&self, id: &ProcessId, beat: i64) -> Result<bool>;
}
