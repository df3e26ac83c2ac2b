//! Chat assistants in the format of OpenAI's chat completions. The messages of a request are its conversation, unless
//! it names a session.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::Value as Json;

use super::chat_completions::{asking, turn_of};
use super::chats::owned;
use super::openai;
use super::turn::{UnknownSession, begin_turn, question};
use crate::auth::Caller;
use crate::body::Body;
use crate::chat_frames::Quoting;
use crate::dialect::openai::{Completion, CompletionStyle};
use crate::error::ApiError;
use crate::openai::OpenAi;
use crate::path::Path;
use crate::source_metadata::SourceMetadata;
use crate::state::ServerState;
use crate::wire::chat_question::{ChatOptions, OPENAI, conversation};
use crate::wire::completion::ResponseMode;

/// Model name that stands for the assistant's own model.
const OWN_MODEL: &str = "model";

/// `POST /api/v1/openai/{id}/chat/completions`.
///
/// # Errors
/// 101, 102 or 106, see the message; in both formats, with an HTTP status for failures.
pub(crate) async fn of_chat(
    State(state): State<ServerState>,
    OpenAi(caller): OpenAi<Caller>,
    OpenAi(Path(id)): OpenAi<Path<String>>,
    headers: HeaderMap,
    OpenAi(body): OpenAi<Body>,
) -> Result<Response, ApiError> {
    complete(&state, &caller, &id, &headers, body).await.map_err(ApiError::for_openai)
}

/// The error for an invalid request. It shares its code with missing data, so the HTTP status distinguishes them.
fn wrong(message: &str) -> ApiError {
    ApiError::data(message).with_status(StatusCode::BAD_REQUEST)
}

/// Merges `extra_body` into the body. OpenAI's client sends its fields at the top level itself.
fn flat(mut body: Body) -> Result<Body, ApiError> {
    match body.0.remove("extra_body") {
        None | Some(Json::Null) => {}
        Some(Json::Object(extra)) => {
            for (key, value) in extra {
                // Fields at the top level take precedence.
                body.0.entry(key).or_insert(value);
            }
        }
        Some(_) => return Err(wrong("extra_body must be an object.")),
    }
    Ok(body)
}

/// Reads which metadata of the documents to include with the sources: `None` for none, an empty list for all.
fn metadata(body: &Body) -> Result<Option<Vec<String>>, ApiError> {
    let asked = match body.get("reference_metadata") {
        None => return Ok(None),
        Some(Json::Object(asked)) => asked,
        Some(_) => return Err(wrong("reference_metadata must be an object.")),
    };
    let fields = match asked.get("fields") {
        None | Some(Json::Null) => Vec::new(),
        Some(Json::Array(fields)) => {
            let named = fields.iter().map(|field| field.as_str().map(str::to_owned));
            let mixed = || wrong("reference_metadata.fields must contain only strings.");
            named.collect::<Option<Vec<_>>>().ok_or_else(mixed)?
        }
        Some(_) => return Err(wrong("reference_metadata.fields must be an array.")),
    };
    match asked.get("include") {
        None | Some(Json::Null | Json::Bool(false)) => Ok(None),
        Some(Json::Bool(true)) => Ok(Some(fields)),
        Some(_) => Err(wrong("reference_metadata.include must be a boolean.")),
    }
}

async fn complete(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let body = flat(body)?;
    body.require(&["model"])?;
    let missing = ApiError::data(format!("You don't own the chat {id}"));
    let chat = owned(state, caller, id, missing).await?;
    let (before, asked) = conversation(body.get("messages").unwrap_or(&Json::Array(Vec::new())), &OPENAI)?;
    let metadata = metadata(&body)?;
    let options = ChatOptions::read(&body);
    let mut options = options.map_err(|error| error.with_status(StatusCode::BAD_REQUEST))?;
    if let Some(model) =
        body.text("model")?.filter(|model| model != OWN_MODEL && *model != chat.settings.llm_id)
    {
        let checked = state.app.check_model(&caller.tenant, &model);
        checked.map_err(|_| ApiError::data(format!("`llm_id` {model} doesn't exist")))?;
        options.llm_id = Some(model);
    }
    let quoting = match body.flag("reference")? {
        Some(true) => Quoting::Sources,
        Some(false) | None => Quoting::Nothing,
    };
    let turn = turn_of(state, caller, &chat, &options, &body).await?;
    let session = body.id("session_id")?;
    let request = question(&body, caller, session, asked, ResponseMode::Whole)?.with_headers(headers)?;
    let request = asking(request, &chat, &turn, before)?;
    let (session, handle) = begin_turn(state, &chat.key, &request, UnknownSession::Refuse).await?;
    // Provisional: the first entry has the start of the run.
    let started_ms = state.app.clock.now_ms();
    let style = CompletionStyle::Chat(quoting);
    let completion = Completion { session, canvas: chat.key.id, started_ms, version: Arc::from(""), style };
    let metadata = metadata.filter(|_| quoting == Quoting::Sources).map(|fields| SourceMetadata {
        datasets: Arc::clone(&state.app.datasets),
        tenant: caller.tenant.clone(),
        fields,
    });
    openai::told(handle, request.response_mode, completion, metadata).await
}
