//! Whether the server is there, and whether it can work.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde_json::json;

use crate::state::ServerState;
use crate::wire::envelope::{Success, respond};

/// `GET /healthz`: the process answers.
pub async fn alive() -> Response {
    respond(StatusCode::OK, &json!({"status": "ok"}))
}

/// `GET /readyz`: the store answers, and nobody told the server to stop.
pub async fn ready(State(state): State<ServerState>) -> Response {
    let store = match state.app.tokens.count().await {
        Ok(_) => "ok",
        Err(error) => {
            tracing::error!(error = error.full(), "the store does not answer");
            "nok"
        }
    };
    let stopping = state.stopping.is_cancelled();
    let (status, word) = match store == "ok" && !stopping {
        true => (StatusCode::OK, "ok"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "nok"),
    };
    respond(status, &json!({"status": word, "db": store, "stopping": stopping}))
}

/// `GET /api/v1/system/version`.
pub async fn version() -> Response {
    Success(concat!("v", env!("CARGO_PKG_VERSION"))).into_response()
}

/// `GET /api/v1/system/ping`.
pub async fn ping() -> &'static str {
    "pong"
}
