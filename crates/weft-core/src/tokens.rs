//! What calls of models read and wrote, and the prices of that.

use serde::{Deserialize, Serialize};

/// The prices of a model, in the operator's currency per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Per million prompt tokens.
    pub prompt: f64,
    /// Per million completion tokens.
    pub completion: f64,
    /// Per million prompt tokens read from the cache; absent means the same as other prompt tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// Per million prompt tokens written to the cache; absent means the same as other prompt tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
}

impl Prices {
    /// Creates prices without separate prices for cached tokens.
    pub const fn new(prompt: f64, completion: f64) -> Self {
        Self { prompt, completion, cache_read: None, cache_write: None }
    }
}

/// Token and call counts, which can be added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompts.
    pub prompt_tokens: u64,
    /// Tokens of the answers.
    pub completion_tokens: u64,
    /// Model calls.
    pub calls: u64,
    /// The part of the prompt tokens that was read from the provider's cache.
    #[serde(default, skip_serializing_if = "is_none")]
    pub cache_read_tokens: u64,
    /// The part of the prompt tokens that was written to the provider's cache.
    #[serde(default, skip_serializing_if = "is_none")]
    pub cache_write_tokens: u64,
    /// The part of the completion tokens that was used for reasoning.
    #[serde(default, skip_serializing_if = "is_none")]
    pub reasoning_tokens: u64,
}

/// Most providers do not report these parts, and they are left out of most records.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_none(tokens: &u64) -> bool {
    *tokens == 0
}

impl Usage {
    /// Returns the number of prompt and completion tokens.
    pub fn total_tokens(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.prompt_tokens, other.prompt_tokens);
        add(&mut self.completion_tokens, other.completion_tokens);
        add(&mut self.calls, other.calls);
        add(&mut self.cache_read_tokens, other.cache_read_tokens);
        add(&mut self.cache_write_tokens, other.cache_write_tokens);
        add(&mut self.reasoning_tokens, other.reasoning_tokens);
    }
}
