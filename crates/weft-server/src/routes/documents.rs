//! Documents of a dataset.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};
use weft_app::attachments::served_media_type;
use weft_core::media_type::ending;
use weft_core::seam::dataset_store::{Document, DocumentChange, DocumentFilter, DocumentState};
use weft_core::{DatasetKey, DocumentId, ErrorKind, changes};

use super::datasets::check_pipeline;
use super::metadata::each;
use super::{attachments, owned};
use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::document::{self, view};
use crate::wire::envelope::Success;
use crate::wire::metadata::Summary;
use crate::wire::removal::Removal;

/// Batch size when all documents are removed.
const REMOVED_AT_ONCE: u64 = 100;

/// `GET …/documents`: by `id`, `ids`, `name`, `keywords`, `suffix`, `types`, `run`, `metadata_condition`, `metadata`,
/// `return_empty_metadata`, `create_time_from`, `create_time_to`, `page`, `page_size`, `orderby` and `desc`; with
/// `?type=filter` the available values of the filters.
///
/// # Errors
/// 102 for an unknown dataset, id or name.
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, ApiError> {
    let dataset = owned::dataset(&state, &caller, &id, document::dataset_not_owned).await?;
    let query = document::query(&params, state.app.limits.page_size)?;
    if params.get("type") == Some("filter") {
        return Ok(Success(choices(&state, &dataset.key, &query.filter).await?).into_response());
    }
    let (documents, mut total) = state.app.datasets.documents(&dataset.key, &query.filter).await?;
    // An empty list is only an error if a named document does not exist at all.
    if total == 0 {
        for named in &query.named {
            if state.app.datasets.documents(&dataset.key, &named.of_documents()).await?.1 == 0 {
                return Err(ApiError::data(format!("you don't own the document {}.", named.as_str())));
            }
        }
    }
    // Times restrict the list, but not the count: clients of the API rely on it.
    if query.filter.from_ms.is_some() || query.filter.to_ms.is_some() {
        let of_any_time = DocumentFilter { from_ms: None, to_ms: None, limit: 0, ..query.filter };
        total = state.app.datasets.documents(&dataset.key, &of_any_time).await?.1;
    }
    let docs: Vec<_> = documents.iter().map(view).collect();
    Ok(Success(json!({"total": total, "docs": docs})).into_response())
}

/// Counts the documents with each extension, state and metadata value, for pages that offer them as filters.
async fn choices(
    state: &ServerState,
    dataset: &DatasetKey,
    filter: &DocumentFilter,
) -> Result<Json, ApiError> {
    let count = async |states: &[DocumentState]| {
        let states = states.to_vec();
        let of_these = DocumentFilter { states, offset: 0, limit: 0, ..filter.clone() };
        Ok::<_, ApiError>(state.app.datasets.documents(dataset, &of_these).await?.1)
    };
    let total = count(&filter.states).await?;
    let mut runs = serde_json::Map::new();
    for run in document::RUNS {
        match count(document::states(run).unwrap_or_default()).await? {
            0 => {}
            some => drop(runs.insert(run.to_owned(), some.into())),
        }
    }
    let keywords = filter.keywords.as_deref().unwrap_or_default().to_lowercase();
    let (mut endings, mut summary, mut bare) = (BTreeMap::<String, u64>::new(), Summary::default(), 0_u64);
    each(state, dataset, |head| {
        if head.name.to_lowercase().contains(&keywords) {
            *endings.entry(ending(&head.name)).or_default() += 1;
            summary.add(&head.metadata);
            bare += u64::from(head.metadata.is_empty());
        }
    })
    .await?;
    // Next to the keys, in the form that `metadata` accepts.
    let mut metadata = summary.into_counts();
    metadata["empty_metadata"] = json!({"true": bare});
    let filter = json!({"suffix": endings, "run_status": runs, "metadata": metadata});
    Ok(json!({"total": total, "filter": filter}))
}

/// `PUT` or `PATCH …/documents/{document}`: changes the fields that are given.
///
/// # Errors
/// 102 for an unknown one and for fields that are not valid; 101 for a name that is not valid.
pub(crate) async fn update(
    State(state): State<ServerState>,
    caller: Caller,
    Path((id, document)): Path<(String, String)>,
    body: Body,
) -> Result<Response, ApiError> {
    let missing = |_: &str| ApiError::data("you don't own the dataset");
    let dataset = owned::dataset(&state, &caller, &id, missing).await?;
    // Read again on each attempt, so that the change applies to the latest state.
    let document = changes::made("document", || async {
        let missing = |_: &str| ApiError::data("the dataset doesn't own the document");
        let before = owned::document(&state, &dataset.key, &document, missing).await?;
        changed(&state, &caller, before, &body).await
    });
    Ok(Success(view(&document.await?)).into_response())
}

/// Applies a body to a document; `None` if it was changed since it was read.
async fn changed(
    state: &ServerState,
    caller: &Caller,
    before: Document,
    body: &Body,
) -> Result<Option<Document>, ApiError> {
    let change = document::change(body, &before)?;
    let pipeline = body.text("pipeline_id")?.filter(|id| !id.is_empty());
    check_pipeline(state, caller, pipeline.as_deref()).await?;
    if change == DocumentChange::default() {
        return Ok(Some(before));
    }
    let change = DocumentChange { revision: Some(before.revision), ..change };
    let renamed = change.name.is_some();
    // Distinguishes two conflicts: a name that is taken, and a document that is being ingested.
    let resets = change.settings.as_ref().is_some_and(|settings| *settings != before.settings);
    let recut = (change.method.is_some() || resets) && before.state == DocumentState::Running;
    let updated = state.app.library.try_document(&before.key, &change).await;
    updated.map_err(|error| match error.kind {
        ErrorKind::Conflict if renamed && !recut => document::name_taken(),
        ErrorKind::Conflict => ApiError::data(error.full()),
        _ => error.into(),
    })
}

/// `GET …/documents/{document}`: the file as it was uploaded, sent as an attachment, never displayed inline.
///
/// # Errors
/// 102 for an unknown one or an empty file, as a code and a message only.
pub(crate) async fn download(
    State(state): State<ServerState>,
    caller: Result<Caller, ApiError>,
    Path((id, document)): Path<(String, String)>,
) -> Response {
    match file(&state, caller, &id, &document).await {
        Ok(response) => response,
        Err(error) => error.bare().into_response(),
    }
}

async fn file(
    state: &ServerState,
    caller: Result<Caller, ApiError>,
    id: &str,
    document: &str,
) -> Result<Response, ApiError> {
    // A refusal is answered in the form of this route, too.
    let caller = caller?;
    let missing = |_: &str| ApiError::data("document not found");
    let dataset = owned::dataset(state, &caller, id, missing).await?;
    let document = owned::document(state, &dataset.key, document, missing).await?;
    if document.size == 0 {
        return Err(ApiError::data("This file is empty."));
    }
    let bytes = state.app.library.file(&document.key).await?;
    Ok(attachments::sent(&document.name, &served_media_type(&document.name), bytes))
}

/// `DELETE …/documents {ids}` or `{delete_all: true}`.
///
/// # Errors
/// 101 for ids that are not valid; 102 for an unknown dataset or document; then nothing is removed.
pub(crate) async fn delete(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let dataset = owned::dataset(&state, &caller, &id, document::dataset_not_owned).await?;
    let deleted = match document::removal(&body, &id)? {
        Removal::Nothing => 0,
        Removal::These(ids) => {
            let (documents, missing) = owned::documents(&state, &dataset.key, &ids).await?;
            if !missing.is_empty() {
                let message = format!(
                    "These documents do not belong to dataset {id} or Document not found: {}",
                    missing.join(", ")
                );
                return Err(ApiError::data(message));
            }
            let ids: Vec<DocumentId> = documents.into_iter().map(|document| document.key.id).collect();
            // Counts what this request has removed: a concurrent one may have removed some.
            state.app.library.remove_documents(&dataset.key, &ids).await?
        }
        Removal::Everything => remove_all(&state, &dataset.key).await?,
    };
    Ok(Success(json!({"deleted": deleted})).into_response())
}

async fn remove_all(state: &ServerState, dataset: &DatasetKey) -> Result<u64, ApiError> {
    let mut removed = 0;
    // From the start each time: entries listed before have been removed.
    loop {
        let filter = DocumentFilter { limit: REMOVED_AT_ONCE, ..DocumentFilter::default() };
        let (documents, _) = state.app.datasets.documents(dataset, &filter).await?;
        let ids: Vec<DocumentId> = documents.into_iter().map(|document| document.key.id).collect();
        if ids.is_empty() {
            return Ok(removed);
        }
        removed += state.app.library.remove_documents(dataset, &ids).await?;
    }
}
