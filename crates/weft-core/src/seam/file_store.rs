//! Files of conversations: what people attach, and what runs make.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::id::{DocumentKey, FileId, SessionId, TenantId};

/// What is known of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredFile {
    /// Its id, not to be guessed.
    pub id: FileId,
    /// What people call it: without folders.
    pub name: String,
    /// Its media type.
    pub mime_type: String,
    /// Bytes.
    pub size: u64,
    /// The session whose run has made it; absent for what people attach.
    pub session: Option<SessionId>,
    /// Milliseconds since 1970.
    pub created_ms: i64,
}

/// Characters of a file's name, at most.
pub const NAME_MAX: usize = 200;

/// A name as a file may have it: without folders, control characters and what else some system reads as something other
/// than a part of a name; `file` when nothing is left.
pub fn plain_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let kept = |c: char| !c.is_control() && !matches!(c, ':' | '*' | '?' | '"' | '<' | '>' | '|');
    let plain: String = last.chars().filter(|c| kept(*c)).collect();
    let plain = plain.trim().trim_start_matches('.').trim();
    let (stem, ending) = match plain.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() && ending.chars().count() <= 20 => {
            (stem, format!(".{ending}"))
        }
        _ => (plain, String::new()),
    };
    let room = NAME_MAX.saturating_sub(ending.chars().count());
    let stem: String = stem.chars().take(room).collect();
    if stem.is_empty() { "file".to_owned() } else { format!("{stem}{ending}") }
}

/// Where a file is downloaded, below the address of the server.
pub fn download_path(id: &FileId) -> String {
    format!("/api/v1/agents/attachments/{id}/download")
}

/// What a text begins with that was read from a file.
const NAMES_FILE: &str = "File: ";

/// The text of a file as prompts see it: under a line that names the file. See [`named_in`].
pub fn as_text(name: &str, id: &FileId, text: &str) -> String {
    format!("{NAMES_FILE}{name} ({id})\n\n{text}")
}

/// The file that a text was read from, if it says so.
pub fn named_in(text: &str) -> Option<FileId> {
    let line = text.lines().next()?.strip_prefix(NAMES_FILE)?.trim_end();
    let (_, id) = line.strip_suffix(')')?.rsplit_once(" (")?;
    let plain = !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    plain.then(|| id.into())
}

/// The id by which the run of a pipeline finds the file of a document: no file that was attached or made has such a one.
pub fn document_file_id(key: &DocumentKey) -> FileId {
    format!("{}/{}", key.dataset.id, key.id).into()
}

/// Whether an id is that of a document's file, see [`document_file_id`].
pub fn is_document(id: &FileId) -> bool {
    id.as_str().contains('/')
}

/// Where files of conversations are kept, apart for each tenant.
///
/// A file that [`FileStore::put`] has returned for is there after a crash, whole. A file is found by whoever has its id
/// and is of its tenant; ids are therefore not to be guessed.
#[async_trait]
pub trait FileStore: Send + Sync + fmt::Debug {
    /// Keeps a file, in place of the one with the same id.
    ///
    /// # Errors
    /// `Invalid` when it is larger than a file may be, `QuotaExceeded` when the tenant has as much as it may have.
    async fn put(&self, tenant: &TenantId, file: &StoredFile, bytes: Bytes) -> Result<()>;

    /// What is known of a file.
    ///
    /// # Errors
    /// `NotFound`.
    async fn find(&self, tenant: &TenantId, id: &FileId) -> Result<StoredFile>;

    /// A file.
    ///
    /// # Errors
    /// `NotFound`.
    async fn read(&self, tenant: &TenantId, id: &FileId) -> Result<(StoredFile, Bytes)>;

    /// Removes files, those that are there; how many there were.
    ///
    /// # Errors
    /// When they cannot be removed.
    async fn remove(&self, tenant: &TenantId, ids: &[FileId]) -> Result<u64>;

    /// Files of any tenant that were kept before this time, the oldest first, at most `count_max`.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn older_than(&self, before_ms: i64, count_max: u64) -> Result<Vec<(TenantId, FileId)>>;

    /// The files that runs of these sessions have made.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn of_session(&self, tenant: &TenantId, session: &SessionId) -> Result<Vec<StoredFile>>;
}

/// No files are kept.
#[derive(Clone, Copy, Debug)]
pub struct NoFiles;

fn none() -> Error {
    Error::new(ErrorKind::Denied, "no files are kept here")
}

#[async_trait]
impl FileStore for NoFiles {
    async fn put(&self, _: &TenantId, _: &StoredFile, _: Bytes) -> Result<()> {
        Err(none())
    }

    async fn find(&self, _: &TenantId, _: &FileId) -> Result<StoredFile> {
        Err(none())
    }

    async fn read(&self, _: &TenantId, _: &FileId) -> Result<(StoredFile, Bytes)> {
        Err(none())
    }

    async fn remove(&self, _: &TenantId, _: &[FileId]) -> Result<u64> {
        Ok(0)
    }

    async fn older_than(&self, _: i64, _: u64) -> Result<Vec<(TenantId, FileId)>> {
        Ok(Vec::new())
    }

    async fn of_session(&self, _: &TenantId, _: &SessionId) -> Result<Vec<StoredFile>> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_says_which_file_it_is_of() {
        let text = as_text("a (b).csv", &"5f-0c".into(), "x (y)");
        assert_eq!(named_in(&text).unwrap().as_str(), "5f-0c");
        for other in ["", "File: x", "File: x (../y)", "file: x (5f)", "x\nFile: y (5f)"] {
            assert_eq!(named_in(other), None, "{other}");
        }
    }

    #[test]
    fn names_are_names_of_files_and_nothing_else() {
        let check = |name: &str, expected: &str| assert_eq!(plain_name(name), expected, "{name:?}");
        check("report.pdf", "report.pdf");
        check("../../etc/passwd", "passwd");
        check("C:\\temp\\a b.txt", "a b.txt");
        check(" .bashrc", "bashrc");
        check("汉字 \u{1}<a>.docx", "汉字 a.docx");
        check("a\r\nSet-Cookie: x", "aSet-Cookie x");
        check("..", "file");
        check("", "file");
        let long = plain_name(&format!("{}.pdf", "x".repeat(1_000)));
        assert!(long.len() == NAME_MAX && long.ends_with(".pdf"));
    }
}
