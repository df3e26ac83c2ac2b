//! How the index follows what is kept of a document.
//!
//! Each change of what is kept is noted, in the same step and with the next number, until the index holds it. Small
//! changes are handed to the index to be written together with others, which it does within a second and before it
//! answers a question. Until then the note stays, so that a crash in between is mended; and this process knows up to
//! which number the index will hold the document, so that the next change need not begin with putting all of it
//! there anew.

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

/// Up to which number the index will hold documents, as soon as what it has accepted is written.
#[derive(Debug, Default)]
pub(super) struct Behind(Mutex<HashMap<DocumentKey, i64>>);

impl Behind {
    fn lock(&self) -> MutexGuard<'_, HashMap<DocumentKey, i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether something of a document was accepted and is not written yet.
    pub(super) fn holds(&self, key: &DocumentKey) -> bool {
        self.lock().contains_key(key)
    }

    fn is_at(&self, key: &DocumentKey, number: i64) -> bool {
        self.lock().get(key) == Some(&number)
    }

    /// The datasets of all of them.
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

/// A change of what is kept of a document, as it was noted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noted {
    /// The number with the change.
    pub number: i64,
    /// Whether the index held the document as it was before, or will as soon as what it has accepted is written.
    pub level: bool,
    /// Whether a worker is putting the document into the index.
    pub busy: bool,
}

impl Library {
    /// Has the indexes write what they have accepted, and waits for the changes under way, before a process ends: the next
    /// one finds everything there and nothing to mend. What an index refuses stays noted.
    pub async fn close(&self) {
        for dataset in self.behind.datasets() {
            let write = async {
                let Some(index) = found(self.index_of(&dataset).await)? else { return Ok(()) };
                // A change of nothing is written with all that waits.
                self.parts.index.write(&index, Vec::new()).await
            };
            if let Err(error) = write.await {
                tracing::warn!(dataset.id = %dataset.id, error = error.detail(), "an index is left as it is");
            }
        }
        self.changed().await;
    }

    /// What a change means that noted itself.
    pub(super) fn of_change(&self, key: &DocumentKey, note: IndexNote) -> Noted {
        let level = note.first || self.behind.is_at(key, note.number - 1);
        Noted { number: note.number, level, busy: note.busy }
    }

    /// What one change means that follows a note.
    pub(super) fn of_next_change(&self, key: &DocumentKey, note: IndexNote) -> Noted {
        Noted { number: note.number + 1, ..self.of_change(key, note) }
    }

    /// Makes one change of what is kept of a document, which is noted before. Under its lock.
    ///
    /// # Errors
    /// What the change fails with: then it is as if it had not been tried.
    pub(super) async fn noted<T>(
        &self,
        key: &DocumentKey,
        change: impl Future<Output = Result<T>>,
    ) -> Result<(T, Noted)> {
        let made = self.noted_if(key, async { change.await.map(Some) }).await?;
        made.ok_or_else(|| Error::internal("a change was not made, and nothing says why"))
    }

    /// The same for a change that may not be made after all, which gives nothing then.
    ///
    /// # Errors
    /// What the change fails with: then, and when it was not made, it is as if it had not been tried.
    pub(super) async fn noted_if<T>(
        &self,
        key: &DocumentKey,
        change: impl Future<Output = Result<Option<T>>>,
    ) -> Result<Option<(T, Noted)>> {
        let note = self.parts.queue.unindexed(key).await?;
        match change.await {
            Ok(Some(done)) => Ok(Some((done, self.of_next_change(key, note)))),
            undone => {
                // Should it have been made all the same, the number says so.
                if note.first {
                    self.parts.queue.indexed(key, note.number).await?;
                }
                undone.map(|_| None)
            }
        }
    }

    /// Brings the index to a document after one change of what is kept of it: by what is to be changed there
    /// when the two were the same before, and otherwise by all of it. Under its lock.
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

    /// The same, where the index need not have written it when this returns: every question from here on finds it.
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

    /// The same, when the index has accepted everything. Under the lock of the document.
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
        // Known before the lock is given back, so that the next change finds it.
        self.behind.set(key, noted.number);
        let (library, key) = (self.clone(), key.clone());
        let follow = async move { library.when_kept(&key, noted, kept.await.map(drop)).await };
        self.changes.spawn(follow.in_current_span());
        Ok(())
    }

    async fn when_kept(&self, key: &DocumentKey, noted: Noted, kept: Result<()>) {
        let _lock = self.lock(key).await;
        let done = match kept {
            // What has come after it says so when it is kept, too.
            Ok(()) if !self.behind.is_at(key, noted.number) => Ok(()),
            Ok(()) => self.followed(key, noted).await,
            Err(error) => {
                tracing::warn!(document.id = %key.id, error = error.detail(), "an index did not take a change");
                // Before anything else can fail: what is about to be written is nothing that others would mend.
                self.behind.forget(key);
                self.sync(key).await
            }
        };
        match done {
            Err(error) if error.kind != ErrorKind::NotFound => {
                // It stays noted, and is mended.
                tracing::warn!(document.id = %key.id, error = error.detail(), "an index is left as it is");
            }
            _ => {}
        }
    }

    /// Takes the note away that the index may differ, when it was brought to a document. Under its lock.
    pub(super) async fn followed(&self, key: &DocumentKey, noted: Noted) -> Result<()> {
        self.behind.forget(key);
        self.document_changed(key);
        // Whoever is putting all of it there sees that it has changed.
        if noted.busy || self.parts.queue.indexed(key, noted.number).await? {
            return Ok(());
        }
        self.sync(key).await
    }
}
