//! Documents that are to be read by whichever worker is free.

use std::collections::{HashMap, VecDeque};

use async_trait::async_trait;

use crate::error::Result;
use crate::id::{ChunkId, DatasetKey, DocumentId, DocumentKey, TenantId};
use crate::seam::dataset_store::{Document, Extra, IngestStage, StoredChunk};
use crate::value::Json;

/// What waits of one tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantBacklog<T> {
    /// Whose it is.
    pub tenant: TenantId,
    /// Since when, and what; those that have waited longest first.
    pub line: VecDeque<(i64, T)>,
}

/// The documents to take, `count_max` at most: always of the tenant of which the fewest are being read, so that one
/// with thousands does not keep the others waiting, and else what has waited longest. `reading` says how many are.
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

/// A worker's right to read a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestLease {
    /// Which document.
    pub document: DocumentKey,
    /// Grows each time the document is taken. Who comes with an old number has lost it.
    pub fence: i64,
}

/// A document that a worker has taken.
#[derive(Clone, Debug, PartialEq)]
pub struct TakenDocument {
    /// The right to it.
    pub lease: IngestLease,
    /// The document, as it is now.
    pub document: Document,
    /// Where to go on: what the stages before it made is stored.
    pub stage: IngestStage,
    /// How often a worker has begun with it since something was kept of the work.
    pub attempts: u32,
}

/// How far the work on a document has come.
#[derive(Clone, Debug, PartialEq)]
pub struct IngestProgress {
    /// The stage that it is in.
    pub stage: IngestStage,
    /// Of the whole work, 0 to 1.
    pub share: f64,
    /// What is being done, for people.
    pub message: String,
}

/// A picture that is kept beside a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureSize {
    /// What it is called among those of the document.
    pub name: String,
    /// How many bytes it has.
    pub bytes: u64,
}

/// What people want of a document that is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// To go on.
    GoOn,
    /// To stop for a while.
    Pause,
    /// To stop for good.
    Cancel,
}

/// What has become of the work on a document.
#[derive(Clone, Debug, PartialEq)]
pub enum IngestOutcome {
    /// Its new chunks are in the index and take the place of those it had before.
    Done {
        /// What was noticed, for people.
        message: String,
    },
    /// It cannot be read. What it had before stays.
    Failed {
        /// Why, for people.
        reason: String,
    },
    /// It could not be read for now: what keeps it may pass. What it had before stays, and what was made of
    /// it so far is kept, so that it goes on there when it is queued again.
    Abandoned {
        /// Why, for people.
        reason: String,
    },
    /// It is to be tried again.
    RetryAt {
        /// From when on, in milliseconds since 1970.
        from_ms: i64,
        /// Why, for people.
        reason: String,
    },
    /// It was stopped as somebody wanted.
    Stopped,
    /// Its worker goes away; another one may take it at once.
    Released,
}

/// Where documents wait for a worker. Time is what callers say it is: a queue has no clock.
///
/// While a document is being read its new chunks are kept beside those that it had before, which are
/// found until [`IngestOutcome::Done`].
#[async_trait]
pub trait IngestQueue: Send + Sync {
    /// Asks for documents to be read, from the beginning, or from where they were paused or given up. Those that are
    /// waiting or being read already are passed over, unless they are about to pause: then they go on; or were called off
    /// and their worker has not heard of it: then it has lost them, and they begin anew. Which ones were queued.
    ///
    /// # Errors
    /// `NotFound` naming a document that is not there, and then none is queued.
    async fn queue(&self, dataset: &DatasetKey, ids: &[DocumentId], now_ms: i64) -> Result<Vec<DocumentId>>;

    /// Asks for a document that is waiting or being read to be stopped: at once when nobody has it, and
    /// otherwise when its worker hears of it. Cancelling also ends a pause.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when it is neither waiting, being read nor paused; `Invalid` for
    /// [`Wanted::GoOn`].
    async fn stop(&self, document: &DocumentKey, wanted: Wanted, now_ms: i64) -> Result<()>;

    /// Takes at most `count_max` documents of any tenant, in the order of [`in_turns`]: what nobody has, and what a worker has let its time pass with. Of several that try at the same time one
    /// gets it, until `until_ms`.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn take(&self, now_ms: i64, until_ms: i64, count_max: u64) -> Result<Vec<TakenDocument>>;

    /// Says how far the work has come and asks for more time. What people want of it.
    ///
    /// # Errors
    /// `Conflict` when somebody else has taken it, or it is not taken any more.
    async fn report(&self, lease: &IngestLease, progress: &IngestProgress, until_ms: i64) -> Result<Wanted>;

    /// Keeps all new chunks of a document, without their vectors, in place of those of an attempt before,
    /// and goes to `stage`. Those that are not available are parents: they are not counted, and not listed
    /// with the others.
    ///
    /// # Errors
    /// As [`IngestQueue::report`].
    async fn put_new(&self, lease: &IngestLease, chunks: &[StoredChunk], stage: IngestStage) -> Result<()>;

    /// Keeps further new chunks of a document, with their vectors, beside those that are there. They have ids and
    /// places of their own. With this the work goes on: attempts are counted anew.
    ///
    /// # Errors
    /// As [`IngestQueue::report`].
    async fn add_new(&self, lease: &IngestLease, chunks: &[StoredChunk]) -> Result<()>;

    /// New chunks of a document after one of them, by their order, with their vectors.
    ///
    /// # Errors
    /// As [`IngestQueue::report`].
    async fn new_chunks(
        &self,
        lease: &IngestLease,
        after: Option<u64>,
        limit: u64,
    ) -> Result<Vec<StoredChunk>>;

    /// Keeps what was added to new chunks: keywords, questions and vectors. Those that are not there are
    /// passed over. With this the work goes on: attempts are counted anew.
    ///
    /// # Errors
    /// As [`IngestQueue::report`].
    async fn amend_new(&self, lease: &IngestLease, amended: &[Amended]) -> Result<()>;

    /// Keeps what is made of a document beside its new chunks, until it takes the place of what was there
    /// together with them; null: nothing.
    ///
    /// # Errors
    /// As [`IngestQueue::report`].
    async fn put_new_extra(&self, lease: &IngestLease, extra: Extra, value: &Json) -> Result<()>;

    /// Counts pictures that are about to be kept beside a document among the bytes of its tenant, as far as they have room
    /// within `bytes_max` (0: any) beside all documents of the tenant and the pictures that are counted already; one of the
    /// document that is takes no more room. The names of those that may be kept, in their order.
    ///
    /// They count until they go: when the document is done and none of its chunks is shown with them, with the last chunk that
    /// is removed, and when the document is reset or removed.
    ///
    /// # Errors
    /// As [`IngestQueue::report`].
    async fn count_pictures(
        &self,
        lease: &IngestLease,
        pictures: &[PictureSize],
        bytes_max: u64,
    ) -> Result<Vec<String>>;

    /// Notes that the index may differ from what is kept of a document, until [`IngestQueue::indexed`]. To
    /// change what is kept notes it, too, in the same step and with the next number: chunks that are put
    /// there or removed, a document that is changed, reset or done.
    ///
    /// # Errors
    /// `NotFound`.
    async fn unindexed(&self, document: &DocumentKey) -> Result<IndexNote>;

    /// Notes that the index of a dataset may differ from what is kept of any of its documents.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn all_unindexed(&self, dataset: &DatasetKey) -> Result<()>;

    /// Notes that the index holds what is kept of a document, as long as nothing was noted after this
    /// number, and no worker is putting it there. Otherwise it is noted once more that it may differ:
    /// whoever wrote may have written what was old already. Whether it is noted as the same now. One that
    /// is not there is passed over.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn indexed(&self, document: &DocumentKey, number: i64) -> Result<bool>;

    /// Documents of which it is noted that the index may differ, those with the smallest ids first; not
    /// those that a worker is putting there.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn to_index(&self, filter: &NotedFilter) -> Result<Vec<DocumentKey>>;

    /// What the index of a dataset has to hold.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn to_be_found(&self, dataset: &DatasetKey) -> Result<ToBeFound>;

    /// Notes that there may be a file of this name of a document that is about to be added, so that it is not kept for ever
    /// when nobody comes to add that: it is among what was [removed](IngestQueue::removed) from this time on. With the
    /// document the note goes.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn expect_file(&self, document: &DocumentKey, blob: &str, from_ms: i64) -> Result<()>;

    /// At most so many of the documents and datasets that were removed, and are not forgotten. A dataset
    /// comes after its documents. What a worker had is left out until its time has passed.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn removed(&self, now_ms: i64, count_max: u64) -> Result<Vec<Removed>>;

    /// Notes that nothing is left of a document that was removed, or of a dataset with all its documents.
    /// What [`IngestQueue::removed`] leaves out at this time stays.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn forget(&self, dataset: &DatasetKey, document: Option<&DocumentId>, now_ms: i64) -> Result<()>;

    /// Says what has become of the work, and lets go of it.
    ///
    /// # Errors
    /// As [`IngestQueue::report`].
    async fn settle(&self, lease: &IngestLease, settled: &IngestOutcome, now_ms: i64) -> Result<()>;
}

/// A note that the index may differ from what is kept of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexNote {
    /// Which one; each is the number before plus one.
    pub number: i64,
    /// Whether it was noted that they are the same before.
    pub first: bool,
    /// Whether a worker is putting the document into the index.
    pub busy: bool,
}

/// Which noted documents to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotedFilter {
    /// What time it is, in milliseconds since 1970.
    pub now_ms: i64,
    /// Only those of one dataset; absent: of all tenants.
    pub dataset: Option<DatasetKey>,
    /// Only those with a greater id.
    pub after: Option<DocumentId>,
    /// How many at most.
    pub count_max: u64,
}

/// What the index of a dataset has to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToBeFound {
    /// Chunks that are found.
    pub chunks: u64,
    /// Whether the index is behind or ahead, as far as is noted: something of the dataset is unindexed, or a
    /// worker is putting it there.
    pub changing: bool,
}

/// Something that is gone from the store, and may be left in the index and among the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The dataset.
    pub dataset: DatasetKey,
    /// Which document of it; absent: the dataset itself.
    pub document: Option<DocumentId>,
    /// The name of its file; empty without one.
    pub blob: String,
}

/// What is added to a new chunk. What is absent stays as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Amended {
    /// Which one.
    pub id: ChunkId,
    /// Words that it is to be found by.
    pub keywords: Option<Vec<String>>,
    /// Questions that it answers.
    pub questions: Option<Vec<String>>,
    /// Its vector.
    pub vector: Option<Vec<f32>>,
}
