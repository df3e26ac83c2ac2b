//! Runs and their journals.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::budget::Spent;
use crate::error::{Error, ErrorKind, Result};
use crate::id::{CanvasId, ProcessId, RunId, RunKey, SessionId, TenantId};
use crate::journal::Ending;
use crate::usage::ModelUse;

/// A run, without its journal.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRun {
    /// Which tenant it belongs to, and its id.
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
    /// Grows with every process that takes the run over; it stays when the run has ended.
    pub fence: i64,
    /// The process that is at work on it, or was last. Absent: it was handed over, and any process may
    /// take it.
    pub owner: Option<ProcessId>,
    /// When somebody asked for it to stop, in milliseconds since 1970. Whoever works on it obeys.
    pub cancel_ms: Option<i64>,
    /// What was said of its giving way to the next question of its session.
    pub give_way: GiveWay,
}

/// Whether a run is to give way to the next question of its session, as processes tell each other. Both counts
/// only grow: who watches them needs no clock, and a word that is not said again means nothing any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GiveWay {
    /// How often a question that waits for the run in another process has asked for it.
    pub asked: i64,
    /// How often a reader in another process has answered that it listens to the run.
    pub listened: i64,
}

/// What is said of a run's giving way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveWayWord {
    /// A question waits for the run.
    Asked,
    /// Somebody listens to it.
    Listened,
}

/// A run of which others want something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRequest {
    /// Which run.
    pub run: RunKey,
    /// Whether it is to stop, whatever it does.
    pub cancel: bool,
    /// Whether it is to stop if nobody listens to it.
    pub give_way: GiveWay,
}

/// A process's right to write into a run: the fencing number that it got with it. Whoever comes with an
/// older one than the run has is refused, however long ago it was overtaken, and also when the run has
/// ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunLease {
    /// Which run.
    pub run: RunKey,
    /// As the run had it when it was taken.
    pub fence: i64,
}

impl RunLease {
    /// The fencing number of whoever announces a run.
    pub const FIRST: i64 = 1;

    /// The right of whoever announced a run.
    pub fn first(run: &RunKey) -> Self {
        Self { run: run.clone(), fence: Self::FIRST }
    }

    /// The right that the run's row tells of.
    pub fn of(run: &StoredRun) -> Self {
        Self { run: run.key.clone(), fence: run.fence }
    }
}

/// How a run has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedRun {
    /// How.
    pub ending: Ending,
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// What it has used in all, and the day (days since 1970, in UTC) on which that is noted, as
    /// [`crate::seam::SpendingStore::note`] does it. Absent: nothing is noted.
    pub spent: Option<(i64, Spent)>,
    /// What it has used of models, for [`crate::seam::UsageStore`]: on the day on which it ends.
    pub uses: Vec<ModelUse>,
}

impl FinishedRun {
    /// An ending of which nothing but the time is noted.
    pub fn new(ending: Ending, at_ms: i64) -> Self {
        Self { ending, at_ms, spent: None, uses: Vec::new() }
    }
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
    /// Only those behind this place in the list, which is the time of a start and an id.
    pub after: Option<(i64, RunId)>,
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

    /// The same for a run of a stored session, if that is at this revision. Whether it is; unless it is nothing was
    /// stored. From then on nobody else changes the session before the run ends.
    ///
    /// # Errors
    /// As [`RunStore::create`].
    async fn announce(&self, run: &StoredRun, revision: i64) -> Result<bool>;

    /// Appends entries, all or none; when it returns they survive the end of the process. The first
    /// `seq` must be one more than the last stored one. Entries of different runs may share one write.
    ///
    /// # Errors
    /// `Conflict` when another process has taken the run over since, also when it has ended the run in the
    /// meantime, and when the numbers do not follow: this is how a writer notices that it no longer owns
    /// the run. Otherwise when the store cannot be written. Nothing was written then.
    async fn append(&self, lease: &RunLease, entries: Vec<StoredEntry>) -> Result<()>;

    /// The same for pieces of a text, which only a reader waits for: a store on which many runs speak at the
    /// same time may gather for up to 50 milliseconds what they say, and write it at once.
    ///
    /// # Errors
    /// As [`RunStore::append`].
    async fn append_text(&self, lease: &RunLease, entries: Vec<StoredEntry>) -> Result<()> {
        self.append(lease, entries).await
    }

    /// Whether so many runs speak at the moment that [`RunStore::append_text`] gathers what they say. Pieces of a text
    /// that wait for the same write may then be joined into one: they reach their readers together in any case.
    fn gathers_text(&self) -> bool {
        false
    }

    /// Takes over a run that has not ended and has the fencing number `seen`: from then on it has the next
    /// one, belongs to `by`, and whatever was done under an older number is refused. Of several that try at
    /// the same time one gets it.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn claim(&self, run: &RunKey, seen: i64, by: &ProcessId) -> Result<Option<RunLease>>;

    /// Hands runs over: they are nobody's, and any process may take them at once. Those that have ended, are
    /// not there or belong to another process by now are passed over.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn release(&self, leases: &[RunLease]) -> Result<()>;

    /// Notes that somebody wants a run to stop. Whether it was one that has not ended; the first time counts.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn request_cancel(&self, run: &RunKey, now_ms: i64) -> Result<bool>;

    /// Counts a word on whether a run that has not ended is to give way. Whether there is such a run.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn say_of_giving_way(&self, run: &RunKey, word: GiveWayWord) -> Result<bool>;

    /// The runs of a process that have not ended and that somebody wants to stop, or has ever asked to give way.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn requests(&self, owner: &ProcessId) -> Result<Vec<RunRequest>>;

    /// Runs of all tenants without an ending that belong to nobody, to one of these processes, or to one
    /// that nobody knows; the oldest first, at most `count_max`.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn unattended(&self, gone: &[ProcessId], count_max: u64) -> Result<Vec<StoredRun>>;

    /// Notes how the run ended, and what it has used, both or neither. One that has failed is noted for those who are to
    /// be told, too: see [`crate::seam::NoticeStore`].
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when another process has taken the run over since.
    async fn finish(&self, lease: &RunLease, finished: FinishedRun) -> Result<()>;

    /// Appends the last entries of a run, then notes how it ended. A store that can does both at once.
    ///
    /// # Errors
    /// As [`RunStore::append`]; then nothing is noted either. The inner ones as [`RunStore::finish`], with the
    /// entries appended.
    async fn end(
        &self,
        lease: &RunLease,
        entries: Vec<StoredEntry>,
        finished: FinishedRun,
    ) -> Result<Result<()>> {
        self.append(lease, entries).await?;
        Ok(self.finish(lease, finished).await)
    }

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

/// When to ask again for a session that is in the middle of a turn. Of all conflicts only these have one.
// Turns take seconds: to ask more often costs the store, and later a person waits for nothing.
pub const BUSY_RETRY_AFTER: Duration = Duration::from_secs(1);

/// What [`RunStore::create`] says of a session that has a run without an ending.
pub fn at_work(session: &SessionId, run: &RunId) -> Error {
    let error =
        Error::new(ErrorKind::Conflict, format!("session {session} is in the middle of a turn: run {run}"));
    Error { retry_after: Some(BUSY_RETRY_AFTER), ..error }
        .help("wait for its end, or cancel it; if its process is gone, `weft runs resume` resumes it")
}

/// What a writer is told whose run belongs to another process by now.
pub fn overtaken(lease: &RunLease, doing: &str) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!("cannot {doing}: another process has taken over the run `{}`", lease.run.id),
    )
    .help("read the run again: it belongs to the other process now")
}

/// Whether a turn could not begin because its session is in the middle of another one.
pub fn is_busy(error: &Error) -> bool {
    error.kind == ErrorKind::Conflict && error.retry_after.is_some()
}
