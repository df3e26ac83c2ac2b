//! The one writer of a dataset, and how processes take turns.
//!
//! tantivy's lock lets one process write at a time and is held as long as its writer is open. Several
//! processes that share a data folder (a server and a command beside it) therefore take turns: a writer is
//! closed when it is idle and, after a while, even when it is busy, so that no process has to wait until
//! another has finished all its work.

use std::thread::sleep;
use std::time::{Duration, Instant};

use tantivy::IndexWriter;
use weft_core::Result;

use super::home::Home;
use super::lock::{unwritable, when_free};

/// Memory in bytes that a writer may use before it writes a part.
const MEMORY: usize = 48 * 1024 * 1024;
/// A writer that has been idle for this long is closed.
// An open writer holds the lock of the index, which other processes may be waiting for, and its buffers.
pub(super) const IDLE_MAX: Duration = Duration::from_millis(300);
/// A writer that has been open for this long is closed after the next commit.
// Other processes that want to write wait for its lock, however busy this one is.
const TURN_MAX: Duration = Duration::from_secs(10);
/// How long it then stays closed. Longer than `ASKED_EVERY` in `lock.rs`, so that one of the waiting processes gets
/// its turn.
const PAUSE: Duration = Duration::from_millis(50);

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
