//! Finds the eval files: those that are named, and those in named folders.

use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};

/// Maximum depth of nested folders.
const DEPTH_MAX: usize = 32;

/// Returns the files without repetitions, in the order in which they were named; those of a folder by path.
///
/// # Errors
/// When one does not exist, or a folder contains no eval.
pub(super) fn files(named: &[PathBuf]) -> Outcome<Vec<PathBuf>> {
    let mut all: Vec<PathBuf> = Vec::new();
    for path in named {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let mut found = Vec::new();
        walk(path, 0, &mut found)?;
        if found.is_empty() {
            return Err(Failure::usage(format!("there is no eval in the folder {}", path.display()))
                .help("evals are files named eval.yaml or *.eval.yaml; `weft eval record` writes one"));
        }
        // The entries of a folder come in no fixed order.
        found.sort();
        all.extend(found);
    }
    let mut seen = std::collections::HashSet::new();
    // A file may be named and be in a named folder as well.
    all.retain(|path| seen.insert(path.clone()));
    Ok(all)
}

fn walk(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Outcome<()> {
    let failed = |error| Failure::usage(format!("cannot read the folder {}: {error}", folder.display()));
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // A symbolic link to a folder may form a cycle.
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() && !name.starts_with('.') && depth < DEPTH_MAX {
            walk(&entry.path(), depth + 1, found)?;
        } else if !kind.is_dir() && is_eval(&name) {
            found.push(entry.path());
        }
    }
    Ok(())
}

fn is_eval(name: &str) -> bool {
    let stem = name.strip_suffix(".yaml").or_else(|| name.strip_suffix(".yml"));
    stem.is_some_and(|stem| stem == "eval" || stem.ends_with(".eval"))
}
