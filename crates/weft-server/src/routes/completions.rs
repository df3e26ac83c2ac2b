//! Turns of agents.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::openai;
use super::turn::{Manner, UnknownSession, canvas_key, run};
use crate::auth::Caller;
use crate::body::Body;
use crate::error::ApiError;
use crate::frames::{Kinds, Terminator};
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::completion::{CompletionRequest, ResponseMode};
use weft_app::config::Auth;

/// `POST /api/v1/agents/{id}/completions`: a stream unless the caller says otherwise. Without
/// authentication a session id that nobody knows begins a session, which is what load generators
/// and scripts on one machine want.
///
/// # Errors
/// 101, 102, 103, 106 as the message says.
pub(crate) async fn of_agent(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let request = CompletionRequest::read(&body, &caller, ResponseMode::Stream)?.with_headers(&headers)?;
    let unknown = match state.auth {
        Auth::On => UnknownSession::Refuse,
        Auth::Off => UnknownSession::Begin,
    };
    let manner = Manner { kinds: Kinds::Older, terminator: Terminator::Done };
    run(&state, &canvas_key(&caller, id), request, unknown, manner).await
}

/// `POST /api/v1/agents/chat/completions`: one answer unless the caller asks for a stream.
///
/// # Errors
/// 101, 102, 103, 106 as the message says.
pub(crate) async fn of_named_agent(
    State(state): State<ServerState>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let Some(id) = body.id("agent_id")? else { return Err(ApiError::argument("`agent_id` is required.")) };
    if body.flag("openai-compatible")? == Some(true) {
        // A native route: its failures are told like those of the others, and in OpenAI's shape as well.
        return openai::complete(&state, &caller, id, &headers, &body)
            .await
            .map_err(ApiError::in_openai_shape);
    }
    let request = CompletionRequest::read(&body, &caller, ResponseMode::Whole)?.with_headers(&headers)?;
    let manner = Manner { kinds: Kinds::Session, terminator: Terminator::Done };
    run(&state, &canvas_key(&caller, id), request, UnknownSession::Refuse, manner).await
}
