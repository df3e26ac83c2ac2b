//! The usage of runs.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::auth::Caller;
use crate::body::Params;
use crate::error::ApiError;
use crate::state::ServerState;
use crate::wire::envelope::Success;
use weft_app::spending::day;

/// `GET /api/v1/spending?days=30`: the usage of runs in the last days, by canvas and day.
///
/// # Errors
/// 101 for a number of days that is not valid, 100 when the store cannot be read.
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let spent = state.app.spending(&caller.tenant, params.days()?).await?;
    let lines = spent.into_iter().map(|line| {
        let used = line.spent;
        json!({
            "agent_id": line.canvas, "date": day(line.day), "model_calls": used.model_calls,
            "tool_calls": used.tool_calls, "rounds": used.rounds, "tokens": used.tokens,
            "money": used.micros as f64 / 1e6, "seconds": used.millis as f64 / 1e3,
        })
    });
    Ok(Success(json!({"spending": lines.collect::<Vec<_>>()})).into_response())
}
