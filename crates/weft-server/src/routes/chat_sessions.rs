//! Conversations with chat assistants.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures::{StreamExt as _, stream};
use serde_json::{Value as Json, json};
use weft_core::seam::chat_store::Chat;
use weft_core::seam::session_store::{Feedback, Session, SessionFilter, SessionOrder};
use weft_core::{RunId, SessionKey};

use super::chats::{no_access, owned};
use super::owned::or;
use super::sessions::{messages, remove_all, remove_each};
use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::envelope::{Success, streamed};
use crate::wire::session::ChatSessionView;
use weft_app::chats;
use weft_app::new_session::NewSession;

/// Default name of a conversation.
const NAME: &str = "New session";
/// Maximum length of a name in characters; the rest is cut off.
const NAME_CHARS_MAX: usize = 255;

fn not_found() -> ApiError {
    ApiError::data("Session not found!")
}

/// Reads the name from a request.
fn name(body: &Body) -> Result<Option<String>, ApiError> {
    let name = match body.get("name") {
        None => return Ok(None),
        Some(name) => name.as_str().unwrap_or_default().trim(),
    };
    if name.is_empty() {
        return Err(ApiError::data("`name` can not be empty"));
    }
    Ok(Some(name.chars().take(NAME_CHARS_MAX).collect()))
}

/// Returns a conversation with an assistant of the caller.
async fn found(
    state: &ServerState,
    caller: &Caller,
    chat: &str,
    id: &str,
) -> Result<(Chat, Session), ApiError> {
    let chat = owned(state, caller, chat, no_access()).await?;
    let session = state.app.sessions.load(&SessionKey::new(&caller.tenant, id)).await;
    match weft_core::error::found(session)? {
        Some(session) if session.canvas == chat.key.id => Ok((chat, session)),
        Some(_) | None => Err(not_found()),
    }
}

async fn view(state: &ServerState, session: Session) -> weft_core::Result<ChatSessionView> {
    let messages = messages(state, &session).await?;
    Ok(ChatSessionView::new(session, &messages))
}

/// `POST /api/v1/chats/{id}/sessions`: creates a conversation, with the opening text as its first message.
///
/// # Errors
/// 102 for an empty name, 109 for an assistant that is not the caller's.
pub(crate) async fn create(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let chat = owned(&state, &caller, &id, no_access()).await?;
    let name = name(&body)?.unwrap_or_else(|| NAME.to_owned());
    let user_id = body.text("user_id")?.unwrap_or_else(|| caller.user_id.clone());
    let opening = chats::opening(&chat.settings);
    let new = NewSession { user_id: &user_id, name: &name, before: &opening, id: None };
    let session = state.app.open_chat(&chat.key, new).await?;
    Ok(Success(view(&state, session).await?).into_response())
}

/// `GET /api/v1/chats/{id}/sessions`.
///
/// # Errors
/// 101 for an unknown order, 109 for an assistant that is not the caller's.
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, ApiError> {
    let chat = owned(&state, &caller, &id, no_access()).await?;
    let order = match params.get("orderby") {
        None | Some("create_time") => SessionOrder::Created,
        Some("update_time") => SessionOrder::Updated,
        Some("name") => SessionOrder::Name,
        Some(other) => return Err(ApiError::argument(format!("invalid orderby field: {other}"))),
    };
    let mut page = params.page(state.app.limits.page_size);
    if params.get("page_size") == Some("0") {
        // Other lists treat 0 as the default size; here it means none.
        page.limit = 0;
    }
    let filter = SessionFilter {
        canvas: Some(chat.key.id),
        id: params.get("id").map(str::to_owned),
        user_id: params.get("user_id").map(str::to_owned),
        name: params.get("name").map(str::to_owned),
        keywords: params.get("keywords").unwrap_or_default().to_owned(),
        order,
        after: None,
        offset: page.offset,
        limit: page.limit,
        ascending: params.ascending(),
    };
    let (sessions, total) = state.app.sessions.list(&caller.tenant, &filter).await?;
    // A conversation is read only after the one before it was sent, so that a page of them is never held in memory.
    let entries = stream::iter(sessions).then(move |session| {
        let state = state.clone();
        async move { Ok(json!(view(&state, session).await?)) }
    });
    let close = format!("],\"total\":{total}}}");
    Ok(streamed("{\"code\":0,\"message\":\"success\",\"data\":[", entries, close))
}

/// `GET /api/v1/chats/{id}/sessions/{session}`.
///
/// # Errors
/// 102 for an unknown one, 109 for an assistant that is not the caller's.
pub(crate) async fn get(
    State(state): State<ServerState>,
    caller: Caller,
    Path((chat, id)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let (_, session) = found(&state, &caller, &chat, &id).await?;
    Ok(Success(view(&state, session).await?).into_response())
}

/// `PUT` and `PATCH /api/v1/chats/{id}/sessions/{session} {name}`.
///
/// # Errors
/// 102 for an empty name and for a field that cannot be changed, 109 for an assistant that is not the caller's.
pub(crate) async fn update(
    State(state): State<ServerState>,
    caller: Caller,
    Path((chat, id)): Path<(String, String)>,
    body: Body,
) -> Result<Response, ApiError> {
    let (_, session) = found(&state, &caller, &chat, &id).await?;
    // Each generation of clients has its own field name for them.
    for (given, told) in [("messages", "messages"), ("message", "messages"), ("reference", "reference")] {
        if body.get(given).is_some() {
            return Err(ApiError::data(format!("`{told}` cannot be changed")));
        }
    }
    if let Some(name) = name(&body)? {
        let renamed = state.app.sessions.rename(&session.key, &name).await;
        renamed.map_err(|error| or(error, not_found()))?;
    }
    let (_, session) = found(&state, &caller, &chat, &id).await?;
    Ok(Success(view(&state, session).await?).into_response())
}

/// `DELETE /api/v1/chats/{id}/sessions {ids}`: only with ids, or with `delete_all`.
///
/// # Errors
/// 102 when none of the ids could be removed, 109 for an assistant that is not the caller's.
pub(crate) async fn delete(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let chat = owned(&state, &caller, &id, no_access()).await?;
    let ids = body.texts("ids")?.unwrap_or_default();
    if ids.is_empty() {
        return match body.flag("delete_all")? {
            Some(true) => {
                remove_all(&state, &chat.key).await?;
                Ok(Success(true).into_response())
            }
            _ => Ok(Success(json!({})).into_response()),
        };
    }
    remove_each(&state, &chat.key, ids, "chat").await
}

/// `DELETE …/sessions/{session}/messages/{message}`: removes a question with its answer.
///
/// # Errors
/// 102 for an unknown one, 109 for an assistant that is not the caller's.
pub(crate) async fn delete_message(
    State(state): State<ServerState>,
    caller: Caller,
    Path((chat, id, message)): Path<(String, String, String)>,
) -> Result<Response, ApiError> {
    let (_, session) = found(&state, &caller, &chat, &id).await?;
    let gone = state.app.sessions.forget_run(&session.key, &RunId::from(message)).await;
    gone.map_err(|error| or(error, ApiError::data("Message not found!")))?;
    Ok(Success(view(&state, session).await?).into_response())
}

/// `PUT …/sessions/{session}/messages/{message}/feedback {thumbup, feedback}`.
///
/// # Errors
/// 101 without `thumbup`, 102 for an unknown message, 109 for an assistant that is not the caller's.
pub(crate) async fn judge(
    State(state): State<ServerState>,
    caller: Caller,
    Path((chat, id, message)): Path<(String, String, String)>,
    body: Body,
) -> Result<Response, ApiError> {
    let (_, session) = found(&state, &caller, &chat, &id).await?;
    body.require(&["thumbup"])?;
    let good = body.flag("thumbup")?.unwrap_or(false);
    let feedback = Feedback { good, words: body.text("feedback")?.unwrap_or_default() };
    let judged = state.app.sessions.judge(&session.key, &RunId::from(message), &feedback).await;
    judged.map_err(|error| or(error, ApiError::data("Message not found!")))?;
    Ok(Success::<Json>(json!(view(&state, session).await?)).into_response())
}
