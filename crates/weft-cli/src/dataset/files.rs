//! The files that a command names, and their names as documents.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};

/// Maximum number of files of one command.
const FILES_MAX: usize = 100_000;

/// A file, and the name of its document.
#[derive(Debug, PartialEq)]
pub(crate) struct FoundFile {
    /// Its path.
    pub path: PathBuf,
    /// Its name; for a file below a named folder the path relative to that, with `/` as separator.
    pub name: String,
}

/// The files that paths stand for.
#[derive(Debug, Default)]
pub(crate) struct Below {
    /// The files, in the order of the paths and then by name.
    pub files: Vec<FoundFile>,
    /// Paths that could not be read, with the reason.
    pub refused: Vec<(PathBuf, String)>,
}

/// Returns the files that paths stand for. A folder stands for all files in and below it, except those that begin
/// with a dot; a folder that is reached several times through symbolic links counts once.
///
/// # Errors
/// When a path does not exist or is neither a file nor a folder, or there are too many files.
pub(crate) fn below(paths: &[PathBuf]) -> Outcome<Below> {
    let mut below = Below::default();
    let mut visited = HashSet::new();
    for path in paths {
        let unreadable = |error| Failure::usage(format!("cannot read {}: {error}", path.display()));
        let kind = std::fs::metadata(path).map_err(unreadable)?;
        if kind.is_dir() {
            // A named folder must be readable; one below it is reported and skipped.
            std::fs::read_dir(path).map_err(unreadable)?;
            let mut walk = FolderWalk { root: path, visited: &mut visited, below: &mut below };
            walk.folder(path);
        } else if kind.is_file() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            below.files.push(FoundFile { path: path.clone(), name });
        } else {
            return Err(Failure::usage(format!("{} is neither a file nor a folder", path.display())));
        }
        if below.files.len() > FILES_MAX {
            return Err(Failure::usage(format!("there are more than {FILES_MAX} files"))
                .help("name smaller folders, one after the other"));
        }
    }
    // A file may be named, and also be in a named folder.
    let mut seen = HashSet::new();
    below.files.retain(|file| seen.insert(file.path.clone()));
    Ok(below)
}

impl Below {
    /// Checks that there are files, and that each can be a separate document.
    ///
    /// # Errors
    /// When there are none, or two files would be the same document.
    pub(crate) fn one_each(self) -> Outcome<Self> {
        if self.files.is_empty() && self.refused.is_empty() {
            return Err(Failure::usage("the given paths contain no files")
                .help("files and folders whose names begin with a dot are skipped"));
        }
        // Names of documents must differ by more than case.
        let mut names: HashMap<String, &Path> = HashMap::new();
        for file in &self.files {
            if let Some(other) = names.insert(file.name.to_lowercase(), &file.path) {
                let (other, this) = (other.display(), file.path.display());
                let message = format!("{other} and {this} would both be the document `{}`", file.name);
                return Err(Failure::usage(message).help(
                    "name the folder that contains both: documents are named by their paths within it",
                ));
            }
        }
        Ok(self)
    }
}

/// A traversal of a folder.
struct FolderWalk<'a> {
    root: &'a Path,
    /// Visited folders, by their canonical paths: symbolic links may form a cycle.
    visited: &'a mut HashSet<PathBuf>,
    below: &'a mut Below,
}

impl FolderWalk<'_> {
    fn folder(&mut self, folder: &Path) {
        let entries = std::fs::canonicalize(folder).and_then(|place| Ok((place, std::fs::read_dir(folder)?)));
        let (place, entries) = match entries {
            Ok(entries) => entries,
            Err(error) => return self.refuse(folder, &error),
        };
        if !self.visited.insert(place) {
            return;
        }
        let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        // Sorted, so that documents are ingested in the same order each time.
        entries.sort();
        for entry in entries {
            let hidden = entry.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
            // One more than allowed, so that the limit is noticed.
            if hidden || self.below.files.len() > FILES_MAX {
                continue;
            }
            match std::fs::metadata(&entry) {
                Ok(kind) if kind.is_dir() => self.folder(&entry),
                Ok(kind) if kind.is_file() => {
                    let name = self.name(&entry);
                    self.below.files.push(FoundFile { path: entry, name });
                }
                Ok(_) => {}
                Err(error) => self.refuse(&entry, &error),
            }
        }
    }

    fn name(&self, file: &Path) -> String {
        let within = file.strip_prefix(self.root).unwrap_or(file);
        let parts: Vec<_> = within.iter().map(|part| part.to_string_lossy()).collect();
        parts.join("/")
    }

    fn refuse(&mut self, path: &Path, error: &std::io::Error) {
        self.below.refused.push((path.to_owned(), format!("it cannot be read: {error}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_expanded_to_their_files() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        std::fs::create_dir_all(path("b/c")).unwrap();
        std::fs::create_dir(path(".git")).unwrap();
        for name in ["z.md", "b/c/x.txt", "b/a.pdf", ".git/config", "b/.hidden"] {
            std::fs::write(path(name), "x").unwrap();
        }
        let found = |paths: &[PathBuf]| -> Vec<(PathBuf, String)> {
            below(paths).unwrap().files.into_iter().map(|file| (file.path, file.name)).collect()
        };
        let expected = ["z.md", "b/a.pdf", "b/c/x.txt"].map(|name| (path(name), name.to_owned()));
        assert_eq!(found(&[path("z.md"), root.path().to_owned()]), expected);
        assert_eq!(found(&[path("b/c")]), [(path("b/c/x.txt"), "x.txt".to_owned())]);
        assert!(below(&[path("none")]).is_err());
        std::fs::write(path("X.txt"), "y").unwrap();
        let documents = |paths: &[PathBuf]| below(paths).unwrap().one_each().is_ok();
        assert!(!documents(&[path("X.txt"), path("b/c/x.txt")]), "two files would become the same document");
        assert!(documents(&[root.path().to_owned()]));
        assert_eq!(found(&[root.path().to_owned()]).len(), 4);
        std::fs::create_dir(path("empty")).unwrap();
        assert!(!documents(&[path("empty")]));
    }

    #[cfg(unix)]
    #[test]
    fn link_cycles_end_and_special_files_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        std::fs::write(path("one.txt"), "x").unwrap();
        std::os::unix::fs::symlink(".", path("loop")).unwrap();
        std::os::unix::fs::symlink("nowhere", path("gone")).unwrap();
        let found = below(&[root.path().to_owned()]).unwrap();
        assert_eq!(found.files, [FoundFile { path: path("one.txt"), name: "one.txt".to_owned() }]);
        assert_eq!(found.refused.len(), 1, "a broken link is refused");
        assert!(below(&["/dev/null".into()]).is_err());
    }
}
