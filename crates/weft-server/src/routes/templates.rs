//! Templates: canvases to start from.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use weft_core::seam::canvas_store::CanvasHead;

use crate::auth::Caller;
use crate::body::Body;
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::agent::AgentItem;
use crate::wire::envelope::Success;
use crate::wire::template::row;
use weft_app::templates::{TEMPLATES, template};

/// `GET /api/v1/agents/templates`.
///
/// # Errors
/// 401 without a token.
pub(crate) async fn list(_: Caller) -> Result<Response, ApiError> {
    let rows: Vec<_> = TEMPLATES.iter().map(row).collect();
    Ok(Success(rows).into_response())
}

/// `POST /api/v1/agents/templates/{id} {"title"?}`: creates an agent from a template. A title that is taken gets a
/// number appended.
///
/// # Errors
/// 102 for an unknown template.
pub(crate) async fn begin(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let template = template(&id).ok_or_else(|| ApiError::data("Template not found."))?;
    let title = body.text("title")?.filter(|title| !title.trim().is_empty());
    let head = CanvasHead {
        title: title.unwrap_or_else(|| template.title.to_owned()),
        description: template.description.to_owned(),
        canvas_type: template.canvas_type.to_owned(),
        permission: "me".to_owned(),
        ..CanvasHead::default()
    };
    let imported = state.app.import_canvas(&caller.tenant, head, &[], template.dsl).await?;
    Ok(Success(AgentItem::whole(imported.canvas).with_problems(&imported.problems)).into_response())
}
