//! Sessions with their messages.

use serde::Serialize;
use serde_json::{Value as Json, json};
use weft_core::seam::session_store::{Session, SessionMessage};
use weft_core::{CanvasId, SessionId};

use super::time::http_date;

/// A session. The messages appear under both names that clients know.
#[derive(Debug, Serialize)]
pub struct SessionView {
    id: SessionId,
    name: String,
    agent_id: CanvasId,
    dialog_id: CanvasId,
    user_id: String,
    exp_user_id: String,
    source: &'static str,
    message: Json,
    messages: Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    dsl: Option<Json>,
    version_title: String,
    create_time: i64,
    create_date: String,
    update_time: i64,
    update_date: String,
}

impl SessionView {
    /// Builds the representation of a session with its messages, and its canvas if requested.
    pub fn new(session: Session, messages: &[SessionMessage], dsl: Option<Json>) -> Self {
        let Session {
            key,
            canvas,
            canvas_version,
            user_id,
            name,
            created_ms,
            updated_ms,
            state: _,
            revision: _,
        } = session;
        let dsl = dsl.map(|mut dsl| {
            dsl["retrieval"] = retrieval(messages);
            dsl
        });
        let messages =
            Json::Array(messages.iter().enumerate().map(|(place, one)| message(place, one)).collect());
        Self {
            id: key.id,
            name,
            // The SDK recognizes a session of an agent by the presence of this field.
            agent_id: canvas.clone(),
            dialog_id: canvas,
            exp_user_id: user_id.clone(),
            user_id,
            source: "agent",
            message: messages.clone(),
            messages,
            dsl,
            version_title: canvas_version.to_string(),
            create_time: created_ms,
            create_date: http_date(created_ms),
            update_time: updated_ms,
            update_date: http_date(updated_ms),
        }
    }
}

/// A conversation with a chat assistant.
#[derive(Debug, Serialize)]
pub struct ChatSessionView {
    id: SessionId,
    chat_id: CanvasId,
    name: String,
    user_id: String,
    messages: Json,
    create_time: i64,
    create_date: String,
    update_time: i64,
    update_date: String,
}

impl ChatSessionView {
    /// Builds the representation of a conversation with its messages.
    pub fn new(session: Session, messages: &[SessionMessage]) -> Self {
        let judged = |(at, one): (usize, &SessionMessage)| {
            let mut view = message(at, one);
            if let Some(feedback) = &one.feedback {
                view["thumbup"] = feedback.good.into();
                view["feedback"] = feedback.words.as_str().into();
            }
            view
        };
        Self {
            id: session.key.id,
            chat_id: session.canvas,
            name: session.name,
            user_id: session.user_id,
            messages: messages.iter().enumerate().map(judged).collect(),
            create_time: session.created_ms,
            create_date: http_date(session.created_ms),
            update_time: session.updated_ms,
            update_date: http_date(session.updated_ms),
        }
    }
}

/// The retrieved sources, turn by turn, as the canvas of a session contains them.
fn retrieval(messages: &[SessionMessage]) -> Json {
    let answers = messages.iter().filter(|message| message.role == "assistant" && message.run.is_some());
    let found = |message: &SessionMessage| match &message.reference {
        Json::Object(reference) => Json::Object(reference.clone()),
        _ => json!({"chunks": {}, "doc_aggs": {}}),
    };
    answers.map(found).collect()
}

fn message(at: usize, message: &SessionMessage) -> Json {
    let SessionMessage { role, content, run, reference, created_ms, feedback: _ } = message;
    let mut view = json!({"role": role, "content": content, "created_at": created_ms / 1000});
    if let Some(run) = run {
        view["id"] = json!(run);
    }
    // The opening text has no sources.
    if role == "assistant" && at > 0 {
        view["reference"] = sources(reference);
    }
    view
}

/// Converts the sources from `{chunks, doc_aggs}` into a list; each one has the number by which it is cited.
pub fn sources(reference: &Json) -> Json {
    let chunks = reference.get("chunks").and_then(Json::as_object);
    let list = chunks.into_iter().flatten().map(|(number, chunk)| {
        let mut chunk = chunk.clone();
        chunk["citation_id"] = json!(number);
        chunk
    });
    Json::Array(list.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_references_of_each_turn_are_listed() {
        let found = json!({"chunks": {"0": {"id": "a"}}, "doc_aggs": {"d.md": {"doc_id": "d", "count": 1}}});
        let message = |role: &str, run: Option<&str>, reference: &Json| SessionMessage {
            role: role.to_owned(),
            content: String::new(),
            run: run.map(Into::into),
            reference: reference.clone(),
            created_ms: 0,
            feedback: None,
        };
        let messages = [
            message("assistant", None, &Json::Null),
            message("user", Some("1"), &Json::Null),
            message("assistant", Some("1"), &found),
            message("assistant", Some("2"), &Json::Null),
        ];
        assert_eq!(retrieval(&messages), json!([found, {"chunks": {}, "doc_aggs": {}}]));
    }

    #[test]
    fn sources_become_a_list() {
        let reference = json!({"chunks": {"3": {"id": "a"}}, "doc_aggs": {}});
        assert_eq!(sources(&reference), json!([{"id": "a", "citation_id": "3"}]));
        assert_eq!(sources(&Json::Null), json!([]));
    }
}
