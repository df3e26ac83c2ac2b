//! What models have used, as clients are told.

use serde::Serialize;
use weft_core::seam::chat_model::Usage;

/// Token counts in the shape of the OpenAI API, with the number of calls.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TokenCounts {
    /// Tokens of the questions.
    pub prompt_tokens: u64,
    /// Tokens of the answers.
    pub completion_tokens: u64,
    /// Both.
    pub total_tokens: u64,
    /// Model calls.
    pub calls: u64,
    /// Of the questions, when their provider told it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tokens_details: Option<PromptTokens>,
    /// Of the answers, when their provider told it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_tokens_details: Option<CompletionTokens>,
}

/// Parts of the tokens of questions.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PromptTokens {
    /// Which the provider had in its cache.
    pub cached_tokens: u64,
    /// Which it put into its cache.
    pub cache_write_tokens: u64,
}

/// Parts of the tokens of answers.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CompletionTokens {
    /// Those of the reasoning.
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
