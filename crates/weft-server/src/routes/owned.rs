//! Access checks: a caller may use the datasets of their tenant, and the documents of those. Objects of other tenants
//! are reported as missing, with the same message.

use weft_core::seam::dataset_store::{Dataset, Document, DocumentFilter};
use weft_core::{DatasetKey, DocumentId, DocumentKey, Error, ErrorKind};

use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::ServerState;

/// Maximum number of documents that one request may name.
const IDS_MAX: usize = 1_000;

/// Returns `missing` for an object that does not exist, else the error itself.
pub(crate) fn or(error: Error, missing: ApiError) -> ApiError {
    match error.kind {
        ErrorKind::NotFound => missing,
        _ => error.into(),
    }
}

/// Returns `taken` when there is such an object already, else the error itself.
pub(crate) fn or_taken(error: Error, taken: ApiError) -> ApiError {
    match error.kind {
        ErrorKind::Conflict => taken,
        _ => error.into(),
    }
}

/// Returns a dataset of the caller's tenant.
pub(crate) async fn dataset(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    missing: impl FnOnce(&str) -> ApiError,
) -> Result<Dataset, ApiError> {
    let key = DatasetKey::new(&caller.tenant, id);
    state.app.datasets.dataset_uncounted(&key).await.map_err(|error| or(error, missing(id)))
}

/// Returns a document of a dataset.
pub(crate) async fn document(
    state: &ServerState,
    dataset: &DatasetKey,
    id: &str,
    missing: impl FnOnce(&str) -> ApiError,
) -> Result<Document, ApiError> {
    let key = DocumentKey::new(dataset, id);
    state.app.datasets.document(&key).await.map_err(|error| or(error, missing(id)))
}

/// Returns the documents of a dataset with these ids, in their order, and the ids that do not exist in it.
pub(crate) async fn documents(
    state: &ServerState,
    dataset: &DatasetKey,
    ids: &[String],
) -> Result<(Vec<Document>, Vec<String>), ApiError> {
    if ids.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    if ids.len() > IDS_MAX {
        return Err(ApiError::argument(format!("one request can name at most {IDS_MAX} documents")));
    }
    let filter = DocumentFilter {
        ids: Some(ids.iter().map(|id| DocumentId::from(id.as_str())).collect()),
        limit: IDS_MAX as u64,
        ..DocumentFilter::default()
    };
    let (mut found, _) = state.app.datasets.documents(dataset, &filter).await?;
    let place = |id: &str| ids.iter().position(|one| one == id);
    // In the order of the request: the store has one of its own.
    found.sort_by_key(|document| place(document.key.id.as_str()));
    let there = |id: &&String| found.iter().any(|document| document.key.id.as_str() == id.as_str());
    let missing = ids.iter().filter(|id| !there(id)).cloned().collect();
    Ok((found, missing))
}
