//! Requests for a turn, and its answer in one piece.

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

/// What is said of `pins` that cannot be read.
const PINS_FORM: &str = "`pins` must give outputs to nodes: write {\"NODE\": {\"outputs\": {…}}}, and `to` beside them for a node that branches";

/// Whether the caller wants a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseMode {
    /// Events as they come.
    Stream,
    /// One answer at the end.
    Whole,
}

/// A request for a turn.
#[derive(Debug)]
pub struct CompletionRequest {
    /// Which conversation; absent for a new one.
    pub session: Option<SessionId>,
    /// Which version of the agent is to answer, by its hash, a label, or `published`; absent: the one that was saved
    /// last, or the one that the conversation is on.
    pub version: Option<String>,
    /// What the caller gives.
    pub input: TurnInput,
    /// How the answer is wanted.
    pub response_mode: ResponseMode,
    /// Which frames are wanted.
    pub dialect: Dialect,
    /// Whether the nodes that have finished are to be told.
    pub trace: bool,
    /// What becomes of it while the session is in the middle of a turn; absent: what the server does.
    pub strategy: Option<MultitaskStrategy>,
    /// What the caller knows the question by when it asks again.
    pub idempotency_key: Option<String>,
    /// The run that it goes on from, where nothing else may have been said since.
    pub after: Option<RunId>,
    /// Of a question to a chat assistant: what a conversation that begins with it begins with, as role and text.
    pub opening: Option<Vec<(&'static str, String)>>,
    /// Of a question to an agent: what was said before in the conversation that begins with it, as role and text.
    pub before: Vec<(&'static str, String)>,
}

impl CompletionRequest {
    /// Reads one; `default` is what an absent `stream` means on the route.
    ///
    /// # Errors
    /// 101 naming the field that is not valid.
    pub fn read(body: &Body, caller: &Caller, default: ResponseMode) -> Result<Self, ApiError> {
        // Each generation of clients has its own name for the question.
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

/// Which frames are wanted; without a name those of the route.
///
/// # Errors
/// 101 for a name that is none.
pub fn dialect(name: Option<&str>) -> Result<Dialect, ApiError> {
    let Some(name) = name else { return Ok(Dialect::default()) };
    let wrong = || ApiError::argument(format!("`dialect` must be one of {}", Dialect::NAMES.join(", ")));
    Dialect::parse(name).ok_or_else(wrong)
}

/// The header that says the same as the field `idempotency_key`.
const KEY_HEADER: &str = "idempotency-key";

impl CompletionRequest {
    /// With the key of the request's headers; the field goes before it.
    ///
    /// # Errors
    /// 101 for a key that is none.
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

/// A key of a caller for a question.
///
/// # Errors
/// 101 for one that is empty or too long.
pub fn checked_key(key: &str) -> Result<String, ApiError> {
    // A header comes without blanks around it, and the same key in a field is to be the same.
    let right = !key.trim().is_empty() && key.chars().count() <= KEY_CHARS_MAX;
    if right { Ok(key.trim().to_owned()) } else { Err(wrong_key()) }
}

/// What a question meets while its session is in the middle of a turn.
///
/// # Errors
/// 101 for a word that is none of them.
pub fn strategy(body: &Body) -> Result<Option<MultitaskStrategy>, ApiError> {
    let Some(name) = body.text("multitask_strategy")? else { return Ok(None) };
    let wrong =
        || ApiError::argument("`multitask_strategy` must be `reject`, `enqueue`, `interrupt` or `steer`");
    MultitaskStrategy::parse(&name).ok_or_else(wrong).map(Some)
}

/// Which version is asked for: by `version`, or the published one by `release`.
///
/// # Errors
/// 101 when either is of another type.
pub fn version(body: &Body) -> Result<Option<String>, ApiError> {
    let named = body.text("version")?.filter(|name| !name.is_empty());
    let published = body.flag("release")? == Some(true);
    Ok(named.or_else(|| published.then(|| "published".to_owned())))
}

/// How the answer is wanted.
///
/// # Errors
/// 101 when `stream` is no truth value.
pub fn response_mode(body: &Body, default: ResponseMode) -> Result<ResponseMode, ApiError> {
    Ok(match body.flag("stream")? {
        Some(true) => ResponseMode::Stream,
        Some(false) => ResponseMode::Whole,
        None => default,
    })
}

/// The text of the last user message, its parts joined; `None` when nobody says anything.
///
/// # Errors
/// 102 when there are no messages, or when the question has parts that are no text: nothing of it is lost unsaid.
pub fn last_question(messages: &[Json]) -> Result<Option<String>, ApiError> {
    if messages.is_empty() {
        return Err(ApiError::data("You must provide at least one message."));
    }
    let role = |message: &&Json, wanted: &str| message.get("role").and_then(Json::as_str) == Some(wanted);
    // Clients are told so by a completion, and expect no refusal.
    if !messages.iter().any(|message| role(&message, "user") || role(&message, "assistant")) {
        return Ok(None);
    }
    let last = messages.iter().rev().find(|message| role(message, "user"));
    last.and_then(|message| message.get("content")).map_or(Ok(String::new()), content_text).map(Some)
}

/// The text of a message, its parts joined.
///
/// # Errors
/// 102 when it has parts that are no text.
pub fn content_text(content: &Json) -> Result<String, ApiError> {
    let Json::Array(parts) = content else { return Ok(content.as_str().unwrap_or_default().to_owned()) };
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

/// A run's answer in one piece: its last event, with everything it said as `content`.
pub fn whole(answer: &Answer, view: &RunView, trace: Option<Vec<Json>>) -> Json {
    let shown = answer.shown();
    let event = shown.and_then(|entry| ragflow::event_name(&entry.record)).unwrap_or("workflow_finished");
    let mut data = shown.and_then(|entry| ragflow::finished_data(entry, view)).unwrap_or_default();
    // Clients read the answer here, whichever event was the last.
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
        // What a client cancels by.
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
