//! What people are to be told without having asked: facts that wait to be delivered.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::id::{RunKey, TenantId};
use crate::value::Json;

/// What a notice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// A run has failed, or will never start.
    RunFailed,
    /// A good part of a budget is used up.
    Budget,
    /// Nobody has answered a task in time.
    TaskOverdue,
}

impl NoticeKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::RunFailed, Self::Budget, Self::TaskOverdue];

    /// The word for it in settings, answers and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunFailed => "run_failed",
            Self::Budget => "budget",
            Self::TaskOverdue => "task_overdue",
        }
    }

    /// From its word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// A fact, named by itself: tenant, kind and subject. Whoever comes to know it a second time names the same notice.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NoticeKey {
    /// Whose people are told.
    pub tenant: TenantId,
    /// What it is about.
    pub kind: NoticeKind,
    /// What it is about, exactly: the id of a run or a task, or the name of a budget with its period.
    pub subject: String,
}

/// A fact that people are to be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// What names it.
    pub key: NoticeKey,
    /// What is known of it beside that, as an object.
    pub said: Json,
    /// When it became known, in milliseconds since 1970.
    pub at_ms: i64,
}

impl Notice {
    /// That a run has failed.
    pub fn run_failed(run: &RunKey, at_ms: i64) -> Self {
        let subject = run.id.as_str().to_owned();
        let key = NoticeKey { tenant: run.tenant.clone(), kind: NoticeKind::RunFailed, subject };
        Self { key, said: Json::Object(serde_json::Map::new()), at_ms }
    }
}

/// How far the delivery of a notice has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeState {
    /// Nobody has it.
    Waiting {
        /// From when on it may be taken, in milliseconds since 1970.
        from_ms: i64,
    },
    /// A process delivers it.
    Taken {
        /// When another process may take it, in milliseconds since 1970.
        until_ms: i64,
    },
    /// Everybody was told who is to be told, which may be nobody.
    Delivered {
        /// When, in milliseconds since 1970.
        at_ms: i64,
    },
    /// Somebody was not told and will not be.
    GivenUp {
        /// When that was decided, in milliseconds since 1970.
        at_ms: i64,
    },
}

/// A notice as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredNotice {
    /// The fact.
    pub notice: Notice,
    /// How far its delivery has come.
    pub state: NoticeState,
    /// The ways that are done with, such as `webhook`: they are not tried again.
    pub done: Vec<String>,
    /// How often it was tried.
    pub attempts: u32,
    /// Why it was put off the last time or given up; empty when it never was.
    pub reason: String,
}

/// A process's right to deliver a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeLease {
    /// Which notice.
    pub key: NoticeKey,
    /// Grows each time the notice is taken. Who comes with an old number has lost it.
    pub fence: i64,
}

/// What has become of a notice that was taken.
#[derive(Clone, Debug, PartialEq)]
pub struct NoticeOutcome {
    /// The ways that are done with by now.
    pub done: Vec<String>,
    /// How far it has come; never [`NoticeState::Taken`].
    pub state: NoticeState,
    /// Why it is put off or given up.
    pub reason: String,
}

/// Where notices wait to be delivered. Time is what callers say it is: the store has no clock.
///
/// A run that ends as failed notes [`Notice::run_failed`] by itself, in the very write that ends it.
#[async_trait]
pub trait NoticeStore: Send + Sync {
    /// Notes facts, in any number of steps; they may be delivered at once. What was noted before stays as it is.
    ///
    /// # Errors
    /// `Invalid` for a subject that cannot be stored, and then nothing is.
    async fn push_notices(&self, notices: &[Notice]) -> Result<()>;

    /// Takes at most `count_max` notices that may be taken at `now_ms`, of any tenant, those that have waited longest
    /// first, until `until_ms`. Of several that try at the same time one gets each.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn take_notices(
        &self,
        now_ms: i64,
        until_ms: i64,
        count_max: u64,
    ) -> Result<Vec<(NoticeLease, StoredNotice)>>;

    /// Says what has become of a notice, and lets go of it.
    ///
    /// # Errors
    /// `Conflict` when somebody else has taken it.
    async fn settle_notice(&self, lease: &NoticeLease, outcome: &NoticeOutcome) -> Result<()>;

    /// The notices of a tenant, the newest first, and how many there are in all.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn notices(&self, tenant: &TenantId, offset: u64, limit: u64) -> Result<(Vec<StoredNotice>, u64)>;

    /// Forgets the facts of all tenants that became known before this time, delivered or not. How many.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn prune_notices(&self, before_ms: i64) -> Result<u64>;
}
