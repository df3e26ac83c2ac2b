//! Tasks in revision 2025-11-25: the client requests one explicitly, and later its result.

use std::time::Duration;

use serde_json::{Map, json};
use weft_core::Json;

use super::dispatch::{Context, ROUNDS_MAX, asked_too_often, required};
use super::message::{RpcError, RpcRequest, code};
use super::service::Service;
use super::task::TaskState;

/// The interval at which the end of a task is checked.
// Polled, because another process may be running the task, and it does not notify this one.
const EVERY: Duration = Duration::from_millis(300);

const RELATED: &str = "io.modelcontextprotocol/related-task";

/// Answers a request about tasks. Returns `None` for any other method.
pub(super) async fn method(
    service: &dyn Service,
    request: &RpcRequest,
    context: &Context,
) -> Result<Option<Map<String, Json>>, RpcError> {
    let id = || required(&request.params, "taskId");
    Ok(Some(match request.method.as_str() {
        "tasks/get" => service.task(id()?).await?.older(),
        "tasks/result" => result(service, id()?, context).await?,
        "tasks/cancel" => {
            let id = id()?;
            let before = service.task(id).await?;
            if before.is_over() {
                return Err(RpcError::params("the task has ended and cannot be cancelled"));
            }
            service.cancel_task(id).await?;
            settled(service, id).await?
        }
        "tasks/list" => {
            let cursor = request.params.get("cursor").and_then(Json::as_str);
            let (tasks, next) = service.tasks(cursor).await?;
            let tasks: Json = tasks.iter().map(|task| Json::Object(task.older())).collect();
            let mut listed = Map::from_iter([("tasks".to_owned(), tasks)]);
            if let Some(next) = next {
                listed.insert("nextCursor".to_owned(), next.into());
            }
            listed
        }
        _ => return Ok(None),
    }))
}

/// Returns a task after it was requested to stop: when it has ended, or after three seconds in its current state.
async fn settled(service: &dyn Service, id: &str) -> Result<Map<String, Json>, RpcError> {
    let mut view = service.task(id).await?;
    // Three seconds in all: the client polls for a run that takes longer to stop.
    for _ in 0..10 {
        if view.is_over() {
            break;
        }
        tokio::time::sleep(EVERY).await;
        view = service.task(id).await?;
    }
    Ok(view.older())
}

/// Waits for the end of a task, and passes its questions to the client.
async fn result(service: &dyn Service, id: &str, context: &Context) -> Result<Map<String, Json>, RpcError> {
    let mut rounds = 0;
    loop {
        match service.task(id).await?.state {
            TaskState::Working => tokio::time::sleep(EVERY).await,
            // Otherwise a task that never stops asking would occupy the client forever.
            TaskState::AsksFor(_) if rounds == ROUNDS_MAX => return Err(asked_too_often()),
            TaskState::AsksFor(questions) => {
                rounds += 1;
                let answers = context.ask(&questions).await?;
                service.answer_task(id, answers).await?;
            }
            TaskState::Done(mut result) => {
                if let Json::Object(meta) = result.entry("_meta").or_insert_with(|| json!({})) {
                    meta.insert(RELATED.to_owned(), json!({"taskId": id}));
                }
                return Ok(result);
            }
            TaskState::Failed(error) => return Err(error),
            TaskState::Cancelled => return Err(RpcError::new(code::BUSY, "the task was cancelled")),
        }
    }
}
