//! The work on one document: carries out what [`super::plan`] decides.

mod indexed;
mod names;
mod pages;
mod paper;
mod pictured;
mod piped;
mod summarize;
mod tags;

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use weft_core::filter::Metadata;
use weft_core::seam::dataset_store::{Dataset, DocumentChange, IngestStage, StoredChunk};
use weft_core::seam::document_reader::ReadRequest;
use weft_core::seam::embedder::EmbeddingPurpose;
use weft_core::seam::ingest_queue::{Amended, IngestProgress, TakenDocument, Wanted};
use weft_core::seam::{ChatModel, Embedder};
use weft_core::value::{Json, plural};
use weft_core::{Error, ErrorKind, Result, changes};

use super::enrich::{self, ChunkAdditions, MadeAddition};
use super::indexing::{CHUNKS_AT_ONCE, stem};
use super::library::Library;
use super::pipeline::{PipelineRunner, pipeline_of};
use super::plan::{self, IngestPlan};
use super::{embed, ids};
use crate::raptor::{Raptor, SummaryScope, dataset as of_dataset};
use crate::used::WorkModels;

/// Number of texts passed to an embedder at a time.
const TEXTS_AT_ONCE: u64 = 32;

/// Number of chunks enriched before the results are stored.
const ENRICHED_AT_ONCE: u64 = 16;

/// Number of concurrent requests to a model.
const QUESTIONS_AT_ONCE: usize = 4;

/// Number of a document's chunks whose beginning a model is shown.
const FIRST_CHUNKS: u64 = 40;

/// Maximum number of warnings reported for a document.
const WARNINGS_MAX: usize = 5;

/// How the work on a document ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum IngestEnd {
    /// Its outcome is stored.
    Settled,
    /// It was stopped on request.
    Stopped,
    /// Another worker has it.
    Lost,
}

/// The work on one document.
pub(super) struct DocumentWork<'a> {
    library: &'a Library,
    pipelines: &'a dyn PipelineRunner,
    taken: &'a TakenDocument,
    dataset: Dataset,
    models: WorkModels,
    plan: IngestPlan,
    lease_ms: i64,
    /// Set if the pipeline was run in this attempt and wants no vectors; afterwards the stage implies it.
    words_alone: AtomicBool,
    said: Mutex<IngestReport>,
}

/// What is reported about the work.
struct IngestReport {
    progress: IngestProgress,
    warnings: Vec<String>,
    /// The outcome is being stored; from here on no progress is reported.
    settled: bool,
    /// Some results have been stored.
    kept: bool,
}

impl<'a> DocumentWork<'a> {
    pub(super) async fn new(
        library: &'a Library,
        pipelines: &'a dyn PipelineRunner,
        taken: &'a TakenDocument,
        lease_ms: i64,
    ) -> Result<Self> {
        let document = &taken.document;
        let dataset = library.parts.store.dataset_uncounted(&document.key.dataset).await?;
        let mut plan = IngestPlan::new(&document.settings);
        plan.vectors = !dataset.embedder.is_empty();
        // Summaries over several documents are built where they are stored, in a separate document.
        let scope = Raptor::of(document).map(|raptor| raptor.scope);
        plan.summaries = match scope {
            Some(SummaryScope::Dataset) => of_dataset::is_of_dataset(document),
            scope => scope.is_some(),
        };
        plan.additions = if of_dataset::is_of_dataset(document) {
            of_dataset::has_resolution(&document.settings)
        } else {
            library.parts.additions.iter().any(|one| one.wanted(&document.settings))
        };
        let stage = plan.stage_from(taken.stage);
        let message = plan::doing(stage).to_owned();
        let progress = IngestProgress { stage, share: plan.share(stage, 0.0), message };
        let said = Mutex::new(IngestReport { progress, warnings: Vec::new(), settled: false, kept: false });
        let words_alone = AtomicBool::new(false);
        let models = library.models_for(&dataset.key);
        Ok(Self { library, pipelines, taken, dataset, models, plan, lease_ms, words_alone, said })
    }

    fn said<T>(&self, change: impl FnOnce(&mut IngestReport) -> T) -> T {
        change(&mut self.said.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns how often work on it was started since it last made progress.
    pub(super) fn attempts(&self) -> u32 {
        if self.said(|said| said.kept) { 1 } else { self.taken.attempts }
    }

    /// Reports the model usage of the work, however it ended.
    pub(super) async fn note_usage(&self) {
        self.models.note(self.library.now_ms()).await;
    }

    /// Whether only the final steps are left.
    pub(super) fn is_settling(&self) -> bool {
        self.said(|said| said.settled)
    }

    /// Stores what was added to new chunks.
    async fn amend(&self, amended: &[Amended]) -> Result<()> {
        self.library.parts.queue.amend_new(&self.taken.lease, amended).await?;
        self.said(|said| said.kept |= !amended.is_empty());
        Ok(())
    }

    fn say(&self, stage: IngestStage, part: f64, detail: &str) {
        let message = format!("{}{detail}", plan::doing(stage));
        let share = self.plan.share(stage, part);
        self.said(|said| said.progress = IngestProgress { stage, share, message });
    }

    /// Reports progress and renews the lease.
    ///
    /// # Errors
    /// `Cancelled` when a stop was requested, `Conflict` when the lease is lost.
    async fn tell(&self) -> Result<()> {
        let progress = self.said(|said| said.progress.clone());
        let until_ms = self.library.now_ms().saturating_add(self.lease_ms);
        match self.library.parts.queue.report(&self.taken.lease, &progress, until_ms).await? {
            Wanted::GoOn => Ok(()),
            Wanted::Pause | Wanted::Cancel => Err(Error::new(ErrorKind::Cancelled, "a stop was requested")),
        }
    }

    /// Reports progress periodically. Returns when the work has to end.
    pub(super) async fn keep(&self, every: std::time::Duration) -> IngestEnd {
        loop {
            tokio::time::sleep(every).await;
            // The outcome has been passed to the queue by then, and there is nothing more to report.
            if self.said(|said| said.settled) {
                continue;
            }
            match self.tell().await {
                Ok(()) => {}
                // The outcome was stored while this report was in progress, so it is expected that the lease
                // has ended.
                Err(error) if self.said(|said| said.settled) => drop(error),
                Err(error) if error.kind == ErrorKind::Cancelled => return IngestEnd::Stopped,
                Err(error) if error.kind == ErrorKind::Conflict => return IngestEnd::Lost,
                Err(error) => {
                    tracing::warn!(error = error.detail(), "cannot report that a document is being read");
                }
            }
        }
    }

    /// Does everything that is left to do.
    ///
    /// # Errors
    /// `Cancelled` when a stop was requested, `Conflict` when the lease is lost, otherwise the error with
    /// which it failed.
    pub(super) async fn run(&self) -> Result<()> {
        let mut stage = self.plan.stage_from(self.taken.stage);
        self.warn_of_summaries();
        loop {
            self.say(stage, 0.0, "");
            self.tell().await?;
            match stage {
                IngestStage::Reading => self.read().await?,
                IngestStage::Enriching | IngestStage::EnrichingWords => self.enrich_and_tag().await?,
                IngestStage::Embedding => self.embed().await?,
                IngestStage::Summarizing => self.summarize().await?,
                IngestStage::Indexing => self.index().await?,
            }
            match self.after(stage) {
                Some(next) => stage = next,
                None => return Ok(()),
            }
        }
    }

    /// Warns of requested summaries that will not be built.
    fn warn_of_summaries(&self) {
        let Some(asked) = Raptor::of(&self.taken.document) else { return };
        let within = SummaryScope::of(&self.dataset.settings);
        if !self.plan.vectors {
            self.warn("Summaries (raptor) need vectors, and the dataset has no embedder".to_owned());
        } else if asked.scope == SummaryScope::Dataset && within == SummaryScope::Document {
            self.warn(
                "Set `raptor.scope` to `dataset` for the dataset too: summaries over all documents need it"
                    .to_owned(),
            );
        }
    }

    async fn read(&self) -> Result<()> {
        if of_dataset::is_of_dataset(&self.taken.document) {
            return self.begin_dataset().await;
        }
        if let Some(pipeline) = pipeline_of(&self.taken.document.settings) {
            return self.read_by(&pipeline).await;
        }
        let parts = &self.library.parts;
        let document = &self.taken.document;
        let tenant = &document.key.dataset.tenant;
        let bytes = parts.blobs.get(tenant, &document.blob).await?;
        let request = ReadRequest {
            name: document.name.clone(),
            method: document.method,
            settings: document.settings.clone(),
        };
        let reader = self.models.reader(&parts.reader);
        let mut read = reader.read(tenant, &request, bytes).await.map_err(|error| match error.kind {
            // What takes too long once will do so again.
            ErrorKind::Timeout => Error { kind: ErrorKind::Invalid, ..error },
            _ => error,
        })?;
        if read.pieces.is_empty() {
            return Err(Error::invalid("there is no text in the file"));
        }
        for addition in &parts.additions {
            // Results of an earlier processing must not remain.
            if !addition.wanted(&document.settings) {
                parts.queue.put_new_extra(&self.taken.lease, addition.extra(), &Json::Null).await?;
            }
        }
        for warning in std::mem::take(&mut read.warnings) {
            self.warn(warning);
        }
        let pictures = Box::pin(self.keep_pictures(&request, &read)).await?;
        self.keep_title(&mut read).await?;
        let chunks = ids::chunks(&document.key, read, &pictures, self.library.now_ms());
        self.keep_new(&chunks).await
    }

    fn warn(&self, warning: String) {
        self.said(|said| {
            if said.warnings.len() < WARNINGS_MAX && !said.warnings.contains(&warning) {
                said.warnings.push(warning);
            }
        });
    }

    /// Returns the number of new chunks.
    async fn count(&self) -> Result<u64> {
        let (mut count, mut pages) = (0, self.pages(CHUNKS_AT_ONCE));
        while let Some(page) = pages.next_page().await? {
            count += page.len() as u64;
        }
        Ok(count)
    }

    async fn enrich(&self) -> Result<()> {
        let (chunks, metadata) =
            (self.plan.keywords > 0 || self.plan.questions > 0, !self.plan.metadata.is_empty());
        if chunks || metadata {
            let models = self.models.directory();
            let model = models.resolve(&self.dataset.key.tenant, &self.plan.model)?;
            if !model.info().writes() {
                let message =
                    "Keywords, questions and metadata need a language model, and none is configured";
                self.warn(message.to_owned());
                return self.add().await;
            }
            if chunks {
                self.enrich_chunks(&*model).await?;
            }
            if metadata {
                self.find_metadata(&*model).await?;
            }
        }
        self.add().await
    }

    async fn enrich_chunks(&self, model: &dyn ChatModel) -> Result<()> {
        let count = self.count().await?;
        let (mut done, mut pages) = (0, self.pages(ENRICHED_AT_ONCE));
        while let Some(page) = pages.next_page().await? {
            done += page.len() as u64;
            let ask = |chunk| async move { enrich::chunk(model, &self.plan, chunk).await }.boxed();
            // Parents are shown in place of their parts and are never found themselves, so keywords for them
            // would be useless.
            let available: Vec<&StoredChunk> = page.iter().filter(|chunk| chunk.available).collect();
            let asked: Vec<BoxFuture<'_, Result<ChunkAdditions>>> =
                available.iter().copied().map(ask).collect();
            // In the order of the chunks, however long each answer takes.
            let added: Vec<_> = futures::stream::iter(asked).buffered(QUESTIONS_AT_ONCE).collect().await;
            let (mut amended, mut broken) = (Vec::new(), None);
            for (chunk, added) in available.into_iter().zip(added) {
                match self.bearable(added) {
                    Ok(Some(ChunkAdditions { keywords, questions })) => {
                        amended.push(Amended { id: chunk.id.clone(), keywords, questions, vector: None });
                    }
                    Ok(None) => {}
                    Err(error) => broken = Some(error),
                }
            }
            // Answers are stored even if others failed. Only what is stored counts as progress, which
            // excludes chunks that had everything already.
            amended.retain(|one| one.keywords.is_some() || one.questions.is_some());
            self.amend(&amended).await?;
            if let Some(error) = broken {
                return Err(error);
            }
            self.say(self.stage(), part(done, count), &format!(": {done} of {}", plural(count, "chunk")));
        }
        Ok(())
    }

    /// Handles a model's answer: the document is completed without what a model cannot answer.
    fn bearable<T>(&self, answer: Result<T>) -> Result<Option<T>> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(error)
                if matches!(error.kind, ErrorKind::Invalid | ErrorKind::Filtered | ErrorKind::Garbled) =>
            {
                self.warn(format!("The model could not answer: {}", error.full()));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn find_metadata(&self, model: &dyn ChatModel) -> Result<()> {
        let store = &self.library.parts.store;
        let key = &self.taken.document.key;
        let known = store.document(key).await?.metadata;
        // What users or an earlier processing have filled in takes precedence over the answer, so the model
        // need not be paid.
        if self.plan.metadata.iter().all(|(wanted, _)| known.contains_key(wanted)) {
            return Ok(());
        }
        let page = self.pages(FIRST_CHUNKS).next_page().await?.unwrap_or_default();
        let text: Vec<_> = page.iter().filter(|chunk| chunk.available).map(|chunk| &*chunk.content).collect();
        let found = enrich::metadata(model, &self.plan, &text.join("\n\n")).await;
        match self.bearable(found)? {
            Some(metadata) => self.add_metadata(metadata).await,
            None => Ok(()),
        }
    }

    async fn add_metadata(&self, metadata: Metadata) -> Result<()> {
        if metadata.is_empty() {
            return Ok(());
        }
        let store = &self.library.parts.store;
        let key = &self.taken.document.key;
        let _lock = self.library.lock(key).await;
        changes::made("document", || async {
            let there = store.document(key).await?;
            let mut metadata = metadata.clone();
            // What users have written takes precedence, including what they wrote while the model was asked.
            metadata.extend(there.metadata);
            let (revision, metadata) = (Some(there.revision), Some(metadata));
            let change = DocumentChange { revision, metadata, ..DocumentChange::default() };
            self.library.change_document(key, &change).await
        })
        .await
        .map(drop)
    }

    /// Builds whatever else is derived from the document.
    async fn add(&self) -> Result<()> {
        let parts = &self.library.parts;
        let document = &self.taken.document;
        if of_dataset::is_of_dataset(document) {
            return self.resolve_names().await;
        }
        if !self.plan.additions {
            return Ok(());
        }
        let (mut chunks, mut pages) = (Vec::new(), self.pages(CHUNKS_AT_ONCE));
        while let Some(page) = pages.next_page().await? {
            // A parent repeats the text of its parts.
            chunks.extend(page.into_iter().filter(|chunk| chunk.available));
        }
        for addition in &parts.additions {
            if !addition.wanted(&document.settings) {
                continue;
            }
            let made = addition.make(self.models.directory(), document, &chunks).await;
            if let Some(made) = self.bearable(made)? {
                let value = self.told(made);
                parts.queue.put_new_extra(&self.taken.lease, addition.extra(), &value).await?;
            }
        }
        Ok(())
    }

    /// Returns what was derived from the document, after warning of what is missing from it.
    fn told(&self, made: MadeAddition) -> Json {
        made.notes.iter().for_each(|note| self.warn(format!("Incomplete: {note}")));
        made.value
    }

    async fn embed(&self) -> Result<()> {
        let embedder = self.models.directory().embedder(&self.dataset.key.tenant, &self.dataset.embedder)?;
        let count = self.count().await?;
        let mut name: Option<Vec<f32>> = None;
        let (mut done, mut pages) = (0, self.pages(TEXTS_AT_ONCE));
        while let Some(page) = pages.next_page().await? {
            done += page.len() as u64;
            let lacking: Vec<StoredChunk> =
                page.into_iter().filter(|chunk| chunk.available && chunk.vector.is_none()).collect();
            if !lacking.is_empty() {
                // Computed once, and only when a chunk lacks its vector.
                if name.is_none() && self.plan.name_share > 0.0 {
                    let stem = stem(&self.taken.document.name).to_owned();
                    name = vectors(&*embedder, &[stem]).await?.pop();
                }
                self.embed_some(&*embedder, &lacking, name.as_deref()).await?;
            }
            let detail = format!(": {done} of {}", plural(count, "chunk"));
            self.say(IngestStage::Embedding, part(done, count), &detail);
        }
        Ok(())
    }

    async fn embed_some(
        &self,
        embedder: &dyn Embedder,
        chunks: &[StoredChunk],
        name: Option<&[f32]>,
    ) -> Result<()> {
        let texts: Vec<String> = chunks.iter().map(embed::text).collect();
        let made = vectors(embedder, &texts).await?;
        let with = |(chunk, vector): (&StoredChunk, Vec<f32>)| Amended {
            id: chunk.id.clone(),
            keywords: None,
            questions: None,
            vector: Some(embed::mixed(vector, name, self.plan.name_share)),
        };
        let amended: Vec<Amended> = chunks.iter().zip(made).map(with).collect();
        self.amend(&amended).await
    }
}

fn part(done: u64, count: u64) -> f64 {
    if count == 0 { 1.0 } else { done as f64 / count as f64 }
}

/// Returns one vector for each text.
pub(super) async fn vectors(embedder: &dyn Embedder, texts: &[String]) -> Result<Vec<Vec<f32>>> {
    let made = embedder.embed(EmbeddingPurpose::Passage, texts).await?.vectors;
    if made.len() != texts.len() {
        let (returned, sent) = (plural(made.len(), "vector"), plural(texts.len(), "text"));
        let message = format!("the embedder returned {returned} for {sent}");
        return Err(Error::new(ErrorKind::Garbled, message));
    }
    Ok(made)
}
