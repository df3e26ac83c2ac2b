//! Files that are uploaded.

use bytes::Bytes;
use weft_core::error::found;
use weft_core::id::{DatasetKey, DocumentId, DocumentKey};
use weft_core::seam::dataset_store::{Document, DocumentChange, DocumentFilter, DocumentQuota, Settings};
use weft_core::seam::document_reader::ChunkMethod;
use weft_core::{Error, ErrorKind, Result};

use super::library::{Library, Naming};
use super::naming::{NAME_BYTES_MAX, WantedName, numbered, under_free_name};

/// After this time, a file whose document was not added counts as left behind by its process: longer than the
/// slowest file store takes to store one.
const ADDED_WITHIN_MS: i64 = 24 * 3_600_000;

/// A file that is about to become a document.
pub(super) struct NewDocument {
    pub(super) id: DocumentId,
    pub(super) name: String,
    pub(super) bytes: Bytes,
    pub(super) method: ChunkMethod,
    pub(super) settings: Settings,
    /// The tenant's limits, which include this document.
    pub(super) quota: DocumentQuota,
}

impl NewDocument {
    /// Returns the document in its unprocessed state, and its file.
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
    /// Stores a file as a new document of a dataset, with the dataset's method and settings. It is not
    /// processed yet. Its name may be a path within a folder, `guide/start.md`.
    ///
    /// The file is stored before the document, so there is no document without its file; a file whose
    /// document was never added is cleared away after a day.
    ///
    /// # Errors
    /// `NotFound` if the dataset does not exist; `Invalid` for a file that is too large, or a name that is
    /// empty or too long; `Conflict` for a name that already exists when it has to be exactly this one.
    pub async fn upload(
        &self,
        dataset: &DatasetKey,
        name: &str,
        bytes: Bytes,
        naming: Naming,
    ) -> Result<Document> {
        self.upload_within(dataset, (name, bytes), naming, DocumentQuota::default()).await
    }

    /// Like [`Library::upload`], within the tenant's limits.
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
        // A file without a document could not be found by anyone.
        self.whole(async move |library: Self| library.add_file(&dataset, new, naming).await).await
    }

    /// Stores a file as a document. Must not be interrupted between storing the file and the document.
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
                // A store that fails may still have added it; if not, the note is found.
                if is_refusal(error.kind) {
                    self.take_back(&document, expected_ms).await;
                }
                Err(error)
            }
        }
    }

    /// Stores the file of a document that does not exist yet. Returns the time until which the document is expected.
    async fn put_file(&self, document: &Document, bytes: Bytes) -> Result<i64> {
        // Before the file exists: if this is interrupted, the note, and with it the file, will be found.
        let expected_ms = self.now_ms().saturating_add(ADDED_WITHIN_MS);
        self.parts.queue.expect_file(&document.key, &document.blob, expected_ms).await?;
        self.parts.blobs.put(&document.key.dataset.tenant, &document.blob, bytes).await?;
        Ok(expected_ms)
    }

    /// Replaces a document by a new one with the given file, which may have the same name. The new document
    /// has the method and the settings of the dataset, modified by `change`, and is not processed yet.
    ///
    /// The store exchanges the two in one step. An interruption before that leaves the old document intact,
    /// and afterwards the new one; the remains of either are noted and cleared away. A worker that is
    /// processing the old one finds it gone.
    ///
    /// # Errors
    /// `NotFound` if the document does not exist; `Invalid` for a file that is too large, or an invalid name;
    /// `Conflict` for a name that another document has. In these cases nothing has changed.
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
        // A file without a document could not be found by anyone.
        self.whole(async move |library: Self| library.exchange(&replaced, document, bytes).await).await
    }

    async fn exchange(&self, replaced: &DocumentKey, document: Document, bytes: Bytes) -> Result<Document> {
        let expected_ms = self.put_file(&document, bytes).await?;
        // A worker about to add the old one to the index either finishes first or comes too late.
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
            tracing::warn!(document.id = %id, error, "some data of a replaced document could not be deleted");
        }
        Ok(document)
    }

    /// Adds a document under its name. The inner error means that another process has added the same
    /// document, to which this file belongs as well: no other name can be tried for it.
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

    /// Removes a file whose document was rejected. The caller reports why it was; a file that remains is still noted.
    async fn take_back(&self, document: &Document, expected_ms: i64) {
        let DocumentKey { dataset, id } = &document.key;
        if self.parts.blobs.remove(&dataset.tenant, &document.blob).await.is_ok() {
            let _ = self.parts.queue.forget(dataset, Some(id), expected_ms).await;
        }
    }

    async fn is_document(&self, key: &DocumentKey) -> Result<bool> {
        Ok(found(self.parts.store.document(key).await)?.is_some())
    }

    /// Prepares a file as a document with the method and the settings of its dataset.
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
        // A name is also a path within a folder, and must not lead out of it.
        let leads_on = name.split('/').all(|part| !matches!(part.trim(), "" | "." | ".."));
        if !leads_on || name.contains(['\\', '\0']) {
            return Err(Error::invalid(format!("`{}` is not a valid file name", name.replace('\0', "�"))));
        }
        let (size, most) = (bytes.len() as u64, self.limits.file_bytes_max);
        if size > most {
            return Err(Error::invalid(format!("the file `{name}` has {size} bytes"))
                .help(format!("use files of at most {most} bytes, or have an operator raise the limit")));
        }
        Ok(())
    }
}

/// Whether a document is certain not to exist after this error.
fn is_refusal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Conflict | ErrorKind::Invalid | ErrorKind::NotFound | ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_kept_if_its_document_may_have_been_added() {
        assert!(is_refusal(ErrorKind::Conflict) && is_refusal(ErrorKind::QuotaExceeded));
        assert!(!is_refusal(ErrorKind::Unavailable) && !is_refusal(ErrorKind::Internal));
    }
}
