//! Searches in datasets.

use std::collections::HashSet;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::Value as Json;
use weft_core::seam::dataset_store::Dataset;
use weft_core::seam::index::TextQuery;
use weft_core::seam::knowledge::Passage;
use weft_core::{DatasetKey, DocumentId, ErrorKind};
use weft_knowledge::retrieve::{Chosen, Retrieval, Retrieved};

use super::owned;
use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::chunk::dataset_not_owned;
use crate::wire::envelope::{Success, respond};
use crate::wire::once::once;
use crate::wire::retrieval::{RetrievalRequest, answer, answer_of_datasets, dify_body, records};

/// `POST /api/v1/retrieval`.
///
/// # Errors
/// 102 for an unknown dataset or document, for datasets whose vectors cannot be compared, and with the API's message
/// for an invalid body.
pub(crate) async fn search(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let page_max = usize::try_from(state.app.limits.page_size).unwrap_or(usize::MAX);
    let request = RetrievalRequest::read(&body, page_max)?;
    let (found, _) = searched(&state, &caller, &request).await?;
    let mut highlights = Vec::with_capacity(found.passages.len());
    for passage in &found.passages {
        // A passage without any of the question's words is returned as it is.
        let marked = || {
            highlighted(&state, &request.question, passage).unwrap_or_else(|| passage.chunk.content.clone())
        };
        highlights.push(request.highlight.then(marked));
    }
    Ok(Success(answer(&found, &highlights, request.metadata.as_deref())).into_response())
}

/// `POST /api/v1/datasets/search`: searches the datasets that the body names.
///
/// # Errors
/// 101 without a question; otherwise as [`search`].
pub(crate) async fn search_datasets(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    in_datasets(&state, &caller, body, None).await
}

/// `POST /api/v1/datasets/{id}/search`.
///
/// # Errors
/// As [`search_datasets`].
pub(crate) async fn search_dataset(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    in_datasets(&state, &caller, body, Some(&id)).await
}

pub(super) async fn in_datasets(
    state: &ServerState,
    caller: &Caller,
    body: Body,
    dataset: Option<&str>,
) -> Result<Response, ApiError> {
    let page_max = usize::try_from(state.app.limits.page_size).unwrap_or(usize::MAX);
    let request = RetrievalRequest::of_datasets(body, dataset, page_max)?;
    let (found, _) = searched(state, caller, &request).await?;
    Ok(Success(answer_of_datasets(&found)).into_response())
}

/// Returns the hits, and the datasets that were searched.
///
/// # Errors
/// As [`search`].
pub(crate) async fn searched(
    state: &ServerState,
    caller: &Caller,
    request: &RetrievalRequest,
) -> Result<(Retrieved, Vec<Dataset>), ApiError> {
    let mut datasets = Vec::new();
    for id in once(request.datasets.clone()).0 {
        datasets.push(owned::dataset(state, caller, &id, dataset_not_owned).await?);
    }
    // Datasets that are only searched by words can be combined with any others.
    let models: HashSet<&str> = datasets.iter().map(|dataset| dataset.embedder.as_str()).collect();
    if models.iter().filter(|model| !model.is_empty()).count() > 1 {
        return Err(ApiError::data("Datasets use different embedding models."));
    }
    let found = find(state, caller, &datasets, request).await?;
    Ok((found, datasets))
}

async fn find(
    state: &ServerState,
    caller: &Caller,
    datasets: &[Dataset],
    request: &RetrievalRequest,
) -> Result<Retrieved, ApiError> {
    let documents = if request.documents.is_empty() {
        None
    } else {
        Some(of_datasets(state, datasets, &request.documents).await?)
    };
    let asked = Retrieval {
        datasets: Chosen::ById(datasets.iter().map(|dataset| dataset.key.id.clone()).collect()),
        question: request.question.clone(),
        documents,
        filter: request.filter.clone(),
        similarity_min: request.similarity_min,
        vector_weight: request.vector_weight,
        candidates_max: request.candidates_max,
        reranker: request.reranker.clone(),
        languages: request.languages.clone(),
        keywords: request.keyword,
        contents: request.contents,
        graph: request.graph,
        offset: request.offset,
        limit: request.limit,
    };
    Ok(state.app.retrieve(&caller.tenant, &asked).await?)
}

/// Returns documents that each belong to one of the datasets.
async fn of_datasets(
    state: &ServerState,
    datasets: &[Dataset],
    ids: &[String],
) -> Result<Vec<DocumentId>, ApiError> {
    let mut missing = once(ids.to_vec()).0;
    let mut found = Vec::new();
    for dataset in datasets {
        let (documents, rest) = owned::documents(state, &dataset.key, &missing).await?;
        found.extend(documents.into_iter().map(|document| document.key.id));
        missing = rest;
    }
    match missing.first() {
        None => Ok(found),
        Some(id) => Err(ApiError::data(format!("The datasets don't own the document {id}"))),
    }
}

/// Returns the sentences of a passage that contain the question's words.
fn highlighted(state: &ServerState, question: &str, passage: &Passage) -> Option<String> {
    let query = TextQuery { text: question.to_owned(), ..TextQuery::default() };
    let marks = state.app.library.index().marks(&passage.chunk.content, &query);
    weft_knowledge::highlight(&passage.chunk.content, &marks)
}

/// `POST /api/v1/dify/retrieval`: the interface of Dify for external knowledge. Failures have an HTTP status, because
/// its clients check nothing else.
///
/// # Errors
/// 400 for a body that is not valid; 403 without a valid token; 404 for an unknown dataset.
pub(crate) async fn of_dify(
    State(state): State<ServerState>,
    caller: Result<Caller, ApiError>,
    body: Result<Body, ApiError>,
) -> Response {
    match dify(&state, caller, body).await {
        Ok(records) => respond(StatusCode::OK, &records),
        Err(error) => error.into_response(),
    }
}

/// `GET /api/v1/dify/retrieval`: the same with query parameters.
///
/// # Errors
/// As [`of_dify`].
pub(crate) async fn of_dify_address(
    state: State<ServerState>,
    caller: Result<Caller, ApiError>,
    params: Result<Params, ApiError>,
) -> Response {
    of_dify(state, caller, params.map(|params| dify_body(&params))).await
}

async fn dify(
    state: &ServerState,
    caller: Result<Caller, ApiError>,
    body: Result<Body, ApiError>,
) -> Result<Json, ApiError> {
    let caller = caller.map_err(|error| error.bare().with_status(StatusCode::FORBIDDEN))?;
    let refused = |error: ApiError| error.bare().with_status(StatusCode::BAD_REQUEST);
    let request = RetrievalRequest::of_dify(&body.map_err(refused)?).map_err(refused)?;
    let key = DatasetKey::new(&caller.tenant, request.datasets[0].as_str());
    let dataset = state.app.datasets.dataset_uncounted(&key).await.map_err(|error| match error.kind {
        ErrorKind::NotFound => {
            ApiError::new(404, "Knowledgebase not found!").bare().with_status(StatusCode::NOT_FOUND)
        }
        _ => ApiError::from(error).bare(),
    })?;
    let found = find(state, &caller, std::slice::from_ref(&dataset), &request).await;
    let failed = |error: ApiError| error.bare().with_status(StatusCode::INTERNAL_SERVER_ERROR);
    Ok(records(&found.map_err(failed)?))
}
