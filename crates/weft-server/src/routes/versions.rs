//! Versions of agents: describing, publishing, labelling, restoring and comparing them; tags; export and import of
//! agents.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures::{StreamExt as _, stream};
use serde_json::{Value as Json, json};
use weft_core::error::found;
use weft_core::seam::version_store::checked_tags;
use weft_core::{CanvasKey, Error};

use super::agents::{stored, taken};
use super::owned::or;
use super::turn::canvas_key;
use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::error::{ApiError, code};
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::agent::{AgentFields, AgentItem};
use crate::wire::envelope::{Success, streamed};
use crate::wire::template::in_one_language;
use crate::wire::version::{VersionRow, change, exported, tags};

/// Maximum and default number of versions in a list.
const LISTED: u64 = 100;

fn no_agent() -> ApiError {
    ApiError::data("canvas not found.")
}

fn no_version() -> ApiError {
    ApiError::data("Version not found.")
}

/// Resolves the version that a path names: a hash, a label, `published` or `latest`.
async fn named(state: &ServerState, key: &CanvasKey, name: &str) -> Result<Arc<str>, ApiError> {
    stored(state, key, no_agent()).await?;
    state.app.find_version(key, name).await.map_err(|error| or(error, no_version()))
}

/// `GET …/versions`: newest first, each with its canvas unless `dsl=false`.
///
/// # Errors
/// 102 for an unknown agent.
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, ApiError> {
    let key = canvas_key(&caller, id);
    let canvas = stored(&state, &key, no_agent()).await?;
    // Clients that do not page expect all versions.
    let page = match params.get("page").or(params.get("page_size")) {
        Some(_) => params.page(LISTED),
        None => params.page_if_asked(LISTED),
    };
    let (versions, _) = state.app.versions.versions(&key, page.offset, page.limit).await?;
    let with_drawing = params.flag("dsl").unwrap_or(true);
    // Each canvas may have megabytes: an entry is created only after the one before it was sent.
    let entries = stream::iter(versions).filter_map(move |version| {
        let (state, key, title) = (state.clone(), key.clone(), canvas.head.title.clone());
        async move {
            let dsl = if with_drawing {
                found(drawing(&state, &key, &version.version).await)
            } else {
                Ok(Some(Json::Null))
            };
            // A version that was removed since it was listed has no entry.
            let entry = dsl.transpose()?.and_then(|dsl| {
                serde_json::to_value(VersionRow::new(&key.id, &title, version, dsl))
                    .map_err(|cause| Error::internal("cannot write a version").because(cause))
            });
            Some(entry)
        }
    });
    Ok(streamed("{\"code\":0,\"message\":\"success\",\"data\":[", entries, "]}".to_owned()))
}

async fn drawing(state: &ServerState, key: &CanvasKey, version: &str) -> weft_core::Result<Json> {
    let dsl = state.app.canvases.version(key, version).await?;
    Ok(serde_json::from_str(&dsl).unwrap_or(Json::Null))
}

async fn row(state: &ServerState, key: &CanvasKey, version: &str) -> Result<VersionRow, ApiError> {
    let canvas = stored(state, key, no_agent()).await?;
    let found = state.app.versions.get_version(key, version).await;
    let found = found.map_err(|error| or(error, no_version()))?;
    let dsl = drawing(state, key, version).await?;
    Ok(VersionRow::new(&key.id, &canvas.head.title, found, dsl))
}

/// `GET …/versions/{version}`.
///
/// # Errors
/// 102 for an unknown one.
pub(crate) async fn get(
    State(state): State<ServerState>,
    caller: Caller,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let key = canvas_key(&caller, id);
    let version = named(&state, &key, &name).await?;
    Ok(Success(row(&state, &key, &version).await?).into_response())
}

/// `GET /v1/canvas/getversion/{version}`: by its hash alone.
///
/// # Errors
/// 102 for an unknown one.
pub(crate) async fn get_alone(
    State(state): State<ServerState>,
    caller: Caller,
    Path(version): Path<String>,
) -> Result<Response, ApiError> {
    let found = state.app.versions.canvas_of(&caller.tenant, &version).await;
    let key = found.map_err(|error| or(error, no_version()))?;
    Ok(Success(row(&state, &key, &version).await?).into_response())
}

/// `PUT …/versions/{version}`: sets its title, its description, and whether it is the published one.
///
/// # Errors
/// 101 for a field that is not valid, 102 for an unknown one.
pub(crate) async fn update(
    State(state): State<ServerState>,
    caller: Caller,
    Path((id, name)): Path<(String, String)>,
    body: Body,
) -> Result<Response, ApiError> {
    let (change, release) = (change(&body)?, body.flag("release")?);
    let key = canvas_key(&caller, id);
    let version = named(&state, &key, &name).await?;
    // Described first, so that an invalid title publishes nothing.
    state.app.versions.describe(&key, &version, &change).await?;
    match release {
        Some(true) => state.app.versions.publish(&key, &version).await?,
        Some(false) => state.app.versions.unpublish(&key, &version).await?,
        None => {}
    }
    Ok(Success(row(&state, &key, &version).await?).into_response())
}

/// `POST …/versions/{version}/restore`: makes its canvas the newest version again.
///
/// # Errors
/// 102 for an unknown one.
pub(crate) async fn restore(
    State(state): State<ServerState>,
    caller: Caller,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let key = canvas_key(&caller, id);
    let version = named(&state, &key, &name).await?;
    let (canvas, problems) = state.app.restore_version(&key, &version).await?;
    Ok(Success(AgentItem::whole(canvas).with_problems(&problems)).into_response())
}

/// `GET …/versions/{version}/diff?with=`: the changes from this version to another one, by default the newest.
///
/// # Errors
/// 102 for an unknown one.
pub(crate) async fn diff(
    State(state): State<ServerState>,
    caller: Caller,
    Path((id, name)): Path<(String, String)>,
    params: Params,
) -> Result<Response, ApiError> {
    let key = canvas_key(&caller, id);
    let old = named(&state, &key, &name).await?;
    let new = named(&state, &key, params.get("with").unwrap_or("latest")).await?;
    let diff = state.app.compare_versions(&key, &old, &new).await?;
    let mut data = serde_json::to_value(diff).map_err(|cause| {
        ApiError::from(Error::internal("cannot write what differs between two versions").because(cause))
    })?;
    (data["from"], data["to"]) = (json!(old), json!(new));
    Ok(Success(data).into_response())
}

/// `PUT …/labels/{label} {"version"}`: sets a label to a version.
///
/// # Errors
/// 101 for a label that is not valid, 102 for an unknown version.
pub(crate) async fn label(
    State(state): State<ServerState>,
    caller: Caller,
    Path((id, label)): Path<(String, String)>,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["version"])?;
    let key = canvas_key(&caller, id);
    let version = named(&state, &key, &body.text("version")?.unwrap_or_default()).await?;
    state.app.versions.label(&key, &label, Some(&version)).await?;
    Ok(Success(json!({"label": label, "version": version})).into_response())
}

/// `DELETE …/labels/{label}`.
///
/// # Errors
/// 102 for an unknown one.
pub(crate) async fn remove_label(
    State(state): State<ServerState>,
    caller: Caller,
    Path((id, label)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let key = canvas_key(&caller, id);
    stored(&state, &key, no_agent()).await?;
    state.app.versions.label(&key, &label, None).await?;
    Ok(Success(true).into_response())
}

/// `GET /api/v1/agents/tags`: all tags in use.
///
/// # Errors
/// 100 when the store cannot be read.
pub(crate) async fn list_tags(
    State(state): State<ServerState>,
    caller: Caller,
) -> Result<Response, ApiError> {
    Ok(Success(state.app.versions.tags(&caller.tenant).await?).into_response())
}

/// `PUT /api/v1/agents/{id}/tags {"tags"}`.
///
/// # Errors
/// 101 for tags that are not valid, 103 for an unknown agent.
pub(crate) async fn set_tags(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let Some(tags) = tags(&body)? else { return Err(ApiError::argument("`tags` is required")) };
    let tags = checked_tags(tags)?;
    let key = canvas_key(&caller, id);
    let missing = "Make sure you have permission to access the agent.";
    stored(&state, &key, ApiError::new(code::OPERATING, missing)).await?;
    state.app.versions.set_tags(&key, &tags).await?;
    Ok(Success(json!({"tags": tags.join(",")})).into_response())
}

/// `GET …/export?version=`: the agent in the form for export, without secrets.
///
/// # Errors
/// 102 for an unknown agent or version.
pub(crate) async fn export(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, ApiError> {
    let key = canvas_key(&caller, id);
    let canvas = stored(&state, &key, no_agent()).await?;
    let version = named(&state, &key, params.get("version").unwrap_or("latest")).await?;
    let export = state.app.export_version(&key, &version).await?;
    Ok(Success(exported(&canvas, export)).into_response())
}

/// `POST /api/v1/agents/import`: imports the result of an export, or a canvas with a title.
///
/// # Errors
/// 101 without a title or a canvas.
pub(crate) async fn import(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let mut fields = AgentFields::read(&in_one_language(body))?;
    let Some(dsl) = fields.dsl.take() else { return Err(ApiError::argument("No DSL data in request.")) };
    let tags = fields.tags.take().unwrap_or_default();
    let head = fields.new_head()?;
    let title = head.title.clone();
    let imported = state.app.import_canvas(&caller.tenant, head, &tags, &dsl).await;
    let imported = imported.map_err(|error| taken(error, &title))?;
    let item = AgentItem::whole(imported.canvas).with_problems(&imported.problems);
    let mut data = serde_json::to_value(item)
        .map_err(|cause| ApiError::from(Error::internal("cannot write an agent").because(cause)))?;
    data["missing_secrets"] = json!(imported.missing);
    Ok(Success(data).into_response())
}
