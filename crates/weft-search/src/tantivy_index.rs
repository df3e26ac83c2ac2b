//! The embedded index: tantivy for words, and vectors that are all looked at.
//!
//! Each dataset is an index of its own in a folder of its own. It is opened when it is first needed, and
//! those that were not needed for longest are closed when all together take too much memory. A write is
//! one commit of tantivy: what was not committed when the process died is not there when it is opened again.
//! What another process has written is seen by the next search, which asks the file system once whether there is any.

mod dataset;
mod home;
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

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use weft_core::id::{DatasetId, DatasetKey, TenantId};
use weft_core::seam::Index;
use weft_core::seam::index::{IndexAnswer, IndexChange, IndexQuery, IndexSize, TextQuery, WriteConfirmation};
use weft_core::{Error, Result};

use self::dataset::{Freshness, IndexedDataset};
use self::home::Home;
use self::snapshot::Snapshot;
use crate::{HITS_MAX, question};

/// What the datasets that are open may take in memory together, in bytes, unless told otherwise.
pub const MEMORY_MAX: usize = 1024 * 1024 * 1024;
/// Datasets that stay open although nobody uses them.
const DATASETS_OPEN_MAX: usize = 256;
/// Questions that are answered at the same time; more wait.
const SEARCHES_AT_ONCE_MAX: usize = 16;

/// Chunks by word and by vector, in a folder or in memory.
#[derive(Clone)]
pub struct TantivyIndex {
    shared: Arc<IndexShared>,
}

struct IndexShared {
    folder: Option<PathBuf>,
    memory_max: usize,
    open: Mutex<OpenDatasets>,
    searches: Arc<Semaphore>,
    /// Numbers for scores, one list for each question that is being answered.
    buffers: Mutex<Vec<Vec<f32>>>,
}

#[derive(Default)]
struct OpenDatasets {
    datasets: HashMap<DatasetKey, OpenedDataset>,
    /// Goes up with every use.
    uses: u64,
}

struct OpenedDataset {
    slot: Slot,
    used: u64,
}

/// A dataset that is open, is being opened, or is not there. Locked while it is opened, so that nobody has to wait for a
/// dataset that is not asked for.
type Slot = Arc<Mutex<Option<Arc<IndexedDataset>>>>;

impl OpenedDataset {
    /// Whether nothing is in it and nobody is about to change that.
    fn is_vacant(&self) -> bool {
        // Somebody else holds or waits for it: taken away, its next user would open the dataset a second
        // time.
        Arc::strong_count(&self.slot) == 1 && self.slot.try_lock().is_ok_and(|held| held.is_none())
    }

    /// What it takes in memory, as far as that is known.
    fn bytes(&self) -> usize {
        // Not waited for: who opens a large dataset holds it for long, and this is asked under the lock of
        // all.
        let held = self.slot.try_lock().ok();
        held.and_then(|held| Some(held.as_ref()?.snapshot().bytes)).unwrap_or_default()
    }

    /// The same when nobody uses it.
    fn idle(&self) -> Option<usize> {
        let held = self.slot.try_lock().ok()?;
        let dataset = held.as_ref()?;
        // One handle of each is the one that is kept here.
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
    /// An index in a folder, which comes into being with the first write. Several processes may use the folder:
    /// they take turns in writing, and each search sees what any of them has written before.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self::new(Some(folder.into()), MEMORY_MAX)
    }

    /// An index in memory, which is gone with this value.
    pub fn in_memory() -> Self {
        Self::new(None, usize::MAX)
    }

    /// The same with another limit for what open datasets take in memory, in bytes. A dataset that is in use
    /// stays open however large it is.
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
        tokio::task::spawn_blocking(move || work(&shared))
            .await
            .map_err(|cause| Error::internal("the work of the index stopped unexpectedly").because(cause))?
    }
}

/// Whether a dataset that is not there comes into being.
#[derive(Clone, Copy, PartialEq)]
enum AbsentDataset {
    Begin,
    Leave,
}

impl IndexShared {
    /// The folder of a dataset. Ids are opaque and may be anything, so their hashes are used.
    fn folder_of(&self, key: &DatasetKey) -> Option<PathBuf> {
        self.folder_of_version(key, schema::VERSION)
    }

    fn folder_of_version(&self, key: &DatasetKey, version: &str) -> Option<PathBuf> {
        // Half of the digest is enough to keep ids apart, and keeps paths short.
        let name = |text: &str| weft_core::hex(&Sha256::digest(text.as_bytes())[..16]);
        let folder = self.folder.as_ref()?.join(name(key.tenant.as_str()));
        Some(folder.join(format!("{}.v{version}", name(key.id.as_str()))))
    }

    /// Removes what older programs have written of a dataset, which is never read again.
    fn forget_older(&self, key: &DatasetKey) -> Result<()> {
        let mut older =
            schema::OLDER_VERSIONS.iter().filter_map(|version| self.folder_of_version(key, version));
        older.try_for_each(|folder| home::remove(&folder))
    }

    /// A dataset that is open, and whether its state is still the latest.
    fn dataset(
        &self,
        key: &DatasetKey,
        absent: AbsentDataset,
    ) -> Result<Option<(Arc<IndexedDataset>, Freshness)>> {
        let slot = self.slot(key);
        // Locked while it is opened: two openings at a time would be two writers of one folder.
        let mut held = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dataset) = &*held {
            let freshness = dataset.freshness();
            if freshness != Freshness::Gone {
                return Ok(Some((Arc::clone(dataset), freshness)));
            }
        }
        // Before it is opened again: the files that it holds are those of a folder that is gone.
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
        // Both are let go first: what somebody holds counts as in use, and would not be closed.
        drop(held);
        drop(slot);
        self.make_room();
        Ok(dataset.map(|dataset| (dataset, Freshness::Latest)))
    }

    fn slot(&self, key: &DatasetKey) -> Slot {
        // Held for as long as it takes to look up a name, never while anything is read from disk.
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.uses += 1;
        let used = open.uses;
        let fresh = || OpenedDataset { slot: Arc::default(), used };
        let opened = open.datasets.entry(key.clone()).or_insert_with(fresh);
        opened.used = used;
        Arc::clone(&opened.slot)
    }

    /// Closes datasets that nobody uses until the others fit.
    fn make_room(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.datasets.retain(|_, opened| !opened.is_vacant());
        // Of what is in memory only there is no other copy: nothing is ever closed.
        if self.folder.is_none() {
            return;
        }
        let mut bytes: usize = open.datasets.values().map(OpenedDataset::bytes).sum();
        while bytes > self.memory_max || open.datasets.len() > DATASETS_OPEN_MAX {
            let idle =
                open.datasets.iter().filter_map(|(key, opened)| Some((key, opened.used, opened.idle()?)));
            // All are in use: they may take more for a while, and the next who opens one tries again.
            let Some((key, _, freed)) = idle.min_by_key(|(_, used, _)| *used) else { return };
            let key = key.clone();
            open.datasets.remove(&key);
            bytes = bytes.saturating_sub(freed);
        }
    }

    /// A dataset with its latest state.
    fn latest(&self, key: &DatasetKey) -> Result<Option<(Arc<IndexedDataset>, Arc<Snapshot>)>> {
        let Some((dataset, freshness)) = self.dataset(key, AbsentDataset::Leave)? else { return Ok(None) };
        if dataset.is_behind() {
            // What was accepted is found by the next question, as its caller was promised.
            dataset.flush_blocking();
        } else if freshness == Freshness::Changed {
            dataset.refresh()?;
        }
        let snapshot = dataset.snapshot();
        Ok(Some((dataset, snapshot)))
    }

    fn search(&self, tenant: &TenantId, query: &IndexQuery) -> Result<IndexAnswer> {
        let mut datasets: Vec<(DatasetId, Arc<Snapshot>)> = Vec::new();
        // In use, so that opening one of many does not close another one.
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
        // The fields are the same in each dataset, since one schema makes them all.
        let Some(words) = used.first().map(|dataset| dataset.fields().words) else {
            return Ok(IndexAnswer::default());
        };
        let mut scores =
            // Used again: a buffer as large as the largest part would have to be asked for with each
            // question.
            self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        let answer = search::search(&datasets, query, words, &mut scores);
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).push(scores);
        answer
    }

    fn remove(&self, key: &DatasetKey) -> Result<()> {
        let slot = self.slot(key);
        // Locked to the end, so that nobody opens the dataset while its folder goes.
        let mut held = slot.lock().unwrap_or_else(PoisonError::into_inner);
        // Afterwards nobody writes here: whoever waits for that is told.
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
            // Nothing to write is a request to write what waits, and begins no index.
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
        let turn = Arc::clone(&self.shared.searches).acquire_owned().await;
        let turn = turn.map_err(|cause| Error::internal("the index is closed").because(cause))?;
        let (tenant, mut query) = (tenant.clone(), query.clone());
        query.count_max = query.count_max.min(HITS_MAX);
        self.blocking(move |shared| {
            // Kept by the work itself, which goes on when nobody waits for it any more.
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

    /// A dataset that takes long to open, here for ever, is waited for by those alone who ask for it.
    #[tokio::test(flavor = "multi_thread")]
    #[expect(clippy::await_holding_lock, reason = "nobody is to get on with that dataset")]
    async fn datasets_are_opened_apart() {
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
