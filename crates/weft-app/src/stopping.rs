//! Stopping runs at whatever stage they are: queued, under way in any process, interrupted, or waiting for a person.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use weft_core::error::found;
use weft_core::seam::run_store::{RunLease, StoredRun, is_busy};
use weft_core::seam::task_store::TaskStatus;
use weft_core::{Ending, Error, ErrorKind, Result, RunId, RunKey, SessionKey, TaskKey, TenantId};
use weft_dsl::Plan;

use crate::app::App;
use crate::tasks::waiting_run;

/// How long to wait for a turn or a worker that is about to begin: until it has begun, there is nothing to stop.
const BEGIN_TIME_MAX: Duration = Duration::from_secs(5);

/// Pause between checks whether it has begun.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

impl App {
    /// Stops a run, given by its own id, by that of its session, or by that of an open task for which it waits. A run
    /// under way is requested to stop, in whichever process it is executed; one that waits for a person is over when
    /// this returns; one that is queued is removed from the queue. Returns whether there was a run that had not ended.
    ///
    /// # Errors
    /// As [`App::cancel_run`].
    pub async fn cancel(&self, tenant: &TenantId, id: &str) -> Result<bool> {
        Ok(self.cancel_run(&RunKey::new(tenant, id)).await?
            || self.cancel_session(&SessionKey::new(tenant, id)).await?
            || self.cancel_asking(&TaskKey::new(tenant, id)).await?)
    }

    /// The same for a run that is given by its id. A run that waited, and that was answered before this call or at the
    /// same moment, has ended: the run that continues it has an id of its own.
    ///
    /// # Errors
    /// `Conflict` when a turn of its session, or a worker, has been about to begin for several seconds, so that nothing
    /// can be stopped yet; when the store cannot be used.
    pub async fn cancel_run(&self, run: &RunKey) -> Result<bool> {
        let until = Instant::now() + BEGIN_TIME_MAX;
        loop {
            if self.engine.cancel(run).await? {
                return Ok(true);
            }
            match found(self.runs.get(run).await)? {
                Some(stored) if stored.ending == Some(Ending::Waiting) => {
                    return self.stop_waiting(&stored).await;
                }
                Some(stored) if stored.ending.is_some() => return Ok(false),
                // It has just been created, so the next request finds it.
                Some(_) => {}
                None => {
                    if let Some(was_queued) = self.withdraw(run).await? {
                        return Ok(was_queued);
                    }
                }
            }
            until_next_look(until, || {
                let message = format!("run {} is about to start", run.id);
                Error::new(ErrorKind::Conflict, message).help("stop it again in a moment")
            })
            .await?;
        }
    }

    /// The same for the run of a session: the one under way, or else the one that waits for a person.
    ///
    /// # Errors
    /// As [`App::cancel_run`].
    async fn cancel_session(&self, session: &SessionKey) -> Result<bool> {
        if self.engine.cancel_session(session).await? {
            return Ok(true);
        }
        let stored = found(self.sessions.load(session).await)?;
        let Some(waiting) = stored.as_ref().and_then(waiting_run) else { return Ok(false) };
        let stopped = match found(self.runs.get(&RunKey::new(&session.tenant, waiting.clone())).await)? {
            Some(run) => self.stop_waiting(&run).await?,
            // The run was removed from the conversation, and its tasks have stayed.
            None => self.give_up_waiting(session, &waiting).await?,
        };
        // Otherwise an answer was faster: then the run that it has started is the session's.
        Ok(stopped || self.engine.cancel_session(session).await?)
    }

    /// The same for the run that waits for an open task.
    async fn cancel_asking(&self, task: &TaskKey) -> Result<bool> {
        match found(self.tasks.get(task).await)?.filter(|task| task.status == TaskStatus::Open) {
            Some(open) => self.cancel_run(&RunKey::new(&task.tenant, open.run)).await,
            None => Ok(false),
        }
    }

    /// Stops a run that has ended in order to wait for a person. Returns whether it was still waiting.
    async fn stop_waiting(&self, run: &StoredRun) -> Result<bool> {
        let session = SessionKey::new(&run.key.tenant, run.session.clone());
        if !self.still_waits(&session, run).await? {
            return Ok(false);
        }
        let plan = match Box::pin(self.past_plan_of(run)).await {
            Ok(plan) => Some(plan),
            // Its canvas may not run any more, for instance without a component that a plugin had.
            Err(error) => {
                tracing::warn!(run.id = %run.key.id, error = error.detail(), "a run that waits has no plan any more");
                None
            }
        };
        let until = Instant::now() + BEGIN_TIME_MAX;
        loop {
            let busy = match self.try_stop_waiting(&session, run, plan.as_ref()).await {
                Err(error) if error.kind == ErrorKind::Conflict => error,
                // Its session was removed.
                Err(error) if error.kind == ErrorKind::NotFound => return Ok(false),
                outcome => return outcome,
            };
            // A turn that has begun has used the wait or dropped it; one that is about to begin may still be refused.
            // One that was stopped before it began does neither: another process may have ended the run that took the
            // place of this one before its tasks were dropped.
            if let Some(busy) = self.engine.at_work(&session).await?
                && (busy.cancel_ms.is_none() || self.engine.has_begun(&busy.key).await?)
            {
                return Ok(false);
            }
            until_next_look(until, || busy).await?;
            if !self.still_waits(&session, run).await? {
                return Ok(false);
            }
        }
    }

    async fn still_waits(&self, session: &SessionKey, run: &StoredRun) -> Result<bool> {
        let stored = found(self.sessions.load(session).await)?;
        Ok(stored.as_ref().and_then(waiting_run).as_ref() == Some(&run.key.id))
    }

    async fn try_stop_waiting(
        &self,
        session: &SessionKey,
        run: &StoredRun,
        plan: Option<&Arc<Plan>>,
    ) -> Result<bool> {
        let stopped = match plan {
            Some(plan) => Box::pin(self.engine.stop_waiting(run, Arc::clone(plan))).await,
            None => return Box::pin(self.stop_without_plan(session, run)).await,
        };
        match stopped {
            Ok(Some(mut handle)) => {
                // To its end, so that the session is free. Should this process stop meanwhile, the next one ends it.
                while let Ok(Some(_)) = handle.entries.next().await {}
                tracing::info!(run.id = %run.key.id, "a run that waited is stopped");
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(error) if is_busy(&error) => Err(error),
            // What it has stored may not fit the plan any more. Its tasks can be dropped all the same.
            Err(error) => {
                tracing::warn!(run.id = %run.key.id, error = error.detail(), "a run that waits cannot be resumed");
                Box::pin(self.stop_without_plan(session, run)).await
            }
        }
    }

    /// Stops a run that waits and that nothing can resume. As for every other one, a run that ends as cancelled takes
    /// its place, so that lists of runs show that it was stopped. Returns whether it was still waiting.
    async fn stop_without_plan(&self, session: &SessionKey, run: &StoredRun) -> Result<bool> {
        let stored = self.sessions.load(session).await?;
        if waiting_run(&stored).as_ref() != Some(&run.key.id) {
            return Ok(false);
        }
        let held = self.engine.hold_session(session)?;
        let now_ms = self.clock.now_ms();
        let key = RunKey::new(&session.tenant, RunId::generate());
        let announced = StoredRun {
            cancel_ms: Some(now_ms),
            ..StoredRun::begun(key, session.id.clone(), run.canvas.clone(), now_ms)
        };
        // Should this process stop from here on, the next one ends the run.
        if !self.runs.announce(&announced, stored.revision).await? {
            let message = format!("session {} has just changed", session.id);
            return Err(Error::new(ErrorKind::Conflict, message).help("stop the run again in a moment"));
        }
        let dropped = self.drop_tasks(stored, &announced.key.id, Some(&RunLease::of(&announced))).await;
        // The end of the run holds the session itself.
        drop(held);
        // Also when another one was faster to change the session: it would stay busy with this run.
        match self.engine.end_cancelled(&announced).await {
            // Another process ends it, or has done so.
            Err(error) if error.kind == ErrorKind::Conflict => {}
            ended => ended?,
        }
        dropped?;
        tracing::info!(run.id = %run.key.id, "a run that waited is stopped");
        Ok(true)
    }

    /// Removes a run that has not begun from the queue. Returns whether it was there; `None` while a worker is about to
    /// start it, or to put it back.
    async fn withdraw(&self, run: &RunKey) -> Result<Option<bool>> {
        let queued = found(self.queue.get(run).await)?;
        if !queued.is_some_and(|work| work.state.is_open()) {
            return Ok(Some(false));
        }
        let removed = self.queue.withdraw_runs(&run.tenant, std::slice::from_ref(&run.id)).await?;
        Ok((removed > 0).then_some(true))
    }
}

/// Pauses before the next check whether something has begun.
///
/// # Errors
/// `too_late` when that has taken too long.
async fn until_next_look(until: Instant, too_late: impl FnOnce() -> Error) -> Result<()> {
    if Instant::now() >= until {
        return Err(too_late());
    }
    tokio::time::sleep(LOOK_PAUSE).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_is_waited_for_without_a_pause_or_for_ever() {
        let (until, mut looks) = (Instant::now() + 3 * LOOK_PAUSE, 0);
        while until_next_look(until, || Error::internal("too late")).await.is_ok() {
            looks += 1;
        }
        assert!(looks <= 3, "{looks}");
    }
}
