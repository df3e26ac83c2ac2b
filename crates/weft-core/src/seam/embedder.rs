//! Models that turn texts into vectors.

use async_trait::async_trait;

use crate::error::Result;

/// What a text is to its search. Some models want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingPurpose {
    /// Something that is searched for.
    Query,
    /// Something that may be found.
    Passage,
}

/// Vectors, and what they cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embedded {
    /// One vector for each text, in the same order, all of one length and each of length 1 by the
    /// Euclidean norm, so that their dot product is the cosine.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens that were read, as far as they are known.
    pub tokens: u64,
}

/// A model that turns texts into vectors.
///
/// An implementation cuts texts that are too long for its model instead of failing, gives a vector for
/// every text or fails as a whole, splits what is too much for one request, and normalises its vectors.
#[async_trait]
pub trait Embedder: Send + Sync {
    /// The name that datasets remember, such as `bge-m3@Ollama`: vectors of models with different names
    /// are never compared.
    fn name(&self) -> &str;

    /// Tokens of one text that the model reads; more is cut off.
    fn tokens_max(&self) -> usize;

    /// The vectors of texts.
    ///
    /// # Errors
    /// By kind: `Unauthenticated`, `RateLimited`, `Unavailable`, `Timeout`, `Invalid`, `Garbled`.
    async fn embed(&self, purpose: EmbeddingPurpose, texts: &[String]) -> Result<Embedded>;
}
