//! Requests of the AG-UI protocol.

use axum::http::StatusCode;
use serde_json::Value as Json;
use weft_core::{TaskId, TurnInput};

use crate::auth::Caller;
use crate::body::Body;
use crate::dialect::ag_ui::ClientNames;
use crate::error::ApiError;
use crate::wire::completion::{checked_key, last_question};
use weft_app::tasks::TaskAnswer;

/// Maximum number of interrupts that one request may answer.
const ANSWERS_MAX: usize = 100;

/// A parsed request.
#[derive(Debug)]
pub struct RunInput {
    /// The client's names for the run and its conversation.
    pub names: ClientNames,
    /// The question, and its form values.
    pub input: TurnInput,
    /// Answers to interrupts of the previous run. If there are any, the question is ignored.
    pub answers: Vec<(TaskId, TaskAnswer)>,
    /// Whether all answers are cancellations.
    pub only_cancels: bool,
}

impl RunInput {
    /// Parses a request.
    ///
    /// # Errors
    /// 101 naming the field that is not valid, 102 for a question with parts that are not text.
    pub fn read(body: &Body, caller: &Caller) -> Result<Self, ApiError> {
        body.require(&["threadId", "runId"])?;
        let id = |key: &str| body.id(key).map(Option::unwrap_or_default);
        let run = checked_key(&id("runId")?);
        let run = run.map_err(|error| error.naming("an idempotency key", "`runId`"))?;
        let names = ClientNames { thread: id("threadId")?, run };
        let entries = body.list("resume")?.unwrap_or_default();
        if entries.len() > ANSWERS_MAX {
            return Err(ApiError::argument(format!("`resume` has more than {ANSWERS_MAX} entries")));
        }
        // Read before the question, which is optional with answers.
        let answers = entries.iter().map(answer).collect::<Result<Vec<_>, _>>()?;
        let cancels = |entry: &Json| entry.get("status").and_then(Json::as_str) == Some("cancelled");
        let only_cancels = !entries.is_empty() && entries.iter().all(cancels);
        let messages = body.list("messages")?.unwrap_or_default();
        let query = if answers.is_empty() {
            // The same code as for missing data.
            let asked = last_question(&messages);
            asked.map_err(|error| error.with_status(StatusCode::BAD_REQUEST))?.unwrap_or_default()
        } else {
            String::new()
        };
        let props = body.get("forwardedProps").and_then(|props| props.get("inputs"));
        let inputs = match props {
            None | Some(Json::Null) => serde_json::Map::new(),
            Some(Json::Object(inputs)) => inputs.clone(),
            Some(_) => return Err(ApiError::argument("`forwardedProps.inputs` must be an object")),
        };
        let input = TurnInput { query, user_id: caller.user_id.clone(), inputs, ..TurnInput::default() };
        Ok(Self { names, input, answers, only_cancels })
    }
}

/// Reads an answer to an interrupt. A call whose interrupt is cancelled is not made.
fn answer(entry: &Json) -> Result<(TaskId, TaskAnswer), ApiError> {
    let text = |key: &str| entry.get(key).and_then(Json::as_str);
    let Some(id) = text("interruptId").filter(|id| !id.is_empty()) else {
        return Err(ApiError::argument("every entry of `resume` needs an `interruptId`"));
    };
    let answer = match (text("status"), entry.get("payload")) {
        (Some("cancelled"), _) => TaskAnswer::Decision(Json::from("deny")),
        (Some("resolved"), Some(Json::Object(payload))) if !payload.contains_key("decision") => {
            TaskAnswer::Inputs(payload.clone())
        }
        (Some("resolved"), Some(payload)) if !payload.is_null() => TaskAnswer::Decision(payload.clone()),
        (Some("resolved"), _) => {
            return Err(ApiError::argument(format!("the answer to the interrupt `{id}` has no `payload`")));
        }
        _ => {
            let message = format!("the `status` of the interrupt `{id}` must be `resolved` or `cancelled`");
            return Err(ApiError::argument(message));
        }
    };
    Ok((TaskId::from(id), answer))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_values_or_decisions() {
        let read =
            |entry: Json| answer(&entry).map(|(_, answer)| answer).map_err(|error| format!("{error:?}"));
        let resolved = |payload: Json| json!({"interruptId": "t", "status": "resolved", "payload": payload});
        let inputs = json!({"name": "Ada"});
        assert_eq!(
            read(resolved(inputs.clone())).unwrap(),
            TaskAnswer::Inputs(inputs.as_object().unwrap().clone())
        );
        let decision = json!({"decision": "edit", "arguments": {}});
        assert_eq!(read(resolved(decision.clone())).unwrap(), TaskAnswer::Decision(decision));
        assert_eq!(read(resolved(json!("approve"))).unwrap(), TaskAnswer::Decision(json!("approve")));
        let cancelled = json!({"interruptId": "t", "status": "cancelled"});
        assert_eq!(read(cancelled).unwrap(), TaskAnswer::Decision(json!("deny")));
        assert!(read(resolved(Json::Null)).unwrap_err().contains("no `payload`"));
        assert!(read(json!({"status": "resolved"})).unwrap_err().contains("interruptId"));
        assert!(read(json!({"interruptId": "t", "status": "maybe"})).unwrap_err().contains("resolved"));
    }
}
