//! Agents: stored canvases.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use weft_core::seam::canvas_store::{CHAT_TYPE, CanvasFilter, CanvasOrder, StoredCanvas};
use weft_core::{CanvasKey, Error, changes};
use weft_dsl::Problem;

use super::owned::{or, or_taken};
use super::turn::canvas_key;
use crate::auth::Caller;
use crate::body::{Params, WithCanvas};
use crate::error::{ApiError, code};
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::agent::{AGENT, AgentFields, AgentItem, PIPELINE, Release};
use crate::wire::envelope::Success;

const NO_ACCESS: &str = "Make sure you have permission to access the agent.";
const NOT_OWNER: &str = "Only the owner of the agent is authorized for this operation.";

/// Converts a failure to store an agent; a conflict means that the title is taken.
pub(crate) fn taken(error: Error, title: &str) -> ApiError {
    or_taken(error, ApiError::data(format!("{title} already exists.")))
}

/// Returns a canvas, or `missing` as the error.
pub(crate) async fn stored(
    state: &ServerState,
    key: &CanvasKey,
    missing: ApiError,
) -> Result<StoredCanvas, ApiError> {
    match state.app.canvases.get(key).await {
        // The canvas of a chat assistant can only be changed by the assistant's own routes.
        Ok(canvas) if canvas.head.canvas_type == CHAT_TYPE => Err(missing),
        Ok(canvas) => Ok(canvas),
        Err(error) => Err(or(error, missing)),
    }
}

/// Sets the tags that a request gives, and returns the canvas with them.
pub(crate) async fn tagged(
    state: &ServerState,
    canvas: StoredCanvas,
    tags: Option<Vec<String>>,
) -> Result<StoredCanvas, ApiError> {
    let Some(tags) = tags else { return Ok(canvas) };
    state.app.versions.set_tags(&canvas.key, &tags).await?;
    Ok(StoredCanvas { tags, ..canvas })
}

/// Publishes the version that was just stored if requested, and returns the canvas.
pub(crate) async fn released(
    state: &ServerState,
    canvas: StoredCanvas,
    release: Release,
) -> Result<StoredCanvas, ApiError> {
    if release == Release::No {
        return Ok(canvas);
    }
    // Stored before it is published, so that only an existing version is published.
    state.app.versions.publish(&canvas.key, &canvas.version).await?;
    Ok(state.app.canvases.get(&canvas.key).await?)
}

/// `POST /api/v1/agents`.
///
/// # Errors
/// 101 without a title or a canvas, 102 when the title is taken.
pub(crate) async fn create(
    State(state): State<ServerState>,
    caller: Caller,
    WithCanvas(body, unseen): WithCanvas,
) -> Result<Response, ApiError> {
    let mut fields = AgentFields::read(&body)?;
    let Some(dsl) = fields.dsl.take() else { return Err(ApiError::argument("No DSL data in request.")) };
    let (tags, release) = (fields.tags.take(), fields.release);
    let head = fields.new_head()?;
    let title = head.title.clone();
    let put = state.app.put_canvas(&caller.tenant, None, head, &dsl).await;
    let (canvas, mut problems) = put.map_err(|error| taken(error, &title))?;
    problems.extend(unseen);
    let canvas = released(&state, tagged(&state, canvas, tags).await?, release).await?;
    Ok(Success(AgentItem::whole(canvas).with_problems(&problems)).into_response())
}

/// `GET /api/v1/agents`.
///
/// # Errors
/// 101 for an unknown order, 103 for owners other than the caller.
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    owners(&caller, &params)?;
    let asked: Vec<&str> =
        params.get("canvas_category").unwrap_or_default().split(',').map(str::trim).collect();
    let asked: Vec<&str> = asked.into_iter().filter(|one| !one.is_empty()).collect();
    let wanted = |category: &str| asked.is_empty() || asked.contains(&category);
    let pipelines = match (wanted(AGENT), wanted(PIPELINE)) {
        (true, false) => Some(false),
        (false, true) => Some(true),
        _ => None,
    };
    let others = !wanted(AGENT) && !wanted(PIPELINE);
    if others {
        return Ok(Success(json!({"canvas": [], "total": 0})).into_response());
    }
    let (canvases, total) = {
        let filter = CanvasFilter { pipelines, ..filter(&state, &params)? };
        state.app.canvases.list(&caller.tenant, &filter).await?
    };
    let canvas: Vec<_> = canvases.into_iter().map(AgentItem::short).collect();
    Ok(Success(json!({"canvas": canvas, "total": total})).into_response())
}

/// Checks the requested owners: a tenant owns exactly its own agents.
pub(crate) fn owners(caller: &Caller, params: &Params) -> Result<(), ApiError> {
    let asked = params.all("owner_ids").flat_map(|ids| ids.split(',')).map(str::trim);
    if asked.filter(|id| !id.is_empty()).all(|id| id == caller.tenant.as_str()) {
        Ok(())
    } else {
        Err(ApiError::new(code::OPERATING, "Only authorized owner_ids can be queried."))
    }
}

/// Reads the filter of a list of canvases.
///
/// # Errors
/// 101 for an unknown order.
pub(crate) fn filter(state: &ServerState, params: &Params) -> Result<CanvasFilter, ApiError> {
    let order = match params.get("orderby") {
        None | Some("update_time") => CanvasOrder::Updated,
        Some("create_time") => CanvasOrder::Created,
        Some("title") => CanvasOrder::Title,
        Some(other) => return Err(ApiError::argument(format!("invalid orderby field: {other}"))),
    };
    let page = params.page(state.app.limits.page_size);
    let named = |key: &str| params.get(key).filter(|value| !value.is_empty());
    let tags = params.all("tags").flat_map(|tags| tags.split(',')).map(str::trim);
    Ok(CanvasFilter {
        id: named("id").map(Into::into),
        title: named("title").map(str::to_owned),
        keywords: params.get("keywords").unwrap_or_default().to_owned(),
        pipelines: None,
        tags: tags.filter(|tag| !tag.is_empty()).map(str::to_owned).collect(),
        order,
        offset: page.offset,
        limit: page.limit,
        ascending: params.ascending(),
    })
}

/// `GET /api/v1/agents/{id}`.
///
/// # Errors
/// 102 for an unknown one.
pub(crate) async fn get(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let canvas = stored(&state, &canvas_key(&caller, id), ApiError::data("canvas not found.")).await?;
    Ok(Success(AgentItem::whole(canvas)).into_response())
}

/// Stores changed fields of a canvas, and a new version if one is given, on top of the latest state.
pub(crate) async fn changed(
    state: &ServerState,
    key: &CanvasKey,
    (fields, dsl): (&AgentFields, Option<&str>),
    missing: impl Fn() -> ApiError,
) -> Result<(StoredCanvas, Vec<Problem>), ApiError> {
    changes::made("agent", || async {
        let seen = stored(state, key, missing()).await?;
        let head = fields.clone().changed(seen.head.clone());
        let title = head.title.clone();
        let changed = state.app.change_canvas(&seen, head, dsl.unwrap_or(&seen.dsl)).await;
        changed.map_err(|error| taken(error, &title))
    })
    .await
}

/// `PUT /api/v1/agents/{id}`: changes the fields that are given.
///
/// # Errors
/// 102 when the title is taken, 103 for an unknown agent.
pub(crate) async fn update(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    WithCanvas(body, unseen): WithCanvas,
) -> Result<Response, ApiError> {
    let key = canvas_key(&caller, id);
    let mut fields = AgentFields::read(&body)?;
    let (dsl, tags, release) = (fields.dsl.take(), fields.tags.take(), fields.release);
    let missing = || ApiError::new(code::OPERATING, NO_ACCESS);
    let (canvas, mut problems) = changed(&state, &key, (&fields, dsl.as_deref()), missing).await?;
    problems.extend(unseen);
    let canvas = released(&state, tagged(&state, canvas, tags).await?, release).await?;
    Ok(Success(json!({"update_time": canvas.updated_ms, "problems": problems})).into_response())
}

/// `DELETE /api/v1/agents/{id}`.
///
/// # Errors
/// 103 for an unknown agent.
pub(crate) async fn delete(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let removed = state.app.remove_canvas(&canvas_key(&caller, id)).await;
    removed.map_err(|error| or(error, ApiError::new(code::OPERATING, NOT_OWNER)))?;
    Ok(Success(true).into_response())
}
