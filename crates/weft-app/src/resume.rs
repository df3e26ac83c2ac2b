//! Automatic recovery of interrupted runs.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;
use weft_core::error::found;
use weft_core::seam::run_store::StoredRun;
use weft_core::{Ending, Error, ErrorKind, Result, RunKey};
use weft_engine::engine::PickedUp;

use crate::app::App;

/// Interval for checking for runs without an owner.
// A run is to be resumed within ten seconds after its process has died; `SILENT_MAX` takes seven of them.
const EVERY: Duration = Duration::from_secs(1);

/// Number of checks after which processes that are permanently gone are forgotten.
const FORGET_EVERY: u32 = 60;

/// Pause after which a run that could not be resumed, such as one whose canvas does not compile now, is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(30);

impl App {
    /// Returns the unfinished runs that no process is executing, as far as that is known by now; see
    /// [`weft_engine::Engine::unattended`].
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn cut_off(&self) -> Result<Vec<StoredRun>> {
        self.engine.unattended().await
    }

    /// The same, but waits until it is known of every run.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn all_cut_off(&self) -> Result<Vec<StoredRun>> {
        self.engine.all_unattended().await
    }

    /// Resumes an interrupted run.
    ///
    /// # Errors
    /// As [`weft_engine::Engine::pick_up`]; `NotFound` when its canvas or session no longer exists, `Invalid` when its
    /// canvas cannot run any more; `Conflict` when it has not started and belongs to the queue, because only a worker
    /// knows its input. A run that is to stop needs neither.
    pub async fn pick_up(&self, run: &StoredRun) -> Result<PickedUp> {
        if run.cancel_ms.is_none() && self.waits_for_a_worker(run).await? {
            let message = format!("run {} is queued and has not started", run.key.id);
            return Err(Error::new(ErrorKind::Conflict, message).help("wait for a worker to start it"));
        }
        match self.plan_of(run).await {
            Ok(plan) => self.engine.pick_up(run, plan).await,
            // Otherwise it would keep its session busy for ever.
            Err(error) if is_lasting(&error) && run.cancel_ms.is_some() => {
                self.engine.end_cancelled(run).await?;
                Ok(PickedUp::Ended(Ending::Cancelled))
            }
            Err(error) => Err(error),
        }
    }

    /// Periodically resumes interrupted runs. Never returns.
    pub async fn keep_runs_going(&self) {
        let mut tried: HashMap<RunKey, Instant> = HashMap::new();
        for look in 1_u32.. {
            match self.cut_off().await {
                Ok(runs) => {
                    let left: HashSet<&RunKey> = runs.iter().map(|run| &run.key).collect();
                    // Otherwise runs that were removed or resumed elsewhere would be remembered for ever.
                    tried.retain(|key, _| left.contains(key));
                    for run in runs {
                        if tried.get(&run.key).is_none_or(|at| at.elapsed() >= AGAIN_AFTER)
                            && self.try_pick_up(&run).await == Try::Failed
                        {
                            tried.insert(run.key, Instant::now());
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(error = error.detail(), "cannot look for interrupted runs");
                }
            }
            if look.is_multiple_of(FORGET_EVERY)
                && let Err(error) = self.engine.forget_processes().await
            {
                tracing::warn!(error = error.detail(), "cannot remove the records of ended processes");
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    async fn waits_for_a_worker(&self, run: &StoredRun) -> Result<bool> {
        if self.engine.has_begun(&run.key).await? {
            return Ok(false);
        }
        let stored = found(self.queue.get(&run.key).await)?;
        Ok(stored.is_some_and(|stored| stored.state.is_open()))
    }

    async fn try_pick_up(&self, run: &StoredRun) -> Try {
        // Left to the workers, which count how often work was started and notice when it crashes its process. A run that
        // is to stop starts no work again, and the lease of its worker may have long to go.
        let queued = self.queue.get(&run.key).await;
        if run.cancel_ms.is_none() && queued.is_ok_and(|work| work.state.is_open()) {
            return Try::NotNow;
        }
        match self.pick_up(run).await {
            Ok(PickedUp::Running(_)) => {
                // A run of a schedule gives way to no question, whichever process resumes it.
                if self.queue.get(&run.key).await.is_ok() {
                    self.engine.run_in_background(&run.key);
                }
                tracing::info!(run.id = %run.key.id, "an interrupted run is resumed");
                Try::Taken
            }
            Ok(PickedUp::Ended(ending)) => {
                tracing::info!(run.id = %run.key.id, ending = ending.as_str(), "an interrupted run has ended");
                Try::Taken
            }
            // Another process has it, or there is no capacity now.
            Err(error) if matches!(error.kind, ErrorKind::Conflict | ErrorKind::RateLimited) => Try::NotNow,
            Err(error) => {
                tracing::warn!(run.id = %run.key.id, error = error.detail(), "an interrupted run cannot be resumed");
                Try::Failed
            }
        }
    }
}

/// Whether a canvas cannot run for a reason that does not pass by itself.
fn is_lasting(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Invalid | ErrorKind::NotFound)
}

/// Outcome of an attempt to resume a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Try {
    Taken,
    NotNow,
    Failed,
}
