//! The files that are written.

use std::path::Path;

use crate::failure::{Failure, Outcome};

/// Checks that a file can be created at this path. When it is written, the cases have run and models are paid for.
pub(super) fn must_have_folder(path: &Path) -> Outcome<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.is_dir() {
        return Err(Failure::usage(format!("{} is a folder", path.display())).help("name a file in it"));
    }
    if !folder.is_dir() {
        let message = format!("cannot write {}: there is no folder {}", path.display(), folder.display());
        return Err(Failure::usage(message).help("create the folder, or name another file"));
    }
    Ok(())
}

/// Writes a file atomically.
pub(super) fn write(path: &Path, text: &str) -> Outcome<()> {
    let failed = |error: std::io::Error| Failure::failed(format!("cannot write {}: {error}", path.display()));
    // A symbolic link remains one: its target is written.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    // A pipe or a device is written to directly; renaming would replace it.
    if path.metadata().is_ok_and(|there| !there.is_file()) {
        return std::fs::write(path, text).map_err(failed);
    }
    let mut name = path.as_os_str().to_owned();
    // In the same folder, because a rename only works within one file system.
    name.push(".new");
    let beside = std::path::PathBuf::from(name);
    std::fs::write(&beside, text).map_err(failed)?;
    std::fs::rename(&beside, path).map_err(failed)
}
