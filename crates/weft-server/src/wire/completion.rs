//! Requests for a turn, and the answer as a single JSON object.

use axum::http::HeaderMap;
use serde_json::{Value as Json, json};
use weft_core::{RunId, SessionId, TurnInput};

use crate::answer::Answer;
use crate::auth::Caller;
use crate::body::Body;
use crate::dialect::Dialect;
use crate::dialect::ragflow::{self, RunView, TokenCounts};
use crate::error::ApiError;
use weft_app::idempotency::KEY_CHARS_MAX;
use weft_app::turns::MultitaskStrategy;

/// Message for `pins` that cannot be parsed.
const PINS_FORM: &str = "`pins` must give outputs to nodes: write {\"NODE\": {\"outputs\": {…}}}, and `to` beside them for a node that branches";

/// Whether the caller wants a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseMode {
    /// Events as they occur.
    Stream,
    /// A single answer at the end.
    Whole,
}

/// A request for a turn.
#[derive(Debug)]
pub struct CompletionRequest {
    /// The conversation; absent for a new one.
    pub session: Option<SessionId>,
    /// The version of the agent: a hash, a label, or `published`. Absent: the version of the conversation, or the
    /// newest for a new one.
    pub version: Option<String>,
    /// The input of the turn.
    pub input: TurnInput,
    /// The form of the answer.
    pub response_mode: ResponseMode,
    /// The format of the events.
    pub dialect: Dialect,
    /// Whether to report finished nodes.
    pub trace: bool,
    /// What to do if the session already has a turn under way; absent: the server's default.
    pub strategy: Option<MultitaskStrategy>,
    /// Key by which a repeated request is recognized.
    pub idempotency_key: Option<String>,
    /// The run that this turn must directly follow.
    pub after: Option<RunId>,
    /// For a chat assistant: the messages that a new conversation begins with, as role and text.
    pub opening: Option<Vec<(&'static str, String)>>,
    /// For an agent: the earlier messages of a new conversation, as role and text.
    pub before: Vec<(&'static str, String)>,
}

impl CompletionRequest {
    /// Reads a request; `default` applies if `stream` is absent.
    ///
    /// # Errors
    /// 101 naming the field that is not valid.
    pub fn read(body: &Body, caller: &Caller, default: ResponseMode) -> Result<Self, ApiError> {
        // Each generation of clients has its own field for the question.
        let query = match body.text("query")? {
            Some(query) => query,
            None => body.text("question")?.unwrap_or_default(),
        };
        let user_id = body.text("user_id")?.unwrap_or_else(|| caller.user_id.clone());
        let files = body.list("files")?.unwrap_or_default();
        let inputs = body.object("inputs")?.unwrap_or_default();
        let pins = body.object("pins")?.unwrap_or_default();
        let pins = serde_json::from_value(pins.into()).map_err(|_| ApiError::argument(PINS_FORM))?;
        let parallel_messages = body.flag("parallel_messages")?.unwrap_or(false);
        Ok(Self {
            session: body.id("session_id")?.map(SessionId::from),
            version: version(body)?,
            input: TurnInput {
                query,
                user_id,
                files,
                inputs,
                pins,
                parallel_messages,
                ..TurnInput::default()
            },
            response_mode: response_mode(body, default)?,
            dialect: dialect(body.text("dialect")?.as_deref())?,
            trace: body.flag("return_trace")?.unwrap_or(false),
            strategy: strategy(body)?,
            idempotency_key: body.text("idempotency_key")?.map(|key| checked_key(&key)).transpose()?,
            after: None,
            opening: None,
            before: Vec::new(),
        })
    }
}

/// Returns the dialect with this name, or the default one.
///
/// # Errors
/// 101 for an unknown name.
pub fn dialect(name: Option<&str>) -> Result<Dialect, ApiError> {
    let Some(name) = name else { return Ok(Dialect::default()) };
    let wrong = || ApiError::argument(format!("`dialect` must be one of {}", Dialect::NAMES.join(", ")));
    Dialect::parse(name).ok_or_else(wrong)
}

/// The header equivalent of the field `idempotency_key`.
const KEY_HEADER: &str = "idempotency-key";

impl CompletionRequest {
    /// Takes the key from the headers unless the field has set it.
    ///
    /// # Errors
    /// 101 for a key that is not valid.
    pub fn with_headers(mut self, headers: &HeaderMap) -> Result<Self, ApiError> {
        if self.idempotency_key.is_none()
            && let Some(value) = headers.get(KEY_HEADER)
        {
            let key = value.to_str().map_err(|_| wrong_key())?;
            self.idempotency_key = Some(checked_key(key)?);
        }
        Ok(self)
    }
}

fn wrong_key() -> ApiError {
    ApiError::argument(format!("an idempotency key must be a text of 1 to {KEY_CHARS_MAX} characters"))
}

/// Checks an idempotency key and trims it.
///
/// # Errors
/// 101 for a key that is empty or too long.
pub fn checked_key(key: &str) -> Result<String, ApiError> {
    // Header values arrive trimmed, and the same key in a field must compare equal.
    let right = !key.trim().is_empty() && key.chars().count() <= KEY_CHARS_MAX;
    if right { Ok(key.trim().to_owned()) } else { Err(wrong_key()) }
}

/// Reads what to do if the session already has a turn under way.
///
/// # Errors
/// 101 for an unknown strategy.
pub fn strategy(body: &Body) -> Result<Option<MultitaskStrategy>, ApiError> {
    let Some(name) = body.text("multitask_strategy")? else { return Ok(None) };
    let wrong =
        || ApiError::argument("`multitask_strategy` must be `reject`, `enqueue`, `interrupt` or `steer`");
    MultitaskStrategy::parse(&name).ok_or_else(wrong).map(Some)
}

/// Returns the requested version: `version`, or the published one if `release` is set.
///
/// # Errors
/// 101 when either is of another type.
pub fn version(body: &Body) -> Result<Option<String>, ApiError> {
    let named = body.text("version")?.filter(|name| !name.is_empty());
    let published = body.flag("release")? == Some(true);
    Ok(named.or_else(|| published.then(|| "published".to_owned())))
}

/// Reads the form of the answer.
///
/// # Errors
/// 101 when `stream` is not a boolean.
pub fn response_mode(body: &Body, default: ResponseMode) -> Result<ResponseMode, ApiError> {
    Ok(match body.flag("stream")? {
        Some(true) => ResponseMode::Stream,
        Some(false) => ResponseMode::Whole,
        None => default,
    })
}

/// Returns the text of the last user message, its parts joined; `None` without a message of the user or the
/// assistant.
///
/// # Errors
/// 102 when there are no messages, or when the question is not text or has parts that are not text: they must not be
/// dropped silently.
pub fn last_question(messages: &[Json]) -> Result<Option<String>, ApiError> {
    if messages.is_empty() {
        return Err(ApiError::data("You must provide at least one message."));
    }
    let role = |message: &&Json, wanted: &str| message.get("role").and_then(Json::as_str) == Some(wanted);
    // Clients expect this case to be reported by a completion, not by an error.
    if !messages.iter().any(|message| role(&message, "user") || role(&message, "assistant")) {
        return Ok(None);
    }
    let last = messages.iter().rev().find(|message| role(message, "user"));
    last.and_then(|message| message.get("content")).map_or(Ok(String::new()), content_text).map(Some)
}

/// Returns the text of a message, its parts joined.
///
/// # Errors
/// 102 when it is neither text nor a list of parts, or has parts that are not text.
pub fn content_text(content: &Json) -> Result<String, ApiError> {
    let parts = match content {
        Json::Null => return Ok(String::new()),
        Json::String(text) => return Ok(text.clone()),
        Json::Array(parts) => parts,
        _ => return Err(ApiError::data("The content of a message must be a text or a list of parts.")),
    };
    let text = |part: &Json| part.as_str().or_else(|| part.get("text")?.as_str()).map(str::to_owned);
    let mut texts = Vec::new();
    for part in parts {
        let kind = part.get("type").and_then(Json::as_str);
        match (text(part), kind) {
            (Some(text), _) => texts.push(text),
            (None, Some(kind)) => {
                let message = format!("Parts of the type `{kind}` are not read: send the question as text.");
                return Err(ApiError::data(message));
            }
            (None, None) => {}
        }
    }
    Ok(texts.join("\n"))
}

/// The answer of a run as a single object: its last event, with the whole text as `content`.
pub fn whole(answer: &Answer, view: &RunView, trace: Option<Vec<Json>>) -> Json {
    let shown = answer.shown();
    let event = shown.and_then(|entry| ragflow::event_name(&entry.record)).unwrap_or("workflow_finished");
    let mut data = shown.and_then(|entry| ragflow::finished_data(entry, view)).unwrap_or_default();
    // Clients read the answer from this field, whichever event was the last.
    data.insert("content".to_owned(), Json::String(answer.text()));
    data.insert("reference".to_owned(), answer.reference());
    if let Some(end) = &answer.end {
        data.insert("usage".to_owned(), json!(TokenCounts::from(end.usage)));
        data.insert("status".to_owned(), json!(end.ending.as_str()));
    }
    if let Some(limit) = answer.limited() {
        data.insert("stop_reason".to_owned(), json!(limit.as_str()));
    }
    if !answer.structured.is_empty() {
        data.insert("structured".to_owned(), Json::Object(answer.structured.clone()));
    }
    if let Some(trace) = trace {
        data.insert("trace".to_owned(), Json::Array(trace));
    }
    json!({
        "event": event,
        "message_id": view.run,
        // The id that clients cancel by.
        "task_id": view.run,
        "session_id": view.session,
        "created_at": view.started_ms.div_euclid(1000),
        "version": view.version,
        "data": data,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_user_message_is_the_question() {
        let messages = |json: Json| json.as_array().unwrap().clone();
        let question = |json| last_question(&messages(json)).unwrap();
        assert_eq!(
            question(json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])),
            Some("a".into())
        );
        let parts = json!([{"role": "user", "content": [{"type": "text", "text": "x"}, {"other": 1}, "y"]}]);
        assert_eq!(question(parts), Some("x\ny".into()));
        assert_eq!(question(json!([{"role": "system", "content": "a"}, 7])), None);
        assert!(last_question(&[]).is_err());
        let image = json!([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]}]);
        let error = last_question(&messages(image)).unwrap_err();
        assert!(format!("{error:?}").contains("`image_url` are not read"), "{error:?}");
    }
}
