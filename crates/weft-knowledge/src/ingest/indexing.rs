//! Writes stored documents to the index.

use std::collections::HashSet;
use std::time::Duration;

use weft_core::Result;
use weft_core::id::{ChunkId, DatasetKey, DocumentKey};
use weft_core::seam::dataset_store::{ChunkFilter, Document, StoredChunk};
use weft_core::seam::index::{IndexChange, IndexedChunk, IndexedDocument};
use weft_core::seam::ingest_queue::{IndexNote, NotedFilter};
use weft_core::{Error, ErrorKind};

use super::embed::plain;
use super::library::Library;

/// Maximum number of chunks indexed in one step, since all of them are held in memory.
pub(super) const CHUNKS_AT_ONCE: u64 = 1_000;

/// Number of noted documents listed at a time.
const NOTED_AT_ONCE: u64 = 100;

/// Returns a name without its extension.
pub(super) fn stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem })
}

/// Converts a document for the index.
pub(crate) fn indexed_document(document: &Document) -> IndexedDocument {
    IndexedDocument {
        id: document.key.id.clone(),
        name: document.name.clone(),
        metadata: document.metadata.clone(),
        available: document.enabled,
    }
}

/// Converts a chunk for the index.
pub(super) fn indexed_chunk(name: &str, chunk: StoredChunk) -> (ChunkId, IndexedChunk) {
    // A word of a heading counts as one of the title: the text below it rarely repeats it.
    let mut title = stem(name).to_owned();
    for heading in &chunk.headings {
        title.push('\n');
        title.push_str(heading);
    }
    let content = match chunk.searched {
        Some(searched) => searched,
        None => plain(chunk.kind, &chunk.content),
    };
    let StoredChunk { id, keywords, questions, vector, parent, .. } = chunk;
    (id, IndexedChunk { title, content, keywords, questions, vector, parent })
}

/// Returns a change that adds those of the chunks that can be found.
pub(crate) fn adding(document: &Document, chunks: Vec<StoredChunk>) -> IndexChange {
    let found = chunks.into_iter().filter(|chunk| chunk.available);
    let found = found.map(|chunk| indexed_chunk(&document.name, chunk)).collect();
    IndexChange::Chunks(document.key.id.clone(), found)
}

impl Library {
    /// Returns the ids of a document's chunks that can be found.
    pub(super) async fn found_ids(&self, key: &DocumentKey) -> Result<HashSet<ChunkId>> {
        let filter = ChunkFilter { limit: CHUNKS_AT_ONCE, ..ChunkFilter::default() };
        Ok(self.pages(key, filter).ids(|_| true).await?.into_iter().collect())
    }

    /// Indexes what is stored of a document, replacing whatever the index has of it, and removes the note
    /// that the two may differ. Requires the document's lock.
    pub(super) async fn sync(&self, key: &DocumentKey) -> Result<()> {
        let note = self.parts.queue.unindexed(key).await?;
        self.sync_noted(key, note).await
    }

    async fn sync_noted(&self, key: &DocumentKey, note: IndexNote) -> Result<()> {
        self.behind.forget(key);
        self.document_changed(key);
        let document = self.parts.store.document(key).await?;
        // Chunks that another process is currently adding must not be removed.
        let first = if note.busy { Vec::new() } else { vec![IndexChange::Clear(key.id.clone())] };
        self.fill(&document, first).await?;
        // A process that has changed the document in between has noted that, and its note stays.
        self.parts.queue.indexed(key, note.number).await.map(drop)
    }

    /// Indexes a document, unless the previous holder of the lock has done so. Returns whether it had to be done.
    async fn sync_if_noted(&self, key: &DocumentKey) -> Result<bool> {
        match self.parts.queue.unindexed(key).await {
            Ok(note) if note.first => self.parts.queue.indexed(key, note.number).await.map(|_| false),
            Ok(note) => self.sync_noted(key, note).await.map(|()| true),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Indexes what can be found of a document, replacing entries with the same ids, after the changes in `first`.
    pub(super) async fn fill(&self, document: &Document, first: Vec<IndexChange>) -> Result<()> {
        let key = &document.key;
        let index = self.index_of(&key.dataset).await?;
        let mut changes = first;
        changes.push(IndexChange::Document(indexed_document(document)));
        let (available, limit) = (Some(true), CHUNKS_AT_ONCE);
        let filter = ChunkFilter { vectors: true, available, limit, ..ChunkFilter::default() };
        let mut pages = self.pages(key, filter);
        while let Some(page) = pages.next().await? {
            changes.push(adding(document, page));
            self.parts.index.write(&index, std::mem::take(&mut changes)).await?;
        }
        Ok(())
    }

    /// Clears away remains of what was removed, and reindexes documents for which it is noted that the index
    /// may differ, for example because a process ended in between. Returns how many there were. Documents
    /// that are being changed at this moment are skipped.
    ///
    /// # Errors
    /// When the store cannot be read. What cannot be indexed stays noted, and the reason is logged.
    pub async fn repair(&self) -> Result<usize> {
        self.clear_away().await?;
        self.repair_noted(None).await
    }

    /// Like [`Self::repair`], for the documents of one dataset. A command that has processed documents calls
    /// this before it ends: documents of a process that was killed may still be noted, and it may be long
    /// before another process comes.
    ///
    /// # Errors
    /// As [`Self::repair`].
    pub async fn repair_dataset(&self, dataset: &DatasetKey) -> Result<usize> {
        self.repair_noted(Some(dataset.clone())).await
    }

    async fn repair_noted(&self, dataset: Option<DatasetKey>) -> Result<usize> {
        let mut repaired = 0;
        let mut filter = NotedFilter { dataset, count_max: NOTED_AT_ONCE, ..NotedFilter::default() };
        loop {
            filter.now_ms = self.now_ms();
            let noted = self.parts.queue.to_index(&filter).await?;
            for key in &noted {
                let Some(_lock) = self.locks.try_lock(key) else { continue };
                // It is about to be written.
                if self.behind.holds(key) {
                    continue;
                }
                let repair = async {
                    let again = self.sync_if_noted(key).await?;
                    if again {
                        self.clear_unnamed_pictures(key).await?;
                    }
                    Ok::<_, Error>(again)
                };
                match repair.await {
                    Ok(again) => repaired += usize::from(again),
                    Err(error) => {
                        let error = error.detail();
                        tracing::warn!(document.id = %key.id, error, "a document cannot be put into the index");
                    }
                }
            }
            // A document that cannot be indexed must not keep the others from being indexed.
            match noted.last() {
                Some(last) if noted.len() as u64 == NOTED_AT_ONCE => filter.after = Some(last.id.clone()),
                _ => return Ok(repaired),
            }
        }
    }

    /// Rebuilds the index of a dataset from what is stored. Returns the number of its documents. In the
    /// meantime, only what is already in the new index is found.
    ///
    /// # Errors
    /// `NotFound`; otherwise when the store cannot be read or the index cannot be written.
    pub async fn reindex(&self, dataset: &DatasetKey) -> Result<u64> {
        let index = self.index_of(dataset).await?;
        // First of all: whatever interrupts this, the rest is repaired later.
        self.parts.queue.all_unindexed(dataset).await?;
        // Not document by document: entries that belong to no existing document would remain.
        self.parts.index.remove(&index).await?;
        let mut done = 0;
        let mut filter = NotedFilter {
            dataset: Some(dataset.clone()),
            count_max: NOTED_AT_ONCE,
            ..NotedFilter::default()
        };
        loop {
            filter.now_ms = self.now_ms();
            let noted = self.parts.queue.to_index(&filter).await?;
            for key in &noted {
                let _lock = self.lock(key).await;
                self.sync_if_noted(key).await?;
                done += 1;
            }
            match noted.last() {
                Some(last) if noted.len() as u64 == NOTED_AT_ONCE => filter.after = Some(last.id.clone()),
                _ => return Ok(done),
            }
        }
    }

    /// Repairs what is noted, then compares the index of every dataset with what is stored. If an index holds
    /// another number of chunks, because its folder was lost or taken from elsewhere, every document is
    /// reindexed, one by one; its content can be found meanwhile, and other processes may work on it. An
    /// index that cannot be opened at all is rebuilt. Returns these datasets.
    ///
    /// # Errors
    /// When the store cannot be read. What cannot be indexed stays noted, and the reason is logged.
    pub async fn check(&self) -> Result<Vec<DatasetKey>> {
        self.repair().await?;
        let mut renewed = Vec::new();
        for key in self.every_dataset().await? {
            self.look_at_summaries(&key);
            match self.held(&key).await? {
                IndexState::InSync => continue,
                IndexState::Differs => {
                    tracing::info!(dataset.id = %key.id, "an index differs from the stored data and is being repaired");
                    self.parts.queue.all_unindexed(&key).await?;
                }
                IndexState::Unreadable => match self.reindex(&key).await {
                    Ok(documents) => {
                        tracing::info!(dataset.id = %key.id, documents, "an index was rebuilt");
                    }
                    Err(error) => {
                        tracing::error!(dataset.id = %key.id, error = error.detail(), "an index cannot be created");
                    }
                },
            }
            renewed.push(key);
        }
        if !renewed.is_empty() {
            self.repair().await?;
        }
        Ok(renewed)
    }

    /// Compares the index of a dataset with what is stored, as far as neither is being changed.
    async fn held(&self, dataset: &DatasetKey) -> Result<IndexState> {
        let before = self.parts.queue.to_be_found(dataset).await?;
        if before.changing {
            return Ok(IndexState::InSync);
        }
        let index = self.index_of(dataset).await?;
        let held = match self.parts.index.size(&index).await {
            Ok(size) => size.chunks as u64,
            Err(error) => {
                tracing::warn!(dataset.id = %dataset.id, error = error.detail(), "an index cannot be read");
                tokio::time::sleep(SECOND_LOOK).await;
                return match self.parts.index.size(&index).await {
                    // Any other failure may be temporary, and rebuilding an index removes what could be found
                    // meanwhile.
                    Err(error) if error.kind == ErrorKind::Internal => Ok(IndexState::Unreadable),
                    _ => Ok(IndexState::InSync),
                };
            }
        };
        // A change between the two reads is not a difference.
        let differs = held != before.chunks && self.parts.queue.to_be_found(dataset).await? == before;
        Ok(if differs { IndexState::Differs } else { IndexState::InSync })
    }
}

/// How an index compares with what is stored.
enum IndexState {
    /// It holds the same number of chunks, or the number is not known now.
    InSync,
    /// It holds more or fewer chunks.
    Differs,
    /// It cannot be opened.
    Unreadable,
}

/// How long to wait before reading an unreadable index again: the failure may have been temporary.
const SECOND_LOOK: Duration = Duration::from_secs(2);

/// Returns the error for a chunk that does not exist.
pub(super) fn missing_chunk(id: &ChunkId) -> Error {
    Error::not_found(format!("there is no chunk `{id}`"))
}
