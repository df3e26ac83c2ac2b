//! Runs: listing them, streaming their events, and cancelling them.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use weft_core::RunKey;
use weft_core::seam::run_store::{RunFilter, StoredRun};

use super::owned::or;
use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::dialect::Dialect;
use crate::dialect::ragflow::RunView;
use crate::error::ApiError;
use crate::frames::{AgentEvents, Kinds, RunEvents, Terminator};
use crate::path::Path;
use crate::sse;
use crate::state::ServerState;
use crate::wire::completion::dialect;
use crate::wire::envelope::Success;
use crate::wire::run::RunItem;

async fn stored(state: &ServerState, key: &RunKey) -> Result<StoredRun, ApiError> {
    state.app.runs.get(key).await.map_err(|error| or(error, ApiError::data("Run not found!")))
}

fn item(state: &ServerState, run: StoredRun) -> RunItem {
    // A process only knows the runs that it is executing itself: one in another process is shown as unfinished.
    let open = if state.app.engine.is_under_way(&run.key) { "running" } else { "unfinished" };
    RunItem::new(run, open)
}

/// `GET /api/v1/runs`.
///
/// # Errors
/// 100 when the store cannot be read.
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let page = params.page(state.app.limits.page_size);
    let filter = RunFilter {
        session: params.get("session_id").map(Into::into),
        unfinished: params.flag("unfinished").unwrap_or(false),
        offset: page.offset,
        limit: page.limit,
        ..RunFilter::default()
    };
    let runs = state.app.runs.list(&caller.tenant, &filter).await?;
    let runs: Vec<_> = runs.into_iter().map(|run| item(&state, run)).collect();
    Ok(Success(json!({"runs": runs})).into_response())
}

/// `GET /api/v1/runs/{id}`.
///
/// # Errors
/// 102 for an unknown one.
pub(crate) async fn get(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let run = stored(&state, &RunKey::new(&caller.tenant, id)).await?;
    let version = state.app.version_of(&run).await?.1;
    Ok(Success(item(&state, run).on(version)).into_response())
}

/// `GET /api/v1/runs/{id}/events`: all events after `Last-Event-ID` or `?after=`, live or past.
///
/// # Errors
/// 101 for an event id that is not a number, and for an unknown dialect; 102 for an unknown run.
pub(crate) async fn events(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (after, dialect) = (after(&headers, &params)?, dialect(params.get("dialect"))?);
    let key = RunKey::new(&caller.tenant, id);
    let run = stored(&state, &key).await?;
    // Starts at the first entry: later ones can only be rendered with the state from those before them.
    let entries = state.app.engine.events(&key, 0).await?;
    let view = RunView::from(&run);
    Ok(match dialect {
        Dialect::Ragflow => {
            sse::respond(entries, RunEvents::new(view, Kinds::All, Terminator::Done).after(after))
        }
        Dialect::Agent => sse::respond(entries, AgentEvents::new(view, Terminator::Done, after)),
    })
}

fn after(headers: &HeaderMap, params: &Params) -> Result<u64, ApiError> {
    // A value that is not text is refused below, as one that is not a number.
    let header = headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?").trim());
    match header.filter(|value| !value.is_empty()).or_else(|| params.get("after")) {
        None => Ok(0),
        Some(text) => text.parse().map_err(|_| {
            ApiError::argument("the place to continue from must be the number of an event, as in `id:` lines")
        }),
    }
}

/// `POST /api/v1/tasks/{id}/cancel` and its older names: stops a run, the run of a session, or the run that waits for
/// a task, by id. Has no effect on one that has ended; whoever asks is not told which ids exist. The process that
/// executes the run stops it, now or when it resumes the run.
///
/// # Errors
/// 100 when the store cannot be used, 106 when the run has been about to begin for several seconds.
pub(crate) async fn cancel(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let stopped = state.app.cancel(&caller.tenant, &id).await?;
    tracing::info!(task.id = id, stopped, "asked to stop");
    Ok(Success(true).into_response())
}

/// `PATCH /api/v1/tasks/{id} {"action": "stop"}`.
///
/// # Errors
/// 101 for any other action.
pub(crate) async fn change(
    state: State<ServerState>,
    caller: Caller,
    id: Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    match body.text("action")?.as_deref() {
        Some("stop") => cancel(state, caller, id).await,
        _ => Err(ApiError::argument("Only 'stop' is supported as `action`")),
    }
}
