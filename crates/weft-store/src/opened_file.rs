//! Identifies the file with which a store was opened: while the store is open, its path may come to name another
//! file, or none.

use std::fs::Metadata;

use weft_core::{Error, ErrorKind, Result};

use crate::place::StorePlace;

/// Distinguishes a file from another one at the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenedFile {
    device: u64,
    number: u64,
}

impl OpenedFile {
    /// The file at this place; `None` if the place is not a file, or the file's metadata cannot be read.
    pub(crate) async fn at(place: &StorePlace) -> Option<Self> {
        let StorePlace::File(path) = place else { return None };
        tokio::fs::metadata(path).await.ok().map(|found| Self::of(&found))
    }

    #[cfg(unix)]
    fn of(found: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self { device: found.dev(), number: found.ino() }
    }

    /// Other systems do not allow removing an open file.
    #[cfg(not(unix))]
    fn of(_found: &Metadata) -> Self {
        Self { device: 0, number: 0 }
    }

    /// Checks whether the place still has this file. The database continues to use the file that it opened, even if
    /// it has been removed, and its writes are then lost with the process.
    ///
    /// # Errors
    /// `Unavailable` when the file is no longer there.
    pub(crate) async fn check(self, place: &StorePlace) -> Result<()> {
        if Self::at(place).await == Some(self) {
            return Ok(());
        }
        let private = format!("cannot write to the store: {place} was removed or replaced while it was open");
        let help =
            "stop this process, whose writes are lost, and restore the file before the next one starts";
        Err(Error::new(ErrorKind::Unavailable, "cannot write to the store: it is gone")
            .in_private(private, Some(help)))
    }
}
