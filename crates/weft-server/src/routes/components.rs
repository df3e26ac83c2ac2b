//! What canvases can be made of.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};
use weft_core::component_reference::described;
use weft_core::{ComponentSpec, Tool};

use crate::auth::Caller;
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::envelope::Success;

/// `GET /api/v1/components`: every component type that this build runs, with the JSON Schema of its parameters and its
/// outputs.
pub async fn list(_: Caller) -> Response {
    Success(weft_app::components().map(shown).collect::<Json>()).into_response()
}

fn shown(spec: &'static ComponentSpec) -> Json {
    described(spec, weft_app::example(spec.kind))
}

/// `GET /api/v1/components/{name}`: one of them.
///
/// # Errors
/// 102 when there is none of that name.
pub async fn get(_: Caller, Path(name): Path<String>) -> Result<Response, ApiError> {
    let found = weft_app::components().find(|spec| spec.kind == name);
    let spec = found.ok_or_else(|| ApiError::data(format!("There is no component `{name}`.")))?;
    Ok(Success(shown(spec)).into_response())
}

/// `GET /api/v1/plugins`: the tools that were added without a new build, by plugin.
pub async fn plugins(State(state): State<ServerState>, _: Caller) -> Response {
    let tool = |tool: &Tool| {
        let Tool { name, description, parameters, traits, .. } = tool;
        json!({"name": name, "description": description, "parameters": parameters, "approval": traits.approval})
    };
    let plugins = state.app.plugins.iter().map(|plugin| {
        let tools: Vec<Json> = plugin.tools().iter().map(|one| tool(one)).collect();
        json!({"name": plugin.name(), "title": plugin.title(), "tools": tools, "left_out": plugin.left_out()})
    });
    Success(plugins.collect::<Json>()).into_response()
}
