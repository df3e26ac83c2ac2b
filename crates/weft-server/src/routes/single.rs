//! Routes for editors of canvases: a single component and its form, the prompts of agents, and a test of a database
//! connection.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Map, Value as Json, json};
use weft_core::{CanvasKey, ErrorKind};

use super::agents::stored;
use super::turn::canvas_key;
use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::error::{ApiError, code};
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::database;
use crate::wire::envelope::Success;

/// Default prompts of agents, under the names that clients know.
const TASK_ANALYSIS: &str = include_str!("../../../weft-agent/src/prompts/analyse.md");
const PLAN_GENERATION: &str = include_str!("../../../weft-agent/src/prompts/next_step.md");
const REFLECTION: &str = include_str!("../../../weft-agent/src/prompts/reflect.md");
const CITATION_GUIDELINES: &str = include_str!("../../../weft-components/src/model/prompts/citation.md");

/// Converts an error; ids that do not exist have their own code on these routes.
fn unknown(error: weft_core::Error) -> ApiError {
    match error.kind {
        ErrorKind::Invalid => ApiError::new(code::EXCEPTION, error.full()),
        ErrorKind::NotFound => ApiError::data("canvas not found."),
        _ => error.into(),
    }
}

/// `GET /api/v1/agents/{id}/components/{component}/input-form`: the inputs of a component that is run alone.
///
/// # Errors
/// 102 for an unknown agent, 100 for an unknown component and one that cannot run alone.
pub(crate) async fn input_form(
    State(state): State<ServerState>,
    caller: Caller,
    Path((id, component)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    form(&state, &canvas_key(&caller, id), &component).await
}

/// `GET /v1/canvas/input_form?id=&component_id=`.
///
/// # Errors
/// As [`input_form`]; 101 without one of the two.
pub(crate) async fn input_form_named(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let named = |key: &'static str| params.get(key).ok_or(key);
    match (named("id"), named("component_id")) {
        (Ok(id), Ok(component)) => form(&state, &canvas_key(&caller, id), component).await,
        (id, component) => {
            let missing: Vec<&str> = [id.err(), component.err()].into_iter().flatten().collect();
            Err(ApiError::argument(format!("required argument are missing: {}; ", missing.join(","))))
        }
    }
}

async fn form(state: &ServerState, key: &CanvasKey, component: &str) -> Result<Response, ApiError> {
    stored(state, key, ApiError::data("canvas not found.")).await?;
    Ok(Success(state.app.input_form(key, component).await.map_err(unknown)?).into_response())
}

/// `POST /api/v1/agents/{id}/components/{component}/debug {params}`: runs a component alone with the values of its form.
///
/// # Errors
/// 101 without `params`, 102 for an unknown agent, 100 for an unknown component, one that cannot run alone, and a value
/// that it does not accept.
pub(crate) async fn debug(
    State(state): State<ServerState>,
    caller: Caller,
    Path((id, component)): Path<(String, String)>,
    body: Body,
) -> Result<Response, ApiError> {
    run(&state, &caller, &id, &component, &body).await
}

/// `POST /v1/canvas/debug {id, component_id, params}`.
///
/// # Errors
/// As [`debug`]; 101 without one of them.
pub(crate) async fn debug_named(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["id", "component_id", "params"])?;
    let (id, component) = (body.id("id")?.unwrap_or_default(), body.id("component_id")?.unwrap_or_default());
    run(&state, &caller, &id, &component, &body).await
}

async fn run(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    component: &str,
    body: &Body,
) -> Result<Response, ApiError> {
    let key = canvas_key(caller, id);
    stored(state, &key, ApiError::data("canvas not found.")).await?;
    // Without it the component would run with no values, and show what nobody has asked for.
    body.require(&["params"])?;
    let values = typed(body.object("params")?.unwrap_or_default());
    let outputs = state.app.run_alone(&key, &caller.user_id, component, values).await;
    Ok(Success(outputs.map_err(unknown)?).into_response())
}

/// Returns the values of a form, which are given directly or within their fields.
fn typed(params: Map<String, Json>) -> Map<String, Json> {
    let value = |field: Json| match field {
        Json::Object(mut field) if field.contains_key("value") => field.remove("value").unwrap_or_default(),
        other => other,
    };
    params.into_iter().map(|(name, field)| (name, value(field))).collect()
}

/// `GET /api/v1/agents/prompts`: the default prompts of agents.
pub(crate) async fn prompts(_: Caller) -> Response {
    let prompts = json!({
        "task_analysis": TASK_ANALYSIS,
        "plan_generation": PLAN_GENERATION,
        "reflection": REFLECTION,
        "citation_guidelines": CITATION_GUIDELINES,
    });
    Success(prompts).into_response()
}

/// `POST /api/v1/agents/test_db_connection`: tests a connection to a database, as a canvas would use it.
///
/// # Errors
/// 101 when something is missing; 100 with the reason when the connection fails.
pub(crate) async fn test_database(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let database = database::read(&body)?;
    let asked = state.app.try_database(&caller.tenant, database).await;
    asked.map_err(|error| ApiError::new(code::EXCEPTION, error.full()))?;
    Ok(Success("Database Connection Successful!").into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_be_given_plain_or_in_a_field() {
        let params =
            json!({"a": {"value": 1, "type": "line"}, "b": "x", "c": {"d": 2}, "e": {"value": null}});
        let Json::Object(params) = params else { unreachable!() };
        assert_eq!(Json::from(typed(params)), json!({"a": 1, "b": "x", "c": {"d": 2}, "e": null}));
    }
}
