//! Combines chunks that several callers add to a document concurrently into one change: the holder of the
//! document's lock includes whatever the others have brought meanwhile.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use weft_core::id::DocumentKey;
use weft_core::seam::dataset_store::{Document, StoredChunk};
use weft_core::{Error, Result};

/// Maximum number of chunks per change. All of them are held in memory, and their callers wait for the whole change.
const CHUNKS_AT_ONCE_MAX: usize = 256;

/// A chunk that is being added to a document.
#[derive(Debug)]
pub(super) struct Arriving {
    /// The document for which its vector was computed.
    pub before: Document,
    /// The chunk, without its id and ordinal.
    pub chunk: StoredChunk,
    /// The generation of the dataset that its vector belongs to.
    pub generation: u64,
    /// Receives the outcome; `None` if the document has changed by now.
    pub done: oneshot::Sender<Result<Option<StoredChunk>>>,
}

/// Chunks waiting for the lock of their document, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Arrivals(Mutex<HashMap<DocumentKey, Vec<Arriving>>>);

impl Arrivals {
    fn lock(&self) -> MutexGuard<'_, HashMap<DocumentKey, Vec<Arriving>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, key: &DocumentKey, arriving: Arriving) {
        self.lock().entry(key.clone()).or_default().push(arriving);
    }

    /// Takes the chunks for one change. Requires the document's lock.
    pub(super) fn take(&self, key: &DocumentKey) -> Vec<Arriving> {
        let mut all = self.lock();
        let Some(waiting) = all.get_mut(key) else { return Vec::new() };
        // The rest gets the lock next, and its callers wait no longer than these did.
        let taken = waiting.drain(..waiting.len().min(CHUNKS_AT_ONCE_MAX)).collect();
        if waiting.is_empty() {
            all.remove(key);
        }
        taken
    }
}

/// Sends all callers of a change the error with which it failed.
pub(super) fn failed(
    all: impl IntoIterator<Item = oneshot::Sender<Result<Option<StoredChunk>>>>,
    error: &Error,
) {
    for done in all {
        // A caller that has gone away needs no answer.
        let _ = done.send(Err(Error::new(error.kind, error.full())));
    }
}
