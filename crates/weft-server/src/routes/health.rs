//! Liveness and readiness of the server.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde_json::json;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::auth::Caller;
use crate::state::ServerState;
use crate::wire::envelope::{Success, respond};

/// `GET /`: a description for people who open the server's address.
pub(crate) async fn about() -> Response {
    let said = json!({
        "about": "This is Weft, which runs agent workflows.",
        "docs": "/api/docs",
        "openapi": "/api/openapi.json",
        "ready": "/readyz",
        "first_call": "POST /api/canvas/set stores a canvas; send a token in the header Authorization unless the server runs with --no-auth",
    });
    respond(StatusCode::OK, &said)
}

/// `GET /healthz`: the process answers.
pub(crate) async fn alive() -> Response {
    respond(StatusCode::OK, &json!({"status": "ok"}))
}

/// How long a result of the store is reused: anyone may ask, and each probe is a write.
const TRIED_EVERY: Duration = Duration::from_secs(1);

/// Time limit for the store to write one row. With a slower store, requests would exceed their limits.
const PROBE_TIME: Duration = Duration::from_secs(3);

/// Whether the store could be written at the last attempt.
#[derive(Debug, Default)]
pub struct Readiness(Mutex<Option<(Instant, bool)>>);

impl Readiness {
    /// Returns whether the store can be written. Concurrent callers share one probe.
    async fn ask(&self, probe: impl Future<Output = weft_core::Result<()>>) -> bool {
        // Held during the probe, so that concurrent callers wait for its result.
        let mut last = self.0.lock().await;
        if let Some((at, able)) = *last
            && at.elapsed() < TRIED_EVERY
        {
            return able;
        }
        // A store that hangs would otherwise block every caller.
        let able = match tokio::time::timeout(PROBE_TIME, probe).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::error!(error = error.detail(), "the store cannot be written");
                false
            }
            Err(_) => {
                tracing::error!("the store does not answer in time");
                false
            }
        };
        // A failure is reused, too: a store in trouble is not probed more often.
        *last = Some((Instant::now(), able));
        able
    }
}

/// `GET /readyz`: whether the store can be written and the server is not stopping.
pub(crate) async fn ready(State(state): State<ServerState>) -> Response {
    let able = state.readiness.ask(state.app.probe()).await;
    let store = if able { "ok" } else { "nok" };
    let stopping = state.stopping.is_cancelled();
    let (status, word) =
        if able && !stopping { (StatusCode::OK, "ok") } else { (StatusCode::SERVICE_UNAVAILABLE, "nok") };
    respond(status, &json!({"status": word, "db": store, "stopping": stopping}))
}

/// `GET …/system/healthz`: the same in the format of clients that monitor several servers. Messages, the index and
/// files are parts of this process, so their state is that of the process.
pub(crate) async fn parts(State(state): State<ServerState>) -> Response {
    let able = state.readiness.ask(state.app.probe()).await;
    let (status, word) =
        if able { (StatusCode::OK, "ok") } else { (StatusCode::INTERNAL_SERVER_ERROR, "nok") };
    let mut told = json!({"status": word, "db": word, "redis": "ok", "doc_engine": "ok", "storage": "ok"});
    if !able {
        told["_meta"] = json!({"db": {"error": "the store cannot be written; the server's log says why"}});
    }
    respond(status, &told)
}

/// `GET …/system/status`: the parts of the server, and the response time of the store.
pub(crate) async fn status(State(state): State<ServerState>, _: Caller) -> Response {
    let began = Instant::now();
    let able = state.readiness.ask(state.app.probe()).await;
    // For a shared result, the time that this request has waited.
    let elapsed = format!("{:.1}", began.elapsed().as_secs_f64() * 1_000.0);
    let here = |kind: &str| json!({"type": kind, "status": "green", "elapsed": "0.0"});
    let database = json!({"status": if able { "green" } else { "red" }, "elapsed": elapsed});
    let told = json!({"database": database, "redis": here("in process"), "doc_engine": here("in process"),
        "storage": here("in process"), "task_executor_heartbeats": {}});
    Success(told).into_response()
}

/// `GET /api/v1/system/version`.
pub(crate) async fn version() -> Response {
    Success(concat!("v", env!("CARGO_PKG_VERSION"))).into_response()
}

/// `GET /api/v1/system/ping`.
pub(crate) async fn ping() -> &'static str {
    "pong"
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use weft_core::Error;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_store_is_probed_at_most_once_a_second_with_a_timeout() {
        let (readiness, tries) = (Readiness::default(), AtomicUsize::new(0));
        let probe = async |outcome: weft_core::Result<()>| {
            tries.fetch_add(1, Ordering::Relaxed);
            outcome
        };
        assert!(!readiness.ask(probe(Err(Error::internal("full")))).await);
        assert!(!readiness.ask(probe(Ok(()))).await, "the previous result is reused");
        tokio::time::advance(TRIED_EVERY).await;
        assert!(readiness.ask(probe(Ok(()))).await);
        assert_eq!(tries.load(Ordering::Relaxed), 2);
        tokio::time::advance(TRIED_EVERY).await;
        assert!(!readiness.ask(std::future::pending()).await);
    }
}
