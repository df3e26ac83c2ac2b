//! Files that people give.

use bytes::Bytes;
use weft_core::error::found;
use weft_core::id::{DatasetKey, DocumentId, DocumentKey};
use weft_core::seam::dataset_store::{Document, DocumentFilter, DocumentQuota, DocumentState, Settings};
use weft_core::seam::document_reader::ChunkMethod;
use weft_core::{Error, ErrorKind, Result};

use super::library::{Library, Naming};

/// Bytes of a file's name, at most.
pub(super) const NAME_BYTES_MAX: usize = 255;

/// After this time a file whose document was not added is one that its process has left behind: longer than the slowest
/// place for files takes to store one.
const ADDED_WITHIN_MS: i64 = 24 * 3_600_000;

/// The largest number that a name gets which is there already.
pub(super) const NUMBERS_MAX: u32 = 10_000;

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

/// The number after those that are taken, where they follow each other; otherwise one that is free, if there is any. Twice
/// as far each time, then half as far: whoever gives one name a thousand times must not have a thousand looked up for each.
pub(super) async fn free_number<F>(is_taken: impl Fn(u32) -> F) -> Result<u32>
where
    F: Future<Output = Result<bool>>,
{
    let (mut taken, mut free) = (0, 1);
    while free < NUMBERS_MAX && is_taken(free).await? {
        (taken, free) = (free, free.saturating_mul(2).min(NUMBERS_MAX));
    }
    while free - taken > 1 {
        let between = taken + (free - taken) / 2;
        if is_taken(between).await? {
            taken = between;
        } else {
            free = between;
        }
    }
    Ok(free)
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
        let mut document = Document {
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
        let mut number = 0;
        loop {
            let error = match self.parts.store.add_document_within(&document, quota).await {
                Ok(()) => return Ok(document),
                Err(error) => error,
            };
            // Somebody else has added the same one, whose file this is as well.
            if error.kind == ErrorKind::Conflict && self.is_document(&document.key).await? {
                return Err(error);
            }
            if error.kind == ErrorKind::Conflict && naming == Naming::Numbered && number < NUMBERS_MAX {
                number = match number {
                    0 => free_number(|number| self.has_name(dataset, numbered(&name, number))).await?,
                    // Somebody else was faster.
                    taken => taken + 1,
                };
                document.name = numbered(&name, number);
                continue;
            }
            // A store that fails may have added it all the same; if not, the note is found.
            if is_refusal(error.kind) {
                self.take_back(&document, expected_ms).await;
            }
            let is_name = error.kind == ErrorKind::Conflict && number > 0;
            return Err(if is_name { every_number_taken(&name) } else { error });
        }
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

/// What is told when a name has no number left.
pub(super) fn every_number_taken(name: &str) -> Error {
    let message = format!("the name `{name}` is taken with every number up to {NUMBERS_MAX}");
    Error::new(ErrorKind::Conflict, message).help("choose another name")
}

/// Whether a document that fails like this is not there.
fn is_refusal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Conflict | ErrorKind::Invalid | ErrorKind::NotFound | ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_number_is_found_in_a_few_looks() {
        let find = |taken: &dyn Fn(u32) -> bool| {
            let looks = std::cell::Cell::new(0);
            let look = |number| {
                looks.set(looks.get() + 1);
                std::future::ready(Ok(taken(number)))
            };
            let found = futures::FutureExt::now_or_never(free_number(look)).unwrap().unwrap();
            assert!(looks.get() < 30, "{} looks", looks.get());
            found
        };
        for last in [0, 1, 2, 3, 4, 7, 8, 1_000, NUMBERS_MAX - 1] {
            assert_eq!(find(&|number| number <= last), last + 1);
        }
        assert_eq!(find(&|_| true), NUMBERS_MAX);
        let found = find(&|number| number.is_multiple_of(2) || number == 1);
        assert!(found > 1 && !found.is_multiple_of(2), "{found}");
    }

    #[test]
    fn a_file_stays_whose_document_may_have_been_added() {
        assert!(is_refusal(ErrorKind::Conflict) && is_refusal(ErrorKind::QuotaExceeded));
        assert!(!is_refusal(ErrorKind::Unavailable) && !is_refusal(ErrorKind::Internal));
    }

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
