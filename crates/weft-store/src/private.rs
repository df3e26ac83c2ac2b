//! Files and folders that their owner alone may look into: they hold what people said, their documents and the
//! hashes of their tokens.

use std::io;
use std::path::Path;

/// Makes a folder, and those above it that are missing.
///
/// # Errors
/// When it cannot be made.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, FOLDER);
    builder.recursive(true).create(path)
}

/// The same, and takes a folder of ours that was made before from everybody else. A folder that holds `mark` is
/// ours; another one may be shared on purpose.
///
/// # Errors
/// As [`make_folder`].
pub fn own_folder(path: &Path, mark: &str) -> io::Result<()> {
    make_folder(path)?;
    if path.join(mark).exists() {
        tighten(path, FOLDER);
    }
    Ok(())
}

/// Makes an empty file if there is none.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn make_file(path: &Path) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, FILE);
    match options.write(true).create_new(true).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Takes a file from everybody else, if there is one.
pub(crate) fn tighten_file(path: &Path) {
    if path.exists() {
        tighten(path, FILE);
    }
}

/// A folder's rights.
const FOLDER: u32 = 0o700;
/// A file's.
pub(crate) const FILE: u32 = 0o600;

/// Takes rights away and gives none.
#[cfg(unix)]
fn tighten(path: &Path, most: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    let Ok(known) = path.metadata() else { return };
    let mode = known.permissions().mode();
    if mode & 0o777 & !most == 0 {
        return;
    }
    // Who is not its owner cannot, and need not: it is not ours.
    if let Err(error) = std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode & most)) {
        tracing::warn!(path = %path.display(), %error, "others can read this, and it cannot be changed");
    }
}

/// Other systems have rights of another kind.
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
    fn what_is_made_is_ones_own_and_what_was_made_becomes_so() {
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
        make_file(&file).unwrap();
        tighten_file(&file);
        own_folder(&folder, "mark").unwrap();
        assert_eq!((mode(&file), mode(&folder)), (0o600, 0o700));
    }

    #[test]
    fn a_folder_that_is_not_ours_stays_as_it_is() {
        let root = tempfile::tempdir().unwrap();
        std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        own_folder(root.path(), "mark").unwrap();
        assert_eq!(mode(root.path()), 0o755);
    }
}
