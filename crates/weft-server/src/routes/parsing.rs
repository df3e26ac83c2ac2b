//! Documents are read in the background: asked for here, and called off.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};
use weft_core::seam::dataset_store::{Document, DocumentState};
use weft_core::seam::ingest_queue::Wanted;
use weft_core::{DocumentId, ErrorKind};

use super::owned;
use crate::auth::Caller;
use crate::body::Body;
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::chunk::{dataset_not_owned, document_not_owned};
use crate::wire::document::{document_ids, not_found};
use crate::wire::envelope::Success;

/// `POST …/chunks {document_ids}`: those that are there begin, whatever is said of the others.
///
/// # Errors
/// 102 without ids, for unknown ones, and for documents that are being read already.
pub async fn start(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let (started, twice) = begin(&state, &caller, &id, &body).await?;
    Ok(Success(told(started, &twice)).into_response())
}

/// `POST …/documents/parse {document_ids}`: the same, and how many began.
///
/// # Errors
/// As [`start`].
pub async fn parse(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let (started, twice) = begin(&state, &caller, &id, &body).await?;
    Ok(Success(counted(started, &twice)).into_response())
}

async fn begin(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    body: &Body,
) -> Result<(usize, Vec<String>), ApiError> {
    let dataset = owned::dataset(state, caller, id, dataset_not_owned).await?;
    let (ids, twice) = document_ids(body)?;
    let (documents, missing) = owned::documents(state, &dataset.key, &ids).await?;
    if documents.iter().any(|document| document.state == DocumentState::Running) {
        return Err(ApiError::data("Can't parse document that is currently being processed"));
    }
    let ids: Vec<DocumentId> = documents.into_iter().map(|document| document.key.id).collect();
    if !ids.is_empty() {
        state.app.library.queue(&dataset.key, &ids).await?;
    }
    if !missing.is_empty() {
        return Err(not_found(&missing));
    }
    Ok((ids.len(), twice))
}

/// `DELETE …/chunks {document_ids}`: the work is called off, and what a document had before stays.
///
/// # Errors
/// 102 without ids, for unknown ones, and for documents that are not being read.
pub async fn stop(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let first_not_owned = |missing: &[String]| document_not_owned(&missing[0]);
    let (stopped, twice) = call_off(&state, &caller, (&id, &body), first_not_owned).await?;
    Ok(Success(told(stopped, &twice)).into_response())
}

/// `POST …/documents/stop {document_ids}`: the same, and how many were stopped.
///
/// # Errors
/// As [`stop`].
pub async fn halt(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let (stopped, twice) = call_off(&state, &caller, (&id, &body), not_found).await?;
    Ok(Success(counted(stopped, &twice)).into_response())
}

/// Stops all of the documents, or none when one is unknown; `absent` says so of those that are.
async fn call_off(
    state: &ServerState,
    caller: &Caller,
    (id, body): (&str, &Body),
    absent: impl FnOnce(&[String]) -> ApiError,
) -> Result<(usize, Vec<String>), ApiError> {
    let dataset = owned::dataset(state, caller, id, dataset_not_owned).await?;
    let (ids, twice) = document_ids(body)?;
    let (documents, missing) = owned::documents(state, &dataset.key, &ids).await?;
    if !missing.is_empty() {
        return Err(absent(&missing));
    }
    for Document { key, .. } in &documents {
        state.app.library.stop(key, Wanted::Cancel).await.map_err(|error| match error.kind {
            ErrorKind::Conflict => not_under_way(),
            ErrorKind::NotFound => document_not_owned(key.id.as_str()),
            _ => error.into(),
        })?;
    }
    Ok((documents.len(), twice))
}

fn not_under_way() -> ApiError {
    let message = "Can't stop parsing document that has not started or already completed";
    ApiError::data(message).with_data(json!({"error_code": "DOC_STOP_PARSING_INVALID_STATE"}))
}

/// Nothing, unless a document was named twice.
fn told(count: usize, twice: &[String]) -> Json {
    if twice.is_empty() { Json::Null } else { counted(count, twice) }
}

fn counted(count: usize, twice: &[String]) -> Json {
    let mut told = json!({"success_count": count});
    if !twice.is_empty() {
        let errors: Vec<_> = twice.iter().map(|id| format!("Duplicate document ids: {id}")).collect();
        told["errors"] = json!(errors);
    }
    told
}
