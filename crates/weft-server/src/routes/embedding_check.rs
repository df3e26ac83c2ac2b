//! Compares the vectors of another model with those of a dataset.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use weft_knowledge::ingest::ComparedChunk;

use super::{datasets, owned};
use crate::auth::Caller;
use crate::body::Body;
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::envelope::Success;

/// Default and maximum number of chunks that are compared.
const CHUNKS: [usize; 2] = [5, 20];
/// Minimum average similarity of the vectors.
const SIMILARITY_MIN: f64 = 0.9;
/// The code for a change that is possible but would not help.
const NOT_EFFECTIVE: u16 = 10;

/// `POST …/embedding/check {embd_id, check_num?}`.
///
/// # Errors
/// 101 without a model, and for a number of another kind; 102 for an unknown dataset or model, and for a dataset
/// without vectors; 10 when the vectors differ too much.
pub(crate) async fn check(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["embd_id"])?;
    let dataset = owned::dataset(&state, &caller, &id, |_| ApiError::data("no authorization")).await?;
    let model = datasets::embedder(&state, &caller, &body.text("embd_id")?.unwrap_or_default())?;
    let [usual, most] = CHUNKS;
    let asked = match body.get("check_num") {
        None => None,
        Some(number) => {
            let wrong = || ApiError::argument("`check_num` must be a whole number");
            Some(number.as_u64().ok_or_else(wrong)?)
        }
    };
    // A number that is out of range exceeds the maximum as well.
    let count = asked.map_or(usual, |count| usize::try_from(count).unwrap_or(most)).clamp(1, most);
    let compared = state.app.library.compared(&dataset.key, &model, count).await?;
    if compared.is_empty() {
        return Err(ApiError::data(format!("The dataset {id} has no vectors that could be compared")));
    }
    let similarities = || compared.iter().map(|chunk| chunk.similarity);
    let average = similarities().sum::<f64>() / compared.len() as f64;
    let row = |chunk: &ComparedChunk| json!({"chunk_id": chunk.id, "doc_id": chunk.document, "doc_name": chunk.name, "cos_sim": chunk.similarity});
    let told = json!({
        "summary": {
            "dataset_id": id,
            "model": model,
            "sampled": compared.len(),
            "valid": compared.len(),
            "avg_cos_sim": average,
            "min_cos_sim": similarities().fold(1.0, f64::min),
            "max_cos_sim": similarities().fold(-1.0, f64::max),
        },
        "results": compared.iter().map(row).collect::<Vec<_>>(),
    });
    if average < SIMILARITY_MIN {
        let message = format!(
            "the vectors of {model} are too different from those of the dataset: {average:.3} on average, not \
             {SIMILARITY_MIN} or more; keep the model, or create another dataset"
        );
        return Err(ApiError::new(NOT_EFFECTIVE, message).with_data(told));
    }
    Ok(Success(told).into_response())
}
