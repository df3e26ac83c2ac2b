//! Models that turn texts into vectors.

use weft_macros::async_trait;

use crate::error::Result;

/// The role of a text in a search. Some models distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingPurpose {
    /// A text to search with.
    Query,
    /// A text to be found.
    Passage,
}

/// Vectors, with the tokens they took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embedded {
    /// One vector per text, in the same order, all of the same dimension and normalised to Euclidean length 1, so
    /// that their dot product is the cosine.
    pub vectors: Vec<Vec<f32>>,
    /// Number of tokens that were read, as far as known.
    pub tokens: u64,
}

/// A model that turns texts into vectors.
///
/// An implementation truncates texts that are too long for its model instead of failing, returns a vector for every
/// text or fails as a whole, splits input that is too large for one request, and normalises its vectors.
#[async_trait]
pub trait Embedder: Send + Sync {
    /// Returns the name that is stored with datasets, such as `bge-m3@Ollama`. Vectors of models with different names
    /// are never compared.
    fn name(&self) -> &str;

    /// Returns the maximum number of tokens of one text that the model reads; the rest is cut off.
    fn tokens_max(&self) -> usize;

    /// Returns the vectors of texts.
    ///
    /// # Errors
    /// By kind: `Unauthenticated`, `RateLimited`, `Unavailable`, `Timeout`, `Invalid`, `Garbled`.
    async fn embed(&self, purpose: EmbeddingPurpose, texts: &[String]) -> Result<Embedded>;
}
