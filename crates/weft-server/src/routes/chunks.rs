//! Chunks of a document.

use std::collections::HashSet;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use weft_core::ChunkId;
use weft_core::seam::dataset_store::{ChunkFilter, Document, StoredChunk};
use weft_knowledge::ingest::ChunkEdit;

use super::owned;
use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::chunk::{
    self, created, dataset_not_owned, document_not_owned, edit, new, removal, switching, view, whole_view,
};
use crate::wire::document;
use crate::wire::envelope::Success;

/// Batch size when all chunks are removed.
const REMOVED_AT_ONCE: u64 = 500;

/// Path of a document: the id of its dataset and its own.
type At = Path<(String, String)>;

/// Path of a chunk.
type ChunkAt = Path<(String, String, String)>;

async fn of_caller(
    state: &ServerState,
    caller: &Caller,
    dataset: &str,
    id: &str,
) -> Result<Document, ApiError> {
    let dataset = owned::dataset(state, caller, dataset, dataset_not_owned).await?;
    owned::document(state, &dataset.key, id, document_not_owned).await
}

/// Returns chunks of a document by id; those of other documents are left out.
async fn of_document(
    state: &ServerState,
    document: &Document,
    ids: &[ChunkId],
) -> Result<Vec<StoredChunk>, ApiError> {
    let mut chunks = state.app.datasets.chunks_by_id(&document.key.dataset.tenant, ids).await?;
    // The lookup covers the whole tenant, so chunks of other documents may be among them.
    chunks.retain(|chunk| chunk.document == document.key);
    Ok(chunks)
}

/// `GET …/chunks`: by `keywords`, `id`, `chunk_ids`, `available`, `page` and `page_size`.
///
/// # Errors
/// 102 for an unknown dataset, document or chunk.
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    Path((dataset, id)): At,
    params: Params,
) -> Result<Response, ApiError> {
    let document = of_caller(&state, &caller, &dataset, &id).await?;
    let query = chunk::query(&params, state.app.limits.page_size);
    let (chunks, total) = match query.ids.first() {
        None => state.app.datasets.chunks(&document.key, &query.filter).await?,
        Some(first) => {
            let chunks = of_document(&state, &document, &query.ids).await?;
            if chunks.is_empty() {
                return Err(ApiError::data(format!("Chunk not found: {dataset}/{first}")));
            }
            let total = chunks.len() as u64;
            (chunks, total)
        }
    };
    let keywords = query.filter.keywords.as_deref();
    let shown: Vec<_> = chunks.iter().map(|chunk| view(chunk, &document, keywords)).collect();
    let answer = json!({"total": total, "chunks": shown, "doc": document::view(&document)});
    Ok(Success(answer).into_response())
}

/// `GET …/chunks/{chunk}`.
///
/// # Errors
/// 102 for an unknown one.
pub(crate) async fn get(
    State(state): State<ServerState>,
    caller: Caller,
    Path((dataset, id, chunk)): ChunkAt,
) -> Result<Response, ApiError> {
    let document = of_caller(&state, &caller, &dataset, &id).await?;
    let chunks = of_document(&state, &document, &[ChunkId::from(chunk)]).await?;
    let chunk = chunks.first().ok_or_else(|| ApiError::data("Chunk not found!"))?;
    Ok(Success(whole_view(chunk, &document)).into_response())
}

/// `POST …/chunks`: adds a manually written chunk.
///
/// # Errors
/// 102 for an unknown document, or with the API's message for an invalid body.
pub(crate) async fn add(
    State(state): State<ServerState>,
    caller: Caller,
    Path((dataset, id)): At,
    body: Body,
) -> Result<Response, ApiError> {
    let document = of_caller(&state, &caller, &dataset, &id).await?;
    let added = state.app.library.add_chunk(&document.key, new(&body)?).await?;
    Ok(Success(created(&added, &document.key.dataset.id)).into_response())
}

/// `PUT` or `PATCH …/chunks/{chunk}`: changes the fields that are given.
///
/// # Errors
/// 102 for an unknown one, or with the API's message for an invalid body.
pub(crate) async fn update(
    State(state): State<ServerState>,
    caller: Caller,
    Path((dataset, id, chunk)): ChunkAt,
    body: Body,
) -> Result<Response, ApiError> {
    let document = of_caller(&state, &caller, &dataset, &id).await?;
    let id = ChunkId::from(chunk);
    if of_document(&state, &document, std::slice::from_ref(&id)).await?.is_empty() {
        return Err(ApiError::data(format!("Can't find this chunk {id}")));
    }
    let edit = edit(&body)?;
    if edit != ChunkEdit::default() {
        state.app.library.update_chunk(&document.key, &id, edit).await?;
    }
    Ok(Success(true).into_response())
}

/// `PATCH …/chunks {chunk_ids, available}`: enables or disables several chunks for searches.
///
/// # Errors
/// 102 for an unknown document or chunk, without ids and without a switch.
pub(crate) async fn switch(
    State(state): State<ServerState>,
    caller: Caller,
    Path((dataset, id)): At,
    body: Body,
) -> Result<Response, ApiError> {
    let key = owned::dataset(&state, &caller, &dataset, dataset_not_owned).await?.key;
    let missing = |_: &str| ApiError::data("document not found");
    let document = owned::document(&state, &key, &id, missing).await?;
    let (ids, available) = switching(&body)?;
    let ids: Vec<ChunkId> = ids.into_iter().map(ChunkId::from).collect();
    let chunks = of_document(&state, &document, &ids).await?;
    let known: HashSet<&ChunkId> = chunks.iter().map(|chunk| &chunk.id).collect();
    if let Some(missing) = ids.iter().find(|id| !known.contains(id)) {
        return Err(ApiError::data(format!("Can't find this chunk {missing}")));
    }
    state.app.library.switch_chunks(&document.key, &ids, available).await?;
    Ok(Success(true).into_response())
}

/// `DELETE …/chunks {chunk_ids}`: removes nothing without ids, unless `delete_all` is set.
///
/// # Errors
/// 102 when some of them do not exist; the others are removed.
pub(crate) async fn delete(
    State(state): State<ServerState>,
    caller: Caller,
    Path((dataset, id)): At,
    body: Body,
) -> Result<Response, ApiError> {
    let document = of_caller(&state, &caller, &dataset, &id).await?;
    let asked = removal(&body)?;
    if asked.everything {
        remove_all(&state, &document).await?;
        return Ok(Success(true).into_response());
    }
    if asked.ids.is_empty() {
        return Ok(Success(true).into_response());
    }
    let ids: Vec<ChunkId> = asked.ids.into_iter().map(ChunkId::from).collect();
    let there: Vec<ChunkId> =
        of_document(&state, &document, &ids).await?.into_iter().map(|chunk| chunk.id).collect();
    let removed = state.app.library.remove_chunks(&document.key, &there).await?;
    let (expected, twice) = (ids.len() as u64, asked.twice);
    if removed != expected {
        return Err(ApiError::data(format!("rm_chunk deleted chunks {removed}, expect {expected}")));
    }
    if twice.is_empty() {
        return Ok(Success(true).into_response());
    }
    let errors: Vec<_> = twice.iter().map(|id| format!("Duplicate chunk ids: {id}")).collect();
    Ok(Success(json!({"success_count": removed, "errors": errors})).into_response())
}

async fn remove_all(state: &ServerState, document: &Document) -> Result<(), ApiError> {
    loop {
        let filter = ChunkFilter { limit: REMOVED_AT_ONCE, ..ChunkFilter::default() };
        let (chunks, _) = state.app.datasets.chunks(&document.key, &filter).await?;
        let ids: Vec<ChunkId> = chunks.into_iter().map(|chunk| chunk.id).collect();
        // If nothing is removed although there were chunks, another request is removing them, and this loop would not
        // end.
        if ids.is_empty() || state.app.library.remove_chunks(&document.key, &ids).await? == 0 {
            return Ok(());
        }
    }
}
