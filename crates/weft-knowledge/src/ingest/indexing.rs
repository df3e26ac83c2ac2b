//! Puts what is kept into the index.

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

/// Chunks that go into the index in one step. More of them would be held in memory at once.
pub(super) const CHUNKS_AT_ONCE: u64 = 1_000;

/// Noted documents that are listed at once.
const NOTED_AT_ONCE: u64 = 100;

/// A name without its ending.
pub(super) fn stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem })
}

/// A document as it is searched.
pub(crate) fn indexed_document(document: &Document) -> IndexedDocument {
    IndexedDocument {
        id: document.key.id.clone(),
        name: document.name.clone(),
        metadata: document.metadata.clone(),
        available: document.enabled,
    }
}

/// A chunk as it is searched.
pub(super) fn indexed_chunk(name: &str, chunk: StoredChunk) -> (ChunkId, IndexedChunk) {
    // A word of a heading counts as one of the title: what stands below it rarely repeats it.
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

/// A change that adds those of some chunks that are found.
pub(crate) fn adding(document: &Document, chunks: Vec<StoredChunk>) -> IndexChange {
    let found = chunks.into_iter().filter(|chunk| chunk.available);
    let found = found.map(|chunk| indexed_chunk(&document.name, chunk)).collect();
    IndexChange::Chunks(document.key.id.clone(), found)
}

impl Library {
    /// The ids of the chunks of a document that can be found.
    pub(super) async fn found_ids(&self, key: &DocumentKey) -> Result<HashSet<ChunkId>> {
        let filter = ChunkFilter { limit: CHUNKS_AT_ONCE, ..ChunkFilter::default() };
        Ok(self.pages(key, filter).ids(|_| true).await?.into_iter().collect())
    }

    /// Puts what is kept of a document into the index, in place of whatever that has of it, and takes the
    /// note away that the two may differ. Under the lock of the document.
    pub(super) async fn sync(&self, key: &DocumentKey) -> Result<()> {
        let note = self.parts.queue.unindexed(key).await?;
        self.sync_noted(key, note).await
    }

    async fn sync_noted(&self, key: &DocumentKey, note: IndexNote) -> Result<()> {
        self.behind.forget(key);
        self.document_changed(key);
        let document = self.parts.store.document(key).await?;
        // What another process is putting there is not to be taken out again.
        let first = if note.busy { Vec::new() } else { vec![IndexChange::Clear(key.id.clone())] };
        self.fill(&document, first).await?;
        // Who has changed it in between has noted it, and it stays noted.
        self.parts.queue.indexed(key, note.number).await.map(drop)
    }

    /// The same, unless whoever had the lock has done it in the meantime. Whether it was to be done.
    async fn sync_if_noted(&self, key: &DocumentKey) -> Result<bool> {
        match self.parts.queue.unindexed(key).await {
            Ok(note) if note.first => self.parts.queue.indexed(key, note.number).await.map(|_| false),
            Ok(note) => self.sync_noted(key, note).await.map(|()| true),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Puts what is found of a document into the index, in place of what has the same ids, after some
    /// other changes.
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

    /// Clears away what is left of what was removed, and puts documents into the index anew of which it is
    /// noted that it may differ, for example because a process ended in between. How many there were. Those
    /// that somebody is changing at this moment are passed over.
    ///
    /// # Errors
    /// When the store cannot be read. What cannot be indexed is left noted, and the log says why.
    pub async fn mend(&self) -> Result<usize> {
        self.clear_away().await?;
        self.mend_noted(None).await
    }

    /// The same for the documents of one dataset. A command that has read documents does this before it ends: those that
    /// a process read which was killed may be noted still, and nobody else may come for a long time.
    ///
    /// # Errors
    /// As [`Self::mend`].
    pub async fn mend_dataset(&self, dataset: &DatasetKey) -> Result<usize> {
        self.mend_noted(Some(dataset.clone())).await
    }

    async fn mend_noted(&self, dataset: Option<DatasetKey>) -> Result<usize> {
        let mut mended = 0;
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
                let mend = async {
                    let again = self.sync_if_noted(key).await?;
                    if again {
                        self.clear_unnamed_pictures(key).await?;
                    }
                    Ok::<_, Error>(again)
                };
                match mend.await {
                    Ok(again) => mended += usize::from(again),
                    Err(error) => {
                        let error = error.detail();
                        tracing::warn!(document.id = %key.id, error, "a document cannot be put into the index");
                    }
                }
            }
            // What cannot be indexed must not keep the others from it.
            match noted.last() {
                Some(last) if noted.len() as u64 == NOTED_AT_ONCE => filter.after = Some(last.id.clone()),
                _ => return Ok(mended),
            }
        }
    }

    /// Makes the index of a dataset anew from what is kept. How many documents it has. While that goes on
    /// only what is in it already is found.
    ///
    /// # Errors
    /// `NotFound`; otherwise when the store cannot be read or the index cannot be written.
    pub async fn reindex(&self, dataset: &DatasetKey) -> Result<u64> {
        let index = self.index_of(dataset).await?;
        // First of all: whatever ends this, the rest is mended.
        self.parts.queue.all_unindexed(dataset).await?;
        // Not document by document: what belongs to no document that there is would stay.
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

    /// Mends what is noted, then compares the index of every dataset with what is kept. Of those that hold
    /// another number of chunks, because their folder was lost or taken from elsewhere, every document is put
    /// there anew, one by one; what is in them is found meanwhile, and others may work on them. An index
    /// that cannot be opened at all is made anew. These datasets.
    ///
    /// # Errors
    /// When the store cannot be read. What cannot be indexed is left noted, and the log says why.
    pub async fn check(&self) -> Result<Vec<DatasetKey>> {
        self.mend().await?;
        let mut renewed = Vec::new();
        for key in self.every_dataset().await? {
            self.look_at_summaries(&key);
            match self.held(&key).await? {
                IndexState::InSync => continue,
                IndexState::Differs => {
                    tracing::info!(dataset.id = %key.id, "an index differs from what is stored, and is mended");
                    self.parts.queue.all_unindexed(&key).await?;
                }
                IndexState::Unreadable => match self.reindex(&key).await {
                    Ok(documents) => {
                        tracing::info!(dataset.id = %key.id, documents, "an index was rebuilt");
                    }
                    Err(error) => {
                        tracing::error!(dataset.id = %key.id, error = error.detail(), "an index cannot be made");
                    }
                },
            }
            renewed.push(key);
        }
        if !renewed.is_empty() {
            self.mend().await?;
        }
        Ok(renewed)
    }

    /// How the index of a dataset stands to what is kept, as far as nobody is changing the two.
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
                    // Any other failure may pass, and to make an index anew takes away what is found
                    // meanwhile.
                    Err(error) if error.kind == ErrorKind::Internal => Ok(IndexState::Unreadable),
                    _ => Ok(IndexState::InSync),
                };
            }
        };
        // What somebody did between the two is no difference.
        let differs = held != before.chunks && self.parts.queue.to_be_found(dataset).await? == before;
        Ok(if differs { IndexState::Differs } else { IndexState::InSync })
    }
}

/// How an index stands to what is kept.
enum IndexState {
    /// It holds as many chunks, or that cannot be said now.
    InSync,
    /// It holds more or less of them.
    Differs,
    /// It cannot be opened.
    Unreadable,
}

/// After this time an index that could not be read is looked at again: it may have been for a moment only.
const SECOND_LOOK: Duration = Duration::from_secs(2);

/// An error for a chunk that is not there.
pub(super) fn missing_chunk(id: &ChunkId) -> Error {
    Error::not_found(format!("there is no chunk `{id}`"))
}
