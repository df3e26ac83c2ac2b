//! Routes for the memories of agents.

use std::collections::{HashMap, HashSet};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};
use weft_core::id::{MemoryId, MemoryKey};
use weft_core::seam::Memories as _;
use weft_core::seam::memories::{MEMORIES_AT_ONCE_MAX, MemoryQuery, Turn};
use weft_core::seam::memory_store::{
    Memory, MemoryMessage, MemorySettings, MessageFilter, MessageType, each_once,
};
use weft_core::{CanvasId, CanvasKey, Error, ErrorKind, changes};
use weft_knowledge::retrieve::weights::Interface;

use super::owned::or;
use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::envelope::{Success, respond};
use crate::wire::memory::{MemoryItem, MessageItem, STORAGE, changed, settings, status};

/// Code for something that does not exist, on these routes.
const NOT_FOUND: u16 = 404;
/// Default number of memories on a page.
const PAGE_SIZE: u64 = 50;
/// Default number of recent messages.
const RECENT: u64 = 10;
/// Default number of messages that a search returns.
const TOP_N: usize = 5;

fn unknown(id: &str) -> ApiError {
    ApiError::new(NOT_FOUND, format!("Memory '{id}' not found."))
}

fn unknown_message(key: &MemoryKey, number: &str) -> ApiError {
    ApiError::new(NOT_FOUND, format!("Message '{number}' in memory '{}' not found.", key.id))
}

/// Converts a failure that may mean that the memory is unknown.
fn told(id: &str) -> impl Fn(Error) -> ApiError {
    move |error| or(error, unknown(id))
}

async fn found(state: &ServerState, caller: &Caller, id: &str) -> Result<Memory, ApiError> {
    state.app.memories.store.get(&MemoryKey::new(&caller.tenant, id)).await.map_err(told(id))
}

/// Checks the models when a memory is created, so that an unknown one is not first noticed at the first turn.
fn check_models(state: &ServerState, caller: &Caller, settings: &mut MemorySettings) -> Result<(), ApiError> {
    if !settings.embedder.is_empty() {
        let embedder = state.app.models.embedder(&caller.tenant, &settings.embedder)?;
        // Stored under its full name: the vectors of the messages come from exactly this model.
        embedder.name().clone_into(&mut settings.embedder);
    }
    if !settings.llm_id.is_empty() {
        state.app.check_model(&caller.tenant, &settings.llm_id).map_err(ApiError::argument)?;
    }
    Ok(())
}

/// `POST /api/v1/memories`.
///
/// # Errors
/// 101 for a field that is not valid.
pub(crate) async fn create(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let mut settings = settings(&body, &caller)?;
    check_models(&state, &caller, &mut settings)?;
    let now_ms = state.app.clock.now_ms();
    let key = MemoryKey::new(&caller.tenant, MemoryId::generate());
    let memory = Memory { key, settings, created_ms: now_ms, updated_ms: now_ms };
    let made = state.app.memories.store.create(&memory).await?;
    Ok(Success(MemoryItem::from(made)).into_response())
}

/// `PUT /api/v1/memories/{id}`: changes the fields that are given.
///
/// # Errors
/// 101 for a field that is not valid or can no longer be changed, 404 for an unknown memory, 106 on concurrent
/// changes.
pub(crate) async fn update(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    // Read again on each attempt, so that the change applies to the latest state.
    let memory = changes::made("memory", || async {
        let before = found(&state, &caller, &id).await?;
        let mut settings = changed(&body, before.settings.clone())?;
        check_models(&state, &caller, &mut settings)?;
        replaced(&state, &before, &settings).await
    });
    Ok(Success(MemoryItem::from(memory.await?)).into_response())
}

/// Replaces the settings of a memory; `None` if it was changed since it was read.
async fn replaced(
    state: &ServerState,
    before: &Memory,
    settings: &MemorySettings,
) -> Result<Option<Memory>, ApiError> {
    let store = &state.app.memories.store;
    // Existing messages have vectors of one model and are of these types.
    let frozen = [
        ("embd_id", before.settings.embedder != settings.embedder),
        ("memory_type", before.settings.types != settings.types),
    ];
    let frozen: Vec<&str> =
        frozen.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect();
    match store.change(before, settings, state.app.clock.now_ms()).await {
        // Forgotten messages count, too.
        Err(error) if error.kind == ErrorKind::Conflict && !frozen.is_empty() => {
            let message = format!("Can't update {} when memory isn't empty.", frozen.join(", "));
            Err(ApiError::argument(message))
        }
        changed => Ok(changed?),
    }
}

/// `DELETE /api/v1/memories/{id}`, with its messages.
///
/// # Errors
/// 404 for an unknown memory.
pub(crate) async fn delete(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let key = MemoryKey::new(&caller.tenant, id.as_str());
    state.app.memories.store.delete(&key).await.map_err(told(&id))?;
    Ok(Success(true).into_response())
}

/// `GET /api/v1/memories`.
///
/// # Errors
/// When the store cannot be read.
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let types: Vec<&str> = params.all("memory_type").collect();
    let keywords = params.get("keywords").unwrap_or_default().to_lowercase();
    let own = params.all("tenant_id").count() == 0
        || params.all("tenant_id").any(|tenant| tenant == caller.tenant.as_str());
    let stored = params.get("storage_type").is_none_or(|kind| kind == STORAGE);
    let fits = |memory: &Memory| {
        let typed = |kind: &MessageType| types.iter().any(|name| name.eq_ignore_ascii_case(kind.as_str()));
        memory.settings.name.to_lowercase().contains(&keywords)
            && (types.is_empty() || memory.settings.types.iter().any(typed))
    };
    let all = if own && stored { state.app.memories.store.list(&caller.tenant).await? } else { Vec::new() };
    let all: Vec<Memory> = all.into_iter().filter(fits).collect();
    let (offset, limit) = page(&params, &state);
    let total = all.len();
    let shown: Vec<MemoryItem> = all
        .into_iter()
        .skip(usize::try_from(offset).unwrap_or(usize::MAX))
        .take(usize::try_from(limit).unwrap_or(usize::MAX))
        .map(MemoryItem::from)
        .collect();
    Ok(Success(json!({"memory_list": shown, "total_count": total})).into_response())
}

/// Offset and length of a page: the default page is larger on these routes than on others.
fn page(params: &Params, state: &ServerState) -> (u64, u64) {
    let size_max = state.app.limits.page_size;
    let page = params.page(size_max);
    match params.get("page_size") {
        Some(_) => (page.offset, page.limit),
        None => {
            let (number, size) = (page.offset / page.limit.max(1), PAGE_SIZE.min(size_max));
            (number.saturating_mul(size), size)
        }
    }
}

/// `GET /api/v1/memories/{id}/config`.
///
/// # Errors
/// 404 for an unknown memory.
pub(crate) async fn config(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    Ok(Success(MemoryItem::from(found(&state, &caller, &id).await?)).into_response())
}

/// Returns the titles of the agents that wrote the messages.
async fn titles(state: &ServerState, caller: &Caller, messages: &[MemoryMessage]) -> HashMap<String, String> {
    let agents: HashSet<&str> = messages.iter().map(|message| message.message.agent.as_str()).collect();
    let mut titles = HashMap::new();
    for agent in agents.into_iter().filter(|agent| !agent.is_empty()) {
        let key = CanvasKey::new(&caller.tenant, CanvasId::from(agent));
        // Messages remain after their agent has been deleted.
        if let Ok(canvas) = state.app.canvases.get(&key).await {
            titles.insert(agent.to_owned(), canvas.head.title);
        }
    }
    titles
}

/// Converts the messages of one memory for the answer.
async fn shown(
    state: &ServerState,
    caller: &Caller,
    (memory, messages): (&MemoryId, Vec<MemoryMessage>),
) -> Vec<MessageItem> {
    let titles = titles(state, caller, &messages).await;
    let title = |agent: &str| titles.get(agent).cloned().unwrap_or_default();
    messages.into_iter().map(|message| MessageItem::new(memory, message, title)).collect()
}

/// `GET /api/v1/memories/{id}`: its turns, each with the messages derived from it.
///
/// # Errors
/// 404 for an unknown memory.
pub(crate) async fn messages(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, ApiError> {
    let memory = found(&state, &caller, &id).await?;
    let store = &state.app.memories.store;
    let (offset, limit) = page(&params, &state);
    let filter = MessageFilter {
        kind: Some(MessageType::Raw),
        agents: params.all("agent_id").map(str::to_owned).collect(),
        session_holds: params.get("keywords").map(str::to_owned),
        offset,
        limit,
        ..MessageFilter::default()
    };
    let (turns, total) = store.messages(&memory.key, &filter).await?;
    let sources: Vec<i64> = turns.iter().map(|turn| turn.number).collect();
    let mut derived: HashMap<Option<i64>, Vec<MessageItem>> = HashMap::new();
    for some in sources.chunks(SOURCES_AT_ONCE) {
        let of_them =
            MessageFilter { sources: Some(some.to_vec()), limit: DERIVED_MAX, ..MessageFilter::default() };
        let (found, _) = store.messages(&memory.key, &of_them).await?;
        for item in shown(&state, &caller, (&memory.key.id, found)).await {
            derived.entry(item.source()).or_default().push(item);
        }
    }
    let turns = shown(&state, &caller, (&memory.key.id, turns)).await.into_iter().map(|turn| {
        let extract = derived.remove(&Some(turn.number())).unwrap_or_default();
        turn.with(extract)
    });
    let turns: Vec<MessageItem> = turns.collect();
    let messages = json!({"message_list": turns, "total_count": total});
    Ok(Success(json!({"messages": messages, "storage_type": STORAGE})).into_response())
}

/// Number of turns whose derived messages are read in one query.
const SOURCES_AT_ONCE: usize = 20;
/// Maximum number of derived messages in one query.
const DERIVED_MAX: u64 = 2_000;

/// Reads memory ids from a body: a list, or a single id.
fn ids_in(body: &Body) -> Result<Vec<MemoryId>, ApiError> {
    let ids = match body.get("memory_id") {
        Some(Json::String(id)) => each_once([id.clone()]),
        _ => each_once(body.texts("memory_id")?.unwrap_or_default()),
    };
    some(ids)
}

/// Reads memory ids from the query string.
fn ids_of(params: &Params) -> Result<Vec<MemoryId>, ApiError> {
    some(each_once(params.all("memory_id").map(str::to_owned)))
}

fn some(ids: Vec<MemoryId>) -> Result<Vec<MemoryId>, ApiError> {
    if ids.is_empty() {
        return Err(ApiError::argument("memory_ids is required"));
    }
    if ids.len() > MEMORIES_AT_ONCE_MAX {
        return Err(ApiError::argument(format!(
            "`memory_id` names more than {MEMORIES_AT_ONCE_MAX} memories"
        )));
    }
    Ok(ids)
}

/// `POST /api/v1/messages`: stores a turn in each of the memories.
///
/// # Errors
/// 101 for a body that is not valid, 500 naming the memories that could not store it.
pub(crate) async fn add(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["memory_id", "agent_id", "session_id", "user_input", "agent_response"])?;
    let text = |key: &str| body.text(key).map(Option::unwrap_or_default);
    let turn = Turn {
        user: body.text("user_id")?.unwrap_or_else(|| caller.user_id.clone()),
        agent: text("agent_id")?,
        session: text("session_id")?,
        query: text("user_input")?,
        response: text("agent_response")?,
    };
    let mut failed = Vec::new();
    // Every memory is tried, even after a failure: what could be stored stays.
    for id in ids_in(&body)? {
        let key = MemoryKey::new(&caller.tenant, id.as_str());
        // A request has no origin id that a repetition would share, so each is a new turn.
        match state.app.memories.remember(&key, &weft_core::id::generate(), &turn).await {
            Ok(()) => {}
            Err(error) if error.kind == ErrorKind::NotFound => {
                failed.push(format!("Memory '{id}' not found."));
            }
            Err(error) => failed.push(format!("Memory '{id}': {}", error.full())),
        }
    }
    if !failed.is_empty() {
        let message = format!("Some messages failed to add. Detail: {}", failed.join(" "));
        return Err(ApiError::new(crate::error::code::FAILED, message));
    }
    // The SDK checks that this is a string and returns it to its caller.
    let body = json!({"code": 0, "message": "All add to task.", "data": null});
    Ok(respond(StatusCode::OK, &body))
}

/// Reads the memory and the message number from `<memory>:<number>`.
async fn named(state: &ServerState, caller: &Caller, path: &str) -> Result<(MemoryKey, i64), ApiError> {
    let (memory, number) = path.split_once(':').unwrap_or((path, ""));
    let key = found(state, caller, memory).await?.key;
    number.parse().map(|parsed| (key.clone(), parsed)).map_err(|_| unknown_message(&key, number))
}

/// `DELETE /api/v1/messages/{memory}:{message}`: deletes a message.
///
/// # Errors
/// 404 for an unknown message.
pub(crate) async fn forget(
    State(state): State<ServerState>,
    caller: Caller,
    Path(path): Path<String>,
) -> Result<Response, ApiError> {
    let (key, number) = named(&state, &caller, &path).await?;
    let forgotten = state.app.memories.store.forget(&key, number, state.app.clock.now_ms()).await;
    forgotten.map_err(told_of_message(&key, number))?;
    Ok(Success(true).into_response())
}

fn told_of_message(key: &MemoryKey, number: i64) -> impl Fn(Error) -> ApiError + '_ {
    move |error| or(error, unknown_message(key, &number.to_string()))
}

/// `PUT /api/v1/messages/{memory}:{message} {"status": …}`: sets whether searches find it.
///
/// # Errors
/// 101 for another status, 404 for an unknown message.
pub(crate) async fn set_status(
    State(state): State<ServerState>,
    caller: Caller,
    Path(path): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let status = status(&body)?;
    let (key, number) = named(&state, &caller, &path).await?;
    let set = state.app.memories.store.set_status(&key, number, status).await;
    set.map_err(told_of_message(&key, number))?;
    Ok(Success(true).into_response())
}

/// `GET /api/v1/messages/{memory}:{message}/content`.
///
/// # Errors
/// 404 for an unknown message.
pub(crate) async fn content(
    State(state): State<ServerState>,
    caller: Caller,
    Path(path): Path<String>,
) -> Result<Response, ApiError> {
    let (key, number) = named(&state, &caller, &path).await?;
    let message = state.app.memories.store.message(&key, number).await;
    let message = message.map_err(told_of_message(&key, number))?;
    let vector = message.message.vector.clone();
    let item = shown(&state, &caller, (&key.id, vec![message])).await.pop();
    Ok(Success(item.map(|item| item.embedded(vector))).into_response())
}

/// `GET /api/v1/messages`: the latest messages of several memories, newest first.
///
/// # Errors
/// 101 without a memory, 404 for an unknown memory.
pub(crate) async fn recent(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let limit = params.get("limit").and_then(|text| text.parse().ok()).unwrap_or(RECENT);
    let filter = MessageFilter {
        agents: params.all("agent_id").map(str::to_owned).collect(),
        session: params.get("session_id").map(str::to_owned),
        found_only: true,
        limit: limit.min(state.app.limits.page_size),
        ..MessageFilter::default()
    };
    let mut latest: Vec<(i64, MessageItem)> = Vec::new();
    for id in ids_of(&params)? {
        let memory = found(&state, &caller, id.as_str()).await?;
        let (messages, _) = state.app.memories.store.messages(&memory.key, &filter).await?;
        let times: Vec<i64> = messages.iter().map(|message| message.message.valid_ms).collect();
        latest.extend(times.into_iter().zip(shown(&state, &caller, (&id, messages)).await));
    }
    // A stable sort keeps the messages of one memory in the order of their numbers.
    latest.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
    latest.truncate(usize::try_from(filter.limit).unwrap_or(usize::MAX));
    let latest: Vec<MessageItem> = latest.into_iter().map(|(_, item)| item).collect();
    Ok(Success(latest).into_response())
}

/// Reads a fraction between 0 and 1.
fn share(params: &Params, key: &str) -> Result<Option<f64>, ApiError> {
    let Some(text) = params.get(key) else { return Ok(None) };
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.map(Some).ok_or_else(|| ApiError::argument(format!("`{key}` must be a number from 0 to 1")))
}

/// `GET /api/v1/messages/search`.
///
/// # Errors
/// 101 without a memory or for a number that is not valid, 404 for an unknown memory.
pub(crate) async fn search(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let weights = Interface::Memory;
    let threshold = share(&params, "similarity_threshold")?;
    let most = usize::try_from(state.app.limits.page_size).unwrap_or(usize::MAX);
    // Each result is read separately, and a memory may hold tens of thousands of messages.
    let top_n = params.get("top_n").and_then(|text| text.parse().ok()).unwrap_or(TOP_N).min(most);
    let query = MemoryQuery {
        memories: ids_of(&params)?,
        question: params.get("query").unwrap_or_default().to_owned(),
        agents: params.all("agent_id").map(str::to_owned).collect(),
        session: params.get("session_id").map(str::to_owned),
        user: params.get("user_id").map(str::to_owned),
        similarity_min: threshold.unwrap_or_else(|| weights.default_threshold()),
        vector_weight: weights.vector_weight(share(&params, "keywords_similarity_weight")?),
        limit: top_n,
    };
    for id in &query.memories {
        found(&state, &caller, id.as_str()).await?;
    }
    let recalled = state.app.memories.recall(&caller.tenant, &query).await?;
    let mut items = Vec::new();
    for one in recalled.messages {
        let key = MemoryKey::new(&caller.tenant, one.memory.as_str());
        match state.app.memories.store.message(&key, one.number).await {
            Ok(message) => {
                let item = shown(&state, &caller, (&key.id, vec![message])).await.pop();
                items.extend(item.map(|item| item.scored(one.similarity)));
            }
            // It was deleted in the meantime.
            Err(error) if error.kind == ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Success(items).into_response())
}
