//! Files that people give.

use bytes::Bytes;
use weft_core::error::found;
use weft_core::id::{DatasetKey, DocumentId, DocumentKey};
use weft_core::seam::dataset_store::{Document, DocumentChange, DocumentFilter, DocumentQuota, Settings};
use weft_core::seam::document_reader::ChunkMethod;
use weft_core::{Error, ErrorKind, Result};

use super::library::{Library, Naming};
use super::naming::{NAME_BYTES_MAX, WantedName, numbered, under_free_name};

/// After this time a file whose document was not added is one that its process has left behind: longer than the slowest
/// place for files takes to store one.
const ADDED_WITHIN_MS: i64 = 24 * 3_600_000;

/// A file that is about to become a document.
pub(super) struct NewDocument {
    pub(super) id: DocumentId,
    pub(super) name: String,
    pub(super) bytes: Bytes,
    pub(super) method: ChunkMethod,
    pub(super) settings: Settings,
    /// What there may be of documents with it.
    pub(super) quota: DocumentQuota,
}

impl NewDocument {
    /// The document as it is before anybody reads it, and its file.
    fn unread(self, dataset: &DatasetKey, now_ms: i64) -> (Document, Bytes) {
        let document = Document {
            blob: format!("documents/{}", self.id),
            size: self.bytes.len() as u64,
            method: self.method,
            settings: self.settings,
            ..Document::unread(DocumentKey::new(dataset, self.id), self.name, now_ms)
        };
        (document, self.bytes)
    }
}

impl Library {
    /// Keeps a file as a new document of a dataset, with the method and the settings of that. Nobody reads
    /// it yet. Its name may be a path within a folder, `guide/start.md`.
    ///
    /// The file is stored before the document is, so there is no document without its file; a file whose document never came is
    /// cleared away after a day.
    ///
    /// # Errors
    /// `NotFound` without the dataset; `Invalid` for a file that is too large, or a name that
    /// is empty or too long; `Conflict` for a name that is there already and is to be this one exactly.
    pub async fn upload(
        &self,
        dataset: &DatasetKey,
        name: &str,
        bytes: Bytes,
        naming: Naming,
    ) -> Result<Document> {
        self.upload_within(dataset, (name, bytes), naming, DocumentQuota::default()).await
    }

    /// The same where the tenant may have so much and no more.
    ///
    /// # Errors
    /// As [`Library::upload`]; `QuotaExceeded`.
    pub async fn upload_within(
        &self,
        dataset: &DatasetKey,
        (name, bytes): (&str, Bytes),
        naming: Naming,
        quota: DocumentQuota,
    ) -> Result<Document> {
        let new = NewDocument { quota, ..self.new_document(dataset, name, bytes).await? };
        let dataset = dataset.clone();
        // Bytes that are there without a document would be found by nobody.
        self.whole(async move |library: Self| library.add_file(&dataset, new, naming).await).await
    }

    /// Keeps a file as a document. Nothing may cut it off between the file and the document.
    pub(super) async fn add_file(
        &self,
        dataset: &DatasetKey,
        new: NewDocument,
        naming: Naming,
    ) -> Result<Document> {
        let quota = new.quota;
        let (document, bytes) = new.unread(dataset, self.now_ms());
        let expected_ms = self.put_file(&document, bytes).await?;
        let store = |name: String| {
            let named = Document { name, ..document.clone() };
            async move { self.add_named(named, quota).await }
        };
        let added = match naming {
            Naming::Exact => store(document.name.clone()).await,
            Naming::Numbered => {
                let wanted = WantedName { name: &document.name, with_number: numbered };
                under_free_name(wanted, store, |name| self.has_name(dataset, name)).await
            }
        };
        match added {
            Ok(outcome) => outcome,
            Err(error) => {
                // A store that fails may have added it all the same; if not, the note is found.
                if is_refusal(error.kind) {
                    self.take_back(&document, expected_ms).await;
                }
                Err(error)
            }
        }
    }

    /// Stores the file of a document that is not there yet. Until when the document is expected.
    async fn put_file(&self, document: &Document, bytes: Bytes) -> Result<i64> {
        // Before the file is there: whatever ends this in between, somebody finds the note, and with that the file.
        let expected_ms = self.now_ms().saturating_add(ADDED_WITHIN_MS);
        self.parts.queue.expect_file(&document.key, &document.blob, expected_ms).await?;
        self.parts.blobs.put(&document.key.dataset.tenant, &document.blob, bytes).await?;
        Ok(expected_ms)
    }

    /// Has a file take the place of a document, whose name it may have. It is a document of its own with the method and the
    /// settings of the dataset, but for what `change` makes of these, and nobody reads it yet.
    ///
    /// The store exchanges the two in one step. Whatever ends this before leaves the old one whole, and after that the new one;
    /// what is left of either is noted and cleared away. Whoever reads the old one at the time finds it gone.
    ///
    /// # Errors
    /// `NotFound` without the document; `Invalid` for a file that is too large, or a name that is none; `Conflict` for a name
    /// that another document has. Then nothing has changed.
    pub async fn replace_document(
        &self,
        replaced: &DocumentKey,
        (name, bytes): (&str, Bytes),
        change: impl FnOnce(&Document) -> DocumentChange,
    ) -> Result<Document> {
        let dataset = &replaced.dataset;
        let new = self.new_document(dataset, name, bytes).await?;
        let (made, bytes) = new.unread(dataset, self.now_ms());
        let DocumentChange { revision: _, name: _, method, settings, metadata, enabled } = change(&made);
        let document = Document {
            method: method.unwrap_or(made.method),
            settings: settings.unwrap_or(made.settings),
            metadata: metadata.unwrap_or(made.metadata),
            enabled: enabled.unwrap_or(made.enabled),
            ..made
        };
        let replaced = replaced.clone();
        // Bytes that are there without a document would be found by nobody.
        self.whole(async move |library: Self| library.exchange(&replaced, document, bytes).await).await
    }

    async fn exchange(&self, replaced: &DocumentKey, document: Document, bytes: Bytes) -> Result<Document> {
        let expected_ms = self.put_file(&document, bytes).await?;
        // A worker that is about to put the old one into the index is let through first, or comes too late.
        let _lock = self.lock(replaced).await;
        let blob = match self.parts.store.replace_document(&document, &replaced.id).await {
            Ok(blob) => blob,
            Err(error) => {
                if is_refusal(error.kind) {
                    self.take_back(&document, expected_ms).await;
                }
                return Err(error);
            }
        };
        if let Err(error) = self.clear_after(replaced, &[blob]).await {
            // It stays noted, and is cleared away later.
            let (id, error) = (&replaced.id, error.detail());
            tracing::warn!(document.id = %id, error, "something of a document that was replaced is left");
        }
        Ok(document)
    }

    /// Adds a document under its name. The inner error is that somebody else has added the same one, whose file this is as well: no
    /// other name is free for it.
    async fn add_named(&self, document: Document, quota: DocumentQuota) -> Result<Result<Document>> {
        let Err(error) = self.parts.store.add_document_within(&document, quota).await else {
            return Ok(Ok(document));
        };
        if error.kind == ErrorKind::Conflict && self.is_document(&document.key).await? {
            return Ok(Err(error));
        }
        Err(error)
    }

    async fn has_name(&self, dataset: &DatasetKey, name: String) -> Result<bool> {
        let filter = DocumentFilter { name: Some(name), limit: 0, ..DocumentFilter::default() };
        Ok(self.parts.store.documents(dataset, &filter).await?.1 > 0)
    }

    /// Removes a file whose document was refused. What is told is why that was; a file that stays is noted still.
    async fn take_back(&self, document: &Document, expected_ms: i64) {
        let DocumentKey { dataset, id } = &document.key;
        if self.parts.blobs.remove(&dataset.tenant, &document.blob).await.is_ok() {
            let _ = self.parts.queue.forget(dataset, Some(id), expected_ms).await;
        }
    }

    async fn is_document(&self, key: &DocumentKey) -> Result<bool> {
        Ok(found(self.parts.store.document(key).await)?.is_some())
    }

    /// A file as a document that has the method and the settings of its dataset.
    async fn new_document(&self, dataset: &DatasetKey, name: &str, bytes: Bytes) -> Result<NewDocument> {
        let within = self.parts.store.dataset_uncounted(dataset).await?;
        self.check_file(name, &bytes)?;
        Ok(NewDocument {
            id: DocumentId::generate(),
            name: name.to_owned(),
            bytes,
            method: within.method,
            settings: within.settings,
            quota: DocumentQuota::default(),
        })
    }

    fn check_file(&self, name: &str, bytes: &Bytes) -> Result<()> {
        if name.trim().is_empty() {
            return Err(Error::invalid("the file has no name"));
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(Error::invalid(format!("the name of the file has {} bytes", name.len()))
                .help(format!("use at most {NAME_BYTES_MAX}")));
        }
        let leads_on = name.split('/').all(|part| !matches!(part.trim(), "" | "." | ".."));
        if !leads_on || name.contains(['\\', '\0']) {
            return Err(Error::invalid(format!("`{}` is not a name of a file", name.replace('\0', "�"))));
        }
        let (size, most) = (bytes.len() as u64, self.limits.file_bytes_max);
        if size > most {
            return Err(Error::invalid(format!("the file `{name}` has {size} bytes"))
                .help(format!("give files of at most {most} bytes, or let an operator raise the limit")));
        }
        Ok(())
    }
}

/// Whether a document that fails like this is not there.
fn is_refusal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Conflict | ErrorKind::Invalid | ErrorKind::NotFound | ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_stays_whose_document_may_have_been_added() {
        assert!(is_refusal(ErrorKind::Conflict) && is_refusal(ErrorKind::QuotaExceeded));
        assert!(!is_refusal(ErrorKind::Unavailable) && !is_refusal(ErrorKind::Internal));
    }
}
