//! Files of agents in a folder on this machine, with one subfolder per tenant.
//!
//! Every path component from the tenant's folder to the file is resolved relative to an open folder, so neither a
//! link nor a folder that is swapped for one meanwhile leads outside. A text is first written to a temporary file and
//! then moved into place in one step.

mod used;

use std::io::{ErrorKind as IoKind, Read as _, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use cap_fs_ext::OpenOptionsSyncExt as _;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};
use weft_core::seam::Workspace;
use weft_core::seam::workspace::names;
use weft_core::{Error, ErrorKind, Result, TenantId, async_trait, blocking};

use self::used::{ENTRIES_MAX, Size, Used};
use crate::private;
use crate::tenant_folder::{below, folder_name, fresh_file, remove_folder};

/// A folder on this machine. Nothing is created in it before the first write.
#[derive(Clone, Debug)]
pub struct FolderWorkspace(Arc<Folder>);

#[derive(Debug)]
struct Folder {
    root: PathBuf,
    bytes_max: usize,
    /// 0 means unlimited.
    tenant_bytes_max: u64,
    used: Used,
    /// Held while a file is replaced, so that concurrent appends are not lost.
    writing: Mutex<()>,
}

impl FolderWorkspace {
    /// The files below `root`, each limited to `bytes_max` bytes.
    pub fn new(root: impl Into<PathBuf>, bytes_max: usize) -> Self {
        Self::within(root, bytes_max, 0)
    }

    /// The same, with all files of a tenant together limited to `tenant_bytes_max` bytes; 0 means unlimited.
    pub fn within(root: impl Into<PathBuf>, bytes_max: usize, tenant_bytes_max: u64) -> Self {
        let (root, used, writing) = (root.into(), Used::default(), Mutex::new(()));
        Self(Arc::new(Folder { root, bytes_max, tenant_bytes_max, used, writing }))
    }

    /// Removes all files of a tenant.
    ///
    /// # Errors
    /// When they cannot be removed.
    pub async fn remove_all(&self, tenant: &TenantId) -> Result<()> {
        let tenant = tenant.clone();
        self.blocking(move |folder| remove_folder(&folder.root, &tenant)).await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Folder) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let folder = Arc::clone(&self.0);
        blocking("the work on a file", move || work(&folder)).await
    }
}

impl Folder {
    /// The tenant's folder.
    fn of(&self, tenant: &TenantId) -> std::io::Result<Dir> {
        Dir::open_ambient_dir(&self.root, ambient_authority())?.open_dir(folder_name(tenant))
    }

    /// The tenant's folder, created if necessary.
    fn made(&self, tenant: &TenantId) -> std::io::Result<Dir> {
        private::make_folder(&self.root)?;
        let root = Dir::open_ambient_dir(&self.root, ambient_authority())?;
        below(&root, &folder_name(tenant))
    }

    fn read(&self, tenant: &TenantId, path: &str) -> Result<String> {
        let file = names(path)?.join("/");
        let root = self.of(tenant).map_err(|cause| failed("read", path, cause))?;
        self.content(&root, &file, path)
    }

    fn content(&self, root: &Dir, file: &str, path: &str) -> Result<String> {
        let cannot = |cause| failed("read", path, cause);
        // Opening a pipe would block until its other end is opened.
        let file = root.open_with(file, OpenOptions::new().read(true).nonblock(true)).map_err(cannot)?;
        if !file.metadata().map_err(cannot)?.is_file() {
            return Err(Error::invalid(format!("`{path}` is not a regular file")));
        }
        let mut bytes = Vec::new();
        let limit = u64::try_from(self.bytes_max).unwrap_or(u64::MAX);
        // One byte above the limit: a file that is too large is detected without reading all of it.
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(cannot)?;
        self.fits(bytes.len(), path)?;
        String::from_utf8(bytes).map_err(|_| Error::invalid(format!("`{path}` is not UTF-8 text")))
    }

    fn fits(&self, bytes: usize, path: &str) -> Result<()> {
        if bytes <= self.bytes_max {
            Ok(())
        } else {
            Err(Error::invalid(format!("`{path}` is larger than {} bytes", self.bytes_max))
                .help("split it, or let an operator raise `files.bytes_max`"))
        }
    }

    fn write(&self, tenant: &TenantId, path: &str, text: &str, before: EarlierText) -> Result<bool> {
        let cannot = |cause| failed("write", path, cause);
        let names = names(path)?;
        self.fits(text.len(), path)?;
        let Some((&name, folders)) = names.split_last() else {
            return Err(Error::invalid("the path does not name a file"));
        };
        if self.tenant_bytes_max == 0 {
            return self.replace(&self.made(tenant).map_err(cannot)?, (folders, name), path, (text, before));
        }
        let known = self.used.of(tenant);
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let home = self.made(tenant).map_err(cannot)?;
        let size = known.size(&home).map_err(cannot)?;
        // Before anything is created for it.
        let size = self.size_after(size, &home, &names, (text, before))?;
        let existed = self.replace(&home, (folders, name), path, (text, before))?;
        known.note(size);
        Ok(existed)
    }

    /// Returns what the files of a tenant take when a text has been written.
    ///
    /// # Errors
    /// `QuotaExceeded` if they may not take that much. A file can always be replaced by a shorter one.
    fn size_after(
        &self,
        now: Size,
        home: &Dir,
        names: &[&str],
        (text, before): (&str, EarlierText),
    ) -> Result<Size> {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let refused =
            |message: String, help: &str| Err(Error::new(ErrorKind::QuotaExceeded, message).help(help));
        let found = home.symlink_metadata(names.join("/")).ok();
        let old = found.as_ref().map_or(0, |found| found.len());
        let kept = match before {
            EarlierText::Kept => old,
            EarlierText::Replaced => 0,
        };
        let new = kept.saturating_add(count(text.len()));
        let bytes = now.bytes.saturating_sub(old).saturating_add(new);
        if new > old && bytes > self.tenant_bytes_max {
            let message = format!("the files would take {bytes} bytes of at most {}", self.tenant_bytes_max);
            let help = "write shorter ones, or let an operator remove some or raise `files.tenant_bytes_max`";
            return refused(message, help);
        }
        // Of too many files, not all were measured: nothing grows any more then.
        if found.is_some() && (new <= old || now.entries <= ENTRIES_MAX) {
            return Ok(Size { bytes, ..now });
        }
        // Some of its folders may exist already.
        let entries = now.entries.saturating_add(count(names.len()));
        if entries > ENTRIES_MAX {
            let message = format!("there would be more than {ENTRIES_MAX} files and folders");
            return refused(message, "write to fewer files, or let an operator remove some");
        }
        Ok(Size { entries, bytes })
    }

    fn replace(
        &self,
        home: &Dir,
        (folders, name): (&[&str], &str),
        path: &str,
        (text, before): (&str, EarlierText),
    ) -> Result<bool> {
        let cannot = |cause| failed("write", path, cause);
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut folder = home.try_clone().map_err(cannot)?;
        if !folders.is_empty() {
            folder = below(&folder, &folders.join("/")).map_err(cannot)?;
        }
        let before = match before {
            EarlierText::Kept => self.before(&folder, name, path)?,
            EarlierText::Replaced => String::new(),
        };
        // For a link, the link itself: it is replaced below and never written through.
        let existed = match folder.symlink_metadata(name) {
            Ok(found) if found.is_dir() => return Err(Error::invalid(format!("`{path}` is a folder"))),
            Ok(_) => true,
            Err(cause) if cause.kind() == IoKind::NotFound => false,
            Err(cause) => return Err(cannot(cause)),
        };
        self.fits(before.len().saturating_add(text.len()), path)?;
        // Written to a temporary file and moved into place as a whole: no reader sees a partial file, and after a
        // crash the old file is still there.
        let mut fresh = fresh_file(&folder).map_err(cannot)?;
        fresh.write_all(before.as_bytes()).map_err(cannot)?;
        fresh.write_all(text.as_bytes()).map_err(cannot)?;
        fresh.as_file().sync_all().map_err(cannot)?;
        fresh.replace(name).map_err(cannot)?;
        Ok(existed)
    }

    /// The content of the file; empty when it does not exist.
    fn before(&self, folder: &Dir, name: &str, path: &str) -> Result<String> {
        match self.content(folder, name, path) {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(String::new()),
            text => text,
        }
    }
}

/// What happens to the existing text.
#[derive(Clone, Copy)]
enum EarlierText {
    Kept,
    Replaced,
}

#[async_trait]
impl Workspace for FolderWorkspace {
    async fn read(&self, tenant: &TenantId, path: &str) -> Result<String> {
        let (tenant, path) = (tenant.clone(), path.to_owned());
        self.blocking(move |folder| folder.read(&tenant, &path)).await
    }

    async fn write(&self, tenant: &TenantId, path: &str, text: &str) -> Result<bool> {
        let (tenant, path, text) = (tenant.clone(), path.to_owned(), text.to_owned());
        self.blocking(move |folder| folder.write(&tenant, &path, &text, EarlierText::Replaced)).await
    }

    async fn append(&self, tenant: &TenantId, path: &str, text: &str) -> Result<bool> {
        let (tenant, path, text) = (tenant.clone(), path.to_owned(), text.to_owned());
        self.blocking(move |folder| folder.write(&tenant, &path, &text, EarlierText::Kept)).await
    }
}

/// The message contains the path as the caller wrote it and never the folder on this machine.
fn failed(what: &str, path: &str, cause: std::io::Error) -> Error {
    let (kind, why) = match cause.kind() {
        IoKind::NotFound => (ErrorKind::NotFound, "there is no such file"),
        IoKind::PermissionDenied => (ErrorKind::Denied, "it leads out of the root, or is protected"),
        IoKind::IsADirectory => (ErrorKind::Invalid, "it is a folder"),
        IoKind::NotADirectory | IoKind::AlreadyExists => {
            (ErrorKind::Invalid, "a part of the path is a file, not a folder")
        }
        IoKind::InvalidFilename | IoKind::InvalidInput => (ErrorKind::Invalid, "the name is not valid here"),
        _ => (ErrorKind::Internal, "the operating system refuses"),
    };
    let error = Error::new(kind, format!("cannot {what} `{path}`: {why}"));
    if kind == ErrorKind::Internal { error.because(cause) } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_grows_when_there_are_too_many_to_measure_them() {
        let root = tempfile::tempdir().unwrap();
        let folder = FolderWorkspace::within(root.path(), 100, 1_000).0;
        let home = folder.made(&TenantId::from("t")).unwrap();
        home.write("a", "0123").unwrap();
        let after = |entries: u64, text: &str| {
            folder.size_after(Size { entries, bytes: 4 }, &home, &["a"], (text, EarlierText::Replaced))
        };
        assert_eq!(after(ENTRIES_MAX, "01234").unwrap(), Size { entries: ENTRIES_MAX, bytes: 5 });
        assert_eq!(after(ENTRIES_MAX + 1, "01234").unwrap_err().kind, ErrorKind::QuotaExceeded);
        assert!(after(ENTRIES_MAX + 1, "012").is_ok());
    }
}
