//! Documents addressed by id alone, in any dataset of the caller, and all documents of several datasets.

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
use crate::wire::document;
use crate::wire::envelope::Success;
use crate::wire::once::once;

/// Maximum number of documents that one request may name.
const IDS_MAX: usize = 1_000;
/// Number of datasets searched in one batch.
const DATASETS_AT_ONCE: u64 = 200;
/// Maximum size of a picture that is shown, in bytes.
const PICTURE_BYTES_MAX: u64 = 16 << 20;
/// Maximum number of documents in the flattened metadata: each value has its own list of documents.
const FLAT_DOCUMENTS_MAX: usize = 100_000;

/// Error for a document that the caller does not own, where several are named.
const NO_AUTHORIZATION: &str = "No authorization.";

fn no_authorization() -> ApiError {
    ApiError::new(code::NO_ACCESS, NO_AUTHORIZATION)
}

/// What happens to the earlier results of a document.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EarlierResults {
    /// They stay until the document has been ingested again.
    On,
    /// They are removed immediately.
    Anew,
}

/// Returns the documents with these ids, and the ids that the caller does not own.
async fn documents(
    state: &ServerState,
    caller: &Caller,
    ids: &[String],
) -> Result<(Vec<Document>, Vec<String>), ApiError> {
    if ids.len() > IDS_MAX {
        return Err(ApiError::argument(format!("one request can name at most {IDS_MAX} documents")));
    }
    let (mut known, mut missing) = (Vec::new(), ids.to_vec());
    let (counting, limit) = (Counting::Without, DATASETS_AT_ONCE);
    let mut filter = DatasetFilter { counting, limit, ..DatasetFilter::default() };
    // The key of a document contains its dataset, so an id alone is looked up in each dataset.
    while !missing.is_empty() {
        let (datasets, _) = state.app.datasets.datasets(&caller.tenant, &filter).await?;
        let Some(last) = datasets.last() else { break };
        // Offsets would shift when datasets come or go concurrently.
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

/// Sends a document that is a picture so that browsers display it. A picture's file name alone does not make it one.
async fn shown(state: &ServerState, document: &Document) -> Result<Response, ApiError> {
    if pictures::image_id(&document.key, &document.name).is_none() || document.size > PICTURE_BYTES_MAX {
        return Err(no_image());
    }
    let bytes = state.app.library.file(&document.key).await?;
    let media_type = pictures::media_type(&bytes).ok_or_else(no_image)?;
    Ok(attachments::sent(&document.name, media_type, bytes))
}

/// Sends a picture that a document contains.
async fn shown_in(state: &ServerState, document: &Document, picture: &str) -> Result<Response, ApiError> {
    let kept = state.app.library.picture(document, picture).await;
    let bytes = kept.map_err(|error| owned::or(error, no_image()))?;
    let media_type = pictures::media_type(&bytes).ok_or_else(no_image)?;
    let name = media_type.replace('/', ".");
    Ok(attachments::sent(&name, media_type, bytes))
}

/// Sends the image with this id. Ids can only name images of the caller's tenant.
async fn named_image(state: &ServerState, id: &ImageId) -> Result<Response, ApiError> {
    let document = state.app.datasets.document(&id.document).await;
    let document = document.map_err(|error| owned::or(error, no_image()))?;
    match &id.picture {
        Some(picture) => shown_in(state, &document, picture).await,
        None => shown(state, &document).await,
    }
}

/// `GET /api/v1/documents/images/{image}`: the image that `image_id` of a chunk names: the picture that its text was
/// read from, or the document itself if that is a picture.
///
/// # Errors
/// 102 for one that does not exist or is not a picture.
pub(crate) async fn image(
    State(state): State<ServerState>,
    caller: Caller,
    Path(image): Path<String>,
) -> Result<Response, ApiError> {
    let id = ImageId::read(&caller.tenant, &image).ok_or_else(no_image)?;
    named_image(&state, &id).await
}

/// `GET /api/v1/documents/{document}/images/{image}`: the same, with the document also named.
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

/// `GET /api/v1/documents/{document}/thumbnail`: a picture of a document: the document itself if it is a picture,
/// else the first picture in it.
///
/// # Errors
/// 102 for a document that does not exist or has no picture.
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

/// `GET /api/v1/thumbnails?doc_ids=a,b`: the URLs of the thumbnails of documents; empty for a document without one.
///
/// # Errors
/// 101 without ids; documents that the caller does not own are left out.
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

/// `GET /api/v1/documents/{document}` and `…/preview`: the file, sent as an attachment, never displayed inline.
///
/// # Errors
/// 102 for an unknown document and an empty file.
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

/// `POST /api/v1/documents/ingest {doc_ids, run, delete?}`: starts (`run` 1) or cancels (2) the ingestion of
/// documents, with or without a pipeline; `delete` removes their earlier results immediately.
///
/// # Errors
/// 101 when something is missing or `run` is something else; 109 for an unknown document; then nothing starts; 102
/// when some of the documents to cancel are not being ingested.
pub(crate) async fn ingest(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["doc_ids", "run"])?;
    let wanted = to_text(body.get("run").unwrap_or(&Json::Null));
    if !matches!(wanted.as_str(), "1" | "2") {
        return Err(ApiError::argument("`run` must be 1 to start reading documents, or 2 to stop it"));
    }
    let reading = if body.flag("delete")? == Some(true) { EarlierResults::Anew } else { EarlierResults::On };
    let found = named(&state, &caller, &body).await?;
    if wanted == "2" {
        stop(&state, &found).await?;
        return Ok(Success(true).into_response());
    }
    let mut gone = false;
    for Document { key, state: now, .. } in &found {
        // A document that is removed concurrently must not stop the others.
        gone |= or_gone(begin(&state, key, *now, reading).await)?.is_none();
    }
    if gone { Err(no_authorization()) } else { Ok(Success(true).into_response()) }
}

/// Starts the ingestion of a document whose state was `now`.
async fn begin(
    state: &ServerState,
    key: &DocumentKey,
    now: DocumentState,
    reading: EarlierResults,
) -> weft_core::Result<()> {
    let (library, ids) = (&state.app.library, std::slice::from_ref(&key.id));
    // An ingestion under way continues, unless it was cancelled.
    if reading == EarlierResults::Anew && now != DocumentState::Running {
        unless_reading(library.reset_documents(&key.dataset, ids).await)?;
    }
    unless_reading(library.queue(&key.dataset, ids).await.map(drop))
}

/// Ignores a conflict: the ingestion may have been started since the lookup, which is what the caller wants.
fn unless_reading(outcome: weft_core::Result<()>) -> weft_core::Result<()> {
    match outcome {
        Err(error) if error.kind == ErrorKind::Conflict => Ok(()),
        outcome => outcome,
    }
}

/// Cancels the documents that are being ingested; one that was already stopped is left as it is.
async fn stop(state: &ServerState, documents: &[Document]) -> Result<(), ApiError> {
    let mut all = true;
    for document in documents {
        match state.app.library.stop(&document.key, Wanted::Cancel).await {
            Ok(()) => {}
            Err(error) if error.kind == ErrorKind::Conflict => {
                // The others are still stopped.
                all &= matches!(document.state, DocumentState::Cancelled | DocumentState::Paused);
            }
            Err(error) => return Err(error.into()),
        }
    }
    heard(state, documents).await;
    if all { Ok(()) } else { Err(ApiError::data("Cannot cancel a task that is not in RUNNING status")) }
}

/// Returns all documents in `doc_ids`, or fails if any is missing.
async fn named(state: &ServerState, caller: &Caller, body: &Body) -> Result<Vec<Document>, ApiError> {
    let (ids, _) = once(body.texts("doc_ids")?.unwrap_or_default());
    let (found, missing) = documents(state, caller, &ids).await?;
    if missing.is_empty() { Ok(found) } else { Err(no_authorization()) }
}

/// `POST /api/v1/datasets/{id}/documents/batch-update-status {doc_ids, status}`: enables or disables documents for
/// searches. Returns the outcome for each.
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
        // A document that is removed concurrently must not stop the others.
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

/// `GET /api/v1/datasets/metadata/flattened?dataset_ids=`: the documents that have a value, by key and value.
///
/// # Errors
/// 101 without datasets; 102 for an unknown dataset and for too many documents.
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
        return Err(ApiError::argument(format!("one request can name at most {IDS_MAX} datasets")));
    }
    let mut flat: BTreeMap<String, BTreeMap<String, Vec<DocumentId>>> = BTreeMap::new();
    let mut counted = 0;
    for id in &ids {
        let dataset = owned::dataset(&state, &caller, id, dataset_not_owned).await?;
        let all = DocumentFilter { limit: 0, ..DocumentFilter::default() };
        // Counted before any is read, so that too many are rejected before they take memory.
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
