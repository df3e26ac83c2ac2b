//! Uploaded files in a folder on this machine, with one subfolder per tenant.
//!
//! A blob is first written to a temporary file, synced to disk, and then moved into place in one step.

use std::io::{ErrorKind as IoKind, Read as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use cap_fs_ext::OpenOptionsSyncExt as _;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};
use weft_core::seam::BlobStore;
use weft_core::seam::blob_store::checked;
use weft_core::{Error, ErrorKind, Result, TenantId, async_trait, blocking};

use crate::private;
use crate::tenant_folder::{below, folder_name, fresh_file, remove_folder};

/// A folder on this machine. Nothing is created in it before the first write.
#[derive(Clone, Debug)]
pub struct FolderBlobs(Arc<PathBuf>);

impl FolderBlobs {
    /// The blobs below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self(Arc::new(root.into()))
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&PathBuf) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let root = Arc::clone(&self.0);
        blocking("the work on a file", move || work(&root)).await
    }
}

fn put(root: &PathBuf, tenant: &TenantId, name: &str, bytes: &[u8]) -> Result<()> {
    checked(name)?;
    let write = || -> std::io::Result<()> {
        private::make_folder(root)?;
        let root = Dir::open_ambient_dir(root, ambient_authority())?;
        let mut folder = below(&root, &folder_name(tenant))?;
        let mut file = name;
        if let Some((folders, last)) = name.rsplit_once('/') {
            folder = below(&folder, folders)?;
            file = last;
        }
        // Written to a temporary file and moved into place as a whole: no reader sees a partial file, and after a
        // crash the old file is still there.
        let mut fresh = fresh_file(&folder)?;
        fresh.write_all(bytes)?;
        fresh.as_file().sync_all()?;
        fresh.replace(file)?;
        // The name also has to survive a crash. Not every system can sync a folder.
        let _ = folder.into_std_file().sync_all();
        Ok(())
    };
    let written = match write() {
        // Its folder was just removed together with the last file in it.
        Err(cause) if cause.kind() == IoKind::NotFound => write(),
        written => written,
    };
    written.map_err(|cause| failed("write", name, cause))
}

fn get(root: &PathBuf, tenant: &TenantId, name: &str) -> Result<Bytes> {
    checked(name)?;
    let read = || -> std::io::Result<Vec<u8>> {
        let root = Dir::open_ambient_dir(root, ambient_authority())?.open_dir(folder_name(tenant))?;
        // Opening a pipe would block until its other end is opened.
        let mut file = root.open_with(name, OpenOptions::new().read(true).nonblock(true))?;
        if !file.metadata()?.is_file() {
            return Err(IoKind::NotFound.into());
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map(Bytes::from).map_err(|cause| failed("read", name, cause))
}

fn remove(root: &PathBuf, tenant: &TenantId, name: &str) -> Result<()> {
    checked(name)?;
    let remove = || -> std::io::Result<()> {
        let root = Dir::open_ambient_dir(root, ambient_authority())?.open_dir(folder_name(tenant))?;
        root.remove_file(name)?;
        // A folder of a single item is removed with the last file in it; a folder that is not empty stays.
        if let Some((folder, _)) = name.rsplit_once('/').filter(|(folder, _)| folder.contains('/')) {
            let _ = root.remove_dir(folder);
        }
        Ok(())
    };
    match remove() {
        // Removals are retried until nothing is left, so one that finds nothing has succeeded.
        Err(cause) if matches!(cause.kind(), IoKind::NotFound | IoKind::NotADirectory) => Ok(()),
        outcome => outcome.map_err(|cause| failed("remove", name, cause)),
    }
}

/// The names of the files in a folder and its subfolders.
fn list(root: &PathBuf, tenant: &TenantId, folder: &str) -> Result<Vec<String>> {
    checked(folder)?;
    let look = || -> std::io::Result<Vec<String>> {
        let root = Dir::open_ambient_dir(root, ambient_authority())?.open_dir(folder_name(tenant))?;
        let (mut names, mut folders) = (Vec::new(), vec![folder.to_owned()]);
        while let Some(folder) = folders.pop() {
            for entry in root.read_dir(&folder)? {
                let entry = entry?;
                // Blobs have names that are text; whatever this is, it is none of ours.
                let Ok(name) = entry.file_name().into_string() else { continue };
                let (name, kind) = (format!("{folder}/{name}"), entry.file_type()?);
                // An entry with any other name is not a blob: a file that is being written, or one of unknown origin.
                if checked(&name).is_err() {
                    continue;
                }
                if kind.is_dir() {
                    folders.push(name);
                } else if kind.is_file() {
                    names.push(name);
                }
            }
        }
        Ok(names)
    };
    match look() {
        Err(cause) if matches!(cause.kind(), IoKind::NotFound | IoKind::NotADirectory) => Ok(Vec::new()),
        outcome => outcome.map_err(|cause| failed("look for", folder, cause)),
    }
}

fn failed(what: &str, name: &str, cause: std::io::Error) -> Error {
    let (kind, why) = match cause.kind() {
        IoKind::NotFound | IoKind::NotADirectory => (ErrorKind::NotFound, "there is no such file"),
        IoKind::PermissionDenied => (ErrorKind::Denied, "its folder is protected"),
        IoKind::StorageFull | IoKind::QuotaExceeded => (ErrorKind::Unavailable, "the disk is full"),
        IoKind::FileTooLarge => (ErrorKind::Unavailable, "it is too large for this file system"),
        _ => (ErrorKind::Internal, "the operating system refuses"),
    };
    Error::new(kind, format!("cannot {what} the stored file `{name}`: {why}")).because(cause)
}

#[async_trait]
impl BlobStore for FolderBlobs {
    async fn put(&self, tenant: &TenantId, name: &str, bytes: Bytes) -> Result<()> {
        let (tenant, name) = (tenant.clone(), name.to_owned());
        self.blocking(move |root| put(root, &tenant, &name, &bytes)).await
    }

    async fn get(&self, tenant: &TenantId, name: &str) -> Result<Bytes> {
        let (tenant, name) = (tenant.clone(), name.to_owned());
        self.blocking(move |root| get(root, &tenant, &name)).await
    }

    async fn remove(&self, tenant: &TenantId, name: &str) -> Result<()> {
        let (tenant, name) = (tenant.clone(), name.to_owned());
        self.blocking(move |root| remove(root, &tenant, &name)).await
    }

    async fn below(&self, tenant: &TenantId, folder: &str) -> Result<Vec<String>> {
        let (tenant, folder) = (tenant.clone(), folder.to_owned());
        self.blocking(move |root| list(root, &tenant, &folder)).await
    }

    async fn remove_all(&self, tenant: &TenantId) -> Result<()> {
        let tenant = tenant.clone();
        self.blocking(move |root| remove_folder(root, &tenant)).await
    }
}
