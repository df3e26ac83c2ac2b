//! The public face: datasets, their documents and chunks, with the index in step.

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

/// What a library is made of.
#[derive(Clone)]
pub struct LibraryParts {
    /// Where datasets, documents and chunks are kept.
    pub store: Arc<dyn DatasetStore>,
    /// Where documents wait to be read; another face of the store.
    pub queue: Arc<dyn IngestQueue>,
    /// Where the files are.
    pub blobs: Arc<dyn BlobStore>,
    /// What is searched.
    pub index: Arc<dyn Index>,
    /// Reads files.
    pub reader: Arc<dyn DocumentReader>,
    /// Models that write keywords and make vectors.
    pub models: Arc<dyn ModelDirectory>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// What else is made of documents when their settings ask for it.
    pub additions: Vec<Arc<dyn Addition>>,
}

/// What a library takes.
#[derive(Clone, Copy, Debug)]
pub struct LibraryLimits {
    /// Bytes of a file, at most.
    pub file_bytes_max: u64,
    /// Bytes of the documents of a tenant with the pictures that are kept beside them, beyond which no further picture is kept;
    /// 0: any.
    pub tenant_bytes_max: u64,
}

impl Default for LibraryLimits {
    fn default() -> Self {
        // What clients of the compatible API are used to send.
        Self { file_bytes_max: 128 << 20, tenant_bytes_max: 0 }
    }
}

/// What becomes of a new name that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// It is refused.
    Exact,
    /// It gets a number: `name(1)`.
    Numbered,
}

/// Datasets with everything that belongs to them. All changes go through here, so that index and files
/// follow what is kept. A clone is another handle to the same library.
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
    /// A library of these parts.
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

    /// The same library, which notes here what its work uses of models.
    #[must_use]
    pub fn noting_usage(self, uses: Arc<dyn UsageStore>) -> Self {
        Self { uses: Some(uses), ..self }
    }

    /// Its models, for work on a dataset that notes what it uses of them.
    pub(super) fn models_for(&self, dataset: &DatasetKey) -> WorkModels {
        let owner = UsageOwner::Dataset(dataset.clone());
        WorkModels::new(Arc::clone(&self.parts.models), self.uses.clone(), owner)
    }

    /// What has become of the work on its documents in this process.
    pub fn counts(&self) -> &IngestCounts {
        &self.counts
    }

    /// What is kept, for reading. Who changes it here leaves the index behind.
    pub fn store(&self) -> &Arc<dyn DatasetStore> {
        &self.parts.store
    }

    /// Bytes of a file, at most.
    pub fn file_bytes_max(&self) -> u64 {
        self.limits.file_bytes_max
    }

    /// Whether the ending of a file's name is that of a kind which is read.
    pub fn knows(&self, name: &str) -> bool {
        self.parts.reader.knows(name)
    }

    /// The index, for searching.
    pub fn index(&self) -> &Arc<dyn Index> {
        &self.parts.index
    }

    /// What the index calls the one by which a dataset is searched now. To be asked for after what is kept has changed: a
    /// dataset whose vectors were made anew is in another one.
    pub(super) async fn index_of(&self, dataset: &DatasetKey) -> Result<DatasetKey> {
        Ok(self.parts.store.dataset_uncounted(dataset).await?.index())
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.parts.clock.now_ms()
    }

    /// The right to change what the index holds of a document.
    pub(super) async fn lock(&self, document: &DocumentKey) -> OwnedMutexGuard<()> {
        self.locks.lock(document).await
    }

    /// Makes a change to its end, also when whoever asked for it has gone meanwhile: half a change would
    /// leave the index behind until it is mended.
    pub(super) async fn whole<T, F>(&self, change: impl FnOnce(Self) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let done = self.changes.spawn(change(self.clone()).in_current_span()).await;
        done.map_err(|cause| Error::internal("a change of a dataset stopped unexpectedly").because(cause))?
    }

    /// Waits for changes that are under way.
    pub(super) async fn changed(&self) {
        self.changes.close();
        self.changes.wait().await;
    }

    /// Keeps a new dataset, which is stamped with the time. As it is then.
    ///
    /// # Errors
    /// `Conflict` for a name that the tenant has, unless it may be numbered; `NotFound` for an embedder
    /// that is not there.
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

    /// Changes a dataset: `change` says what it is to be, of what it is. It is asked again when somebody else changes the
    /// dataset meanwhile. As it is then.
    ///
    /// # Errors
    /// `NotFound`; those of `change`; as [`Library::update_dataset`].
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

    /// Replaces what is known of a dataset that is still at the revision of `dataset`. As it is then; absent when somebody
    /// has changed it in the meantime.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` for a name that another one has, and for another embedder while it has
    /// chunks or documents that are being read: their vectors could not be compared with new ones.
    pub async fn update_dataset(&self, dataset: Dataset) -> Result<Option<Dataset>> {
        let before = self.parts.store.dataset(&dataset.key).await?;
        // Its embedder may be the one before all vectors were made anew, which is no change that anybody asks for.
        if (before.revision, before.generation) != (dataset.revision, dataset.generation) {
            return Ok(None);
        }
        let mut changed = Dataset { updated_ms: self.now_ms(), ..dataset };
        // Two names of one model are no other model.
        if changed.embedder != before.embedder {
            self.check_embedder(&mut changed)?;
        }
        // The store looks at the revision once more: another process may have been faster since the look above. Whether the
        // embedder may be another one only the store can say, where no document is queued between its look and its change.
        if !self.parts.store.update(&changed).await? {
            return Ok(None);
        }
        self.parts.store.dataset(&changed.key).await.map(Some)
    }

    /// The name of its embedder as that says it itself.
    fn check_embedder(&self, dataset: &mut Dataset) -> Result<()> {
        if !dataset.embedder.is_empty() {
            let embedder = self.parts.models.embedder(&dataset.key.tenant, &dataset.embedder)?;
            embedder.name().clone_into(&mut dataset.embedder);
        }
        Ok(())
    }

    /// The file of a document.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn file(&self, key: &DocumentKey) -> Result<Bytes> {
        let document = self.parts.store.document(key).await?;
        self.parts.blobs.get(&key.dataset.tenant, &document.blob).await
    }

    /// Changes a document; its chunks are found by what they are then. Another method takes it back to
    /// where it was before it was read.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when another one of the dataset has this name, when it is not at the revision of the change
    /// any more, and for another method or other settings while the document is being read.
    pub async fn update_document(&self, key: &DocumentKey, change: &DocumentChange) -> Result<Document> {
        self.try_document(key, change).await?.ok_or_else(|| changes::overtaken("document"))
    }

    /// Changes a document: `change` says what is to be changed, of what it is, if anything is. It is asked again when somebody
    /// else changes the document meanwhile. As it is then.
    ///
    /// # Errors
    /// Those of `change`; as [`Library::update_document`].
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

    /// Makes the same change of several documents, one after the other, each as [`Library::rework_document`] does. Those that are
    /// gone by then are passed over. How many have changed.
    ///
    /// # Errors
    /// Those of `change`; as [`Library::update_document`], but for documents that are gone. What has changed before stays so.
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

    /// As [`Library::update_document`]; absent when the document is not at the revision of the change any more, and then
    /// nothing was changed.
    ///
    /// # Errors
    /// As [`Library::update_document`], but for that.
    pub async fn try_document(&self, key: &DocumentKey, change: &DocumentChange) -> Result<Option<Document>> {
        let (key, change) = (key.clone(), change.clone());
        let change = async move |library: Self| {
            let _lock = library.lock(&key).await;
            let changed = library.change_document(&key, &change).await?;
            if changed.as_ref().is_some_and(|changed| !changed.enabled) {
                // A summary would go on saying what the document says that is found no more.
                library.remove_summaries_of(&key).await?;
            }
            Ok(changed)
        };
        self.whole(change).await
    }

    /// Takes documents back to where they were before they were read.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` while one is being read.
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

    /// Asks for documents to be read, from the beginning or from where they were paused. Which ones were
    /// queued; the others are being read already.
    ///
    /// # Errors
    /// `NotFound` naming a document that is not there, and then none is queued.
    pub async fn queue(&self, dataset: &DatasetKey, ids: &[DocumentId]) -> Result<Vec<DocumentId>> {
        let queued = self.parts.queue.queue(dataset, ids, self.now_ms()).await?;
        // After it is stored: whoever wakes up looks there.
        self.wake.notify_waiters();
        Ok(queued)
    }

    /// Asks for a document to be stopped; a worker hears of it within a second.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when it is neither waiting, being read nor paused.
    pub async fn stop(&self, document: &DocumentKey, wanted: Wanted) -> Result<()> {
        self.parts.queue.stop(document, wanted, self.now_ms()).await
    }

    /// All datasets of all tenants.
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
