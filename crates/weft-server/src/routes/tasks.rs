//! The inbox: the questions of runs to people, and the answers.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use weft_core::seam::task_store::{Task, TaskFilter};
use weft_core::{Error, ErrorKind, TaskId, TaskKey};

use super::turn::in_one_piece;
use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::dialect::ragflow::RunView;
use crate::error::{ApiError, code};
use crate::frames::{Kinds, RunEvents, Terminator};
use crate::path::Path;
use crate::sse;
use crate::state::ServerState;
use crate::wire::completion::{ResponseMode, response_mode, strategy};
use crate::wire::envelope::{Success, streamed};
use crate::wire::task::{self, TaskView};

/// Number of tasks of a list that are in memory at the same time.
const TASKS_AT_ONCE: u64 = 8;

fn told(error: Error) -> ApiError {
    match error.kind {
        ErrorKind::NotFound => ApiError::data(error.full()),
        ErrorKind::Invalid => ApiError::from(error).with_status(StatusCode::BAD_REQUEST),
        ErrorKind::Conflict => ApiError::new(code::CONFLICT, error.full()).with_status(StatusCode::CONFLICT),
        _ => error.into(),
    }
}

/// `GET /api/v1/tasks`: open tasks, the oldest first; filtered and paged by `agent_id`, `session_id`, `kind`,
/// `status`, `due_by`, `overdue`, `page` and `page_size`.
///
/// # Errors
/// 101 for a filter that is not valid.
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let filter = task::filter(&params, state.app.clock.now_ms(), state.app.limits.page_size)?;
    // The first batch is read before the answer starts, so that a failure gets its own status.
    let first = TaskFilter { limit: filter.limit.min(TASKS_AT_ONCE), ..filter.clone() };
    let (first, total) = state.app.tasks.list(&caller.tenant, &first).await?;
    let read = (place_of_last(&first), filter.limit.saturating_sub(first.len() as u64));
    // Forms may have megabytes each, so a few are read after the ones before were sent. Batches continue after the
    // last task rather than by offset, so that tasks which end meanwhile hide no others.
    let rest = stream::try_unfold(read, move |(after, left)| {
        let (state, tenant, filter) = (state.clone(), caller.tenant.clone(), filter.clone());
        async move {
            if after.is_none() || left == 0 {
                return Ok(None);
            }
            let part = TaskFilter { after, offset: 0, limit: left.min(TASKS_AT_ONCE), ..filter };
            let (tasks, _) = state.app.tasks.list(&tenant, &part).await?;
            let read = (place_of_last(&tasks), left.saturating_sub(tasks.len() as u64));
            Ok(if tasks.is_empty() { None } else { Some((tasks, read)) })
        }
    });
    let parts = stream::once(async move { Ok(first) }).chain(rest);
    let tasks = parts.map_ok(|tasks: Vec<Task>| stream::iter(tasks.into_iter().map(Ok))).try_flatten();
    let entries = tasks.and_then(|task| async move {
        serde_json::to_value(TaskView::from(task))
            .map_err(|cause| Error::internal("cannot write a task as JSON").because(cause))
    });
    let close = format!("],\"total\":{total}}}}}");
    Ok(streamed("{\"code\":0,\"message\":\"success\",\"data\":{\"tasks\":[", entries, close))
}

/// Returns the position of the last task in the list.
fn place_of_last(tasks: &[Task]) -> Option<(i64, TaskId)> {
    tasks.last().map(|last| (last.created_ms, last.key.id.clone()))
}

/// `GET /api/v1/tasks/{id}`.
///
/// # Errors
/// 102 for an unknown one.
pub(crate) async fn get(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let task = state.app.tasks.get(&TaskKey::new(&caller.tenant, id)).await.map_err(told)?;
    Ok(Success(TaskView::from(task)).into_response())
}

/// `POST /api/v1/tasks/{id}/answer`: answers a task and resumes the run. Sends a single answer at its end, unless the
/// caller requests a stream.
///
/// # Errors
/// 101 for an answer that is not valid, 102 for an unknown task, 409 for one that is no longer open or whose session
/// has a turn under way.
pub(crate) async fn answer(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let (answer, response_mode) = (task::answer(&body)?, response_mode(&body, ResponseMode::Whole)?);
    let key = TaskKey::new(&caller.tenant, id);
    let (session, handle) =
        state.app.answer_task(&key, answer, &state.waiting(strategy(&body)?)).await.map_err(told)?;
    let view = RunView::new(&handle.key.id, &session.key.id);
    match response_mode {
        ResponseMode::Stream => {
            Ok(sse::respond(handle.entries, RunEvents::new(view, Kinds::All, Terminator::Done)))
        }
        ResponseMode::Whole => in_one_piece(handle, view, None).await,
    }
}
