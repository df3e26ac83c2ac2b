//! The last stage: the new chunks are made searchable.

use std::collections::HashSet;

use tokio::sync::OwnedMutexGuard;
use weft_core::Result;
use weft_core::id::DocumentKey;
use weft_core::seam::dataset_store::IngestStage;
use weft_core::seam::index::{IndexChange, WriteConfirmation};
use weft_core::seam::ingest_queue::IndexNote;

use super::DocumentWork;
use crate::ingest::behind::Noted;
use crate::ingest::indexing::{CHUNKS_AT_ONCE, adding, indexed_document};
use crate::ingest::plan;

impl DocumentWork<'_> {
    /// Adds the new chunks to the index, then replaces the old ones in the store, then removes what is no
    /// longer needed from the index. The documentation of [`crate::ingest`] explains this order.
    pub(super) async fn index(&self) -> Result<()> {
        let parts = &self.library.parts;
        let key = &self.taken.document.key;
        let _lock = self.right(key).await?;
        let note = parts.queue.unindexed(key).await?;
        // Read before anything is added: what is there now and does not come again has to be removed.
        let mut old = self.library.found_ids(key).await?;
        // Its name and metadata may have changed since it was taken.
        let document = parts.store.document(key).await?;
        let mut shown = indexed_document(&document);
        // Nothing of it can be shown before it is complete; until then it must not take the places of others.
        let hidden = shown.available && document.chunk_count == 0;
        shown.available &= !hidden;
        // A dataset keeps its index while a document of it is being processed.
        let index = self.dataset.index();
        let mut changes = vec![IndexChange::Document(shown)];
        let (mut done, mut kept) = (0, Vec::new());
        let mut pictures = HashSet::new();
        let mut pages = self.pages(CHUNKS_AT_ONCE);
        while let Some(page) = pages.next_page().await? {
            // Before each further page: a worker that has lost the document must not continue to fill the index.
            if done > 0 {
                self.tell().await?;
            }
            done += page.len();
            for chunk in &page {
                old.remove(&chunk.id);
                pictures.extend(chunk.picture.clone());
            }
            changes.push(adding(&document, page));
            kept.push(parts.index.write_behind(&index, std::mem::take(&mut changes)).await?);
            self.say(IngestStage::Indexing, 0.5, &format!(": {}", weft_core::value::plural(done, "chunk")));
        }
        // Set before the queue is updated, so that the lease is not renewed in between.
        let warnings = self.said(|said| {
            said.settled = true;
            said.warnings.clone()
        });
        let settled = plan::done(&self.plan, &warnings);
        parts.queue.settle(&self.taken.lease, &settled, self.library.now_ms()).await?;
        let mut last = Vec::new();
        if hidden {
            last.push(IndexChange::Document(indexed_document(&document)));
        }
        if !old.is_empty() {
            last.push(IndexChange::RemoveChunks(old.into_iter().collect()));
        }
        if let Err(error) = self.clean(note, last, kept).await {
            // It is complete; errors in the index are fixed when it is repaired.
            tracing::warn!(document.id = %key.id, error = error.detail(), "the index could not be updated");
        }
        if let Err(error) = self.library.clear_pictures(key, &pictures).await {
            // They are removed when the document is processed again, or together with it.
            tracing::warn!(document.id = %key.id, error = error.detail(), "unreferenced pictures could not be removed");
        }
        Ok(())
    }

    /// Acquires the lock of the document. If that involved waiting, checks that the lease has not been lost
    /// meanwhile.
    async fn right(&self, key: &DocumentKey) -> Result<OwnedMutexGuard<()>> {
        if let Some(lock) = self.library.locks.try_lock(key) {
            return Ok(lock);
        }
        let lock = self.library.lock(key).await;
        self.tell().await?;
        Ok(lock)
    }

    /// Makes the last changes of the index, after which it contains what is stored; reindexes the whole
    /// document if that is not certain.
    async fn clean(
        &self,
        note: IndexNote,
        last: Vec<IndexChange>,
        mut kept: Vec<WriteConfirmation>,
    ) -> Result<()> {
        let key = &self.taken.document.key;
        // This worker itself was the one indexing it.
        let noted = Noted { busy: false, ..self.library.of_next_change(key, note) };
        if !noted.level {
            return self.library.sync(key).await;
        }
        if !last.is_empty() {
            let index = self.library.index_of(&key.dataset).await?;
            kept.push(self.library.parts.index.write_behind(&index, last).await?);
        }
        self.library.will_follow(key, noted, kept).await
    }
}
