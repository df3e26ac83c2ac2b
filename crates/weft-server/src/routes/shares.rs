//! Share tokens of agents and chat assistants, and the pages that embed these.

use std::borrow::Cow;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value as Json, json};
use weft_core::error::found;
use weft_core::id::FileId;
use weft_core::reference::Inputs;
use weft_core::seam::canvas_store::CHAT_TYPE;
use weft_core::seam::file_store::is_document;
use weft_core::seam::share_store::ShareTarget;
use weft_core::{CanvasId, Role, SessionKey};
use weft_dsl::Plan;

use super::chats::owned;
use super::owned::or;
use super::turn::{Manner, UnknownSession, canvas_key, run};
use crate::auth::Caller;
use crate::body::{Body, excerpt};
use crate::error::{ApiError, code};
use crate::frames::{Kinds, Terminator};
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::account;
use crate::wire::completion::{CompletionRequest, ResponseMode};
use crate::wire::envelope::Success;
use weft_app::accounts::LISTED_MAX;

/// The names of the field with the time of expiry. Answers have the second one, which clients send as well.
const EXPIRY: [&str; 2] = ["expires_time", "expire_time"];

/// Default name of a share token.
const UNNAMED: &str = "page";

/// Fields of a question that visitors may send. All others would choose more than the token grants.
const OF_VISITORS: [&str; 9] =
    ["question", "query", "messages", "session_id", "conversation_id", "inputs", "stream", "quote", "legacy"];
/// Fields that pages send anyway and that are ignored: the token determines the visitor, and the published version
/// answers.
const PASSED_OVER: [&str; 5] = ["id", "chat_id", "user_id", "release", "return_trace"];

/// Field of a question to an agent with what the visitor has uploaded.
const FILES: &str = "files";

/// Returns the question of a visitor without the ignored fields; `parameters` are the additional fields that it may
/// have here.
///
/// # Errors
/// 101 for any other field; 102 for another user's conversation.
pub(super) async fn of_visitor(
    state: &ServerState,
    caller: &Caller,
    mut body: Body,
    parameters: &[String],
) -> Result<Body, ApiError> {
    if !caller.is_share() {
        return Ok(body);
    }
    body.0.retain(|name, _| !PASSED_OVER.contains(&name.as_str()));
    let fits = |name: &String| OF_VISITORS.contains(&name.as_str()) || parameters.contains(name);
    if let Some(name) = body.0.keys().find(|name| !fits(name)) {
        return Err(ApiError::argument(format!("`{name}` cannot be set with a share token")));
    }
    for name in ["session_id", "conversation_id"] {
        if let Some(id) = body.id(name)? {
            // Belonging to the tenant is not enough: each share token is a user of its own.
            let session = state.app.sessions.load(&SessionKey::new(&caller.tenant, id)).await;
            let theirs = session.map(|session| session.user_id == caller.user_id);
            match theirs {
                Ok(true) => {}
                Ok(false) => return Err(ApiError::data("Session not found!")),
                Err(error) => return Err(or(error, ApiError::data("Session not found!"))),
            }
        }
    }
    Ok(body)
}

/// The fields of a question that are options. An input of the assistant may have the name of an option; what visitors
/// send for it is not an option then.
pub(super) fn chosen<'a>(caller: &Caller, body: &'a Body) -> Cow<'a, Body> {
    if !caller.is_share() {
        return Cow::Borrowed(body);
    }
    let theirs = body.0.iter().filter(|(name, _)| OF_VISITORS.contains(&name.as_str()));
    Cow::Owned(Body(theirs.map(|(name, value)| (name.clone(), value.clone())).collect()))
}

/// Checks that a visitor attaches uploads only: unlike their ids, those of documents are not secret.
fn without_documents(files: &[Json]) -> Result<(), ApiError> {
    let ids = files.iter().filter_map(|file| file.get("id")?.as_str());
    match ids.map(FileId::from).find(is_document) {
        Some(id) => {
            let message = format!("`{FILES}`: `{id}` is a document of a dataset; upload the file itself");
            Err(ApiError::new(code::OPERATING, message))
        }
        None => Ok(()),
    }
}

/// Returns an agent of the caller's tenant as the target of a share token.
pub(super) async fn agent(state: &ServerState, caller: &Caller, id: &str) -> Result<ShareTarget, ApiError> {
    agent_or(state, caller, id, || ApiError::data("canvas not found.")).await
}

/// The same, with a custom error if it does not exist.
async fn agent_or(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    missing: impl Fn() -> ApiError,
) -> Result<ShareTarget, ApiError> {
    let found = state.app.canvases.get(&canvas_key(caller, id)).await;
    match &*found.map_err(|error| or(error, missing()))?.head.canvas_type {
        CHAT_TYPE => Err(missing()),
        _ => Ok(ShareTarget::Agent(CanvasId::from(id))),
    }
}

pub(super) async fn chat(state: &ServerState, caller: &Caller, id: &str) -> Result<ShareTarget, ApiError> {
    owned(state, caller, id, super::chats::no_access()).await?;
    Ok(ShareTarget::Chat(CanvasId::from(id)))
}

async fn listed(state: &ServerState, caller: &Caller, target: &ShareTarget) -> Result<Response, ApiError> {
    let shares = state.app.accounts.stores.shares.shares(&caller.tenant, target, LISTED_MAX).await?;
    let rows: Vec<_> = shares.iter().map(|share| account::share(share, None)).collect();
    Ok(Success(rows).into_response())
}

async fn made(
    state: &ServerState,
    caller: &Caller,
    target: ShareTarget,
    body: &Body,
) -> Result<Response, ApiError> {
    let name = body.text("name")?.unwrap_or_else(|| UNNAMED.to_owned());
    let expires = expiry(body)?;
    let (share, secret) = state.app.share(&caller.tenant, target, &name, expires).await?;
    Ok(Success(account::share(&share, Some(secret.reveal()))).into_response())
}

/// Returns the time of expiry of a new share token, in milliseconds since 1970.
///
/// # Errors
/// 101 for a value that is no time, and for any unknown field: the token would be open for longer than meant.
fn expiry(body: &Body) -> Result<Option<i64>, ApiError> {
    let known = |name: &String| name == "name" || EXPIRY.contains(&name.as_str());
    if let Some(name) = body.0.keys().find(|name| !known(name)) {
        let message =
            format!("unknown field `{}`: a share token has `name` and `expires_time`", excerpt(name));
        return Err(ApiError::argument(message));
    }
    let mut given = EXPIRY.iter().filter_map(|name| Some((name, body.get(name)?)));
    let Some((name, time)) = given.next() else { return Ok(None) };
    if given.any(|(_, other)| other != time) {
        return Err(ApiError::argument(
            "`expires_time` and `expire_time` are different times: give one of them",
        ));
    }
    let wrong = || ApiError::argument(format!("`{name}` must be a time in milliseconds since 1970"));
    time.as_i64().map(Some).ok_or_else(wrong)
}

async fn removed(
    state: &ServerState,
    caller: &Caller,
    target: &ShareTarget,
    share: &str,
) -> Result<Response, ApiError> {
    let gone = state.app.unshare(&caller.tenant, target, share).await;
    gone.map_err(|error| or(error, ApiError::data("Share token not found!")))?;
    Ok(Success(true).into_response())
}

/// `GET /api/v1/agents/{id}/shares`.
///
/// # Errors
/// 102 for an unknown agent.
pub(crate) async fn list_of_agent(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    listed(&state, &caller, &agent(&state, &caller, &id).await?).await
}

/// `POST /api/v1/agents/{id}/shares {"name"?, "expires_time"?}`.
///
/// # Errors
/// 101 for a name or a time that is not valid; 102 for an unknown agent; 429 when it has too many share tokens.
pub(crate) async fn make_of_agent(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let target = agent(&state, &caller, &id).await?;
    made(&state, &caller, target, &body).await
}

/// `DELETE /api/v1/agents/{id}/shares/{share}`.
///
/// # Errors
/// 102 for an unknown agent or token.
pub(crate) async fn remove_of_agent(
    State(state): State<ServerState>,
    caller: Caller,
    Path((id, share)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    removed(&state, &caller, &agent(&state, &caller, &id).await?, &share).await
}

/// `GET /api/v1/chats/{id}/shares`.
///
/// # Errors
/// 109 for an unknown assistant.
pub(crate) async fn list_of_chat(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    listed(&state, &caller, &chat(&state, &caller, &id).await?).await
}

/// `POST /api/v1/chats/{id}/shares {"name"?, "expires_time"?}`.
///
/// # Errors
/// 101 for a name or a time that is not valid; 109 for an unknown assistant; 429 when it has too many share tokens.
pub(crate) async fn make_of_chat(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let target = chat(&state, &caller, &id).await?;
    made(&state, &caller, target, &body).await
}

/// `DELETE /api/v1/chats/{id}/shares/{share}`.
///
/// # Errors
/// 102 for an unknown token; 109 for an unknown assistant.
pub(crate) async fn remove_of_chat(
    State(state): State<ServerState>,
    caller: Caller,
    Path((id, share)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    removed(&state, &caller, &chat(&state, &caller, &id).await?, &share).await
}

/// The version that a page uses: the published one, or the newest if none is published.
async fn shown(state: &ServerState, caller: &Caller, id: &str) -> Result<&'static str, ApiError> {
    agent_or(state, caller, id, || ApiError::data(format!("Can't find agent by ID: {id}"))).await?;
    let published = found(state.app.find_version(&canvas_key(caller, id), "published").await)?;
    Ok(published.map_or("latest", |_| "published"))
}

/// `GET /api/v1/agentbots/{id}/inputs`: what a page shows of an agent before the first question.
///
/// # Errors
/// 102 for an unknown agent.
pub(crate) async fn agentbot(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let version = shown(&state, &caller, &id).await?;
    let key = canvas_key(&caller, id);
    let head = state.app.canvases.get(&key).await?.head;
    let version = state.app.find_version(&key, version).await?;
    let plan = state.app.plan(&key, &version).await?;
    let about = json!({
        "title": head.title,
        "avatar": head.avatar,
        "inputs": inputs(&plan),
        "prologue": plan.prologue,
        "mode": "conversational",
    });
    Ok(Success(about).into_response())
}

/// The fields of the form at the beginning of a conversation.
fn inputs(plan: &Plan) -> Json {
    let entry = plan.nodes.iter().find(|node| node.role == Role::Entry);
    let form = entry.map(|node| node.component.form(&Inputs::default())).unwrap_or_default();
    Json::Object(form.fields)
}

/// `POST /api/v1/agentbots/{id}/completions`: a question from a page. Visitors see the messages and the questions of
/// the agent, and nothing about how it works.
///
/// # Errors
/// 101 for a field that visitors may not set; 102 for an unknown agent or conversation; 103 for a document of a
/// dataset; 106; 429.
pub(crate) async fn ask_agentbot(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let version = shown(&state, &caller, &id).await?;
    let body = of_visitor(&state, &caller, body, &[FILES.to_owned()]).await?;
    let mut request = CompletionRequest::read(&body, &caller, ResponseMode::Stream)?;
    let kinds = if caller.is_share() {
        without_documents(&request.input.files)?;
        Kinds::Messages
    } else {
        // Visitors cannot use idempotency keys: they might guess the key of another visitor.
        request = request.with_headers(&headers)?;
        Kinds::All
    };
    // A conversation stays on its version, so only a new one is given a version.
    if request.session.is_none() && request.version.is_none() {
        request.version = Some(version.to_owned());
    }
    let manner = Manner { kinds, terminator: Terminator::None };
    run(&state, &canvas_key(&caller, id), request, UnknownSession::Refuse, manner).await
}
