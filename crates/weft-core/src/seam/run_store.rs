//! Runs and their journals.

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::id::{CanvasId, RunId, RunKey, SessionId, TenantId};
use crate::journal::Ending;

/// A run, without its journal.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRun {
    /// Where.
    pub key: RunKey,
    /// The conversation.
    pub session: SessionId,
    /// The canvas.
    pub canvas: CanvasId,
    /// The question, cut to a readable length.
    pub query: String,
    /// How it ended; absent while it runs and after a crash.
    pub ending: Option<Ending>,
    /// Milliseconds since 1970.
    pub started_ms: i64,
    /// Milliseconds since 1970.
    pub finished_ms: Option<i64>,
    /// When its process last said that it is at work on it, in milliseconds since 1970.
    pub alive_ms: i64,
}

/// One journal entry as stored: the numbers, and the record as JSON text.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEntry {
    /// Place in the journal, from 1 on.
    pub seq: u64,
    /// Event number, when clients see it.
    pub event: Option<u64>,
    /// Milliseconds since 1970.
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
    /// How many to pass over.
    pub offset: u64,
    /// How many at most.
    pub limit: u64,
}

/// Which runs are kept. One that either rule lets go need not be; without rules all are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Retention {
    /// Those that ended at this time or later, in milliseconds since 1970.
    pub ended_before_ms: Option<i64>,
    /// So many of each session, the newest ones.
    pub per_session_max: Option<u64>,
}

/// Where runs are kept.
#[async_trait]
pub trait RunStore: Send + Sync {
    /// Announces a run before its first entry. A session has at most one run without an ending: of
    /// several processes that go on with it at the same time one gets to.
    ///
    /// # Errors
    /// `Conflict` when the id is taken, or when the session has a run that has not ended; the message
    /// names that run.
    async fn create(&self, run: &StoredRun) -> Result<()>;

    /// Appends entries, all or none; when it returns they survive the end of the process. The first
    /// `seq` must be one more than the last stored one: anything else is `Conflict`, which is how a
    /// writer notices that it no longer owns the run. Entries of different runs may share one write.
    ///
    /// # Errors
    /// `Conflict` as above; otherwise when the store cannot be written, and then nothing was.
    async fn append(&self, key: &RunKey, entries: Vec<StoredEntry>) -> Result<()>;

    /// Says that this process is at work on these runs. Those that have ended or are not there are
    /// passed over, and a time never goes back.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn alive(&self, runs: &[RunKey], now_ms: i64) -> Result<()>;

    /// Takes over a run that has not ended and whose process was last heard of at `seen_alive_ms`.
    /// Whether it was taken: of several that try at the same time one gets it. From then on its process
    /// was last heard of at `now_ms`, or just after `seen_alive_ms` when that is later.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn claim(&self, run: &RunKey, seen_alive_ms: i64, now_ms: i64) -> Result<bool>;

    /// Notes how the run ended.
    ///
    /// # Errors
    /// `NotFound`.
    async fn finish(&self, key: &RunKey, ending: Ending, finished_ms: i64) -> Result<()>;

    /// A run.
    ///
    /// # Errors
    /// `NotFound`.
    async fn get(&self, key: &RunKey) -> Result<StoredRun>;

    /// The entries after `seq`, in order, at most `count_max`.
    ///
    /// # Errors
    /// `NotFound` when there is no such run.
    async fn entries(&self, key: &RunKey, after_seq: u64, count_max: u64) -> Result<Vec<StoredEntry>>;

    /// Runs that need not be kept, those that ended first before the others, at most `count_max`. A run
    /// that has not ended is never among them, and neither is the last run of a session while it waits
    /// for a person.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn expired(&self, tenant: &TenantId, keep: &Retention, count_max: u64) -> Result<Vec<StoredRun>>;

    /// Removes runs with their journals, and how many there were. Those that have not ended or are not
    /// there are passed over.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn remove(&self, runs: &[RunKey]) -> Result<u64>;

    /// Runs by filter, newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list(&self, tenant: &TenantId, filter: &RunFilter) -> Result<Vec<StoredRun>>;
}

/// What [`RunStore::create`] says of a session that has a run without an ending.
pub fn at_work(session: &SessionId, run: &RunId) -> Error {
    Error::new(ErrorKind::Conflict, format!("session {session} is in the middle of a turn: run {run}"))
        .help("wait for its end, or cancel it; if its process is gone, `weft runs resume` goes on with it")
}
