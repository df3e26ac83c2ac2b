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
mod writer;

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use weft_core::id::{DatasetId, DatasetKey, TenantId};
use weft_core::seam::Index;
use weft_core::seam::index::{IndexAnswer, IndexChange, IndexQuery, IndexSize, TextQuery};
use weft_core::{Error, Result};

use self::dataset::{Dataset, Freshness};
use self::home::Home;
use self::schema::Fields;
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
    shared: Arc<Shared>,
}

struct Shared {
    folder: Option<PathBuf>,
    memory_max: usize,
    open: Mutex<Open>,
    searches: Semaphore,
    /// Numbers for scores, one list for each question that is being answered.
    buffers: Mutex<Vec<Vec<f32>>>,
}

#[derive(Default)]
struct Open {
    datasets: HashMap<DatasetKey, Opened>,
    /// Goes up with every use.
    uses: u64,
}

struct Opened {
    dataset: Arc<Dataset>,
    used: u64,
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
        let searches = Semaphore::new(SEARCHES_AT_ONCE_MAX);
        let (open, buffers) = (Mutex::default(), Mutex::default());
        Self { shared: Arc::new(Shared { folder, memory_max, open, searches, buffers }) }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shared = Arc::clone(&self.shared);
        tokio::task::spawn_blocking(move || work(&shared))
            .await
            .map_err(|cause| Error::internal("the work of the index broke off").because(cause))?
    }
}

/// Whether a dataset that is not there comes into being.
#[derive(Clone, Copy, PartialEq)]
enum Absent {
    Begin,
    Leave,
}

impl Shared {
    /// The folder of a dataset. Ids are opaque and may be anything, so their hashes are used.
    fn folder_of(&self, key: &DatasetKey) -> Option<PathBuf> {
        let name = |text: &str| -> String {
            Sha256::digest(text.as_bytes()).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
        };
        let folder = self.folder.as_ref()?.join(name(key.tenant.as_str()));
        Some(folder.join(format!("{}.v{}", name(key.id.as_str()), schema::VERSION)))
    }

    fn dataset(&self, key: &DatasetKey, absent: Absent) -> Result<Option<Arc<Dataset>>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.uses += 1;
        let used = open.uses;
        if let Some(opened) = open.datasets.get_mut(key) {
            if opened.dataset.freshness() != Freshness::Gone {
                opened.used = used;
                return Ok(Some(Arc::clone(&opened.dataset)));
            }
            open.datasets.remove(key);
        }
        let folder = self.folder_of(key);
        let exists = folder.as_ref().is_some_and(|folder| Home::is_in(folder));
        if absent == Absent::Leave && !exists {
            return Ok(None);
        }
        // Opening under the lock: two that open the same dataset would be two writers.
        let dataset = Arc::new(Dataset::open(key, folder.as_deref())?);
        open.datasets.insert(key.clone(), Opened { dataset: Arc::clone(&dataset), used });
        self.make_room(&mut open);
        Ok(Some(dataset))
    }

    /// The latest state of a dataset, and its fields.
    fn latest(&self, key: &DatasetKey) -> Result<Option<(Arc<Snapshot>, Fields)>> {
        let Some(dataset) = self.dataset(key, Absent::Leave)? else { return Ok(None) };
        if dataset.freshness() == Freshness::Changed {
            dataset.refresh()?;
        }
        Ok(Some((dataset.snapshot(), dataset.fields())))
    }

    /// Closes datasets that nobody uses until the others fit.
    fn make_room(&self, open: &mut Open) {
        if self.folder.is_none() {
            return;
        }
        let mut bytes: usize = open.datasets.values().map(|opened| opened.dataset.snapshot().bytes).sum();
        while bytes > self.memory_max || open.datasets.len() > DATASETS_OPEN_MAX {
            let free = open.datasets.iter().filter(|(_, opened)| Arc::strong_count(&opened.dataset) == 1);
            let Some((key, _)) = free.min_by_key(|(_, opened)| opened.used) else { return };
            let key = key.clone();
            if let Some(closed) = open.datasets.remove(&key) {
                bytes -= closed.dataset.snapshot().bytes;
            }
        }
    }

    fn search(&self, tenant: &TenantId, query: &IndexQuery) -> Result<IndexAnswer> {
        let mut datasets: Vec<(DatasetId, Arc<Snapshot>)> = Vec::new();
        let mut words = None;
        for id in &query.datasets {
            if datasets.iter().any(|(known, _)| known == id) {
                continue;
            }
            if let Some((snapshot, fields)) = self.latest(&DatasetKey::new(tenant, id.clone()))? {
                words = Some(fields.words);
                datasets.push((id.clone(), snapshot));
            }
        }
        let Some(words) = words else { return Ok(IndexAnswer::default()) };
        let mut scores =
            self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        let answer = search::search(&datasets, query, words, &mut scores);
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).push(scores);
        answer
    }

    fn remove(&self, key: &DatasetKey) -> Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.datasets.remove(key);
        match self.folder_of(key) {
            Some(folder) => remove_folder(&folder),
            None => Ok(()),
        }
    }
}

/// Renamed first, so that a crash in the middle leaves no half of a dataset.
fn remove_folder(folder: &Path) -> Result<()> {
    let failed = |cause| Error::internal("cannot remove the index of a dataset").because(cause);
    let gone = folder.with_extension("gone");
    let remove = |folder: &Path| match std::fs::remove_dir_all(folder) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => Err(failed(cause)),
        _ => Ok(()),
    };
    remove(&gone)?;
    match std::fs::rename(folder, &gone) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(cause) => Err(failed(cause)),
        Ok(()) => remove(&gone),
    }
}

#[async_trait]
impl Index for TantivyIndex {
    async fn write(&self, dataset: &DatasetKey, changes: Vec<IndexChange>) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let key = dataset.clone();
        let opened = self.blocking(move |shared| shared.dataset(&key, Absent::Begin)).await?;
        match opened {
            Some(dataset) => dataset.write(changes).await,
            None => Err(Error::internal("a dataset was not opened")),
        }
    }

    async fn remove(&self, dataset: &DatasetKey) -> Result<()> {
        let key = dataset.clone();
        self.blocking(move |shared| shared.remove(&key)).await
    }

    async fn search(&self, tenant: &TenantId, query: &IndexQuery) -> Result<IndexAnswer> {
        let turn = self.shared.searches.acquire().await;
        let _turn = turn.map_err(|cause| Error::internal("the index is closed").because(cause))?;
        let (tenant, mut query) = (tenant.clone(), query.clone());
        query.count_max = query.count_max.min(HITS_MAX);
        self.blocking(move |shared| shared.search(&tenant, &query)).await
    }

    async fn size(&self, dataset: &DatasetKey) -> Result<IndexSize> {
        let key = dataset.clone();
        self.blocking(move |shared| {
            Ok(shared.latest(&key)?.map(|(snapshot, _)| snapshot.size).unwrap_or_default())
        })
        .await
    }

    fn marks(&self, text: &str, query: &TextQuery) -> Vec<Range<usize>> {
        question::marks(text, query)
    }
}
