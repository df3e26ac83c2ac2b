//! Full-text and vector search over chunks. An index is derived from what a [`DatasetStore`](super::DatasetStore)
//! stores and can be rebuilt from it; it returns ids and scores, not text.

use std::collections::BTreeMap;
use std::ops::Range;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use weft_macros::async_trait;

use crate::error::Result;
use crate::filter::{Filter, Metadata};
use crate::id::{ChunkId, DatasetId, DatasetKey, DocumentId, TenantId};

/// The part of a document that an index stores: what filters and answers need.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexedDocument {
    /// Its id.
    pub id: DocumentId,
    /// Its file name, which answers return but searches do not match.
    pub name: String,
    /// The metadata that filters evaluate.
    pub metadata: Metadata,
    /// Whether its chunks can be found.
    pub available: bool,
}

/// The part of a chunk that an index stores: what searches match.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexedChunk {
    /// The name of its document, without the extension, and the headings it appears under.
    pub title: String,
    /// Its text.
    pub content: String,
    /// Keywords to find it by.
    pub keywords: Vec<String>,
    /// Questions that it answers.
    pub questions: Vec<String>,
    /// Its vector, of length 1; absent when the dataset has no embedder.
    pub vector: Option<Vec<f32>>,
    /// The larger chunk that is shown when this one is found; answers return it.
    pub parent: Option<ChunkId>,
}

/// A change to the index of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexChange {
    /// Adds a document, or changes what is known about it; its chunks stay.
    Document(IndexedDocument),
    /// Adds chunks to an existing document, replacing those with the same ids.
    Chunks(DocumentId, Vec<(ChunkId, IndexedChunk)>),
    /// Removes chunks.
    RemoveChunks(Vec<ChunkId>),
    /// Removes all chunks of a document; the document stays.
    Clear(DocumentId),
    /// Removes a document with its chunks.
    RemoveDocument(DocumentId),
}

/// A query. Its text part and its vector part search the same chunks, independently of each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexQuery {
    /// The datasets to search.
    pub datasets: Vec<DatasetId>,
    /// Only in these documents; absent means all.
    pub documents: Option<Vec<DocumentId>>,
    /// Only in documents that match.
    pub filter: Option<Filter>,
    /// The text part.
    pub text: Option<TextQuery>,
    /// The vector part.
    pub vector: Option<VectorQuery>,
    /// Maximum number of chunks that each part finds.
    pub count_max: usize,
}

/// Words to search for, in any language. A chunk that contains any of them is found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextQuery {
    /// The question.
    pub text: String,
    /// Additional keywords with their weights; a word of the question has weight 1.
    pub keywords: Vec<(String, f32)>,
}

/// A vector to search for.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorQuery {
    /// Of length 1.
    pub vector: Vec<f32>,
    /// Minimum cosine similarity of a chunk to be found by its vector.
    pub cosine_min: f32,
}

/// A chunk found by either part, or by both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// Its dataset.
    pub dataset: DatasetId,
    /// Its document.
    pub document: DocumentId,
    /// The chunk.
    pub chunk: ChunkId,
    /// The larger chunk that is shown in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ChunkId>,
    /// Its BM25 sum over the words of the question, whichever part found it; 0 if it contains none of them.
    pub text: f32,
    /// The cosine of its vector, whichever part found it; absent if it or the question has no vector.
    pub cosine: Option<f32>,
    /// Its rank in the text part, counted from 0; absent if that did not find it.
    pub text_rank: Option<usize>,
    /// Its rank in the vector part, likewise.
    pub vector_rank: Option<usize>,
}

/// The result of a query, from a single state of the index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexAnswer {
    /// The chunks, each once, in no particular order.
    pub hits: Vec<Hit>,
    /// The names of their documents.
    pub names: BTreeMap<DocumentId, String>,
    /// The BM25 sum of a chunk of average length that contains every word of the question once, computed across the
    /// chosen datasets: the scale for BM25 sums.
    pub bm25_scale: f32,
    /// The mean cosine of the question with all chunks of the chosen datasets, whether or not they pass the
    /// conditions: the cosine that an unrelated chunk usually has, and the baseline for cosines. 0 if there are none.
    pub cosine_mean: f32,
    /// The number of chunks in that mean: those that have a vector.
    pub cosine_count: usize,
    /// Number of chunks that contain a word of the question and pass the conditions.
    pub text_total: usize,
    /// Number of documents that pass the conditions, whether or not anything in them was found.
    pub fitting: usize,
}

/// Counts of what an index contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexSize {
    /// Documents.
    pub documents: usize,
    /// Chunks.
    pub chunks: usize,
    /// Chunks with a vector.
    pub vectors: usize,
    /// The dimension of the vectors; 0 if there are none.
    pub dimension: usize,
}

/// Resolves when an accepted write is durable, or with the reason why it is not.
pub type WriteConfirmation = BoxFuture<'static, Result<()>>;

/// Full-text and vector search over chunks.
///
/// An implementation answers each query from a consistent state: between two writes, never in the middle of one. Word
/// rarity and the mean cosine are computed across all chosen datasets, so scores mean the same whichever dataset a
/// chunk is in. A query of a dataset that does not exist finds nothing in it.
#[async_trait]
pub trait Index: Send + Sync {
    /// Applies changes, all or none. When it returns, they are durable and visible to every later query, and so are
    /// all changes accepted before; writing no changes only waits for those.
    ///
    /// # Errors
    /// `Invalid` when a vector's dimension differs from that of the existing ones; otherwise when the index cannot be
    /// written.
    async fn write(&self, dataset: &DatasetKey, changes: Vec<IndexChange>) -> Result<()>;

    /// Accepts changes and writes them together with those that follow shortly (write-behind), so that many small
    /// writes are cheap. When it returns, every later query on this instance sees them, and every later write comes
    /// after them. They are durable, and visible to other processes, once the returned future resolves, which happens
    /// within about a second even if nothing waits for it. Until then a crash loses them; the caller must know what
    /// to write again.
    ///
    /// # Errors
    /// As [`Self::write`], either immediately or through the future.
    async fn write_behind(
        &self,
        dataset: &DatasetKey,
        changes: Vec<IndexChange>,
    ) -> Result<WriteConfirmation> {
        self.write(dataset, changes).await?;
        Ok(Box::pin(std::future::ready(Ok(()))))
    }

    /// Removes everything of a dataset.
    ///
    /// # Errors
    /// When the index cannot be written.
    async fn remove(&self, dataset: &DatasetKey) -> Result<()>;

    /// Searches for chunks.
    ///
    /// # Errors
    /// `Invalid` when the dimension of the query vector differs from that of the chunks' vectors; otherwise when the
    /// index cannot be read.
    async fn search(&self, tenant: &TenantId, query: &IndexQuery) -> Result<IndexAnswer>;

    /// Returns how much of a dataset the index contains.
    ///
    /// # Errors
    /// When the index cannot be read.
    async fn size(&self, dataset: &DatasetKey) -> Result<IndexSize>;

    /// Returns where words of the question occur in a text, as ordered, disjoint byte ranges, by the same rules by
    /// which chunks are found. Empty if the index does not support it.
    fn marks(&self, text: &str, query: &TextQuery) -> Vec<Range<usize>> {
        let _ = (text, query);
        Vec::new()
    }
}
