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

/// `POST /api/v1/agents/{id}/completions`: a stream by default. Without authentication an unknown session id creates
/// a session, as load generators and scripts on one machine expect.
///
/// # Errors
/// 101, 102, 103 or 106; see the message.
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

/// `POST /api/v1/agents/chat/completions`: a single answer by default.
///
/// # Errors
/// 101, 102, 103 or 106; see the message.
pub(crate) async fn of_named_agent(
    State(state): State<ServerState>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let Some(id) = body.id("agent_id")? else { return Err(ApiError::argument("`agent_id` is required.")) };
    if body.flag("openai-compatible")? == Some(true) {
        // A native route: its errors have the same format as on the others, in addition to OpenAI's.
        return openai::complete(&state, &caller, id, &headers, &body)
            .await
            .map_err(ApiError::in_openai_shape);
    }
    let request = CompletionRequest::read(&body, &caller, ResponseMode::Whole)?.with_headers(&headers)?;
    let manner = Manner { kinds: Kinds::Session, terminator: Terminator::Done };
    run(&state, &canvas_key(&caller, id), request, UnknownSession::Refuse, manner).await
}
