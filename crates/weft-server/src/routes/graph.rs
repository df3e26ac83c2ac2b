//! The knowledge graph of a dataset, and its mind map.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};
use weft_core::DocumentKey;
use weft_core::error::found;
use weft_core::seam::dataset_store::{Extra, Heads};
use weft_knowledge::graph::gather::{BYTES_MAX, GatheredGraphs};
use weft_knowledge::graph::merge::merge;
use weft_knowledge::mind_map;

use super::owned;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::envelope::Success;
use crate::wire::graph::view;
use crate::wire::mind_map::kept;

/// Code of an authorization error on the routes of the graph.
const NO_AUTHORIZATION: u16 = 109;

fn not_owned(_: &str) -> ApiError {
    ApiError::new(NO_AUTHORIZATION, "no authorization")
}

/// `GET …/knowledge_graph`: the most important entities and their relations, and the mind map of the documents.
///
/// # Errors
/// 109 for an unknown dataset.
pub(crate) async fn get(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let dataset = owned::dataset(&state, &caller, &id, not_owned).await?;
    let mut gathered = GatheredGraphs::within(BYTES_MAX);
    gathered.add(&*state.app.datasets, &dataset.key, |_| true).await?;
    let graph_note = gathered.note();
    // Merging the graph of many documents takes long, and must not block the thread.
    let merged = tokio::task::spawn_blocking(move || view(&merge(gathered.parts)));
    let graph = merged.await.map_err(|cause| ApiError::internal(&cause.to_string()))?;
    let (map, map_note) = mind_map::of_dataset(&*state.app.datasets, &dataset.key).await?;
    let mut data = json!({"graph": graph, "mind_map": kept(&map, &dataset.name)});
    let notes: Vec<String> = graph_note.into_iter().chain(map_note).collect();
    if !notes.is_empty() {
        data["note"] = notes.join("\n").into();
    }
    Ok(Success(data).into_response())
}

/// `DELETE …/knowledge_graph`: removes the graph. Documents build theirs again when they are ingested again.
///
/// # Errors
/// 109 for an unknown dataset.
pub(crate) async fn delete(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let dataset = owned::dataset(&state, &caller, &id, not_owned).await?;
    // Holders of a merged graph notice this, because they compare which documents contribute to it.
    for head in state.app.datasets.document_heads(&dataset.key, &Heads::With(Extra::Graph)).await? {
        let key = DocumentKey::new(&dataset.key, head.id);
        // A document that is removed concurrently takes its part of the graph with it.
        found(state.app.datasets.put_extra(&key, Extra::Graph, &Json::Null).await)?;
    }
    Ok(Success(true).into_response())
}
