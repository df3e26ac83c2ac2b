//! Conversations with agents.

use std::collections::{HashSet, VecDeque};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures::{StreamExt as _, stream};
use serde_json::{Value as Json, json};
use weft_app::new_session::NewSession;
use weft_core::error::found;
use weft_core::seam::session_store::{Session, SessionFilter, SessionMessage, SessionOrder};
use weft_core::{CanvasKey, ComponentId, Error, Record, RunId, RunKey, SessionKey};

use super::agents::stored;
use super::turn::{begun, canvas_key};
use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::completion::version;
use crate::wire::envelope::{Success, streamed};
use crate::wire::session::SessionView;

/// Number of messages of a session that are shown: the latest.
const MESSAGES_SHOWN_MAX: u64 = 1_000;

/// Total size of the messages of a session that are shown, at most, in bytes; the latest is shown in any case.
const MESSAGES_BYTES_MAX: u64 = 32 << 20;

/// Batch size when all sessions are removed.
const REMOVED_AT_ONCE: u64 = 100;

/// Number of turns whose nodes are shown: the latest.
const PATH_TURNS_MAX: usize = 20;
/// Maximum number of nodes that are shown.
const PATH_MAX: usize = 10_000;
/// Number of journal entries read in one batch.
const ENTRIES_AT_ONCE: u64 = 500;

fn not_found() -> ApiError {
    ApiError::data("Session not found!")
}

/// `POST …/sessions`.
///
/// # Errors
/// 102 for an unknown agent, 101 for one that cannot run.
pub(crate) async fn create(
    State(state): State<ServerState>,
    caller: Caller,
    Path(agent): Path<String>,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    let published = || params.flag("release").unwrap_or(false).then(|| "published".to_owned());
    let version = version(&body)?.or_else(|| params.get("version").map(str::to_owned)).or_else(published);
    let user_id = match body.text("user_id")? {
        Some(user_id) => user_id,
        None => params.get("user_id").map_or_else(|| caller.user_id.clone(), str::to_owned),
    };
    let name = body.text("name")?.unwrap_or_default();
    let canvas = canvas_key(&caller, agent);
    let new = NewSession { user_id: &user_id, name: &name, ..NewSession::default() };
    let session = begun(&state, &canvas, new, version.as_deref()).await?;
    let dsl = drawing(&state, &canvas, &session.canvas_version).await?;
    Ok(Success(view(&state, session, Some(dsl)).await?).into_response())
}

/// `GET …/sessions`.
///
/// # Errors
/// 102 for an unknown agent.
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    Path(agent): Path<String>,
    params: Params,
) -> Result<Response, ApiError> {
    let open = "{\"code\":0,\"message\":\"success\",\"data\":[";
    listed(&state, &caller, &agent, &params, ListFrame { open, close: "}" }).await
}

/// The text around a streamed list.
pub(super) struct ListFrame {
    /// Text before the first entry.
    pub(super) open: &'static str,
    /// Text after the total number.
    pub(super) close: &'static str,
}

/// Streams the sessions of an agent, between the opening text and, after their number, the closing text.
pub(super) async fn listed(
    state: &ServerState,
    caller: &Caller,
    agent: &str,
    params: &Params,
    envelope: ListFrame,
) -> Result<Response, ApiError> {
    let canvas = canvas_key(caller, agent);
    let missing = ApiError::data(format!("You don't own the agent {}.", canvas.id));
    stored(state, &canvas, missing).await?;
    // Rejected rather than ignored: otherwise the list would contain sessions that were not requested.
    if let Some(key) = ["from_date", "to_date"].into_iter().find(|key| params.get(key).is_some()) {
        let message = format!("sessions cannot be filtered by `{key}`; omit it and check `create_time`");
        return Err(ApiError::argument(message));
    }
    if let Some(other) = params.get("orderby").filter(|by| !matches!(*by, "create_time" | "update_time")) {
        let message = format!("sessions cannot be ordered by `{other}`; use `create_time` or `update_time`");
        return Err(ApiError::argument(message));
    }
    let page = params.page(state.app.limits.page_size);
    let filter = SessionFilter {
        canvas: Some(canvas.id.clone()),
        id: params.get("id").map(str::to_owned),
        user_id: params.get("user_id").or_else(|| params.get("exp_user_id")).map(str::to_owned),
        name: None,
        keywords: params.get("keywords").unwrap_or_default().to_owned(),
        order: match params.get("orderby") {
            Some("create_time") => SessionOrder::Created,
            _ => SessionOrder::Updated,
        },
        after: None,
        offset: page.offset,
        limit: page.limit,
        ascending: params.ascending(),
    };
    let (sessions, total) = state.app.sessions.list(&caller.tenant, &filter).await?;
    let drawings = if params.flag("dsl").unwrap_or(true) { Drawings::Shown } else { Drawings::LeftOut };
    // Clients expect a canvas of megabytes in every entry, so an entry is created only after the one before it was
    // sent.
    let state = state.clone();
    let entries = stream::iter(sessions).then(move |session| {
        let (state, canvas) = (state.clone(), canvas.clone());
        async move { entry(&state, &canvas, session, drawings).await }
    });
    Ok(streamed(envelope.open, entries, format!("],\"total\":{total}{}", envelope.close)))
}

/// Whether the entries of a list contain the canvas of their session.
#[derive(Clone, Copy)]
enum Drawings {
    Shown,
    LeftOut,
}

async fn entry(
    state: &ServerState,
    canvas: &CanvasKey,
    session: Session,
    drawings: Drawings,
) -> weft_core::Result<Json> {
    let dsl = match drawings {
        Drawings::Shown => Some(drawing(state, canvas, &session.canvas_version).await?),
        Drawings::LeftOut => None,
    };
    let view = view(state, session, dsl).await?;
    serde_json::to_value(view).map_err(|cause| Error::internal("cannot write a session").because(cause))
}

/// `GET …/sessions/{session}`.
///
/// # Errors
/// 102 for an unknown one.
pub(crate) async fn get(
    State(state): State<ServerState>,
    caller: Caller,
    Path((agent, id)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let canvas = canvas_key(&caller, agent);
    let session = of_agent(&state, &canvas, &id).await?;
    let mut dsl = drawing(&state, &canvas, &session.canvas_version).await?;
    let messages = messages(&state, &session).await?;
    dsl["path"] = json!(path(&state, &session, &messages).await?);
    Ok(Success(SessionView::new(session, &messages, Some(dsl))).into_response())
}

/// `DELETE …/sessions/{session}`.
///
/// # Errors
/// 102 for an unknown one.
pub(crate) async fn delete_one(
    State(state): State<ServerState>,
    caller: Caller,
    Path((agent, id)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let session = of_agent(&state, &canvas_key(&caller, agent), &id).await?;
    remove(&state, &session.key).await?;
    Ok(Success(true).into_response())
}

/// `DELETE …/sessions {ids}`: only with ids, or with `delete_all`.
///
/// # Errors
/// 102 for an unknown agent, and when none of the ids could be removed.
pub(crate) async fn delete(
    State(state): State<ServerState>,
    caller: Caller,
    Path(agent): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let canvas = canvas_key(&caller, agent);
    let missing = ApiError::data(format!("You don't own the agent {}", canvas.id));
    stored(&state, &canvas, missing).await?;
    let ids = body.texts("ids")?.unwrap_or_default();
    if ids.is_empty() {
        if body.flag("delete_all")? == Some(true) {
            remove_all(&state, &canvas).await?;
        }
        return Ok(Success(true).into_response());
    }
    remove_each(&state, &canvas, ids, "agent").await
}

/// Removes those of these sessions that belong to the agent or chat assistant, and reports the outcomes.
pub(crate) async fn remove_each(
    state: &ServerState,
    canvas: &CanvasKey,
    ids: Vec<String>,
    owner: &str,
) -> Result<Response, ApiError> {
    let (mut removed, mut errors, mut seen) = (0, Vec::new(), HashSet::new());
    for id in ids {
        if !seen.insert(id.clone()) {
            errors.push(format!("Duplicate session ids: {id}"));
            continue;
        }
        match found(state.app.sessions.load(&SessionKey::new(&canvas.tenant, id.as_str())).await)? {
            Some(session) if session.canvas == canvas.id => {
                remove(state, &session.key).await?;
                removed += 1;
            }
            // A session of another agent is not distinguished from an unknown one.
            Some(_) | None => errors.push(format!("The {owner} doesn't own the session {id}")),
        }
    }
    match (removed, errors.is_empty()) {
        (_, true) => Ok(Success(true).into_response()),
        (0, false) => Err(ApiError::data(errors.join("; "))),
        (_, false) => Ok(Success(json!({"success_count": removed, "errors": errors})).into_response()),
    }
}

pub(crate) async fn remove_all(state: &ServerState, canvas: &CanvasKey) -> Result<(), ApiError> {
    loop {
        let filter = SessionFilter {
            canvas: Some(canvas.id.clone()),
            limit: REMOVED_AT_ONCE,
            ..SessionFilter::default()
        };
        // From the start each time: entries listed before have been removed.
        let (sessions, _) = state.app.sessions.list(&canvas.tenant, &filter).await?;
        if sessions.is_empty() {
            return Ok(());
        }
        for session in sessions {
            remove(state, &session.key).await?;
        }
    }
}

/// Removes a session and stops its run, which has nothing left to write to.
async fn remove(state: &ServerState, session: &SessionKey) -> Result<(), ApiError> {
    // It may have been removed concurrently; the others of the request still have to go.
    found(state.app.end_session(session).await)?;
    Ok(())
}

async fn of_agent(state: &ServerState, canvas: &CanvasKey, id: &str) -> Result<Session, ApiError> {
    let session = found(state.app.sessions.load(&SessionKey::new(&canvas.tenant, id)).await)?;
    session.filter(|session| session.canvas == canvas.id).ok_or_else(not_found)
}

async fn view(state: &ServerState, session: Session, dsl: Option<Json>) -> weft_core::Result<SessionView> {
    let messages = messages(state, &session).await?;
    Ok(SessionView::new(session, &messages, dsl))
}

/// Returns the messages of a session that are shown: the latest.
pub(crate) async fn messages(
    state: &ServerState,
    session: &Session,
) -> weft_core::Result<Vec<SessionMessage>> {
    // An answer may be as large as the output of a node, so their number alone limits nothing.
    let sizes = state.app.sessions.message_sizes(&session.key, MESSAGES_SHOWN_MAX).await?;
    state.app.sessions.messages(&session.key, i64::MAX, fitting(&sizes)).await
}

/// Returns how many of the latest messages are shown.
fn fitting(sizes: &[u64]) -> u64 {
    let mut left = MESSAGES_BYTES_MAX;
    let fits = |size: &&u64| {
        left.checked_sub(**size).is_some_and(|rest| {
            left = rest;
            true
        })
    };
    (sizes.iter().take_while(fits).count() as u64).max(1)
}

/// Returns the nodes of the latest turns in the order in which they started. A run that is no longer stored has none.
async fn path(
    state: &ServerState,
    session: &Session,
    messages: &[SessionMessage],
) -> weft_core::Result<VecDeque<ComponentId>> {
    let mut runs: Vec<&RunId> = messages.iter().filter_map(|message| message.run.as_ref()).collect();
    // A question and its answer name the same run.
    runs.dedup();
    let mut path = VecDeque::new();
    // From the last turn backwards, so that the latest nodes are kept if there is no room for all.
    for run in runs.into_iter().rev().take(PATH_TURNS_MAX) {
        let key = RunKey::new(&session.key.tenant, run.clone());
        let room = PATH_MAX.saturating_sub(path.len());
        for node in began(state, &key, room).await?.into_iter().rev() {
            path.push_front(node);
        }
    }
    Ok(path)
}

/// Returns up to `count_max` nodes of a run in the order in which they started.
async fn began(state: &ServerState, key: &RunKey, count_max: usize) -> weft_core::Result<Vec<ComponentId>> {
    let (mut nodes, mut after) = (Vec::new(), 0);
    while nodes.len() < count_max {
        let entries = found(state.app.runs.entries(key, after, ENTRIES_AT_ONCE).await)?.unwrap_or_default();
        let Some(last) = entries.last() else { break };
        after = last.seq;
        // Most entries are of other types, which a search in the text tells without parsing it.
        let starts = entries.iter().filter(|entry| entry.record.contains("\"node_started\""));
        for entry in starts {
            // A string may contain the same text, so the parsed record decides.
            if let Ok(Record::NodeStarted { who }) = serde_json::from_str(&entry.record) {
                nodes.push(who.node);
            }
        }
    }
    nodes.truncate(count_max);
    Ok(nodes)
}

async fn drawing(state: &ServerState, canvas: &CanvasKey, version: &str) -> weft_core::Result<Json> {
    let dsl = state.app.canvases.version(canvas, version).await?;
    Ok(serde_json::from_str(&dsl).unwrap_or(Json::Null))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_messages_that_are_shown_fit_into_memory() {
        let all = MESSAGES_BYTES_MAX;
        assert_eq!(fitting(&[]), 1, "one that is just written");
        assert_eq!(fitting(&[1; 1_000]), 1_000);
        assert_eq!(fitting(&[all / 2, all / 2, 1, 0]), 2);
        assert_eq!(fitting(&[all + 1, 1]), 1);
        assert_eq!(fitting(&[u64::MAX, u64::MAX]), 1);
    }
}
