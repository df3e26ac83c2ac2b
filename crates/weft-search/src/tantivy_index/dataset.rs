//! One open dataset: its latest state, and the one writer that produces the next.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tantivy::{Index, Term};
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinSet;
use weft_core::id::{DatasetKey, DocumentId};
use weft_core::seam::index::{IndexChange, WriteConfirmation};
use weft_core::{Error, ErrorKind, Result};

use super::home::{Home, Stamp};
use super::lock::unwritable;
use super::pending::PendingChanges;
use super::schema::{self, EntryFields};
use super::snapshot::{Snapshot, hash};
use super::waiting::{Urgency, WaitingWrite, Waitlist, stopped, told};
use super::writer::{DatasetWriter, IDLE_MAX};
use crate::vectors::row;

/// How long accepted changes may gather before they are written, if no question asks for them earlier.
// Each commit waits for the disk, so changes that follow one another share one.
const BEHIND_MAX: Duration = Duration::from_millis(500);
/// Maximum number of bytes that gather before they are written.
const BEHIND_BYTES_MAX: usize = 16 << 20;

/// What a commit contains.
struct CommitContent {
    before: Arc<Snapshot>,
    /// Documents that were added.
    documents: HashSet<DocumentId>,
    /// Hashes of the ids of added chunks.
    added: HashSet<u64>,
}

/// Whether a state is still the latest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Freshness {
    /// Nothing has been written since.
    Latest,
    /// Another process has written, or parts were merged.
    Changed,
    /// The index was removed, and possibly created again.
    Gone,
}

/// One open dataset.
pub(super) struct IndexedDataset {
    key: DatasetKey,
    home: Home,
    index: Index,
    fields: EntryFields,
    snapshot: RwLock<Arc<Snapshot>>,
    /// The stamp of the index before the snapshot was read. Locked while the next snapshot is read.
    seen: Mutex<Stamp>,
    waiting: Waitlist,
    /// Number of accepted writes that are not committed yet, both waiting and in progress.
    behind: AtomicUsize,
    /// Whether a task is scheduled to write them.
    will_flush: AtomicBool,
    writer: Arc<AsyncMutex<DatasetWriter>>,
    /// Whether this process has removed the index.
    retired: AtomicBool,
    /// Whether a task is scheduled to close the writer, and the tasks themselves.
    will_rest: AtomicBool,
    tasks: Mutex<JoinSet<()>>,
}

impl IndexedDataset {
    /// Opens the index in a folder, or creates it; without a folder everything is in memory.
    pub(super) fn open(key: &DatasetKey, folder: Option<&Path>) -> Result<Self> {
        let failed = |cause: tantivy::TantivyError| {
            Error::internal(format!("cannot open the index of the dataset `{}`", key.id))
                .because(cause)
                .help("if this persists, remove the dataset from the index and rebuild its index")
        };
        let home = Home::new(folder);
        home.begin()?;
        // Taken before the index is opened: what is written in between is seen as a change.
        let seen = home.stamp().ok_or_else(|| gone(key))?;
        let before = Snapshot::default();
        let opened = home.open().and_then(|index| Ok((before.next_parts(&index)?, index)));
        // Another process may have removed it since it was created.
        let is_there = || home.stamp().is_some_and(|now| now.same_folder(&seen));
        let (parts, index) = opened.map_err(|cause| if is_there() { failed(cause) } else { gone(key) })?;
        let fields = schema::schema().1;
        let snapshot = before.next(parts, fields);
        let snapshot = snapshot.map_err(|error| if is_there() { error } else { gone(key) })?;
        Ok(Self {
            key: key.clone(),
            home,
            index,
            fields,
            snapshot: RwLock::new(Arc::new(snapshot)),
            seen: Mutex::new(seen),
            waiting: Waitlist::default(),
            behind: AtomicUsize::new(0),
            will_flush: AtomicBool::new(false),
            writer: Arc::default(),
            retired: AtomicBool::new(false),
            will_rest: AtomicBool::new(false),
            tasks: Mutex::default(),
        })
    }

    /// Returns the latest state.
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the fields of its entries.
    pub(super) fn fields(&self) -> EntryFields {
        self.fields
    }

    /// Whether the latest state is current. While another thread reads the next state, this one counts as the latest.
    pub(super) fn freshness(&self) -> Freshness {
        self.seen.try_lock().map_or(Freshness::Latest, |seen| self.since(&seen))
    }

    /// Returns what has happened since the index had this stamp.
    fn since(&self, seen: &Stamp) -> Freshness {
        if self.retired.load(Ordering::Acquire) {
            return Freshness::Gone;
        }
        match self.home.stamp() {
            None => Freshness::Gone,
            Some(now) if !now.same_folder(seen) => Freshness::Gone,
            Some(now) if now == *seen => Freshness::Latest,
            Some(_) => Freshness::Changed,
        }
    }

    /// Waits for the write in progress and accepts no further one. Blocks.
    pub(super) fn retire(&self) {
        let mut writer = self.writer.blocking_lock();
        self.retired.store(true, Ordering::Release);
        writer.abandon();
    }

    /// Reads what was written last, by whichever process.
    pub(super) fn refresh(&self) -> Result<()> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken before reading: changes in between are seen the next time.
        let now = self.home.stamp().ok_or_else(|| gone(&self.key))?;
        let before = self.snapshot();
        let parts = before.next_parts(&self.index).map_err(unwritable)?;
        let next = before.next(parts, self.fields)?;
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        // Only after the new state is in place: if reading fails, it is read again the next time.
        *seen = now;
        Ok(())
    }

    /// Closes the writer once it has been idle for a while.
    fn rest_later(self: &Arc<Self>) {
        if self.will_rest.swap(true, Ordering::Relaxed) {
            return;
        }
        // A weak reference: waiting here must not keep an unneeded dataset open.
        let dataset = Arc::downgrade(self);
        self.spawn(async move {
            loop {
                tokio::time::sleep(IDLE_MAX).await;
                let Some(dataset) = dataset.upgrade() else { return };
                // It is being used, so it is not idle.
                let Ok(mut writer) = Arc::clone(&dataset.writer).try_lock_owned() else { continue };
                // Accepted changes will need it soon.
                if writer.is_idle() && !dataset.is_behind() {
                    // Under the lock: the next write schedules this task again.
                    dataset.will_rest.store(false, Ordering::Relaxed);
                    // On a thread that may block, because closing waits for merges.
                    let closed = tokio::task::spawn_blocking(move || writer.close()).await;
                    if let Ok(Err(error)) = closed {
                        tracing::warn!(dataset = %dataset.key.id, error = %error.detail(), "parts of an index were not merged");
                    }
                    return;
                }
            }
        });
    }

    /// Applies changes together with those of concurrent callers: whatever arrives during one commit is
    /// written by the next, all of it together.
    pub(super) async fn write(self: &Arc<Self>, changes: Vec<IndexChange>) -> Result<()> {
        // Added before waiting for the lock: whichever task gets it next writes these changes as well.
        let (told, _) = self.waiting.add(changes, Urgency::Now);
        self.flush().await?;
        told.await.map_err(stopped)?
    }

    /// Accepts changes that are written together with those that follow soon, and at the latest for the next
    /// question. If much is waiting, it is written first.
    pub(super) async fn write_behind(
        self: &Arc<Self>,
        changes: Vec<IndexChange>,
    ) -> Result<WriteConfirmation> {
        // Changes that may be refused are applied while the caller still waits for the outcome.
        if !self.is_plain(&changes) {
            self.write(changes).await?;
            return Ok(Box::pin(std::future::ready(Ok(()))));
        }
        // Counted before it is queued, so that no question in between assumes that everything is committed.
        self.behind.fetch_add(1, Ordering::AcqRel);
        let (told, waiting) = self.waiting.add(changes, Urgency::Behind);
        self.flush_later();
        // Callers that bring more than the disk can take wait here, which bounds the queue.
        if waiting >= BEHIND_BYTES_MAX {
            self.flush().await?;
        }
        Ok(Box::pin(async move { told.await.map_err(stopped)? }))
    }

    /// Whether there are accepted changes that are not committed yet.
    pub(super) fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Acquire) > 0
    }

    /// Whether the vectors of added chunks match the existing ones.
    fn is_plain(&self, changes: &[IndexChange]) -> bool {
        let size = self.snapshot().size;
        let fits = |vector: &Vec<f32>| {
            (size.vectors == 0 || vector.len() == size.dimension) && row(vector).is_some()
        };
        changes.iter().all(|change| match change {
            IndexChange::Chunks(_, chunks) => {
                chunks.iter().all(|(_, chunk)| chunk.vector.as_ref().is_none_or(fits))
            }
            _ => true,
        })
    }

    /// Applies all waiting changes, after those in progress.
    async fn flush(self: &Arc<Self>) -> Result<()> {
        let mut writer = Arc::clone(&self.writer).lock_owned().await;
        let all = self.waiting.take();
        if !all.is_empty() {
            let dataset = Arc::clone(self);
            // The work continues even if its caller stops waiting, so that nothing is left half done.
            let work = tokio::task::spawn_blocking(move || {
                dataset.write_all(&mut writer, all);
                dataset.rest_later();
            });
            work.await.map_err(stopped)?;
        }
        Ok(())
    }

    /// Like `flush`, for a thread that may block.
    pub(super) fn flush_blocking(self: &Arc<Self>) {
        let mut writer = self.writer.blocking_lock();
        let all = self.waiting.take();
        if !all.is_empty() {
            self.write_all(&mut writer, all);
            self.rest_later();
        }
    }

    /// Schedules a flush after a delay in which further changes can gather.
    fn flush_later(self: &Arc<Self>) {
        if self.will_flush.swap(true, Ordering::AcqRel) {
            return;
        }
        // A strong reference, so that accepted changes are written even if the dataset is no longer needed.
        let dataset = Arc::clone(self);
        self.spawn(async move {
            tokio::time::sleep(BEHIND_MAX).await;
            dataset.will_flush.store(false, Ordering::Release);
            if let Err(error) = dataset.flush().await {
                tracing::warn!(dataset = %dataset.key.id, error = %error.detail(), "an index was not written");
            }
        });
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // Completed tasks are removed, or the set would grow with every write.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    fn write_all(&self, writer: &mut DatasetWriter, all: Vec<WaitingWrite>) {
        let behind = all.iter().filter(|waiting| waiting.urgency == Urgency::Behind).count();
        match self.begin_turn(writer) {
            Ok(()) => self.write_accepted(writer, self.accepted(all)),
            Err(error) => told(all.into_iter().map(|waiting| waiting.done), &Err(error)),
        }
        // After the commit: a question that comes earlier waits for the writer and misses nothing.
        self.behind.fetch_sub(behind, Ordering::AcqRel);
    }

    /// Returns the writes that may be applied; the others are answered with an error.
    fn accepted(&self, all: Vec<WaitingWrite>) -> Vec<WaitingWrite> {
        let before = self.snapshot();
        let mut pending = PendingChanges::new(&self.key.id, &before);
        let mut accepted: Vec<WaitingWrite> = Vec::new();
        for waiting in all {
            // A caller that has gone away before its write began gets nothing written.
            if waiting.urgency == Urgency::Now && waiting.done.is_closed() {
                continue;
            }
            let earlier = accepted.iter().map(|waiting| waiting.changes.as_slice());
            match pending.accept(&waiting.changes, earlier) {
                Err(refused) => drop(waiting.done.send(Err(refused))),
                Ok(()) => accepted.push(waiting),
            }
        }
        accepted
    }

    fn write_accepted(&self, writer: &mut DatasetWriter, accepted: Vec<WaitingWrite>) {
        if accepted.is_empty() {
            return;
        }
        let before = self.snapshot();
        let mut gathered = CommitContent { before, documents: HashSet::new(), added: HashSet::new() };
        let mut done = Vec::with_capacity(accepted.len());
        let mut made = Ok(());
        for waiting in accepted {
            done.push(waiting.done);
            // After a failure nothing more is applied: a commit contains all changes or none.
            if made.is_ok() {
                let mut changes = waiting.changes.into_iter();
                made = changes.try_for_each(|change| self.change(writer, &mut gathered, change));
            }
        }
        let outcome = made.and_then(|()| self.commit(writer));
        if outcome.is_err() {
            // What the writer has gathered must not become part of the next commit.
            writer.abandon();
        }
        told(done, &outcome);
    }

    fn change(
        &self,
        writer: &mut DatasetWriter,
        gathered: &mut CommitContent,
        change: IndexChange,
    ) -> Result<()> {
        let CommitContent { before, documents, added } = gathered;
        let fields = self.fields;
        let writer = writer.get(&self.home)?;
        let remove = |field, id: &str| {
            writer.delete_term(Term::from_field_text(field, id));
        };
        match change {
            IndexChange::Document(document) => {
                let known = before.documents.number(document.id.as_str()).is_some();
                // A deletion is searched for in every part, so none is requested where nothing can exist.
                if !documents.insert(document.id.clone()) || known {
                    remove(fields.entry, document.id.as_str());
                }
                writer.add_document(schema::document_entry(fields, &document)?).map_err(unwritable)?;
            }
            IndexChange::Chunks(document, chunks) => {
                for (id, chunk) in chunks {
                    let hash = hash(id.as_str());
                    // By hashes: a collision of two ids only costs an unnecessary deletion.
                    if !added.insert(hash) || before.may_hold(hash) {
                        remove(fields.chunk, id.as_str());
                    }
                    let vector = chunk.vector.as_deref().and_then(row);
                    let entry = schema::chunk_entry(fields, &document, &id, &chunk, vector.as_ref());
                    writer.add_document(entry).map_err(unwritable)?;
                }
            }
            IndexChange::RemoveChunks(ids) => ids.iter().for_each(|id| remove(fields.chunk, id.as_str())),
            IndexChange::Clear(document) => remove(fields.document, document.as_str()),
            IndexChange::RemoveDocument(document) => {
                remove(fields.document, document.as_str());
                remove(fields.entry, document.as_str());
            }
        }
        Ok(())
    }

    /// Opens the writer, and picks up what others wrote before it was opened.
    fn begin_turn(&self, writer: &mut DatasetWriter) -> Result<()> {
        if self.retired.load(Ordering::Acquire) {
            return Err(gone(&self.key));
        }
        // While this process has the writer, no other process writes.
        if writer.is_open() {
            return Ok(());
        }
        // No early return: that the index is gone says more than why its writer did not open.
        let opened = writer.get(&self.home).map(drop);
        // Waits for a thread that is reading the next state: what is written from here on builds on the latest.
        let freshness = self.since(&self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        match freshness {
            Freshness::Latest => opened,
            Freshness::Changed => opened.and_then(|()| self.refresh()),
            Freshness::Gone => {
                writer.abandon();
                Err(gone(&self.key))
            }
        }
    }

    fn commit(&self, writer: &mut DatasetWriter) -> Result<()> {
        writer.get(&self.home)?.commit().map_err(unwritable)?;
        // Before the callers are answered: their next question finds what they have written.
        self.refresh()?;
        writer.end_turn()
    }
}

fn gone(key: &DatasetKey) -> Error {
    let message = format!("the index of the dataset `{}` was removed in the meantime", key.id);
    Error::new(ErrorKind::Unavailable, message).help("try again")
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use weft_core::id::{ChunkId, TenantId};
    use weft_core::seam::index::{IndexedChunk, IndexedDocument};

    use super::*;

    fn write_of(text: &str) -> Vec<IndexChange> {
        let id = DocumentId::new("d");
        let document = IndexedDocument {
            id: id.clone(),
            name: String::new(),
            metadata: Default::default(),
            available: true,
        };
        let chunk = IndexedChunk { content: text.to_owned(), ..IndexedChunk::default() };
        vec![IndexChange::Document(document), IndexChange::Chunks(id, vec![(ChunkId::new("c"), chunk)])]
    }

    /// A reader loads what another process has written while a write starts: the write builds on it
    /// nevertheless.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_write_waits_for_the_latest_state() {
        let folder = tempfile::tempdir().unwrap();
        let key = DatasetKey::new(&TenantId::new("t"), "k");
        let open = || Arc::new(IndexedDataset::open(&key, Some(folder.path())).unwrap());
        let (one, other) = (open(), open());
        one.write(write_of("old")).await.unwrap();
        let reading = Arc::clone(&other);
        let (held, is_held) = oneshot::channel();
        let reader = std::thread::spawn(move || {
            let seen = reading.seen.lock().unwrap();
            held.send(()).unwrap();
            std::thread::sleep(IDLE_MAX * 4);
            drop(seen);
        });
        is_held.await.unwrap();
        other.write(write_of("new")).await.unwrap();
        reader.join().unwrap();
        let size = other.snapshot().size;
        assert_eq!((size.documents, size.chunks), (1, 1), "the old files were replaced");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_removed_index_takes_no_writes() {
        let key = DatasetKey::new(&TenantId::new("t"), "k");
        let dataset = Arc::new(IndexedDataset::open(&key, None).unwrap());
        dataset.write(write_of("old")).await.unwrap();
        let retired = Arc::clone(&dataset);
        tokio::task::spawn_blocking(move || retired.retire()).await.unwrap();
        assert!(dataset.write(write_of("new")).await.unwrap_err().kind.is_passing());
    }
}
