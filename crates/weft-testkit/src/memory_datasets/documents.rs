//! Adding, replacing and removing documents.

use weft_core::id::{DocumentId, DocumentKey, TenantId};
use weft_core::seam::dataset_store::{Dataset, DatasetFilter, Document, DocumentQuota, DocumentState};
use weft_core::seam::ingest_queue::{IngestLease, PictureSize};
use weft_core::{Error, Result};

use super::{DatasetTables, KeptDocument, at, conflict, missing};

/// Number of datasets in a list up to and including the position after which it continues.
pub(super) fn datasets_before(found: &[Dataset], filter: &DatasetFilter) -> u64 {
    let Some((time_ms, id)) = &filter.after else { return 0 };
    let is_before = |one: &&Dataset| {
        let time = if filter.by_update { one.updated_ms } else { one.created_ms };
        let (place, after) = ((time, &one.key.id), (*time_ms, id));
        if filter.ascending { place <= after } else { place >= after }
    };
    found.iter().filter(is_before).count() as u64
}

impl DatasetTables {
    /// Checks whether a dataset may have the embedder that it has in `changed`.
    pub(super) fn other_embedder(&self, changed: &Dataset) -> Result<()> {
        let Some(before) = self.datasets.get(&at(&changed.key)) else { return Ok(()) };
        if before.embedder == changed.embedder {
            return Ok(());
        }
        let theirs = || {
            let documents = self.documents.values().map(|kept| &kept.document);
            documents.filter(|document| document.key.dataset == changed.key)
        };
        let reading =
            |document: &&Document| matches!(document.state, DocumentState::Running | DocumentState::Paused);
        let chunks = theirs().map(|document| document.chunk_count).sum();
        changed.check_other_embedder(&before.embedder, (theirs().filter(reading).count() as u64, chunks))
    }

    /// Number of documents of a tenant, and their size in bytes including pictures.
    fn taken(&self, tenant: &TenantId) -> (u64, u64) {
        let theirs = || self.documents.values().filter(|kept| kept.document.key.dataset.tenant == *tenant);
        let bytes = |kept: &KeptDocument| kept.document.size + kept.pictures.values().sum::<u64>();
        (theirs().count() as u64, theirs().map(bytes).sum())
    }

    /// Returns the names of the pictures that fit within the limit.
    pub(super) fn count_pictures(
        &mut self,
        lease: &IngestLease,
        pictures: &[PictureSize],
        bytes_max: u64,
    ) -> Result<Vec<String>> {
        let mut taken = self.taken(&lease.document.dataset.tenant).1;
        let kept = self.leased(lease)?;
        let mut names = Vec::new();
        for PictureSize { name, bytes } in pictures {
            if !kept.pictures.contains_key(name) {
                if bytes_max > 0 && taken + bytes > bytes_max {
                    continue;
                }
                taken += bytes;
                kept.pictures.insert(name.clone(), *bytes);
            }
            names.push(name.clone());
        }
        Ok(names)
    }

    pub(super) fn add(&mut self, document: &Document, quota: DocumentQuota) -> Result<()> {
        quota.check(self.taken(&document.key.dataset.tenant), document.size)?;
        let of = at(&document.key.dataset);
        if !self.datasets.contains_key(&of) {
            return Err(Error::not_found("there is no such dataset"));
        }
        self.document_named(&document.key, &document.name)?;
        let place = (of, document.key.id.clone());
        if self.documents.contains_key(&place) {
            return Err(conflict("this document exists already"));
        }
        self.documents.insert(place, KeptDocument::new(document));
        let DocumentKey { dataset, id } = &document.key;
        self.removed.retain(|(one, _)| one.dataset != *dataset || one.document.as_ref() != Some(id));
        Ok(())
    }

    /// Replaces a document and returns the blob of the old one.
    pub(super) fn replace_document(&mut self, document: &Document, replaced: &DocumentId) -> Result<String> {
        let replaced = DocumentKey::new(&document.key.dataset, replaced.clone());
        let place = (at(&replaced.dataset), replaced.id.clone());
        let Some(before) = self.documents.remove(&place) else { return Err(missing(&replaced)) };
        // Added while the old document is taken out, since the new one may have its name.
        let added = self.add(document, DocumentQuota::default());
        let blob = before.document.blob.clone();
        self.documents.insert(place, before);
        added?;
        self.remove(&replaced);
        Ok(blob)
    }

    /// Removes a document and returns its blob, if it existed.
    pub(super) fn remove(&mut self, key: &DocumentKey) -> Option<String> {
        let kept = self.documents.remove(&(at(&key.dataset), key.id.clone()))?;
        self.leave(kept.left());
        self.readings.retain(|reading| reading.document != *key);
        Some(kept.document.blob)
    }
}
