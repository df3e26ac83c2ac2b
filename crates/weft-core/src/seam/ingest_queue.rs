//! A queue of documents to be parsed by the next free worker.

use std::collections::{HashMap, VecDeque};

use weft_macros::async_trait;

use crate::error::Result;
use crate::id::{ChunkId, DatasetKey, DocumentId, DocumentKey, TenantId};
use crate::seam::dataset_store::{Document, Extra, IngestStage, StoredChunk};
use crate::value::Json;

/// The waiting items of one tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantBacklog<T> {
    /// The tenant.
    pub tenant: TenantId,
    /// The items with the time since which they wait, longest first.
    pub line: VecDeque<(i64, T)>,
}

/// Selects up to `count_max` documents to take. Each time, picks the tenant with the fewest documents being parsed,
/// so that one with thousands does not hold up the others; among equals, the document that has waited longest.
/// `reading` contains the number being parsed per tenant.
pub fn in_turns<T>(
    mut waiting: Vec<TenantBacklog<T>>,
    mut reading: HashMap<TenantId, u64>,
    count_max: usize,
) -> Vec<T> {
    let mut taken = Vec::new();
    while taken.len() < count_max {
        let next = waiting.iter_mut().filter(|one| !one.line.is_empty());
        let of = |one: &TenantBacklog<T>| reading.get(&one.tenant).copied().unwrap_or_default();
        let Some(next) = next.min_by_key(|one| (of(one), one.line.front().map(|(since, _)| *since))) else {
            break;
        };
        let Some((_, document)) = next.line.pop_front() else { break };
        *reading.entry(next.tenant.clone()).or_default() += 1;
        taken.push(document);
    }
    taken
}

/// A worker's lease on a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestLease {
    /// The document.
    pub document: DocumentKey,
    /// The fencing token, which grows each time the document is taken. A worker with an older one has lost the lease.
    pub fence: i64,
}

/// A document that a worker has taken.
#[derive(Clone, Debug, PartialEq)]
pub struct TakenDocument {
    /// The lease.
    pub lease: IngestLease,
    /// The document in its current state.
    pub document: Document,
    /// The stage to resume at; the results of the earlier stages are stored.
    pub stage: IngestStage,
    /// Number of times a worker has started on it since progress was last stored.
    pub attempts: u32,
}

/// The progress of the work on a document.
#[derive(Clone, Debug, PartialEq)]
pub struct IngestProgress {
    /// The current stage.
    pub stage: IngestStage,
    /// Overall progress, 0 to 1.
    pub share: f64,
    /// The current activity, for people.
    pub message: String,
}

/// A picture stored with a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureSize {
    /// Its name among the pictures of the document.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// What people request for a document that is being processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// To continue.
    GoOn,
    /// To pause.
    Pause,
    /// To cancel.
    Cancel,
}

/// The outcome of the work on a document.
#[derive(Clone, Debug, PartialEq)]
pub enum IngestOutcome {
    /// Its new chunks are in the index and replace the previous ones.
    Done {
        /// Notices for people.
        message: String,
    },
    /// It cannot be parsed. The previous chunks stay.
    Failed {
        /// The reason, for people.
        reason: String,
    },
    /// It could not be parsed for now, for a reason that may pass. The previous chunks stay, and the results so far
    /// are kept, so that it resumes there when it is queued again.
    Abandoned {
        /// The reason, for people.
        reason: String,
    },
    /// It is to be retried.
    RetryAt {
        /// The earliest time, in milliseconds since 1970.
        from_ms: i64,
        /// The reason, for people.
        reason: String,
    },
    /// It was stopped on request.
    Stopped,
    /// Its worker is shutting down; another one may take it immediately.
    Released,
}

/// A queue in which documents wait for a worker. Callers supply the time: a queue has no clock.
///
/// While a document is being processed, its new chunks are stored beside the previous ones, which remain searchable
/// until [`IngestOutcome::Done`].
#[async_trait]
pub trait IngestQueue: Send + Sync {
    /// Queues documents for parsing, from the beginning or from where they were paused or abandoned. Documents that
    /// are already waiting or being parsed are skipped, with two exceptions. One that is about to pause continues.
    /// One that has been cancelled without its worker having noticed starts over, and that worker loses its lease.
    /// Returns which ones were queued.
    ///
    /// # Errors
    /// `NotFound` naming a document that does not exist; then none is queued.
    async fn queue(&self, dataset: &DatasetKey, ids: &[DocumentId], now_ms: i64) -> Result<Vec<DocumentId>>;

    /// Requests that a document which is waiting or being parsed be stopped: immediately if no worker has it,
    /// otherwise when its worker notices. Cancelling also ends a pause.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when it is neither waiting, being parsed nor paused; `Invalid` for [`Wanted::GoOn`].
    async fn stop(&self, document: &DocumentKey, wanted: Wanted, now_ms: i64) -> Result<()>;

    /// Takes up to `count_max` documents of any tenant, selected as by [`in_turns`], with a lease until `until_ms`:
    /// documents that no worker has, or whose lease has expired. Of several concurrent callers, only one gets a
    /// document.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn take(&self, now_ms: i64, until_ms: i64, count_max: u64) -> Result<Vec<TakenDocument>>;

    /// Reports progress and extends the lease. Returns what people request.
    ///
    /// # Errors
    /// `Conflict` when another worker has taken it, or it is no longer taken.
    async fn report(&self, lease: &IngestLease, progress: &IngestProgress, until_ms: i64) -> Result<Wanted>;

    /// Stores all new chunks of a document, without their vectors, replacing those of an earlier attempt, and moves
    /// to `stage`. Chunks that are not available are parents: they are neither counted nor listed with the others.
    ///
    /// # Errors
    /// As [`IngestQueue::report`].
    async fn put_new(&self, lease: &IngestLease, chunks: &[StoredChunk], stage: IngestStage) -> Result<()>;

    /// Stores additional new chunks of a document, with their vectors. They have their own ids and positions. This
    /// counts as progress: the number of attempts is reset.
    ///
    /// # Errors
    /// As [`IngestQueue::report`].
    async fn add_new(&self, lease: &IngestLease, chunks: &[StoredChunk]) -> Result<()>;

    /// Returns new chunks of a document after the given one, in order, with their vectors.
    ///
    /// # Errors
    /// As [`IngestQueue::report`].
    async fn new_chunks(
        &self,
        lease: &IngestLease,
        after: Option<u64>,
        limit: u64,
    ) -> Result<Vec<StoredChunk>>;

    /// Stores additions to new chunks: keywords, questions and vectors. Missing chunks are ignored. This counts as
    /// progress: the number of attempts is reset.
    ///
    /// # Errors
    /// As [`IngestQueue::report`].
    async fn amend_new(&self, lease: &IngestLease, amended: &[Amended]) -> Result<()>;

    /// Stores data derived from a document beside its new chunks, until it replaces the previous data together with
    /// them; null removes it.
    ///
    /// # Errors
    /// As [`IngestQueue::report`].
    async fn put_new_extra(&self, lease: &IngestLease, extra: Extra, value: &Json) -> Result<()>;

    /// Counts pictures that are about to be stored with a document towards the storage of its tenant, as far as they
    /// fit within `bytes_max` (0: unlimited) together with all documents of the tenant and the pictures already
    /// counted. A picture of the document that is already counted takes no more room. Returns the names of those that
    /// may be stored, in order.
    ///
    /// They count until they are removed: when the document is done and none of its chunks is shown with them, with
    /// the last such chunk that is removed, and when the document is reset or removed.
    ///
    /// # Errors
    /// As [`IngestQueue::report`].
    async fn count_pictures(
        &self,
        lease: &IngestLease,
        pictures: &[PictureSize],
        bytes_max: u64,
    ) -> Result<Vec<String>>;

    /// Records that the index may differ from what is stored of a document, until [`IngestQueue::indexed`]. Changing
    /// what is stored records this too, in the same step and with the next number: adding or removing chunks, and
    /// changing, resetting or completing a document.
    ///
    /// # Errors
    /// `NotFound`.
    async fn unindexed(&self, document: &DocumentKey) -> Result<IndexNote>;

    /// Records that the index of a dataset may differ from what is stored of any of its documents.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn all_unindexed(&self, dataset: &DatasetKey) -> Result<()>;

    /// Records that the index matches what is stored of a document, provided that nothing was recorded after this
    /// number and no worker is indexing the document. Otherwise it is recorded again that they may differ, because
    /// the caller may have written outdated data. Returns whether they are now recorded as matching. A missing
    /// document is ignored.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn indexed(&self, document: &DocumentKey, number: i64) -> Result<bool>;

    /// Returns documents whose index may differ, those with the smallest ids first, excluding those that a worker is
    /// indexing.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn to_index(&self, filter: &NotedFilter) -> Result<Vec<DocumentKey>>;

    /// Returns what the index of a dataset should contain.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn to_be_found(&self, dataset: &DatasetKey) -> Result<ToBeFound>;

    /// Records that a file with this name may exist for a document that is about to be added, so that the file does
    /// not stay forever if the document is never added: from `from_ms` on, it is among those
    /// [removed](IngestQueue::removed). Adding the document removes the record.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn expect_file(&self, document: &DocumentKey, blob: &str, from_ms: i64) -> Result<()>;

    /// Returns up to `count_max` documents and datasets that were removed and not yet forgotten. A dataset comes
    /// after its documents. Documents that a worker had are left out until its lease has expired.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn removed(&self, now_ms: i64, count_max: u64) -> Result<Vec<Removed>>;

    /// Records that nothing is left of a removed document, or of a dataset with all its documents. What
    /// [`IngestQueue::removed`] leaves out at this time stays.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn forget(&self, dataset: &DatasetKey, document: Option<&DocumentId>, now_ms: i64) -> Result<()>;

    /// Records the outcome of the work, and releases the lease.
    ///
    /// # Errors
    /// As [`IngestQueue::report`].
    async fn settle(&self, lease: &IngestLease, settled: &IngestOutcome, now_ms: i64) -> Result<()>;
}

/// A note that the index may differ from what is stored of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexNote {
    /// Its number, one more than that of the note before.
    pub number: i64,
    /// Whether they were recorded as matching before.
    pub first: bool,
    /// Whether a worker is indexing the document.
    pub busy: bool,
}

/// Which documents with a note to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotedFilter {
    /// The current time, in milliseconds since 1970.
    pub now_ms: i64,
    /// Only those of one dataset; absent means all tenants.
    pub dataset: Option<DatasetKey>,
    /// Only those with a greater id.
    pub after: Option<DocumentId>,
    /// Maximum number to return.
    pub count_max: u64,
}

/// What the index of a dataset should contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToBeFound {
    /// Number of searchable chunks.
    pub chunks: u64,
    /// Whether the index is known to differ: a document of the dataset has a note, or a worker is indexing it.
    pub changing: bool,
}

/// Something that was removed from the store, and of which the index and the file storage may still contain parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The dataset.
    pub dataset: DatasetKey,
    /// The document; absent means the dataset itself.
    pub document: Option<DocumentId>,
    /// The name of its file; empty if it has none.
    pub blob: String,
}

/// Additions to a new chunk. Absent values stay as they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Amended {
    /// The id of the chunk.
    pub id: ChunkId,
    /// Keywords to find it by.
    pub keywords: Option<Vec<String>>,
    /// Questions that it answers.
    pub questions: Option<Vec<String>>,
    /// Its vector.
    pub vector: Option<Vec<f32>>,
}
