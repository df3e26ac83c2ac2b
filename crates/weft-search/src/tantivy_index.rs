//! The embedded index: tantivy for words, and exhaustive comparison of vectors.
//!
//! Each dataset is a separate index in its own folder. It is opened when first needed, and the least recently
//! used datasets are closed when all together take too much memory. A write is one commit of tantivy:
//! whatever was not committed when the process died is gone when it is opened again. What another process has
//! written is seen by the next search, which checks the file system once for changes.

mod dataset;
mod home;
mod lock;
mod pending;
mod schema;
mod search;
mod snapshot;
mod waiting;
mod writer;

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use weft_core::id::{DatasetId, DatasetKey, TenantId};
use weft_core::seam::Index;
use weft_core::seam::index::{IndexAnswer, IndexChange, IndexQuery, IndexSize, TextQuery, WriteConfirmation};
use weft_core::{Error, Result, async_trait, blocking};

use self::dataset::{Freshness, IndexedDataset};
use self::home::Home;
use self::snapshot::Snapshot;
use crate::{HITS_MAX, question};

/// Default limit on the memory taken by all open datasets together, in bytes.
pub const MEMORY_MAX: usize = 1024 * 1024 * 1024;
/// Maximum number of unused datasets that stay open.
const DATASETS_OPEN_MAX: usize = 256;
/// Maximum number of questions answered concurrently; further ones wait.
// Each takes a thread, and a buffer of scores as large as the largest part.
const SEARCHES_AT_ONCE_MAX: usize = 16;

/// An index of chunks by words and vectors, in a folder or in memory.
#[derive(Clone)]
pub struct TantivyIndex {
    shared: Arc<IndexShared>,
}

struct IndexShared {
    folder: Option<PathBuf>,
    memory_max: usize,
    open: Mutex<OpenDatasets>,
    searches: Arc<Semaphore>,
    /// Score buffers, one for each question being answered.
    buffers: Mutex<Vec<Vec<f32>>>,
}

#[derive(Default)]
struct OpenDatasets {
    datasets: HashMap<DatasetKey, OpenedDataset>,
    /// Incremented with every use.
    uses: u64,
}

struct OpenedDataset {
    slot: Slot,
    used: u64,
}

/// A dataset that is open, is being opened, or does not exist. Locked while it is opened, so that only
/// requests for this dataset have to wait.
type Slot = Arc<Mutex<Option<Arc<IndexedDataset>>>>;

impl OpenedDataset {
    /// Whether it holds nothing, and no task is about to change that.
    fn is_vacant(&self) -> bool {
        // If another task holds or waits for the slot, removing it would let the next user open the dataset a
        // second time.
        Arc::strong_count(&self.slot) == 1 && self.slot.try_lock().is_ok_and(|held| held.is_none())
    }

    /// Its size in memory in bytes, as far as known.
    fn bytes(&self) -> usize {
        // Does not wait: a task opening a large dataset holds the slot for long, and this is called under the
        // lock of all datasets.
        let held = self.slot.try_lock().ok();
        held.and_then(|held| Some(held.as_ref()?.snapshot().bytes)).unwrap_or_default()
    }

    /// Its size in bytes if it is not in use.
    fn idle(&self) -> Option<usize> {
        let held = self.slot.try_lock().ok()?;
        let dataset = held.as_ref()?;
        // One handle of each is the one stored here.
        let users = Arc::strong_count(&self.slot) + Arc::strong_count(dataset) - 2;
        (users == 0).then(|| dataset.snapshot().bytes)
    }
}

impl fmt::Debug for TantivyIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TantivyIndex").field("folder", &self.shared.folder).finish_non_exhaustive()
    }
}

impl TantivyIndex {
    /// Creates an index in a folder, which is created by the first write. Several processes may use the
    /// folder: they take turns in writing, and each search sees what any of them has written before.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self::new(Some(folder.into()), MEMORY_MAX)
    }

    /// Creates an index in memory, which is dropped with this value.
    pub fn in_memory() -> Self {
        Self::new(None, usize::MAX)
    }

    /// Like [`TantivyIndex::in_folder`], with another limit on the memory taken by open datasets, in bytes. A
    /// dataset in use stays open, however large it is.
    pub fn in_folder_with(folder: impl Into<PathBuf>, memory_max: usize) -> Self {
        Self::new(Some(folder.into()), memory_max)
    }

    fn new(folder: Option<PathBuf>, memory_max: usize) -> Self {
        let searches = Arc::new(Semaphore::new(SEARCHES_AT_ONCE_MAX));
        let (open, buffers) = (Mutex::default(), Mutex::default());
        Self { shared: Arc::new(IndexShared { folder, memory_max, open, searches, buffers }) }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&IndexShared) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shared = Arc::clone(&self.shared);
        blocking("the work of the index", move || work(&shared)).await
    }
}

/// Whether a dataset that does not exist is created.
#[derive(Clone, Copy, PartialEq)]
enum AbsentDataset {
    Begin,
    Leave,
}

impl IndexShared {
    /// Returns the folder of a dataset. Ids are opaque and may be anything, so their hashes are used.
    fn folder_of(&self, key: &DatasetKey) -> Option<PathBuf> {
        self.folder_of_version(key, schema::VERSION)
    }

    fn folder_of_version(&self, key: &DatasetKey, version: &str) -> Option<PathBuf> {
        // Half of the digest is enough to tell ids apart, and keeps paths short.
        let name = |text: &str| weft_core::hex(&Sha256::digest(text.as_bytes())[..16]);
        let folder = self.folder.as_ref()?.join(name(key.tenant.as_str()));
        Some(folder.join(format!("{}.v{version}", name(key.id.as_str()))))
    }

    /// Removes a dataset's indexes of older versions, which are never read again.
    fn forget_older(&self, key: &DatasetKey) -> Result<()> {
        let mut older =
            schema::OLDER_VERSIONS.iter().filter_map(|version| self.folder_of_version(key, version));
        older.try_for_each(|folder| home::remove(&folder))
    }

    /// Returns the open dataset, and whether its state is still the latest.
    fn dataset(
        &self,
        key: &DatasetKey,
        absent: AbsentDataset,
    ) -> Result<Option<(Arc<IndexedDataset>, Freshness)>> {
        let slot = self.slot(key);
        // Locked while it is opened: opening it twice at the same time would create two writers of one folder.
        let mut held = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dataset) = &*held {
            let freshness = dataset.freshness();
            if freshness != Freshness::Gone {
                return Ok(Some((Arc::clone(dataset), freshness)));
            }
        }
        // Dropped before it is opened again: its open files belong to a folder that is gone.
        *held = None;
        let folder = self.folder_of(key);
        let exists = folder.as_ref().is_some_and(|folder| Home::is_in(folder));
        if absent == AbsentDataset::Begin && !exists {
            self.forget_older(key)?;
        }
        if absent == AbsentDataset::Begin || exists {
            *held = Some(Arc::new(IndexedDataset::open(key, folder.as_deref())?));
        }
        let dataset = held.clone();
        // Both are released first: a dataset that is held counts as in use and would not be closed.
        drop(held);
        drop(slot);
        self.make_room();
        Ok(dataset.map(|dataset| (dataset, Freshness::Latest)))
    }

    fn slot(&self, key: &DatasetKey) -> Slot {
        // Held only while a name is looked up, never while anything is read from disk.
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.uses += 1;
        let used = open.uses;
        let fresh = || OpenedDataset { slot: Arc::default(), used };
        let opened = open.datasets.entry(key.clone()).or_insert_with(fresh);
        opened.used = used;
        Arc::clone(&opened.slot)
    }

    /// Closes unused datasets until the others fit.
    fn make_room(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.datasets.retain(|_, opened| !opened.is_vacant());
        // There is no other copy of what is only in memory, so it is never closed.
        if self.folder.is_none() {
            return;
        }
        let mut bytes: usize = open.datasets.values().map(OpenedDataset::bytes).sum();
        while bytes > self.memory_max || open.datasets.len() > DATASETS_OPEN_MAX {
            let idle =
                open.datasets.iter().filter_map(|(key, opened)| Some((key, opened.used, opened.idle()?)));
            // All are in use: they may exceed the limit for a while, and the next call that opens one tries again.
            let Some((key, _, freed)) = idle.min_by_key(|(_, used, _)| *used) else { return };
            let key = key.clone();
            open.datasets.remove(&key);
            bytes = bytes.saturating_sub(freed);
        }
    }

    /// Returns a dataset with its latest state.
    fn latest(&self, key: &DatasetKey) -> Result<Option<(Arc<IndexedDataset>, Arc<Snapshot>)>> {
        let Some((dataset, freshness)) = self.dataset(key, AbsentDataset::Leave)? else { return Ok(None) };
        if dataset.is_behind() {
            // Accepted writes must be visible to the next question, as their callers were promised.
            dataset.flush_blocking();
        } else if freshness == Freshness::Changed {
            dataset.refresh()?;
        }
        let snapshot = dataset.snapshot();
        Ok(Some((dataset, snapshot)))
    }

    fn search(&self, tenant: &TenantId, query: &IndexQuery) -> Result<IndexAnswer> {
        let mut datasets: Vec<(DatasetId, Arc<Snapshot>)> = Vec::new();
        // Kept in use, so that opening one of several does not close another.
        let mut used = Vec::new();
        for id in &query.datasets {
            if datasets.iter().any(|(known, _)| known == id) {
                continue;
            }
            if let Some((dataset, snapshot)) = self.latest(&DatasetKey::new(tenant, id.clone()))? {
                used.push(dataset);
                datasets.push((id.clone(), snapshot));
            }
        }
        // The fields are the same in every dataset, since all use one schema.
        let Some(words) = used.first().map(|dataset| dataset.fields().words) else {
            return Ok(IndexAnswer::default());
        };
        let mut scores =
            // Reused: otherwise each question would have to allocate a buffer as large as the largest part.
            self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        let answer = search::search(&datasets, query, words, &mut scores);
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).push(scores);
        answer
    }

    fn remove(&self, key: &DatasetKey) -> Result<()> {
        let slot = self.slot(key);
        // Locked until the end, so that the dataset cannot be opened while its folder is being removed.
        let mut held = slot.lock().unwrap_or_else(PoisonError::into_inner);
        // After this nothing is written here: callers that wait for a write get an error.
        if let Some(dataset) = held.take() {
            dataset.retire();
        }
        self.forget_older(key)?;
        match self.folder_of(key) {
            Some(folder) => home::remove(&folder),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Index for TantivyIndex {
    async fn write(&self, dataset: &DatasetKey, changes: Vec<IndexChange>) -> Result<()> {
        let key = dataset.clone();
        if changes.is_empty() {
            // An empty list of changes is a request to write what is waiting, and creates no index.
            let opened = self.blocking(move |shared| shared.dataset(&key, AbsentDataset::Leave)).await?;
            return match opened {
                Some((dataset, _)) if dataset.is_behind() => dataset.write(changes).await,
                _ => Ok(()),
            };
        }
        let opened = self.blocking(move |shared| shared.dataset(&key, AbsentDataset::Begin)).await?;
        match opened {
            Some((dataset, _)) => dataset.write(changes).await,
            None => Err(Error::internal("a dataset was not opened")),
        }
    }

    async fn write_behind(
        &self,
        dataset: &DatasetKey,
        changes: Vec<IndexChange>,
    ) -> Result<WriteConfirmation> {
        let key = dataset.clone();
        let opened = self.blocking(move |shared| shared.dataset(&key, AbsentDataset::Begin)).await?;
        match opened {
            Some((dataset, _)) => dataset.write_behind(changes).await,
            None => Err(Error::internal("a dataset was not opened")),
        }
    }

    async fn remove(&self, dataset: &DatasetKey) -> Result<()> {
        let key = dataset.clone();
        self.blocking(move |shared| shared.remove(&key)).await
    }

    async fn search(&self, tenant: &TenantId, query: &IndexQuery) -> Result<IndexAnswer> {
        // Waited for before a thread is taken: questions that wait occupy none.
        let turn = Arc::clone(&self.shared.searches).acquire_owned().await;
        let turn = turn.map_err(|cause| Error::internal("the index is closed").because(cause))?;
        let (tenant, mut query) = (tenant.clone(), query.clone());
        query.count_max = query.count_max.min(HITS_MAX);
        self.blocking(move |shared| {
            // Held by the work itself, which continues even if its caller stops waiting.
            let _turn = turn;
            shared.search(&tenant, &query)
        })
        .await
    }

    async fn size(&self, dataset: &DatasetKey) -> Result<IndexSize> {
        let key = dataset.clone();
        self.blocking(move |shared| {
            Ok(shared.latest(&key)?.map(|(_, snapshot)| snapshot.size).unwrap_or_default())
        })
        .await
    }

    fn marks(&self, text: &str, query: &TextQuery) -> Vec<Range<usize>> {
        question::marks(text, query)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A dataset that takes long to open, here forever, delays only those who ask for it.
    #[tokio::test(flavor = "multi_thread")]
    #[expect(clippy::await_holding_lock, reason = "nobody is to get on with that dataset")]
    async fn datasets_are_opened_separately() {
        let folder = tempfile::tempdir().unwrap();
        let index = TantivyIndex::in_folder(folder.path());
        let key = |id: &str| DatasetKey::new(&TenantId::new("t"), id);
        let large = index.shared.slot(&key("large"));
        let opening = large.lock().unwrap();
        let small = key("small");
        let write = index.write(&small, vec![IndexChange::RemoveChunks(Vec::new())]);
        tokio::time::timeout(Duration::from_secs(30), write).await.unwrap().unwrap();
        drop(opening);
        assert_eq!(index.size(&key("large")).await.unwrap().chunks, 0);
        index.size(&small).await.unwrap();
        index.shared.make_room();
        assert_eq!(index.shared.open.lock().unwrap().datasets.len(), 2, "`large` is held by this test");
        drop(large);
        index.shared.make_room();
        assert_eq!(index.shared.open.lock().unwrap().datasets.len(), 1);
    }
}
