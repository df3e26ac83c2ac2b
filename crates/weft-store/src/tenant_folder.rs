//! The folders of tenants on this machine, for files of agents and for uploads.

use std::io::ErrorKind as IoKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use cap_tempfile::TempFile;
use sha2::{Digest as _, Sha256};
use weft_core::{Error, Result, TenantId};

use crate::private;

/// Maximum length in characters of a tenant name that is used unchanged as a folder name.
const TENANT_MAX: usize = 64;
/// How often emptying a folder is retried when files were written to it meanwhile, and the pause before each retry.
// Together a second at most: the removal blocks a thread meanwhile.
const REMOVALS_MAX: u32 = 50;
const REMOVAL_PAUSE: Duration = Duration::from_millis(20);

/// A tenant's folder below the root of all workspaces; it may not exist.
pub fn tenant_folder(root: &Path, tenant: &TenantId) -> PathBuf {
    root.join(folder_name(tenant))
}

/// The name of a tenant's folder. A name of plain lower-case characters is used unchanged; any other is hashed,
/// because file systems differ in which names they consider equal.
pub(crate) fn folder_name(tenant: &TenantId) -> String {
    let name = tenant.as_str();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (1..=TENANT_MAX).contains(&name.len()) && name.chars().all(plain) {
        return name.to_owned();
    }
    // With a character at its beginning that no unchanged name has.
    let hash: String = Sha256::digest(name).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("_{hash}")
}

/// A folder below another one, created if necessary.
pub(crate) fn below(folder: &Dir, path: &str) -> std::io::Result<Dir> {
    match folder.open_dir(path) {
        Err(cause) if cause.kind() == IoKind::NotFound => {
            folder.create_dir_all(path).and_then(|()| folder.open_dir(path))
        }
        opened => opened,
    }
}

/// A file without a name yet, which only its owner can read.
pub(crate) fn fresh_file(folder: &Dir) -> std::io::Result<TempFile<'_>> {
    let file = TempFile::new(folder)?;
    #[cfg(unix)]
    {
        use cap_std::fs::{Permissions, PermissionsExt as _};
        file.as_file().set_permissions(Permissions::from_mode(private::FILE))?;
    }
    Ok(file)
}

/// Removes the folder of a tenant with all its content.
pub(crate) fn remove_folder(root: &Path, tenant: &TenantId) -> Result<()> {
    let remove = || Dir::open_ambient_dir(root, ambient_authority())?.remove_dir_all(folder_name(tenant));
    let mut outcome = remove();
    for _ in 0..REMOVALS_MAX {
        // Another writer has added a file while it was being emptied.
        if outcome.as_ref().is_err_and(|cause| cause.kind() == IoKind::DirectoryNotEmpty) {
            std::thread::sleep(REMOVAL_PAUSE);
            outcome = remove();
        }
    }
    match outcome {
        Err(cause) if cause.kind() == IoKind::NotFound => Ok(()),
        outcome => outcome.map_err(|cause| {
            Error::internal(format!("cannot remove the files of the tenant in {}", root.display()))
                .because(cause)
        }),
    }
}
