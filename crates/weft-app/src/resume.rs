//! Runs that were cut off go on by themselves.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;
use weft_core::error::found;
use weft_core::seam::run_store::StoredRun;
use weft_core::{Error, ErrorKind, Result, RunKey};
use weft_engine::engine::PickedUp;

use crate::app::App;

/// How often it is looked for runs that nobody works on.
const EVERY: Duration = Duration::from_secs(1);

/// So many looks apart processes are forgotten that are gone for good.
const FORGET_EVERY: u32 = 60;

/// A run that cannot go on, such as one whose canvas cannot be compiled now, is tried again after this.
const AGAIN_AFTER: Duration = Duration::from_secs(30);

impl App {
    /// Runs without an end that nobody works on, as far as that has been seen by now; see
    /// [`weft_engine::Engine::unattended`].
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn cut_off(&self) -> Result<Vec<StoredRun>> {
        self.engine.unattended().await
    }

    /// The same, looked for until it is known of every run.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn all_cut_off(&self) -> Result<Vec<StoredRun>> {
        self.engine.all_unattended().await
    }

    /// Goes on with an interrupted run.
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

    /// Goes on with interrupted runs, again and again. Never returns.
    pub async fn keep_runs_going(&self) {
        let mut tried: HashMap<RunKey, Instant> = HashMap::new();
        for look in 1_u32.. {
            match self.cut_off().await {
                Ok(runs) => {
                    let left: HashSet<&RunKey> = runs.iter().map(|run| &run.key).collect();
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
                tracing::warn!(error = error.detail(), "cannot forget processes that are gone");
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
        // A worker counts how often work was begun, and knows when it is the work that ends its process.
        let queued = self.queue.get(&run.key).await;
        if queued.is_ok_and(|work| work.state.is_open()) {
            return Try::NotNow;
        }
        match self.pick_up(run).await {
            Ok(PickedUp::Running(_)) => {
                // What a schedule has asked for gives way to no question, whoever goes on with it.
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
            // Somebody else has it, or there is no room now.
            Err(error) if matches!(error.kind, ErrorKind::Conflict | ErrorKind::RateLimited) => Try::NotNow,
            Err(error) => {
                tracing::warn!(run.id = %run.key.id, error = error.detail(), "an interrupted run cannot be resumed");
                Try::Failed
            }
        }
    }
}

/// What became of a try to go on with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Try {
    Taken,
    NotNow,
    Failed,
}
