//! Re-embedding of a whole dataset with another model.

use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};
use weft_core::ErrorKind;
use weft_core::id::DatasetKey;
use weft_core::seam::reembedding_store::{Reembedding, ReembeddingState};

use super::task_id::task_id;
use super::{datasets, owned};
use crate::auth::Caller;
use crate::body::Body;
use crate::error::ApiError;
use crate::state::ServerState;
use crate::wire::chunk::dataset_not_owned;
use crate::wire::dataset::model_problem;
use crate::wire::envelope::Success;
use crate::wire::rules::line;

/// Field for the model; `null` and an empty string mean none.
const MODEL: &str = "embedding_model";

fn name_of(dataset: &DatasetKey) -> String {
    task_id(dataset, "embedding")
}

/// Starts to recompute all vectors of a dataset with the model that the body names.
///
/// # Errors
/// 101 without a model or with a name that is not valid; 102 for an unknown dataset or model, and while a
/// re-embedding is under way.
pub(crate) async fn begin(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    body: &Body,
) -> Result<Response, ApiError> {
    let dataset = owned::dataset(state, caller, id, dataset_not_owned).await?;
    // Null has a meaning here, so it does not count as absent.
    let embedder = match body.0.get(MODEL) {
        None => return Err(ApiError::argument(format!("required argument are missing: {MODEL}; "))),
        Some(Json::Null) => String::new(),
        Some(Json::String(name)) if name.is_empty() => String::new(),
        Some(Json::String(name)) if name.trim() == dataset.embedder => dataset.embedder.clone(),
        Some(Json::String(name)) => match model_problem(name) {
            Some(message) => return Err(ApiError::argument(line(MODEL, message, &json!(name)))),
            None => datasets::embedder(state, caller, name.trim())?,
        },
        Some(other) => {
            return Err(ApiError::argument(line(MODEL, "Input should be a valid string", other)));
        }
    };
    let begun = state.app.reembeddings.begin(&dataset.key, &embedder, state.app.clock.now_ms()).await;
    begun.map_err(|error| match error.kind {
        ErrorKind::Conflict => ApiError::data(error.full()),
        ErrorKind::NotFound => dataset_not_owned(id),
        _ => error.into(),
    })?;
    Ok(Success(json!({"task_id": name_of(&dataset.key)})).into_response())
}

/// Returns the progress of the re-embedding; an empty object if there was none.
///
/// # Errors
/// 102 for an unknown dataset.
pub(crate) async fn trace(state: &ServerState, caller: &Caller, id: &str) -> Result<Response, ApiError> {
    let dataset = owned::dataset(state, caller, id, dataset_not_owned).await?;
    let last = state.app.reembeddings.last(&dataset.key).await?;
    let told = last.map_or_else(|| json!({}), |task| told(&task, state.app.clock.now_ms()));
    Ok(Success(told).into_response())
}

/// The state of a task in the form that clients expect: the progress −1 means that it failed.
fn told(task: &Reembedding, now_ms: i64) -> Json {
    let (progress, message) = match task.state {
        ReembeddingState::Running => (task.progress, task.message.as_str()),
        ReembeddingState::Done => (1.0, task.message.as_str()),
        ReembeddingState::Failed => (-1.0, task.message.as_str()),
        ReembeddingState::Cancelled => (-1.0, "It was cancelled"),
    };
    let spent = task.ended_ms.unwrap_or(now_ms).saturating_sub(task.begun_ms).max(0);
    json!({
        "id": name_of(&task.dataset),
        "progress": progress,
        "progress_msg": message,
        "begin_at": task.begun_ms,
        "process_duration": spent as f64 / 1_000.0,
        "embedding_model": task.embedder,
    })
}

/// Cancels the re-embedding; the dataset keeps its current vectors.
///
/// # Errors
/// 102 for an unknown dataset, and when no re-embedding is under way.
pub(crate) async fn cancel(state: &ServerState, caller: &Caller, id: &str) -> Result<Response, ApiError> {
    let dataset = owned::dataset(state, caller, id, |_| ApiError::data("no authorization")).await?;
    let cancelled = state.app.reembeddings.cancel(&dataset.key, state.app.clock.now_ms()).await;
    cancelled.map_err(|error| match error.kind {
        ErrorKind::Conflict => ApiError::data(error.full()),
        _ => error.into(),
    })?;
    Ok(Success(true).into_response())
}
