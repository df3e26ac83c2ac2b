//! Documents by their ids alone, whatever dataset of the caller they are in, and all documents of several datasets.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};
use weft_app::attachments::served_media_type;
use weft_core::error::found as or_gone;
use weft_core::seam::dataset_store::{
    Counting, DatasetFilter, Document, DocumentChange, DocumentFilter, DocumentState,
};
use weft_core::seam::ingest_queue::Wanted;
use weft_core::value::to_text;
use weft_core::{DatasetKey, DocumentId, DocumentKey, ErrorKind};
use weft_knowledge::pictures::{self, ImageId};

use super::metadata::each;
use super::parsing::heard;
use super::{attachments, owned};
use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::error::{ApiError, code};
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::chunk::dataset_not_owned;
use crate::wire::document::{self, once};
use crate::wire::envelope::Success;

/// Documents that one request may name.
const IDS_MAX: usize = 1_000;
/// Datasets that are looked through in one go.
const DATASETS_AT_ONCE: u64 = 200;
/// Bytes of a picture that is shown.
const PICTURE_BYTES_MAX: u64 = 16 << 20;
/// Documents in the flat list of metadata, at most: each value has its own list of them.
const FLAT_DOCUMENTS_MAX: usize = 100_000;

/// What is said of a document that is none of the caller's, where several are named.
const NO_AUTHORIZATION: &str = "No authorization.";

fn no_authorization() -> ApiError {
    ApiError::new(code::NO_ACCESS, NO_AUTHORIZATION)
}

/// What becomes of what was read of a document before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// It stays until the document is read.
    On,
    /// It is gone at once.
    Anew,
}

/// The documents with these ids, and the ids that are none of the caller's.
async fn documents(
    state: &ServerState,
    caller: &Caller,
    ids: &[String],
) -> Result<(Vec<Document>, Vec<String>), ApiError> {
    if ids.len() > IDS_MAX {
        return Err(ApiError::argument(format!("one request can name {IDS_MAX} documents at most")));
    }
    let (mut known, mut missing) = (Vec::new(), ids.to_vec());
    let (counting, limit) = (Counting::Without, DATASETS_AT_ONCE);
    let mut filter = DatasetFilter { counting, limit, ..DatasetFilter::default() };
    // A document is found by its dataset and its id, so an id alone is looked for in each dataset.
    while !missing.is_empty() {
        let (datasets, _) = state.app.datasets.datasets(&caller.tenant, &filter).await?;
        let Some(last) = datasets.last() else { break };
        // Datasets that come or go meanwhile would move pages that are counted.
        filter.after = Some((last.created_ms, last.key.id.clone()));
        for dataset in datasets {
            let wanted = missing.iter().map(|id| DocumentId::from(id.as_str())).collect();
            let filter =
                DocumentFilter { ids: Some(wanted), limit: IDS_MAX as u64, ..DocumentFilter::default() };
            let (found, _) = state.app.datasets.documents(&dataset.key, &filter).await?;
            missing.retain(|id| !found.iter().any(|document| document.key.id.as_str() == id));
            known.extend(found);
        }
    }
    Ok((known, missing))
}

async fn document(state: &ServerState, caller: &Caller, id: &str) -> Result<Document, ApiError> {
    let (mut found, _) = documents(state, caller, &[id.to_owned()]).await?;
    found.pop().ok_or_else(|| ApiError::data("document not found"))
}

fn no_image() -> ApiError {
    ApiError::data("Image not found.")
}

/// The file of a document that is a picture, as browsers show it. What merely has the name of one is none.
async fn shown(state: &ServerState, document: &Document) -> Result<Response, ApiError> {
    if pictures::image_id(&document.key, &document.name).is_none() || document.size > PICTURE_BYTES_MAX {
        return Err(no_image());
    }
    let bytes = state.app.library.file(&document.key).await?;
    let media_type = pictures::media_type(&bytes).ok_or_else(no_image)?;
    Ok(attachments::sent(&document.name, media_type, bytes))
}

/// A picture in a document.
async fn shown_in(state: &ServerState, document: &Document, picture: &str) -> Result<Response, ApiError> {
    let kept = state.app.library.picture(document, picture).await;
    let bytes = kept.map_err(|error| owned::or(error, no_image()))?;
    let media_type = pictures::media_type(&bytes).ok_or_else(no_image)?;
    let name = media_type.replace('/', ".");
    Ok(attachments::sent(&name, media_type, bytes))
}

/// What is called so, which the caller's tenant alone can name.
async fn named_image(state: &ServerState, id: &ImageId) -> Result<Response, ApiError> {
    let document = state.app.datasets.document(&id.document).await;
    let document = document.map_err(|error| owned::or(error, no_image()))?;
    match &id.picture {
        Some(picture) => shown_in(state, &document, picture).await,
        None => shown(state, &document).await,
    }
}

/// `GET /api/v1/documents/images/{image}`: what `image_id` of a chunk names: the picture that its text was read in, or the
/// document where that is a picture.
///
/// # Errors
/// 102 for one that is not there or is no picture.
pub(crate) async fn image(
    State(state): State<ServerState>,
    caller: Caller,
    Path(image): Path<String>,
) -> Result<Response, ApiError> {
    let id = ImageId::read(&caller.tenant, &image).ok_or_else(no_image)?;
    named_image(&state, &id).await
}

/// `GET /api/v1/documents/{document}/images/{image}`: the same of a document that is named besides.
///
/// # Errors
/// As [`image`].
pub(crate) async fn image_of(
    State(state): State<ServerState>,
    caller: Caller,
    Path((document, image)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let id = ImageId::read(&caller.tenant, &image).filter(|id| id.document.id.as_str() == document);
    named_image(&state, &id.ok_or_else(no_image)?).await
}

/// `GET /api/v1/documents/{document}/thumbnail`: a picture of a document, which is the document where that is one, else the
/// first picture in it.
///
/// # Errors
/// 102 for a document that is not there, or has no picture.
pub(crate) async fn thumbnail(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let (mut found, _) = documents(&state, &caller, &[id]).await?;
    let document = found.pop().ok_or_else(no_image)?;
    match &document.picture {
        Some(picture) => shown_in(&state, &document, picture).await,
        None => shown(&state, &document).await,
    }
}

/// `GET /api/v1/thumbnails?doc_ids=a,b`: where the pictures of documents are; empty for one without.
///
/// # Errors
/// 101 without ids; documents that are none of the caller's are left out.
pub(crate) async fn thumbnails(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let ids: Vec<String> = params.all("doc_ids").flat_map(|ids| ids.split(',')).map(str::to_owned).collect();
    if ids.is_empty() {
        return Err(ApiError::argument("Lack of \"Document ID\""));
    }
    let (known, _) = documents(&state, &caller, &ids).await?;
    let shown = known.iter().map(|one| (one.key.id.to_string(), Json::from(document::thumbnail(one))));
    Ok(Success(Json::Object(shown.collect())).into_response())
}

/// `GET /api/v1/documents/{document}` and `…/preview`: the file. It is sent to be saved and never to be shown.
///
/// # Errors
/// 102 for an unknown one and an empty file.
pub(crate) async fn download(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let document = document(&state, &caller, &id).await?;
    if document.size == 0 {
        return Err(ApiError::data("This file is empty."));
    }
    let bytes = state.app.library.file(&document.key).await?;
    Ok(attachments::sent(&document.name, &served_media_type(&document.name), bytes))
}

/// `POST /api/v1/documents/ingest {doc_ids, run, delete?}`: has documents read (`run` 1) or no longer read (2), with or
/// without a pipeline; with `delete` what they had is gone at once.
///
/// # Errors
/// 101 when something is missing or `run` is something else; 109 for an unknown document, and then nothing begins; 102 when
/// some of those that are to stop are not being read.
pub(crate) async fn ingest(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["doc_ids", "run"])?;
    let wanted = to_text(body.get("run").unwrap_or(&Json::Null));
    if !matches!(wanted.as_str(), "1" | "2") {
        return Err(ApiError::argument(
            "`run` must be 1, to have documents read, or 2, to have that stopped",
        ));
    }
    let reading = if body.flag("delete")? == Some(true) { Reading::Anew } else { Reading::On };
    let found = named(&state, &caller, &body).await?;
    if wanted == "2" {
        stop(&state, &found).await?;
        return Ok(Success(true).into_response());
    }
    let mut gone = false;
    for Document { key, state: now, .. } in &found {
        // One that goes away meanwhile keeps none of the others from it.
        gone |= or_gone(begin(&state, key, *now, reading).await)?.is_none();
    }
    if gone { Err(no_authorization()) } else { Ok(Success(true).into_response()) }
}

/// Has a document read that was found to be in a state.
async fn begin(
    state: &ServerState,
    key: &DocumentKey,
    now: DocumentState,
    reading: Reading,
) -> weft_core::Result<()> {
    let (library, ids) = (&state.app.library, std::slice::from_ref(&key.id));
    // What is being read goes on, unless it was called off.
    if reading == Reading::Anew && now != DocumentState::Running {
        unless_reading(library.reset_documents(&key.dataset, ids).await)?;
    }
    unless_reading(library.queue(&key.dataset, ids).await.map(drop))
}

/// Its reading may have been asked for since it was looked up, which is what is wanted.
fn unless_reading(outcome: weft_core::Result<()>) -> weft_core::Result<()> {
    match outcome {
        Err(error) if error.kind == ErrorKind::Conflict => Ok(()),
        outcome => outcome,
    }
}

/// Stops those that are being read; one that was stopped before is as it should be.
async fn stop(state: &ServerState, documents: &[Document]) -> Result<(), ApiError> {
    let mut all = true;
    for document in documents {
        match state.app.library.stop(&document.key, Wanted::Cancel).await {
            Ok(()) => {}
            Err(error) if error.kind == ErrorKind::Conflict => {
                // The others are stopped all the same.
                all &= matches!(document.state, DocumentState::Cancelled | DocumentState::Paused);
            }
            Err(error) => return Err(error.into()),
        }
    }
    heard(state, documents).await;
    if all { Ok(()) } else { Err(ApiError::data("Cannot cancel a task that is not in RUNNING status")) }
}

/// The documents of `doc_ids`, all of them or none.
async fn named(state: &ServerState, caller: &Caller, body: &Body) -> Result<Vec<Document>, ApiError> {
    let (ids, _) = once(body.texts("doc_ids")?.unwrap_or_default());
    let (found, missing) = documents(state, caller, &ids).await?;
    if missing.is_empty() { Ok(found) } else { Err(no_authorization()) }
}

/// `POST /api/v1/datasets/{id}/documents/batch-update-status {doc_ids, status}`: has documents found, or no longer. What
/// came of each.
///
/// # Errors
/// 101 when something is missing or `status` is neither 0 nor 1; 102 for an unknown dataset.
pub(crate) async fn set_status(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["doc_ids", "status"])?;
    let status = to_text(body.get("status").unwrap_or(&Json::Null));
    if !matches!(status.as_str(), "0" | "1") {
        return Err(ApiError::argument("\"Status\" must be either 0 or 1!"));
    }
    let dataset = owned::dataset(&state, &caller, &id, dataset_not_owned).await?;
    let (ids, _) = once(body.texts("doc_ids")?.unwrap_or_default());
    let (found, missing) = owned::documents(&state, &dataset.key, &ids).await?;
    let mut told = serde_json::Map::new();
    for document in found {
        let change = DocumentChange { enabled: Some(status == "1"), ..DocumentChange::default() };
        // One that goes away meanwhile keeps none of the others from it.
        let told_of = match or_gone(state.app.library.update_document(&document.key, &change).await)? {
            Some(_) => json!({"status": status}),
            None => json!({"error": NO_AUTHORIZATION}),
        };
        told.insert(document.key.id.to_string(), told_of);
    }
    for id in missing {
        told.insert(id, json!({"error": NO_AUTHORIZATION}));
    }
    Ok(Success(told).into_response())
}

/// `GET /api/v1/datasets/metadata/flattened?dataset_ids=`: by key and value, the documents that have it.
///
/// # Errors
/// 101 without datasets; 102 for an unknown one and for more documents than can be told.
pub(crate) async fn flattened(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let (ids, _) = once(params.all("dataset_ids").map(str::to_owned).collect());
    if ids.is_empty() {
        return Err(ApiError::argument("Lack of dataset_ids in query parameters"));
    }
    if ids.len() > IDS_MAX {
        return Err(ApiError::argument(format!("one request can name {IDS_MAX} datasets at most")));
    }
    let mut flat: BTreeMap<String, BTreeMap<String, Vec<DocumentId>>> = BTreeMap::new();
    let mut counted = 0;
    for id in &ids {
        let dataset = owned::dataset(&state, &caller, id, dataset_not_owned).await?;
        let all = DocumentFilter { limit: 0, ..DocumentFilter::default() };
        // Counted before any is read, so that too many are refused and never held.
        let (_, count) = state.app.datasets.documents(&dataset.key, &all).await?;
        counted += usize::try_from(count).unwrap_or(usize::MAX);
        if counted > FLAT_DOCUMENTS_MAX {
            let message = format!("these datasets have more than {FLAT_DOCUMENTS_MAX} documents: name fewer");
            return Err(ApiError::data(message));
        }
        let key: DatasetKey = dataset.key;
        each(&state, &key, |head| {
            for (name, value) in &head.metadata {
                let values = flat.entry(name.clone()).or_default();
                let items = value.as_array().map_or_else(|| std::slice::from_ref(value), Vec::as_slice);
                for item in items.iter().filter(|item| !item.is_null()) {
                    values.entry(to_text(item)).or_default().push(head.id.clone());
                }
            }
        })
        .await?;
    }
    Ok(Success(flat).into_response())
}
