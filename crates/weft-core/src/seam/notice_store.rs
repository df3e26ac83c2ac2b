//! Notices that people receive without having asked, queued for delivery.

use serde::{Deserialize, Serialize};
use weft_macros::async_trait;

use crate::error::Result;
use crate::id::{RunKey, TenantId};
use crate::value::Json;

/// What a notice reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// A run has failed, or will never start.
    RunFailed,
    /// A budget is largely used up.
    Budget,
    /// A task was not answered in time.
    TaskOverdue,
}

impl NoticeKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::RunFailed, Self::Budget, Self::TaskOverdue];

    /// Returns the name used for it in settings, answers and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunFailed => "run_failed",
            Self::Budget => "budget",
            Self::TaskOverdue => "task_overdue",
        }
    }

    /// Parses its name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// Identifies a notice by tenant, kind and subject, so that reporting a fact a second time names the same notice.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NoticeKey {
    /// The tenant whose members are notified.
    pub tenant: TenantId,
    /// Its kind.
    pub kind: NoticeKind,
    /// The exact subject: the id of a run or a task, or the name of a budget with its period.
    pub subject: String,
}

/// A fact that people are to be notified of.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// Its key.
    pub key: NoticeKey,
    /// Further data, as an object.
    pub said: Json,
    /// When it became known, in milliseconds since 1970.
    pub at_ms: i64,
}

impl Notice {
    /// Creates the notice that a run has failed.
    pub fn run_failed(run: &RunKey, at_ms: i64) -> Self {
        let subject = run.id.as_str().to_owned();
        let key = NoticeKey { tenant: run.tenant.clone(), kind: NoticeKind::RunFailed, subject };
        Self { key, said: Json::Object(serde_json::Map::new()), at_ms }
    }
}

/// The delivery state of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeState {
    /// No process has it.
    Waiting {
        /// From when it may be taken, in milliseconds since 1970.
        from_ms: i64,
    },
    /// A process is delivering it.
    Taken {
        /// When another process may take it, in milliseconds since 1970.
        until_ms: i64,
    },
    /// All recipients were notified; there may be none.
    Delivered {
        /// When, in milliseconds since 1970.
        at_ms: i64,
    },
    /// Some recipients were not notified and will not be.
    GivenUp {
        /// When that was decided, in milliseconds since 1970.
        at_ms: i64,
    },
}

/// A notice with the state of its delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredNotice {
    /// The notice.
    pub notice: Notice,
    /// Its delivery state.
    pub state: NoticeState,
    /// The channels that are finished, such as `webhook`: they are not tried again.
    pub done: Vec<String>,
    /// Number of delivery attempts.
    pub attempts: u32,
    /// Why it was last postponed, or given up; empty if it never was.
    pub reason: String,
}

/// A process's lease on the delivery of a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeLease {
    /// The notice.
    pub key: NoticeKey,
    /// The fencing token, which grows each time the notice is taken. A process with an older one has lost the lease.
    pub fence: i64,
}

/// The outcome of a delivery attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct NoticeOutcome {
    /// The channels that are finished by now.
    pub done: Vec<String>,
    /// The new state; never [`NoticeState::Taken`].
    pub state: NoticeState,
    /// Why it is postponed or given up.
    pub reason: String,
}

/// A queue of notices to be delivered. Callers supply the time: the store has no clock.
///
/// When a run ends as failed, the same write that ends it also queues [`Notice::run_failed`].
#[async_trait]
pub trait NoticeStore: Send + Sync {
    /// Queues notices, not necessarily atomically; they may be delivered immediately. Notices that were queued before
    /// stay as they are.
    ///
    /// # Errors
    /// `Invalid` for a subject that cannot be stored; nothing is queued then.
    async fn push_notices(&self, notices: &[Notice]) -> Result<()>;

    /// Takes up to `count_max` notices that may be taken at `now_ms`, of any tenant, longest waiting first, with a
    /// lease until `until_ms`. Of several concurrent callers, only one gets a notice.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn take_notices(
        &self,
        now_ms: i64,
        until_ms: i64,
        count_max: u64,
    ) -> Result<Vec<(NoticeLease, StoredNotice)>>;

    /// Records the outcome for a notice, and releases the lease.
    ///
    /// # Errors
    /// `Conflict` when another process has taken it.
    async fn settle_notice(&self, lease: &NoticeLease, outcome: &NoticeOutcome) -> Result<()>;

    /// Returns the notices of a tenant, newest first, and their total number.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn notices(&self, tenant: &TenantId, offset: u64, limit: u64) -> Result<(Vec<StoredNotice>, u64)>;

    /// Removes the notices of all tenants that became known before this time, delivered or not. Returns how many were
    /// removed.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn prune_notices(&self, before_ms: i64) -> Result<u64>;
}
