//! Processes queued documents until told to stop.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weft_core::error::found;
use weft_core::seam::dataset_store::Document;
use weft_core::seam::ingest_queue::{IngestOutcome, TakenDocument};
use weft_core::{ErrorKind, Result};

use super::counts::IngestEnding;
use super::library::Library;
use super::pipeline::{NoPipelines, PipelineRunner};
use super::plan;
use super::work::{DocumentWork, IngestEnd};

/// Concurrency and intervals of a worker.
#[derive(Clone, Copy, Debug)]
pub struct WorkerPace {
    /// Maximum number of documents processed concurrently.
    pub concurrency: usize,
    /// How often it looks for documents when it is not woken up. Other processes cannot wake it.
    pub look_every: Duration,
    /// How long a document stays with a worker that has gone silent.
    pub lease: Duration,
    /// How often it reports progress and checks whether it has to stop.
    pub tell_every: Duration,
    /// How often it looks for documents that have to be reindexed.
    pub repair_every: Duration,
    /// How often it compares the indexes with the stored data. Checked when a repair is due.
    pub check_every: Duration,
}

impl Default for WorkerPace {
    fn default() -> Self {
        Self {
            concurrency: 2,
            look_every: Duration::from_secs(1),
            lease: Duration::from_secs(10),
            tell_every: Duration::from_millis(500),
            repair_every: Duration::from_secs(60),
            // Each check opens every index and counts every chunk.
            check_every: Duration::from_secs(600),
        }
    }
}

/// How long a worker that has to stop waits for a document of which only the final steps are left.
// The document is nearly searchable; otherwise another worker would repeat its final stage.
const SETTLING_MAX: Duration = Duration::from_secs(10);

/// Processes the documents of a queue, several at a time.
#[derive(Clone, Debug)]
pub struct IngestWorker {
    library: Arc<Library>,
    pace: WorkerPace,
    pipelines: Arc<dyn PipelineRunner>,
    /// Fires when unfinished work is to be released.
    leaving: CancellationToken,
}

impl IngestWorker {
    /// Creates a worker for this library.
    pub fn new(library: Arc<Library>, pace: WorkerPace) -> Self {
        Self { library, pace, pipelines: Arc::new(NoPipelines), leaving: CancellationToken::new() }
    }

    /// Sets the runner of pipelines.
    #[must_use]
    pub fn with_pipelines(self, pipelines: Arc<dyn PipelineRunner>) -> Self {
        Self { pipelines, ..self }
    }

    /// Works until `stop` fires, and checks the indexes at the same time. After that it takes no more
    /// documents; work in progress gets `grace` to finish, and is then left to another worker.
    pub async fn run(&self, stop: &CancellationToken, grace: Duration) {
        let (mut busy, mut repairing) = (JoinSet::new(), JoinSet::new());
        let library = Arc::clone(&self.library);
        self.repair(&mut repairing, async move { library.check().await.map(drop) });
        let mut due = randomised(self.pace.repair_every);
        let mut check_due = randomised(self.pace.check_every);
        while !stop.is_cancelled() {
            // Created before the look, so that a wake-up in between is not missed.
            let woken = self.library.wake.notified();
            self.look(&mut busy).await;
            // The result of a repair is ignored: what it has not done is still noted.
            while repairing.try_join_next().is_some() {}
            if Instant::now() >= due && repairing.is_empty() {
                due = randomised(self.pace.repair_every);
                let library = Arc::clone(&self.library);
                if Instant::now() >= check_due {
                    check_due = randomised(self.pace.check_every);
                    self.repair(&mut repairing, async move { library.check().await.map(drop) });
                } else {
                    self.repair(&mut repairing, async move { library.repair().await.map(drop) });
                }
            } else if repairing.is_empty() && self.library.has_changed_datasets() {
                let library = Arc::clone(&self.library);
                self.repair(&mut repairing, async move { library.renew_summaries().await });
            }
            tokio::select! {
                // A stop takes precedence: there may be an endless supply of documents.
                biased;
                () = stop.cancelled() => {}
                Some(_) = busy.join_next() => while busy.try_join_next().is_some() {},
                () = woken => {}
                () = tokio::time::sleep(self.pace.look_every) => {}
            }
        }
        let all = async {
            while busy.join_next().await.is_some() {}
            while repairing.join_next().await.is_some() {}
            // Callers do not wait for everything that their changes do in the index, and the process may end
            // when this returns.
            self.library.changed().await;
        };
        if tokio::time::timeout(grace, all).await.is_err() {
            self.leaving.cancel();
            // This takes no longer than a document that is nearly complete may take.
            while busy.join_next().await.is_some() {}
            while repairing.join_next().await.is_some() {}
        }
    }

    /// Runs repairs alongside the work, one at a time. What is interrupted stays noted.
    fn repair(&self, repairing: &mut JoinSet<()>, repair: impl Future<Output = Result<()>> + Send + 'static) {
        let leaving = self.leaving.clone();
        repairing.spawn(async move {
            tokio::select! {
                // What is interrupted stays noted, so a process that has to stop does not wait for it.
                biased;
                () = leaving.cancelled() => {}
                repaired = repair => if let Err(error) = repaired {
                    tracing::warn!(error = error.detail(), "an index or summaries cannot be repaired");
                }
            }
        });
    }

    /// Takes as many documents as there is room for.
    async fn look(&self, busy: &mut JoinSet<()>) {
        let room = self.pace.concurrency.saturating_sub(busy.len());
        if room == 0 {
            return;
        }
        let now_ms = self.library.now_ms();
        let until_ms = now_ms.saturating_add(ms(self.pace.lease));
        match self.library.parts.queue.take(now_ms, until_ms, room as u64).await {
            Ok(taken) => {
                for taken in taken {
                    let worker = self.clone();
                    busy.spawn(async move { worker.finish(&taken).await });
                }
            }
            Err(error) => tracing::warn!(error = error.detail(), "cannot look for documents to read"),
        }
    }

    /// Processes one document to its end, unless it has been taken by another worker by then.
    async fn finish(&self, taken: &TakenDocument) {
        let id = &taken.document.key.id;
        let Some(settled) = self.work(taken).await else { return };
        self.library.counts.documents.add(IngestEnding::from(&settled), 1);
        match &settled {
            IngestOutcome::Failed { reason } | IngestOutcome::Abandoned { reason } => {
                tracing::info!(document.id = %id, reason, "a document has failed");
            }
            IngestOutcome::RetryAt { reason, .. } => {
                tracing::info!(document.id = %id, reason, "a document is postponed");
            }
            IngestOutcome::Done { .. } | IngestOutcome::Stopped | IngestOutcome::Released => {}
        }
        // A document whose outcome is not stored becomes available again when its lease expires.
        let settled = self.library.parts.queue.settle(&taken.lease, &settled, self.library.now_ms()).await;
        if let Err(error) = settled {
            tracing::warn!(document.id = %id, error = error.detail(), "the outcome of a document could not be stored");
        }
    }

    /// Returns the outcome of a document; `None` if it is stored already, or if the document belongs to
    /// another worker.
    async fn work(&self, taken: &TakenDocument) -> Option<IngestOutcome> {
        if let Some(given_up) = plan::given_up(taken) {
            return Some(given_up);
        }
        let work = match DocumentWork::new(&self.library, &*self.pipelines, taken, ms(self.pace.lease)).await
        {
            Ok(work) => work,
            Err(error) => return Some(plan::failed(&error, taken.attempts, self.library.now_ms())),
        };
        let outcome = self.worked(&work, taken).await;
        work.note_usage().await;
        outcome
    }

    /// Does the work until it ends, temporarily or for good.
    async fn worked(&self, work: &DocumentWork<'_>, taken: &TakenDocument) -> Option<IngestOutcome> {
        let has_to_go = async {
            self.leaving.cancelled().await;
            if work.is_settling() {
                // It is complete, and only the last change of the index makes it searchable.
                tokio::time::sleep(SETTLING_MAX).await;
            }
        };
        let ended = tokio::select! {
            // The lease is renewed alongside the work, which may take many times as long as a lease lasts.
            biased;
            () = has_to_go => return Some(IngestOutcome::Released),
            ended = work.keep(self.pace.tell_every) => ended,
            outcome = work.run() => match outcome {
                Ok(()) => IngestEnd::Settled,
                Err(error) if error.kind == ErrorKind::Cancelled => IngestEnd::Stopped,
                Err(error) if error.kind == ErrorKind::Conflict => IngestEnd::Lost,
                Err(error) => {
                    let now = found(self.library.parts.store.document(&taken.document.key).await);
                    // Whatever it failed at: a document that was removed has no outcome.
                    if !matches!(now, Ok(None)) {
                        return Some(plan::failed(&error, work.attempts(), self.library.now_ms()));
                    }
                    IngestEnd::Lost
                }
            },
        };
        match ended {
            IngestEnd::Settled => {
                self.library.counts.documents.add(IngestEnding::Done, 1);
                None
            }
            IngestEnd::Stopped => {
                // The pipeline's run is an ordinary one and would otherwise continue by itself.
                self.pipelines.stop(&taken.document).await;
                Some(IngestOutcome::Stopped)
            }
            IngestEnd::Lost => {
                self.lost(&taken.document).await;
                None
            }
        }
    }

    /// Clears up after work on a document that belongs to another worker now, or no longer exists.
    async fn lost(&self, document: &Document) {
        self.library.counts.documents.add(IngestEnding::Lost, 1);
        tracing::info!(
            document.id = %document.key.id,
            "a document belongs to another worker or no longer exists"
        );
        if let Err(error) = self.library.forget_if_gone(document).await {
            tracing::warn!(error = error.detail(), "some data of a removed document could not be deleted");
        }
        // Another worker continues the same run. But if the document was removed, or is to be read again from the
        // beginning, nobody waits for the run any more.
        let now = found(self.library.parts.store.document(&document.key).await);
        if now.is_ok_and(|now| now.is_none_or(|now| now.begun_ms != document.begun_ms)) {
            self.pipelines.stop(document).await;
        }
    }
}

/// Returns when something is to be done next. Randomised, so that processes started together do not keep repairing
/// the same things at the same time.
fn randomised(every: Duration) -> Instant {
    // The keys of this hasher are random, which is enough to spread the processes.
    let random = RandomState::new().hash_one(()) % 1_000;
    let share = 0.75 + random as f64 / 2_000.0;
    Instant::now() + every.mul_f64(share)
}

/// Returns a duration in milliseconds, as leases use it.
pub(super) fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
