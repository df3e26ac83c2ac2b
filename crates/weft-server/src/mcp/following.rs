//! Follows a run for a client: its output as progress, its end as the result, or a task if it takes long.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weft_core::journal::Ending;
use weft_core::seam::task_store::{Task, TaskFilter, TaskStatus};
use weft_core::{Entry, Record, RunKey, SessionId};
use weft_engine::{Engine, RunHandle};
use weft_mcp::serving::{Call, Leaving, Outcome, Questions, RpcError, TaskWish};

use super::{Offering, forms, results};
use crate::answer::Answer;

/// How long a client that supports tasks waits for a result before the run becomes a task.
const SOON: Duration = Duration::from_secs(3);
/// Maximum number of tasks of a session that are examined.
const TASKS_MAX: u64 = 1_000;

/// Stops a run when its client no longer waits for it, however that is noticed.
struct FollowedRun {
    engine: Engine,
    key: RunKey,
    cancelled: CancellationToken,
    leaving: Leaving,
    /// Whether it has ended, or continues as a task.
    settled: bool,
}

impl Drop for FollowedRun {
    fn drop(&mut self) {
        let unwanted = self.leaving == Leaving::Cancels || self.cancelled.is_cancelled();
        if !self.settled && unwanted && self.engine.cancel_here(&self.key) {
            tracing::info!(run.id = %self.key.id, "a run is stopped because its client has disconnected");
        }
    }
}

impl Offering {
    /// Follows a run to its end, or until the call stops waiting.
    pub(super) async fn follow(
        &self,
        handle: RunHandle,
        session: &SessionId,
        call: &Call,
    ) -> Result<Outcome, RpcError> {
        let RunHandle { key, mut entries, .. } = handle;
        let engine = self.app().engine.clone();
        let (cancelled, leaving) = (call.cancelled.clone(), call.leaving);
        let mut watched = FollowedRun { engine, key: key.clone(), cancelled, leaving, settled: false };
        let until = match call.task {
            TaskWish::No => None,
            TaskWish::May => Some(Instant::now() + SOON),
            TaskWish::Must(_) => Some(Instant::now()),
        };
        let mut answer = Answer::default();
        loop {
            let entry = tokio::select! {
                // The timeout is polled first, so that a run with continuous output becomes a task, too.
                biased;
                () = over(until) => {
                    // Set before the task is looked up: from here on, a client that leaves no longer stops the run.
                    watched.settled = true;
                    // The run has no reader, but must not give way to the next question.
                    self.app().engine.run_in_background(&key);
                    return Ok(Outcome::Task(self.task_view(key.id.as_str()).await?));
                }
                entry = entries.next() => entry?,
            };
            let Some(entry) = entry else { break };
            answer.learn(&entry);
            tell(&entry, &answer, call).await;
        }
        watched.settled = true;
        self.ended(&key, session, &answer, call).await
    }

    /// The result of a run that has ended, or its questions.
    async fn ended(
        &self,
        key: &RunKey,
        session: &SessionId,
        answer: &Answer,
        call: &Call,
    ) -> Result<Outcome, RpcError> {
        let waits = answer.end.as_ref().is_some_and(|end| end.ending == Ending::Waiting);
        let open = if waits { self.open_tasks(session).await? } else { Vec::new() };
        if !open.is_empty() && call.client.can("elicitation") {
            let requests = open.iter().map(|task| (task.key.id.to_string(), forms::question(task))).collect();
            return Ok(Outcome::AsksFor(Questions { requests, state: Some(key.id.to_string()) }));
        }
        Ok(Outcome::Done(results::of_run(&key.id, session, answer, &open)))
    }

    /// Returns the open tasks of a session.
    pub(super) async fn open_tasks(&self, session: &SessionId) -> Result<Vec<Task>, RpcError> {
        let mut tasks = self.tasks_of(session).await?;
        tasks.retain(|task| task.status == TaskStatus::Open);
        Ok(tasks)
    }

    /// Returns all tasks of a session.
    pub(super) async fn tasks_of(&self, session: &SessionId) -> Result<Vec<Task>, RpcError> {
        let filter = TaskFilter { session: Some(session.clone()), limit: TASKS_MAX, ..TaskFilter::default() };
        Ok(self.app().tasks.list(self.tenant(), &filter).await?.0)
    }
}

async fn over(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// Sends the output of a run to a client that wants progress.
async fn tell(entry: &Arc<Entry>, answer: &Answer, call: &Call) {
    if let Record::Said { activation, text, .. } = &entry.record
        && call.outlet.wants_progress()
        && !answer.is_thinking(*activation)
    {
        call.outlet.step(text).await;
    }
}
