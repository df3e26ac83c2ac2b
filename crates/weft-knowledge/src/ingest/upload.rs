//! Files that people give.

use bytes::Bytes;
use weft_core::error::found;
use weft_core::id::{DatasetKey, DocumentId, DocumentKey};
use weft_core::seam::dataset_store::{Document, DocumentFilter, DocumentQuota, DocumentState, Settings};
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
        let within = self.parts.store.dataset_uncounted(dataset).await?;
        self.check_file(name, &bytes)?;
        let new = NewDocument {
            id: DocumentId::generate(),
            name: name.to_owned(),
            bytes,
            method: within.method,
            settings: within.settings,
            quota,
        };
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
        let NewDocument { id, name, bytes, method, settings, quota } = new;
        let blob = format!("documents/{id}");
        let now_ms = self.now_ms();
        let document = Document {
            key: DocumentKey::new(dataset, id),
            name: name.clone(),
            size: bytes.len() as u64,
            blob,
            method,
            settings,
            metadata: serde_json::Map::new(),
            enabled: true,
            state: DocumentState::Unstarted,
            progress: 0.0,
            message: String::new(),
            begun_ms: None,
            duration_ms: 0,
            chunk_count: 0,
            token_count: 0,
            picture: None,
            revision: 0,
            created_ms: now_ms,
            updated_ms: now_ms,
        };
        // Before the file is there: whatever ends this in between, somebody finds the note, and with that the file.
        let expected_ms = now_ms.saturating_add(ADDED_WITHIN_MS);
        self.parts.queue.expect_file(&document.key, &document.blob, expected_ms).await?;
        self.parts.blobs.put(&dataset.tenant, &document.blob, bytes).await?;
        let store = |name: String| {
            let named = Document { name, ..document.clone() };
            async move { self.add_named(named, quota).await }
        };
        let added = match naming {
            Naming::Exact => store(name).await,
            Naming::Numbered => {
                let wanted = WantedName { name: &name, with_number: numbered };
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
