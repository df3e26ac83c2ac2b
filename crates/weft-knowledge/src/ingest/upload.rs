//! Files that people give.

use bytes::Bytes;
use weft_core::error::found;
use weft_core::id::{DatasetKey, DocumentId, DocumentKey};
use weft_core::seam::dataset_store::{Document, DocumentQuota, DocumentState, Settings};
use weft_core::seam::document_reader::ChunkMethod;
use weft_core::{Error, ErrorKind, Result};

use super::library::{Library, Naming};

/// Bytes of a file's name, at most.
pub(super) const NAME_BYTES_MAX: usize = 255;

/// Numbers that are tried for a name that is there already.
const NUMBERS_MAX: u32 = 10_000;

/// A name with a number before its ending: `report(1).pdf`. It is cut to leave room for both.
pub fn numbered(name: &str, number: u32) -> String {
    let (stem, ending) = match name.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() && !stem.ends_with('/') && !ending.contains('/') => {
            (stem, format!("({number}).{ending}"))
        }
        _ => (name, format!("({number})")),
    };
    let room = NAME_BYTES_MAX.saturating_sub(ending.len()).min(stem.len());
    let cut = (0..=room).rev().find(|at| stem.is_char_boundary(*at)).unwrap_or_default();
    format!("{}{ending}", &stem[..cut])
}

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
    /// The file is stored before the document is, so there is no document without its file.
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
        let mut document = Document {
            key: DocumentKey::new(dataset, id),
            name: name.clone(),
            size: bytes.len() as u64,
            blob: blob.clone(),
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
            revision: 0,
            created_ms: now_ms,
            updated_ms: now_ms,
        };
        self.parts.blobs.put(&dataset.tenant, &blob, bytes).await?;
        for number in 1..=NUMBERS_MAX {
            let error = match self.parts.store.add_document_within(&document, quota).await {
                Ok(()) => return Ok(document),
                Err(error) => error,
            };
            // Somebody else has added the same one, whose file this is as well.
            if error.kind == ErrorKind::Conflict && self.is_document(&document.key).await? {
                return Err(error);
            }
            if error.kind == ErrorKind::Conflict && naming == Naming::Numbered {
                document.name = numbered(&name, number);
                continue;
            }
            // What is told is why the row failed; bytes that stay are found by nobody.
            let _ = self.parts.blobs.remove(&dataset.tenant, &blob).await;
            return Err(error);
        }
        let _ = self.parts.blobs.remove(&dataset.tenant, &blob).await;
        Err(Error::new(ErrorKind::Conflict, format!("every number of the name `{name}` is taken")))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_a_number_before_their_ending() {
        assert_eq!(numbered("report.pdf", 1), "report(1).pdf");
        assert_eq!(numbered("a.tar.gz", 12), "a.tar(12).gz");
        assert_eq!(numbered("README", 2), "README(2)");
        assert_eq!(numbered(".env", 3), ".env(3)");
        assert_eq!(numbered("a.b/README", 4), "a.b/README(4)");
        assert_eq!(numbered("a/.env", 5), "a/.env(5)");
        let long = numbered(&format!("{}.txt", "ä".repeat(125)), 10);
        assert!(long.len() <= NAME_BYTES_MAX && long.ends_with("ä(10).txt"), "{long}");
    }
}
