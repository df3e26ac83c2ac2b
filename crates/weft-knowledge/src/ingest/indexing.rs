//! Puts what is kept into the index.

use std::collections::HashSet;

use weft_core::Result;
use weft_core::id::{ChunkId, DatasetKey, DocumentKey};
use weft_core::seam::dataset_store::{ChunkFilter, Document, DocumentFilter, StoredChunk};
use weft_core::seam::index::{IndexChange, IndexedChunk, IndexedDocument};
use weft_core::{Error, ErrorKind};

use super::embed::plain;
use super::library::Library;

/// Chunks that go into the index in one step. More of them would be held in memory at once.
pub(super) const CHUNKS_AT_ONCE: u64 = 1_000;

/// Documents that are listed at once.
const DOCUMENTS_AT_ONCE: u64 = 200;

/// Noted documents that are looked at in one go.
const NOTED_AT_ONCE: u64 = 100;

/// A name without its ending.
pub(super) fn stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem })
}

/// A document as it is searched.
pub(crate) fn indexed_document(document: &Document) -> IndexedDocument {
    IndexedDocument {
        id: document.key.id.clone(),
        metadata: document.metadata.clone(),
        available: document.enabled,
    }
}

/// A chunk as it is searched.
pub(super) fn indexed_chunk(name: &str, chunk: StoredChunk) -> (ChunkId, IndexedChunk) {
    let mut title = stem(name).to_owned();
    for heading in &chunk.headings {
        title.push('\n');
        title.push_str(heading);
    }
    let content = match chunk.searched {
        Some(searched) => searched,
        None => plain(chunk.kind, &chunk.content),
    };
    let (keywords, questions, vector) = (chunk.keywords, chunk.questions, chunk.vector);
    (chunk.id, IndexedChunk { title, content, keywords, questions, vector })
}

/// A change that adds those of some chunks that are found.
pub(crate) fn adding(document: &Document, chunks: Vec<StoredChunk>) -> IndexChange {
    let found = chunks.into_iter().filter(|chunk| chunk.available);
    let found = found.map(|chunk| indexed_chunk(&document.name, chunk)).collect();
    IndexChange::Chunks(document.key.id.clone(), found)
}

impl Library {
    /// The ids of the chunks of a document that can be found.
    pub(super) async fn found_ids(&self, key: &DocumentKey) -> Result<HashSet<ChunkId>> {
        let mut ids = HashSet::new();
        for offset in (0..).step_by(CHUNKS_AT_ONCE as usize) {
            let filter = ChunkFilter { offset, limit: CHUNKS_AT_ONCE, ..ChunkFilter::default() };
            let (page, total) = self.parts.store.chunks(key, &filter).await?;
            ids.extend(page.into_iter().map(|chunk| chunk.id));
            if offset + CHUNKS_AT_ONCE >= total {
                break;
            }
        }
        Ok(ids)
    }

    /// Puts what is kept of a document into the index, in place of whatever that has of it, and takes the
    /// note away that the two may differ. Under the lock of the document.
    pub(super) async fn sync(&self, key: &DocumentKey) -> Result<()> {
        let document = match self.parts.store.document(key).await {
            Ok(document) => document,
            Err(error) if error.kind == ErrorKind::NotFound => {
                let gone = IndexChange::RemoveDocument(key.id.clone());
                return self.parts.index.write(&key.dataset, vec![gone]).await;
            }
            Err(error) => return Err(error),
        };
        self.fill(&document).await?;
        self.parts.queue.indexed(key).await
    }

    /// The same, unless whoever had the lock has done it in the meantime. Whether it was to be done.
    async fn sync_if_noted(&self, key: &DocumentKey) -> Result<bool> {
        match self.parts.queue.unindexed(key).await {
            Ok(false) => self.parts.queue.indexed(key).await.map(|()| false),
            Ok(true) => self.sync(key).await.map(|()| true),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn fill(&self, document: &Document) -> Result<()> {
        let key = &document.key;
        let mut changes =
            vec![IndexChange::Clear(key.id.clone()), IndexChange::Document(indexed_document(document))];
        for offset in (0..).step_by(CHUNKS_AT_ONCE as usize) {
            let filter = ChunkFilter {
                vectors: true,
                offset,
                limit: CHUNKS_AT_ONCE,
                available: Some(true),
                ..ChunkFilter::default()
            };
            let (page, total) = self.parts.store.chunks(key, &filter).await?;
            changes.push(adding(document, page));
            self.parts.index.write(&key.dataset, std::mem::take(&mut changes)).await?;
            if offset + CHUNKS_AT_ONCE >= total {
                break;
            }
        }
        Ok(())
    }

    /// Takes out of the index what a worker may have put there after the document was removed.
    pub(super) async fn forget_if_gone(&self, key: &DocumentKey) -> Result<()> {
        let is_gone = |error: Error| if error.kind == ErrorKind::NotFound { Ok(()) } else { Err(error) };
        if let Err(error) = self.parts.store.dataset(&key.dataset).await {
            is_gone(error)?;
            return self.parts.index.remove(&key.dataset).await;
        }
        let _lock = self.lock(key).await;
        if let Err(error) = self.parts.store.document(key).await {
            is_gone(error)?;
            self.sync(key).await?;
        }
        Ok(())
    }

    /// The same as [`Library::sync`] for what is known of the document itself; its chunks stay. Under its lock.
    pub(super) async fn sync_document(&self, key: &DocumentKey) -> Result<()> {
        let document = self.parts.store.document(key).await?;
        let change = IndexChange::Document(indexed_document(&document));
        self.parts.index.write(&key.dataset, vec![change]).await?;
        self.parts.queue.indexed(key).await
    }

    /// Puts documents into the index anew of which it is noted that it may differ, for example because a
    /// process ended in between. How many there were. Documents that are being put into it at this moment
    /// are waited for.
    ///
    /// # Errors
    /// When the store cannot be read. What cannot be indexed is left noted, and the log says why.
    pub async fn mend(&self) -> Result<usize> {
        let noted = self.parts.queue.to_index(NOTED_AT_ONCE).await?;
        let mut mended = 0;
        for key in &noted {
            let _lock = self.lock(key).await;
            match self.sync_if_noted(key).await {
                Ok(again) => mended += usize::from(again),
                Err(error) => {
                    let error = error.full();
                    tracing::warn!(document.id = %key.id, error, "a document cannot be put into the index");
                }
            }
        }
        Ok(mended)
    }

    /// Makes the index of a dataset anew from what is kept. How many documents it has. While that goes on
    /// only what is in it already is found.
    ///
    /// # Errors
    /// `NotFound`; otherwise when the store cannot be read or the index cannot be written.
    pub async fn reindex(&self, dataset: &DatasetKey) -> Result<u64> {
        self.parts.store.dataset(dataset).await?;
        self.parts.index.remove(dataset).await?;
        let mut done = 0;
        loop {
            let filter = DocumentFilter {
                ascending: true,
                offset: done,
                limit: DOCUMENTS_AT_ONCE,
                ..DocumentFilter::default()
            };
            let (page, _) = self.parts.store.documents(dataset, &filter).await?;
            for document in &page {
                let _lock = self.lock(&document.key).await;
                self.sync(&document.key).await?;
            }
            done += page.len() as u64;
            if (page.len() as u64) < DOCUMENTS_AT_ONCE {
                return Ok(done);
            }
        }
    }

    /// Compares the index of every dataset with what is kept, and makes those anew that hold another number
    /// of chunks: their folder was lost, or something was removed in the moment of a crash. Then mends what
    /// is noted. To be called before anybody works on them. The datasets whose index was made anew.
    ///
    /// # Errors
    /// When the store cannot be read. An index that cannot be made is left, and the log says why.
    pub async fn check(&self) -> Result<Vec<DatasetKey>> {
        // What is noted would be counted as a difference.
        self.mend().await?;
        let mut renewed = Vec::new();
        for dataset in self.every_dataset().await? {
            let expected = self.found_chunks(&dataset.key).await?;
            let same = match self.parts.index.size(&dataset.key).await {
                Ok(size) => size.chunks as u64 == expected,
                Err(error) => {
                    tracing::warn!(dataset.id = %dataset.key.id, error = error.full(), "an index cannot be read");
                    false
                }
            };
            if same {
                continue;
            }
            match self.reindex(&dataset.key).await {
                Ok(documents) => {
                    tracing::info!(dataset.id = %dataset.key.id, documents, "an index was made anew");
                    renewed.push(dataset.key);
                }
                Err(error) => {
                    tracing::error!(dataset.id = %dataset.key.id, error = error.full(), "an index cannot be made");
                }
            }
        }
        Ok(renewed)
    }

    /// How many chunks of a dataset the index has to hold.
    async fn found_chunks(&self, dataset: &DatasetKey) -> Result<u64> {
        let (mut seen, mut sum) = (0, 0);
        loop {
            let filter = DocumentFilter {
                ascending: true,
                offset: seen,
                limit: DOCUMENTS_AT_ONCE,
                ..DocumentFilter::default()
            };
            let (page, _) = self.parts.store.documents(dataset, &filter).await?;
            for document in page.iter().filter(|document| document.chunk_count > 0) {
                let hidden = ChunkFilter { available: Some(false), ..ChunkFilter::default() };
                let (_, hidden) = self.parts.store.chunks(&document.key, &hidden).await?;
                sum += document.chunk_count.saturating_sub(hidden);
            }
            seen += page.len() as u64;
            if (page.len() as u64) < DOCUMENTS_AT_ONCE {
                return Ok(sum);
            }
        }
    }
}

/// An error for a chunk that is not there.
pub(super) fn missing_chunk(id: &ChunkId) -> Error {
    Error::not_found(format!("there is no chunk `{id}`"))
}
