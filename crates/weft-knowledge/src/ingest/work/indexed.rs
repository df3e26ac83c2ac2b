//! The last stage: the new chunks are put where they are found.

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
    /// Puts the new chunks into the index, then into the place of the old ones, then takes out what is of no
    /// more use. The module's description says why in this order.
    pub(super) async fn index(&self) -> Result<()> {
        let parts = &self.library.parts;
        let key = &self.taken.document.key;
        let _lock = self.right(key).await?;
        let note = parts.queue.unindexed(key).await?;
        // Read before anything is put in: what is there then and does not come again is what has to go.
        let mut old = self.library.found_ids(key).await?;
        // Its name and metadata may have changed since it was taken.
        let document = parts.store.document(key).await?;
        let mut shown = indexed_document(&document);
        // Nothing of it can be shown before it is done; till then it must not take the places of others.
        let hidden = shown.available && document.chunk_count == 0;
        shown.available &= !hidden;
        // A dataset stays with its index while a document of it is being read.
        let index = self.dataset.index();
        let mut changes = vec![IndexChange::Document(shown)];
        let (mut after, mut done, mut kept) = (None, 0, Vec::new());
        let mut pictures = HashSet::new();
        loop {
            let (page, last) = self.page(after, CHUNKS_AT_ONCE).await?;
            if last.is_none() {
                break;
            }
            // Before each further page: whoever has lost the document must not go on filling the index.
            if after.is_some() {
                self.tell().await?;
            }
            after = last;
            done += page.len();
            for chunk in &page {
                old.remove(&chunk.id);
                pictures.extend(chunk.picture.clone());
            }
            changes.push(adding(&document, page));
            kept.push(parts.index.write_behind(&index, std::mem::take(&mut changes)).await?);
            self.say(IngestStage::Indexing, 0.5, &format!(": {done} chunks"));
        }
        // Set before the queue hears of it, so that nobody renews the lease in between.
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
            // It is done; what is not right in the index is put right when it is mended.
            tracing::warn!(document.id = %key.id, error = error.detail(), "the index is left as it is");
        }
        if let Err(error) = self.library.clear_pictures(key, &pictures).await {
            // They go when it is read again, or with it.
            tracing::warn!(document.id = %key.id, error = error.detail(), "pictures that nobody names are left");
        }
        Ok(())
    }

    /// The lock of the document. Whoever had to wait for it may have lost the right to it meanwhile.
    async fn right(&self, key: &DocumentKey) -> Result<OwnedMutexGuard<()>> {
        if let Some(lock) = self.library.locks.try_lock(key) {
            return Ok(lock);
        }
        let lock = self.library.lock(key).await;
        self.tell().await?;
        Ok(lock)
    }

    /// Makes the last changes of the index, after which it holds what is kept; puts everything there anew
    /// when it is not known that it does.
    async fn clean(
        &self,
        note: IndexNote,
        last: Vec<IndexChange>,
        mut kept: Vec<WriteConfirmation>,
    ) -> Result<()> {
        let key = &self.taken.document.key;
        // It was busy with this itself.
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
