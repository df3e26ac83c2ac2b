//! The tool calls of a run, while it is under way and afterwards.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use weft_core::context::ToolFinished;
use weft_core::error::found;
use weft_core::{Error, Record, RunKey};

use crate::auth::Caller;
use crate::body::{Page, Params};
use crate::dialect::ragflow::tool::grouped;
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::envelope::Success;

/// Number of journal entries read in one batch.
const ENTRIES_AT_ONCE: u64 = 500;

/// Maximum number of bytes of calls in one answer; beyond it, results are left out.
const BYTES_MAX: usize = 32 << 20;

/// `GET /api/v1/agents/{id}/logs/{message}`. The first id is the agent's, the session's or the task's.
///
/// # Errors
/// 100 when the store cannot be read.
pub(crate) async fn of_agent(
    State(state): State<ServerState>,
    caller: Caller,
    Path((id, message)): Path<(String, String)>,
    params: Params,
) -> Result<Response, ApiError> {
    trace(&state, &caller, &id, message, &params).await
}

/// `GET …/trace?canvas_id&message_id`.
///
/// # Errors
/// 101 without the ids, 100 when the store cannot be read.
pub(crate) async fn of_canvas(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let id = |key| params.get(key).ok_or_else(|| missing(key));
    let (canvas, message) = (id("canvas_id")?, id("message_id")?);
    trace(&state, &caller, canvas, message.to_owned(), &params).await
}

fn missing(key: &str) -> ApiError {
    ApiError::argument(format!("required argument are missing: {key}; "))
}

async fn trace(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    message: String,
    params: &Params,
) -> Result<Response, ApiError> {
    let key = RunKey::new(&caller.tenant, message);
    // A run that does not belong to the id is not distinguished from an unknown one.
    let Some(run) = found(state.app.runs.get(&key).await)? else { return Ok(nothing()) };
    if ![run.canvas.as_str(), run.session.as_str(), key.id.as_str()].contains(&id) {
        return Ok(nothing());
    }
    let most = state.app.limits.page_size;
    let page = match params.get("page_size") {
        Some(_) => params.page(most),
        // Without a page, all calls up to the limit of a list.
        None => Page { offset: 0, limit: most },
    };
    let groups = grouped(calls(state, &key, page).await?);
    Ok(if groups.is_empty() { nothing() } else { Success(groups).into_response() })
}

fn nothing() -> Response {
    Success(json!({})).into_response()
}

/// Returns the calls on a page. They are stored before they are shown, so the store has all of them, even those of a
/// run that is under way in another process.
async fn calls(state: &ServerState, key: &RunKey, page: Page) -> Result<Vec<ToolFinished>, ApiError> {
    let (mut calls, mut seen, mut bytes, mut after) = (Vec::new(), 0_u64, 0_usize, 0);
    loop {
        let entries = state.app.runs.entries(key, after, ENTRIES_AT_ONCE).await?;
        let Some(last) = entries.last() else { return Ok(calls) };
        after = last.seq;
        // Most entries are of other types, which a search in the text tells without parsing it.
        for entry in entries.iter().filter(|entry| entry.record.contains("\"tool_finished\"")) {
            let record =
                serde_json::from_str(&weft_core::masking::shown(&entry.record)).map_err(|cause| {
                    let message = format!("cannot read entry {} of run {}", entry.seq, key.id);
                    Error::internal(message).because(cause)
                })?;
            let Record::ToolFinished { mut call, .. } = record else { continue };
            seen += 1;
            if seen <= page.offset {
                continue;
            }
            if calls.len() as u64 >= page.limit {
                return Ok(calls);
            }
            bytes += entry.record.len();
            if bytes > BYTES_MAX {
                call.result =
                    Arc::new(format!("(left out: the results take more than {BYTES_MAX} bytes)").into());
            }
            calls.push(call);
        }
    }
}
