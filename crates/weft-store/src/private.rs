//! Creates files and folders that only their owner can access: they contain what people said, their documents and the
//! hashes of their tokens.

use std::io;
use std::path::Path;

/// Creates a folder and its missing parents.
///
/// # Errors
/// When it cannot be created.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, FOLDER);
    builder.recursive(true).create(path)
}

/// Same as [`make_folder`]; also restricts the permissions of an existing folder of ours. A folder that contains
/// `mark` is ours; any other may be shared on purpose.
///
/// # Errors
/// As for [`make_folder`].
pub fn own_folder(path: &Path, mark: &str) -> io::Result<()> {
    make_folder(path)?;
    if path.join(mark).exists() {
        tighten(path, FOLDER);
    }
    Ok(())
}

/// Creates an empty file if it does not exist; also restricts the permissions of an existing empty one, which is about
/// to be written.
///
/// # Errors
/// When it cannot be created.
pub(crate) fn make_file(path: &Path) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, FILE);
    match options.write(true).create_new(true).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(_) => Ok(()),
        Err(_) => {
            // One with content may be shared on purpose.
            if path.metadata().is_ok_and(|file| file.is_file() && file.len() == 0) {
                tighten(path, FILE);
            }
            Ok(())
        }
    }
}

/// Restricts an existing file to its owner.
pub(crate) fn tighten_file(path: &Path) {
    if path.exists() {
        tighten(path, FILE);
    }
}

/// The maximum permissions of a folder.
const FOLDER: u32 = 0o700;
/// The maximum permissions of a file.
pub(crate) const FILE: u32 = 0o600;

/// Removes permissions and never adds any.
#[cfg(unix)]
fn tighten(path: &Path, most: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    let Ok(known) = path.metadata() else { return };
    let mode = known.permissions().mode();
    if mode & 0o777 & !most == 0 {
        return;
    }
    // Only the owner can change them; if we are not the owner, the file is not ours.
    if let Err(error) = std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode & most)) {
        tracing::warn!(path = %path.display(), %error, "others can read this, and it cannot be changed");
    }
}

/// Other systems have a different kind of permissions.
#[cfg(not(unix))]
fn tighten(_: &Path, _: u32) {}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn new_and_existing_files_are_private_to_the_owner() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        own_folder(&folder, "mark").unwrap();
        assert_eq!((mode(&folder), mode(&root.path().join("a"))), (0o700, 0o700));
        let file = folder.join("mark");
        make_file(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
        for (path, wide) in [(&file, 0o644), (&folder, 0o755)] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(wide)).unwrap();
        }
        std::fs::write(&file, "x").unwrap();
        make_file(&file).unwrap();
        assert_eq!(mode(&file), 0o644);
        tighten_file(&file);
        own_folder(&folder, "mark").unwrap();
        assert_eq!((mode(&file), mode(&folder)), (0o600, 0o700));
    }

    #[test]
    fn an_existing_empty_file_becomes_private() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("copy.db");
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        make_file(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
    }

    #[test]
    fn a_folder_without_our_files_keeps_its_mode() {
        let root = tempfile::tempdir().unwrap();
        std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        own_folder(root.path(), "mark").unwrap();
        assert_eq!(mode(root.path()), 0o755);
    }
}
