//! In-memory datasets, document queue and blobs, for tests.

mod blobs;
mod documents;
mod heads;
mod kept;
mod notes;
mod queue;
mod readings;
mod reembeddings;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_core::id::{ChunkId, DatasetId, DatasetKey, DocumentId, DocumentKey, TenantId};
use weft_core::seam::DatasetStore;
use weft_core::seam::dataset_store::{
    ChunkFilter, ChunkHead, ChunkReplacement, Counting, Dataset, DatasetCounts, DatasetFilter, Document,
    DocumentChange, DocumentFilter, DocumentHead, DocumentQuota, DocumentState, Extra, Heads, IngestStage,
    RemovedChunks, StoredChunk,
};
use weft_core::seam::ingest_queue::{IndexNote, Removed, Wanted};
use weft_core::seam::reading_log::Reading;
use weft_core::value::Json;
use weft_core::{Error, ErrorKind, Result, async_trait};

pub use blobs::MemoryBlobs;
use kept::KeptChunk;
use reembeddings::KeptReembedding;

/// A dataset store and a queue over one set of maps. A clone is another handle to the same data.
#[derive(Clone, Debug, Default)]
pub struct MemoryDatasets {
    tables: Arc<Mutex<DatasetTables>>,
}

type At = (TenantId, DatasetId);

#[derive(Debug, Default)]
struct DatasetTables {
    datasets: BTreeMap<At, Dataset>,
    documents: BTreeMap<(At, DocumentId), KeptDocument>,
    /// Removed data, with the time until which a worker may still hold it.
    removed: Vec<(Removed, i64)>,
    /// In the order in which they ended.
    readings: Vec<Reading>,
    reembeddings: BTreeMap<At, KeptReembedding>,
}

/// A document with all data that belongs to it.
#[derive(Debug)]
struct KeptDocument {
    document: Document,
    chunks: Vec<KeptChunk>,
    fresh: Vec<KeptChunk>,
    extras: BTreeMap<u8, Json>,
    fresh_extras: BTreeMap<u8, Json>,
    /// Sizes in bytes of the pictures stored with it.
    pictures: BTreeMap<String, u64>,
    stage: IngestStage,
    /// `None` while no worker holds it.
    taken_ms: Option<i64>,
    at_ms: i64,
    fence: i64,
    attempts: u32,
    wanted: Wanted,
    /// Positive while the document is marked as possibly differing from the index.
    unindexed: i64,
    /// The number of the change for which all chunks have a vector of the next generation.
    staged: Option<i64>,
}

fn at(key: &DatasetKey) -> At {
    (key.tenant.clone(), key.id.clone())
}

fn missing(key: &DocumentKey) -> Error {
    Error::not_found(format!("there is no document `{}` in the dataset `{}`", key.id, key.dataset.id))
}

fn conflict(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Conflict, message)
}

fn bounded(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn page<T>(found: Vec<T>, offset: u64, limit: u64) -> (Vec<T>, u64) {
    let total = found.len() as u64;
    (found.into_iter().skip(bounded(offset)).take(bounded(limit)).collect(), total)
}

fn extra_number(extra: Extra) -> u8 {
    match extra {
        Extra::Contents => 1,
        Extra::Graph => 2,
        Extra::Summaries => 3,
        Extra::MindMap => 4,
    }
}

impl DatasetTables {
    fn kept(&mut self, key: &DocumentKey) -> Result<&mut KeptDocument> {
        self.documents.get_mut(&(at(&key.dataset), key.id.clone())).ok_or_else(|| missing(key))
    }

    fn dataset(&self, key: &DatasetKey) -> Result<&Dataset> {
        let found = self.datasets.get(&at(key));
        found.ok_or_else(|| Error::not_found(format!("there is no dataset `{}`", key.id)))
    }

    /// Records a removal; an earlier record of the same document or dataset is replaced.
    fn leave(&mut self, left: (Removed, i64)) {
        let other = |of: &Removed| of.dataset != left.0.dataset || of.document != left.0.document;
        self.removed.retain(|(of, _)| other(of));
        self.removed.push(left);
    }

    fn of<'a>(&'a self, key: &DatasetKey) -> impl Iterator<Item = &'a KeptDocument> {
        let at = at(key);
        self.documents.iter().filter(move |((of, _), _)| *of == at).map(|(_, kept)| kept)
    }

    fn counts(&self, key: &DatasetKey) -> DatasetCounts {
        let add = |sum: DatasetCounts, kept: &KeptDocument| DatasetCounts {
            documents: sum.documents + 1,
            chunks: sum.chunks + kept.document.chunk_count,
            tokens: sum.tokens + kept.document.token_count,
            bytes: sum.bytes + kept.document.size,
        };
        self.of(key).fold(DatasetCounts::default(), add)
    }

    fn counted(&self, key: &DatasetKey) -> Result<Dataset> {
        self.dataset(key).map(|dataset| self.with_counts(dataset))
    }

    fn with_counts(&self, dataset: &Dataset) -> Dataset {
        Dataset { counts: self.counts(&dataset.key), ..dataset.clone() }
    }

    fn dataset_named(&self, wanted: &Dataset) -> Result<()> {
        if wanted.key.id.as_str().is_empty() || wanted.name.is_empty() {
            return Err(Error::invalid("a dataset needs an id and a name"));
        }
        let folded = wanted.name.to_lowercase();
        let taken = self.datasets.values().any(|other| {
            other.key.tenant == wanted.key.tenant
                && other.key.id != wanted.key.id
                && other.name.to_lowercase() == folded
        });
        if taken { Err(conflict(format!("another dataset has the name `{}`", wanted.name))) } else { Ok(()) }
    }

    fn document_named(&self, key: &DocumentKey, name: &str) -> Result<()> {
        if key.id.as_str().is_empty() || name.is_empty() {
            return Err(Error::invalid("a document needs an id and a name"));
        }
        let folded = name.to_lowercase();
        let taken = self
            .of(&key.dataset)
            .any(|other| other.document.key.id != key.id && other.document.name.to_lowercase() == folded);
        if taken { Err(conflict(format!("another document has the name `{name}`"))) } else { Ok(()) }
    }
}

impl MemoryDatasets {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn tables(&self) -> MutexGuard<'_, DatasetTables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl DatasetStore for MemoryDatasets {
    async fn tenants(&self) -> Result<Vec<TenantId>> {
        let mut tenants: Vec<TenantId> = self.tables().datasets.keys().map(|at| at.0.clone()).collect();
        tenants.dedup();
        Ok(tenants)
    }

    async fn create(&self, dataset: &Dataset) -> Result<()> {
        let mut tables = self.tables();
        tables.dataset_named(dataset)?;
        if tables.datasets.contains_key(&at(&dataset.key)) {
            return Err(conflict("this dataset exists already"));
        }
        tables.datasets.insert(at(&dataset.key), dataset.clone());
        Ok(())
    }

    async fn dataset(&self, key: &DatasetKey) -> Result<Dataset> {
        let found = self.tables().counted(key);
        // Like a store on disk: other tasks run before the result arrives.
        tokio::task::yield_now().await;
        found
    }

    async fn dataset_uncounted(&self, key: &DatasetKey) -> Result<Dataset> {
        let found = self.tables().dataset(key).cloned();
        tokio::task::yield_now().await;
        found
    }

    async fn datasets(&self, tenant: &TenantId, filter: &DatasetFilter) -> Result<(Vec<Dataset>, u64)> {
        let tables = self.tables();
        let mut found: Vec<Dataset> = tables
            .datasets
            .values()
            .filter(|dataset| {
                let named = |name: &String| name.to_lowercase() == dataset.name.to_lowercase();
                dataset.key.tenant == *tenant
                    && filter.ids.as_ref().is_none_or(|ids| ids.contains(&dataset.key.id))
                    && filter.name.as_ref().is_none_or(named)
                    && filter.names.as_ref().is_none_or(|names| names.iter().any(named))
            })
            .map(|dataset| match filter.counting {
                Counting::With => tables.with_counts(dataset),
                Counting::Without => dataset.clone(),
            })
            .collect();
        let time = |one: &Dataset| if filter.by_update { one.updated_ms } else { one.created_ms };
        found.sort_by(|a, b| (time(a), &a.key.id).cmp(&(time(b), &b.key.id)));
        if !filter.ascending {
            found.reverse();
        }
        let passed = documents::datasets_before(&found, filter);
        Ok(page(found, passed.saturating_add(filter.offset), filter.limit))
    }

    async fn update(&self, dataset: &Dataset) -> Result<bool> {
        let mut tables = self.tables();
        let state = |dataset: &Dataset| (dataset.revision, dataset.generation);
        let current = |before: &Dataset| state(before) == state(dataset);
        if !tables.datasets.get(&at(&dataset.key)).is_some_and(current) {
            return Ok(false);
        }
        tables.dataset_named(dataset)?;
        tables.other_embedder(dataset)?;
        let Some(before) = tables.datasets.get_mut(&at(&dataset.key)) else { return Ok(false) };
        let other = before.embedder != dataset.embedder;
        let generation = if other { before.with_other_embedder() } else { before.generation };
        let (created_ms, revision) = (before.created_ms, before.revision + 1);
        *before = Dataset { created_ms, revision, generation, ..dataset.clone() };
        let all =
            tables.documents.values_mut().filter(|kept| other && kept.document.key.dataset == dataset.key);
        all.for_each(|kept| kept.fresh.clear());
        Ok(true)
    }

    async fn remove(&self, key: &DatasetKey) -> Result<Vec<String>> {
        let mut tables = self.tables();
        tables.datasets.remove(&at(key)).ok_or_else(|| Error::not_found("there is no such dataset"))?;
        let mut left: Vec<(Removed, i64)> = tables.of(key).map(KeptDocument::left).collect();
        let blobs = left.iter().map(|(removed, _)| removed.blob.clone()).collect();
        let from_ms = left.iter().map(|(_, from_ms)| *from_ms).max().unwrap_or_default();
        left.push((Removed { dataset: key.clone(), document: None, blob: String::new() }, from_ms));
        left.into_iter().for_each(|left| tables.leave(left));
        tables.documents.retain(|(of, _), _| *of != at(key));
        tables.readings.retain(|reading| reading.document.dataset != *key);
        tables.reembeddings.remove(&at(key));
        Ok(blobs)
    }

    async fn add_document_within(&self, document: &Document, quota: DocumentQuota) -> Result<()> {
        self.tables().add(document, quota)
    }

    async fn replace_document(&self, document: &Document, replaced: &DocumentId) -> Result<String> {
        self.tables().replace_document(document, replaced)
    }

    async fn document(&self, key: &DocumentKey) -> Result<Document> {
        let found = self.tables().kept(key).map(|kept| kept.document.clone());
        tokio::task::yield_now().await;
        found
    }

    async fn documents(&self, dataset: &DatasetKey, filter: &DocumentFilter) -> Result<(Vec<Document>, u64)> {
        let mut found: Vec<Document> = {
            let tables = self.tables();
            let fitting = tables.of(dataset).filter(|kept| kept.fits(filter));
            fitting.map(|kept| kept.document.clone()).collect()
        };
        heads::order(&mut found, filter);
        // As in any database, others may change the list before its next page is read.
        tokio::task::yield_now().await;
        Ok(page(found, filter.offset, filter.limit))
    }

    async fn document_heads(&self, dataset: &DatasetKey, wanted: &Heads) -> Result<Vec<DocumentHead>> {
        let found = self.tables().heads(dataset, wanted);
        tokio::task::yield_now().await;
        Ok(found)
    }

    async fn update_document(
        &self,
        key: &DocumentKey,
        change: &DocumentChange,
        now_ms: i64,
    ) -> Result<Option<Document>> {
        let mut tables = self.tables();
        let there = tables.kept(key)?.document.revision;
        if change.revision.is_some_and(|revision| revision != there) {
            return Ok(None);
        }
        if let Some(name) = &change.name {
            tables.document_named(key, name)?;
        }
        let kept = tables.kept(key)?;
        kept.note();
        if change.settings.is_some() && kept.document.state == DocumentState::Failed {
            kept.forget_fresh();
        }
        let document = &mut kept.document;
        let DocumentChange { revision: _, name, method, settings, metadata, enabled } = change.clone();
        document.name = name.unwrap_or_else(|| document.name.clone());
        document.method = method.unwrap_or(document.method);
        document.settings = settings.unwrap_or_else(|| document.settings.clone());
        document.metadata = metadata.unwrap_or_else(|| document.metadata.clone());
        document.enabled = enabled.unwrap_or(document.enabled);
        document.revision += 1;
        document.updated_ms = now_ms;
        Ok(Some(document.clone()))
    }

    async fn remove_documents(&self, dataset: &DatasetKey, ids: &[DocumentId]) -> Result<Vec<String>> {
        let mut tables = self.tables();
        let of = |id: &DocumentId| DocumentKey::new(dataset, id.clone());
        Ok(ids.iter().filter_map(|id| tables.remove(&of(id))).collect())
    }

    async fn chunks(&self, document: &DocumentKey, filter: &ChunkFilter) -> Result<(Vec<StoredChunk>, u64)> {
        let mut tables = self.tables();
        let kept = tables.kept(document)?;
        let words = filter.keywords.as_ref().map(|words| words.to_lowercase());
        let holds = |chunk: &StoredChunk, words: &str| {
            chunk.content.to_lowercase().contains(words)
                || chunk.keywords.iter().any(|keyword| keyword.to_lowercase().contains(words))
        };
        let mut found: Vec<StoredChunk> = kept
            .chunks
            .iter()
            .filter(|chunk| !chunk.is_parent)
            .map(|chunk| &chunk.chunk)
            .filter(|chunk| {
                filter.available.is_none_or(|wanted| chunk.available == wanted)
                    && words.as_ref().is_none_or(|words| holds(chunk, words))
            })
            .cloned()
            .collect();
        found.sort_by(|a, b| (a.ordinal, &a.id).cmp(&(b.ordinal, &b.id)));
        if !filter.vectors {
            found.iter_mut().for_each(|chunk| chunk.vector = None);
        }
        Ok(page(found, filter.offset, filter.limit))
    }

    async fn chunks_by_id(&self, tenant: &TenantId, ids: &[ChunkId]) -> Result<Vec<StoredChunk>> {
        let tables = self.tables();
        let ours = tables.documents.iter().filter(|(((of, _), _), _)| of == tenant);
        let all: BTreeMap<&ChunkId, &StoredChunk> =
            ours.flat_map(|(_, kept)| &kept.chunks).map(|chunk| (&chunk.chunk.id, &chunk.chunk)).collect();
        let mut seen = Vec::new();
        for id in ids {
            if let Some(chunk) = all.get(id)
                && !seen.iter().any(|chunk: &StoredChunk| chunk.id == *id)
            {
                seen.push(StoredChunk { vector: None, ..(*chunk).clone() });
            }
        }
        Ok(seen)
    }

    async fn chunk_heads(&self, tenant: &TenantId, ids: &[ChunkId]) -> Result<Vec<ChunkHead>> {
        let found = self.chunks_by_id(tenant, ids).await?.into_iter().map(heads::of_chunk).collect();
        tokio::task::yield_now().await;
        Ok(found)
    }

    async fn chunks_with_vectors(&self, document: &DocumentKey, ids: &[ChunkId]) -> Result<Vec<StoredChunk>> {
        let all = ChunkFilter { vectors: true, limit: u64::MAX, ..ChunkFilter::default() };
        let mut found = self.chunks(document, &all).await?.0;
        found.retain(|chunk| ids.contains(&chunk.id));
        // Like a store on disk: other tasks write before the result arrives.
        tokio::task::yield_now().await;
        Ok(found)
    }

    async fn put_chunks(
        &self,
        document: &DocumentKey,
        chunks: &[StoredChunk],
        generation: u64,
    ) -> Result<IndexNote> {
        self.tables().keep(document, chunks, generation)
    }

    async fn replace_chunks(
        &self,
        document: &DocumentKey,
        replacements: &[ChunkReplacement],
        generation: u64,
    ) -> Result<Option<IndexNote>> {
        self.tables().replace(document, replacements, generation)
    }

    async fn next_ordinal(&self, document: &DocumentKey) -> Result<u64> {
        let mut tables = self.tables();
        let kept = tables.kept(document)?;
        Ok(kept.chunks.iter().map(|chunk| chunk.chunk.ordinal + 1).max().unwrap_or_default())
    }

    async fn remove_chunks(&self, document: &DocumentKey, ids: &[ChunkId]) -> Result<RemovedChunks> {
        Ok(self.tables().kept(document)?.take_out(ids))
    }

    async fn reset_document(&self, key: &DocumentKey, now_ms: i64) -> Result<()> {
        let mut tables = self.tables();
        let kept = tables.kept(key)?;
        if kept.document.state == DocumentState::Running {
            return Err(conflict(format!("the document `{}` is being read", key.id)));
        }
        let fresh = KeptDocument::new(&Document {
            state: DocumentState::Unstarted,
            progress: 0.0,
            message: String::new(),
            begun_ms: None,
            duration_ms: 0,
            updated_ms: now_ms,
            ..kept.document.clone()
        });
        *kept = KeptDocument { fence: kept.fence, unindexed: kept.unindexed, ..fresh };
        kept.note();
        Ok(())
    }

    async fn put_extra(&self, document: &DocumentKey, extra: Extra, value: &Json) -> Result<()> {
        let mut tables = self.tables();
        let extras = &mut tables.kept(document)?.extras;
        if value.is_null() {
            extras.remove(&extra_number(extra))
        } else {
            extras.insert(extra_number(extra), value.clone())
        };
        Ok(())
    }

    async fn extra(&self, document: &DocumentKey, extra: Extra) -> Result<Option<Json>> {
        Ok(self.tables().kept(document)?.extras.get(&extra_number(extra)).cloned())
    }

    async fn extras(
        &self,
        dataset: &DatasetKey,
        extra: Extra,
        after: Option<&DocumentId>,
        count_max: u64,
    ) -> Result<Vec<(DocumentId, Json)>> {
        let tables = self.tables();
        let with = |kept: &KeptDocument| {
            let value = kept.extras.get(&extra_number(extra))?;
            Some((kept.document.key.id.clone(), value.clone()))
        };
        let later = |(id, _): &(DocumentId, Json)| after.is_none_or(|after| id > after);
        let count_max = usize::try_from(count_max).unwrap_or(usize::MAX);
        Ok(tables.of(dataset).filter_map(with).filter(later).take(count_max).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contracts::datasets;

    #[tokio::test]
    async fn datasets_in_memory_keep_the_contracts() {
        let memory = MemoryDatasets::new();
        datasets::dataset_store_keeps_its_contract(&memory).await;
        datasets::ingest_queue_keeps_its_contract(&memory, &memory).await;
        datasets::reading_log_keeps_its_contract(&memory, &memory, &memory).await;
        datasets::reembedding_store_keeps_its_contract(&memory, &memory, &memory).await;
    }

    #[tokio::test]
    async fn blobs_in_memory_keep_their_contract() {
        datasets::blob_store_keeps_its_contract(&MemoryBlobs::new()).await;
    }
}
