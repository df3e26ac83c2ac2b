//! Datasets, their documents, and the chunks these were split into. This is the source of truth; an
//! [`Index`](super::Index) is derived from it.

mod change;
mod chunks;
mod generations;
mod heads;
mod quota;
mod tags;
mod unread;

use serde::{Deserialize, Serialize};
use weft_macros::async_trait;

use crate::error::Result;
use crate::filter::{Filter, Metadata};
use crate::id::{ChunkId, DatasetId, DatasetKey, DocumentId, DocumentKey, TenantId};
use crate::seam::document_reader::{ChunkMethod, PieceKind, Position};
use crate::seam::ingest_queue::IndexNote;
use crate::value::Json;

pub use change::DocumentChange;
pub use chunks::{ChunkFilter, ChunkReplacement, RemovedChunks};
pub use heads::{ChunkHead, DocumentHead, Heads};
pub use quota::DocumentQuota;

/// Settings, by their names in the compatible API.
pub type Settings = serde_json::Map<String, Json>;

/// A collection of documents to search.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// Its tenant and id.
    pub key: DatasetKey,
    /// Its name, unique within the tenant, ignoring case.
    pub name: String,
    /// A picture as a data URI, or empty.
    pub avatar: String,
    /// A description for people.
    pub description: String,
    /// `English`, `Chinese` …; informational only.
    pub language: String,
    /// `me` or `team`.
    pub permission: String,
    /// The model that made its vectors, by its [`Embedder::name`](super::Embedder::name). Empty: the dataset is
    /// searched by words alone.
    pub embedder: String,
    /// How its documents are split unless they set a method of their own.
    pub method: ChunkMethod,
    /// Settings of the method and of the stages after it.
    pub settings: Settings,
    /// Minimum score of a chunk, 0 to 1.
    pub similarity_threshold: f64,
    /// The weight of the vector part in a score, 0 to 1.
    pub vector_similarity_weight: f64,
    /// How strongly it is preferred to other datasets, 0 to 100.
    pub pagerank: u32,
    /// Version of its vectors. Only stores change it: it grows by one each time all vectors are rebuilt, and see
    /// [`Dataset::with_other_embedder`].
    pub generation: u64,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it was last changed, in milliseconds since 1970.
    pub updated_ms: i64,
    /// Counts the changes; a writer must supply the current value.
    pub revision: i64,
    /// How much it contains. Read-only, and filled in only on request.
    pub counts: DatasetCounts,
}

/// How much a dataset contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatasetCounts {
    /// Documents.
    pub documents: u64,
    /// Chunks of documents that have been processed.
    pub chunks: u64,
    /// Tokens of those chunks.
    pub tokens: u64,
    /// Size of the original documents in bytes.
    pub bytes: u64,
}

/// Whether datasets are returned with their counts. Counting reads all of their documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// With counts.
    #[default]
    With,
    /// With all counts zero.
    Without,
}

/// Which datasets to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DatasetFilter {
    /// Only those with these ids.
    pub ids: Option<Vec<DatasetId>>,
    /// Only the one with this name, ignoring case.
    pub name: Option<String>,
    /// Only those with one of these names, ignoring case.
    pub names: Option<Vec<String>>,
    /// Whether to return their counts.
    pub counting: Counting,
    /// Sort by the time of the last change instead of creation.
    pub by_update: bool,
    /// Oldest first.
    pub ascending: bool,
    /// Only those after this position in the list, given as the time it is sorted by and an id. The total counts all
    /// of them.
    pub after: Option<(i64, DatasetId)>,
    /// How many to skip.
    pub offset: u64,
    /// Maximum number to return.
    pub limit: u64,
}

/// How far a document has been ingested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentState {
    /// Parsing has not been requested.
    #[default]
    Unstarted,
    /// It is queued or being parsed.
    Running,
    /// It has been paused; it resumes where it stopped.
    Paused,
    /// It has been cancelled.
    Cancelled,
    /// It is searchable.
    Done,
    /// It could not be read; the message says why.
    Failed,
}

/// The processing stage of a document. Each stage starts from what the earlier stages have stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IngestStage {
    /// It is parsed and split into chunks.
    #[default]
    Reading,
    /// A model adds keywords, questions, metadata, a table of contents or a graph.
    Enriching,
    /// Like `Enriching`, for a document that is found by words alone: no vectors follow, and nothing derived from
    /// them.
    EnrichingWords,
    /// Its chunks are embedded.
    Embedding,
    /// A model summarises related parts.
    Summarizing,
    /// It is added to the index.
    Indexing,
}

/// A document of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Its tenant, dataset and id.
    pub key: DocumentKey,
    /// Its file name, unique within the dataset, ignoring case.
    pub name: String,
    /// Size of the file in bytes.
    pub size: u64,
    /// The name of the file in the [`BlobStore`](super::BlobStore).
    pub blob: String,
    /// How it is split.
    pub method: ChunkMethod,
    /// Settings of the method and of the stages after it.
    pub settings: Settings,
    /// The metadata that filters evaluate.
    pub metadata: Metadata,
    /// Whether its chunks can be found.
    pub enabled: bool,
    /// Its state.
    pub state: DocumentState,
    /// Overall progress, 0 to 1.
    pub progress: f64,
    /// The current activity, or why it failed; for people.
    pub message: String,
    /// When processing started, in milliseconds since 1970; absent before that.
    pub begun_ms: Option<i64>,
    /// How long processing has taken so far, in milliseconds.
    pub duration_ms: i64,
    /// Number of searchable chunks.
    pub chunk_count: u64,
    /// Number of tokens in those.
    pub token_count: u64,
    /// The first picture shown with its chunks, see [`StoredChunk::picture`]. Read-only.
    pub picture: Option<String>,
    /// Counts the changes made by people; a writer must supply the current value.
    pub revision: i64,
    /// When it was added, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it was last changed, in milliseconds since 1970.
    pub updated_ms: i64,
}

/// The sort order of a list of documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DocumentOrder {
    /// By when they were added.
    #[default]
    Created,
    /// By when they were last changed.
    Updated,
    /// By name, ignoring case.
    Name,
}

/// Which documents to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DocumentFilter {
    /// Only those with these ids.
    pub ids: Option<Vec<DocumentId>>,
    /// Only the one with this name, ignoring case.
    pub name: Option<String>,
    /// Only those whose name contains this, ignoring case.
    pub keywords: Option<String>,
    /// Only those with one of these extensions, given without the dot; empty means any.
    pub suffixes: Vec<String>,
    /// Excludes those with one of these extensions.
    pub other_suffixes: Vec<String>,
    /// Only those in one of these states; empty means any.
    pub states: Vec<DocumentState>,
    /// Only those whose metadata matches.
    pub metadata: Option<Filter>,
    /// Only those without any metadata.
    pub bare: bool,
    /// Only those added at this time or later, in milliseconds since 1970.
    pub from_ms: Option<i64>,
    /// Only those added at this time or earlier.
    pub to_ms: Option<i64>,
    /// The sort order.
    pub order: DocumentOrder,
    /// Oldest first, or in alphabetical order.
    pub ascending: bool,
    /// How many to skip.
    pub offset: u64,
    /// Maximum number to return.
    pub limit: u64,
}

/// A chunk with everything that is stored about it, including what searches do not need.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredChunk {
    /// Its id. It is derived from the document, the text, and the number of earlier chunks with the same text. An
    /// unchanged chunk therefore keeps its id when the document is parsed again, and no two chunks share one.
    pub id: ChunkId,
    /// Its document.
    pub document: DocumentKey,
    /// Its position among the document's chunks.
    pub ordinal: u64,
    /// The kind of content.
    pub kind: PieceKind,
    /// Its text.
    pub content: String,
    /// The text that is searched instead, if different.
    pub searched: Option<String>,
    /// The headings it appears under, outermost first.
    pub headings: Vec<String>,
    /// Its positions in the document.
    pub positions: Vec<Position>,
    /// Keywords to find it by.
    pub keywords: Vec<String>,
    /// Questions that it answers.
    pub questions: Vec<String>,
    /// Typed columns, for a row of a table; also contains its tags, see [`StoredChunk::tags`].
    pub fields: Settings,
    /// The larger chunk that is shown when this one is found.
    pub parent: Option<ChunkId>,
    /// The name of the picture its text was read from, among the pictures stored with its document.
    pub picture: Option<String>,
    /// Whether it can be found. A parent never can.
    pub available: bool,
    /// Number of tokens.
    pub tokens: u32,
    /// Its vector; absent without an embedder, and if it was not requested.
    pub vector: Option<Vec<f32>>,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
}

/// Data derived from a document in addition to its chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extra {
    /// Its table of contents.
    Contents,
    /// The entities and relations it mentions.
    Graph,
    /// The source of the summaries across the documents of its dataset.
    Summaries,
    /// A mind map: its subject, with branches and details.
    MindMap,
}

/// Datasets, documents and chunks.
///
/// An implementation has stored a change durably when it returns, makes each change atomically, and returns
/// `NotFound` for everything of another tenant. Together with each change to what is found it records that the index
/// may differ, and together with each removal that something may be left of what was removed; see
/// [`IngestQueue`](super::IngestQueue).
#[async_trait]
pub trait DatasetStore: Send + Sync {
    /// Returns the tenants that have datasets, sorted by name.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn tenants(&self) -> Result<Vec<TenantId>>;

    /// Stores a new dataset.
    ///
    /// # Errors
    /// `Conflict` when the tenant has one with this name; `QuotaExceeded` for one too many.
    async fn create(&self, dataset: &Dataset) -> Result<()>;

    /// Returns a dataset.
    ///
    /// # Errors
    /// `NotFound`.
    async fn dataset(&self, key: &DatasetKey) -> Result<Dataset>;

    /// Returns a dataset with all counts zero, without reading its documents.
    ///
    /// # Errors
    /// `NotFound`.
    async fn dataset_uncounted(&self, key: &DatasetKey) -> Result<Dataset>;

    /// Returns the datasets that match a filter, newest first, and their total number.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn datasets(&self, tenant: &TenantId, filter: &DatasetFilter) -> Result<(Vec<Dataset>, u64)>;

    /// Replaces a dataset if it is still at the revision of `dataset`, keeping its creation time, and increments the
    /// revision. If the embedder changes, abandoned documents no longer resume where they stopped. Returns whether it
    /// was replaced: not if another writer has changed or removed it in the meantime.
    ///
    /// # Errors
    /// `Conflict` when another one has this name; as [`Dataset::check_other_embedder`], also for what is queued meanwhile.
    async fn update(&self, dataset: &Dataset) -> Result<bool>;

    /// Removes a dataset with its documents and chunks. Returns the names of the blobs that are no longer used.
    ///
    /// # Errors
    /// `NotFound`.
    async fn remove(&self, key: &DatasetKey) -> Result<Vec<String>>;

    /// Stores a new document.
    ///
    /// # Errors
    /// `NotFound` without its dataset; `Conflict` when that has one with this name.
    async fn add_document(&self, document: &Document) -> Result<()> {
        self.add_document_within(document, DocumentQuota::default()).await
    }

    /// Like [`DatasetStore::add_document`], within the tenant's quota.
    ///
    /// # Errors
    /// As [`DatasetStore::add_document`]; `QuotaExceeded`.
    async fn add_document_within(&self, document: &Document, quota: DocumentQuota) -> Result<()>;

    /// Replaces a document of the dataset with a new one, which may have its name, in one step, as by
    /// [`DatasetStore::remove_documents`]. Returns the name of the blob that is no longer used.
    ///
    /// # Errors
    /// `NotFound` without the dataset or the document; `Conflict` if the name is taken. Nothing changes then.
    async fn replace_document(&self, document: &Document, replaced: &DocumentId) -> Result<String>;

    /// Returns a document.
    ///
    /// # Errors
    /// `NotFound`.
    async fn document(&self, key: &DocumentKey) -> Result<Document>;

    /// Returns the documents that match a filter, newest first, and their total number.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn documents(&self, dataset: &DatasetKey, filter: &DocumentFilter) -> Result<(Vec<Document>, u64)>;

    /// Returns heads of documents; those of [`Heads::Page`] in a stable order by id.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn document_heads(&self, dataset: &DatasetKey, wanted: &Heads) -> Result<Vec<DocumentHead>>;

    /// Changes a document, increments its revision, and returns the new state. If settings change, it no longer
    /// resumes where it was abandoned. `None` if it is no longer at the revision of the change; nothing changed then.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when another one of the dataset has this name.
    async fn update_document(
        &self,
        key: &DocumentKey,
        change: &DocumentChange,
        now_ms: i64,
    ) -> Result<Option<Document>>;

    /// Removes documents with their chunks, ignoring missing ones. Returns the names of the blobs no longer used.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn remove_documents(&self, dataset: &DatasetKey, ids: &[DocumentId]) -> Result<Vec<String>>;

    /// Returns chunks of a document, and their total number.
    ///
    /// # Errors
    /// `NotFound` without the document.
    async fn chunks(&self, document: &DocumentKey, filter: &ChunkFilter) -> Result<(Vec<StoredChunk>, u64)>;

    /// Returns chunks by id, with parents but without vectors, in the order of the ids, each once; omits missing ones.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn chunks_by_id(&self, tenant: &TenantId, ids: &[ChunkId]) -> Result<Vec<StoredChunk>>;

    /// Returns the data of chunks other than their content: for those of [`Self::chunks_by_id`], in the same order,
    /// without reading any text.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn chunk_heads(&self, tenant: &TenantId, ids: &[ChunkId]) -> Result<Vec<ChunkHead>>;

    /// Returns chunks of a document by id, with their vectors, in document order; omits parents and missing ones.
    ///
    /// # Errors
    /// `NotFound` without the document.
    async fn chunks_with_vectors(&self, document: &DocumentKey, ids: &[ChunkId]) -> Result<Vec<StoredChunk>>;

    /// Stores chunks of a processed document, in place of those with the same ids: the chunks that people add and
    /// change by hand. Updates the counts. Their vectors belong to `generation`. Returns the note about the index.
    ///
    /// # Errors
    /// `NotFound` without the document; `Conflict` when another document has a chunk with one of the ids, or when the
    /// dataset is of another generation by now.
    async fn put_chunks(
        &self,
        document: &DocumentKey,
        chunks: &[StoredChunk],
        generation: u64,
    ) -> Result<IndexNote>;

    /// Like [`DatasetStore::put_chunks`], for changes based on chunks read earlier, so that concurrent changes are
    /// not lost. `None`: one of the chunks has changed since; nothing was stored.
    ///
    /// # Errors
    /// As [`DatasetStore::put_chunks`].
    async fn replace_chunks(
        &self,
        document: &DocumentKey,
        replacements: &[ChunkReplacement],
        generation: u64,
    ) -> Result<Option<IndexNote>>;

    /// Returns the position after the last chunk of a processed document.
    ///
    /// # Errors
    /// `NotFound` without the document.
    async fn next_ordinal(&self, document: &DocumentKey) -> Result<u64>;

    /// Removes chunks of a document. Updates its counts and its picture.
    ///
    /// # Errors
    /// `NotFound` without the document.
    async fn remove_chunks(&self, document: &DocumentKey, ids: &[ChunkId]) -> Result<RemovedChunks>;

    /// Resets a document to its state before it was parsed: without chunks, unstarted.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` while it is being parsed.
    async fn reset_document(&self, key: &DocumentKey, now_ms: i64) -> Result<()>;

    /// Stores data derived from a document in addition to its chunks, replacing what was there; null removes it.
    ///
    /// # Errors
    /// `NotFound` without the document.
    async fn put_extra(&self, document: &DocumentKey, extra: Extra, value: &Json) -> Result<()>;

    /// Returns data derived from a document in addition to its chunks, if there is any.
    ///
    /// # Errors
    /// `NotFound` without the document.
    async fn extra(&self, document: &DocumentKey, extra: Extra) -> Result<Option<Json>>;

    /// Returns such data for up to `count_max` documents of a dataset after `after`, in the order of their ids.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn extras(
        &self,
        dataset: &DatasetKey,
        extra: Extra,
        after: Option<&DocumentId>,
        count_max: u64,
    ) -> Result<Vec<(DocumentId, Json)>>;
}
