//! Results of tools: text for models, and the same as data for programs.

use serde_json::{Map, Value as Json, json};
use weft_core::journal::Ending;
use weft_core::seam::task_store::Task;
use weft_core::{RunId, SessionId};

use super::forms;
use crate::answer::Answer;

/// Builds a result with a text.
pub(super) fn said(text: &str) -> Map<String, Json> {
    Map::from_iter([("content".to_owned(), json!([{"type": "text", "text": text}]))])
}

/// Builds a result with a text and the same as data.
pub(super) fn told(text: &str, data: Json) -> Map<String, Json> {
    let mut result = said(text);
    result.insert("structuredContent".to_owned(), data);
    result
}

/// Builds a result with data, whose JSON is also the text.
pub(super) fn data(data: Json) -> Map<String, Json> {
    told(&data.to_string(), data)
}

/// Builds a result for a failure, which the model can act on.
pub(super) fn failed(reason: &str) -> Map<String, Json> {
    let mut result = said(reason);
    result.insert("isError".to_owned(), true.into());
    result
}

/// The schema of the results of all agents.
pub(super) fn schema() -> Json {
    let text = |what: &str| json!({"type": "string", "description": what});
    json!({
        "type": "object",
        "properties": {
            "answer": text("What the agent said."),
            "status": {"type": "string", "enum": ["succeeded", "waiting", "failed", "cancelled"],
                "description": "`waiting`: the run waits for a person, for the answers to `tasks`."},
            "run_id": text("Id of the run."),
            "session_id": text("The session; send it with the next question to continue the conversation."),
            "reference": {"type": "object", "description": "The passages that the answer cites."},
            "structured": {"type": "object", "description": "Structured outputs by component."},
            "tasks": {"type": "array", "description": "What the run waits for."},
            "error": text("Reason for the failure."),
        },
        "required": ["answer", "status", "run_id", "session_id"],
    })
}

/// Builds the result of a run.
pub(super) fn of_run(run: &RunId, session: &SessionId, answer: &Answer, open: &[Task]) -> Map<String, Json> {
    let ending = answer.end.as_ref().map(|end| end.ending);
    let text = answer.text();
    let mut data = json!({
        "answer": text, "status": ending.map_or("unfinished", Ending::as_str), "run_id": run, "session_id": session,
        "reference": answer.reference(),
    });
    if !answer.structured.is_empty() {
        data["structured"] = Json::Object(answer.structured.clone());
    }
    match ending {
        Some(Ending::Failed | Ending::Cancelled) | None => {
            let stopped =
                if ending == Some(Ending::Cancelled) { "the run was cancelled" } else { "the run failed" };
            let reason = answer.end.as_ref().and_then(|end| end.error.as_deref()).unwrap_or(stopped);
            data["error"] = reason.into();
            let mut result = failed(reason);
            result.insert("structuredContent".to_owned(), data);
            result
        }
        Some(Ending::Waiting) => {
            // A client that does not support questions gets them with the answer.
            data["tasks"] = open.iter().map(task).collect();
            told(&asking(&text, session, open), data)
        }
        Some(Ending::Succeeded) => told(&text, data),
    }
}

/// An open task, as data.
fn task(task: &Task) -> Json {
    json!({"id": task.key.id, "kind": task.kind.as_str(), "title": task.title, "address": task.address,
        "fields": task.form.fields})
}

/// The text for a client that does not support questions.
fn asking(said: &str, session: &SessionId, open: &[Task]) -> String {
    let asked: Vec<String> = open
        .iter()
        .map(|task| forms::question(task)["params"]["message"].as_str().unwrap_or_default().to_owned())
        .collect();
    let gap = if said.is_empty() { "" } else { "\n\n" };
    format!(
        "{said}{gap}The run waits for a person: {}. To answer, call the tool again with \"session_id\": \"{session}\" \
         and the values of the fields, which are in `tasks`.",
        asked.join("; ")
    )
}
