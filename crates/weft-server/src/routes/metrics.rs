//! Metrics, for operators.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use prometheus::TEXT_FORMAT;

use crate::auth::Operator;
use crate::error::ApiError;
use crate::metrics::page;
use crate::state::ServerState;

/// `GET /metrics`.
///
/// # Errors
/// 100 when the page cannot be written.
pub(crate) async fn scrape(State(state): State<ServerState>, _: Operator) -> Result<Response, ApiError> {
    let text = page(&state).await?;
    Ok(([(header::CONTENT_TYPE, TEXT_FORMAT), (header::CACHE_CONTROL, "no-store")], text).into_response())
}
