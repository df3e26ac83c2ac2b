//! Past runs: replaying, forking and comparing them.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use weft_core::context::Pin;
use weft_core::{ErrorKind, Outputs, RunKey, SessionId};
use weft_engine::engine::ForkPoint;

use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::envelope::Success;

fn told(error: weft_core::Error) -> ApiError {
    match error.kind {
        ErrorKind::NotFound => ApiError::data(error.full()),
        _ => error.into(),
    }
}

/// `POST /api/v1/runs/{id}/replay`: replays a run from its journal and reports where it differs. No effect is
/// executed and nothing is stored.
///
/// # Errors
/// 102 for an unknown run or one that cannot be replayed.
pub(crate) async fn replay(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let replayed = state.app.replay(&RunKey::new(&caller.tenant, id)).await.map_err(told)?;
    let events = replayed.entries.iter().filter(|entry| entry.event.is_some()).count();
    let same = replayed.differences.is_empty();
    Ok(Success(json!({"same": same, "events": events, "differences": replayed.differences})).into_response())
}

/// `POST /api/v1/runs/{id}/fork {"node": …, "activation": …, "outputs": {…}, "to": […], "session_id": …}`: starts a
/// run that shares the beginning of this one. Its events are at `/api/v1/runs/{run_id}/events`.
///
/// # Errors
/// 101 for a body that is not valid, 102 for an unknown run or node.
pub(crate) async fn fork(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["node"])?;
    let node = body.text("node")?.unwrap_or_default();
    let activation = match body.get("activation") {
        None => None,
        Some(number) => Some(
            number
                .as_u64()
                .and_then(|number| u32::try_from(number).ok())
                .ok_or_else(|| ApiError::argument("`activation` must be the number of an activation"))?,
        ),
    };
    let outputs: Outputs = body.object("outputs")?.unwrap_or_default().into_iter().collect();
    let to = body.texts("to")?.map(|ids| ids.into_iter().map(Into::into).collect());
    let point = ForkPoint { node: node.into(), activation, edit: Pin { outputs, to } };
    let session = body.id("session_id")?.map(SessionId::from);
    let key = RunKey::new(&caller.tenant, id);
    let (session, run, _) = state.app.fork(&key, session, &point).await.map_err(told)?;
    Ok(Success(json!({"run_id": run.id, "session_id": session.id, "forks": key.id})).into_response())
}

/// `GET /api/v1/runs/{id}/diff?with=ID`: compares two runs, node by node.
///
/// # Errors
/// 101 without the other run, 102 for an unknown one.
pub(crate) async fn diff(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, ApiError> {
    let with = params.get("with").ok_or_else(|| ApiError::argument("`with` must name the other run"))?;
    let (first, second) = (RunKey::new(&caller.tenant, id), RunKey::new(&caller.tenant, with));
    let (comparison, _) = state.app.compare(&first, &second).await.map_err(told)?;
    Ok(Success(comparison).into_response())
}
