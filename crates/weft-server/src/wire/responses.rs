//! Requests of OpenAI's Responses API.

use serde_json::{Map, Value as Json, json};
use weft_core::{RunId, SessionId};

use super::completion::{CompletionRequest, ResponseMode, response_mode};
use super::response_input::{ResponseInput, ResponseReply};
use crate::auth::Caller;
use crate::body::Body;
use crate::dialect::responses::{Note, PREFIX};
use crate::error::ApiError;

/// Maximum number of metadata entries, and of characters in each, that clients may attach.
// The limits of OpenAI's API.
const METADATA_MAX: usize = 16;
const METADATA_CHARS_MAX: usize = 512;

/// Parameters that the canvas decides, with the values that are accepted because they change nothing.
const OF_THE_CANVAS: [(&str, &[Neutral]); 11] = [
    ("frequency_penalty", &[Neutral::Number(0)]),
    ("max_output_tokens", &[]),
    ("max_tool_calls", &[]),
    ("presence_penalty", &[Neutral::Number(0)]),
    ("prompt", &[]),
    ("temperature", &[Neutral::Number(1)]),
    ("tool_choice", &[Neutral::Word("auto"), Neutral::Word("none")]),
    ("tools", &[Neutral::EmptyList]),
    ("top_logprobs", &[Neutral::Number(0)]),
    ("top_p", &[Neutral::Number(1)]),
    ("context_management", &[Neutral::EmptyList]),
];

/// A value that changes nothing.
#[derive(Clone, Copy)]
enum Neutral {
    Number(i64),
    Word(&'static str),
    EmptyList,
}

impl Neutral {
    fn is(self, value: &Json) -> bool {
        match self {
            // Clients write 1 as 1.0.
            Self::Number(number) => value.as_f64() == i32::try_from(number).ok().map(f64::from),
            Self::Word(word) => value.as_str() == Some(word),
            Self::EmptyList => value.as_array().is_some_and(Vec::is_empty),
        }
    }
}

/// A parsed request.
#[derive(Debug)]
pub struct ResponseRequest {
    /// The agent in the form that clients use: its id, or its id, `@` and a version.
    pub model: Option<String>,
    /// The response that it continues.
    pub previous: Option<RunId>,
    /// The question. Its session is the conversation that the client names.
    pub turn: CompletionRequest,
    /// Answers to the items of a waiting response. If there are any, there is no question.
    pub answers: Vec<(String, ResponseReply)>,
    /// The request data that the response repeats.
    pub note: Note,
}

impl ResponseRequest {
    /// Parses a request.
    ///
    /// # Errors
    /// 101 naming the field that is not valid, or that has no effect here.
    pub fn read(body: &Body, caller: &Caller) -> Result<Self, ApiError> {
        body.require(&["input"])?;
        decided_here(body)?;
        let ResponseInput { query, mut files, before, answers, instructions, items } =
            ResponseInput::read(body.get("input").unwrap_or(&Json::Null))?;
        let previous = body.id("previous_response_id")?;
        let conversation = conversation(body)?;
        if previous.is_some() && conversation.is_some() {
            let message = "give either `previous_response_id` or `conversation`: each names a conversation";
            return Err(ApiError::argument(message));
        }
        if !before.is_empty() && (previous.is_some() || conversation.is_some()) {
            let message =
                "the conversation stores its history: `input` takes only new messages, not earlier ones";
            return Err(ApiError::argument(message));
        }
        if !answers.is_empty() && !query.is_empty() {
            let message =
                "`input` has answers to calls and a question: send the answers first, and ask afterwards";
            return Err(ApiError::argument(message));
        }
        let instructions = body.text("instructions")?.into_iter().chain(instructions).collect::<Vec<_>>();
        // OpenAI has replaced `user` by `safety_identifier`; clients send either.
        let user = body.text("safety_identifier")?.or(body.text("user")?).filter(|user| !user.is_empty());
        let note = Note {
            store: body.flag("store")?.unwrap_or(true),
            background: body.flag("background")?.unwrap_or(false),
            previous: previous.clone(),
            instructions: (!instructions.is_empty()).then(|| instructions.join("\n\n")),
            metadata: metadata(body)?,
            user: user.clone(),
            input: items,
        };
        let mut turn = CompletionRequest::read(body, caller, ResponseMode::Whole)?;
        turn.response_mode = response_mode(body, ResponseMode::Whole)?;
        turn.session = conversation.map(SessionId::from);
        turn.before = before;
        turn.input.query = query;
        // The items refer to their files by index.
        files.append(&mut turn.input.files);
        turn.input.files = files;
        // Items separate concurrent messages.
        turn.input.parallel_messages = true;
        turn.input.background = note.background;
        turn.input.notes = note.notes();
        if let Some(user) = user {
            turn.input.user_id = user;
        }
        let previous = previous.map(|id| run_of(&id)).transpose()?;
        Ok(Self { model: body.id("model")?, previous, turn, answers, note })
    }
}

/// Returns the run of a response.
///
/// # Errors
/// 102 for an id that is not that of a response.
pub fn run_of(response: &str) -> Result<RunId, ApiError> {
    let run = response.strip_prefix(PREFIX).filter(|run| !run.is_empty());
    run.map(RunId::from).ok_or_else(|| no_response(response))
}

/// The error for a response that does not exist or that the caller cannot see.
pub fn no_response(id: &str) -> ApiError {
    // The id comes from the client, so it may be of any length.
    let id: String = id.chars().take(64).collect();
    ApiError::data(format!("There is no response `{id}`."))
}

/// Rejects parameters that would have no effect: an answer that ignores them silently would be worse than an error.
fn decided_here(body: &Body) -> Result<(), ApiError> {
    let refused = |name: &str| {
        let message = format!("`{name}` has no effect: it is set in the canvas of the agent; omit it");
        Err(ApiError::argument(message))
    };
    for (name, neutral) in OF_THE_CANVAS {
        if body.get(name).is_some_and(|value| !neutral.iter().any(|one| one.is(value))) {
            return refused(name);
        }
    }
    let text = body.object("text")?.unwrap_or_default();
    let format = text.get("format").filter(|format| !format.is_null());
    if format.is_some_and(|format| format.get("type").and_then(Json::as_str) != Some("text")) {
        return refused("text.format");
    }
    if text.get("verbosity").is_some_and(|value| !value.is_null()) {
        return refused("text.verbosity");
    }
    let reasoning = body.object("reasoning")?.unwrap_or_default();
    if reasoning.get("effort").is_some_and(|value| !value.is_null()) {
        return refused("reasoning.effort");
    }
    Ok(())
}

/// Reads the conversation, given by its id or by an object that contains it.
fn conversation(body: &Body) -> Result<Option<String>, ApiError> {
    match body.get("conversation") {
        Some(Json::Object(named)) => {
            let id = Body(named.clone()).id("id")?;
            id.map(Some).ok_or_else(|| ApiError::argument("`conversation` needs an `id`"))
        }
        _ => body.id("conversation"),
    }
}

fn metadata(body: &Body) -> Result<Map<String, Json>, ApiError> {
    let metadata = body.object("metadata")?.unwrap_or_default();
    let fits = |value: &Json| value.as_str().is_some_and(|text| text.chars().count() <= METADATA_CHARS_MAX);
    if metadata.len() > METADATA_MAX || !metadata.values().all(fits) {
        let message = format!(
            "`metadata` takes at most {METADATA_MAX} entries, each a string of at most {METADATA_CHARS_MAX} characters"
        );
        return Err(ApiError::argument(message));
    }
    Ok(metadata)
}

/// Returns a page of the items of a question.
///
/// # Errors
/// 101 for a page that is not valid.
pub fn item_page(
    run: &RunId,
    note: &Note,
    files: &[Json],
    params: &crate::body::Params,
) -> Result<Json, ApiError> {
    let limit = match params.get("limit").map(str::parse::<usize>) {
        None => 20,
        Some(Ok(limit)) if (1..=100).contains(&limit) => limit,
        Some(_) => return Err(ApiError::argument("`limit` must be a number from 1 to 100")),
    };
    let mut items: Vec<Json> =
        note.input.iter().enumerate().map(|(n, item)| shown(run, n, item, files)).collect();
    match params.get("order") {
        None | Some("desc") => items.reverse(),
        Some("asc") => {}
        Some(_) => return Err(ApiError::argument("`order` must be `asc` or `desc`")),
    }
    if let Some(after) = params.get("after") {
        let Some(place) = items.iter().position(|item| item["id"] == after) else {
            return Err(ApiError::argument("`after` must be the id of one of the items"));
        };
        items.drain(..=place);
    }
    let has_more = items.len() > limit;
    items.truncate(limit);
    let id = |item: Option<&Json>| item.map_or(Json::Null, |item| item["id"].clone());
    Ok(
        json!({"object": "list", "first_id": id(items.first()), "last_id": id(items.last()), "has_more": has_more,
        "data": items}),
    )
}

/// Returns an item for the answer, with its pictures from the turn.
fn shown(run: &RunId, number: usize, item: &Json, files: &[Json]) -> Json {
    let mut item = item.clone();
    item["id"] = json!(format!("in_{run}_{number}"));
    let parts = item.get_mut("content").and_then(Json::as_array_mut).into_iter().flatten();
    for part in parts.filter_map(Json::as_object_mut) {
        let place =
            part.remove(super::response_input::FILE).and_then(|place| usize::try_from(place.as_u64()?).ok());
        if let Some(file) = place.and_then(|place| files.get(place))
            && file.as_str().is_some_and(|uri| uri.starts_with("data:image/"))
        {
            part.insert("image_url".to_owned(), file.clone());
        }
    }
    item
}

#[cfg(test)]
mod tests {
    use weft_core::TenantId;

    use super::*;

    fn read(json: Json) -> Result<ResponseRequest, String> {
        let caller = Caller::from(TenantId::from("t"));
        let Json::Object(map) = json else { return Err("no object".to_owned()) };
        ResponseRequest::read(&Body(map), &caller).map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn settings_without_effect_are_refused_unless_they_are_defaults() {
        let with = |name: &str, value: Json| {
            let mut body = json!({"model": "a", "input": "q"});
            body[name] = value;
            read(body)
        };
        for (name, value) in [
            ("temperature", json!(0.2)),
            ("tools", json!([{"type": "function", "name": "f"}])),
            ("tool_choice", json!("required")),
            ("max_output_tokens", json!(5)),
            ("text", json!({"format": {"type": "json_schema"}})),
            ("text", json!({"format": "json_object"})),
            ("text", json!({"format": {"type": 5}})),
            ("reasoning", json!({"effort": "high"})),
        ] {
            assert!(with(name, value).unwrap_err().contains("has no effect"), "{name}");
        }
        for (name, value) in [
            ("temperature", json!(1.0)),
            ("tools", json!([])),
            ("tool_choice", json!("auto")),
            ("text", json!({"format": {"type": "text"}})),
            ("text", json!({"format": null})),
            ("reasoning", json!({"summary": "auto"})),
            ("include", json!(["reasoning.encrypted_content"])),
            ("top_p", Json::Null),
        ] {
            assert!(with(name, value).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_session_is_named_once_and_keeps_its_own_history() {
        let read = |more: Json| {
            let mut body = json!({"model": "a", "input": "q"});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            read(body)
        };
        assert_eq!(read(json!({"conversation": {"id": "c"}})).unwrap().turn.session, Some("c".into()));
        assert_eq!(read(json!({"conversation": "c"})).unwrap().turn.session, Some("c".into()));
        assert_eq!(read(json!({"previous_response_id": "resp_r"})).unwrap().previous, Some("r".into()));
        let both = json!({"conversation": "c", "previous_response_id": "resp_r"});
        assert!(read(both).unwrap_err().contains("either `previous_response_id`"));
        let history = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"}]);
        assert!(
            read(json!({"conversation": "c", "input": history})).unwrap_err().contains("stores its history")
        );
        let asked = read(json!({"input": history})).unwrap();
        assert_eq!(asked.turn.before, [("user", "a".to_owned()), ("assistant", "b".to_owned())]);
        assert!(read(json!({"previous_response_id": "x"})).unwrap_err().contains("no response `x`"));
        assert!(read(json!({"metadata": {"a": 1}})).unwrap_err().contains("metadata"));
    }
}
