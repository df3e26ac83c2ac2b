//! Chat assistants.

use std::collections::{HashMap, HashSet};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::{Value as Json, json};
use weft_core::error::found;
use weft_core::seam::chat_store::{Chat, ChatFilter, ChatKind, ChatOrder, ChatSettings};
use weft_core::seam::dataset_store::{Dataset, DatasetFilter};
use weft_core::{CanvasKey, DatasetId, DatasetKey, ErrorKind, changes};

use super::agents::owners;
use super::owned::{or, or_taken};
use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::error::{ApiError, code};
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::chat::{Wanted, name, settings, view};
use crate::wire::envelope::{Success, streamed};
use weft_app::chats;

/// Batch size when all assistants are removed.
const REMOVED_AT_ONCE: u64 = 100;

/// Maximum number of datasets of an assistant or a search app, and of those assistants of a list that are in memory together.
pub(crate) const DATASETS_MAX: usize = 1_000;

/// Number of assistants of a list that are in memory together.
const SHOWN_AT_ONCE: usize = 20;

/// The error for an assistant that is not the caller's, whether it exists or not.
pub(crate) fn no_access() -> ApiError {
    ApiError::new(code::NO_ACCESS, "no authorization")
}

/// Returns an assistant of the caller's tenant, or `missing` as the error.
pub(crate) async fn owned(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    missing: ApiError,
) -> Result<Chat, ApiError> {
    of_kind(state, caller, id, ChatKind::Assistant, missing).await
}

/// The same for an assistant of the given kind.
pub(crate) async fn of_kind(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    kind: ChatKind,
    missing: ApiError,
) -> Result<Chat, ApiError> {
    let key = CanvasKey::new(&caller.tenant, id);
    match state.app.chats.get(&key).await {
        Ok(chat) if chat.kind == kind => Ok(chat),
        Ok(_) => Err(missing),
        Err(error) => Err(or(error, missing)),
    }
}

/// `POST /api/v1/chats`.
///
/// # Errors
/// 102 with the API's message for a value that is not valid, 109 for datasets whose vectors cannot be compared.
pub(crate) async fn create(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let name = name(&body, Wanted::New)?.unwrap_or_default();
    let settings = settings(&body, ChatSettings::default())?;
    check(&state, &caller, &body, &settings).await?;
    let chat = chats::new(&caller.tenant, name, settings, state.app.clock.now_ms());
    let created = state.app.chats.create(&chat).await;
    created.map_err(|error| or_taken(error, ApiError::data("duplicated chat name in creating chat")))?;
    Ok(Success(shown(&state, &caller, &[chat]).await?.remove(0)).into_response())
}

/// Checks datasets and models when an assistant is created or changed, so that unknown ones are reported then and not
/// at the first question.
async fn check(
    state: &ServerState,
    caller: &Caller,
    body: &Body,
    settings: &ChatSettings,
) -> Result<(), ApiError> {
    // What the assistant had before may have been removed since; only what this request names is checked.
    if body.get("dataset_ids").is_some() {
        check_datasets(state, caller, &settings.datasets).await?;
    }
    let older = |group: &str, key: &str| body.get(group).is_some_and(|group| group.get(key).is_some());
    let model = body.get("llm_id").is_some() || older("llm", "model_name");
    if model && !settings.llm_id.is_empty() {
        let key = if body.get("llm_id").is_some() { "llm_id" } else { "model_name" };
        let missing = |_| ApiError::data(format!("`{key}` {} doesn't exist", settings.llm_id));
        state.app.check_model(&caller.tenant, &settings.llm_id).map_err(missing)?;
    }
    let reranker = body.get("rerank_id").is_some() || older("prompt", "rerank_model");
    if reranker && !settings.rerank_id.is_empty() {
        let key = if body.get("rerank_id").is_some() { "rerank_id" } else { "rerank_model" };
        let found = state.app.models.reranker(&caller.tenant, &settings.rerank_id);
        found.map_err(|_| ApiError::data(format!("`{key}` {} doesn't exist", settings.rerank_id)))?;
    }
    Ok(())
}

async fn check_datasets(state: &ServerState, caller: &Caller, ids: &[String]) -> Result<(), ApiError> {
    if ids.len() > DATASETS_MAX {
        return Err(ApiError::data(format!("a chat can have at most {DATASETS_MAX} datasets")));
    }
    let mut embedders = HashSet::new();
    for id in ids {
        let key = DatasetKey::new(&caller.tenant, id.as_str());
        let missing = ApiError::data(format!("You don't own the dataset {id}"));
        let dataset = state.app.datasets.dataset(&key).await.map_err(|error| or(error, missing))?;
        if dataset.counts.chunks == 0 {
            return Err(ApiError::data(format!("The dataset {id} doesn't own parsed file")));
        }
        if !dataset.embedder.is_empty() {
            embedders.insert(dataset.embedder);
        }
    }
    match embedders.len() {
        0 | 1 => Ok(()),
        _ => Err(ApiError::new(code::NO_ACCESS, "Datasets use different embedding models.")),
    }
}

/// Splits a list into parts whose entries are in memory together.
fn parts(chats: Vec<Chat>) -> Vec<Vec<Chat>> {
    let (mut parts, mut room): (Vec<Vec<Chat>>, usize) = (Vec::new(), 0);
    for chat in chats {
        let datasets = chat.settings.datasets.len();
        match parts.last_mut() {
            Some(part) if part.len() < SHOWN_AT_ONCE && datasets <= room => {
                room -= datasets;
                part.push(chat);
            }
            _ => {
                room = DATASETS_MAX.saturating_sub(datasets);
                parts.push(vec![chat]);
            }
        }
    }
    parts
}

/// Converts assistants for the answer, with the details of their datasets.
async fn shown(state: &ServerState, caller: &Caller, chats: &[Chat]) -> weft_core::Result<Vec<Json>> {
    let ids: HashSet<&str> =
        chats.iter().flat_map(|chat| &chat.settings.datasets).map(String::as_str).collect();
    let found = if ids.is_empty() {
        Vec::new()
    } else {
        let limit = ids.len() as u64;
        let ids = ids.into_iter().map(DatasetId::from).collect();
        let filter = DatasetFilter { ids: Some(ids), limit, ..DatasetFilter::default() };
        state.app.datasets.datasets(&caller.tenant, &filter).await?.0
    };
    let found: HashMap<&str, &Dataset> =
        found.iter().map(|dataset| (dataset.key.id.as_str(), dataset)).collect();
    let one = |chat: &Chat| {
        let datasets = chat.settings.datasets.iter().filter_map(|id| found.get(id.as_str()).copied());
        let datasets: Vec<&Dataset> = datasets.collect();
        view(chat, &datasets)
    };
    Ok(chats.iter().map(one).collect())
}

/// Reads the order of a list of assistants.
///
/// # Errors
/// 101 for an unknown order.
pub(crate) fn order(params: &Params) -> Result<ChatOrder, ApiError> {
    match params.get("orderby") {
        None | Some("create_time") => Ok(ChatOrder::Created),
        Some("update_time") => Ok(ChatOrder::Updated),
        Some("name") => Ok(ChatOrder::Name),
        Some(other) => Err(ApiError::argument(format!("invalid orderby field: {other}"))),
    }
}

/// `GET /api/v1/chats`.
///
/// # Errors
/// 101 for an unknown order, 103 for owners other than the caller.
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    owners(&caller, &params)?;
    let order = order(&params)?;
    let page = params.page_if_asked(state.app.limits.page_size);
    let (id, name) = (params.get("id"), params.get("name"));
    // A request for one assistant by id or name ignores the keywords.
    let keywords = params.get("keywords").filter(|_| id.is_none() && name.is_none());
    let filter = ChatFilter {
        kind: Some(ChatKind::Assistant),
        id: id.map(Into::into),
        name: name.map(str::to_owned),
        keywords: keywords.unwrap_or_default().to_owned(),
        order,
        ascending: params.ascending(),
        offset: page.offset,
        limit: page.limit,
    };
    let (found, total) = state.app.chats.list(&caller.tenant, &filter).await?;
    // Each entry contains the pictures of its datasets, so a few are created after the ones before were sent.
    let shown = stream::iter(parts(found)).then(move |part| {
        let (state, caller) = (state.clone(), caller.clone());
        async move { shown(&state, &caller, &part).await }
    });
    let entries = shown.map_ok(|part| stream::iter(part.into_iter().map(Ok))).try_flatten();
    let close = format!("],\"total\":{total}}}}}");
    Ok(streamed("{\"code\":0,\"message\":\"success\",\"data\":{\"chats\":[", entries, close))
}

/// `GET /api/v1/chats/{id}`.
///
/// # Errors
/// 109 for one that is not the caller's.
pub(crate) async fn get(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let chat = owned(&state, &caller, &id, no_access()).await?;
    Ok(Success(shown(&state, &caller, &[chat]).await?.remove(0)).into_response())
}

/// `PUT` and `PATCH /api/v1/chats/{id}`: change the fields that are given.
///
/// # Errors
/// 109 for one that is not the caller's; otherwise as [`create`].
pub(crate) async fn update(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    // Read again on each attempt, so that the change applies to the latest state.
    let changed = changes::made("chat", || async {
        let before = owned(&state, &caller, &id, no_access()).await?;
        let name = name(&body, Wanted::Change)?.unwrap_or_else(|| before.name.clone());
        let settings = settings(&body, before.settings.clone())?;
        check(&state, &caller, &body, &settings).await?;
        let changed = Chat { name, settings, ..before };
        let changed = state.app.chats.change(&changed, state.app.clock.now_ms()).await;
        changed.map_err(|error| or_taken(error, ApiError::data("duplicated chat name")))
    });
    let chat = changed.await?;
    Ok(Success(shown(&state, &caller, &[chat]).await?.remove(0)).into_response())
}

/// The outcome of removing an assistant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChatRemoval {
    /// It was removed, with its conversations.
    Done,
    /// There was none of this kind.
    NotThere,
}

/// Removes an assistant of the given kind.
pub(crate) async fn removed(
    state: &ServerState,
    caller: &Caller,
    kind: ChatKind,
    id: &str,
) -> Result<ChatRemoval, ApiError> {
    let key = CanvasKey::new(&caller.tenant, id);
    let gone = match state.app.chats.get(&key).await {
        Ok(chat) if chat.kind != kind => return Ok(ChatRemoval::NotThere),
        Ok(_) => state.app.remove_chat(&key).await,
        Err(error) => Err(error),
    };
    match gone {
        Ok(()) => Ok(ChatRemoval::Done),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(ChatRemoval::NotThere),
        Err(error) => Err(error.into()),
    }
}

/// `DELETE /api/v1/chats/{id}`, with its conversations.
///
/// # Errors
/// 109 for one that is not the caller's.
pub(crate) async fn delete_one(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    match removed(&state, &caller, ChatKind::Assistant, &id).await? {
        ChatRemoval::Done => Ok(Success(true).into_response()),
        ChatRemoval::NotThere => Err(no_access()),
    }
}

/// `DELETE /api/v1/chats {ids}`: only with ids, or with `delete_all`.
///
/// # Errors
/// 102 when none of the ids could be removed.
pub(crate) async fn delete(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let ids = body.texts("ids")?.unwrap_or_default();
    if ids.is_empty() {
        return match body.flag("delete_all")? {
            Some(true) => {
                let removed = remove_all(&state, &caller).await?;
                Ok(Success(json!({"success_count": removed})).into_response())
            }
            _ => Ok(Success(json!({})).into_response()),
        };
    }
    let (mut removed, mut errors, mut seen) = (0, Vec::new(), HashSet::new());
    for id in ids {
        if !seen.insert(id.clone()) {
            errors.push(format!("Duplicate chat ids: {id}"));
            continue;
        }
        match self::removed(&state, &caller, ChatKind::Assistant, &id).await? {
            ChatRemoval::Done => removed += 1,
            ChatRemoval::NotThere => errors.push(format!("Chat({id}) not found.")),
        }
    }
    match (removed, errors.is_empty()) {
        (_, true) => Ok(Success(json!({"success_count": removed})).into_response()),
        (0, false) => Err(ApiError::data(errors.join("; "))),
        (_, false) => Ok(Success(json!({"success_count": removed, "errors": errors})).into_response()),
    }
}

async fn remove_all(state: &ServerState, caller: &Caller) -> Result<u64, ApiError> {
    let mut removed = 0;
    // Always from the start: removed entries leave the list.
    loop {
        let kind = Some(ChatKind::Assistant);
        let filter = ChatFilter { kind, limit: REMOVED_AT_ONCE, ..ChatFilter::default() };
        let (chats, _) = state.app.chats.list(&caller.tenant, &filter).await?;
        if chats.is_empty() {
            return Ok(removed);
        }
        for chat in chats {
            // Another request may have removed it already.
            if found(state.app.remove_chat(&chat.key).await)?.is_some() {
                removed += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_shown_in_parts_of_few_assistants_and_datasets() {
        let chat = |datasets: usize| {
            let settings =
                ChatSettings { datasets: vec!["d".to_owned(); datasets], ..ChatSettings::default() };
            chats::new(&"t".into(), String::new(), settings, 0)
        };
        let sizes = |datasets: &[usize]| -> Vec<usize> {
            parts(datasets.iter().map(|count| chat(*count)).collect()).iter().map(Vec::len).collect()
        };
        assert!(sizes(&[]).is_empty());
        assert_eq!(sizes(&[0; 45]), [20, 20, 5]);
        assert_eq!(sizes(&[600, 400, 1, 1_000, 2_000, 0]), [2, 1, 1, 2]);
    }
}
