//! Rebuilds all vectors of a dataset with another model, while it is searched by the existing ones.
//!
//! The new vectors are stored beside the old ones, batch by batch, and are collected with everything else
//! that is searched in a second index. Once every document is there in its current state, one transaction
//! switches the dataset to the new model and the new index: a question reads both from the dataset's row, so
//! it never meets vectors of another model than its own. A document that changes meanwhile is staged again,
//! and only its changed chunks are embedded. After a crash the work continues with the vectors already
//! stored.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use tokio_util::sync::CancellationToken;
use weft_core::counts::Success;
use weft_core::error::found;
use weft_core::id::{ChunkId, DatasetKey, DocumentId, DocumentKey};
use weft_core::seam::dataset_store::{ChunkFilter, Dataset, Document, DocumentFilter, Heads, StoredChunk};
use weft_core::seam::index::IndexChange;
use weft_core::seam::ingest_queue::IngestOutcome;
use weft_core::seam::reembedding_store::{
    NumberedDocument, ReembeddingOutcome, ReembeddingProgress, ReembeddingState, TakenReembedding,
};
use weft_core::seam::{Embedder, ReembeddingStore};
use weft_core::{ErrorKind, Result};

use super::embed;
use super::indexing::{adding, indexed_document, stem};
use super::library::Library;
use super::plan::{self, IngestPlan};
use super::work::vectors;
use super::worker::ms;
use crate::used::WorkModels;

/// Number of documents listed at a time.
const LISTED_AT_ONCE: u64 = 50;
/// Number of documents staged concurrently.
const DOCUMENTS_AT_ONCE: usize = 4;
/// Number of chunks read at a time.
const CHUNKS_AT_ONCE: u64 = 200;
/// Number of texts passed to an embedder at a time.
const TEXTS_AT_ONCE: usize = 32;
/// How long a question that read the dataset before the switch may still be in progress.
const OLD_KEPT: Duration = Duration::from_secs(60);
/// The message while documents being processed delay the switch.
const WAITING: &str = "All vectors are made; waiting until no document of the dataset is being read";

/// Intervals of the worker.
#[derive(Clone, Copy, Debug)]
pub struct ReembedderPace {
    /// How often it looks for a task.
    pub look_every: Duration,
    /// How long a task stays with a worker that has gone silent.
    pub lease: Duration,
    /// How often it reports progress.
    pub tell_every: Duration,
}

impl Default for ReembedderPace {
    fn default() -> Self {
        Self {
            look_every: Duration::from_secs(1),
            lease: Duration::from_secs(10),
            tell_every: Duration::from_millis(500),
        }
    }
}

/// Rebuilds vectors, one dataset at a time.
#[derive(Clone)]
pub struct Reembedder {
    library: Arc<Library>,
    tasks: Arc<dyn ReembeddingStore>,
    pace: ReembedderPace,
}

impl std::fmt::Debug for Reembedder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reembedder").finish_non_exhaustive()
    }
}

impl Reembedder {
    /// Creates a worker for this library; `tasks` is another interface of its store.
    pub fn new(library: Arc<Library>, tasks: Arc<dyn ReembeddingStore>, pace: ReembedderPace) -> Self {
        Self { library, tasks, pace }
    }

    /// Works until `stop` fires. Unfinished work, with what was stored of it, is then left to another worker.
    pub async fn run(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            // Boxed, because it holds the state of the whole work.
            let worked = match Box::pin(self.next(stop)).await {
                Ok(worked) => worked,
                Err(error) => {
                    tracing::warn!(error = error.detail(), "cannot look for vectors to recreate");
                    false
                }
            };
            if !worked {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {}
                    () = tokio::time::sleep(self.pace.look_every) => {}
                }
            }
        }
    }

    /// Works on a task as far as possible now. Returns whether there was one.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub async fn next(&self, stop: &CancellationToken) -> Result<bool> {
        let now_ms = self.library.now_ms();
        let Some(taken) = self.tasks.take(now_ms, now_ms.saturating_add(ms(self.pace.lease))).await? else {
            return Ok(false);
        };
        let Some(outcome) = self.outcome(&taken, stop).await else {
            self.forget_if_gone(&taken.lease.dataset).await?;
            return Ok(true);
        };
        let id = &taken.lease.dataset.id;
        if let ReembeddingOutcome::Failed { reason } = &outcome {
            self.library.counts.reembeddings.add(Success::Failed, 1);
            tracing::info!(dataset.id = %id, reason, "a dataset keeps its current vectors");
        }
        // A task whose outcome is not stored becomes available again when its lease expires.
        if let Err(error) = self.tasks.settle(&taken.lease, &outcome, self.library.now_ms()).await {
            let error = error.detail();
            tracing::warn!(dataset.id = %id, error, "the outcome of new vectors could not be stored");
        }
        Ok(true)
    }

    /// Removes what may have been added to the index after the dataset was removed.
    async fn forget_if_gone(&self, dataset: &DatasetKey) -> Result<()> {
        if found(self.library.store().dataset_uncounted(dataset).await)?.is_none() {
            self.library.remove_indexes(dataset).await?;
        }
        Ok(())
    }

    /// Returns the outcome of a task; `None` if it is stored already, or if the task belongs to another worker.
    async fn outcome(
        &self,
        taken: &TakenReembedding,
        stop: &CancellationToken,
    ) -> Option<ReembeddingOutcome> {
        let now_ms = || self.library.now_ms();
        if taken.task.state == ReembeddingState::Running && taken.attempts > plan::ATTEMPTS_MAX {
            let reason = plan::begun_too_often(&taken.task.message);
            return Some(ReembeddingOutcome::Failed { reason });
        }
        let dataset = match self.library.store().dataset(&taken.lease.dataset).await {
            Ok(dataset) => dataset,
            // The dataset is gone, and the task with it.
            Err(error) if error.kind == ErrorKind::NotFound => return None,
            Err(error) => return Some(self.failed(taken, &error)),
        };
        let work = DatasetWork::new(self, taken, dataset);
        let outcome = tokio::select! {
            biased;
            () = stop.cancelled() => Some(ReembeddingOutcome::Released { from_ms: now_ms() }),
            () = work.keep() => None,
            outcome = work.run() => match outcome {
                Ok(WorkEnd::Switched) => None,
                Ok(WorkEnd::Waits) => {
                    let from_ms = now_ms().saturating_add(ms(self.pace.look_every));
                    Some(ReembeddingOutcome::Released { from_ms })
                }
                Ok(WorkEnd::Cleared) => Some(ReembeddingOutcome::Cleared),
                Err(error) if error.kind == ErrorKind::Conflict => None,
                Err(error) => Some(self.failed(taken, &error)),
            },
        };
        work.models.note(now_ms()).await;
        outcome
    }

    fn failed(&self, taken: &TakenReembedding, error: &weft_core::Error) -> ReembeddingOutcome {
        let now_ms = self.library.now_ms();
        let again = match plan::failed(error, taken.attempts, now_ms) {
            IngestOutcome::RetryAt { from_ms, .. } => Some(from_ms),
            _ => None,
        };
        if taken.task.state != ReembeddingState::Running {
            // The remains have to be removed sooner or later; until then the task keeps the message with
            // which it ended.
            let from_ms = again.unwrap_or_else(|| now_ms.saturating_add(ms(OLD_KEPT)));
            return ReembeddingOutcome::RetryAt { from_ms, reason: taken.task.message.clone() };
        }
        match again {
            Some(from_ms) => ReembeddingOutcome::RetryAt { from_ms, reason: error.full() },
            None => ReembeddingOutcome::Failed { reason: error.full() },
        }
    }
}

/// How far the work on a dataset got.
enum WorkEnd {
    /// The dataset is searched by the new vectors.
    Switched,
    /// It has to wait for documents being processed.
    Waits,
    /// The remains were removed.
    Cleared,
}

/// The work on one dataset.
struct DatasetWork<'a> {
    by: &'a Reembedder,
    taken: &'a TakenReembedding,
    dataset: Dataset,
    models: WorkModels,
    /// The index in which the new vectors are collected.
    next: DatasetKey,
    /// Number of chunks examined.
    done: AtomicU64,
    said: Mutex<String>,
}

impl<'a> DatasetWork<'a> {
    fn new(by: &'a Reembedder, taken: &'a TakenReembedding, dataset: Dataset) -> Self {
        let next = dataset.next_index();
        let said = Mutex::new(taken.task.message.clone());
        let models = by.library.models_for(&dataset.key);
        Self { by, taken, dataset, models, next, done: AtomicU64::new(0), said }
    }

    fn progress(&self) -> ReembeddingProgress {
        let (done, total) = (self.done.load(Ordering::Relaxed), self.dataset.counts.chunks);
        let message = self.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if self.taken.task.state != ReembeddingState::Running {
            return ReembeddingProgress { share: self.taken.task.progress, message };
        }
        // Complete only after the switch; chunks may have been added since they were counted.
        let share = if total == 0 { 0.0 } else { done.min(total) as f64 / total as f64 };
        ReembeddingProgress { share: share.min(0.99), message }
    }

    fn say(&self, message: String) {
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = message;
    }

    async fn tell(&self) -> Result<()> {
        let until_ms = self.by.library.now_ms().saturating_add(ms(self.by.pace.lease));
        self.by.tasks.report(&self.taken.lease, &self.progress(), until_ms).await
    }

    /// Reports progress periodically. Returns when the task belongs to another worker.
    async fn keep(&self) {
        loop {
            tokio::time::sleep(self.by.pace.tell_every).await;
            match self.tell().await {
                Ok(()) => {}
                Err(error) if error.kind == ErrorKind::Conflict => {
                    // The switch releases the task as well; in that case the work ends by itself.
                    tokio::time::sleep(self.by.pace.tell_every).await;
                    return;
                }
                Err(error) => {
                    tracing::warn!(error = error.detail(), "cannot report that vectors are being created");
                }
            }
        }
    }

    async fn run(&self) -> Result<WorkEnd> {
        let Reembedder { library, tasks, .. } = self.by;
        // What is there belongs to another task or to an earlier generation: its vectors are of another
        // model, and would be found together with the new ones.
        if self.taken.is_littered {
            library.index().remove(&self.next).await?;
            tasks.clear(&self.taken.lease).await?;
        }
        if self.taken.task.state != ReembeddingState::Running {
            return Ok(WorkEnd::Cleared);
        }
        let embedder = match self.taken.task.embedder.as_str() {
            "" => None,
            name => Some(self.models.directory().embedder(&self.dataset.key.tenant, name)?),
        };
        // Otherwise progress would appear to start from zero after each crash, although earlier results are
        // still there.
        self.count_staged().await?;
        self.stage_all(embedder.as_deref()).await?;
        // Documents removed after they were staged are in no list of pending work; only a count reveals them.
        let held = library.index().size(&self.next).await?.documents as u64;
        let now_ms = library.now_ms();
        let clear_from_ms = now_ms.saturating_add(ms(OLD_KEPT));
        if tasks.switch(&self.taken.lease, held, now_ms, clear_from_ms).await? {
            library.counts.reembeddings.add(Success::Succeeded, 1);
            tracing::info!(dataset.id = %self.dataset.key.id, "a dataset now uses its new vectors");
            return Ok(WorkEnd::Switched);
        }
        // What has changed meanwhile is staged when the task is taken next.
        if tasks.unstaged(&self.dataset.key, None, 1).await?.is_empty() {
            if held == self.documents().await? {
                self.say(WAITING.to_owned());
                self.tell().await?;
            } else {
                // Something was removed that is still in the index: it is built once more, from the existing vectors.
                self.unstage_all().await?;
            }
        }
        Ok(WorkEnd::Waits)
    }

    async fn documents(&self) -> Result<u64> {
        let none = DocumentFilter { limit: 0, ..DocumentFilter::default() };
        Ok(self.by.library.store().documents(&self.dataset.key, &none).await?.1)
    }

    /// Counts what earlier workers have already staged.
    async fn count_staged(&self) -> Result<()> {
        let (mut left, mut after) = (0, None);
        loop {
            let page = self.by.tasks.unstaged(&self.dataset.key, after.as_ref(), LISTED_AT_ONCE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.id.clone());
            let ids = Some(page.into_iter().map(|one| one.id).collect());
            let filter = DocumentFilter { ids, limit: LISTED_AT_ONCE, ..DocumentFilter::default() };
            let (documents, _) = self.by.library.store().documents(&self.dataset.key, &filter).await?;
            left += documents.iter().map(|document| document.chunk_count).sum::<u64>();
        }
        self.done.store(self.dataset.counts.chunks.saturating_sub(left), Ordering::Relaxed);
        Ok(())
    }

    async fn unstage_all(&self) -> Result<()> {
        self.by.library.index().remove(&self.next).await?;
        let mut after: Option<DocumentId> = None;
        loop {
            let wanted = Heads::Page(after.clone(), LISTED_AT_ONCE);
            let page = self.by.library.store().document_heads(&self.dataset.key, &wanted).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.id.clone());
            // A number that no document has: each of them counts as not staged.
            let none: Vec<NumberedDocument> =
                page.into_iter().map(|head| NumberedDocument { id: head.id, number: -1 }).collect();
            self.by.tasks.staged(&self.taken.lease, &none).await?;
        }
    }

    /// Stages every document that is not staged in its current state.
    async fn stage_all(&self, embedder: Option<&dyn Embedder>) -> Result<()> {
        let mut after: Option<DocumentId> = None;
        loop {
            let page = self.by.tasks.unstaged(&self.dataset.key, after.as_ref(), LISTED_AT_ONCE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.id.clone());
            let all: Vec<_> =
                page.into_iter().map(|one| self.stage_document(one, embedder).boxed()).collect();
            let staged: Vec<_> =
                futures::stream::iter(all).buffer_unordered(DOCUMENTS_AT_ONCE).collect().await;
            // What was staged is recorded, even if something else failed.
            let (staged, failed): (Vec<_>, Vec<_>) = staged.into_iter().partition(Result::is_ok);
            let staged: Vec<NumberedDocument> = staged.into_iter().flatten().flatten().collect();
            self.by.tasks.staged(&self.taken.lease, &staged).await?;
            if let Some(Err(error)) = failed.into_iter().next() {
                return Err(error);
            }
            // This work may take days: its usage is not held back until the end.
            self.models.note(self.by.library.now_ms()).await;
            // Before each further page: a worker that has lost the task must not continue to fill the index.
            self.tell().await?;
        }
    }

    /// Stages one document. `None` if it has changed meanwhile or is gone: a changed document is staged again.
    async fn stage_document(
        &self,
        numbered: NumberedDocument,
        embedder: Option<&dyn Embedder>,
    ) -> Result<Option<NumberedDocument>> {
        let library = &self.by.library;
        let key = DocumentKey::new(&self.dataset.key, numbered.id.clone());
        let Some(document) = found(library.store().document(&key).await)? else { return Ok(None) };
        let mut staging = StagedDocument { document, numbered, name: None };
        let mut changes = vec![
            // An earlier attempt may have added chunks that the document no longer has.
            IndexChange::Clear(key.id.clone()),
            IndexChange::Document(indexed_document(&staging.document)),
        ];
        let filter = ChunkFilter { vectors: true, limit: CHUNKS_AT_ONCE, ..ChunkFilter::default() };
        let (mut pages, mut kept) = (library.pages(&key, filter), Vec::new());
        loop {
            let Some(page) = found(pages.next().await)? else { return Ok(None) };
            let Some(mut page) = page else { break };
            if !self.embed(&mut staging, &mut page, embedder).await? {
                return Ok(None);
            }
            changes.push(adding(&staging.document, page));
            kept.push(library.index().write_behind(&self.next, std::mem::take(&mut changes)).await?);
        }
        futures::future::try_join_all(kept).await?;
        Ok(Some(staging.numbered))
    }

    /// Replaces the vectors of some chunks by the new ones, computing and storing those that are missing.
    /// Returns whether the document is still the same.
    async fn embed(
        &self,
        staging: &mut StagedDocument,
        chunks: &mut [StoredChunk],
        embedder: Option<&dyn Embedder>,
    ) -> Result<bool> {
        let key = &staging.document.key;
        let ids: Vec<ChunkId> = chunks.iter().map(|chunk| chunk.id.clone()).collect();
        let mut staged = self.by.tasks.staged_vectors(key, &ids).await?;
        // In a dataset with vectors, chunks without one are to be found by their words alone.
        let is_wanted = |chunk: &&StoredChunk| self.dataset.embedder.is_empty() || chunk.vector.is_some();
        let lacking: Vec<&StoredChunk> =
            chunks.iter().filter(is_wanted).filter(|chunk| !staged.contains_key(&chunk.id)).collect();
        self.done.fetch_add((chunks.len() - lacking.len()) as u64, Ordering::Relaxed);
        for some in lacking.chunks(TEXTS_AT_ONCE) {
            if let Some(embedder) = embedder {
                let made = staging.vectors(some, embedder).await?;
                if !self.by.tasks.stage(&self.taken.lease, &staging.numbered, &made).await? {
                    return Ok(false);
                }
                staged.extend(made);
            }
            let done = self.done.fetch_add(some.len() as u64, Ordering::Relaxed) + some.len() as u64;
            let doing = if embedder.is_some() { "Computing" } else { "Removing" };
            let all = weft_core::value::plural(self.dataset.counts.chunks.max(done), "chunk");
            self.say(format!("{doing} vectors: {done} of {all}"));
        }
        for chunk in chunks {
            chunk.vector = staged.remove(&chunk.id);
        }
        Ok(true)
    }
}

/// A document whose vectors are being rebuilt.
struct StagedDocument {
    document: Document,
    numbered: NumberedDocument,
    /// The vector of its name, computed when first needed.
    name: Option<Vec<f32>>,
}

impl StagedDocument {
    async fn vectors(
        &mut self,
        chunks: &[&StoredChunk],
        embedder: &dyn Embedder,
    ) -> Result<Vec<(ChunkId, Vec<f32>)>> {
        let share = IngestPlan::new(&self.document.settings).name_share;
        if self.name.is_none() && share > 0.0 {
            self.name = vectors(embedder, &[stem(&self.document.name).to_owned()]).await?.pop();
        }
        let texts: Vec<String> = chunks.iter().map(|chunk| embed::text(chunk)).collect();
        let made = vectors(embedder, &texts).await?.into_iter();
        let with = made.map(|vector| embed::mixed(vector, self.name.as_deref(), share));
        Ok(chunks.iter().map(|chunk| chunk.id.clone()).zip(with).collect())
    }
}
