//! Routes for editors of canvases, and the older names of the routes for agents.

use super::methods::{GET, POST, PUT};
use crate::openapi::Routes;
use crate::openapi::agents as of_agent;
use crate::openapi::editing as of_editing;
use crate::openapi::runs as of_run;
use crate::openapi::versions as of_version;
use crate::routes::{canvas, runs, single, templates, traces, versions};

pub(super) fn of_editing() -> Routes {
    Routes::new("Editing agents")
        .on(
            GET,
            "/api/v1/agents/{id}/components/{component}/input-form",
            single::input_form,
            &of_editing::INPUT_FORM,
        )
        .on(POST, "/api/v1/agents/{id}/components/{component}/debug", single::debug, &of_editing::DEBUG)
        .on(GET, "/api/v1/agents/prompts", single::prompts, &of_editing::PROMPTS)
        .on(POST, "/api/v1/agents/test_db_connection", single::test_database, &of_editing::TEST_DATABASE)
}

/// Below `/v1/canvas` and `/api/canvas`.
pub(super) fn of_canvases() -> Routes {
    Routes::new("Older names")
        .on(POST, "/set", canvas::set, &of_agent::SET)
        .on(POST, "/setting", canvas::setting, &of_editing::SETTING)
        .on(GET, "/get/{id}", canvas::get, &of_agent::GET)
        .on(GET, "/getsse/{id}", canvas::get_shared, &of_editing::GET_SHARED)
        .on(GET, "/list", canvas::list, &of_agent::LIST)
        .on(GET, "/templates", templates::list, &of_version::LIST_TEMPLATES)
        .on(GET, "/prompts", single::prompts, &of_editing::PROMPTS)
        .on(GET, "/getlistversion/{id}", versions::list, &of_version::LIST)
        .on(GET, "/getversion/{version}", versions::get_alone, &of_version::GET)
        .on(POST, "/rm", canvas::remove, &of_agent::REMOVE)
        .on(POST, "/reset", canvas::reset, &of_agent::RESET_NAMED)
        .on(POST, "/completion", canvas::complete, &of_agent::COMPLETE_CANVAS)
        .on(PUT, "/cancel/{id}", runs::cancel, &of_run::CANCEL)
        .on(GET, "/trace", traces::of_canvas, &of_agent::TRACE_CANVAS)
        .on(GET, "/input_form", single::input_form_named, &of_editing::INPUT_FORM_NAMED)
        .on(POST, "/debug", single::debug_named, &of_editing::DEBUG_NAMED)
        .on(POST, "/test_db_connect", single::test_database, &of_editing::TEST_DATABASE)
        .on(GET, "/{id}/sessions", canvas::sessions, &of_editing::SESSIONS)
}
