//! Runs that are to be started by whichever worker is free.

use async_trait::async_trait;

use crate::context::TurnInput;
use crate::error::Result;
use crate::id::{CanvasId, RunKey, SessionId, TenantId};

/// A run that is to be started.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// The run that it becomes. It also names the work: the same run is queued once.
    pub run: RunKey,
    /// The canvas.
    pub canvas: CanvasId,
    /// The conversation, which begins now if it is not there yet; absent: one of its own.
    pub session: Option<SessionId>,
    /// What the run is given.
    pub input: TurnInput,
    /// What has asked for it, such as the id of a schedule.
    pub source: String,
    /// When it is meant to start, in milliseconds since 1970; no worker gets it before.
    pub due_ms: i64,
}

/// How far a piece of work has come.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkState {
    /// Nobody has it.
    Waiting {
        /// From when on it may be taken, in milliseconds since 1970.
        from_ms: i64,
    },
    /// A worker has it.
    Taken {
        /// When another worker may take it, unless this one asks for more time.
        until_ms: i64,
    },
    /// Its run has ended.
    Done {
        /// When that was seen, in milliseconds since 1970.
        at_ms: i64,
    },
    /// It will never start.
    Abandoned {
        /// When that was decided, in milliseconds since 1970.
        at_ms: i64,
    },
}

impl WorkState {
    /// Whether there is still something to do.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Waiting { .. } | Self::Taken { .. })
    }
}

/// A piece of work as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredWork {
    /// What is to be done.
    pub work: Work,
    /// How far it has come.
    pub state: WorkState,
    /// How often a worker has begun with it; those that handed it back untouched do not count.
    pub attempts: u32,
    /// Why it was put off the last time or given up; empty when it never was.
    pub reason: String,
    /// When it was queued, in milliseconds since 1970.
    pub pushed_ms: i64,
}

/// A worker's right to a piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Which work.
    pub run: RunKey,
    /// Grows each time the work is taken. Who comes with an old number has lost it.
    pub fence: i64,
}

/// Work that a worker has taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// The right to it.
    pub lease: Lease,
    /// The work, as it is now.
    pub stored: StoredWork,
}

/// What has become of work that was taken.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkOutcome {
    /// Its run has ended.
    Done,
    /// It will never start.
    Abandoned {
        /// Why, for people.
        reason: String,
    },
    /// It is to be tried again; this attempt counts.
    RetryAt {
        /// From when on, in milliseconds since 1970.
        from_ms: i64,
        /// Why, for people.
        reason: String,
    },
    /// It could not be tried, and this attempt does not count.
    Released {
        /// From when on it may be taken, in milliseconds since 1970.
        from_ms: i64,
        /// Why, for people.
        reason: String,
    },
}

/// Which work to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkFilter {
    /// What has asked for it.
    pub source: Option<String>,
    /// Only what is still to be done.
    pub open: bool,
    /// How many to pass over.
    pub offset: u64,
    /// How many at most.
    pub limit: u64,
}

/// Where runs wait for a worker. Time is what callers say it is: a queue has no clock.
#[async_trait]
pub trait WorkQueue: Send + Sync {
    /// Queues work, in any number of steps. What names a run that was queued before is left out,
    /// whatever has become of it.
    ///
    /// # Errors
    /// `Invalid` for an id that cannot be stored, and then nothing is.
    async fn push(&self, work: &[Work], now_ms: i64) -> Result<()>;

    /// Queues work of one tenant and one source, all of it in one step, as long as fewer than `open_max` of that source wait
    /// or are taken; they are counted in the same step, so of several that do so at the same time no more get in. What
    /// names a run that was queued before is left out and needs no room. Where there is none for all, the last ones get in.
    /// How many did not.
    ///
    /// # Errors
    /// `Invalid` for an id that cannot be stored, and then nothing is.
    async fn push_within(&self, work: &[Work], now_ms: i64, open_max: u64) -> Result<u64>;

    /// Takes at most `count_max` pieces of work that may be taken at `now_ms`, of any tenant, those that
    /// have waited longest first: work that nobody has, and work whose worker has let its time pass. Of
    /// several that try at the same time one gets it, until `until_ms`.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn take(&self, now_ms: i64, until_ms: i64, count_max: u64) -> Result<Vec<Taken>>;

    /// Asks for more time.
    ///
    /// # Errors
    /// `Conflict` when somebody else has taken it, or it is not taken any more.
    async fn renew(&self, lease: &Lease, until_ms: i64) -> Result<()>;

    /// Says what has become of work, and lets go of it.
    ///
    /// # Errors
    /// `Conflict` when somebody else has taken it, or it is not taken any more.
    async fn settle(&self, lease: &Lease, settled: &WorkOutcome, now_ms: i64) -> Result<()>;

    /// A piece of work.
    ///
    /// # Errors
    /// `NotFound`.
    async fn get(&self, run: &RunKey) -> Result<StoredWork>;

    /// Work by filter, the latest due first, and how much there is in all.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list(&self, tenant: &TenantId, filter: &WorkFilter) -> Result<(Vec<StoredWork>, u64)>;

    /// Removes what a source has asked for and nobody has taken yet. How much that was.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn withdraw(&self, tenant: &TenantId, source: &str) -> Result<u64>;

    /// Forgets work of all tenants that was settled for good before this time. How much that was.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn prune(&self, before_ms: i64) -> Result<u64>;
}
