//! Datasets, their documents and the chunks these were cut into. This is the truth; an
//! [`Index`](super::Index) is made from it.

mod change;
mod chunks;
mod generations;
mod heads;
mod quota;
mod tags;
mod unread;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

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

/// Settings by the names of the compatible API.
pub type Settings = serde_json::Map<String, Json>;

/// A collection of documents to search.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// Which tenant it belongs to, and its id.
    pub key: DatasetKey,
    /// Its name; no two of a tenant differ in case only.
    pub name: String,
    /// A picture as a data URI, or nothing.
    pub avatar: String,
    /// For people.
    pub description: String,
    /// `English`, `Chinese` …; for people.
    pub language: String,
    /// `me` or `team`.
    pub permission: String,
    /// The model that made its vectors, as [`Embedder::name`](super::Embedder::name) says it; empty:
    /// it is searched by words alone.
    pub embedder: String,
    /// How its documents are cut when they say nothing else.
    pub method: ChunkMethod,
    /// Settings of the method and of what follows it.
    pub settings: Settings,
    /// What a chunk has to score at least, 0 to 1.
    pub similarity_threshold: f64,
    /// The share of the vectors in a score, 0 to 1.
    pub vector_similarity_weight: f64,
    /// How much it is preferred to other datasets, 0 to 100.
    pub pagerank: u32,
    /// Which vectors it has: by one more each time all were made anew, see [`Dataset::with_other_embedder`]. Stores change it.
    pub generation: u64,
    /// When it came into being, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it was changed the last time, in milliseconds since 1970.
    pub updated_ms: i64,
    /// Counts the changes; a writer must know the current one.
    pub revision: i64,
    /// How much it holds; not written, only read, and only where it is asked for.
    pub counts: DatasetCounts,
}

/// How much a dataset holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatasetCounts {
    /// Documents.
    pub documents: u64,
    /// Chunks of documents that are done.
    pub chunks: u64,
    /// Tokens of those chunks.
    pub tokens: u64,
    /// Bytes of the documents as they were given.
    pub bytes: u64,
}

/// Whether datasets come with what they hold. Counting looks at every one of their documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// They do.
    #[default]
    With,
    /// They come as if they held nothing.
    Without,
}

/// Which datasets to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DatasetFilter {
    /// Only these.
    pub ids: Option<Vec<DatasetId>>,
    /// Only the one with this name, whatever its case.
    pub name: Option<String>,
    /// Only those with one of these names, whatever their case.
    pub names: Option<Vec<String>>,
    /// Whether they come with what they hold.
    pub counting: Counting,
    /// By the time of the last change instead of that of creation.
    pub by_update: bool,
    /// The oldest first.
    pub ascending: bool,
    /// Only those behind this place in the list, which is the time that it goes by and an id. All of them count.
    pub after: Option<(i64, DatasetId)>,
    /// How many to pass over.
    pub offset: u64,
    /// How many at most.
    pub limit: u64,
}

/// How far a document has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentState {
    /// Nobody has asked for it to be read.
    #[default]
    Unstarted,
    /// It is to be read, or is being read.
    Running,
    /// Somebody has stopped it for a while; it goes on where it was.
    Paused,
    /// Somebody has stopped it for good.
    Cancelled,
    /// It can be searched.
    Done,
    /// It could not be read; the message says why.
    Failed,
}

/// What is being done with a document. Each stage begins with what the stages before it have stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IngestStage {
    /// It is read and cut into chunks.
    #[default]
    Reading,
    /// A model adds keywords, questions, metadata, contents or a graph.
    Enriching,
    /// The same of a document that is found by words alone: no vectors follow, and nothing that is made of them.
    EnrichingWords,
    /// Its chunks get their vectors.
    Embedding,
    /// A model sums up what belongs together.
    Summarizing,
    /// It is put into the index.
    Indexing,
}

/// A document of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Which tenant it belongs to, and its id.
    pub key: DocumentKey,
    /// Its file name; no two of a dataset differ in case only.
    pub name: String,
    /// Bytes of the file.
    pub size: u64,
    /// The name of the file in the [`BlobStore`](super::BlobStore).
    pub blob: String,
    /// How it is cut.
    pub method: ChunkMethod,
    /// Settings of the method and of what follows it.
    pub settings: Settings,
    /// What filters look at.
    pub metadata: Metadata,
    /// Whether its chunks are found.
    pub enabled: bool,
    /// How far it has come.
    pub state: DocumentState,
    /// Of the whole work, 0 to 1.
    pub progress: f64,
    /// What is being done, or why it failed; for people.
    pub message: String,
    /// When the work began, in milliseconds since 1970; absent before.
    pub begun_ms: Option<i64>,
    /// How long the work has taken so far, in milliseconds.
    pub duration_ms: i64,
    /// Its chunks that can be searched.
    pub chunk_count: u64,
    /// The tokens of those.
    pub token_count: u64,
    /// The first picture that its chunks are shown with, see [`StoredChunk::picture`]; not written, only read.
    pub picture: Option<String>,
    /// Counts the changes that people have made; a writer must know the current one.
    pub revision: i64,
    /// When it was added, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it was changed the last time, in milliseconds since 1970.
    pub updated_ms: i64,
}

/// What a list of documents is ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DocumentOrder {
    /// When they were added.
    #[default]
    Created,
    /// When they were changed the last time.
    Updated,
    /// Their names, whatever their case.
    Name,
}

/// Which documents to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DocumentFilter {
    /// Only these.
    pub ids: Option<Vec<DocumentId>>,
    /// Only the one with this name, whatever its case.
    pub name: Option<String>,
    /// Only those whose name holds this, whatever its case.
    pub keywords: Option<String>,
    /// Only those with one of these endings, without the dot; empty: all.
    pub suffixes: Vec<String>,
    /// None of those with one of these endings.
    pub other_suffixes: Vec<String>,
    /// Only those in one of these states; empty: all.
    pub states: Vec<DocumentState>,
    /// Only those whose metadata fits.
    pub metadata: Option<Filter>,
    /// Only those without any metadata.
    pub bare: bool,
    /// Only those added at this time or later, in milliseconds since 1970.
    pub from_ms: Option<i64>,
    /// Only those added at this time or earlier.
    pub to_ms: Option<i64>,
    /// In which order.
    pub order: DocumentOrder,
    /// The oldest, or the first of the alphabet, first.
    pub ascending: bool,
    /// How many to pass over.
    pub offset: u64,
    /// How many at most.
    pub limit: u64,
}

/// A chunk as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredChunk {
    /// Its id. It follows from document, text and how often the text came before, so that an unchanged
    /// chunk keeps it when the document is read again, and no two share one.
    pub id: ChunkId,
    /// Its document.
    pub document: DocumentKey,
    /// Its place among the document's chunks.
    pub ordinal: u64,
    /// What it is made of.
    pub kind: PieceKind,
    /// Its text.
    pub content: String,
    /// What is searched in its place, if that is something else.
    pub searched: Option<String>,
    /// The headings that it stands under, the outermost first.
    pub headings: Vec<String>,
    /// Where it is in the document.
    pub positions: Vec<Position>,
    /// Words that it is to be found by.
    pub keywords: Vec<String>,
    /// Questions that it answers.
    pub questions: Vec<String>,
    /// Typed columns, of a row of a table; and its tags, see [`StoredChunk::tags`].
    pub fields: Settings,
    /// The larger chunk that is shown when this one is found.
    pub parent: Option<ChunkId>,
    /// What the picture is called that its text was read in, among those that are kept beside its document.
    pub picture: Option<String>,
    /// Whether it is found. A parent never is.
    pub available: bool,
    /// How many tokens it has.
    pub tokens: u32,
    /// Its vector; absent without an embedder, and when it was not asked for.
    pub vector: Option<Vec<f32>>,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: i64,
}

/// What is made of a document beside its chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extra {
    /// Its table of contents.
    Contents,
    /// The entities and relations it speaks of.
    Graph,
    /// What the summaries over the documents of its dataset were made of.
    Summaries,
    /// Its subject, with branches and details.
    MindMap,
}

/// Datasets, documents and chunks.
///
/// An implementation keeps what it has returned for, makes each change whole or not at all, and answers
/// `NotFound` for everything of another tenant. Together with each change of what is found it notes that the
/// index may differ, and together with each removal that something may be left of what was removed; see
/// [`IngestQueue`](super::IngestQueue).
#[async_trait]
pub trait DatasetStore: Send + Sync {
    /// Tenants that have datasets, in the order of their names.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn tenants(&self) -> Result<Vec<TenantId>>;

    /// Keeps a new dataset.
    ///
    /// # Errors
    /// `Conflict` when the tenant has one with this name.
    async fn create(&self, dataset: &Dataset) -> Result<()>;

    /// A dataset.
    ///
    /// # Errors
    /// `NotFound`.
    async fn dataset(&self, key: &DatasetKey) -> Result<Dataset>;

    /// A dataset as if it held nothing: its documents are not looked at.
    ///
    /// # Errors
    /// `NotFound`.
    async fn dataset_uncounted(&self, key: &DatasetKey) -> Result<Dataset>;

    /// Datasets by filter, the newest first, and how many there are in all.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn datasets(&self, tenant: &TenantId, filter: &DatasetFilter) -> Result<(Vec<Dataset>, u64)>;

    /// Replaces what is kept of a dataset that is still at the revision of `dataset`, the time of its creation excepted,
    /// and raises the revision. With another embedder its documents do not go on where they were given up. Whether it
    /// was replaced: not when somebody has changed it in the meantime, or removed it.
    ///
    /// # Errors
    /// `Conflict` when another one has this name; as [`Dataset::check_other_embedder`], also for what is queued meanwhile.
    async fn update(&self, dataset: &Dataset) -> Result<bool>;

    /// Removes a dataset with its documents and chunks. The names of the blobs that are of no more use.
    ///
    /// # Errors
    /// `NotFound`.
    async fn remove(&self, key: &DatasetKey) -> Result<Vec<String>>;

    /// Keeps a new document.
    ///
    /// # Errors
    /// `NotFound` without its dataset; `Conflict` when that has one with this name.
    async fn add_document(&self, document: &Document) -> Result<()> {
        self.add_document_within(document, DocumentQuota::default()).await
    }

    /// The same where the tenant may have so much and no more.
    ///
    /// # Errors
    /// As [`DatasetStore::add_document`]; `QuotaExceeded`.
    async fn add_document_within(&self, document: &Document, quota: DocumentQuota) -> Result<()>;

    /// Keeps a new document in the place of one of its dataset, which is removed in the same step, as by
    /// [`DatasetStore::remove_documents`]; the new one may have its name. The name of the blob that is of no more use.
    ///
    /// # Errors
    /// `NotFound` without the dataset or the document; `Conflict` when another one has the name. Then nothing has changed.
    async fn replace_document(&self, document: &Document, replaced: &DocumentId) -> Result<String>;

    /// A document.
    ///
    /// # Errors
    /// `NotFound`.
    async fn document(&self, key: &DocumentKey) -> Result<Document>;

    /// Documents by filter, the newest first, and how many there are in all.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn documents(&self, dataset: &DatasetKey, filter: &DocumentFilter) -> Result<(Vec<Document>, u64)>;

    /// Heads of documents: those of [`Heads::Page`] in an order of their ids that stays the same.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn document_heads(&self, dataset: &DatasetKey, wanted: &Heads) -> Result<Vec<DocumentHead>>;

    /// Changes a document, and raises its revision. As it is then. With other settings it does not go on where it was given
    /// up. Absent: it is not at the revision of the change any more, and nothing was changed.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when another one of the dataset has this name.
    async fn update_document(
        &self,
        key: &DocumentKey,
        change: &DocumentChange,
        now_ms: i64,
    ) -> Result<Option<Document>>;

    /// Removes documents with their chunks; those that are not there are passed over. The names of the
    /// blobs that are of no more use.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn remove_documents(&self, dataset: &DatasetKey, ids: &[DocumentId]) -> Result<Vec<String>>;

    /// Chunks of a document, and how many there are in all.
    ///
    /// # Errors
    /// `NotFound` without the document.
    async fn chunks(&self, document: &DocumentKey, filter: &ChunkFilter) -> Result<(Vec<StoredChunk>, u64)>;

    /// Chunks by id, parents included, without vectors, each once, in the order of the ids; those that are
    /// not there are left out.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn chunks_by_id(&self, tenant: &TenantId, ids: &[ChunkId]) -> Result<Vec<StoredChunk>>;

    /// What is known of chunks beside their content: those of [`Self::chunks_by_id`], in the same order, read
    /// without any text.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn chunk_heads(&self, tenant: &TenantId, ids: &[ChunkId]) -> Result<Vec<ChunkHead>>;

    /// Chunks of a document by id, with their vectors, in their order; parents, and those that are not there,
    /// are left out.
    ///
    /// # Errors
    /// `NotFound` without the document.
    async fn chunks_with_vectors(&self, document: &DocumentKey, ids: &[ChunkId]) -> Result<Vec<StoredChunk>>;

    /// Keeps chunks of a document that is done, in place of those with the same ids: what people add and
    /// change by hand. Counts follow. What this notes of the index. Their vectors are of this generation.
    ///
    /// # Errors
    /// `NotFound` without the document; `Conflict` when another document has a chunk with such an id, and when the
    /// dataset is of another generation by now.
    async fn put_chunks(
        &self,
        document: &DocumentKey,
        chunks: &[StoredChunk],
        generation: u64,
    ) -> Result<IndexNote>;

    /// The same for chunks that follow from what was read, so that nothing is lost of what others have written meanwhile.
    /// Absent: one of them is not in the place of what it was made of any more, and nothing was kept.
    ///
    /// # Errors
    /// As [`DatasetStore::put_chunks`].
    async fn replace_chunks(
        &self,
        document: &DocumentKey,
        replacements: &[ChunkReplacement],
        generation: u64,
    ) -> Result<Option<IndexNote>>;

    /// The place behind the last chunk of a document that is done.
    ///
    /// # Errors
    /// `NotFound` without the document.
    async fn next_ordinal(&self, document: &DocumentKey) -> Result<u64>;

    /// Removes chunks of a document. Counts follow, and its picture.
    ///
    /// # Errors
    /// `NotFound` without the document.
    async fn remove_chunks(&self, document: &DocumentKey, ids: &[ChunkId]) -> Result<RemovedChunks>;

    /// Takes a document back to where it was before it was read: without chunks, unstarted.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` while it is being read.
    async fn reset_document(&self, key: &DocumentKey, now_ms: i64) -> Result<()>;

    /// Keeps what is made of a document beside its chunks, in place of what was there; null: nothing.
    ///
    /// # Errors
    /// `NotFound` without the document.
    async fn put_extra(&self, document: &DocumentKey, extra: Extra, value: &Json) -> Result<()>;

    /// What is made of a document beside its chunks, if there is any.
    ///
    /// # Errors
    /// `NotFound` without the document.
    async fn extra(&self, document: &DocumentKey, extra: Extra) -> Result<Option<Json>>;

    /// What is made of documents of a dataset beside their chunks, in the order of their ids: of those after one of them, at most
    /// so many.
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
