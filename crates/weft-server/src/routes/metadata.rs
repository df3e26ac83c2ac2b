//! Metadata of the documents of a dataset.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};
use weft_core::filter::Metadata;
use weft_core::seam::dataset_store::{Dataset, Document, DocumentChange, DocumentHead, Heads};
use weft_core::{DatasetKey, DocumentId};

use super::owned;
use crate::auth::Caller;
use crate::body::{Body, Params, RequiredBody};
use crate::error::{ApiError, code};
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::chunk::dataset_not_owned;
use crate::wire::dataset::not_owned;
use crate::wire::document;
use crate::wire::envelope::Success;
use crate::wire::metadata::{
    MetadataUpdate, Summary, check_config, config, older_config, put_config, whole_config,
};
use crate::wire::once::once;
use crate::wire::rules::Problems;

/// Number of documents read in one batch.
const ROWS_AT_ONCE: u64 = 500;

/// `GET …/metadata/summary`: a summary for the documents in `doc_ids`, or for all.
///
/// # Errors
/// 102 for an unknown dataset or document.
pub(crate) async fn summary(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    let dataset = owned::dataset(&state, &caller, &id, document::dataset_not_owned).await?;
    let mut ids: Vec<String> = params.all("doc_ids").map(str::to_owned).collect();
    ids.extend(body.texts("doc_ids")?.unwrap_or_default());
    let mut summary = Summary::default();
    if ids.is_empty() {
        each(&state, &dataset.key, |head| summary.add(&head.metadata)).await?;
    } else {
        let documents = these(&state, &dataset, ids).await?;
        documents.iter().for_each(|document| summary.add(&document.metadata));
    }
    Ok(Success(summary.into_json()).into_response())
}

/// Calls `look` once for every document.
pub(crate) async fn each(
    state: &ServerState,
    dataset: &DatasetKey,
    mut look: impl FnMut(DocumentHead),
) -> Result<(), ApiError> {
    let mut after = None;
    // Pages continue from the last id rather than by offset, so that documents removed concurrently shift nothing.
    loop {
        let heads = state.app.datasets.document_heads(dataset, &Heads::Page(after, ROWS_AT_ONCE)).await?;
        let Some(last) = heads.last() else { return Ok(()) };
        after = Some(last.id.clone());
        heads.into_iter().for_each(&mut look);
    }
}

/// Returns the documents with these ids.
async fn these(state: &ServerState, dataset: &Dataset, ids: Vec<String>) -> Result<Vec<Document>, ApiError> {
    let (documents, missing) = owned::documents(state, &dataset.key, &once(ids).0).await?;
    if missing.is_empty() {
        return Ok(documents);
    }
    let (id, missing) = (&dataset.key.id, missing.join(", "));
    Err(ApiError::data(format!("These documents do not belong to dataset {id}: {missing}")))
}

/// `POST …/metadata/update {selector, updates, deletes}`: applies the same update to many documents. A document that
/// is removed concurrently does not stop the others. Returns how many have changed.
///
/// # Errors
/// 102 for an unknown dataset or document, or with the API's message for an invalid body.
pub(crate) async fn update(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let dataset = owned::dataset(&state, &caller, &id, dataset_not_owned).await?;
    let asked = MetadataUpdate::read(&body)?;
    let matched = matched(&state, &dataset, &asked).await?;
    let mut updated = 0;
    // In batches: a dataset may have any number of documents.
    for ids in matched.chunks(usize::try_from(ROWS_AT_ONCE).unwrap_or(1)) {
        let mut differing = Vec::new();
        for head in state.app.datasets.document_heads(&dataset.key, &Heads::Of(ids.to_vec())).await? {
            if asked.applied(&head.metadata)? != head.metadata {
                differing.push(head.id);
            }
        }
        // Only changed documents are written, because each write also updates the index.
        let change = |document: &Document| {
            let metadata = asked.applied(&document.metadata)?;
            let differs = metadata != document.metadata;
            let change = DocumentChange { metadata: Some(metadata), ..DocumentChange::default() };
            Ok::<_, ApiError>(differs.then_some(change))
        };
        updated += state.app.library.rework_documents(&dataset.key, &differing, change).await?;
    }
    Ok(Success(json!({"updated": updated, "matched_docs": matched.len()})).into_response())
}

/// Returns the documents that the update applies to. They are determined before the first one changes, because an
/// update may alter what matches.
async fn matched(
    state: &ServerState,
    dataset: &Dataset,
    asked: &MetadataUpdate,
) -> Result<Vec<DocumentId>, ApiError> {
    let fits = |metadata: &Metadata| asked.filter.as_ref().is_none_or(|filter| filter.matches(metadata));
    if let Some(ids) = &asked.documents {
        let documents = these(state, dataset, ids.clone()).await?;
        let fitting = documents.into_iter().filter(|document| fits(&document.metadata));
        return Ok(fitting.map(|document| document.key.id).collect());
    }
    let mut matched = Vec::new();
    each(state, &dataset.key, |head| {
        if fits(&head.metadata) {
            matched.push(head.id);
        }
    })
    .await?;
    Ok(matched)
}

/// `GET …/metadata/config`: what a model is to extract from each document.
///
/// # Errors
/// 102 for an unknown dataset.
pub(crate) async fn get_config(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let dataset = configured(&state, &caller, &id).await?;
    Ok(Success(config(&dataset.settings)).into_response())
}

fn check_fields(body: &Body) -> Result<(), ApiError> {
    let mut problems = Problems::default();
    check_config(&mut problems, "", &body.0);
    problems.refuse(code::ARGUMENT)
}

async fn configured(state: &ServerState, caller: &Caller, id: &str) -> Result<Dataset, ApiError> {
    owned::dataset(state, caller, id, |id| not_owned(&caller.tenant, id)).await
}

async fn reconfigured(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    config: &Json,
) -> Result<Dataset, ApiError> {
    let key = configured(state, caller, id).await?.key;
    let change = |mut dataset: Dataset| {
        put_config(&mut dataset.settings, config);
        Ok::<_, ApiError>(dataset)
    };
    state.app.library.change_dataset(&key, change).await
}

/// `PUT …/metadata/config`: replaces the whole configuration; absent fields become empty.
///
/// # Errors
/// 101 without a body, for a value that is not a list of fields, and for an unknown type of values; 102 for an
/// unknown dataset.
pub(crate) async fn set_config(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    RequiredBody(body): RequiredBody,
) -> Result<Response, ApiError> {
    check_fields(&body)?;
    let dataset = reconfigured(&state, &caller, &id, &whole_config(body.0)).await?;
    Ok(Success(config(&dataset.settings)).into_response())
}

/// `GET …/auto_metadata`: the same in the form for older clients.
///
/// # Errors
/// 102 for an unknown dataset.
pub(crate) async fn get_older_config(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let dataset = configured(&state, &caller, &id).await?;
    Ok(Success(older_config(&dataset.settings)).into_response())
}

/// `PUT …/auto_metadata`: changes the fields that are given.
///
/// # Errors
/// As [`set_config`].
pub(crate) async fn set_older_config(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    RequiredBody(body): RequiredBody,
) -> Result<Response, ApiError> {
    check_fields(&body)?;
    let dataset = reconfigured(&state, &caller, &id, &Json::Object(body.0)).await?;
    Ok(Success(older_config(&dataset.settings)).into_response())
}

/// `PUT …/documents/{document}/metadata/config {metadata}`: the same for one document.
///
/// # Errors
/// 101 without `metadata` and for a value that is not a list of fields; 102 for an unknown dataset or document.
pub(crate) async fn set_document_config(
    State(state): State<ServerState>,
    caller: Caller,
    Path((id, document)): Path<(String, String)>,
    body: Body,
) -> Result<Response, ApiError> {
    let missing = |_: &str| ApiError::data("you don't own the dataset");
    let dataset = owned::dataset(&state, &caller, &id, missing).await?;
    let missing = |document: &str| ApiError::data(format!("document {document} not found in dataset {id}"));
    let document = owned::document(&state, &dataset.key, &document, missing).await?;
    if body.get("metadata").is_none() {
        return Err(ApiError::argument("metadata is required"));
    }
    check_fields(&body)?;
    let config = Json::Object(body.0);
    let change = |document: &Document| {
        let mut settings = document.settings.clone();
        put_config(&mut settings, &config);
        Ok::<_, ApiError>(Some(DocumentChange { settings: Some(settings), ..DocumentChange::default() }))
    };
    let document = state.app.library.rework_document(&document.key, change).await?;
    Ok(Success(crate::wire::document::view(&document)).into_response())
}
