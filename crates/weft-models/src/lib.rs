//! canvas JSON → plan → run → **components' language models** → events → API
//!
//! Everything that answers messages, behind the one seam `ChatModel`. [`Directory`] finds models by the `llm_id` of a
//! canvas; [`discover`] finds the available ones when none is configured.

mod answer_form;
mod cache;
mod config;
mod deadlines;
mod directory;
mod discover;
pub mod estimate;
mod extractive;
mod factories;
mod failure;
mod fallback;
mod inline_tags;
pub mod installed;
#[cfg(feature = "local-embedder")]
mod local;
mod native;
mod offer;
mod openai;
mod opening;
mod pictures;
mod remote;
mod retrieval;
pub mod retrying;
mod sampling;
pub mod script;
pub mod scripted;
mod secret;
mod sent_tokens;
mod speech;
mod sse;
mod tool_images;
mod tool_search;
mod vectors;

pub use cache::{AnswerCache, CacheConfig, Cached};
pub use config::{ModelEntry, ModelsConfig, OneServer, StructuredOutput};
pub use deadlines::{AnswerDeadlines, Deadlines};
pub use directory::Directory;
pub use discover::{Discovered, FoundKeys, LocalServer, discover, probe_local};
pub use extractive::Extractive;
pub use factories::Provider;
#[cfg(feature = "local-embedder")]
pub use local::{LocalEmbedder, LocalReranker};
pub use retrying::{RetryPolicy, Retrying};
pub use script::{Reply, Script, Step};
pub use scripted::ScriptedModel;
pub use secret::Secret;
pub use weft_core::seam::chat_model::{ModelKind, Prices};

/// Maximum number of calls in one answer.
// More than any model intends; a server that endlessly repeats a call would fill the memory.
pub(crate) const CALLS_MAX: usize = 128;

/// The id of call number `at` of a conversation, counted from 0, for providers that send none.
pub(crate) fn call_id(at: usize) -> String {
    format!("call_{}", at + 1)
}
