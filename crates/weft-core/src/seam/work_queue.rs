//! A queue of runs to be started by the next free worker.

use weft_macros::async_trait;

use crate::context::TurnInput;
use crate::error::Result;
use crate::id::{CanvasId, RunId, RunKey, SessionId, TenantId};

/// A run to be started.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// The run that it becomes. It also identifies the work: a run is queued only once.
    pub run: RunKey,
    /// The canvas.
    pub canvas: CanvasId,
    /// The conversation, which is created now if it does not exist; absent means one of its own.
    pub session: Option<SessionId>,
    /// The input of the run.
    pub input: TurnInput,
    /// What requested it, such as the id of a schedule.
    pub source: String,
    /// When it is due, in milliseconds since 1970; no worker gets it earlier.
    pub due_ms: i64,
}

/// The state of a piece of work.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkState {
    /// No worker has it.
    Waiting {
        /// From when it may be taken, in milliseconds since 1970.
        from_ms: i64,
    },
    /// A worker has it.
    Taken {
        /// When another worker may take it, unless this one extends its lease.
        until_ms: i64,
    },
    /// Its run has ended.
    Done {
        /// When that was noticed, in milliseconds since 1970.
        at_ms: i64,
    },
    /// It will never start.
    Abandoned {
        /// When that was decided, in milliseconds since 1970.
        at_ms: i64,
    },
}

impl WorkState {
    /// Returns whether work remains to be done.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Waiting { .. } | Self::Taken { .. })
    }
}

/// A piece of work as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredWork {
    /// The work.
    pub work: Work,
    /// Its state.
    pub state: WorkState,
    /// Number of times a worker has started on it, not counting workers that released it untouched.
    pub attempts: u32,
    /// Number of times that a worker's lease has expired: its process has ended, or was silent for too long.
    pub crashes: u32,
    /// Why it was last postponed, or abandoned; empty if it never was, and while a worker has it. Whoever takes the
    /// work still sees it.
    pub reason: String,
    /// When it was queued, in milliseconds since 1970.
    pub pushed_ms: i64,
}

/// A worker's lease on a piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The run that identifies the work.
    pub run: RunKey,
    /// The fencing token, which grows each time the work is taken. A worker with an older one has lost the lease.
    pub fence: i64,
}

/// Work that a worker has taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// The lease.
    pub lease: Lease,
    /// The work in its current state.
    pub stored: StoredWork,
}

/// The outcome of work that was taken.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkOutcome {
    /// Its run has ended.
    Done,
    /// It will never start.
    Abandoned {
        /// The reason, for people.
        reason: String,
    },
    /// It is to be retried; this attempt counts.
    RetryAt {
        /// The earliest time, in milliseconds since 1970.
        from_ms: i64,
        /// The reason, for people.
        reason: String,
    },
    /// It could not be tried; this attempt does not count.
    Released {
        /// From when it may be taken, in milliseconds since 1970.
        from_ms: i64,
        /// The reason, for people.
        reason: String,
    },
}

/// Which work to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkFilter {
    /// Only work requested by this source.
    pub source: Option<String>,
    /// Only unfinished work.
    pub open: bool,
    /// How many to skip.
    pub offset: u64,
    /// Maximum number to return.
    pub limit: u64,
}

/// A queue in which runs wait for a worker. Callers supply the time: a queue has no clock.
#[async_trait]
pub trait WorkQueue: Send + Sync {
    /// Queues work of one tenant and one source atomically, as long as fewer than `open_max` of that source are
    /// waiting or taken. They are counted in the same step, so that concurrent callers cannot exceed the limit. Work
    /// that names a run which was queued before, whatever its state, is skipped and needs no room. If there is no room
    /// for all, the last ones are queued. Returns how many were not.
    ///
    /// # Errors
    /// `Invalid` for an id that cannot be stored, and then nothing is.
    async fn push_within(&self, work: &[Work], now_ms: i64, open_max: u64) -> Result<u64>;

    /// Takes up to `count_max` pieces of work that may be taken at `now_ms`, of any tenant, longest waiting first,
    /// with a lease until `until_ms`: work that no worker has, and work whose lease has expired. Of several
    /// concurrent callers, only one gets a piece of work.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn take(&self, now_ms: i64, until_ms: i64, count_max: u64) -> Result<Vec<Taken>>;

    /// Extends the lease.
    ///
    /// # Errors
    /// `Conflict` when another worker has taken it, or it is no longer taken.
    async fn renew(&self, lease: &Lease, until_ms: i64) -> Result<()>;

    /// Records the outcome of the work, and releases the lease.
    ///
    /// # Errors
    /// `Conflict` when another worker has taken it, or it is no longer taken.
    async fn settle(&self, lease: &Lease, settled: &WorkOutcome, now_ms: i64) -> Result<()>;

    /// Returns a piece of work.
    ///
    /// # Errors
    /// `NotFound`.
    async fn get(&self, run: &RunKey) -> Result<StoredWork>;

    /// Returns work that matches a filter, the latest due first, and the total number.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list(&self, tenant: &TenantId, filter: &WorkFilter) -> Result<(Vec<StoredWork>, u64)>;

    /// Removes work that a source requested and that no worker has taken yet. Returns how much was removed.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn withdraw(&self, tenant: &TenantId, source: &str) -> Result<u64>;

    /// Removes the work for these runs of a tenant that no worker has taken yet. Returns how much was removed.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn withdraw_runs(&self, tenant: &TenantId, runs: &[RunId]) -> Result<u64>;

    /// Removes work that a source requested and that was settled for good. Returns how much was removed.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn remove_settled(&self, tenant: &TenantId, source: &str) -> Result<u64>;

    /// Removes work of all tenants that was settled for good before this time. Returns how much was removed.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn prune(&self, before_ms: i64) -> Result<u64>;
}
