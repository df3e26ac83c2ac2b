//! Which files a command names.

use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};

/// Files of one command, at most.
const FILES_MAX: usize = 100_000;
/// Folders within folders, at most; links may lead in a circle.
const DEPTH_MAX: usize = 64;

/// The files that paths stand for, in the order of the paths and then of their names. Of a folder these are
/// all files in it and below it, except those that begin with a dot.
///
/// # Errors
/// When a path leads nowhere, a folder cannot be read, or there are too many files.
pub fn below(paths: &[PathBuf]) -> Outcome<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        let kind = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?;
        match kind.is_dir() {
            true => walk(path, DEPTH_MAX, &mut files)?,
            false => files.push(path.clone()),
        }
    }
    let mut seen = std::collections::HashSet::new();
    files.retain(|file| seen.insert(file.clone()));
    Ok(files)
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
            return Err(Failure::usage(format!("there are more than {FILES_MAX} files"))
                .help("name smaller folders, one after the other"));
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
        let found = below(&[path("z.md"), root.path().to_owned()]).unwrap();
        assert_eq!(found, [path("z.md"), path("b/a.pdf"), path("b/c/x.txt")]);
        assert!(below(&[path("none")]).is_err());
    }
}
