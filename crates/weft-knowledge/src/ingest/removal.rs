//! Removes things from all the places where they are stored.
//!
//! They are removed from the store first, where the same step notes that something may remain of them; then
//! from the index, and files last. What a crash leaves behind is cleared away when the index is repaired.

use std::collections::HashSet;

use weft_core::Result;
use weft_core::error::found;
use weft_core::id::{DatasetKey, DocumentId, DocumentKey};
use weft_core::seam::dataset_store::{Dataset, Document};
use weft_core::seam::index::IndexChange;
use weft_core::seam::ingest_queue::Removed;

use super::library::Library;
use crate::pictures;

/// Number of removed things cleared away in one go.
const REMOVED_AT_ONCE: u64 = 200;

impl Library {
    /// Removes a dataset with everything in it.
    ///
    /// # Errors
    /// `NotFound`; otherwise when something cannot be removed, in which case the dataset is still gone.
    pub async fn remove_dataset(&self, key: &DatasetKey) -> Result<()> {
        let key = key.clone();
        let remove = async move |library: Self| {
            let blobs = library.parts.store.remove(&key).await?;
            library.remove_indexes(&key).await?;
            library.remove_blobs(&key, &blobs).await?;
            library.parts.queue.forget(&key, None, library.now_ms()).await
        };
        self.whole(remove).await
    }

    pub(super) async fn remove_indexes(&self, dataset: &DatasetKey) -> Result<()> {
        for index in Dataset::indexes(dataset) {
            self.parts.index.remove(&index).await?;
        }
        Ok(())
    }

    async fn remove_blobs(&self, key: &DatasetKey, blobs: &[String]) -> Result<()> {
        for blob in blobs.iter().filter(|blob| !blob.is_empty()) {
            for picture in self.parts.blobs.below(&key.tenant, &pictures::folder(blob)).await? {
                self.parts.blobs.remove(&key.tenant, &picture).await?;
            }
            self.parts.blobs.remove(&key.tenant, blob).await?;
        }
        Ok(())
    }

    /// Removes documents with their chunks and files; those that do not exist are skipped. Returns how many
    /// there were.
    ///
    /// # Errors
    /// When something cannot be removed, in which case the documents are still gone.
    pub async fn remove_documents(&self, dataset: &DatasetKey, ids: &[DocumentId]) -> Result<u64> {
        let mut removed = 0;
        for id in ids {
            let key = DocumentKey::new(dataset, id.clone());
            removed += self.whole(async move |library: Self| library.remove_document(&key).await).await?;
        }
        Ok(removed)
    }

    async fn remove_document(&self, key: &DocumentKey) -> Result<u64> {
        // A worker about to add it to the index either finishes first or comes too late.
        let _lock = self.lock(key).await;
        let blobs = self.parts.store.remove_documents(&key.dataset, std::slice::from_ref(&key.id)).await?;
        self.clear_after(key, &blobs).await?;
        Ok(blobs.len() as u64)
    }

    /// Clears away what remains of a document that the store has removed. Requires the document's lock.
    pub(super) async fn clear_after(&self, key: &DocumentKey, blobs: &[String]) -> Result<()> {
        let dataset = &key.dataset;
        // Without the dataset there is no index any more, and a write would create a new one.
        if let Some(index) = found(self.index_of(dataset).await)? {
            self.parts.index.write(&index, vec![IndexChange::RemoveDocument(key.id.clone())]).await?;
        }
        self.remove_blobs(dataset, blobs).await?;
        self.remove_summaries_of(key).await?;
        self.document_changed(key);
        self.parts.queue.forget(dataset, Some(&key.id), self.now_ms()).await
    }

    /// Clears away the remains of removed things.
    ///
    /// # Errors
    /// When the store cannot be read. What cannot be cleared away stays noted, and the reason is logged.
    pub(super) async fn clear_away(&self) -> Result<()> {
        loop {
            let removed = self.parts.queue.removed(self.now_ms(), REMOVED_AT_ONCE).await?;
            let mut stuck: HashSet<&DatasetKey> = HashSet::new();
            for one in &removed {
                // The note of a dataset is removed only after those of its documents, so these have to be
                // cleared away first.
                if one.document.is_none() && stuck.contains(&one.dataset) {
                    continue;
                }
                match self.clear_one_away(one).await {
                    Ok(true) => {}
                    Ok(false) => drop(stuck.insert(&one.dataset)),
                    Err(error) => {
                        let (dataset, error) = (&one.dataset.id, error.full());
                        tracing::warn!(dataset.id = %dataset, error, "some removed data could not be deleted");
                        stuck.insert(&one.dataset);
                    }
                }
            }
            if !stuck.is_empty() || (removed.len() as u64) < REMOVED_AT_ONCE {
                return Ok(());
            }
        }
    }

    /// Clears away the remains of one removed thing. Returns whether that was possible at this moment.
    async fn clear_one_away(&self, one: &Removed) -> Result<bool> {
        let Removed { dataset, document, blob } = one;
        let _lock = match document {
            None => {
                self.remove_indexes(dataset).await?;
                None
            }
            Some(id) => {
                let key = DocumentKey::new(dataset, id.clone());
                let Some(lock) = self.locks.try_lock(&key) else { return Ok(false) };
                // A document with the same id may have been added again, such as the one with the summaries:
                // then everything there belongs to the new one.
                let is_back = found(self.parts.store.document(&key).await)?.is_some();
                if !is_back {
                    if let Some(index) = found(self.index_of(dataset).await)? {
                        self.parts.index.write(&index, vec![IndexChange::RemoveDocument(id.clone())]).await?;
                    }
                    self.remove_blobs(dataset, std::slice::from_ref(blob)).await?;
                    self.remove_summaries_of(&key).await?;
                    self.document_changed(&key);
                }
                Some(lock)
            }
        };
        self.parts.queue.forget(dataset, document.as_ref(), self.now_ms()).await?;
        Ok(true)
    }

    /// Removes from the index and from the files what a worker may have written after the document was removed.
    pub(super) async fn forget_if_gone(&self, document: &Document) -> Result<()> {
        let (key, blobs) = (&document.key, std::slice::from_ref(&document.blob));
        let Some(index) = found(self.index_of(&key.dataset).await)? else {
            self.remove_blobs(&key.dataset, blobs).await?;
            // A worker that wrote after the dataset was removed has created a new index, which has no owner.
            return self.remove_indexes(&key.dataset).await;
        };
        let _lock = self.lock(key).await;
        if found(self.parts.store.document(key).await)?.is_none() {
            let gone = IndexChange::RemoveDocument(key.id.clone());
            self.parts.index.write(&index, vec![gone]).await?;
            self.remove_blobs(&key.dataset, blobs).await?;
        }
        Ok(())
    }
}
