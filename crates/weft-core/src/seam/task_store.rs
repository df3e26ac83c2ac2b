//! Human tasks: what people are asked to do.

use serde::{Deserialize, Serialize};
use weft_macros::async_trait;

use crate::component::Form;
use crate::error::Result;
use crate::id::{CanvasId, ComponentId, RunId, SessionId, TaskId, TaskKey, TenantId};

/// The kind of answer that a task requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// Values for the fields of a form.
    Form,
    /// A decision whether a tool may be called.
    ToolApproval,
    /// A decision whether a plan is accepted.
    PlanReview,
    /// A confirmation that a missing or rejected key has been fixed.
    Credential,
}

impl TaskKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Form, Self::ToolApproval, Self::PlanReview, Self::Credential];

    /// Returns the name used for it in answers and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Form => "form",
            Self::ToolApproval => "tool_approval",
            Self::PlanReview => "plan_review",
            Self::Credential => "credential",
        }
    }

    /// Parses its name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// Returns the kind of answer that a field requires which was asked in the middle of a node's work, by the
    /// field's `type`.
    pub fn of_field(description: &crate::Json) -> Self {
        match description.get("type").and_then(crate::Json::as_str) {
            Some("approval") => Self::ToolApproval,
            Some("plan_review") => Self::PlanReview,
            Some("credential") => Self::Credential,
            _ => Self::Form,
        }
    }
}

/// Whether a task still waits for an answer, and otherwise how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// It has not been answered yet.
    Open,
    /// It has been answered.
    Answered,
    /// It was not answered in time.
    TimedOut,
    /// Its run was stopped, or its session continued without it.
    Dropped,
}

impl TaskStatus {
    /// Every status.
    pub const ALL: [Self; 4] = [Self::Open, Self::Answered, Self::TimedOut, Self::Dropped];

    /// Returns the name used for it in answers and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Answered => "answered",
            Self::TimedOut => "timed_out",
            Self::Dropped => "dropped",
        }
    }

    /// Parses its name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

/// A question that a waiting run asks of a person.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its tenant and id.
    pub key: TaskKey,
    /// The conversation.
    pub session: SessionId,
    /// The canvas.
    pub canvas: CanvasId,
    /// The run that waits.
    pub run: RunId,
    /// The node that asks.
    pub node: ComponentId,
    /// The key of its answers among a caller's inputs, such as `Agent:A[2]`.
    pub address: String,
    /// The kind of answer it requires.
    pub kind: TaskKind,
    /// Its title in lists.
    pub title: String,
    /// The form to fill in. A task that arose in the middle of a node's work has one field.
    pub form: Form,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it expires without an answer, in milliseconds since 1970.
    pub due_ms: Option<i64>,
    /// Its status.
    pub status: TaskStatus,
    /// The run that ended it.
    pub ended_by: Option<RunId>,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: Option<i64>,
}

/// The changes that a turn makes to the human tasks of its session.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskChange {
    /// The run that makes the changes.
    pub run: RunId,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// All tasks that are open now, both new ones and those that were open before. Every other task that was open has
    /// ended.
    pub open: Vec<Task>,
    /// The status of those that ended other than by being [`TaskStatus::Dropped`].
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
    /// Those that expire without an answer by then, in milliseconds since 1970.
    pub due_by_ms: Option<i64>,
    /// Only those after this position in the list, given as a creation time and an id. The total counts all of them.
    pub after: Option<(i64, TaskId)>,
    /// How many to skip.
    pub offset: u64,
    /// Maximum number to return.
    pub limit: u64,
}

/// A position among the tasks that are due: the deadline of a task, and its key. Tasks are ordered by deadline, tenant
/// and id.
pub type DuePosition = (i64, TaskKey);

/// Reads tasks. They are written together with their session, by
/// [`SessionStore::commit`](super::SessionStore::commit), so that they always match what the session waits for, and
/// they are deleted with it.
#[async_trait]
pub trait TaskStore: Send + Sync {
    /// Returns a task, open or not.
    ///
    /// # Errors
    /// `NotFound`.
    async fn get(&self, key: &TaskKey) -> Result<Task>;

    /// Returns tasks that match a filter, oldest first, and their total number.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list(&self, tenant: &TenantId, filter: &TaskFilter) -> Result<(Vec<Task>, u64)>;

    /// Returns up to `count_max` open tasks of all tenants that are due by then, longest overdue first; with `after`
    /// only those that follow this position in that order.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn due(&self, by_ms: i64, after: Option<&DuePosition>, count_max: u64) -> Result<Vec<Task>>;
}
