//! Human tasks in lists, and the answers to them.

use serde::Serialize;
use serde_json::json;
use weft_core::seam::task_store::{Task, TaskFilter, TaskKind, TaskStatus};
use weft_core::{CanvasId, ComponentId, Json, RunId, SessionId, TaskId};

use crate::body::{Body, Params};
use crate::error::ApiError;
use weft_app::tasks::TaskAnswer;

/// A task. Times are in milliseconds since 1970.
#[derive(Debug, Serialize)]
pub struct TaskView {
    id: TaskId,
    kind: &'static str,
    status: &'static str,
    title: String,
    agent_id: CanvasId,
    session_id: SessionId,
    run_id: RunId,
    component_id: ComponentId,
    /// Key for its answers among the inputs of a turn.
    address: String,
    tips: String,
    inputs: serde_json::Map<String, Json>,
    create_time: i64,
    due_time: Option<i64>,
    ended_by: Option<RunId>,
    end_time: Option<i64>,
}

impl From<Task> for TaskView {
    fn from(task: Task) -> Self {
        let Task { key, session, canvas, run, node, address, kind, title, form, .. } = task;
        Self {
            id: key.id,
            kind: kind.as_str(),
            status: task.status.as_str(),
            title,
            agent_id: canvas,
            session_id: session,
            run_id: run,
            component_id: node,
            address,
            tips: form.tips.unwrap_or_default(),
            inputs: form.fields,
            create_time: task.created_ms,
            due_time: task.due_ms,
            ended_by: task.ended_by,
            end_time: task.ended_ms,
        }
    }
}

/// Reads the filter of a list of tasks: open ones, unless `status` is given.
///
/// # Errors
/// 101 for a word or a time that is not valid.
pub fn filter(params: &Params, now_ms: i64, size_max: u64) -> Result<TaskFilter, ApiError> {
    let unknown = |name: &str, word: &str, known: Vec<&str>| {
        ApiError::argument(format!("`{name}` cannot be `{word}`; it is one of: {}", known.join(", ")))
    };
    let kind = params.get("kind").map(|word| {
        let known = || TaskKind::ALL.map(TaskKind::as_str).to_vec();
        TaskKind::parse(word).ok_or_else(|| unknown("kind", word, known()))
    });
    let status = match params.get("status") {
        None => Some(TaskStatus::Open),
        Some("all") => None,
        Some(word) => Some(TaskStatus::parse(word).ok_or_else(|| {
            let known = TaskStatus::ALL.map(TaskStatus::as_str);
            unknown("status", word, known.into_iter().chain(["all"]).collect())
        })?),
    };
    let due_by_ms = match (params.get("due_by"), params.flag("overdue")) {
        (Some(time), _) => Some(time.parse().map_err(|_| {
            ApiError::argument(format!("`due_by` must be a time in milliseconds since 1970, not `{time}`"))
        })?),
        (None, Some(true)) => Some(now_ms),
        (None, _) => None,
    };
    let page = params.page(size_max);
    Ok(TaskFilter {
        canvas: params.get("agent_id").or_else(|| params.get("canvas_id")).map(Into::into),
        session: params.get("session_id").map(Into::into),
        kind: kind.transpose()?,
        status,
        due_by_ms,
        after: None,
        offset: page.offset,
        limit: page.limit,
    })
}

/// Reads the answer to a task from a body: `inputs`, or one of `approve`, `deny`, `edit`, `retry`, `give_up` and
/// `decision`, with a `reason` for a refusal.
///
/// # Errors
/// 101 without an answer, and with more than one.
pub fn answer(body: &Body) -> Result<TaskAnswer, ApiError> {
    let mut said: Vec<TaskAnswer> = Vec::new();
    said.extend(body.object("inputs")?.map(TaskAnswer::Inputs));
    let reason = body.text("reason")?;
    let denied = |reason: Option<String>| match reason {
        None => json!("deny"),
        Some(reason) => json!({"decision": "deny", "reason": reason}),
    };
    match body.get("deny") {
        None | Some(Json::Bool(false)) => {}
        // A string is the reason of the refusal, unless it spells a boolean.
        Some(Json::String(text)) if body.flag("deny").is_err() => {
            said.push(TaskAnswer::Decision(denied(Some(text.clone()))));
        }
        Some(_) => {
            if body.flag("deny")? == Some(true) {
                said.push(TaskAnswer::Decision(denied(reason)));
            }
        }
    }
    for word in ["approve", "retry", "give_up"] {
        if body.flag(word)? == Some(true) {
            said.push(TaskAnswer::Decision(Json::from(word)));
        }
    }
    said.extend(body.get("edit").map(|edit| TaskAnswer::Decision(edited(edit))));
    said.extend(body.get("decision").map(|word| {
        let mut decision = body.0.clone();
        decision.retain(|key, _| ["decision", "reason", "arguments", "plan"].contains(&key.as_str()));
        TaskAnswer::Decision(if decision.len() == 1 { word.clone() } else { Json::Object(decision) })
    }));
    let mut said = said.into_iter();
    match (said.next(), said.next()) {
        (Some(answer), None) => Ok(answer),
        (None, _) => Err(ApiError::argument(
            "the answer is missing: give `inputs` for a form, or one of `approve`, `deny`, `edit`, `retry`, `give_up`",
        )),
        (Some(_), Some(_)) => Err(ApiError::argument("these are several answers: give only one")),
    }
}

/// Builds the decision with changes: other arguments for a call, or another text for a plan.
pub fn edited(edit: &Json) -> Json {
    match edit {
        Json::Object(_) => json!({"decision": "edit", "arguments": edit}),
        other => json!({"decision": "edit", "plan": other}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_answer_is_required() {
        let read = |json: Json| answer(&Body(json.as_object().unwrap().clone())).ok();
        let decision = |json: Json| Some(TaskAnswer::Decision(json));
        assert_eq!(read(json!({"approve": true})), decision(json!("approve")));
        assert_eq!(read(json!({"approve": false, "deny": true})), decision(json!("deny")));
        let denied = json!({"decision": "deny", "reason": "too dear"});
        assert_eq!(read(json!({"deny": "too dear"})), decision(denied.clone()));
        assert_eq!(read(json!({"deny": true, "reason": "too dear"})), decision(denied.clone()));
        assert_eq!(read(denied.clone()), decision(denied));
        assert_eq!(read(json!({"decision": "retry", "stream": true})), decision(json!("retry")));
        let edit = json!({"decision": "edit", "arguments": {"q": 1}});
        assert_eq!(read(json!({"edit": {"q": 1}})), decision(edit));
        assert_eq!(
            read(json!({"inputs": {"a": 1}})),
            Some(TaskAnswer::Inputs(json!({"a": 1}).as_object().unwrap().clone()))
        );
        for wrong in [json!({}), json!({"approve": true, "deny": true}), json!({"inputs": {}, "retry": true})]
        {
            assert_eq!(read(wrong), None);
        }
    }
}
