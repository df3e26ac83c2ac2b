//! Documents are read in the background: asked for here, and called off.

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

/// `POST …/chunks {document_ids}`: those that are there begin, whatever is said of the others.
///
/// # Errors
/// 102 without ids, for unknown ones, and for documents that are being read already.
pub(crate) async fn start(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    AnyJson(json): AnyJson,
) -> Result<Response, ApiError> {
    let (started, twice) = begin(&state, &caller, &id, &object(json)?).await?;
    Ok(Success(told(started, &twice)).into_response())
}

/// `POST …/documents/parse {document_ids}`: the same, and how many began.
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
    // What was called off may still be with its worker. It is read again, and not just until that one hears of it.
    let again = match running.as_slice() {
        [] => Vec::new(),
        some => state.app.library.queue(&dataset.key, &ids(some)).await?,
    };
    // What waits to be read is read in any case: asking for it again is no mistake.
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

/// What is no object has a code of its own on these routes.
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

/// `DELETE …/chunks {document_ids}`: the work is called off, and what a document had before stays.
///
/// # Errors
/// 102 without ids, for unknown ones, and for documents that are not being read.
pub(crate) async fn stop(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    AnyJson(json): AnyJson,
) -> Result<Response, ApiError> {
    let first_not_owned = |missing: &[String]| document_not_owned(&missing[0]);
    let stopped = call_off(&state, &caller, &id, &object(json)?, first_not_owned).await?;
    match stopped.over.first() {
        Some(_) => Err(not_under_way()),
        None => Ok(Success(told(stopped.count, &stopped.twice)).into_response()),
    }
}

/// `POST …/documents/stop {document_ids}`: the same, and how many were stopped. Documents that are not being read any
/// more are no mistake: nobody can know how far a document has come when the request arrives.
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

/// What came of calling work off.
struct Stopped {
    /// How many documents are not read any more because of it.
    count: usize,
    /// Those that were not being read.
    over: Vec<DocumentId>,
    /// Those that were named more than once.
    twice: Vec<String>,
}

/// Stops all of the documents, or none when one is unknown; `absent` says so of those that are.
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

/// How long workers have to hear that documents were called off. They ask twice a second; one that does not is not waited for.
const HEARD_MAX: Duration = Duration::from_secs(2);
/// How often it is looked whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Waits until documents that were called off are not being read any more, so that whoever looks at them next sees it.
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
