//! Answers to tasks that have ended: they are refused and start nothing, also as the values of a turn.

use std::fmt;

use serde_json::Map;
use weft_core::seam::run_store::at_work;
use weft_core::seam::session_store::Session;
use weft_core::seam::task_store::{Task, TaskFilter, TaskKind, TaskStatus};
use weft_core::{Error, ErrorKind, Json, Result, TurnInput};
use weft_dsl::Plan;

use crate::app::App;

/// Maximum number of tasks of a session, the newest ones, among which the task of an answer is looked for.
const TASKS_MAX: u64 = 128;
/// Number of tasks read at a time: a form may have megabytes.
const TASKS_AT_ONCE: u64 = 8;

/// The cause of an error for a task that has ended, by which callers tell it from other conflicts.
#[derive(Debug)]
struct TaskEnd;

impl fmt::Display for TaskEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it can neither be answered nor cancelled any more")
    }
}

impl std::error::Error for TaskEnd {}

/// Returns whether an error says that a task has ended before it could be answered or cancelled.
pub fn is_of_ended_task(error: &Error) -> bool {
    error.cause.as_ref().is_some_and(|cause| cause.is::<TaskEnd>())
}

/// Returns the error for a task that has ended: how, and by which run.
pub(crate) fn ended(task: &Task) -> Error {
    let how = match task.status {
        TaskStatus::Open => "is open",
        TaskStatus::Answered => "was answered already",
        TaskStatus::TimedOut => "was not answered in time",
        TaskStatus::Dropped => "was dropped: its run was stopped, or its session continued without it",
    };
    let by = task.ended_by.as_ref().map(|run| format!(" (run {run})")).unwrap_or_default();
    Error::new(ErrorKind::Conflict, format!("task {} {how}{by}", task.key.id)).because(TaskEnd)
}

/// Returns whether a turn consists of values alone, so that these may be the answer to a task.
pub(crate) fn is_values_alone(input: &TurnInput) -> bool {
    !input.inputs.is_empty()
        && input.query.trim().is_empty()
        && input.files.is_empty()
        && input.webhook.is_none()
}

impl App {
    /// Refuses the values of a turn that answers no open task, if each of them is for a task of its session that has
    /// ended. Without this, a second or late answer would start a new run with an empty question, and fill in the same
    /// form beforehand.
    ///
    /// # Errors
    /// `Conflict` with how the task has ended, and while a turn of the session is under way.
    pub(crate) async fn refuse_late(
        &self,
        session: &Session,
        plan: &Plan,
        inputs: &Map<String, Json>,
    ) -> Result<()> {
        if inputs.keys().any(|key| plan.takes_at_start(key)) {
            return Ok(());
        }
        // A turn under way may have asked the same form again: its readers see the form before the task is stored.
        if let Some(busy) = self.engine.at_work(&session.key).await? {
            return Err(at_work(&session.key.id, &busy.key.id));
        }
        match self.ended_task(session, inputs).await? {
            Some(task) => Err(ended(&task)),
            None => Ok(()),
        }
    }

    /// Returns the newest task that values are for, if each of them is for one, and none of these tasks is open.
    async fn ended_task(&self, session: &Session, inputs: &Map<String, Json>) -> Result<Option<Task>> {
        let tenant = &session.key.tenant;
        let filter = TaskFilter { session: Some(session.key.id.clone()), limit: 1, ..TaskFilter::default() };
        let (_, total) = self.tasks.list(tenant, &filter).await?;
        let oldest = total.saturating_sub(TASKS_MAX);
        let (mut end, mut newest) = (total, None);
        let mut left: Vec<_> = inputs.iter().collect();
        while end > oldest && !left.is_empty() {
            let offset = end.saturating_sub(TASKS_AT_ONCE).max(oldest);
            let part = TaskFilter { offset, limit: end - offset, ..filter.clone() };
            let (tasks, _) = self.tasks.list(tenant, &part).await?;
            for task in tasks.into_iter().rev() {
                let before = left.len();
                left.retain(|(key, value)| !is_for(&task, key, value));
                if left.len() == before {
                    continue;
                }
                if task.status == TaskStatus::Open {
                    return Ok(None);
                }
                newest.get_or_insert(task);
            }
            end = offset;
        }
        Ok(newest.filter(|_| left.is_empty()))
    }
}

/// Returns whether a value is for a task: under its address or its node, or by the name of a field.
fn is_for(task: &Task, key: &str, value: &Json) -> bool {
    let fields = &task.form.fields;
    if key != task.address && key != task.node.as_str() {
        return fields.contains_key(key);
    }
    let named = |own: &Map<String, Json>| own.keys().any(|field| fields.contains_key(field));
    value.as_object().is_some_and(|own| task.kind == TaskKind::Form || named(own))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_testkit::open_task;

    use super::*;

    #[test]
    fn an_ended_task_differs_from_other_conflicts() {
        let task = open_task(TaskKind::Form, &json!({"go": {}}));
        let error = ended(&Task { status: TaskStatus::Answered, ended_by: Some("r".into()), ..task });
        assert!(is_of_ended_task(&error) && error.full().contains("was answered already (run r)"));
        assert!(!is_of_ended_task(&Error::new(ErrorKind::Conflict, "busy")));
    }

    #[test]
    fn values_belong_to_a_task_by_address_node_or_field() {
        let form = open_task(TaskKind::Form, &json!({"go": {}}));
        let call = open_task(TaskKind::ToolApproval, &json!({"call_1": {"type": "approval"}}));
        for (task, key, value, expected) in [
            (&form, "go", json!(true), true),
            (&form, "other", json!(true), false),
            (&form, form.address.as_str(), json!({"go": true}), true),
            (&form, form.node.as_str(), json!({}), true),
            (&form, form.node.as_str(), json!(true), false),
            (&call, call.address.as_str(), json!({"call_1": "approve"}), true),
            (&call, call.address.as_str(), json!({"call_2": "approve"}), false),
        ] {
            assert_eq!(is_for(task, key, &value), expected, "{key} {value}");
        }
    }

    #[test]
    fn a_question_or_a_file_makes_it_a_turn_of_its_own() {
        let inputs = Map::from_iter([("go".to_owned(), json!(true))]);
        let values = TurnInput { inputs, ..TurnInput::default() };
        assert!(is_values_alone(&values));
        assert!(!is_values_alone(&TurnInput { query: "q".to_owned(), ..values.clone() }));
        assert!(!is_values_alone(&TurnInput { files: vec![json!("f")], ..values }));
        assert!(!is_values_alone(&TurnInput::default()));
    }
}
