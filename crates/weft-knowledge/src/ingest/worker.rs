//! Reads what is queued, until told to stop.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weft_core::seam::ingest_queue::{IngestOutcome, TakenDocument};
use weft_core::{ErrorKind, Result};

use super::counts::IngestEnding;
use super::library::Library;
use super::pipeline::{NoPipelines, PipelineRunner};
use super::plan;
use super::work::{DocumentWork, IngestEnd};

/// How a worker works.
#[derive(Clone, Copy, Debug)]
pub struct WorkerPace {
    /// Documents at the same time.
    pub concurrency: usize,
    /// How often it looks for documents when nobody wakes it. Other processes cannot.
    pub look_every: Duration,
    /// How long a document is a worker's that falls silent.
    pub lease: Duration,
    /// How often it tells how far it has come, and hears that it is to stop.
    pub tell_every: Duration,
    /// How often it looks for documents that have to be put into the index again.
    pub mend_every: Duration,
}

impl Default for WorkerPace {
    fn default() -> Self {
        Self {
            concurrency: 2,
            look_every: Duration::from_secs(1),
            lease: Duration::from_secs(10),
            tell_every: Duration::from_millis(500),
            mend_every: Duration::from_secs(60),
        }
    }
}

/// How long a worker that has to go stays for a document that is done but for the end.
const SETTLING_MAX: Duration = Duration::from_secs(10);

/// Reads the documents of a queue, several at a time.
#[derive(Clone, Debug)]
pub struct IngestWorker {
    library: Arc<Library>,
    pace: WorkerPace,
    pipelines: Arc<dyn PipelineRunner>,
    /// Fires when what is under way is to be handed back.
    leaving: CancellationToken,
}

impl IngestWorker {
    /// A worker for this library.
    pub fn new(library: Arc<Library>, pace: WorkerPace) -> Self {
        Self { library, pace, pipelines: Arc::new(NoPipelines), leaving: CancellationToken::new() }
    }

    /// The same, with what runs pipelines.
    #[must_use]
    pub fn with_pipelines(self, pipelines: Arc<dyn PipelineRunner>) -> Self {
        Self { pipelines, ..self }
    }

    /// Works until `stop` fires, and checks the indexes beside that. From then on it takes nothing more; what
    /// is under way gets `grace` to end, and is left for another worker then.
    pub async fn run(&self, stop: &CancellationToken, grace: Duration) {
        let (mut busy, mut mending) = (JoinSet::new(), JoinSet::new());
        let library = Arc::clone(&self.library);
        self.mend(&mut mending, async move { library.check().await.map(drop) });
        let mut due = self.next_mend();
        while !stop.is_cancelled() {
            // Listened for before the look, so that a call in between is not missed.
            let woken = self.library.wake.notified();
            self.look(&mut busy).await;
            // A mending that broke is of no interest: what it has not done is noted still.
            while mending.try_join_next().is_some() {}
            if Instant::now() >= due && mending.is_empty() {
                due = self.next_mend();
                let library = Arc::clone(&self.library);
                self.mend(&mut mending, async move { library.mend().await.map(drop) });
            } else if mending.is_empty() && self.library.has_changed_datasets() {
                let library = Arc::clone(&self.library);
                self.mend(&mut mending, async move { library.renew_summaries().await });
            }
            tokio::select! {
                // A stop first: there may be no end of documents that wait.
                biased;
                () = stop.cancelled() => {}
                Some(_) = busy.join_next() => while busy.try_join_next().is_some() {},
                () = woken => {}
                () = tokio::time::sleep(self.pace.look_every) => {}
            }
        }
        let all = async {
            while busy.join_next().await.is_some() {}
            while mending.join_next().await.is_some() {}
            // Callers do not wait for all that their changes do in the index, and the process may end when this returns.
            self.library.changed().await;
        };
        if tokio::time::timeout(grace, all).await.is_err() {
            self.leaving.cancel();
            while busy.join_next().await.is_some() {}
            while mending.join_next().await.is_some() {}
        }
    }

    /// Mends beside the work, one thing at a time. What is cut off is noted still.
    fn mend(&self, mending: &mut JoinSet<()>, mend: impl Future<Output = Result<()>> + Send + 'static) {
        let leaving = self.leaving.clone();
        mending.spawn(async move {
            tokio::select! {
                // What is cut off is noted still, so a process that has to go does not wait for it.
                biased;
                () = leaving.cancelled() => {}
                mended = mend => if let Err(error) = mended {
                    tracing::warn!(error = error.detail(), "an index or summaries cannot be mended");
                }
            }
        });
    }

    /// Processes that were started together do not mend the same at the same time for ever.
    fn next_mend(&self) -> Instant {
        let random = RandomState::new().hash_one(()) % 1_000;
        let share = 0.75 + random as f64 / 2_000.0;
        Instant::now() + self.pace.mend_every.mul_f64(share)
    }

    /// Takes what there is room for.
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

    /// Reads one document to its end, unless it is somebody else's by then.
    async fn finish(&self, taken: &TakenDocument) {
        let id = &taken.document.key.id;
        let Some(settled) = self.work(taken).await else { return };
        self.library.counts.documents.add(IngestEnding::from(&settled), 1);
        match &settled {
            IngestOutcome::Failed { reason } | IngestOutcome::Abandoned { reason } => {
                tracing::info!(document.id = %id, reason, "a document has failed");
            }
            IngestOutcome::RetryAt { reason, .. } => {
                tracing::info!(document.id = %id, reason, "a document is put off");
            }
            IngestOutcome::Done { .. } | IngestOutcome::Stopped | IngestOutcome::Released => {}
        }
        // What is not settled comes back when its time has passed.
        let settled = self.library.parts.queue.settle(&taken.lease, &settled, self.library.now_ms()).await;
        if let Err(error) = settled {
            tracing::warn!(document.id = %id, error = error.detail(), "the outcome of a document could not be stored");
        }
    }

    /// What has become of a document; nothing when that is said already or not ours to say.
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

    /// Does the work until it ends, for now or for good.
    async fn worked(&self, work: &DocumentWork<'_>, taken: &TakenDocument) -> Option<IngestOutcome> {
        let has_to_go = async {
            self.leaving.cancelled().await;
            if work.is_settling() {
                // It is done, and only the last change of the index makes it found.
                tokio::time::sleep(SETTLING_MAX).await;
            }
        };
        let ended = tokio::select! {
            // The lease is kept beside the work, which may take many times as long as a lease lasts.
            biased;
            () = has_to_go => return Some(IngestOutcome::Released),
            ended = work.keep(self.pace.tell_every) => ended,
            outcome = work.run() => match outcome {
                Ok(()) => IngestEnd::Settled,
                Err(error) if error.kind == ErrorKind::Cancelled => IngestEnd::Stopped,
                Err(error) if error.kind == ErrorKind::Conflict => IngestEnd::Lost,
                Err(error) => return Some(plan::failed(&error, work.attempts(), self.library.now_ms())),
            },
        };
        match ended {
            IngestEnd::Settled => {
                self.library.counts.documents.add(IngestEnding::Done, 1);
                None
            }
            IngestEnd::Stopped => {
                // Its run is one like any other and would go on by itself.
                self.pipelines.stop(&taken.document.key).await;
                Some(IngestOutcome::Stopped)
            }
            IngestEnd::Lost => {
                self.library.counts.documents.add(IngestEnding::Lost, 1);
                tracing::info!(document.id = %taken.document.key.id, "a document is somebody else's, or gone");
                if let Err(error) = self.library.forget_if_gone(&taken.document).await {
                    tracing::warn!(error = error.detail(), "something of a document that is gone is left");
                }
                None
            }
        }
    }
}

/// A time as leases have it.
pub(super) fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
