//! Files that agents read and write, below a single root.

use weft_macros::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::id::TenantId;

/// Files by relative path, separate for each tenant.
///
/// An implementation never leaves its root, not even through links or `..`, limits the size of every file, and
/// replaces files atomically.
#[async_trait]
pub trait Workspace: Send + Sync {
    /// Returns the content of a text file.
    ///
    /// # Errors
    /// `NotFound`; `Denied` for a path that leads outside the root; `Invalid` for a directory, or for a file that is
    /// too large or not a text file.
    async fn read(&self, tenant: &TenantId, path: &str) -> Result<String>;

    /// Writes a text file, creating its parent directories. Returns whether it replaced an existing file.
    ///
    /// # Errors
    /// `Denied` for a path that leads outside the root; `Invalid` for a directory, or for a text that is too large.
    async fn write(&self, tenant: &TenantId, path: &str, text: &str) -> Result<bool>;

    /// Appends to a text file, creating it if necessary. Returns whether it existed. Concurrent calls from one
    /// process do not lose data.
    ///
    /// # Errors
    /// As [`Workspace::read`] and [`Workspace::write`], except that the file need not exist.
    async fn append(&self, tenant: &TenantId, path: &str, text: &str) -> Result<bool>;
}

/// Maximum length of a path, in bytes.
const PATH_MAX: usize = 1_024;
/// Maximum length of one name in a path, in bytes.
// The limit of the usual file systems.
const NAME_MAX: usize = 255;

/// Splits a path into names, directories first; at least one. `.` and repeated slashes are skipped.
///
/// # Errors
/// `Denied` for an absolute path and for `..`; `Invalid` for an empty path, for one that is too long, and for
/// characters that some system does not treat as part of a name.
pub fn names(path: &str) -> Result<Vec<&str>> {
    let denied = |why: &str| {
        Err(Error::new(ErrorKind::Denied, format!("the path `{path}` {why}"))
            .help("write it relative to the root of the files, such as `notes/today.md`"))
    };
    if path.len() > PATH_MAX {
        return Err(Error::invalid(format!("a path has at most {PATH_MAX} bytes")));
    }
    // On Windows these characters separate directories, name drives, and open alternate data streams.
    if path.contains(['\\', ':']) || path.chars().any(char::is_control) {
        return Err(Error::invalid(format!(
            "the path {path:?} holds a backslash, a colon or a control character"
        ))
        .help("separate folders by `/`"));
    }
    // Taken literally, `~` would be a directory of that name; a model that writes it means a home directory.
    if path.starts_with('/') || path.starts_with('~') {
        return denied("is not relative to the root of the files");
    }
    let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    if names.contains(&"..") {
        return denied("leads out of the root of the files");
    }
    if names.iter().any(|name| name.len() > NAME_MAX) {
        return Err(Error::invalid(format!("a name in a path has at most {NAME_MAX} bytes")));
    }
    if names.is_empty() || path.ends_with('/') {
        return Err(Error::invalid(format!("the path `{path}` does not name a file")));
    }
    Ok(names)
}

/// A workspace without files, because the operator has not configured a root.
#[derive(Clone, Copy, Debug)]
pub struct NoWorkspace;

#[async_trait]
impl Workspace for NoWorkspace {
    async fn read(&self, _: &TenantId, _: &str) -> Result<String> {
        Err(no_root())
    }

    async fn write(&self, _: &TenantId, _: &str, _: &str) -> Result<bool> {
        Err(no_root())
    }

    async fn append(&self, _: &TenantId, _: &str, _: &str) -> Result<bool> {
        Err(no_root())
    }
}

fn no_root() -> Error {
    Error::new(ErrorKind::Denied, "agents have no files here").help("set `files.root`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_their_root() {
        let check = |path: &str, expected: Result<&[&str], ErrorKind>| {
            assert_eq!(names(path).map_err(|error| error.kind), expected.map(<[_]>::to_vec), "{path}");
        };
        check("a.txt", Ok(&["a.txt"]));
        check("./a//b/./c d.md", Ok(&["a", "b", "c d.md"]));
        check("...", Ok(&["..."]));
        for path in ["/etc/passwd", "..", "a/../b", "a/..", "~/x"] {
            check(path, Err(ErrorKind::Denied));
        }
        let long = "x".repeat(256);
        for path in ["", ".", "a/", "a\\b", "c:x", "a\0", "a\nb", &long, &"a/".repeat(600)] {
            check(path, Err(ErrorKind::Invalid));
        }
    }
}
