//! Models that say how well passages answer a question.

use async_trait::async_trait;

use crate::error::Result;

/// Scores, and what they cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reranked {
    /// A score for each passage, in their order.
    pub scores: Vec<f32>,
    /// Tokens that were read, as far as the provider tells.
    pub tokens: u64,
}

/// A model that says how well passages answer a question.
///
/// An implementation sends the passages as they were written, cut to what the model reads, and gives each
/// a score from 0 to 1 with one meaning for every provider: a logit x becomes 1 / (1 + e^(−x)).
#[async_trait]
pub trait Reranker: Send + Sync {
    /// Its name, such as `jina-reranker-v2@Jina`.
    fn name(&self) -> &str;

    /// A score for each passage, in their order.
    ///
    /// # Errors
    /// By kind: `Unauthenticated`, `RateLimited`, `Unavailable`, `Timeout`, `Invalid`, `Garbled`.
    async fn rerank(&self, question: &str, passages: &[String]) -> Result<Reranked>;
}
