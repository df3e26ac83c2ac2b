//! Chunks that several callers add to one document at the same time become one change of it: whoever has the
//! document's lock takes in what all the others have brought meanwhile.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use weft_core::id::DocumentKey;
use weft_core::seam::dataset_store::{Document, StoredChunk};
use weft_core::{Error, Result};

/// Chunks of one change. More of them would be held in memory at once, and callers wait for the whole of it.
const CHUNKS_AT_ONCE_MAX: usize = 256;

/// A chunk on its way into a document.
#[derive(Debug)]
pub(super) struct Arriving {
    /// The document that its vector was made for.
    pub before: Document,
    /// The chunk, without its id and its place.
    pub chunk: StoredChunk,
    /// The generation of the dataset that its vector is of.
    pub generation: u64,
    /// Tells what has become of it; nothing when the document is something else by now.
    pub done: oneshot::Sender<Result<Option<StoredChunk>>>,
}

/// What waits for the lock of its document, first come first served.
#[derive(Debug, Default)]
pub(super) struct Arrivals(Mutex<HashMap<DocumentKey, Vec<Arriving>>>);

impl Arrivals {
    fn lock(&self) -> MutexGuard<'_, HashMap<DocumentKey, Vec<Arriving>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, key: &DocumentKey, arriving: Arriving) {
        self.lock().entry(key.clone()).or_default().push(arriving);
    }

    /// Takes what is to become one change. Under the lock of the document.
    pub(super) fn take(&self, key: &DocumentKey) -> Vec<Arriving> {
        let mut all = self.lock();
        let Some(waiting) = all.get_mut(key) else { return Vec::new() };
        // The others have the lock next, and their callers wait no longer than these did.
        let taken = waiting.drain(..waiting.len().min(CHUNKS_AT_ONCE_MAX)).collect();
        if waiting.is_empty() {
            all.remove(key);
        }
        taken
    }
}

/// Tells all of a change that it failed.
pub(super) fn failed(
    all: impl IntoIterator<Item = oneshot::Sender<Result<Option<StoredChunk>>>>,
    error: &Error,
) {
    for done in all {
        // Who has gone away needs no answer.
        let _ = done.send(Err(Error::new(error.kind, error.full())));
    }
}
