//! How much the files of each tenant take.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind as IoKind};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cap_std::fs::Dir;
use weft_core::TenantId;

/// Maximum number of files and folders of a tenant with a limit. It also limits how long it takes to look at them.
pub(super) const ENTRIES_MAX: u64 = 100_000;

/// A measurement that takes no longer than this is made for each file that is written: others write there, too.
// Less than it takes to write the file.
const QUICK: Duration = Duration::from_millis(2);

/// Any other measurement is trusted for this many times as long as it took.
const TRUSTED_TIMES: u32 = 100;

/// Maximum number of tenants whose measurement is remembered, unless more of them are written to at this moment.
const TENANTS_MAX: usize = 10_000;

/// What the files of a tenant take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Files and folders.
    pub(super) entries: u64,
    /// Bytes of the files.
    pub(super) bytes: u64,
}

/// What is known about the files of a tenant.
#[derive(Debug, Default)]
pub(super) struct Known {
    size: Size,
    /// When they were last measured, and how long it took.
    measured: Option<(Instant, Duration)>,
}

impl Known {
    /// Returns the size now; if measuring takes long, as of a while ago with what was noted since.
    pub(super) fn size(&mut self, home: &Dir) -> io::Result<Size> {
        if let Some((at, took)) = self.measured
            && took > QUICK
            && at.elapsed() < took.saturating_mul(TRUSTED_TIMES)
        {
            return Ok(self.size);
        }
        let began = Instant::now();
        self.size = measured(home)?;
        self.measured = Some((Instant::now(), began.elapsed()));
        Ok(self.size)
    }

    /// Notes the size after a file was written.
    pub(super) fn note(&mut self, size: Size) {
        self.size = size;
    }
}

/// What is known about each tenant. Whoever writes for a tenant holds what is known about it, so that only this tenant
/// waits while its files are measured.
#[derive(Debug, Default)]
pub(super) struct Used(Mutex<HashMap<TenantId, Arc<Mutex<Known>>>>);

impl Used {
    pub(super) fn of(&self, tenant: &TenantId) -> Arc<Mutex<Known>> {
        let mut tenants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tenants.len() >= TENANTS_MAX {
            tenants.retain(|_, known| Arc::strong_count(known) > 1);
        }
        Arc::clone(tenants.entry(tenant.clone()).or_default())
    }
}

/// Looks at everything in a folder. Links are counted and not followed.
fn measured(home: &Dir) -> io::Result<Size> {
    let mut size = Size::default();
    // The name of the parent is shared: a folder may have many subfolders.
    let mut folders: Vec<(Rc<PathBuf>, OsString)> = Vec::new();
    let (mut folder, mut entries) = (Rc::new(PathBuf::new()), Some(home.entries()?));
    loop {
        for entry in entries.into_iter().flatten() {
            size.entries = size.entries.saturating_add(1);
            if size.entries > ENTRIES_MAX {
                return Ok(size);
            }
            let entry = entry?;
            // Links are not followed.
            let Some(about) = there(entry.metadata())? else { continue };
            if about.is_dir() {
                folders.push((Rc::clone(&folder), entry.file_name()));
            } else {
                size.bytes = size.bytes.saturating_add(about.len());
            }
        }
        let Some((parent, name)) = folders.pop() else { return Ok(size) };
        folder = Rc::new(parent.join(name));
        entries = there(home.read_dir(folder.as_path()))?;
    }
}

/// `None` for what was removed meanwhile, and for what this program may not look at.
fn there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(cause) if matches!(cause.kind(), IoKind::NotFound | IoKind::PermissionDenied) => Ok(None),
        Err(cause) => Err(cause),
    }
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    #[test]
    fn files_of_all_folders_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let home = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        assert_eq!(measured(&home).unwrap(), Size::default());
        std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
        std::fs::write(folder.path().join("a/b/c"), "12345").unwrap();
        std::fs::write(folder.path().join("d"), "67").unwrap();
        assert_eq!(measured(&home).unwrap(), Size { entries: 4, bytes: 7 });
    }

    #[test]
    fn a_measurement_that_takes_long_is_not_repeated_for_each_file() {
        let folder = tempfile::tempdir().unwrap();
        let home = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let noted = Size { entries: 7, bytes: 7 };
        let hour = Duration::from_hours(1);
        let mut known = Known { size: noted, measured: Some((Instant::now(), hour)) };
        assert_eq!(known.size(&home).unwrap(), noted);
        let mut quick = Known { size: noted, measured: Some((Instant::now(), QUICK)) };
        assert_eq!(quick.size(&home).unwrap(), Size::default());
    }

    #[test]
    fn tenants_that_nobody_writes_for_are_forgotten() {
        let used = Used::default();
        let first = used.of(&TenantId::from("first"));
        for nth in 0..TENANTS_MAX {
            used.of(&TenantId::from(nth.to_string()));
        }
        assert_eq!(used.0.lock().unwrap().len(), 2);
        assert!(Arc::ptr_eq(&first, &used.of(&TenantId::from("first"))));
    }
}
