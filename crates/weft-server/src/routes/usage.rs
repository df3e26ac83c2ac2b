//! Usage of models.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};
use weft_core::seam::chat_model::Usage;
use weft_core::seam::usage_store::{UsageBy, UsageLine};

use crate::auth::Caller;
use crate::body::Params;
use crate::error::ApiError;
use crate::state::ServerState;
use crate::wire::envelope::Success;
use weft_app::spending::{day, day_number};

/// Returns the name of a dimension in requests and answers.
fn name(side: UsageBy) -> &'static str {
    match side {
        UsageBy::Day => "date",
        UsageBy::Agent => "agent_id",
        UsageBy::Node => "node",
        UsageBy::Model => "model",
        UsageBy::User => "user_id",
        UsageBy::Session => "session_id",
    }
}

/// Reads the dimensions in `by`, without repetitions.
fn sides(params: &Params) -> Result<Vec<UsageBy>, ApiError> {
    let mut sides = Vec::new();
    for word in params.get("by").unwrap_or("model").split(',').map(str::trim) {
        let side = UsageBy::parse(word).ok_or_else(|| {
            let known: Vec<&str> = UsageBy::ALL.into_iter().map(UsageBy::as_str).collect();
            ApiError::argument(format!(
                "`by` must be one or more of {}, separated by commas",
                known.join(", ")
            ))
        })?;
        if !sides.contains(&side) {
            sides.push(side);
        }
    }
    Ok(sides)
}

/// Reads the filters by dimension.
fn only(params: &Params) -> Result<Vec<(UsageBy, String)>, ApiError> {
    let mut only = Vec::new();
    for side in UsageBy::ALL {
        let Some(value) = params.get(name(side)) else { continue };
        let value = match side {
            UsageBy::Day => day_number(value)
                .ok_or_else(|| ApiError::argument("`date` must be a day, such as 2026-01-31"))?
                .to_string(),
            _ => value.to_owned(),
        };
        only.push((side, value));
    }
    Ok(only)
}

fn counts(usage: Usage, micros: u64) -> Json {
    json!({
        "model_calls": usage.calls,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens(),
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "money": micros as f64 / 1e6,
    })
}

fn line(line: &UsageLine, sides: &[UsageBy]) -> Json {
    let mut json = counts(line.usage, line.micros);
    for (side, value) in sides.iter().zip(&line.of) {
        json[name(*side)] = match side {
            UsageBy::Day => json!(value.parse().map(day).unwrap_or_default()),
            _ => json!(value),
        };
    }
    json
}

/// `GET /api/v1/usage?by=model,date&days=30`.
///
/// # Errors
/// 101 for dimensions, days or a date that is not valid; 100 when the store cannot be read.
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let days = params.days()?;
    let (sides, only) = (sides(&params)?, only(&params)?);
    let lines = state.app.usage(&caller.tenant, sides.clone(), only.clone(), days).await?;
    // Queried separately: the lines may be truncated, and their sum would be too small.
    let whole = state.app.usage(&caller.tenant, Vec::new(), only, days).await?;
    let total =
        whole.first().map_or_else(|| counts(Usage::default(), 0), |all| counts(all.usage, all.micros));
    let rows: Vec<Json> = lines.iter().map(|one| line(one, &sides)).collect();
    Ok(Success(json!({"usage": rows, "total": total})).into_response())
}
