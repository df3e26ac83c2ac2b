//! Keeps the index in step with what is stored of a document.
//!
//! Each change of what is stored is noted, in the same step and with the next number, until the index
//! contains it. Small changes are passed to the index to be written together with others, which happens
//! within a second and before the index answers a question. Until then the note stays, so that a crash in
//! between is repaired; and this process knows up to which number the index will contain the document, so
//! that the next change need not first index the whole document again.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::FutureExt as _;
use tracing::Instrument as _;
use weft_core::error::found;
use weft_core::id::{DatasetKey, DocumentKey};
use weft_core::seam::index::{IndexChange, WriteConfirmation};
use weft_core::seam::ingest_queue::IndexNote;
use weft_core::{Error, ErrorKind, Result};

use super::library::Library;

/// The number up to which the index will contain each document, once what it has accepted is written.
#[derive(Debug, Default)]
pub(super) struct Behind(Mutex<HashMap<DocumentKey, i64>>);

impl Behind {
    fn lock(&self) -> MutexGuard<'_, HashMap<DocumentKey, i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether something of a document has been accepted but not written yet.
    pub(super) fn holds(&self, key: &DocumentKey) -> bool {
        self.lock().contains_key(key)
    }

    fn is_at(&self, key: &DocumentKey, number: i64) -> bool {
        self.lock().get(key) == Some(&number)
    }

    /// Returns the datasets of all these documents.
    fn datasets(&self) -> HashSet<DatasetKey> {
        self.lock().keys().map(|key| key.dataset.clone()).collect()
    }

    fn set(&self, key: &DocumentKey, number: i64) {
        self.lock().insert(key.clone(), number);
    }

    pub(super) fn forget(&self, key: &DocumentKey) {
        self.lock().remove(key);
    }
}

/// A change of what is stored of a document, as it was noted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noted {
    /// The number that includes the change.
    pub number: i64,
    /// Whether the index contained the document as it was before, or will once what it has accepted is written.
    pub level: bool,
    /// Whether a worker is currently indexing the document.
    pub busy: bool,
}

impl Library {
    /// Makes the indexes write what they have accepted, and waits for changes in progress, before a process
    /// ends, so that the next one finds everything in place and nothing to repair. What an index refuses
    /// stays noted.
    pub async fn close(&self) {
        for dataset in self.behind.datasets() {
            let write = async {
                let Some(index) = found(self.index_of(&dataset).await)? else { return Ok(()) };
                // An empty change is written together with everything that is waiting.
                self.parts.index.write(&index, Vec::new()).await
            };
            if let Err(error) = write.await {
                tracing::warn!(dataset.id = %dataset.id, error = error.detail(), "an index could not be updated");
            }
        }
        self.changed().await;
    }

    /// Returns the meaning of a change that created its own note.
    pub(super) fn of_change(&self, key: &DocumentKey, note: IndexNote) -> Noted {
        let level = note.first || self.behind.is_at(key, note.number - 1);
        Noted { number: note.number, level, busy: note.busy }
    }

    /// Returns the meaning of one change that follows a note.
    pub(super) fn of_next_change(&self, key: &DocumentKey, note: IndexNote) -> Noted {
        Noted { number: note.number + 1, ..self.of_change(key, note) }
    }

    /// Makes one change of what is stored of a document, after noting it. Requires the document's lock.
    ///
    /// # Errors
    /// Any error of the change, after which it is as if it had not been attempted.
    pub(super) async fn noted<T>(
        &self,
        key: &DocumentKey,
        change: impl Future<Output = Result<T>>,
    ) -> Result<(T, Noted)> {
        let made = self.noted_if(key, async { change.await.map(Some) }).await?;
        made.ok_or_else(|| Error::internal("a change was not applied for an unknown reason"))
    }

    /// Like [`Self::noted`], for a change that may turn out not to be made, in which case it returns `None`.
    ///
    /// # Errors
    /// Any error of the change. After an error, and when it was not made, it is as if it had not been attempted.
    pub(super) async fn noted_if<T>(
        &self,
        key: &DocumentKey,
        change: impl Future<Output = Result<Option<T>>>,
    ) -> Result<Option<(T, Noted)>> {
        let note = self.parts.queue.unindexed(key).await?;
        match change.await {
            Ok(Some(done)) => Ok(Some((done, self.of_next_change(key, note)))),
            undone => {
                // Should it have been made all the same, the number shows it.
                if note.first {
                    self.parts.queue.indexed(key, note.number).await?;
                }
                undone.map(|_| None)
            }
        }
    }

    /// Updates the index after one change of what is stored of a document: by `changes` if the two agreed
    /// before, and otherwise by indexing the whole document. Requires the document's lock.
    pub(super) async fn follow(
        &self,
        key: &DocumentKey,
        noted: Noted,
        changes: Vec<IndexChange>,
    ) -> Result<()> {
        if !noted.level && !noted.busy {
            return self.sync(key).await;
        }
        let index = self.index_of(&key.dataset).await?;
        self.parts.index.write(&index, changes).await?;
        self.followed(key, noted).await
    }

    /// Like [`Self::follow`], but the index need not have written the changes on return; every question from
    /// here on finds them.
    pub(super) async fn follow_behind(
        &self,
        key: &DocumentKey,
        noted: Noted,
        changes: Vec<IndexChange>,
    ) -> Result<()> {
        if !noted.level || noted.busy {
            return self.follow(key, noted, changes).await;
        }
        let index = self.index_of(&key.dataset).await?;
        let kept = self.parts.index.write_behind(&index, changes).await?;
        self.will_follow(key, noted, vec![kept]).await
    }

    /// Completes the update once the index has accepted everything. Requires the document's lock.
    pub(super) async fn will_follow(
        &self,
        key: &DocumentKey,
        noted: Noted,
        kept: Vec<WriteConfirmation>,
    ) -> Result<()> {
        let mut kept = futures::future::try_join_all(kept);
        if let Some(kept) = (&mut kept).now_or_never() {
            kept?;
            return self.followed(key, noted).await;
        }
        // Recorded before the lock is released, so that the next change finds it.
        self.behind.set(key, noted.number);
        let (library, key) = (self.clone(), key.clone());
        let follow = async move { library.when_kept(&key, noted, kept.await.map(drop)).await };
        self.changes.spawn(follow.in_current_span());
        Ok(())
    }

    async fn when_kept(&self, key: &DocumentKey, noted: Noted, kept: Result<()>) {
        let _lock = self.lock(key).await;
        let done = match kept {
            // A later change will be confirmed separately.
            Ok(()) if !self.behind.is_at(key, noted.number) => Ok(()),
            Ok(()) => self.followed(key, noted).await,
            Err(error) => {
                tracing::warn!(document.id = %key.id, error = error.detail(), "an index rejected a change");
                // Before anything else can fail: other tasks do not repair what is recorded as about to be written.
                self.behind.forget(key);
                self.sync(key).await
            }
        };
        match done {
            Err(error) if error.kind != ErrorKind::NotFound => {
                // It stays noted, and is repaired later.
                tracing::warn!(document.id = %key.id, error = error.detail(), "an index could not be updated");
            }
            _ => {}
        }
    }

    /// Removes the note that the index may differ, after the index was updated. Requires the document's lock.
    pub(super) async fn followed(&self, key: &DocumentKey, noted: Noted) -> Result<()> {
        self.behind.forget(key);
        self.document_changed(key);
        // The process that is indexing the whole document sees that it has changed.
        if noted.busy || self.parts.queue.indexed(key, noted.number).await? {
            return Ok(());
        }
        self.sync(key).await
    }
}
