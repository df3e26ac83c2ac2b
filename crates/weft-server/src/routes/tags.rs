//! The tags of a dataset: those of its chunks, and those of its tag sets.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};
use weft_core::error::found;
use weft_core::seam::dataset_store::Dataset;
use weft_knowledge::ingest::TagChange;

use super::dataset_tasks::documents;
use super::owned;
use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::envelope::Success;
use crate::wire::once::once;

/// Maximum number of datasets in one request.
const DATASETS_MAX: usize = 100;

async fn own(state: &ServerState, caller: &Caller, id: &str) -> Result<Dataset, ApiError> {
    owned::dataset(state, caller, id, |_| ApiError::data("no authorization")).await
}

/// Returns each tag with the number of its chunks, the most frequent first.
async fn counted(state: &ServerState, datasets: &[Dataset]) -> Result<Vec<Json>, ApiError> {
    let mut counts = BTreeMap::new();
    for dataset in datasets {
        for document in documents(state, &dataset.key).await? {
            // A document that is removed concurrently has none.
            found(state.app.library.count_tags(&document, &mut counts).await)?;
        }
    }
    // A stable sort keeps equally frequent tags ordered by name.
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Ok(counts.into_iter().map(|(tag, count)| json!([tag, count])).collect())
}

/// `GET …/tags`.
///
/// # Errors
/// 102 for an unknown dataset.
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let dataset = own(&state, &caller, &id).await?;
    Ok(Success(counted(&state, &[dataset]).await?).into_response())
}

/// `GET /api/v1/datasets/tags/aggregation?dataset_ids=`: the tags of several datasets together.
///
/// # Errors
/// 101 without ids, and for too many; 102 for an unknown dataset.
pub(crate) async fn aggregation(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let (ids, _) = once(params.all("dataset_ids").map(str::to_owned).collect());
    if ids.is_empty() {
        return Err(ApiError::argument("required argument are missing: dataset_ids; "));
    }
    if ids.len() > DATASETS_MAX {
        return Err(ApiError::argument(format!("dataset_ids must contain at most {DATASETS_MAX} IDs")));
    }
    let mut datasets = Vec::with_capacity(ids.len());
    for id in &ids {
        datasets.push(own(&state, &caller, id).await?);
    }
    Ok(Success(counted(&state, &datasets).await?).into_response())
}

/// `DELETE …/tags {tags}`: removes the tags from all chunks.
///
/// # Errors
/// 101 without tags; 102 for an unknown dataset; 106 while one of its documents is being ingested.
pub(crate) async fn delete(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["tags"])?;
    let tags = body.texts("tags")?.unwrap_or_default();
    changed(&state, &caller, &id, &TagChange::Remove(tags)).await
}

/// `PUT …/tags {from_tag, to_tag}`.
///
/// # Errors
/// 101 without one of the names; 102 for an unknown dataset; 106 while one of its documents is being ingested.
pub(crate) async fn rename(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["from_tag", "to_tag"])?;
    let name = |key: &str| Ok::<_, ApiError>(body.text(key)?.unwrap_or_default().trim().to_owned());
    let (from, to) = (name("from_tag")?, name("to_tag")?);
    if from.is_empty() || to.is_empty() {
        return Err(ApiError::argument("`from_tag` and `to_tag` cannot be empty"));
    }
    changed(&state, &caller, &id, &TagChange::Rename { from, to }).await
}

async fn changed(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    change: &TagChange,
) -> Result<Response, ApiError> {
    let dataset = own(state, caller, id).await?;
    // If one fails, those before it are already changed; repeating the request changes the rest.
    for document in documents(state, &dataset.key).await? {
        found(state.app.library.retag(&document, change).await)?;
    }
    Ok(Success(true).into_response())
}
