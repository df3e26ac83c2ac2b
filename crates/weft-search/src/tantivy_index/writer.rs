//! The one writer of a dataset, and how processes take turns.
//!
//! tantivy's lock lets one process write at a time and is held as long as its writer is open. Several
//! processes that share a data folder (a server and a command beside it) therefore take turns: a writer is
//! closed when it is idle and, after a while, even when it is busy, so that no process has to wait until
//! another has finished all its work.

use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tantivy::directory::error::{LockError, OpenDirectoryError, OpenReadError};
use tantivy::{IndexWriter, TantivyError};
use weft_core::{Error, ErrorKind, Result};

use super::home::Home;

/// Memory in bytes that a writer may use before it writes a part.
const MEMORY: usize = 48 * 1024 * 1024;
/// A writer that has been idle for this long is closed.
// An open writer holds the lock of the index, which other processes may be waiting for, and its buffers.
pub(super) const IDLE_MAX: Duration = Duration::from_millis(300);
/// A writer that has been open for this long is closed after the next commit.
// Other processes that want to write wait for its lock, however busy this one is.
const TURN_MAX: Duration = Duration::from_secs(10);
/// How long it then stays closed. Longer than `ASKED_EVERY`, so that one of the waiting processes gets its turn.
const PAUSE: Duration = Duration::from_millis(50);
const ASKED_EVERY: Duration = Duration::from_millis(20);
/// How long another process may hold the lock before that is an error.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The writer, while it is open. Its operations block.
#[derive(Default)]
pub(super) struct DatasetWriter {
    open: Option<OpenWriter>,
}

struct OpenWriter {
    writer: IndexWriter,
    since: Instant,
    used: Instant,
}

impl DatasetWriter {
    /// Whether it is this process's turn.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Returns the writer; if it is closed, waits for its turn.
    pub(super) fn get(&mut self, home: &Home) -> Result<&mut IndexWriter> {
        let now = Instant::now();
        let open = match self.open.take() {
            Some(open) => OpenWriter { used: now, ..open },
            None => {
                let writer = when_free(|| home.open()?.writer_with_num_threads(1, MEMORY))?;
                OpenWriter { writer, since: Instant::now(), used: Instant::now() }
            }
        };
        Ok(&mut self.open.insert(open).writer)
    }

    /// Whether it has been idle for a while.
    pub(super) fn is_idle(&self) -> bool {
        self.open.as_ref().is_none_or(|open| open.used.elapsed() >= IDLE_MAX)
    }

    /// Discards what was gathered since the last commit.
    pub(super) fn abandon(&mut self) {
        self.open = None;
    }

    /// Lets other processes write if the writer has been open for long. Must be called after a commit.
    pub(super) fn end_turn(&mut self) -> Result<()> {
        if self.open.as_ref().is_some_and(|open| open.since.elapsed() >= TURN_MAX) {
            self.close()?;
            sleep(PAUSE);
        }
        Ok(())
    }

    /// Closes the writer once running merges have finished: otherwise a writer that is closed often would
    /// start the same merge again and again. Must be called after a commit.
    pub(super) fn close(&mut self) -> Result<()> {
        match self.open.take() {
            Some(open) => open.writer.wait_merging_threads().map_err(unwritable),
            None => Ok(()),
        }
    }
}

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
