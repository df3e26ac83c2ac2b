//! Writes that wait for their turn.

use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;
use weft_core::seam::index::{IndexChange, IndexedChunk};
use weft_core::{Error, Result};

/// A write that waits for its turn.
pub(super) struct WaitingWrite {
    /// All of it.
    pub changes: Vec<IndexChange>,
    /// Whether anybody waits.
    pub urgency: Urgency,
    /// Tells what has become of it.
    pub done: oneshot::Sender<Result<()>>,
}

/// What a write is to its caller.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Urgency {
    /// He waits for it, and takes it back when he goes away.
    Now,
    /// It was accepted, and he need not wait.
    Behind,
}

/// All that wait, first come first served.
#[derive(Default)]
pub(super) struct Waitlist(Mutex<Writes>);

#[derive(Default)]
struct Writes {
    writes: Vec<WaitingWrite>,
    bytes: usize,
}

impl Waitlist {
    /// Where the outcome will be told, and about how many bytes wait then.
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

    /// Takes all.
    pub(super) fn take(&self) -> Vec<WaitingWrite> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).writes
    }
}

/// About what a change takes in memory.
fn bytes(change: &IndexChange) -> usize {
    /// What ids and lists take.
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

/// The error of a write that nobody finished.
pub(super) fn stopped(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::internal("writing to the index stopped unexpectedly").because(cause)
}

/// The same error for somebody else.
pub(super) fn copy(error: &Error) -> Error {
    // A cause cannot be copied, so it becomes a part of the message.
    Error::new(error.kind, error.full())
}

/// Tells all of them the same.
pub(super) fn told(all: impl IntoIterator<Item = oneshot::Sender<Result<()>>>, outcome: &Result<()>) {
    for done in all {
        let outcome = match outcome {
            Ok(()) => Ok(()),
            Err(error) => Err(copy(error)),
        };
        // Who has gone away needs no answer.
        drop(done.send(outcome));
    }
}
