//! Summaries over all documents of a dataset, and what names of their graphs mean the same, are made anew when these
//! documents change.
//!
//! Each change of a document notes its dataset here, and a worker looks at the noted ones: where the documents that take part
//! are others than those that the summaries were made of, the document with the summaries is queued like any other, when
//! nothing else of the dataset is being read. What a process forgets that ends in between, the next one finds that starts.

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

/// Documents that are looked at together.
const PAGE: u64 = 200;

/// Datasets of which documents have changed since their summaries were looked at.
#[derive(Debug, Default)]
pub(super) struct ChangedDatasets(Mutex<HashSet<DatasetKey>>);

impl ChangedDatasets {
    fn lock(&self) -> MutexGuard<'_, HashSet<DatasetKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The documents of a dataset that something is made of together.
#[derive(Debug, Default)]
pub(super) struct SummarizedDocuments {
    /// The names of those that are summed up.
    pub(super) names: HashMap<DocumentId, String>,
    /// In the order in which they were added.
    ids: Vec<DocumentId>,
    /// Of what they hold.
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
            // What is made of them is no table, whatever they are.
            raptor.remove("auto_disable_for_structured_data");
        }
    }

    /// What is another one when the documents are others, or hold something else.
    pub(super) fn stamp(&self) -> Json {
        Json::from(weft_core::hex(&self.hasher.finalize().as_bytes()[..16]))
    }

    pub(super) fn keys(&self, dataset: &DatasetKey) -> Vec<DocumentKey> {
        self.ids.iter().map(|id| DocumentKey::new(dataset, id.clone())).collect()
    }
}

/// What has become of a dataset that was looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looked {
    /// There is nothing to do, or it is queued.
    Settled,
    /// Something of it is being read.
    Later,
}

impl Library {
    /// Notes that something of a document has changed that summaries may be of.
    pub(super) fn document_changed(&self, key: &DocumentKey) {
        // What is made of the others is no reason to make it again.
        if key.id != dataset::document_id(&key.dataset) {
            self.summaries.lock().insert(key.dataset.clone());
        }
    }

    /// Notes that the summaries of a dataset may be others.
    pub(super) fn look_at_summaries(&self, key: &DatasetKey) {
        self.summaries.lock().insert(key.clone());
    }

    /// Notes that people have changed chunks of a document, which its counts and times do not tell.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub(super) async fn chunks_changed(&self, document: &DocumentKey) -> Result<()> {
        let key = DocumentKey::new(&document.dataset, dataset::document_id(&document.dataset));
        // Hardly any dataset has such a document, so it is looked for before anything is written. One that comes after this
        // look reads the chunks as they are now.
        if key.id != document.id && found(self.parts.store.document(&key).await)?.is_some() {
            found(self.parts.store.put_extra(&key, Extra::Summaries, &Json::Null).await)?;
        }
        Ok(())
    }

    /// Whether summaries are to be looked at.
    pub(super) fn has_changed_datasets(&self) -> bool {
        !self.summaries.lock().is_empty()
    }

    /// Has the summaries of changed datasets made anew that are not what they would be now.
    pub(super) async fn renew_summaries(&self) -> Result<()> {
        let noted: Vec<DatasetKey> = self.summaries.lock().iter().cloned().collect();
        let mut outcome = Ok(());
        for key in noted {
            // What changes from here on is noted again.
            self.summaries.lock().remove(&key);
            match self.renew_of(&key).await {
                Ok(Looked::Settled) => {}
                Ok(Looked::Later) => self.look_at_summaries(&key),
                // One whose index takes nothing must not keep the others from theirs.
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
        // Each document that is read changes what they would be made of, and each time a model would have to be paid.
        let running = DocumentFilter { states, limit: 1, ..DocumentFilter::default() };
        if store.documents(dataset, &running).await?.1 > 0 {
            return Ok(Looked::Later);
        }
        let taking_part = self.summarized_documents(dataset).await?;
        let settings = &taking_part.settings;
        // Summaries need vectors; to compare names a model is enough.
        if within.embedder.is_empty() && !settings.contains_key("graphrag") {
            return Ok(Looked::Settled);
        }
        if settings.is_empty() {
            // What nobody asks for any more would go on being found.
            self.remove_documents(dataset, &[key.id]).await?;
            return Ok(Looked::Settled);
        }
        if let Some(known) = known {
            // What people have stopped stays so until they ask for it.
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

    /// Has the summaries of a dataset looked at, even when somebody has stopped them or they have failed, as soon as
    /// nothing of it is being read any more.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn ask_for_summaries(&self, dataset: &DatasetKey) -> Result<()> {
        let key = DocumentKey::new(dataset, dataset::document_id(dataset));
        match found(self.parts.store.document(&key).await)? {
            Some(known) if known.state != DocumentState::Running => {
                // Without a stamp it is not what it would be now, so the next look has it made anew.
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

    /// Whether the document with the summaries was added, and not by somebody else at the same time.
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

    /// The documents that something is made of together.
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

    /// Takes away the summaries that may say something of a document that is found no more: nobody waits for better ones
    /// to be made.
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
