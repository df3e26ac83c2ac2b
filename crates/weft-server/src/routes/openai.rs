//! Agents in the format of OpenAI's chat completions.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value as Json;
use weft_core::CanvasKey;
use weft_engine::RunHandle;

use super::agents::stored;
use super::turn::{UnknownSession, answered, begin_turn, canvas_key, question};
use crate::answer::Answer;
use crate::auth::Caller;
use crate::body::Body;
use crate::dialect::openai::{Completion, CompletionStyle};
use crate::dialect::ragflow::RunView;
use crate::error::ApiError;
use crate::frames::CompletionChunks;
use crate::openai::OpenAi;
use crate::path::Path;
use crate::source_metadata::SourceMetadata;
use crate::sse;
use crate::state::ServerState;
use crate::wire::completion::{ResponseMode, last_question, response_mode};
use crate::wire::envelope::respond;

/// Message for a request without a message of the user or the assistant.
const NO_MESSAGES: &str = "No valid messages found (user or assistant).";

/// `POST /api/v1/agents_openai/{id}/chat/completions`.
///
/// # Errors
/// 101, 102, 103 or 106, see the message; in both formats, with an HTTP status for failures.
pub(crate) async fn of_agent(
    State(state): State<ServerState>,
    OpenAi(caller): OpenAi<Caller>,
    OpenAi(Path(id)): OpenAi<Path<String>>,
    headers: HeaderMap,
    OpenAi(body): OpenAi<Body>,
) -> Result<Response, ApiError> {
    complete(&state, &caller, id, &headers, &body).await.map_err(ApiError::for_openai)
}

pub(crate) async fn complete(
    state: &ServerState,
    caller: &Caller,
    agent: String,
    headers: &HeaderMap,
    body: &Body,
) -> Result<Response, ApiError> {
    body.require(&["model", "messages"])?;
    let canvas = canvas_key(caller, agent);
    let messages = body.list("messages")?.unwrap_or_default();
    let query = last_question(&messages).map_err(|error| error.with_status(StatusCode::BAD_REQUEST))?;
    let Some(query) = query else {
        return nothing_said(state, &canvas, response_mode(body, ResponseMode::Whole)?).await;
    };
    let mut request =
        question(body, caller, session_id(body)?, query, ResponseMode::Whole)?.with_headers(headers)?;
    if request.version.is_none() {
        request.version = version_in(&body.text("model")?.unwrap_or_default(), &canvas);
    }
    if request.session.is_none() {
        known(state, &canvas).await?;
    }
    let (session, handle) = begin_turn(state, &canvas, &request, UnknownSession::Refuse).await?;
    // Provisional: the first entry has the start of the run.
    let started_ms = state.app.clock.now_ms();
    let style = CompletionStyle::Agent;
    let completion = Completion { session, canvas: canvas.id, started_ms, version: Arc::from(""), style };
    told(handle, request.response_mode, completion, None).await
}

/// The answer of a run as a completion; `metadata` is added to its sources.
pub(crate) async fn told(
    handle: RunHandle,
    mode: ResponseMode,
    completion: Completion,
    metadata: Option<SourceMetadata>,
) -> Result<Response, ApiError> {
    if mode == ResponseMode::Stream {
        return Ok(sse::respond(handle.entries, CompletionChunks::new(completion, metadata)));
    }
    let mut whole = whole(handle, completion).await?;
    let sources = whole.pointer_mut("/choices/0/message/reference").and_then(Json::as_array_mut);
    if let (Some(metadata), Some(sources)) = (metadata, sources) {
        metadata.put(sources).await?;
    }
    Ok(respond(StatusCode::OK, &whole))
}

/// The same as a single object.
async fn whole(handle: RunHandle, mut completion: Completion) -> Result<Json, ApiError> {
    let mut view = RunView::new(&handle.key.id, &completion.session);
    let answer = answered(handle, &mut view).await?;
    completion.started_ms = view.started_ms;
    completion.version = Arc::clone(&view.version);
    Ok(completion.whole(&answer))
}

/// Returns the version in a model name of the form `AGENT@VERSION`. Any other name is ignored.
fn version_in(model: &str, canvas: &CanvasKey) -> Option<String> {
    let version = model.strip_prefix(canvas.id.as_str())?.strip_prefix('@')?;
    (!version.is_empty()).then(|| version.to_owned())
}

/// Returns `session_id`, else `id`, else `metadata.id`.
fn session_id(body: &Body) -> Result<Option<String>, ApiError> {
    if let Some(id) = body.id("session_id")? {
        return Ok(Some(id));
    }
    if let Some(id) = body.id("id")? {
        return Ok(Some(id));
    }
    match body.object("metadata")? {
        Some(metadata) => Body(metadata).id("id"),
        None => Ok(None),
    }
}

async fn known(state: &ServerState, canvas: &CanvasKey) -> Result<(), ApiError> {
    let missing = ApiError::data(format!("You don't own the agent {}", canvas.id));
    stored(state, canvas, missing).await.map(drop)
}

async fn nothing_said(
    state: &ServerState,
    canvas: &CanvasKey,
    response_mode: ResponseMode,
) -> Result<Response, ApiError> {
    known(state, canvas).await?;
    let completion = Completion {
        session: weft_core::SessionId::generate(),
        canvas: canvas.id.clone(),
        started_ms: state.app.clock.now_ms(),
        version: Arc::from(""),
        style: CompletionStyle::Agent,
    };
    let mut whole = completion.whole(&Answer::default());
    whole["choices"][0]["message"]["content"] = Json::String(NO_MESSAGES.to_owned());
    match response_mode {
        ResponseMode::Whole => Ok(respond(StatusCode::OK, &whole).into_response()),
        ResponseMode::Stream => {
            let mut out = Vec::new();
            let said = completion.write_text(NO_MESSAGES);
            for frame in std::iter::once(said).chain(completion.write_end(&Answer::default())) {
                sse::put_frame(&mut out, sse::Prefix::Spaced, None, |out| {
                    out.extend_from_slice(&frame);
                    true
                });
            }
            sse::put_text(&mut out, sse::Prefix::Spaced, "[DONE]");
            Ok(sse::event_stream(out.into()))
        }
    }
}
