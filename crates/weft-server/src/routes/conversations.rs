//! `POST /api/v1/completion`: a turn of a conversation that is addressed by its id alone.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use serde_json::json;
use weft_core::SessionKey;

use super::chat_completions::{asking, turn_of};
use super::chats::owned;
use super::owned::or;
use super::sessions::messages;
use super::turn::{UnknownSession, answered, begin_turn, canvas_key, question};
use crate::auth::Caller;
use crate::body::Body;
use crate::dialect::ragflow::RunView;
use crate::error::{ApiError, code};
use crate::frames::{AnswersSoFar, answer_data};
use crate::path::Path;
use crate::sse;
use crate::state::ServerState;
use crate::wire::chat_question::ChatOptions;
use crate::wire::completion::{CompletionRequest, ResponseMode, last_question};
use crate::wire::envelope::{Success, respond};
use crate::wire::session::SessionView;

/// `GET /v1/api/conversation/{id}`: a conversation that is addressed by its id alone.
///
/// # Errors
/// 102 for an unknown one.
pub(crate) async fn get(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let known = state.app.sessions.load(&SessionKey::new(&caller.tenant, id)).await;
    let session = known.map_err(|error| or(error, ApiError::data("Conversation not found!")))?;
    let messages = messages(&state, &session).await?;
    Ok(Success(SessionView::new(session, &messages, None)).into_response())
}

/// Runs the turn; a stream by default.
///
/// # Errors
/// 101, 102 or 106; see the message.
pub(crate) async fn complete(
    State(state): State<ServerState>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["conversation_id", "messages"])?;
    let id = body.id("conversation_id")?.unwrap_or_default();
    let messages = body.list("messages")?.unwrap_or_default();
    let query = last_question(&messages)?.unwrap_or_default();
    let request = question(&body, &caller, Some(id.clone()), query, ResponseMode::Stream)?;
    let request = request.with_headers(&headers)?;
    let known = state.app.sessions.load(&SessionKey::new(&caller.tenant, id)).await;
    let known = known.map_err(|error| or(error, ApiError::data("Conversation not found!")))?;
    let canvas = canvas_key(&caller, known.canvas);
    // Conversations with assistants have no version of their own.
    let request = if known.canvas_version.is_empty() {
        of_chat(&state, &caller, canvas.id.as_str(), request, &body).await?
    } else {
        request
    };
    let (session, handle) = begin_turn(&state, &canvas, &request, UnknownSession::Refuse).await?;
    let mut view = RunView::new(&handle.key.id, &session);
    match request.response_mode {
        ResponseMode::Stream => Ok(sse::respond(handle.entries, AnswersSoFar::new(view))),
        ResponseMode::Whole => {
            let answer = answered(handle, &mut view).await?;
            let Some(reason) = answer.failure() else {
                return Ok(Success(answer_data(&answer, &view)).into_response());
            };
            let data = json!({"answer": format!("**ERROR**: {reason}"), "reference": []});
            let body = json!({"code": code::FAILED, "message": reason, "data": data});
            Ok(respond(axum::http::StatusCode::OK, &body))
        }
    }
}

/// The same for a chat assistant.
async fn of_chat(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    request: CompletionRequest,
    body: &Body,
) -> Result<CompletionRequest, ApiError> {
    let chat = owned(state, caller, id, ApiError::data("Conversation not found!")).await?;
    let turn = turn_of(state, caller, &chat, &ChatOptions::read(body)?, body).await?;
    asking(request, &chat, &turn, Vec::new())
}
