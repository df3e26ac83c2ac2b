//! What people are asked to do.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::component::Form;
use crate::error::Result;
use crate::id::{CanvasId, ComponentId, RunId, SessionId, TaskId, TaskKey, TenantId};

/// What kind of answer a task wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// Values for the fields of a form.
    Form,
    /// Whether a call of a tool may be made.
    ToolApproval,
    /// Whether a plan is good.
    PlanReview,
    /// That a key which is missing or refused has been put right.
    Credential,
}

impl TaskKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Form, Self::ToolApproval, Self::PlanReview, Self::Credential];

    /// The word for it in answers and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Form => "form",
            Self::ToolApproval => "tool_approval",
            Self::PlanReview => "plan_review",
            Self::Credential => "credential",
        }
    }

    /// From its word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// What a field of a form asks for that comes up in the middle of a node's work, by the field's `type`.
    pub fn of_field(description: &crate::Json) -> Self {
        match description.get("type").and_then(crate::Json::as_str) {
            Some("approval") => Self::ToolApproval,
            Some("plan_review") => Self::PlanReview,
            Some("credential") => Self::Credential,
            _ => Self::Form,
        }
    }
}

/// What became of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Nobody has answered yet.
    Open,
    /// Somebody has answered.
    Answered,
    /// Nobody answered in time.
    TimedOut,
    /// The session went on without it.
    Dropped,
}

impl TaskStatus {
    /// Every status.
    pub const ALL: [Self; 4] = [Self::Open, Self::Answered, Self::TimedOut, Self::Dropped];

    /// The word for it in answers and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Answered => "answered",
            Self::TimedOut => "timed_out",
            Self::Dropped => "dropped",
        }
    }

    /// From its word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

/// One thing that a waiting run asks of a person.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Which tenant it belongs to, and its id.
    pub key: TaskKey,
    /// The conversation.
    pub session: SessionId,
    /// The canvas.
    pub canvas: CanvasId,
    /// The run that waits.
    pub run: RunId,
    /// The node that asks.
    pub node: ComponentId,
    /// Where its answers go among a caller's inputs, such as `Agent:A[2]`.
    pub address: String,
    /// What kind of answer it wants.
    pub kind: TaskKind,
    /// What it is called in lists.
    pub title: String,
    /// What it asks. A task that came up in the middle of a node's work has one field.
    pub form: Form,
    /// When it came up, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it is over without an answer, in milliseconds since 1970.
    pub due_ms: Option<i64>,
    /// What became of it.
    pub status: TaskStatus,
    /// The run that ended it.
    pub ended_by: Option<RunId>,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: Option<i64>,
}

/// What a turn changes in the human tasks of its session.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskChange {
    /// The run that changes them.
    pub run: RunId,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// The tasks that are open now, new ones and those that were open before. Every other one that was
    /// open has ended.
    pub open: Vec<Task>,
    /// How those ended that were not [`TaskStatus::Dropped`].
    pub ended: Vec<(TaskId, TaskStatus)>,
}

/// Which tasks to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskFilter {
    /// Of one canvas.
    pub canvas: Option<CanvasId>,
    /// Of one session.
    pub session: Option<SessionId>,
    /// Of one kind.
    pub kind: Option<TaskKind>,
    /// With this status.
    pub status: Option<TaskStatus>,
    /// Those that are over without an answer by then, in milliseconds since 1970.
    pub due_by_ms: Option<i64>,
    /// Only those behind this place in the list, which is a time of creation and an id. All of them count.
    pub after: Option<(i64, TaskId)>,
    /// How many to pass over.
    pub offset: u64,
    /// How many at most.
    pub limit: u64,
}

/// Where tasks are read. They are written with their session, by
/// [`SessionStore::commit`](super::SessionStore::commit), so that they always say what the session waits
/// for, and they go with it.
#[async_trait]
pub trait TaskStore: Send + Sync {
    /// A task, open or not.
    ///
    /// # Errors
    /// `NotFound`.
    async fn get(&self, key: &TaskKey) -> Result<Task>;

    /// Tasks by filter, oldest first, and how many there are in all.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list(&self, tenant: &TenantId, filter: &TaskFilter) -> Result<(Vec<Task>, u64)>;

    /// Open tasks of all tenants that are due by then, the longest overdue first, at most `count_max`.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn due(&self, by_ms: i64, count_max: u64) -> Result<Vec<Task>>;
}
