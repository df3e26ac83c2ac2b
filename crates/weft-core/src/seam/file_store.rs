//! Files of conversations: those that people attach, and those that runs create.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weft_macros::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::id::{DocumentKey, FileId, SessionId, TenantId, UserId};

/// The description of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredFile {
    /// Its id, which must not be guessable.
    pub id: FileId,
    /// Its display name, without directories.
    pub name: String,
    /// Its media type.
    pub mime_type: String,
    /// Size in bytes.
    pub size: u64,
    /// The session whose run created it; absent for attached files.
    pub session: Option<SessionId>,
    /// The user to whom an attached file belongs: whoever uploaded it or, when it came with a question, the user of the
    /// conversation; with a share token, the id that stands for the token. Absent for files that runs created, which
    /// belong to their session, and for files from nobody in particular. No model and no client is shown it.
    #[serde(skip)]
    pub user: Option<UserId>,
    /// When it was stored, in milliseconds since 1970.
    pub created_ms: i64,
}

/// Maximum length of a file's name, in characters.
pub const NAME_MAX: usize = 200;

/// Returns a valid file name: without directories, control characters, and anything else that some system does not
/// treat as part of a name; `file` if nothing is left.
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

/// Returns the download path of a file on the server.
pub fn download_path(id: &FileId) -> String {
    format!("/api/v1/agents/attachments/{id}/download")
}

/// Prefix of a text that was read from a file.
const NAMES_FILE: &str = "File: ";

/// Returns the text of a file as prompts contain it: below a line that names the file. See [`named_in`].
pub fn as_text(name: &str, id: &FileId, text: &str) -> String {
    format!("{NAMES_FILE}{name} ({id})\n\n{text}")
}

/// Returns the file that a text was read from, if its first line names one.
pub fn named_in(text: &str) -> Option<FileId> {
    let line = text.lines().next()?.strip_prefix(NAMES_FILE)?.trim_end();
    let (_, id) = line.strip_suffix(')')?.rsplit_once(" (")?;
    let plain = !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    plain.then(|| id.into())
}

/// Returns the id by which the run of a pipeline finds a document's file. No attached or created file has an id of
/// this form.
pub fn document_file_id(key: &DocumentKey) -> FileId {
    format!("{}/{}", key.dataset.id, key.id).into()
}

/// Returns whether an id is that of a document's file; see [`document_file_id`].
pub fn is_document(id: &FileId) -> bool {
    id.as_str().contains('/')
}

/// Stores files of conversations, separately for each tenant.
///
/// A file for which [`FileStore::put`] has returned is stored completely and durably. Members of the tenant
/// read every file whose id they know, holders of a share token only those that belong to the token.
#[async_trait]
pub trait FileStore: Send + Sync + fmt::Debug {
    /// Stores a file, replacing the one with the same id.
    ///
    /// # Errors
    /// `Invalid` when it exceeds the size limit of a file, `QuotaExceeded` when the tenant has reached its quota.
    async fn put(&self, tenant: &TenantId, file: &StoredFile, bytes: Bytes) -> Result<()>;

    /// Returns the description of a file.
    ///
    /// # Errors
    /// `NotFound`.
    async fn find(&self, tenant: &TenantId, id: &FileId) -> Result<StoredFile>;

    /// Returns a file.
    ///
    /// # Errors
    /// `NotFound`.
    async fn read(&self, tenant: &TenantId, id: &FileId) -> Result<(StoredFile, Bytes)>;

    /// Removes files, ignoring missing ones. Returns how many were removed.
    ///
    /// # Errors
    /// Fails when they cannot be removed.
    async fn remove(&self, tenant: &TenantId, ids: &[FileId]) -> Result<u64>;

    /// Returns up to `count_max` files of any tenant that were stored before this time, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn older_than(&self, before_ms: i64, count_max: u64) -> Result<Vec<(TenantId, FileId)>>;

    /// Returns the files that runs of this session created.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn of_session(&self, tenant: &TenantId, session: &SessionId) -> Result<Vec<StoredFile>>;

    /// Returns up to `count_max` files that belong to this user, oldest first, then by id; only those after `after`, the
    /// time and the id of the last file of the previous page, if that is given.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn of_user(
        &self,
        tenant: &TenantId,
        user: &UserId,
        after: Option<(i64, &FileId)>,
        count_max: u64,
    ) -> Result<Vec<StoredFile>>;
}

/// A store that holds no files.
#[derive(Clone, Copy, Debug)]
pub struct NoFiles;

fn none() -> Error {
    Error::new(ErrorKind::Denied, "files are not stored here")
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

    async fn of_user(
        &self,
        _: &TenantId,
        _: &UserId,
        _: Option<(i64, &FileId)>,
        _: u64,
    ) -> Result<Vec<StoredFile>> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_names_its_file() {
        let text = as_text("a (b).csv", &"5f-0c".into(), "x (y)");
        assert_eq!(named_in(&text).unwrap().as_str(), "5f-0c");
        for other in ["", "File: x", "File: x (../y)", "file: x (5f)", "x\nFile: y (5f)"] {
            assert_eq!(named_in(other), None, "{other}");
        }
    }

    #[test]
    fn only_plain_file_names_are_accepted() {
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
