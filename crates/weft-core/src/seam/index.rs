//! Chunks by word and by vector. An index is made from what a [`DatasetStore`](super::DatasetStore) keeps
//! and can be made again from it; it gives ids and scores, and no text.

use std::collections::BTreeMap;
use std::ops::Range;

use async_trait::async_trait;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::filter::{Filter, Metadata};
use crate::id::{ChunkId, DatasetId, DatasetKey, DocumentId, TenantId};

/// A document as it is searched.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexedDocument {
    /// Which one.
    pub id: DocumentId,
    /// Its file name, which answers give back and nothing is found by.
    pub name: String,
    /// What filters look at.
    pub metadata: Metadata,
    /// Whether its chunks are found.
    pub available: bool,
}

/// A chunk as it is searched.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexedChunk {
    /// The name of its document, without the ending, and the headings it stands under.
    pub title: String,
    /// Its text.
    pub content: String,
    /// Words that it is to be found by.
    pub keywords: Vec<String>,
    /// Questions that it answers.
    pub questions: Vec<String>,
    /// Its vector, of length 1; absent when the dataset has no embedder.
    pub vector: Option<Vec<f32>>,
    /// The larger chunk that is shown when this one is found, which answers give back.
    pub parent: Option<ChunkId>,
}

/// One change of an index.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexChange {
    /// Puts a document there or changes what is known of it; its chunks stay.
    Document(IndexedDocument),
    /// Adds chunks to a document that is there, in place of those with the same ids.
    Chunks(DocumentId, Vec<(ChunkId, IndexedChunk)>),
    /// Takes chunks out.
    RemoveChunks(Vec<ChunkId>),
    /// Takes all chunks of a document out; the document stays.
    Clear(DocumentId),
    /// Takes a document out with its chunks.
    RemoveDocument(DocumentId),
}

/// What to look for. Both parts look at the same chunks, independently of each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexQuery {
    /// In these datasets.
    pub datasets: Vec<DatasetId>,
    /// Only in these documents; absent: in all.
    pub documents: Option<Vec<DocumentId>>,
    /// Only in documents that fit.
    pub filter: Option<Filter>,
    /// Words.
    pub text: Option<TextQuery>,
    /// A vector.
    pub vector: Option<VectorQuery>,
    /// How many chunks each part finds, at most.
    pub count_max: usize,
}

/// Words to look for, in any language. A chunk that holds one of them is found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextQuery {
    /// The question.
    pub text: String,
    /// Further words with their weight, where a word of the question has the weight 1.
    pub keywords: Vec<(String, f32)>,
}

/// A vector to look for.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorQuery {
    /// Of length 1.
    pub vector: Vec<f32>,
    /// Chunks with a smaller cosine are not found by their vector.
    pub cosine_min: f32,
}

/// A chunk that was found by one of the parts, or by both.
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
    /// Its BM25 sum over the words of the question, whichever part found it; 0 when it holds none.
    pub text: f32,
    /// The cosine of its vector, whichever part found it; absent when it or the question has no vector.
    pub cosine: Option<f32>,
    /// Its place in the order of the text part, from 0 on; absent when that did not find it.
    pub text_rank: Option<usize>,
    /// Its place in the order of the vector part.
    pub vector_rank: Option<usize>,
}

/// What was found, of one state of the index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexAnswer {
    /// The chunks, each once, in no order that means anything.
    pub hits: Vec<Hit>,
    /// The names of their documents.
    pub names: BTreeMap<DocumentId, String>,
    /// The BM25 sum of a chunk of average length that holds every word of the question once, in the
    /// chosen datasets together: what a sum has to be compared with.
    pub bm25_scale: f32,
    /// The mean cosine of the question with all chunks of the chosen datasets together, whether they pass
    /// the conditions or not: what an unrelated chunk usually has, and what a cosine has to be compared with. 0 without any.
    pub cosine_mean: f32,
    /// How many chunks that is the mean of: those that have a vector.
    pub cosine_count: usize,
    /// How many chunks hold a word of the question and pass the conditions.
    pub text_total: usize,
    /// How many documents pass the conditions, whether anything in them was found or not.
    pub fitting: usize,
}

/// How much an index holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexSize {
    /// Documents.
    pub documents: usize,
    /// Chunks.
    pub chunks: usize,
    /// Chunks with a vector.
    pub vectors: usize,
    /// The length of the vectors; 0 without any.
    pub dimension: usize,
}

/// Says when a write that was accepted is kept, or why it is not.
pub type WriteConfirmation = BoxFuture<'static, Result<()>>;

/// Chunks by word and by vector.
///
/// An implementation answers a query from one state: between two writes, never in the middle of one. The
/// rarity of words and the usual cosine are counted over all chosen datasets together, so a score means the
/// same whichever dataset a chunk is in. Queries of a dataset that is not there find nothing in it.
#[async_trait]
pub trait Index: Send + Sync {
    /// Makes changes, all or none. When it returns they are kept and are found by every later query, and so is what was
    /// accepted before: a write of nothing waits for that alone.
    ///
    /// # Errors
    /// `Invalid` when a vector has not the length of those that are there; otherwise when the index
    /// cannot be written.
    async fn write(&self, dataset: &DatasetKey, changes: Vec<IndexChange>) -> Result<()>;

    /// Accepts changes and writes them together with those that follow soon, so that many small writes cost
    /// little (write-behind). When it returns every later query to this value finds them, and every later write comes
    /// after them. They are kept, and other processes find them, when the future that it gives is ready, which is
    /// within a second or so and needs nobody to wait for it. Until then a crash loses them: whoever calls this
    /// must know by himself what to write again.
    ///
    /// # Errors
    /// As [`Self::write`], now or by that future.
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

    /// Finds chunks.
    ///
    /// # Errors
    /// `Invalid` when the vector of the query has not the length of the chunks' vectors; otherwise when
    /// the index cannot be read.
    async fn search(&self, tenant: &TenantId, query: &IndexQuery) -> Result<IndexAnswer>;

    /// How much of a dataset the index holds.
    ///
    /// # Errors
    /// When the index cannot be read.
    async fn size(&self, dataset: &DatasetKey) -> Result<IndexSize>;

    /// Where in a text words of the question stand, as ranges of bytes in order and apart, by the same
    /// rules as chunks are found. An index that cannot tell gives none.
    fn marks(&self, text: &str, query: &TextQuery) -> Vec<Range<usize>> {
        let _ = (text, query);
        Vec::new()
    }
}
