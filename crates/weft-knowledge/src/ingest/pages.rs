//! Iterates over the chunks of a document in pages: they may not all fit into memory.

use weft_core::Result;
use weft_core::id::{ChunkId, DocumentKey};
use weft_core::seam::DatasetStore;
use weft_core::seam::dataset_store::{ChunkFilter, StoredChunk};

use super::library::Library;

/// Iterates over the chunks of a document. Removing chunks during the iteration shifts later pages, so a
/// caller that removes some must find all of them first.
pub struct ChunkPages<'a> {
    store: &'a dyn DatasetStore,
    document: &'a DocumentKey,
    /// Its offset is that of the next page.
    filter: ChunkFilter,
    is_over: bool,
}

impl std::fmt::Debug for ChunkPages<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkPages").field("document", self.document).finish_non_exhaustive()
    }
}

impl<'a> ChunkPages<'a> {
    /// Iterates over the chunks that a filter accepts, from its offset on; its limit is the page size.
    pub fn new(store: &'a dyn DatasetStore, document: &'a DocumentKey, filter: ChunkFilter) -> Self {
        Self { store, document, filter, is_over: false }
    }

    /// Returns the next page; `None` after the last one. There is always a first page, which may be empty.
    ///
    /// # Errors
    /// `NotFound` if the document does not exist; otherwise when the store cannot be read.
    pub async fn next(&mut self) -> Result<Option<Vec<StoredChunk>>> {
        if self.is_over {
            return Ok(None);
        }
        let (page, total) = self.store.chunks(self.document, &self.filter).await?;
        self.filter.offset = self.filter.offset.saturating_add(self.filter.limit.max(1));
        self.is_over = self.filter.offset >= total;
        Ok(Some(page))
    }

    /// Returns the ids of all chunks that satisfy `are_wanted`.
    ///
    /// # Errors
    /// As [`ChunkPages::next`].
    pub async fn ids(mut self, are_wanted: impl Fn(&StoredChunk) -> bool) -> Result<Vec<ChunkId>> {
        let mut ids = Vec::new();
        while let Some(page) = self.next().await? {
            ids.extend(page.into_iter().filter(|chunk| are_wanted(chunk)).map(|chunk| chunk.id));
        }
        Ok(ids)
    }
}

impl Library {
    pub(super) fn pages<'a>(&'a self, document: &'a DocumentKey, filter: ChunkFilter) -> ChunkPages<'a> {
        ChunkPages::new(&*self.parts.store, document, filter)
    }
}
