//! What a caller may touch: datasets of their tenant, and documents of those. Whatever belongs to somebody
//! else is not there, in the same words.

use weft_core::seam::dataset_store::{Dataset, Document, DocumentFilter};
use weft_core::{DatasetKey, DocumentId, DocumentKey, Error, ErrorKind};

use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::ServerState;

/// Documents that one request may name.
const IDS_MAX: usize = 1_000;

/// The words for what is not there, or what else went wrong.
pub(crate) fn or(error: Error, missing: ApiError) -> ApiError {
    match error.kind {
        ErrorKind::NotFound => missing,
        _ => error.into(),
    }
}

/// A dataset of the caller's tenant, without what it holds.
pub(crate) async fn dataset(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    missing: impl FnOnce(&str) -> ApiError,
) -> Result<Dataset, ApiError> {
    let key = DatasetKey::new(&caller.tenant, id);
    state.app.datasets.dataset_uncounted(&key).await.map_err(|error| or(error, missing(id)))
}

/// A document of a dataset.
pub(crate) async fn document(
    state: &ServerState,
    dataset: &DatasetKey,
    id: &str,
    missing: impl FnOnce(&str) -> ApiError,
) -> Result<Document, ApiError> {
    let key = DocumentKey::new(dataset, id);
    state.app.datasets.document(&key).await.map_err(|error| or(error, missing(id)))
}

/// The documents of a dataset with these ids, in their order, and the ids that are none of it.
pub(crate) async fn documents(
    state: &ServerState,
    dataset: &DatasetKey,
    ids: &[String],
) -> Result<(Vec<Document>, Vec<String>), ApiError> {
    if ids.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    if ids.len() > IDS_MAX {
        return Err(ApiError::argument(format!("one request can name {IDS_MAX} documents at most")));
    }
    let filter = DocumentFilter {
        ids: Some(ids.iter().map(|id| DocumentId::from(id.as_str())).collect()),
        limit: IDS_MAX as u64,
        ..DocumentFilter::default()
    };
    let (mut found, _) = state.app.datasets.documents(dataset, &filter).await?;
    let place = |id: &str| ids.iter().position(|one| one == id);
    found.sort_by_key(|document| place(document.key.id.as_str()));
    let there = |id: &&String| found.iter().any(|document| document.key.id.as_str() == id.as_str());
    let missing = ids.iter().filter(|id| !there(id)).cloned().collect();
    Ok((found, missing))
}
