//! Runs that were cut off go on by themselves.

use std::time::Duration;

use weft_core::seam::run_store::{RunFilter, StoredRun};
use weft_core::{Error, ErrorKind, Result, TenantId};
use weft_engine::engine::{PickedUp, SILENT_MAX};

use crate::app::{App, DEFAULT_TENANT};

/// How often it is looked for runs that were cut off.
const EVERY: Duration = Duration::from_secs(5);
/// Runs that are looked at each time.
const LOOKED_AT_MAX: u64 = 1_000;

impl App {
    /// Runs without an end whose process has not been heard of for a while.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn cut_off(&self) -> Result<Vec<StoredRun>> {
        let filter = RunFilter { unfinished: true, limit: LOOKED_AT_MAX, ..RunFilter::default() };
        let runs = self.runs.list(&TenantId::new(DEFAULT_TENANT), &filter).await?;
        let silent = i64::try_from(SILENT_MAX.as_millis()).unwrap_or(i64::MAX);
        let before = self.clock.now_ms().saturating_sub(silent);
        Ok(runs.into_iter().filter(|run| run.alive_ms < before).collect())
    }

    /// Goes on with a run that was cut off.
    ///
    /// # Errors
    /// As [`weft_engine::Engine::pick_up`]; `NotFound` when its canvas or session is gone; `Conflict` when
    /// it has not begun and is the work of a worker, who knows what it is to be given.
    pub async fn pick_up(&self, run: &StoredRun) -> Result<PickedUp> {
        if self.waits_for_a_worker(run).await? {
            let message = format!("run {} is queued and has not begun", run.key.id);
            return Err(Error::new(ErrorKind::Conflict, message).help("a worker begins it in a moment"));
        }
        let plan = self.plan_of(run).await?;
        self.engine.pick_up(run, plan).await
    }

    /// Goes on with runs that were cut off, again and again. Never returns.
    pub async fn keep_runs_going(&self) {
        loop {
            match self.cut_off().await {
                Ok(runs) => {
                    for run in runs {
                        self.try_pick_up(&run).await;
                    }
                }
                Err(error) => tracing::warn!(error = error.full(), "cannot look for runs that were cut off"),
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    async fn waits_for_a_worker(&self, run: &StoredRun) -> Result<bool> {
        if self.engine.has_begun(&run.key).await? {
            return Ok(false);
        }
        match self.queue.get(&run.key).await {
            Ok(stored) => Ok(stored.state.is_open()),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn try_pick_up(&self, run: &StoredRun) {
        match self.pick_up(run).await {
            Ok(PickedUp::Running(_)) => {
                tracing::info!(run.id = %run.key.id, "a run that was cut off goes on");
            }
            Ok(PickedUp::Ended(ending)) => {
                tracing::info!(run.id = %run.key.id, ending = ending.as_str(), "a run that was cut off has ended");
            }
            // Somebody else has it, or there is no room now.
            Err(error) if matches!(error.kind, ErrorKind::Conflict | ErrorKind::RateLimited) => {}
            Err(error) => {
                tracing::warn!(run.id = %run.key.id, error = error.full(), "a run that was cut off cannot go on");
            }
        }
    }
}
