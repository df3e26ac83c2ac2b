//! Rebuilds summaries over all documents of a dataset, and the synonyms found across their graphs, when these
//! documents change.
//!
//! Each change of a document notes its dataset here, and a worker examines the noted ones: if the
//! participating documents differ from those that the summaries were built from, the document with the
//! summaries is queued like any other, once nothing else of the dataset is being processed. Notes lost when a
//! process ends are recreated by the next process that starts.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use weft_core::error::found;
use weft_core::id::{DatasetKey, DocumentId, DocumentKey};
use weft_core::seam::dataset_store::{
    ChunkFilter, Dataset, Document, DocumentChange, DocumentFilter, DocumentQuota, DocumentState, Extra,
    Settings,
};
use weft_core::seam::document_reader::ChunkMethod;
use weft_core::{ErrorKind, Json, Result};

use super::indexing::CHUNKS_AT_ONCE;
use super::library::{Library, Naming};
use super::upload::NewDocument;
use crate::raptor::dataset::{self, FILE, NAME, is_resolved, is_summed_up, is_wanted, may_be_of};

/// Number of documents examined at a time.
const PAGE: u64 = 200;

/// Datasets whose documents have changed since their summaries were checked.
#[derive(Debug, Default)]
pub(super) struct ChangedDatasets(Mutex<HashSet<DatasetKey>>);

impl ChangedDatasets {
    fn lock(&self) -> MutexGuard<'_, HashSet<DatasetKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The documents of a dataset from which something is built jointly.
#[derive(Debug, Default)]
pub(super) struct SummarizedDocuments {
    /// The names of those that are summarized.
    pub(super) names: HashMap<DocumentId, String>,
    /// Ids, in the order in which the documents were added.
    ids: Vec<DocumentId>,
    /// Hash of what they contain.
    hasher: blake3::Hasher,
    /// What the first of them ask for.
    settings: Settings,
}

impl SummarizedDocuments {
    fn add(&mut self, document: Document) {
        let counts = format!("{} {} {}", document.updated_ms, document.chunk_count, document.token_count);
        for part in [document.key.id.as_str(), &counts] {
            self.hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        if is_resolved(&document) {
            self.ask("graphrag", &document);
        }
        if is_summed_up(&document) {
            self.ask("raptor", &document);
            self.ids.push(document.key.id.clone());
            self.names.insert(document.key.id, document.name);
        }
    }

    fn ask(&mut self, section: &str, document: &Document) {
        if self.settings.contains_key(section) {
            return;
        }
        for key in [section, "llm_id"] {
            if let Some(value) = document.settings.get(key) {
                self.settings.entry(key).or_insert_with(|| value.clone());
            }
        }
        if let Some(Json::Object(raptor)) = self.settings.get_mut("raptor") {
            // The summaries are not structured data, whatever the documents are.
            raptor.remove("auto_disable_for_structured_data");
        }
    }

    /// Returns a value that changes when the set of documents, or what they contain, changes.
    pub(super) fn stamp(&self) -> Json {
        Json::from(weft_core::hex(&self.hasher.finalize().as_bytes()[..16]))
    }

    pub(super) fn keys(&self, dataset: &DatasetKey) -> Vec<DocumentKey> {
        self.ids.iter().map(|id| DocumentKey::new(dataset, id.clone())).collect()
    }
}

/// The outcome of checking a dataset.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looked {
    /// There is nothing to do, or it is queued.
    Settled,
    /// Part of it is being processed.
    Later,
}

impl Library {
    /// Notes that a document has changed in a way that may affect summaries.
    pub(super) fn document_changed(&self, key: &DocumentKey) {
        // A change of the document that is built from the others is no reason to rebuild it.
        if key.id != dataset::document_id(&key.dataset) {
            self.summaries.lock().insert(key.dataset.clone());
        }
    }

    /// Notes that the summaries of a dataset may be outdated.
    pub(super) fn look_at_summaries(&self, key: &DatasetKey) {
        self.summaries.lock().insert(key.clone());
    }

    /// Notes that chunks of a document were changed by hand, which its counts and times do not show.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub(super) async fn chunks_changed(&self, document: &DocumentKey) -> Result<()> {
        let key = DocumentKey::new(&document.dataset, dataset::document_id(&document.dataset));
        // Few datasets have such a document, so its existence is checked before anything is written. One
        // created after this check reads the chunks as they are now.
        if key.id != document.id && found(self.parts.store.document(&key).await)?.is_some() {
            found(self.parts.store.put_extra(&key, Extra::Summaries, &Json::Null).await)?;
        }
        Ok(())
    }

    /// Whether there are summaries to check.
    pub(super) fn has_changed_datasets(&self) -> bool {
        !self.summaries.lock().is_empty()
    }

    /// Queues the outdated summaries of changed datasets to be rebuilt.
    pub(super) async fn renew_summaries(&self) -> Result<()> {
        let noted: Vec<DatasetKey> = self.summaries.lock().iter().cloned().collect();
        let mut outcome = Ok(());
        for key in noted {
            // Changes from here on are noted again.
            self.summaries.lock().remove(&key);
            match self.renew_of(&key).await {
                Ok(Looked::Settled) => {}
                Ok(Looked::Later) => self.look_at_summaries(&key),
                // A dataset whose index accepts nothing must not keep the others from being rebuilt.
                Err(error) => {
                    self.look_at_summaries(&key);
                    outcome = outcome.and(Err(error));
                }
            }
        }
        outcome
    }

    async fn renew_of(&self, dataset: &DatasetKey) -> Result<Looked> {
        let store = &self.parts.store;
        let Some(within) = found(store.dataset_uncounted(dataset).await)? else { return Ok(Looked::Settled) };
        let key = DocumentKey::new(dataset, dataset::document_id(dataset));
        let known = found(store.document(&key).await)?;
        if known.is_none() && !is_wanted(&within.settings) {
            return Ok(Looked::Settled);
        }
        let states = vec![DocumentState::Running];
        // Each processed document changes what the summaries would be built from, and every rebuild costs
        // model calls.
        let running = DocumentFilter { states, limit: 1, ..DocumentFilter::default() };
        if store.documents(dataset, &running).await?.1 > 0 {
            return Ok(Looked::Later);
        }
        let taking_part = self.summarized_documents(dataset).await?;
        let settings = &taking_part.settings;
        // Summaries need vectors; comparing names needs only a model.
        if within.embedder.is_empty() && !settings.contains_key("graphrag") {
            return Ok(Looked::Settled);
        }
        if settings.is_empty() {
            // Summaries that are no longer requested would still be found.
            self.remove_documents(dataset, &[key.id]).await?;
            return Ok(Looked::Settled);
        }
        if let Some(known) = known {
            // What was stopped by a user stays stopped until the user requests it.
            let stopped = matches!(known.state, DocumentState::Paused | DocumentState::Cancelled);
            if stopped || store.extra(&key, Extra::Summaries).await? == Some(taking_part.stamp()) {
                return Ok(Looked::Settled);
            }
        } else if !self.add_summaries(&within).await? {
            return Ok(Looked::Later);
        }
        let change = DocumentChange { settings: Some(settings.clone()), ..DocumentChange::default() };
        self.update_document(&key, &change).await?;
        self.queue(dataset, &[key.id]).await?;
        Ok(Looked::Settled)
    }

    /// Requests that the summaries of a dataset be checked, even if they were stopped or have failed, as soon
    /// as nothing of it is being processed.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn ask_for_summaries(&self, dataset: &DatasetKey) -> Result<()> {
        let key = DocumentKey::new(dataset, dataset::document_id(dataset));
        match found(self.parts.store.document(&key).await)? {
            Some(known) if known.state != DocumentState::Running => {
                // Without a stamp it counts as outdated, so the next check rebuilds it.
                self.parts.store.put_extra(&key, Extra::Summaries, &Json::Null).await?;
                if matches!(known.state, DocumentState::Paused | DocumentState::Cancelled) {
                    self.queue(dataset, &[key.id]).await?;
                }
            }
            _ => {}
        }
        self.look_at_summaries(dataset);
        self.wake.notify_waiters();
        Ok(())
    }

    /// Adds the document with the summaries. Returns `false` if another process has added it at the same time.
    async fn add_summaries(&self, within: &Dataset) -> Result<bool> {
        let new = NewDocument {
            id: dataset::document_id(&within.key),
            name: NAME.to_owned(),
            bytes: Bytes::from_static(FILE.as_bytes()),
            method: ChunkMethod::Naive,
            settings: Settings::new(),
            quota: DocumentQuota::default(),
        };
        match self.add_file(&within.key, new, Naming::Numbered).await {
            Err(error) if error.kind == ErrorKind::Conflict => Ok(false),
            added => added.map(|_| true),
        }
    }

    /// Returns the documents from which something is built jointly.
    pub(super) async fn summarized_documents(&self, dataset: &DatasetKey) -> Result<SummarizedDocuments> {
        let mut all = SummarizedDocuments::default();
        for offset in (0..).step_by(PAGE as usize) {
            let filter = DocumentFilter { ascending: true, offset, limit: PAGE, ..DocumentFilter::default() };
            let (page, total) = self.parts.store.documents(dataset, &filter).await?;
            let taking_part = page.into_iter().filter(|one| is_summed_up(one) || is_resolved(one));
            taking_part.for_each(|document| all.add(document));
            if offset + PAGE >= total {
                break;
            }
        }
        Ok(all)
    }

    /// Removes the summaries that may contain statements of a document that is no longer found, without
    /// waiting until new ones are built.
    pub(super) async fn remove_summaries_of(&self, document: &DocumentKey) -> Result<()> {
        let key = DocumentKey::new(&document.dataset, dataset::document_id(&document.dataset));
        if key.id == document.id {
            return Ok(());
        }
        let filter = ChunkFilter { limit: CHUNKS_AT_ONCE, ..ChunkFilter::default() };
        let stale = self.pages(&key, filter).ids(|one| may_be_of(one, &document.id)).await;
        let stale = found(stale)?.unwrap_or_default();
        if !stale.is_empty() {
            found(self.remove_chunks(&key, &stale).await)?;
        }
        Ok(())
    }
}
