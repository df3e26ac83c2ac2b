//! The new chunks of a document, page by page.

use weft_core::Result;
use weft_core::seam::dataset_store::StoredChunk;

use super::DocumentWork;

/// Reads the new chunks of a document in their order.
pub(super) struct ChunkPages<'w, 'd> {
    work: &'w DocumentWork<'d>,
    /// Maximum number of chunks in a page.
    limit: u64,
    /// The ordinal of the last chunk that was read.
    after: Option<u64>,
}

impl<'d> DocumentWork<'d> {
    /// Starts to read the new chunks from the beginning, at most `limit` at a time.
    pub(super) fn pages(&self, limit: u64) -> ChunkPages<'_, 'd> {
        ChunkPages { work: self, limit, after: None }
    }
}

impl ChunkPages<'_, '_> {
    /// Returns the next page; `None` after the last one.
    ///
    /// # Errors
    /// `Conflict` when another worker has the document.
    pub(super) async fn next_page(&mut self) -> Result<Option<Vec<StoredChunk>>> {
        let DocumentWork { library, taken, .. } = self.work;
        let page = library.parts.queue.new_chunks(&taken.lease, self.after, self.limit).await?;
        let Some(last) = page.last() else { return Ok(None) };
        self.after = Some(last.ordinal);
        Ok(Some(page))
    }
}
