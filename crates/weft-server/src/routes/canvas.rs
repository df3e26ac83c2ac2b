//! The older names of the agent routes, below `/v1/canvas` and `/api/canvas`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use futures::{StreamExt as _, stream};
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};
use weft_core::error::found;
use weft_core::seam::canvas_store::StoredCanvas;
use weft_core::{CanvasKey, Error, SessionId, SessionKey};

use super::agents::{changed, filter, owners, released, stored, tagged, taken};
use super::owned::or;
use super::sessions::{ListFrame, listed};
use super::turn::{Manner, UnknownSession, canvas_key, run};
use crate::auth::Caller;
use crate::body::{Body, Params, WithCanvas};
use crate::error::{ApiError, code};
use crate::frames::{Kinds, Terminator};
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::agent::{AgentFields, AgentItem, drawing};
use crate::wire::completion::{CompletionRequest, ResponseMode};
use crate::wire::envelope::{Success, streamed};

const NOT_OWNER: &str = "Only owner of canvas authorized for this operation.";

fn not_found() -> ApiError {
    ApiError::data("canvas not found.")
}

/// `POST …/set`: creates an agent, or changes the one with the given id.
///
/// # Errors
/// 101 without a title or a canvas, 102 when the title is taken, 103 for an unknown id.
pub(crate) async fn set(
    State(state): State<ServerState>,
    caller: Caller,
    WithCanvas(body, unseen): WithCanvas,
) -> Result<Response, ApiError> {
    let id = body.id("id")?;
    match id {
        Some(_) => body.require(&["dsl"])?,
        None => body.require(&["dsl", "title"])?,
    }
    let mut fields = AgentFields::read(&body)?;
    let (dsl, tags) = (fields.dsl.take().unwrap_or_default(), fields.tags.take());
    let release = fields.release;
    let (canvas, mut problems) = match id {
        None => {
            let head = fields.new_head()?;
            let title = head.title.clone();
            let put = state.app.put_canvas(&caller.tenant, None, head, &dsl).await;
            put.map_err(|error| taken(error, &title))?
        }
        Some(id) => {
            let missing = || ApiError::new(code::OPERATING, NOT_OWNER);
            changed(&state, &canvas_key(&caller, id), (&fields, Some(&dsl)), missing).await?
        }
    };
    problems.extend(unseen);
    let canvas = released(&state, tagged(&state, canvas, tags).await?, release).await?;
    let mut answer = body.0;
    answer.insert("dsl".to_owned(), drawing(&canvas));
    answer.insert("id".to_owned(), json!(canvas.key.id));
    answer.insert("user_id".to_owned(), json!(caller.user_id));
    answer.insert("title".to_owned(), Json::String(canvas.head.title));
    answer.insert("problems".to_owned(), json!(problems));
    Ok(Success(answer).into_response())
}

/// `GET …/get/{id}`.
///
/// # Errors
/// 102 for an unknown one.
pub(crate) async fn get(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let canvas = stored(&state, &canvas_key(&caller, id), not_found()).await?;
    Ok(Success(AgentItem::whole(canvas)).into_response())
}

/// `GET …/getsse/{id}`: for a page that embeds an agent. With a share token it shows only the opening of the
/// published canvas, and nothing about how the agent works.
///
/// # Errors
/// 102 for an unknown one.
pub(crate) async fn get_shared(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let key = canvas_key(&caller, id);
    let mut canvas = stored(&state, &key, not_found()).await?;
    if caller.is_share() {
        if let Some(published) = state.app.versions.published(&key).await? {
            canvas.dsl = state.app.canvases.version(&key, &published).await?;
        }
        canvas.dsl = beginning(&drawing(&canvas)).to_string().into();
        canvas.head.description.clear();
    }
    Ok(Success(AgentItem::whole(canvas)).into_response())
}

/// The part of a canvas that a page shows before the first question: the opening text and the fields of the form.
fn beginning(drawing: &Json) -> Json {
    let components = drawing["components"].as_object().into_iter().flatten();
    let entry =
        components.map(|(id, node)| (id, &node["obj"])).find(|(_, obj)| obj["component_name"] == "Begin");
    let Some((id, obj)) = entry else { return json!({"components": {}}) };
    let shown = ["mode", "prologue", "enablePrologue", "inputs"].into_iter();
    let shown = shown.filter_map(|name| Some((name.to_owned(), obj["params"].get(name)?.clone())));
    let params: serde_json::Map<String, Json> = shown.collect();
    let node =
        json!({"obj": {"component_name": "Begin", "params": params}, "downstream": [], "upstream": []});
    json!({"components": {id.as_str(): node}})
}

/// `POST …/setting {id, title, permission, description?, avatar?}`: changes the settings and not the canvas. Returns
/// the number of agents found.
///
/// # Errors
/// 101 when something is missing, 102 when the title is taken, 103 for an unknown id.
pub(crate) async fn setting(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["id", "title", "permission"])?;
    let key = canvas_key(&caller, body.id("id")?.unwrap_or_default());
    let head = ["title", "permission", "description", "avatar"].into_iter();
    let head = head.filter_map(|name| Some((name.to_owned(), body.get(name)?.clone())));
    let fields = AgentFields::read(&Body(head.collect()))?;
    changed(&state, &key, (&fields, None), || ApiError::new(code::OPERATING, NOT_OWNER)).await?;
    Ok(Success(1).into_response())
}

/// `GET …/{id}/sessions`.
///
/// # Errors
/// As [`super::sessions::list`].
pub(crate) async fn sessions(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, ApiError> {
    let open = "{\"code\":0,\"message\":\"success\",\"data\":{\"sessions\":[";
    listed(&state, &caller, &id, &params, ListFrame { open, close: "}}" }).await
}

/// `GET …/list`.
///
/// # Errors
/// 101 for an unknown order, 103 for owners other than the caller.
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    owners(&caller, &params)?;
    let mut filter = filter(&state, &params)?;
    // Clients that give no page size, or 0, want all agents.
    if matches!(params.get("page_size"), None | Some("0")) {
        (filter.offset, filter.limit) = (0, state.app.limits.page_size);
    }
    let (canvases, total) = state.app.canvases.list(&caller.tenant, &filter).await?;
    // The entries contain their canvases, so each is read only after the one before it was sent.
    let entries = stream::iter(canvases).then(move |head| {
        let store = Arc::clone(&state.app.canvases);
        async move {
            // An agent that was removed meanwhile is listed as it was.
            let dsl = store.version(&head.key, &head.version).await.unwrap_or_default();
            serde_json::to_value(AgentItem::whole(StoredCanvas { dsl, ..head }))
                .map_err(|cause| Error::internal("cannot write a canvas").because(cause))
        }
    });
    let close = format!("],\"total\":{total}}}}}");
    Ok(streamed("{\"code\":0,\"message\":\"success\",\"data\":{\"canvas\":[", entries, close))
}

/// `POST …/rm`: removes agents in order, up to the first unknown id.
///
/// # Errors
/// 101 without ids, 103 for an unknown one.
pub(crate) async fn remove(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["canvas_ids"])?;
    for id in body.texts("canvas_ids")?.unwrap_or_default() {
        let removed = state.app.remove_canvas(&canvas_key(&caller, id)).await;
        removed.map_err(|error| or(error, ApiError::new(code::OPERATING, NOT_OWNER)))?;
    }
    Ok(Success(true).into_response())
}

/// `POST …/reset {id}`: resets the caller's own conversation, the one without a session id. The canvas itself holds
/// no state.
///
/// # Errors
/// 102 for an unknown one.
pub(crate) async fn reset(
    state: State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["id"])?;
    let id = body.id("id")?.unwrap_or_default();
    reset_agent(state, caller, Path(id)).await
}

/// `POST /api/v1/agents/{id}/reset`.
///
/// # Errors
/// 102 for an unknown one.
pub(crate) async fn reset_agent(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let key = canvas_key(&caller, id);
    let canvas = stored(&state, &key, not_found()).await?;
    forget(&state, &own_session(&key, &caller.user_id)).await?;
    Ok(Success(drawing(&canvas)).into_response())
}

/// `POST …/completion`: a turn of the caller's own conversation with the newest version, or of the named session;
/// sends all events, without a terminator after the last one.
///
/// # Errors
/// 101, 102 or 106; see the message.
pub(crate) async fn complete(
    State(state): State<ServerState>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["id"])?;
    let key = canvas_key(&caller, body.id("id")?.unwrap_or_default());
    let canvas = stored(&state, &key, not_found()).await?;
    let mut request =
        CompletionRequest::read(&body, &caller, ResponseMode::Stream)?.with_headers(&headers)?;
    // A named session must exist; the caller's own is created on demand.
    let mut unknown = UnknownSession::Refuse;
    if request.session.is_none() {
        let own = own_session(&key, &request.input.user_id);
        let version = match &request.version {
            Some(name) => state.app.find_version(&key, name).await?,
            None => canvas.version,
        };
        forget_older(&state, &own, &version).await?;
        request.session = Some(own.id);
        unknown = UnknownSession::Begin;
    }
    let manner = Manner { kinds: Kinds::All, terminator: Terminator::None };
    run(&state, &key, request, unknown, manner).await
}

/// The key of a user's own conversation with a canvas, which is used when no session is named.
fn own_session(canvas: &CanvasKey, user_id: &str) -> SessionKey {
    let mut hash = Sha256::new();
    // With the lengths, so that different parts never concatenate to the same hash input.
    for part in ["own session", canvas.tenant.as_str(), canvas.id.as_str(), user_id] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    SessionKey::new(&canvas.tenant, SessionId::from(weft_core::hex(&hash.finalize()[..16])))
}

async fn forget(state: &ServerState, session: &SessionKey) -> Result<(), ApiError> {
    found(state.app.end_session(session).await)?;
    Ok(())
}

/// Deletes a conversation with another version, so that authors test the canvas they have just saved.
async fn forget_older(state: &ServerState, session: &SessionKey, version: &str) -> Result<(), ApiError> {
    match found(state.app.sessions.load(session).await)? {
        Some(known) if *known.canvas_version != *version => forget(state, session).await,
        Some(_) | None => Ok(()),
    }
}
