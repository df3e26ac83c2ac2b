//! Tasks: calls that continue after their request has been answered.

use serde_json::{Map, json};
use weft_core::Json;

use super::message::RpcError;
use super::questions::Questions;

/// The interval at which a client should poll, in milliseconds.
const POLL_MS: u64 = 1_000;

/// The state of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskState {
    /// It is being worked on.
    Working,
    /// It waits for the client's answers to these questions.
    AsksFor(Questions),
    /// It has ended with this result, which may report a failure of the tool.
    Done(Map<String, Json>),
    /// It could not be carried out.
    Failed(RpcError),
    /// It was cancelled.
    Cancelled,
}

/// A task as it is shown to its owner.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskView {
    /// Its id.
    pub id: String,
    /// Its state.
    pub state: TaskState,
    /// The state as a message for people; may be empty.
    pub message: String,
    /// When it was created, in the format of RFC 3339.
    pub created: String,
    /// When its state last changed, in the format of RFC 3339.
    pub updated: String,
    /// How long it is kept, in milliseconds; absent if it is never removed.
    pub ttl_ms: Option<u64>,
}

impl TaskView {
    fn status(&self) -> &'static str {
        match self.state {
            TaskState::Working => "working",
            TaskState::AsksFor(_) => "input_required",
            TaskState::Done(_) => "completed",
            TaskState::Failed(_) => "failed",
            TaskState::Cancelled => "cancelled",
        }
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        matches!(self.state, TaskState::Done(_) | TaskState::Failed(_) | TaskState::Cancelled)
    }

    /// Returns it in the format of 2026-07-28 and later, without its outcome.
    pub(super) fn head(&self) -> Map<String, Json> {
        let mut head = self.common();
        head.insert("ttlMs".to_owned(), json!(self.ttl_ms));
        head.insert("pollIntervalMs".to_owned(), POLL_MS.into());
        head
    }

    /// Returns it in the format of 2026-07-28 and later, with its outcome.
    pub(super) fn whole(&self) -> Map<String, Json> {
        let mut whole = self.head();
        match &self.state {
            TaskState::Working | TaskState::Cancelled => {}
            TaskState::AsksFor(questions) => {
                whole.insert("inputRequests".to_owned(), Json::Object(questions.requests.clone()));
            }
            TaskState::Done(result) => {
                whole.insert("result".to_owned(), Json::Object(result.clone()));
            }
            TaskState::Failed(error) => {
                whole.insert("error".to_owned(), error.to_json());
            }
        }
        whole
    }

    /// Returns it in the format of 2025-11-25.
    pub(super) fn older(&self) -> Map<String, Json> {
        let mut task = self.common();
        task.insert("ttl".to_owned(), json!(self.ttl_ms));
        task.insert("pollInterval".to_owned(), POLL_MS.into());
        task
    }

    fn common(&self) -> Map<String, Json> {
        let mut task = Map::from_iter([
            ("taskId".to_owned(), Json::from(self.id.as_str())),
            ("status".to_owned(), self.status().into()),
            ("createdAt".to_owned(), self.created.as_str().into()),
            ("lastUpdatedAt".to_owned(), self.updated.as_str().into()),
        ]);
        if !self.message.is_empty() {
            task.insert("statusMessage".to_owned(), self.message.as_str().into());
        }
        task
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_has_only_the_fields_of_its_state() {
        let keys = |state: TaskState| {
            let view = TaskView {
                id: "t".to_owned(),
                state,
                message: String::new(),
                created: "2026-01-01T00:00:00Z".to_owned(),
                updated: "2026-01-01T00:00:00Z".to_owned(),
                ttl_ms: None,
            };
            let head = view.head();
            assert!(!head.contains_key("result") && head["ttlMs"].is_null());
            let whole = view.whole();
            let more = whole.keys().filter(|key| !head.contains_key(*key)).cloned().collect::<Vec<_>>();
            (whole["status"].as_str().unwrap().to_owned(), more.join(","))
        };
        let told = |status: &str, more: &str| (status.to_owned(), more.to_owned());
        assert_eq!(keys(TaskState::Working), told("working", ""));
        assert_eq!(keys(TaskState::AsksFor(Questions::default())), told("input_required", "inputRequests"));
        assert_eq!(keys(TaskState::Done(Map::new())), told("completed", "result"));
        assert_eq!(keys(TaskState::Failed(RpcError::new(-1, "x"))), told("failed", "error"));
        assert_eq!(keys(TaskState::Cancelled), told("cancelled", ""));
    }
}
