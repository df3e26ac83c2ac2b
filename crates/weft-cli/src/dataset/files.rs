//! Which files a command names, and what they are called as documents.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};

/// Files of one command, at most.
const FILES_MAX: usize = 100_000;
/// Folders within folders, at most; links may lead in a circle.
const DEPTH_MAX: usize = 64;

/// A file, and the name of the document that it becomes.
#[derive(Debug, PartialEq)]
pub struct Found {
    /// Where it is.
    pub path: PathBuf,
    /// Its name; below a folder that was named the way to it from there, with `/` between the parts.
    pub name: String,
}

/// The files that paths stand for, in the order of the paths and then of their names. Of a folder these are
/// all files in it and below it, except those that begin with a dot.
///
/// # Errors
/// When a path leads nowhere, a folder cannot be read, there are too many files, or two would be the same document.
pub fn below(paths: &[PathBuf]) -> Outcome<Vec<Found>> {
    let mut found = Vec::new();
    for path in paths {
        let kind = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?;
        let mut files = Vec::new();
        let root = match kind.is_dir() {
            true => {
                walk(path, DEPTH_MAX, &mut files)?;
                path.as_path()
            }
            false => {
                files.push(path.clone());
                path.parent().unwrap_or(Path::new(""))
            }
        };
        found.extend(files.into_iter().map(|path| Found { name: name(&path, root), path }));
        if found.len() > FILES_MAX {
            return Err(too_many());
        }
    }
    let mut seen = HashSet::new();
    found.retain(|file| seen.insert(file.path.clone()));
    let mut names: HashMap<String, &Path> = HashMap::new();
    for file in &found {
        // Names of documents differ by more than the case of their letters.
        if let Some(other) = names.insert(file.name.to_lowercase(), &file.path) {
            let (other, this) = (other.display(), file.path.display());
            return Err(Failure::usage(format!(
                "{other} and {this} would both be the document `{}`",
                file.name
            ))
            .help("name the folder that holds both: documents are called by their paths below it"));
        }
    }
    Ok(found)
}

fn name(file: &Path, root: &Path) -> String {
    let within = file.strip_prefix(root).unwrap_or(file);
    let parts: Vec<_> = within.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}

fn too_many() -> Failure {
    Failure::usage(format!("there are more than {FILES_MAX} files"))
        .help("name smaller folders, one after the other")
}

fn walk(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Outcome<()> {
    let entries = std::fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?;
    let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for entry in entries {
        let hidden = entry.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
        // What a link leads to may be gone, or be the folder itself.
        let Ok(kind) = std::fs::metadata(&entry) else { continue };
        match (hidden, kind.is_dir(), kind.is_file()) {
            (false, true, _) if depth > 0 => walk(&entry, depth - 1, files)?,
            (false, _, true) => files.push(entry),
            _ => {}
        }
        if files.len() > FILES_MAX {
            return Err(too_many());
        }
    }
    Ok(())
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_stand_for_what_is_in_them() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        std::fs::create_dir_all(path("b/c")).unwrap();
        std::fs::create_dir(path(".git")).unwrap();
        for name in ["z.md", "b/c/x.txt", "b/a.pdf", ".git/config", "b/.hidden"] {
            std::fs::write(path(name), "x").unwrap();
        }
        let found = |paths: &[PathBuf]| -> Vec<(PathBuf, String)> {
            below(paths).unwrap().into_iter().map(|file| (file.path, file.name)).collect()
        };
        let expected = ["z.md", "b/a.pdf", "b/c/x.txt"].map(|name| (path(name), name.to_owned()));
        assert_eq!(found(&[path("z.md"), root.path().to_owned()]), expected);
        assert_eq!(found(&[path("b/c")]), [(path("b/c/x.txt"), "x.txt".to_owned())]);
        assert!(below(&[path("none")]).is_err());
        std::fs::write(path("X.txt"), "y").unwrap();
        assert!(below(&[path("X.txt"), path("b/c/x.txt")]).is_err(), "one would take the place of the other");
        assert_eq!(found(&[root.path().to_owned()]).len(), 4);
    }
}
