//! Writes that wait for their turn.

use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;
use weft_core::seam::index::{IndexChange, IndexedChunk};
use weft_core::{Error, Result};

/// A write that waits for its turn.
pub(super) struct WaitingWrite {
    /// All changes of the write.
    pub changes: Vec<IndexChange>,
    /// Whether the caller waits for it.
    pub urgency: Urgency,
    /// Receives the outcome.
    pub done: oneshot::Sender<Result<()>>,
}

/// How a write relates to its caller.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Urgency {
    /// The caller waits for it, and the write is dropped if the caller goes away.
    Now,
    /// The write was accepted, and the caller need not wait.
    Behind,
}

/// All waiting writes, in order of arrival.
#[derive(Default)]
pub(super) struct Waitlist(Mutex<Writes>);

#[derive(Default)]
struct Writes {
    writes: Vec<WaitingWrite>,
    bytes: usize,
}

impl Waitlist {
    /// Adds a write. Returns the receiver of its outcome, and the approximate number of bytes now waiting.
    pub(super) fn add(
        &self,
        changes: Vec<IndexChange>,
        urgency: Urgency,
    ) -> (oneshot::Receiver<Result<()>>, usize) {
        let (done, told) = oneshot::channel();
        let more = changes.iter().map(bytes).sum::<usize>();
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.bytes += more;
        waiting.writes.push(WaitingWrite { changes, urgency, done });
        (told, waiting.bytes)
    }

    /// Takes all waiting writes.
    pub(super) fn take(&self) -> Vec<WaitingWrite> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).writes
    }
}

/// Approximate size of a change in memory, in bytes.
fn bytes(change: &IndexChange) -> usize {
    /// Estimated size of ids and lists.
    const FRAME: usize = 256;
    let of = |chunk: &IndexedChunk| {
        let vector = chunk.vector.as_ref().map_or(0, Vec::len) * size_of::<f32>();
        let lists = chunk.keywords.iter().chain(&chunk.questions).map(String::len).sum::<usize>();
        FRAME + chunk.title.len() + chunk.content.len() + lists + vector
    };
    match change {
        IndexChange::Chunks(_, chunks) => FRAME + chunks.iter().map(|(_, chunk)| of(chunk)).sum::<usize>(),
        IndexChange::RemoveChunks(ids) => FRAME + ids.len() * FRAME,
        IndexChange::Document(_) | IndexChange::Clear(_) | IndexChange::RemoveDocument(_) => FRAME,
    }
}

/// Returns the error of a write that was never finished.
pub(super) fn stopped(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::internal("writing to the index stopped unexpectedly").because(cause)
}

/// Copies an error for another recipient.
pub(super) fn copy(error: &Error) -> Error {
    // A cause cannot be cloned, so it becomes part of the message.
    Error::new(error.kind, error.full())
}

/// Sends the same outcome to all of them.
pub(super) fn told(all: impl IntoIterator<Item = oneshot::Sender<Result<()>>>, outcome: &Result<()>) {
    for done in all {
        let outcome = match outcome {
            Ok(()) => Ok(()),
            Err(error) => Err(copy(error)),
        };
        // A caller that has gone away needs no answer.
        drop(done.send(outcome));
    }
}
