//! The processes that work on the runs of a store.

use weft_macros::async_trait;

use crate::error::Result;
use crate::id::ProcessId;

/// Where a process runs, so that others on the same machine can check whether it still does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessPlace {
    /// The machine's name.
    pub host: String,
    /// Identifies the machine's current boot and the PID namespace: process ids are comparable only within one.
    pub boot: String,
    /// The process id.
    pub pid: u32,
    /// When the process started, in the system's own unit: process ids are reused.
    pub started: u64,
}

/// A process that has reported that it is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredProcess {
    /// The process.
    pub id: ProcessId,
    /// Where it runs, if known.
    pub place: Option<ProcessPlace>,
    /// Number of heartbeats. It involves no clock of the process: to find out whether a process has died, an observer
    /// watches by its own clock whether the number still grows.
    pub beat: i64,
}

/// Stores heartbeats of processes. Runs refer to their process, so one heartbeat covers all of its runs, and a run in
/// progress costs nothing here.
#[async_trait]
pub trait ProcessStore: Send + Sync {
    /// Records a heartbeat; the first one also registers the process.
    ///
    /// # Errors
    /// `Invalid` for an id that cannot be stored; when the store cannot be written.
    async fn beat(&self, id: &ProcessId, place: Option<&ProcessPlace>) -> Result<()>;

    /// Returns all registered processes, sorted by id.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list(&self) -> Result<Vec<StoredProcess>>;

    /// Removes a process that has not sent a heartbeat since `beat`, unless it has an unfinished run. Returns whether
    /// it was removed.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn forget(&self, id: &ProcessId, beat: i64) -> Result<bool>;
}
