//! Tokens of the oldest API generation for one agent or chat assistant, implemented as share tokens, and
//! conversations that are started with them.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value as Json, json};
use weft_app::accounts::LISTED_MAX;
use weft_app::chats;
use weft_app::new_session::NewSession;
use weft_app::tokens;
use weft_core::error::found;
use weft_core::seam::share_store::{ShareTarget, ShareToken};

use super::sessions::messages;
use super::shares::{agent, chat};
use super::turn::{begun, canvas_key};
use crate::auth::{Caller, check_change};
use crate::body::{Body, Params};
use crate::error::ApiError;
use crate::state::ServerState;
use crate::wire::envelope::Success;
use crate::wire::session::SessionView;
use crate::wire::time::http_date;

/// Name of such tokens.
const NAME: &str = "api";
/// Fields that name an agent and an assistant.
const AGENT: &str = "canvas_id";
const CHAT: &str = "dialog_id";
/// Message for a request that names neither.
const UNNAMED: &str = "name an assistant with `dialog_id`, or an agent with `canvas_id`";

/// Returns the agent or assistant of a request.
async fn target(
    state: &ServerState,
    caller: &Caller,
    canvas: Option<&str>,
    dialog: Option<&str>,
) -> Result<ShareTarget, ApiError> {
    match (canvas, dialog) {
        (Some(id), _) => agent(state, caller, id).await,
        (None, Some(id)) => chat(state, caller, id).await,
        (None, None) => Err(ApiError::argument(UNNAMED)),
    }
}

async fn of_params(state: &ServerState, caller: &Caller, params: &Params) -> Result<ShareTarget, ApiError> {
    target(state, caller, params.get(AGENT), params.get(CHAT)).await
}

/// The representation of a token in that generation: the secret in the answer that creates it, and only an
/// identifying part afterwards.
fn row(share: &ShareToken, secret: Option<&str>) -> Json {
    let (source, id) = match &share.target {
        ShareTarget::Agent(id) => (Some("agent"), id),
        ShareTarget::Chat(id) | ShareTarget::OfKey(id) => (None, id),
    };
    json!({
        "tenant_id": share.tenant,
        "token": secret.map_or_else(|| format!("weftshare-***{}", share.id()), str::to_owned),
        "beta": null,
        "dialog_id": id,
        "source": source,
        "create_time": share.created_ms,
        "create_date": http_date(share.created_ms),
        "update_time": null,
        "update_date": null,
    })
}

/// `POST /v1/api/new_token {dialog_id | canvas_id}`: creates a token that gives access to this agent or assistant
/// only.
///
/// # Errors
/// 101 without either; 102 for an unknown agent and 109 for an unknown assistant; 429 when it has too many tokens.
pub(crate) async fn create(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let (canvas, dialog) = (body.id(AGENT)?, body.id(CHAT)?);
    let target = target(&state, &caller, canvas.as_deref(), dialog.as_deref()).await?;
    let (share, secret) = state.app.share(&caller.tenant, target, NAME, None).await?;
    Ok(Success(row(&share, Some(secret.reveal()))).into_response())
}

/// `GET /v1/api/token_list?dialog_id | canvas_id`.
///
/// # Errors
/// As [`create`].
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let target = of_params(&state, &caller, &params).await?;
    let shares = state.app.accounts.stores.shares.shares(&caller.tenant, &target, LISTED_MAX).await?;
    let rows: Vec<Json> = shares.iter().map(|share| row(share, None)).collect();
    Ok(Success(rows).into_response())
}

/// `POST /v1/api/rm {tokens}`: removes tokens, given by their secrets. Unknown ones, and those of others, are
/// ignored.
///
/// # Errors
/// 101 for tokens that are not strings.
pub(crate) async fn remove(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["tokens"])?;
    let shares = &state.app.accounts.stores.shares;
    for token in body.texts("tokens")?.unwrap_or_default() {
        let named = found(shares.share(&tokens::hash(&token)).await)?;
        if let Some(share) = named.filter(|share| share.tenant == caller.tenant) {
            found(shares.remove_share(&caller.tenant, &share.target, &share.hash).await)?;
        }
    }
    Ok(Success(true).into_response())
}

/// `GET /v1/api/stats`.
///
/// # Errors
/// 103 always.
pub(crate) async fn stats(_: Caller) -> ApiError {
    ApiError::new(
        crate::error::code::OPERATING,
        "daily statistics of an assistant are not kept; `GET /api/v1/usage` returns the usage of models",
    )
}

/// `GET /v1/api/new_conversation?dialog_id | canvas_id, user_id`: creates a conversation for
/// `POST /v1/api/completion`.
///
/// # Errors
/// 101 when neither is named, because an API key belongs to no assistant; otherwise as [`create`].
pub(crate) async fn new_conversation(
    State(state): State<ServerState>,
    caller: Caller,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, ApiError> {
    check_change(state.auth, &headers)?;
    let target = of_params(&state, &caller, &params).await?;
    let user_id = params.get("user_id").map_or_else(|| caller.user_id.clone(), str::to_owned);
    let new = NewSession { user_id: &user_id, ..NewSession::default() };
    let session = match &target {
        ShareTarget::Agent(id) => begun(&state, &canvas_key(&caller, id.as_str()), new, None).await?,
        ShareTarget::Chat(id) => {
            let chat = super::chats::owned(&state, &caller, id.as_str(), super::chats::no_access()).await?;
            let opening = chats::opening(&chat.settings);
            state.app.open_chat(&chat.key, NewSession { before: &opening, ..new }).await?
        }
        ShareTarget::OfKey(_) => return Err(ApiError::argument(UNNAMED)),
    };
    let messages = messages(&state, &session).await?;
    Ok(Success(SessionView::new(session, &messages, None)).into_response())
}
