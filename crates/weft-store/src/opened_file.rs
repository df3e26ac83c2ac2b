//! Which file a store was opened as: its path may come to name another one, or none, while the store is open.

use std::fs::Metadata;

use weft_core::{Error, ErrorKind, Result};

use crate::place::StorePlace;

/// What tells a file from another one at the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenedFile {
    device: u64,
    number: u64,
}

impl OpenedFile {
    /// The file at this place; `None` for a place that is no file, and for a file that cannot be looked at.
    pub(crate) async fn at(place: &StorePlace) -> Option<Self> {
        let StorePlace::File(path) = place else { return None };
        tokio::fs::metadata(path).await.ok().map(|found| Self::of(&found))
    }

    #[cfg(unix)]
    fn of(found: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self { device: found.dev(), number: found.ino() }
    }

    /// Other systems let nobody remove a file that is open.
    #[cfg(not(unix))]
    fn of(_found: &Metadata) -> Self {
        Self { device: 0, number: 0 }
    }

    /// Whether the place still has this file. The database goes on with the file that it has opened, also when nobody
    /// can find it any more, and what it writes is lost with the process.
    ///
    /// # Errors
    /// `Unavailable` when it has not.
    pub(crate) async fn check(self, place: &StorePlace) -> Result<()> {
        if Self::at(place).await == Some(self) {
            return Ok(());
        }
        let private = format!("cannot write to the store: {place} was removed or replaced while it was open");
        let help = "stop this process, since what it writes is lost, and put the file back before the next one starts";
        Err(Error::new(ErrorKind::Unavailable, "cannot write to the store: it is gone")
            .in_private(private, Some(help)))
    }
}
