//! Ingestion logs: the outcome of each ingestion of a document, and running pipelines again.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};
use weft_core::seam::dataset_store::{DocumentFilter, DocumentState};
use weft_core::seam::reading_log::Reading;
use weft_core::{CanvasKey, DatasetKey};
use weft_knowledge::ingest::pipeline_of;

use super::owned;
use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::agent::drawing;
use crate::wire::chunk::dataset_not_owned;
use crate::wire::envelope::Success;
use crate::wire::reading::{filter, view};

/// `GET …/ingestions`: finished ingestions, the latest first.
///
/// # Errors
/// 101 for an unknown ending and for a date that is not valid; 102 for an unknown dataset.
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, ApiError> {
    let dataset = owned::dataset(&state, &caller, &id, dataset_not_owned).await?;
    let filter = filter(&params, state.app.limits.page_size)?;
    let (readings, total) = state.app.readings.readings(&dataset.key, &filter).await?;
    let logs: Vec<Json> = readings.iter().map(view).collect();
    Ok(Success(json!({"total": total, "logs": logs})).into_response())
}

/// `GET …/ingestions/{log}`: an ingestion, with the newest canvas of its pipeline if it used one.
///
/// # Errors
/// 102 for an unknown dataset or ingestion.
pub(crate) async fn get(
    State(state): State<ServerState>,
    caller: Caller,
    Path((id, log)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let dataset = owned::dataset(&state, &caller, &id, dataset_not_owned).await?;
    let reading =
        found(&state, &caller, &log).await?.filter(|reading| reading.document.dataset == dataset.key);
    let reading = reading.ok_or_else(|| ApiError::data("Log not found."))?;
    let mut shown = view(&reading);
    shown["settings"] = json!(reading.settings);
    if let Some((_, dsl)) = pipeline(&state, &caller, &reading).await? {
        shown["dsl"] = dsl;
    }
    Ok(Success(shown).into_response())
}

/// `GET …/ingestions/summary`: the number of documents of a dataset by state, and their totals.
///
/// # Errors
/// 102 for an unknown dataset.
pub(crate) async fn summary(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    owned::dataset(&state, &caller, &id, dataset_not_owned).await?;
    let key = DatasetKey::new(&caller.tenant, id.as_str());
    let counts = state.app.datasets.dataset(&key).await?.counts;
    let mut status = serde_json::Map::new();
    let ways = [
        ("unstart_count", vec![DocumentState::Unstarted]),
        ("running_count", vec![DocumentState::Running, DocumentState::Paused]),
        ("cancel_count", vec![DocumentState::Cancelled]),
        ("done_count", vec![DocumentState::Done]),
        ("fail_count", vec![DocumentState::Failed]),
    ];
    for (name, states) in ways {
        // A limit of 0 counts without reading any documents.
        let filter = DocumentFilter { states, limit: 0, ..DocumentFilter::default() };
        let (_, count) = state.app.datasets.documents(&key, &filter).await?;
        status.insert(name.to_owned(), count.into());
    }
    let summary = json!({
        "doc_num": counts.documents,
        "chunk_num": counts.chunks,
        "token_num": counts.tokens,
        "status": status,
    });
    Ok(Success(summary).into_response())
}

/// `POST /api/v1/agents/rerun {id, dsl, component_id}`: processes the document of an ingestion again with its
/// pipeline, in the stored version and from the beginning: intermediate results of a pipeline are not stored.
///
/// # Errors
/// 101 when something is missing, for an ingestion without a pipeline, a component that is not in the pipeline, and a
/// canvas that is not the stored one; 102 for an unknown ingestion or document, and one that is being ingested.
pub(crate) async fn rerun(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["id", "dsl", "component_id"])?;
    let missing = || ApiError::data("Document not found.");
    let (id, component) = (body.id("id")?.unwrap_or_default(), body.id("component_id")?.unwrap_or_default());
    let reading = found(&state, &caller, &id).await?.ok_or_else(missing)?;
    let key = &reading.document;
    let document = state.app.datasets.document(key).await.map_err(|error| owned::or(error, missing()))?;
    if document.state == DocumentState::Running {
        return Err(ApiError::data(format!("`{}` is processing...", document.name)));
    }
    let Some((pipeline, stored)) = pipeline(&state, &caller, &reading).await? else {
        let message = "no existing pipeline has processed this document; start reading it with POST …/datasets/{id}/chunks";
        return Err(ApiError::argument(message));
    };
    if stored["components"].get(&component).is_none() {
        return Err(ApiError::argument(format!("the pipeline `{pipeline}` has no component `{component}`")));
    }
    let sent = body.object("dsl")?.unwrap_or_default();
    // The rest of a canvas, such as the positions of nodes, may differ.
    if sent.get("components") != stored.get("components") {
        let message = format!(
            "`dsl` is not the stored pipeline: store it first with PUT /api/v1/agents/{pipeline}, and send that"
        );
        return Err(ApiError::argument(message));
    }
    state.app.library.queue(&key.dataset, std::slice::from_ref(&key.id)).await?;
    Ok(Success(true).into_response())
}

/// Returns an ingestion of the caller's tenant.
async fn found(state: &ServerState, caller: &Caller, id: &str) -> Result<Option<Reading>, ApiError> {
    Ok(weft_core::error::found(state.app.readings.reading(&caller.tenant, id).await)?)
}

/// Returns the current version of the pipeline of an ingestion if it still exists.
async fn pipeline(
    state: &ServerState,
    caller: &Caller,
    reading: &Reading,
) -> Result<Option<(String, Json)>, ApiError> {
    let Some(id) = pipeline_of(&reading.settings) else { return Ok(None) };
    let canvas = state.app.canvases.get(&CanvasKey::new(&caller.tenant, id.clone())).await;
    Ok(weft_core::error::found(canvas)?.map(|canvas| (id.to_string(), drawing(&canvas))))
}
