//! The lock that tantivy holds while it writes to an index, and what it means that writing fails.

use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tantivy::TantivyError;
use tantivy::directory::error::{LockError, OpenDirectoryError, OpenReadError};
use weft_core::{Error, ErrorKind, Result};

/// The pause between two attempts to take the lock.
const ASKED_EVERY: Duration = Duration::from_millis(20);
/// How long another process may hold the lock before that is an error.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Runs work that needs tantivy's lock as soon as no other process holds it.
pub(super) fn when_free<T>(mut work: impl FnMut() -> tantivy::Result<T>) -> Result<T> {
    let since = Instant::now();
    loop {
        match work() {
            Err(TantivyError::LockFailure(LockError::LockBusy, _)) if since.elapsed() < WAIT_MAX => {
                sleep(ASKED_EVERY);
            }
            done => return done.map_err(unwritable),
        }
    }
}

/// Advice for an index that was removed in the middle of a change.
const REMOVED: &str = "another process has just removed the index: try again";

/// Converts an error of tantivy for an index that cannot be written.
pub(super) fn unwritable(cause: TantivyError) -> Error {
    let (kind, help) = match &cause {
        TantivyError::LockFailure(LockError::LockBusy, _) => (
            ErrorKind::Unavailable,
            "another process has been writing to the same data folder for a minute: check it, or stop it",
        ),
        // Its folder is removed file by file, so any step of a change may be the one that finds something missing.
        TantivyError::OpenDirectoryError(OpenDirectoryError::DoesNotExist(_))
        | TantivyError::OpenReadError(OpenReadError::FileDoesNotExist(_)) => {
            (ErrorKind::Unavailable, REMOVED)
        }
        TantivyError::IoError(cause) if cause.kind() == io::ErrorKind::NotFound => {
            (ErrorKind::Unavailable, REMOVED)
        }
        _ => (ErrorKind::Internal, "check whether the disk is full or the folder is no longer writable"),
    };
    Error::new(kind, "cannot write to the index of a dataset").because(cause).help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_removed_during_a_change_can_be_written_again() {
        let kind = |cause: TantivyError| unwritable(cause).kind;
        assert_eq!(kind(io::Error::from(io::ErrorKind::NotFound).into()), ErrorKind::Unavailable);
        assert_eq!(kind(io::Error::from(io::ErrorKind::StorageFull).into()), ErrorKind::Internal);
        let gone = OpenReadError::FileDoesNotExist("meta.json".into());
        assert_eq!(kind(gone.into()), ErrorKind::Unavailable);
    }
}
