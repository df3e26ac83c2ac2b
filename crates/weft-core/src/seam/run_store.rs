//! Storage of runs and their journals.

use std::sync::Arc;
use std::time::Duration;

use weft_macros::async_trait;

use crate::budget::Spent;
use crate::ending::Ending;
use crate::error::{Error, ErrorKind, Result};
use crate::id::{CanvasId, ProcessId, RunId, RunKey, SessionId, TenantId};
use crate::usage::ModelUse;

/// A run, without its journal.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRun {
    /// Its tenant and id.
    pub key: RunKey,
    /// The conversation it is part of.
    pub session: SessionId,
    /// The canvas that runs.
    pub canvas: CanvasId,
    /// The question, truncated to a readable length.
    pub query: String,
    /// How it ended; absent while it runs and after a crash.
    pub ending: Option<Ending>,
    /// When it started, in milliseconds since 1970.
    pub started_ms: i64,
    /// When it ended, in milliseconds since 1970.
    pub finished_ms: Option<i64>,
    /// The fencing token. It grows with every process that takes the run over, and stays when the run has ended.
    pub fence: i64,
    /// The process that works on it, or did last. Absent: it was released, and any process may take it.
    pub owner: Option<ProcessId>,
    /// When its cancellation was requested, in milliseconds since 1970. Whichever process works on it obeys.
    pub cancel_ms: Option<i64>,
    /// Whether it should make way for the next question of its session.
    pub give_way: GiveWay,
}

impl StoredRun {
    /// Creates a run that has just begun, without a question, which no process works on yet.
    pub fn begun(
        key: RunKey,
        session: impl Into<SessionId>,
        canvas: impl Into<CanvasId>,
        started_ms: i64,
    ) -> Self {
        Self {
            key,
            session: session.into(),
            canvas: canvas.into(),
            query: String::new(),
            ending: None,
            started_ms,
            finished_ms: None,
            fence: RunLease::FIRST,
            owner: None,
            cancel_ms: None,
            give_way: GiveWay::default(),
        }
    }
}

/// Whether a run should make way for the next question of its session, as communicated between processes. Both counts
/// only grow: an observer needs no clock, and a request that is not repeated loses its meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GiveWay {
    /// Number of times that a question waiting in another process has asked for it.
    pub asked: i64,
    /// Number of times that a reader in another process has answered that it listens to the run.
    pub listened: i64,
}

/// A message about whether a run should make way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveWayWord {
    /// A question waits for the run.
    Asked,
    /// A client listens to it.
    Listened,
}

/// What other processes request of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRequest {
    /// The run.
    pub run: RunKey,
    /// Whether it should stop unconditionally.
    pub cancel: bool,
    /// Whether it should stop if no client listens to it.
    pub give_way: GiveWay,
}

/// A process's right to write to a run, with the fencing token it was granted. A writer with an older token than the
/// run's is refused, no matter how long ago it was superseded, and even after the run has ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunLease {
    /// The run.
    pub run: RunKey,
    /// The fencing token of the run when it was taken.
    pub fence: i64,
}

impl RunLease {
    /// The fencing token of the process that creates a run.
    pub const FIRST: i64 = 1;

    /// Returns the lease of the process that created a run.
    pub fn first(run: &RunKey) -> Self {
        Self { run: run.clone(), fence: Self::FIRST }
    }

    /// Returns the lease that matches a stored run.
    pub fn of(run: &StoredRun) -> Self {
        Self { run: run.key.clone(), fence: run.fence }
    }
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedRun {
    /// How it ended.
    pub ending: Ending,
    /// When it ended, in milliseconds since 1970.
    pub at_ms: i64,
    /// Its total usage, and the day (days since 1970, in UTC) to which that is charged, as by
    /// [`crate::seam::SpendingStore::note`]. Absent: nothing is recorded.
    pub spent: Option<(i64, Spent)>,
    /// Its usage of models, recorded in [`crate::seam::UsageStore`] for the day on which it ends.
    pub uses: Vec<ModelUse>,
}

impl FinishedRun {
    /// Creates an end without any usage.
    pub fn new(ending: Ending, at_ms: i64) -> Self {
        Self { ending, at_ms, spent: None, uses: Vec::new() }
    }
}

/// A journal entry as stored: its numbers, and the record as JSON text.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEntry {
    /// Position in the journal, counted from 1.
    pub seq: u64,
    /// Event number, if clients see it.
    pub event: Option<u64>,
    /// When it was written, in milliseconds since 1970.
    pub at_ms: i64,
    /// A [`crate::journal::Record`] as JSON.
    pub record: Arc<str>,
}

/// Which runs to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFilter {
    /// Of one session.
    pub session: Option<SessionId>,
    /// Only those without an ending.
    pub unfinished: bool,
    /// Only those after this position in the list, given as a start time and an id.
    pub after: Option<(i64, RunId)>,
    /// How many to skip.
    pub offset: u64,
    /// Maximum number to return.
    pub limit: u64,
}

/// Which runs are retained. A run that either rule excludes may be removed; without rules all are retained.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Retention {
    /// Those that ended at this time or later, in milliseconds since 1970.
    pub ended_before_ms: Option<i64>,
    /// The newest ones of each session, up to this number.
    pub per_session_max: Option<u64>,
}

/// Stores runs and their journals.
#[async_trait]
pub trait RunStore: Send + Sync {
    /// Creates a run before its first entry. A session has at most one run that has not ended: of several processes
    /// that continue a session concurrently, only one succeeds.
    ///
    /// # Errors
    /// `Conflict` when the id is taken, or when the session has a run that has not ended; the message names that run.
    async fn create(&self, run: &StoredRun) -> Result<()>;

    /// Like [`RunStore::create`], for a run of a stored session, provided that the session is at this revision.
    /// Returns whether it is; if not, nothing was stored. From then on, nothing else changes the session until the
    /// run ends.
    ///
    /// # Errors
    /// As [`RunStore::create`].
    async fn announce(&self, run: &StoredRun, revision: i64) -> Result<bool>;

    /// Appends entries, all or none; they are durable when the call returns. The first `seq` must be one more than
    /// the last stored one. Entries of different runs may share one write.
    ///
    /// # Errors
    /// `Conflict` when another process has taken the run over since, even if it has ended the run in the meantime,
    /// and when the numbers are not consecutive: this is how a writer notices that it no longer owns the run.
    /// Otherwise fails when the store cannot be written. Nothing was written then.
    async fn append(&self, lease: &RunLease, entries: Vec<StoredEntry>) -> Result<()>;

    /// Like [`RunStore::append`], for pieces of text, which only a reader waits for: a store may collect the pieces
    /// of concurrent runs for up to 50 milliseconds and write them together.
    ///
    /// # Errors
    /// As [`RunStore::append`].
    async fn append_text(&self, lease: &RunLease, entries: Vec<StoredEntry>) -> Result<()> {
        self.append(lease, entries).await
    }

    /// Takes over a run that has not ended and whose fencing token is `seen`. From then on it has the next token and
    /// belongs to `by`, and everything done with an older token is refused. Of several concurrent callers, only one
    /// succeeds.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn claim(&self, run: &RunKey, seen: i64, by: &ProcessId) -> Result<Option<RunLease>>;

    /// Releases runs: they belong to no process, and any process may take them immediately. Runs that have ended, do
    /// not exist or belong to another process by now are ignored.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn release(&self, leases: &[RunLease]) -> Result<()>;

    /// Records a request to stop a run. Returns whether the run has not ended; the first request counts.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn request_cancel(&self, run: &RunKey, now_ms: i64) -> Result<bool>;

    /// Counts a message about whether a run that has not ended should make way. Returns whether there is such a run.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn say_of_giving_way(&self, run: &RunKey, word: GiveWayWord) -> Result<bool>;

    /// Returns the unfinished runs of a process whose cancellation was requested, or that have ever been asked to
    /// make way.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn requests(&self, owner: &ProcessId) -> Result<Vec<RunRequest>>;

    /// Returns unfinished runs of all tenants that belong to no process, to one of these processes, or to an unknown
    /// one; oldest first, up to `count_max`.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn unattended(&self, gone: &[ProcessId], count_max: u64) -> Result<Vec<StoredRun>>;

    /// Records how the run ended and what it used, atomically. A failure is also queued as a notice; see
    /// [`crate::seam::NoticeStore`].
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when another process has taken the run over since.
    async fn finish(&self, lease: &RunLease, finished: FinishedRun) -> Result<()>;

    /// Appends the last entries of a run, then records how it ended. A store that can does both in one transaction.
    ///
    /// # Errors
    /// As [`RunStore::append`]; then the end is not recorded either. The inner result fails as [`RunStore::finish`],
    /// with the entries appended.
    async fn end(
        &self,
        lease: &RunLease,
        entries: Vec<StoredEntry>,
        finished: FinishedRun,
    ) -> Result<Result<()>> {
        self.append(lease, entries).await?;
        Ok(self.finish(lease, finished).await)
    }

    /// Returns a run.
    ///
    /// # Errors
    /// `NotFound`.
    async fn get(&self, key: &RunKey) -> Result<StoredRun>;

    /// Returns up to `count_max` entries after `seq`, in order.
    ///
    /// # Errors
    /// `NotFound` when the run does not exist.
    async fn entries(&self, key: &RunKey, after_seq: u64, count_max: u64) -> Result<Vec<StoredEntry>>;

    /// Returns up to `count_max` runs that need not be retained, in the order in which they ended. A run that has not
    /// ended is never among them, nor is the last run of a session while it waits for a person.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn expired(&self, tenant: &TenantId, keep: &Retention, count_max: u64) -> Result<Vec<StoredRun>>;

    /// Removes runs with their journals, and returns how many. Runs that have not ended or do not exist are ignored.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn remove(&self, runs: &[RunKey]) -> Result<u64>;

    /// Returns runs that match a filter, newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list(&self, tenant: &TenantId, filter: &RunFilter) -> Result<Vec<StoredRun>>;
}

/// When to retry for a session that is in the middle of a turn. No other conflict has a retry time.
// Turns take seconds: retrying more often costs the store, and retrying later keeps people waiting.
pub const BUSY_RETRY_AFTER: Duration = Duration::from_secs(1);

/// The error of [`RunStore::create`] for a session that has an unfinished run.
pub fn at_work(session: &SessionId, run: &RunId) -> Error {
    let error =
        Error::new(ErrorKind::Conflict, format!("session {session} is in the middle of a turn: run {run}"));
    Error { retry_after: Some(BUSY_RETRY_AFTER), ..error }
        .help("wait for its end, or cancel it; if its process is gone, `weft runs resume` resumes it")
}

/// The error for a writer whose run belongs to another process by now.
pub fn overtaken(lease: &RunLease, doing: &str) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!("cannot {doing}: another process has taken over the run `{}`", lease.run.id),
    )
    .help("read the run again: it belongs to the other process now")
}

/// Returns whether a turn could not start because its session is in the middle of another one.
pub fn is_busy(error: &Error) -> bool {
    error.kind == ErrorKind::Conflict && error.retry_after.is_some()
}
