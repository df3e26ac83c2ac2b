//! The pictures in documents, which are stored beside them.

use std::collections::HashSet;

use bytes::Bytes;
use weft_core::error::found;
use weft_core::id::DocumentKey;
use weft_core::seam::dataset_store::{ChunkFilter, Document, DocumentState};
use weft_core::seam::document_reader::FoundPictures;
use weft_core::seam::ingest_queue::{PictureSize, TakenDocument};
use weft_core::{Error, Result};

use super::ids::PictureNames;
use super::indexing::CHUNKS_AT_ONCE;
use super::library::Library;
use crate::pictures;

impl Library {
    /// Returns a picture of a document by the name that its chunks use for it.
    ///
    /// # Errors
    /// `NotFound` for a picture that is not stored; `Invalid` for an invalid name.
    pub async fn picture(&self, document: &Document, name: &str) -> Result<Bytes> {
        if document.blob.is_empty() {
            return Err(Error::not_found("no pictures are stored for this document"));
        }
        let blob = format!("{}/{name}", pictures::folder(&document.blob));
        self.parts.blobs.get(&document.key.dataset.tenant, &blob).await
    }

    /// Stores pictures beside a document that is being processed; those of another type than their reader
    /// claims are left out. Returns their names, and how many more there are than the tenant has room for.
    pub(super) async fn put_pictures(
        &self,
        taken: &TakenDocument,
        kept: &FoundPictures,
    ) -> Result<(PictureNames, usize)> {
        let document = &taken.document;
        let (tenant, folder) = (&document.key.dataset.tenant, pictures::folder(&document.blob));
        let mut found = Vec::new();
        for (number, one) in (0_u32..).zip(&kept.pictures) {
            let bytes = &one.picture.bytes;
            if pictures::media_type(bytes).is_some() {
                found.push((number, pictures::name(bytes), bytes));
            }
        }
        if found.is_empty() {
            return Ok((PictureNames::new(), 0));
        }
        let size = |(_, name, bytes): &(u32, String, &Bytes)| PictureSize {
            name: name.clone(),
            bytes: bytes.len() as u64,
        };
        let sizes: Vec<PictureSize> = found.iter().map(size).collect();
        // Counted before they are stored, so that of several documents processed concurrently none takes the
        // room of another.
        let most = self.limits.tenant_bytes_max;
        let counted = self.parts.queue.count_pictures(&taken.lease, &sizes, most).await?;
        let counted: HashSet<String> = counted.into_iter().collect();
        let (mut names, mut left_out) = (PictureNames::new(), HashSet::new());
        for (number, name, bytes) in found {
            if counted.contains(&name) {
                self.parts.blobs.put(tenant, &format!("{folder}/{name}"), bytes.clone()).await?;
                names.insert(number, name);
            } else {
                left_out.insert(name);
            }
        }
        for (number, one) in (0_u32..).zip(&kept.pictures) {
            if let Some(first) = one.same_as.and_then(|first| names.get(&first).cloned()) {
                names.insert(number, first);
            }
        }
        Ok((names, left_out.len()))
    }

    /// Removes pictures beside a document that none of its chunks is shown with any more, unless the document
    /// is being processed again: then they may be among the new ones, and surplus ones are removed at the end
    /// of that. Requires the document's lock.
    pub(super) async fn remove_pictures(&self, key: &DocumentKey, names: &[String]) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let Some(document) = found(self.parts.store.document(key).await)? else { return Ok(()) };
        if document.blob.is_empty() || document.state == DocumentState::Running {
            return Ok(());
        }
        let folder = pictures::folder(&document.blob);
        for name in names {
            self.parts.blobs.remove(&key.dataset.tenant, &format!("{folder}/{name}")).await?;
        }
        Ok(())
    }

    /// Removes the pictures beside a document except those with the given names, unless the document is being
    /// processed again: then they may be among the new ones. Requires the document's lock.
    pub(super) async fn clear_pictures(&self, key: &DocumentKey, named: &HashSet<String>) -> Result<()> {
        let Some(document) = found(self.parts.store.document(key).await)? else { return Ok(()) };
        if document.blob.is_empty() || document.state == DocumentState::Running {
            return Ok(());
        }
        let (tenant, folder) = (&key.dataset.tenant, pictures::folder(&document.blob));
        for blob in self.parts.blobs.below(tenant, &folder).await? {
            let name = blob.rsplit('/').next().unwrap_or_default();
            if !named.contains(name) {
                self.parts.blobs.remove(tenant, &blob).await?;
            }
        }
        Ok(())
    }

    /// Removes the pictures beside a document that none of its chunks is shown with: a process may have ended
    /// between removing chunks and removing their pictures. Requires the document's lock.
    pub(super) async fn clear_unnamed_pictures(&self, key: &DocumentKey) -> Result<()> {
        let Some(document) = found(self.parts.store.document(key).await)? else { return Ok(()) };
        // A document that is queued, or will be continued later, has chunks that are not visible yet.
        if document.blob.is_empty() || document.state != DocumentState::Done {
            return Ok(());
        }
        let folder = pictures::folder(&document.blob);
        if self.parts.blobs.below(&key.dataset.tenant, &folder).await?.is_empty() {
            return Ok(());
        }
        let mut named = HashSet::new();
        let filter = ChunkFilter { limit: CHUNKS_AT_ONCE, ..ChunkFilter::default() };
        let mut pages = self.pages(key, filter);
        while let Some(page) = pages.next().await? {
            named.extend(page.into_iter().filter_map(|chunk| chunk.picture));
        }
        self.clear_pictures(key, &named).await
    }
}
