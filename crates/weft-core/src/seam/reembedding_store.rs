//! Re-embedding of a whole dataset with another model. New vectors are built beside the current ones until all are
//! complete.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use weft_macros::async_trait;

use crate::error::Result;
use crate::id::{ChunkId, DatasetKey, DocumentId, DocumentKey};

/// The state of a re-embedding task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReembeddingState {
    /// It waits for a worker, or a worker is processing it.
    Running,
    /// The dataset is now searched by the new vectors.
    Done,
    /// It failed; the dataset is still searched by its previous vectors.
    Failed,
    /// It was cancelled; the dataset is still searched by its previous vectors.
    Cancelled,
}

/// The latest re-embedding task of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct Reembedding {
    /// The dataset.
    pub dataset: DatasetKey,
    /// The model, by its [`Embedder::name`](super::Embedder::name). Empty: the dataset will have no vectors.
    pub embedder: String,
    /// Its state.
    pub state: ReembeddingState,
    /// Overall progress, 0 to 1.
    pub progress: f64,
    /// The current activity, or why it failed; for people.
    pub message: String,
    /// When it was requested, in milliseconds since 1970.
    pub begun_ms: i64,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: Option<i64>,
}

/// A worker's lease on a re-embedding task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReembeddingLease {
    /// The dataset.
    pub dataset: DatasetKey,
    /// The fencing token, which grows each time the task is taken or cancelled. A worker with an older one has lost
    /// the lease.
    pub fence: i64,
}

/// A re-embedding task that a worker has taken.
#[derive(Clone, Debug, PartialEq)]
pub struct TakenReembedding {
    /// The lease.
    pub lease: ReembeddingLease,
    /// The task. If it is not running, it has left data to clean up.
    pub task: Reembedding,
    /// Number of times a worker has started on it since progress was last stored.
    pub attempts: u32,
    /// Whether the location of the next generation may contain data that does not belong to this task.
    pub is_littered: bool,
}

/// The progress of a re-embedding task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReembeddingProgress {
    /// Overall progress, 0 to 1.
    pub share: f64,
    /// The current activity, for people.
    pub message: String,
}

/// A document, with the number of the last change to what is found of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedDocument {
    /// The id of the document.
    pub id: DocumentId,
    /// See [`IndexNote::number`](super::ingest_queue::IndexNote::number).
    pub number: i64,
}

/// The outcome of the work on a re-embedding task, unless it reached the switch.
#[derive(Clone, Debug, PartialEq)]
pub enum ReembeddingOutcome {
    /// It cannot be done.
    Failed {
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
    /// Its worker releases it without having failed.
    Released {
        /// From when any worker may take it, in milliseconds since 1970.
        from_ms: i64,
    },
    /// The data it left has been cleaned up.
    Cleared,
}

/// Stores re-embedding tasks. Implemented by the same store as [`DatasetStore`](super::DatasetStore).
///
/// The new vectors are *staged* beside the current ones. A document counts as staged once all its chunks are, in the
/// state identified by its number; any change to what is found of it makes it unstaged again. Callers supply the
/// time.
#[async_trait]
pub trait ReembeddingStore: Send + Sync {
    /// Requests that a dataset be re-embedded with this model, replacing its previous task.
    ///
    /// # Errors
    /// `NotFound` without the dataset; `Conflict` while another task is running.
    async fn begin(&self, dataset: &DatasetKey, embedder: &str, now_ms: i64) -> Result<()>;

    /// Returns the latest task of a dataset.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn last(&self, dataset: &DatasetKey) -> Result<Option<Reembedding>>;

    /// Cancels the task of a dataset. No worker holds its lease any more.
    ///
    /// # Errors
    /// `Conflict` when none is running.
    async fn cancel(&self, dataset: &DatasetKey, now_ms: i64) -> Result<()>;

    /// Takes a task of any tenant, or one that has left data to clean up, with a lease until `until_ms`: a task that
    /// no worker has, or whose lease has expired. Of several concurrent callers, only one gets a task.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn take(&self, now_ms: i64, until_ms: i64) -> Result<Option<TakenReembedding>>;

    /// Reports progress and extends the lease.
    ///
    /// # Errors
    /// `Conflict` when another worker has taken it, or it was cancelled.
    async fn report(
        &self,
        lease: &ReembeddingLease,
        progress: &ReembeddingProgress,
        until_ms: i64,
    ) -> Result<()>;

    /// Returns documents after the given one, in the order of their ids, whose current state is not staged.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn unstaged(
        &self,
        dataset: &DatasetKey,
        after: Option<&DocumentId>,
        limit: u64,
    ) -> Result<Vec<NumberedDocument>>;

    /// Returns the staged vectors of some chunks of a document, as far as they have any.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn staged_vectors(
        &self,
        document: &DocumentKey,
        ids: &[ChunkId],
    ) -> Result<HashMap<ChunkId, Vec<f32>>>;

    /// Stages vectors of chunks of a document, provided that its number is still this one. Returns whether it is.
    /// This counts as progress: the number of attempts is reset.
    ///
    /// # Errors
    /// As [`ReembeddingStore::report`].
    async fn stage(
        &self,
        lease: &ReembeddingLease,
        document: &NumberedDocument,
        vectors: &[(ChunkId, Vec<f32>)],
    ) -> Result<bool>;

    /// Records that documents are staged in the state of their numbers, and that the next index contains them in that
    /// state.
    ///
    /// # Errors
    /// As [`ReembeddingStore::report`].
    async fn staged(&self, lease: &ReembeddingLease, documents: &[NumberedDocument]) -> Result<()>;

    /// Switches the dataset to the next generation and to the task's embedder, provided that all its documents are
    /// staged in their current state, there are `documents` of them, and none is being parsed. Returns whether it
    /// did. The task is then done, and data that is no longer used may be cleaned up from `clear_from_ms` on.
    /// Documents keep their notes, with different numbers; those that wait to be parsed start over.
    ///
    /// # Errors
    /// As [`ReembeddingStore::report`].
    async fn switch(
        &self,
        lease: &ReembeddingLease,
        documents: u64,
        now_ms: i64,
        clear_from_ms: i64,
    ) -> Result<bool>;

    /// Removes all staged vectors, or after the switch those of the previous generation.
    ///
    /// # Errors
    /// As [`ReembeddingStore::report`].
    async fn clear(&self, lease: &ReembeddingLease) -> Result<()>;

    /// Records the outcome of the work, and releases the lease.
    ///
    /// # Errors
    /// As [`ReembeddingStore::report`].
    async fn settle(&self, lease: &ReembeddingLease, outcome: &ReembeddingOutcome, now_ms: i64)
    -> Result<()>;
}
