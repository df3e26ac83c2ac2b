//! Documents that come and go.

use weft_core::id::{DocumentId, DocumentKey};
use weft_core::seam::dataset_store::{Document, DocumentQuota};
use weft_core::{Error, Result};

use super::{DatasetTables, KeptDocument, at, conflict, missing};

impl DatasetTables {
    pub(super) fn add(&mut self, document: &Document, quota: DocumentQuota) -> Result<()> {
        let theirs = || {
            let all = self.documents.values().map(|kept| &kept.document);
            all.filter(|one| one.key.dataset.tenant == document.key.dataset.tenant)
        };
        let taken = (theirs().count() as u64, theirs().map(|one| one.size).sum());
        quota.check(taken, document.size)?;
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

    /// The blob of the document whose place it has taken.
    pub(super) fn replace(&mut self, document: &Document, replaced: &DocumentId) -> Result<String> {
        let replaced = DocumentKey::new(&document.key.dataset, replaced.clone());
        let place = (at(&replaced.dataset), replaced.id.clone());
        let Some(before) = self.documents.remove(&place) else { return Err(missing(&replaced)) };
        // Without it, since the new one may have its name.
        let added = self.add(document, DocumentQuota::default());
        let blob = before.document.blob.clone();
        self.documents.insert(place, before);
        added?;
        self.remove(&replaced);
        Ok(blob)
    }

    /// The blob of a document that was there.
    pub(super) fn remove(&mut self, key: &DocumentKey) -> Option<String> {
        let kept = self.documents.remove(&(at(&key.dataset), key.id.clone()))?;
        self.leave(kept.left());
        self.readings.retain(|reading| reading.document != *key);
        Some(kept.document.blob)
    }
}
