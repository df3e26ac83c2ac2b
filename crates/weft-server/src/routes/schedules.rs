//! Schedules of an agent.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use weft_core::ScheduleKey;
use weft_core::error::found;
use weft_core::seam::schedule_store::{Schedule, ScheduleFilter};

use super::agents::stored;
use super::owned::or;
use super::turn::canvas_key;
use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::envelope::Success;
use crate::wire::schedule::{FireItem, ScheduleItem, changed, terms};

async fn of_agent(
    state: &ServerState,
    caller: &Caller,
    agent: String,
    id: String,
) -> Result<Schedule, ApiError> {
    let schedule = found(state.app.schedules.get(&ScheduleKey::new(&caller.tenant, id)).await)?;
    // A schedule of another agent is not distinguished from an unknown one.
    let schedule = schedule.filter(|schedule| schedule.canvas.as_str() == agent);
    schedule.ok_or_else(|| ApiError::data("Schedule not found!"))
}

/// `POST …/schedules {"cron": …, "timezone": …} or {"every": …}`, with `query`, `inputs`, `files`, and optionally
/// `session_id`, `misfire`, `misfire_max`, `name` and `enabled`.
///
/// # Errors
/// 101 for a body that is not valid, 102 for an unknown agent.
pub(crate) async fn create(
    State(state): State<ServerState>,
    caller: Caller,
    Path(agent): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let canvas = canvas_key(&caller, agent);
    let terms = terms(&body, &caller, state.app.clock.now_ms())?;
    let added = state.app.add_schedule(&canvas, terms).await;
    let schedule = added.map_err(|error| or(error, ApiError::data("Agent not found.")))?;
    Ok(Success(ScheduleItem::of(&state.app, schedule).await).into_response())
}

/// `GET …/schedules`.
///
/// # Errors
/// 102 for an unknown agent.
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    Path(agent): Path<String>,
    params: Params,
) -> Result<Response, ApiError> {
    let canvas = canvas_key(&caller, agent);
    stored(&state, &canvas, ApiError::data("Agent not found.")).await?;
    let page = params.page(state.app.limits.page_size);
    let filter = ScheduleFilter { canvas: Some(canvas.id), offset: page.offset, limit: page.limit };
    let (schedules, total) = state.app.schedules.list(&caller.tenant, &filter).await?;
    let mut items = Vec::with_capacity(schedules.len());
    for schedule in schedules {
        items.push(ScheduleItem::of(&state.app, schedule).await);
    }
    Ok(Success(json!({"schedules": items, "total": total})).into_response())
}

/// `GET …/schedules/{schedule}`.
///
/// # Errors
/// 102 for an unknown one.
pub(crate) async fn get(
    State(state): State<ServerState>,
    caller: Caller,
    Path((agent, id)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let schedule = of_agent(&state, &caller, agent, id).await?;
    Ok(Success(ScheduleItem::of(&state.app, schedule).await).into_response())
}

/// `PUT …/schedules/{schedule}`: changes the fields that are given.
///
/// # Errors
/// 101 for a body that is not valid, 102 for an unknown one, 106 on concurrent changes.
pub(crate) async fn update(
    State(state): State<ServerState>,
    caller: Caller,
    Path((agent, id)): Path<(String, String)>,
    body: Body,
) -> Result<Response, ApiError> {
    let before = of_agent(&state, &caller, agent, id).await?;
    let terms = changed(&body, before.clone().into(), state.app.clock.now_ms())?;
    let schedule = state.app.change_schedule(&before, terms).await?;
    Ok(Success(ScheduleItem::of(&state.app, schedule).await).into_response())
}

/// `DELETE …/schedules/{schedule}`: its runs remain.
///
/// # Errors
/// 102 for an unknown one.
pub(crate) async fn delete(
    State(state): State<ServerState>,
    caller: Caller,
    Path((agent, id)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let schedule = of_agent(&state, &caller, agent, id).await?;
    state.app.remove_schedule(&schedule.key).await?;
    Ok(Success(true).into_response())
}

/// `POST …/schedules/{schedule}/run`: starts a run now, even if the schedule is disabled.
///
/// # Errors
/// 102 for an unknown one, 429 when too many of its runs have not ended.
pub(crate) async fn run(
    State(state): State<ServerState>,
    caller: Caller,
    Path((agent, id)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let schedule = of_agent(&state, &caller, agent, id).await?;
    let run = state.app.fire_schedule(&schedule).await?;
    Ok(Success(json!({"run_id": run.id})).into_response())
}

/// `GET …/schedules/{schedule}/runs`: the runs that it has requested, the latest first.
///
/// # Errors
/// 102 for an unknown one.
pub(crate) async fn runs(
    State(state): State<ServerState>,
    caller: Caller,
    Path((agent, id)): Path<(String, String)>,
    params: Params,
) -> Result<Response, ApiError> {
    let schedule = of_agent(&state, &caller, agent, id).await?;
    let page = params.page(state.app.limits.page_size);
    let (fires, total) = state.app.fires(&schedule.key, page.offset, page.limit).await?;
    let runs: Vec<_> = fires.into_iter().map(FireItem::from).collect();
    Ok(Success(json!({"runs": runs, "total": total})).into_response())
}
