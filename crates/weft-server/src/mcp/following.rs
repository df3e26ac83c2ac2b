//! A run that is followed for a client: what it says as progress, its end as the result, or a task when it takes
//! long.

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

/// Who knows of tasks waits so long for a result before the run becomes one.
const SOON: Duration = Duration::from_secs(3);
/// Tasks of one session that are looked at.
const TASKS_MAX: u64 = 1_000;

/// Stops a run whose client wants nothing more of it, whenever that turns out.
struct Watched {
    engine: Engine,
    key: RunKey,
    cancelled: CancellationToken,
    leaving: Leaving,
    /// It has ended, or goes on as a task.
    settled: bool,
}

impl Drop for Watched {
    fn drop(&mut self) {
        let unwanted = self.leaving == Leaving::Cancels || self.cancelled.is_cancelled();
        if !self.settled && unwanted && self.engine.cancel_here(&self.key) {
            tracing::info!(run.id = %self.key.id, "a run is stopped: its client has gone");
        }
    }
}

impl Offering {
    /// Follows a run to its end, as far as the call wants to wait for it.
    pub(super) async fn follow(
        &self,
        handle: RunHandle,
        session: &SessionId,
        call: &Call,
    ) -> Result<Outcome, RpcError> {
        let RunHandle { key, mut entries, .. } = handle;
        let engine = self.app().engine.clone();
        let (cancelled, leaving) = (call.cancelled.clone(), call.leaving);
        let mut watched = Watched { engine, key: key.clone(), cancelled, leaving, settled: false };
        let until = match call.task {
            TaskWish::No => None,
            TaskWish::May => Some(Instant::now() + SOON),
            TaskWish::Must(_) => Some(Instant::now()),
        };
        let mut answer = Answer::default();
        loop {
            let entry = tokio::select! {
                // The time comes first, so that a run that talks without a pause becomes a task, too.
                biased;
                () = over(until) => {
                    // Before the task is looked up: whoever leaves from here on stops nothing.
                    watched.settled = true;
                    // Nobody listens, and still it is not to give way to the next question.
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

    /// The result of a run that has ended, or what it asks.
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

    /// What a session waits for.
    pub(super) async fn open_tasks(&self, session: &SessionId) -> Result<Vec<Task>, RpcError> {
        let mut tasks = self.tasks_of(session).await?;
        tasks.retain(|task| task.status == TaskStatus::Open);
        Ok(tasks)
    }

    /// What a session has waited for, and waits for.
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

/// Tells a client of what a run says, if it wants to hear it.
async fn tell(entry: &Arc<Entry>, answer: &Answer, call: &Call) {
    if let Record::Said { activation, text, .. } = &entry.record
        && call.outlet.wants_progress()
        && !answer.is_thinking(*activation)
    {
        call.outlet.step(text).await;
    }
}
