//! Starts and cancels the ingestion of documents, which runs in the background.

use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};
use tokio::time::{Instant, sleep};
use weft_core::seam::dataset_store::{Document, DocumentState};
use weft_core::seam::ingest_queue::Wanted;
use weft_core::{DocumentId, DocumentKey, ErrorKind};

use super::owned;
use crate::auth::Caller;
use crate::body::{AnyJson, Body};
use crate::error::{ApiError, code};
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::chunk::{dataset_not_owned, document_not_owned};
use crate::wire::document::{document_ids, not_found};
use crate::wire::envelope::Success;
use crate::wire::python;

/// `POST …/chunks {document_ids}`: starts the documents that exist, even if an error is reported for others.
///
/// # Errors
/// 102 without ids, for unknown ones, and for documents that are already being ingested.
pub(crate) async fn start(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    AnyJson(json): AnyJson,
) -> Result<Response, ApiError> {
    let (started, twice) = begin(&state, &caller, &id, &object(json)?).await?;
    Ok(Success(told(started, &twice)).into_response())
}

/// `POST …/documents/parse {document_ids}`: the same, and returns how many were started.
///
/// # Errors
/// As [`start`].
pub(crate) async fn parse(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    AnyJson(json): AnyJson,
) -> Result<Response, ApiError> {
    let (started, twice) = begin(&state, &caller, &id, &object(json)?).await?;
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
    let (running, others): (Vec<Document>, Vec<Document>) =
        documents.into_iter().partition(|document| document.state == DocumentState::Running);
    let ids =
        |of: &[Document]| of.iter().map(|document| document.key.id.clone()).collect::<Vec<DocumentId>>();
    // The worker of a cancelled document may not have noticed yet. The document is ingested again, and not only until
    // the worker notices the cancellation.
    let again = match running.as_slice() {
        [] => Vec::new(),
        some => state.app.library.queue(&dataset.key, &ids(some)).await?,
    };
    // Documents in the queue will be ingested anyway: requesting it again is not an error.
    let is_busy = |document: &Document| document.progress > 0.0 && !again.contains(&document.key.id);
    if missing.is_empty() && running.iter().any(is_busy) {
        return Err(ApiError::data("Can't parse document that is currently being processed"));
    }
    let ids = ids(&others);
    if !ids.is_empty() {
        state.app.library.queue(&dataset.key, &ids).await?;
    }
    if !missing.is_empty() {
        return Err(not_found(&missing));
    }
    Ok((ids.len() + running.len(), twice))
}

/// Converts the body; a value that is not an object has its own error code on these routes.
fn object(json: Json) -> Result<Body, ApiError> {
    match json {
        Json::Object(_) | Json::Null => Body::of(json),
        other => {
            let found = python::type_name(&other);
            let message = format!("AttributeError(\"'{found}' object has no attribute 'get'\")");
            Err(ApiError::new(code::EXCEPTION, message))
        }
    }
}

/// `DELETE …/chunks {document_ids}`: cancels the ingestion; the earlier results of a document stay.
///
/// # Errors
/// 102 without ids, for unknown ones, and for documents that are not being ingested.
pub(crate) async fn stop(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    AnyJson(json): AnyJson,
) -> Result<Response, ApiError> {
    // Only called with at least one id.
    let first_not_owned = |missing: &[String]| document_not_owned(&missing[0]);
    let stopped = call_off(&state, &caller, &id, &object(json)?, first_not_owned).await?;
    match stopped.over.first() {
        Some(_) => Err(not_under_way()),
        None => Ok(Success(told(stopped.count, &stopped.twice)).into_response()),
    }
}

/// `POST …/documents/stop {document_ids}`: the same, and returns how many were stopped. Documents that are no longer
/// being ingested are not an error: the client cannot know how far a document is when the request arrives.
///
/// # Errors
/// 102 without ids and for unknown ones.
pub(crate) async fn halt(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    AnyJson(json): AnyJson,
) -> Result<Response, ApiError> {
    let Stopped { count, over, twice } = call_off(&state, &caller, &id, &object(json)?, not_found).await?;
    let mut told = counted(count, &twice);
    if !over.is_empty() {
        let over = over.iter().map(|id| Json::from(format!("{NOT_UNDER_WAY}: {id}")));
        let twice = told["errors"].as_array().cloned().unwrap_or_default();
        told["errors"] = twice.into_iter().chain(over).collect();
    }
    Ok(Success(told).into_response())
}

/// Outcome of a cancellation.
struct Stopped {
    /// Number of documents that were stopped.
    count: usize,
    /// Documents that were not being ingested.
    over: Vec<DocumentId>,
    /// Ids that were repeated.
    twice: Vec<String>,
}

/// Stops all of the documents, or none when one is unknown; `absent` builds the error for those.
async fn call_off(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    body: &Body,
    absent: impl FnOnce(&[String]) -> ApiError,
) -> Result<Stopped, ApiError> {
    let dataset = owned::dataset(state, caller, id, dataset_not_owned).await?;
    let (ids, twice) = document_ids(body)?;
    let (documents, missing) = owned::documents(state, &dataset.key, &ids).await?;
    if !missing.is_empty() {
        return Err(absent(&missing));
    }
    let mut over = Vec::new();
    for Document { key, .. } in &documents {
        match state.app.library.stop(key, Wanted::Cancel).await {
            Ok(()) => {}
            // There is nothing to stop, which the answer says.
            Err(error) if error.kind == ErrorKind::Conflict => over.push(key.id.clone()),
            Err(error) if error.kind == ErrorKind::NotFound => {
                return Err(document_not_owned(key.id.as_str()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    heard(state, &documents).await;
    Ok(Stopped { count: documents.len() - over.len(), over, twice })
}

/// Time for workers to notice a cancellation. They poll twice a second; a worker that takes longer is not waited for.
const HEARD_MAX: Duration = Duration::from_secs(2);
/// Interval for checking whether they have noticed.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Waits until cancelled documents are no longer being ingested, so that the next request sees the new state.
pub(super) async fn heard(state: &ServerState, documents: &[Document]) {
    let running = documents.iter().filter(|document| document.state == DocumentState::Running);
    let mut open: Vec<&DocumentKey> = running.map(|document| &document.key).collect();
    let until = Instant::now() + HEARD_MAX;
    loop {
        let mut left = Vec::new();
        for key in open {
            let document = state.app.datasets.document(key).await;
            if document.is_ok_and(|document| document.state == DocumentState::Running) {
                left.push(key);
            }
        }
        if left.is_empty() || Instant::now() >= until {
            return;
        }
        open = left;
        sleep(LOOK_EVERY).await;
    }
}

const NOT_UNDER_WAY: &str = "Can't stop parsing document that has not started or already completed";

fn not_under_way() -> ApiError {
    ApiError::data(NOT_UNDER_WAY).with_data(json!({"error_code": "DOC_STOP_PARSING_INVALID_STATE"}))
}

/// Returns null, unless an id was repeated.
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
