//! Builds summaries over all documents of a dataset. The chunks are read in blocks, in the order in which the
//! documents were added, so that no more than one block is in memory at a time; the summaries of the blocks
//! are few enough to be held for the levels above.

use std::collections::HashSet;
use std::sync::Arc;

use weft_core::error::found;
use weft_core::id::DocumentKey;
use weft_core::seam::dataset_store::{ChunkFilter, Extra, IngestStage, StoredChunk};
use weft_core::seam::ingest_queue::Amended;
use weft_core::{Json, Result};

use super::{Summaries, Summarizer, of};
use crate::ingest::indexing::CHUNKS_AT_ONCE;
use crate::ingest::work::DocumentWork;
use crate::raptor::dataset::{CHUNKS_MAX, has_resolution};
use crate::raptor::{BLOCK_MAX, is_summary};

/// Number of summaries that get their vectors back at a time.
const AMENDED_AT_ONCE: usize = 500;

/// Chunks of the dataset waiting until a block is full.
#[derive(Default)]
struct GatheredChunks {
    block: Vec<Arc<StoredChunk>>,
    /// Number of chunks before these.
    before: usize,
    /// What takes part in the second level.
    next: Vec<Arc<StoredChunk>>,
}

impl DocumentWork<'_> {
    /// Starts building what is derived from all documents of a dataset: there is no file to be read.
    pub(in crate::ingest::work) async fn begin_dataset(&self) -> Result<()> {
        let (queue, lease) = (&self.library.parts.queue, &self.taken.lease);
        let stamp = self.library.summarized_documents(&self.dataset.key).await?.stamp();
        queue.put_new_extra(lease, Extra::Summaries, &stamp).await?;
        if !has_resolution(&self.taken.document.settings) {
            queue.put_new_extra(lease, Extra::Graph, &Json::Null).await?;
        }
        queue.put_new(lease, &[], IngestStage::Enriching).await
    }

    /// Summarizes what the documents of the dataset say.
    pub(super) async fn summarize_dataset(&self, mut by: Summarizer) -> Result<()> {
        let parts = &self.library.parts;
        let taking_part = self.library.summarized_documents(&self.dataset.key).await?;
        // The summaries are those of the documents as they are now, whatever changes from here on.
        parts.queue.put_new_extra(&self.taken.lease, Extra::Summaries, &taking_part.stamp()).await?;
        let documents: Vec<DocumentKey> = taking_part.keys(&self.dataset.key);
        by.names = taking_part.names;
        let (_, mut summaries) = self.begun().await?;
        summaries.earlier = self.earlier_summaries().await?;
        let mut gathered = GatheredChunks::default();
        for document in &documents {
            self.gather(&by, document, &mut gathered, &mut summaries).await?;
        }
        self.sum_block(&by, &mut gathered, &mut summaries).await?;
        let next = std::mem::take(&mut gathered.next);
        // If no chunks belonged together there is nothing to summarize further.
        if next.len() < gathered.before {
            self.levels(&by, 2, next, &mut summaries).await?;
        }
        self.leave_out(summaries).await
    }

    /// Adds the chunks of a document to the blocks.
    async fn gather(
        &self,
        by: &Summarizer,
        document: &DocumentKey,
        gathered: &mut GatheredChunks,
        summaries: &mut Summaries,
    ) -> Result<()> {
        let (available, limit) = (Some(true), BLOCK_MAX as u64);
        let filter = ChunkFilter { vectors: true, available, limit, ..ChunkFilter::default() };
        let mut pages = self.library.pages(document, filter);
        // A document removed meanwhile has no more chunks, and its removal causes the summaries to be rebuilt.
        while let Some(page) = found(pages.next().await)?.flatten() {
            // Summaries of a single document only repeat what its chunks say.
            for chunk in page.into_iter().filter(|chunk| chunk.vector.is_some() && !is_summary(chunk)) {
                if gathered.before + gathered.block.len() >= CHUNKS_MAX {
                    self.warn(format!("Only the first {CHUNKS_MAX} chunks of the dataset are summarized"));
                    return Ok(());
                }
                gathered.block.push(Arc::new(chunk));
                if gathered.block.len() >= BLOCK_MAX {
                    self.sum_block(by, gathered, summaries).await?;
                }
            }
        }
        Ok(())
    }

    async fn sum_block(
        &self,
        by: &Summarizer,
        gathered: &mut GatheredChunks,
        summaries: &mut Summaries,
    ) -> Result<()> {
        let block = std::mem::take(&mut gathered.block);
        gathered.before += block.len();
        match block.len() {
            // A single chunk needs no summary, but related chunks may be in another block.
            0 | 1 => gathered.next.extend(block),
            _ => gathered.next.extend(self.level(by, 1, &block, summaries).await?),
        }
        Ok(())
    }

    /// Returns the summaries that are found until these are complete.
    async fn earlier_summaries(&self) -> Result<std::collections::HashMap<String, Arc<StoredChunk>>> {
        let mut earlier = std::collections::HashMap::new();
        let filter = ChunkFilter { vectors: true, limit: CHUNKS_AT_ONCE, ..ChunkFilter::default() };
        let mut pages = self.library.pages(&self.taken.document.key, filter);
        while let Some(page) = pages.next().await? {
            let known = page.into_iter().filter_map(|chunk| Some((of(&chunk)?, Arc::new(chunk))));
            earlier.extend(known);
        }
        Ok(earlier)
    }

    /// Drops summaries that an earlier attempt built from documents which have changed since.
    async fn leave_out(&self, summaries: Summaries) -> Result<()> {
        let Summaries { known, used, .. } = summaries;
        let used: HashSet<&String> = used.iter().collect();
        if known.keys().all(|of| used.contains(of)) {
            return Ok(());
        }
        let mut right: Vec<Arc<StoredChunk>> =
            known.into_iter().filter(|(of, _)| used.contains(of)).map(|(_, chunk)| chunk).collect();
        right.sort_by_key(|chunk| chunk.ordinal);
        let queue = &self.library.parts.queue;
        let chunks: Vec<StoredChunk> = right.iter().map(|chunk| StoredChunk::clone(chunk)).collect();
        queue.put_new(&self.taken.lease, &chunks, IngestStage::Summarizing).await?;
        // New chunks are stored without their vectors; these were computed, and paid for, before.
        for some in right.chunks(AMENDED_AT_ONCE) {
            let with = |chunk: &Arc<StoredChunk>| Amended {
                id: chunk.id.clone(),
                keywords: None,
                questions: None,
                vector: chunk.vector.clone(),
            };
            self.amend(&some.iter().map(with).collect::<Vec<_>>()).await?;
        }
        Ok(())
    }
}
