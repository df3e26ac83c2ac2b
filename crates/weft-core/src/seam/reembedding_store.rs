//! Vectors of a whole dataset that another model makes, beside those that it is searched by until all are there.

use std::collections::HashMap;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::id::{ChunkId, DatasetKey, DocumentId, DocumentKey};

/// How such a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReembeddingState {
    /// It waits for a worker, or one is at it.
    Running,
    /// The dataset is searched by the new vectors.
    Done,
    /// It could not be done; the dataset is searched by what it had.
    Failed,
    /// Somebody has called it off; the dataset is searched by what it had.
    Cancelled,
}

/// The last of these tasks of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct Reembedding {
    /// Of which dataset.
    pub dataset: DatasetKey,
    /// The model, as [`Embedder::name`](super::Embedder::name) says it; empty: the dataset is to be without vectors.
    pub embedder: String,
    /// How it stands.
    pub state: ReembeddingState,
    /// Of the whole work, 0 to 1.
    pub progress: f64,
    /// What is being done, or why it failed; for people.
    pub message: String,
    /// When it was asked for, in milliseconds since 1970.
    pub begun_ms: i64,
    /// When it came to its end, in milliseconds since 1970.
    pub ended_ms: Option<i64>,
}

/// A worker's right to such a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReembeddingLease {
    /// Of which dataset.
    pub dataset: DatasetKey,
    /// Grows each time the task is taken or called off. Who comes with an old number has lost it.
    pub fence: i64,
}

/// A task that a worker has taken.
#[derive(Clone, Debug, PartialEq)]
pub struct TakenReembedding {
    /// The right to it.
    pub lease: ReembeddingLease,
    /// The task. One that is not running has left something that is to be cleared away.
    pub task: Reembedding,
    /// How often a worker has begun with it since something was kept of the work.
    pub attempts: u32,
    /// Whether the place of the next generation may hold something that is not of this task.
    pub is_littered: bool,
}

/// How far it has come.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReembeddingProgress {
    /// Of the whole work, 0 to 1.
    pub share: f64,
    /// What is being done, for people.
    pub message: String,
}

/// A document, and the number of the last change of what is found of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedDocument {
    /// Which one.
    pub id: DocumentId,
    /// See [`IndexNote::number`](super::ingest_queue::IndexNote::number).
    pub number: i64,
}

/// What has become of the work on such a task, unless it came to the switch.
#[derive(Clone, Debug, PartialEq)]
pub enum ReembeddingOutcome {
    /// It cannot be done.
    Failed {
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
    /// Its worker lets go of it without having failed.
    Released {
        /// From when on anybody may take it, in milliseconds since 1970.
        from_ms: i64,
    },
    /// What it left is cleared away.
    Cleared,
}

/// Tasks that make all vectors of a dataset anew. Another face of a [`DatasetStore`](super::DatasetStore).
///
/// The new vectors are *staged* beside those that are found. A document is staged when all its chunks are, in the state that
/// a number names; any change of what is found of it takes that back. Time is what callers say it is.
#[async_trait]
pub trait ReembeddingStore: Send + Sync {
    /// Asks for a dataset to get its vectors from this model, in place of the task that it had before.
    ///
    /// # Errors
    /// `NotFound` without the dataset; `Conflict` while another one runs.
    async fn begin(&self, dataset: &DatasetKey, embedder: &str, now_ms: i64) -> Result<()>;

    /// The last task of a dataset.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn last(&self, dataset: &DatasetKey) -> Result<Option<Reembedding>>;

    /// Calls the task of a dataset off: nobody has a right to it any more.
    ///
    /// # Errors
    /// `Conflict` when none runs.
    async fn cancel(&self, dataset: &DatasetKey, now_ms: i64) -> Result<()>;

    /// Takes a task of any tenant that nobody has or a worker has let its time pass with, and what is to be cleared away.
    /// Of several that try at the same time one gets it, until `until_ms`.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn take(&self, now_ms: i64, until_ms: i64) -> Result<Option<TakenReembedding>>;

    /// Says how far the work has come and asks for more time.
    ///
    /// # Errors
    /// `Conflict` when somebody else has taken it, or it was called off.
    async fn report(
        &self,
        lease: &ReembeddingLease,
        progress: &ReembeddingProgress,
        until_ms: i64,
    ) -> Result<()>;

    /// Documents that are not staged as they are, in the order of their ids, after one of them.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn unstaged(
        &self,
        dataset: &DatasetKey,
        after: Option<&DocumentId>,
        limit: u64,
    ) -> Result<Vec<NumberedDocument>>;

    /// The staged vectors of some chunks of a document, as far as they have any.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn staged_vectors(
        &self,
        document: &DocumentKey,
        ids: &[ChunkId],
    ) -> Result<HashMap<ChunkId, Vec<f32>>>;

    /// Stages vectors of chunks of a document, as long as its number is this one. Whether it is. With this the work goes on:
    /// attempts are counted anew.
    ///
    /// # Errors
    /// As [`ReembeddingStore::report`].
    async fn stage(
        &self,
        lease: &ReembeddingLease,
        document: &NumberedDocument,
        vectors: &[(ChunkId, Vec<f32>)],
    ) -> Result<bool>;

    /// Notes that documents are staged as their numbers say, and that the next index holds them so.
    ///
    /// # Errors
    /// As [`ReembeddingStore::report`].
    async fn staged(&self, lease: &ReembeddingLease, documents: &[NumberedDocument]) -> Result<()>;

    /// Makes the dataset one of the next generation and of the task's embedder, if all its documents are staged as they
    /// are, there are so many of them, and none is being read. Whether it did. The task is done then, and what is of no
    /// more use may be cleared away from `clear_from_ms` on. Documents keep what is noted of them, with other numbers; those that wait to be read
    /// begin anew.
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

    /// Forgets all staged vectors, or after the switch those of the generation before.
    ///
    /// # Errors
    /// As [`ReembeddingStore::report`].
    async fn clear(&self, lease: &ReembeddingLease) -> Result<()>;

    /// Says what has become of the work, and lets go of it.
    ///
    /// # Errors
    /// As [`ReembeddingStore::report`].
    async fn settle(&self, lease: &ReembeddingLease, outcome: &ReembeddingOutcome, now_ms: i64)
    -> Result<()>;
}
