//! The worker: requests the runs of schedules and processes the queue, until it is stopped.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::maybe_done;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weft_core::seam::notice_store::Notice;
use weft_core::seam::work_queue::{Taken, WorkOutcome};
use weft_core::{ErrorKind, Result};
use weft_knowledge::ingest::{IngestWorker, Reembedder, ReembedderPace, WorkerPace};
use weft_knowledge::memories::MemoryWorker;

use crate::app::App;
use crate::config::WorkerConfig;
use crate::pipelines::Pipelines;

/// How often a worker looks for work without being woken, because other processes cannot wake it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Lease of a worker on its work. Longer than it takes to detect that a run was interrupted.
const LEASE: Duration = Duration::from_secs(30);

/// How often a worker renews its lease.
// A third of the lease, so that it outlives a failed renewal.
const RENEW_EVERY: Duration = Duration::from_secs(10);

/// How often old work is removed.
const FORGET_EVERY: Duration = Duration::from_secs(3_600);

/// Processes the queue, several work items concurrently.
#[derive(Clone, Debug)]
pub struct Worker {
    app: App,
    config: WorkerConfig,
    /// Fires when work under way is to be handed back.
    leaving: CancellationToken,
}

impl Worker {
    /// Creates a worker for this app.
    pub fn new(app: App, config: WorkerConfig) -> Self {
        Self { app, config, leaving: CancellationToken::new() }
    }

    /// Works until `stop` fires. From then on it takes no more work; work under way gets `grace` to end, and is then
    /// left to another worker.
    pub async fn run(&self, stop: &CancellationToken, grace: Duration) {
        let mut busy = JoinSet::new();
        let mut forgotten: Option<tokio::time::Instant> = None;
        while !stop.is_cancelled() {
            if forgotten.is_none_or(|then| then.elapsed() >= FORGET_EVERY) {
                self.forget().await;
                forgotten = Some(tokio::time::Instant::now());
            }
            self.look(&mut busy).await;
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                // Removes all that have finished before the next look.
                Some(_) = busy.join_next() => while busy.try_join_next().is_some() {},
                () = self.app.wake.notified() => {}
                () = tokio::time::sleep(with_jitter(LOOK_EVERY)) => {}
            }
        }
        let all = async { while busy.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, all).await.is_err() {
            self.leaving.cancel();
            while busy.join_next().await.is_some() {}
        }
    }

    /// Requests the runs that are due, and takes as much work as there is capacity for.
    async fn look(&self, busy: &mut JoinSet<()>) {
        if let Err(error) = self.app.fire_due().await {
            tracing::warn!(error = error.detail(), "cannot look for schedules that are due");
        }
        let room = self.config.concurrency.saturating_sub(busy.len());
        if room == 0 {
            return;
        }
        let now_ms = self.app.clock.now_ms();
        match self.app.queue.take(now_ms, now_ms.saturating_add(ms(LEASE)), room as u64).await {
            Ok(taken) => {
                for taken in taken {
                    let worker = self.clone();
                    busy.spawn(async move { worker.finish(taken).await });
                }
            }
            Err(error) => tracing::warn!(error = error.detail(), "cannot look for work"),
        }
    }

    /// Processes a work item to its end, unless its lease is lost.
    async fn finish(&self, taken: Taken) {
        let run = &taken.lease.run;
        let settled = tokio::select! {
            biased;
            () = self.leaving.cancelled() => {
                // Released before it is handed back, so that the next worker finds the run free.
                self.app.engine.leave(run);
                let reason = "its worker was stopped".to_owned();
                WorkOutcome::Released { from_ms: self.app.clock.now_ms(), reason }
            }
            settled = self.app.do_work(&taken.stored) => settled,
            () = self.keep(&taken) => {
                tracing::warn!(run.id = %run.id, "another worker has taken over");
                return;
            }
        };
        match &settled {
            WorkOutcome::Done => {}
            WorkOutcome::Abandoned { reason } => {
                tracing::error!(run.id = %run.id, reason, "work is abandoned");
                self.tell_of(&taken, reason).await;
            }
            WorkOutcome::RetryAt { reason, .. } | WorkOutcome::Released { reason, .. } => {
                tracing::info!(run.id = %run.id, reason, "work is postponed");
            }
        }
        // Work whose outcome is not stored returns to the queue when its lease expires; its run is found then.
        if let Err(error) = self.app.queue.settle(&taken.lease, &settled, self.app.clock.now_ms()).await {
            tracing::warn!(run.id = %run.id, error = error.detail(), "the outcome of work could not be stored");
        }
    }

    /// Records a notification that a run will never start.
    async fn tell_of(&self, taken: &Taken, reason: &str) {
        let run = &taken.lease.run;
        let mut notice = Notice::run_failed(run, self.app.clock.now_ms());
        notice.said = serde_json::json!({"agent_id": taken.stored.work.canvas, "error": reason});
        if let Err(error) = self.app.notifications.note(vec![notice]).await {
            tracing::warn!(run.id = %run.id, error = error.detail(), "cannot notify anybody that work is abandoned");
        }
    }

    /// Renews the lease on a work item; returns when it is lost.
    async fn keep(&self, taken: &Taken) {
        loop {
            tokio::time::sleep(RENEW_EVERY).await;
            let until_ms = self.app.clock.now_ms().saturating_add(ms(LEASE));
            match self.app.queue.renew(&taken.lease, until_ms).await {
                Ok(()) => {}
                Err(error) if error.kind == ErrorKind::Conflict => return,
                // The next renewal may still be in time.
                Err(error) => {
                    tracing::warn!(error = error.detail(), "cannot report that work is in progress");
                }
            }
        }
    }

    async fn forget(&self) {
        let kept = Duration::from_secs(self.config.kept_days.saturating_mul(86_400));
        let before_ms = self.app.clock.now_ms().saturating_sub(ms(kept));
        if let Err(error) = self.app.queue.prune(before_ms).await {
            tracing::warn!(error = error.detail(), "cannot remove old work");
        }
    }
}

/// Extracts from the turns of memories until `stop` fires.
pub async fn remember(app: &App, stop: &CancellationToken, grace: Duration) {
    MemoryWorker::new(app.memories.clone()).run(stop, grace).await;
}

/// Ingests queued documents until `stop` fires, and re-embeds datasets on request. Documents under way then get
/// `grace` to finish, and are left to another worker afterwards; a re-embedding is left immediately.
pub async fn read_documents(app: &App, config: WorkerConfig, stop: &CancellationToken, grace: Duration) {
    let pace = WorkerPace { concurrency: config.documents_at_once, ..WorkerPace::default() };
    let pipelines = Arc::new(Pipelines::of(app));
    let reading = IngestWorker::new(Arc::clone(&app.library), pace).with_pipelines(pipelines);
    let embedding =
        Reembedder::new(Arc::clone(&app.library), Arc::clone(&app.reembeddings), ReembedderPace::default());
    let embedding = async {
        // A process that ingests no documents does not re-embed either.
        if config.documents_at_once > 0 {
            embedding.run(stop).await;
        }
    };
    futures::join!(Box::pin(reading.run(stop, grace)), Box::pin(embedding));
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Returns 75 to 125 percent of a duration, so that workers which were started together do not poll at the same time.
fn with_jitter(duration: Duration) -> Duration {
    let mut random = [0];
    // Without randomness they poll at the same time, which is only slower.
    let _ = getrandom::fill(&mut random);
    duration.mul_f64(0.75 + f64::from(random[0]) / 512.0)
}

/// Processes the queue and resumes interrupted runs until `shutdown` completes; then lets runs finish for a while,
/// leaves the rest to other workers, and closes the store.
///
/// # Errors
/// When the store cannot be closed.
pub async fn work(
    app: App,
    config: WorkerConfig,
    grace: Duration,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<()> {
    let stop = CancellationToken::new();
    let worker = Worker::new(app.clone(), config);
    let mut working = Box::pin(maybe_done(async {
        let reading = Box::pin(read_documents(&app, config, &stop, grace));
        futures::join!(worker.run(&stop, grace), reading, remember(&app, &stop, grace));
    }));
    tokio::select! {
        () = app.keep_runs_going() => {}
        () = Box::pin(app.keep_tasks_timely()) => {}
        () = Box::pin(app.keep_people_told()) => {}
        () = &mut working => {}
        () = shutdown => tracing::info!("stopping"),
    }
    stop.cancel();
    // The time that the workers take is part of the same grace period.
    let from = Instant::now();
    working.await;
    app.shut_down(grace.saturating_sub(from.elapsed())).await
}
