//! The usage of models, as clients see it.

use serde::Serialize;
use weft_core::seam::chat_model::Usage;

/// Token counts in the format of the OpenAI API, with the number of calls.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TokenCounts {
    /// Tokens of the prompts.
    pub prompt_tokens: u64,
    /// Tokens of the answers.
    pub completion_tokens: u64,
    /// The sum of both.
    pub total_tokens: u64,
    /// Number of model calls.
    pub calls: u64,
    /// Details of the prompt tokens, if the provider reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tokens_details: Option<PromptTokens>,
    /// Details of the answer tokens, if the provider reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_tokens_details: Option<CompletionTokens>,
}

/// Parts of the prompt tokens.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PromptTokens {
    /// Tokens that the provider read from its cache.
    pub cached_tokens: u64,
    /// Tokens that it wrote to its cache.
    pub cache_write_tokens: u64,
}

/// Parts of the answer tokens.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CompletionTokens {
    /// Tokens of the reasoning.
    pub reasoning_tokens: u64,
}

impl From<Usage> for TokenCounts {
    fn from(usage: Usage) -> Self {
        let cached = PromptTokens {
            cached_tokens: usage.cache_read_tokens,
            cache_write_tokens: usage.cache_write_tokens,
        };
        let reasoned = CompletionTokens { reasoning_tokens: usage.reasoning_tokens };
        Self {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            total_tokens: usage.total_tokens(),
            calls: usage.calls,
            prompt_tokens_details: (cached.cached_tokens > 0 || cached.cache_write_tokens > 0)
                .then_some(cached),
            completion_tokens_details: (reasoned.reasoning_tokens > 0).then_some(reasoned),
        }
    }
}
