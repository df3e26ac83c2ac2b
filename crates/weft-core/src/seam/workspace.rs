//! Files that agents read and write, below one root.

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::id::TenantId;

/// Files by relative path, apart for each tenant.
///
/// An implementation never leaves its root, also not by a link or by `..`, bounds the size of every
/// file, and replaces a file whole or not at all.
#[async_trait]
pub trait Workspace: Send + Sync {
    /// The content of a text file.
    ///
    /// # Errors
    /// `NotFound`; `Denied` for a path that leads out of the root; `Invalid` for a folder, a file
    /// that is too large or one that is no text.
    async fn read(&self, tenant: &TenantId, path: &str) -> Result<String>;

    /// Writes a text file, with the folders above it. Whether it replaced one.
    ///
    /// # Errors
    /// `Denied` for a path that leads out of the root; `Invalid` for a folder or a text that is too
    /// large.
    async fn write(&self, tenant: &TenantId, path: &str, text: &str) -> Result<bool>;

    /// Adds to the end of a text file, or begins one. Whether there was one. Of two calls at the same
    /// time neither is lost, as long as they come from one process.
    ///
    /// # Errors
    /// As [`Workspace::read`] and [`Workspace::write`], except that the file need not exist.
    async fn append(&self, tenant: &TenantId, path: &str, text: &str) -> Result<bool>;
}

/// Bytes of a path, at most.
const PATH_MAX: usize = 1_024;
/// Bytes of one name in a path, at most.
const NAME_MAX: usize = 255;

/// The names that a path is made of, folders first; one at least. `.` and doubled slashes are passed over.
///
/// # Errors
/// `Denied` for an absolute path and for `..`; `Invalid` for an empty path, one that is too long, and
/// for characters that some system reads as something else than a part of a name.
pub fn names(path: &str) -> Result<Vec<&str>> {
    let denied = |why: &str| {
        Err(Error::new(ErrorKind::Denied, format!("the path `{path}` {why}"))
            .help("write it relative to the root of the files, such as `notes/today.md`"))
    };
    if path.len() > PATH_MAX {
        return Err(Error::invalid(format!("a path has at most {PATH_MAX} bytes")));
    }
    // On Windows they separate folders, name drives and open streams of a file.
    if path.contains(['\\', ':']) || path.chars().any(char::is_control) {
        return Err(Error::invalid(format!(
            "the path {path:?} holds a backslash, a colon or a control character"
        ))
        .help("separate folders by `/`"));
    }
    // Opened as it is, `~` would be a folder of that name; a model that writes it means the home of somebody.
    if path.starts_with('/') || path.starts_with('~') {
        return denied("does not begin in the root of the files");
    }
    let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    if names.contains(&"..") {
        return denied("leads upwards");
    }
    if names.iter().any(|name| name.len() > NAME_MAX) {
        return Err(Error::invalid(format!("a name in a path has at most {NAME_MAX} bytes")));
    }
    if names.is_empty() || path.ends_with('/') {
        return Err(Error::invalid(format!("the path `{path}` does not name a file")));
    }
    Ok(names)
}

/// No files: the operator has set no root.
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
