//! Models that score how well passages answer a question.

use weft_macros::async_trait;

use crate::error::Result;

/// Scores, with the tokens they took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reranked {
    /// One score per passage, in order.
    pub scores: Vec<f32>,
    /// Number of tokens that were read, as reported by the provider.
    pub tokens: u64,
}

/// A model that scores how well passages answer a question.
///
/// An implementation sends the passages verbatim, truncated to what the model reads. It returns scores from 0 to 1
/// that mean the same for every provider: a logit x becomes 1 / (1 + e^(−x)).
#[async_trait]
pub trait Reranker: Send + Sync {
    /// Returns its name, such as `jina-reranker-v2@Jina`.
    fn name(&self) -> &str;

    /// Returns one score per passage, in order.
    ///
    /// # Errors
    /// By kind: `Unauthenticated`, `RateLimited`, `Unavailable`, `Timeout`, `Invalid`, `Garbled`.
    async fn rerank(&self, question: &str, passages: &[String]) -> Result<Reranked>;
}
