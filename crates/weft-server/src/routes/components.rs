//! The components of which canvases are built.

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
pub(crate) async fn list(_: Caller) -> Response {
    Success(weft_app::components().map(shown).collect::<Json>()).into_response()
}

fn shown(spec: &'static ComponentSpec) -> Json {
    described(spec, weft_app::example(spec.kind))
}

/// `GET /api/v1/components/{name}`: one component type.
///
/// # Errors
/// 102 for an unknown component.
pub(crate) async fn get(_: Caller, Path(name): Path<String>) -> Result<Response, ApiError> {
    let found = weft_app::components().find(|spec| spec.kind == name);
    let spec = found.ok_or_else(|| ApiError::data(format!("There is no component `{name}`.")))?;
    Ok(Success(shown(spec)).into_response())
}

/// `GET /api/v1/plugins`: the tools that plugins add at run time, by plugin.
pub(crate) async fn plugins(State(state): State<ServerState>, _: Caller) -> Response {
    let tool = |tool: &Tool| {
        let Tool { name, description, parameters, traits, .. } = tool;
        json!({"name": name, "description": description, "parameters": parameters, "approval": traits.approval})
    };
    let plugins = state.app.plugins.iter().map(|plugin| {
        let tools: Vec<Json> = plugin.tools().iter().map(|one| tool(one)).collect();
        let left_out: Vec<String> = plugin.left_out().iter().map(ToString::to_string).collect();
        json!({"name": plugin.name(), "title": plugin.title(), "tools": tools, "left_out": left_out})
    });
    Success(plugins.collect::<Json>()).into_response()
}

/// `GET /api/v1/plugin/tools`: the same tools in one list, in the format that clients of the compatible API know.
pub(crate) async fn plugin_tools(State(state): State<ServerState>, _: Caller) -> Response {
    let tools = state.app.plugins.iter().flat_map(|plugin| plugin.tools());
    Success(tools.map(|tool| plugin_tool(tool)).collect::<Json>()).into_response()
}

fn plugin_tool(tool: &Tool) -> Json {
    let Tool { name, description, parameters, .. } = tool;
    let needed = parameters["required"].as_array();
    let parameter = |(name, said): (&String, &Json)| {
        let described = said["description"].as_str().unwrap_or_default();
        let is_needed = needed.is_some_and(|needed| needed.iter().any(|one| one == name));
        let said = json!({"type": said["type"].as_str().unwrap_or("object"), "description": described,
            "displayDescription": described, "required": is_needed});
        (name.clone(), said)
    };
    let properties = parameters["properties"].as_object().into_iter().flatten();
    json!({"name": name, "displayName": name, "description": description, "displayDescription": description,
        "parameters": properties.map(parameter).collect::<serde_json::Map<_, _>>()})
}
