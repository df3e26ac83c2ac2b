//! The public interface: datasets, their documents and chunks, with the index kept in step.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Notify, OwnedMutexGuard};
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;
use weft_core::error::found;
use weft_core::id::{DatasetKey, DocumentId, DocumentKey, TenantId};
use weft_core::seam::dataset_store::{Counting, Dataset, DatasetFilter, Document, DocumentChange};
use weft_core::seam::ingest_queue::Wanted;
use weft_core::seam::{
    BlobStore, Clock, DatasetStore, DocumentReader, Index, IngestQueue, ModelDirectory, UsageStore,
};
use weft_core::usage::UsageOwner;
use weft_core::{Error, Result, changes};

use super::behind::Behind;
use super::counts::IngestCounts;
use super::enrich::Addition;
use super::gather::Arrivals;
use super::locks::Locks;
use super::naming::{WantedName, under_free_name};
use super::summaries::ChangedDatasets;
use crate::used::WorkModels;

/// The parts that a library is built from.
#[derive(Clone)]
pub struct LibraryParts {
    /// Stores datasets, documents and chunks.
    pub store: Arc<dyn DatasetStore>,
    /// Queues documents to be processed; another interface of the store.
    pub queue: Arc<dyn IngestQueue>,
    /// Stores the files.
    pub blobs: Arc<dyn BlobStore>,
    /// The search index.
    pub index: Arc<dyn Index>,
    /// Reads files.
    pub reader: Arc<dyn DocumentReader>,
    /// Models that write keywords and compute vectors.
    pub models: Arc<dyn ModelDirectory>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// What else is derived from documents if their settings ask for it.
    pub additions: Vec<Arc<dyn Addition>>,
}

/// Limits on what tenants may store.
#[derive(Clone, Copy, Debug)]
pub struct LibraryLimits {
    /// Maximum size of a file, in bytes.
    pub file_bytes_max: u64,
    /// Maximum size in bytes of a tenant's documents and the pictures stored beside them, beyond which no
    /// further picture is stored; 0 means no limit.
    pub tenant_bytes_max: u64,
}

impl Default for LibraryLimits {
    fn default() -> Self {
        // As large as clients of the compatible API expect.
        Self { file_bytes_max: 128 << 20, tenant_bytes_max: 0 }
    }
}

/// How a new name that already exists is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// It is rejected.
    Exact,
    /// It gets a number: `name(1)`.
    Numbered,
}

/// Datasets with everything that belongs to them. All changes go through here, so that the index and the
/// files follow what is stored. A clone is another handle to the same library.
#[derive(Clone)]
pub struct Library {
    pub(super) parts: LibraryParts,
    pub(super) limits: LibraryLimits,
    pub(super) uses: Option<Arc<dyn UsageStore>>,
    pub(super) counts: Arc<IngestCounts>,
    pub(super) locks: Arc<Locks>,
    pub(super) arrivals: Arc<Arrivals>,
    pub(super) behind: Arc<Behind>,
    pub(super) summaries: Arc<ChangedDatasets>,
    pub(super) wake: Arc<Notify>,
    pub(super) changes: TaskTracker,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").finish_non_exhaustive()
    }
}

impl Library {
    /// Creates a library from these parts.
    pub fn new(parts: LibraryParts, limits: LibraryLimits) -> Self {
        Self {
            parts,
            limits,
            uses: None,
            counts: Arc::default(),
            locks: Arc::default(),
            arrivals: Arc::default(),
            behind: Arc::default(),
            summaries: Arc::default(),
            wake: Arc::default(),
            changes: TaskTracker::new(),
        }
    }

    /// Returns the library with usage tracking: its work reports model usage to `uses`.
    #[must_use]
    pub fn noting_usage(self, uses: Arc<dyn UsageStore>) -> Self {
        Self { uses: Some(uses), ..self }
    }

    /// Returns its models for work on a dataset, with usage tracking.
    pub(super) fn models_for(&self, dataset: &DatasetKey) -> WorkModels {
        let owner = UsageOwner::Dataset(dataset.clone());
        WorkModels::new(Arc::clone(&self.parts.models), self.uses.clone(), owner)
    }

    /// Returns the counters of this process's work on its documents.
    pub fn counts(&self) -> &IngestCounts {
        &self.counts
    }

    /// Returns the store, for reading only: a change made there directly is not reflected in the index.
    pub fn store(&self) -> &Arc<dyn DatasetStore> {
        &self.parts.store
    }

    /// Maximum size of a file, in bytes.
    pub fn file_bytes_max(&self) -> u64 {
        self.limits.file_bytes_max
    }

    /// Whether the extension of a file's name is that of a supported format.
    pub fn knows(&self, name: &str) -> bool {
        self.parts.reader.knows(name)
    }

    /// Returns the index, for searching.
    pub fn index(&self) -> &Arc<dyn Index> {
        &self.parts.index
    }

    /// Returns the key of the index by which a dataset is currently searched. Must be read after what is
    /// stored has changed: a dataset with rebuilt vectors is in another index.
    pub(super) async fn index_of(&self, dataset: &DatasetKey) -> Result<DatasetKey> {
        Ok(self.parts.store.dataset_uncounted(dataset).await?.index())
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.parts.clock.now_ms()
    }

    /// Acquires the right to change what the index holds of a document.
    pub(super) async fn lock(&self, document: &DocumentKey) -> OwnedMutexGuard<()> {
        self.locks.lock(document).await
    }

    /// Completes a change even if its caller goes away: half a change would leave the index behind until it
    /// is repaired.
    pub(super) async fn whole<T, F>(&self, change: impl FnOnce(Self) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let done = self.changes.spawn(change(self.clone()).in_current_span()).await;
        done.map_err(|cause| Error::internal("a change of a dataset stopped unexpectedly").because(cause))?
    }

    /// Waits for changes in progress.
    pub(super) async fn changed(&self) {
        self.changes.close();
        self.changes.wait().await;
    }

    /// Stores a new dataset, stamped with the current time, and returns it.
    ///
    /// # Errors
    /// `Conflict` for a name that the tenant already has, unless it may be numbered; `NotFound` for an
    /// embedder that does not exist.
    pub async fn create_dataset(&self, dataset: Dataset, naming: Naming) -> Result<Dataset> {
        let now_ms = self.now_ms();
        let mut made = Dataset { created_ms: now_ms, updated_ms: now_ms, ..dataset };
        self.check_embedder(&mut made)?;
        let store = |name: String| {
            let named = Dataset { name, ..made.clone() };
            async move { self.parts.store.create(&named).await.map(|()| named) }
        };
        match naming {
            Naming::Exact => store(made.name.clone()).await,
            Naming::Numbered => {
                let with_number = |name: &str, number: u32| format!("{name}({number})");
                let wanted = WantedName { name: &made.name, with_number };
                under_free_name(wanted, store, |name| self.has_dataset(&made.key.tenant, name)).await
            }
        }
    }

    async fn has_dataset(&self, tenant: &TenantId, name: String) -> Result<bool> {
        let counting = Counting::Without;
        let filter = DatasetFilter { name: Some(name), counting, limit: 1, ..DatasetFilter::default() };
        Ok(!self.parts.store.datasets(tenant, &filter).await?.0.is_empty())
    }

    /// Changes a dataset and returns it: `change` computes the new dataset from the current one. It is called
    /// again if the dataset is changed concurrently.
    ///
    /// # Errors
    /// `NotFound`; errors of `change`; otherwise as [`Library::update_dataset`].
    pub async fn change_dataset<E: From<Error>>(
        &self,
        key: &DatasetKey,
        change: impl Fn(Dataset) -> Result<Dataset, E>,
    ) -> Result<Dataset, E> {
        changes::made("dataset", || async {
            let before = self.parts.store.dataset(key).await?;
            Ok(self.update_dataset(change(before)?).await?)
        })
        .await
    }

    /// Replaces a dataset that is still at the revision of `dataset`, and returns it; `None` if it has been
    /// changed in the meantime.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` for a name that another dataset has, and for another embedder while the dataset
    /// has chunks, or documents that are being processed: their vectors could not be compared with new ones.
    pub async fn update_dataset(&self, dataset: Dataset) -> Result<Option<Dataset>> {
        let before = self.parts.store.dataset(&dataset.key).await?;
        // Its embedder may be the one from before all vectors were rebuilt; that is not a change the caller
        // asked for.
        if (before.revision, before.generation) != (dataset.revision, dataset.generation) {
            return Ok(None);
        }
        let mut changed = Dataset { updated_ms: self.now_ms(), ..dataset };
        // Two names of the same model are not a different model.
        if changed.embedder != before.embedder {
            self.check_embedder(&mut changed)?;
        }
        // The store checks the revision again: another process may have been faster since the check above.
        // Only the store can decide whether the embedder may change, because there no document is queued
        // between its check and its change.
        if !self.parts.store.update(&changed).await? {
            return Ok(None);
        }
        self.parts.store.dataset(&changed.key).await.map(Some)
    }

    /// Replaces the name of its embedder by the name that the embedder itself reports.
    fn check_embedder(&self, dataset: &mut Dataset) -> Result<()> {
        if !dataset.embedder.is_empty() {
            let embedder = self.parts.models.embedder(&dataset.key.tenant, &dataset.embedder)?;
            embedder.name().clone_into(&mut dataset.embedder);
        }
        Ok(())
    }

    /// Returns the file of a document.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn file(&self, key: &DocumentKey) -> Result<Bytes> {
        let document = self.parts.store.document(key).await?;
        self.parts.blobs.get(&key.dataset.tenant, &document.blob).await
    }

    /// Changes a document; its chunks are found according to the changed document. Another method resets it
    /// to its state before it was processed.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when another document of the dataset has this name, when the document is no
    /// longer at the revision of the change, and for another method or other settings while it is being
    /// processed.
    pub async fn update_document(&self, key: &DocumentKey, change: &DocumentChange) -> Result<Document> {
        self.try_document(key, change).await?.ok_or_else(|| changes::overtaken("document"))
    }

    /// Changes a document and returns it: `change` computes the change from the current document, if there is
    /// anything to change. It is called again if the document is changed concurrently.
    ///
    /// # Errors
    /// Errors of `change`; otherwise as [`Library::update_document`].
    pub async fn rework_document<E: From<Error>>(
        &self,
        key: &DocumentKey,
        change: impl Fn(&Document) -> Result<Option<DocumentChange>, E>,
    ) -> Result<Document, E> {
        changes::made("document", || async {
            let before = self.parts.store.document(key).await?;
            let Some(change) = change(&before)? else { return Ok(Some(before)) };
            let change = DocumentChange { revision: Some(before.revision), ..change };
            Ok(self.try_document(key, &change).await?)
        })
        .await
    }

    /// Makes the same change to several documents, one after the other, each as with
    /// [`Library::rework_document`]. Documents that have been removed by then are skipped. Returns how many
    /// have changed.
    ///
    /// # Errors
    /// Errors of `change`; otherwise as [`Library::update_document`], except for removed documents. Earlier
    /// changes are kept.
    pub async fn rework_documents<E: From<Error>>(
        &self,
        dataset: &DatasetKey,
        ids: &[DocumentId],
        change: impl Fn(&Document) -> Result<Option<DocumentChange>, E>,
    ) -> Result<u64, E> {
        let mut count = 0;
        for id in ids {
            let key = DocumentKey::new(dataset, id.clone());
            let changed: Result<u64, E> = changes::made("document", || async {
                let Some(before) = found(self.parts.store.document(&key).await)? else { return Ok(Some(0)) };
                let Some(change) = change(&before)? else { return Ok(Some(0)) };
                let change = DocumentChange { revision: Some(before.revision), ..change };
                match found(self.try_document(&key, &change).await)? {
                    None => Ok(Some(0)),
                    Some(changed) => Ok(changed.map(|_| 1)),
                }
            })
            .await;
            count += changed?;
        }
        Ok(count)
    }

    /// Like [`Library::update_document`], but returns `None`, with nothing changed, when the document is no
    /// longer at the revision of the change.
    ///
    /// # Errors
    /// As [`Library::update_document`], except for that case.
    pub async fn try_document(&self, key: &DocumentKey, change: &DocumentChange) -> Result<Option<Document>> {
        let (key, change) = (key.clone(), change.clone());
        let change = async move |library: Self| {
            let _lock = library.lock(&key).await;
            let changed = library.change_document(&key, &change).await?;
            if changed.as_ref().is_some_and(|changed| !changed.enabled) {
                // A summary would still contain statements of the document, which is no longer found.
                library.remove_summaries_of(&key).await?;
            }
            Ok(changed)
        };
        self.whole(change).await
    }

    /// Resets documents to their state before they were processed.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` while one of them is being processed.
    pub async fn reset_documents(&self, dataset: &DatasetKey, ids: &[DocumentId]) -> Result<()> {
        for id in ids {
            let key = DocumentKey::new(dataset, id.clone());
            let reset = async move |library: Self| {
                let _lock = library.lock(&key).await;
                library.reset_document(&key).await?;
                library.remove_summaries_of(&key).await
            };
            self.whole(reset).await?;
        }
        Ok(())
    }

    /// Queues documents for processing, from the beginning or from where they were paused. Returns those that
    /// were queued; the others are being processed already.
    ///
    /// # Errors
    /// `NotFound` naming a document that does not exist, in which case none is queued.
    pub async fn queue(&self, dataset: &DatasetKey, ids: &[DocumentId]) -> Result<Vec<DocumentId>> {
        let queued = self.parts.queue.queue(dataset, ids, self.now_ms()).await?;
        // After it is stored: a worker that is woken up looks there.
        self.wake.notify_waiters();
        Ok(queued)
    }

    /// Requests that the work on a document stop; its worker notices within a second.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when it is neither queued, being processed nor paused.
    pub async fn stop(&self, document: &DocumentKey, wanted: Wanted) -> Result<()> {
        self.parts.queue.stop(document, wanted, self.now_ms()).await
    }

    /// Returns all datasets of all tenants.
    pub(super) async fn every_dataset(&self) -> Result<Vec<DatasetKey>> {
        const PAGE: u64 = 200;
        let mut all = Vec::new();
        for tenant in self.parts.store.tenants().await? {
            for offset in (0..).step_by(PAGE as usize) {
                let filter = DatasetFilter {
                    ascending: true,
                    offset,
                    limit: PAGE,
                    counting: Counting::Without,
                    ..DatasetFilter::default()
                };
                let (page, _) = self.parts.store.datasets(&tenant, &filter).await?;
                let last = (page.len() as u64) < PAGE;
                all.extend(page.into_iter().map(|dataset| dataset.key));
                if last {
                    break;
                }
            }
        }
        Ok(all)
    }
}
