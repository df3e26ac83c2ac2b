//! Memories, as runs use them.

use serde::{Deserialize, Serialize};
use weft_macros::async_trait;

use crate::error::{Error, Result};
use crate::id::{MemoryId, MemoryKey, TenantId};

/// A turn of a conversation to be remembered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// The user it is about; empty for none in particular.
    pub user: String,
    /// The agent that took part in the conversation.
    pub agent: String,
    /// The conversation.
    pub session: String,
    /// What the user said.
    pub query: String,
    /// The answer.
    pub response: String,
}

/// A query to memories.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryQuery {
    /// The memories to search.
    pub memories: Vec<MemoryId>,
    /// The question.
    pub question: String,
    /// Only messages of these agents; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// Only messages of this conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Only messages of this user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Minimum score, 0 to 1.
    pub similarity_min: f64,
    /// The weight of the vector part in a score, 0 to 1; the full-text part has the rest.
    pub vector_weight: f64,
    /// Maximum number to return.
    pub limit: usize,
}

/// A message that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recalled {
    /// Its memory.
    pub memory: MemoryId,
    /// Its number within the memory.
    pub number: i64,
    /// Its content.
    pub content: String,
    /// Its score, 0 to 1.
    pub similarity: f64,
}

/// The result of a query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recollection {
    /// The messages, best first.
    pub messages: Vec<Recalled>,
    /// Notices about the search, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Maximum number of memories in one search.
pub const MEMORIES_AT_ONCE_MAX: usize = 16;

/// Memories that runs add to and search.
#[async_trait]
pub trait Memories: Send + Sync {
    /// Adds a turn to a memory. `origin` identifies its source within the tenant: a second turn with the same origin
    /// is not added.
    ///
    /// # Errors
    /// `NotFound` when the memory does not exist; otherwise when it cannot be written.
    async fn remember(&self, key: &MemoryKey, origin: &str, turn: &Turn) -> Result<()>;

    /// Returns the messages that match a question best, best first.
    ///
    /// # Errors
    /// `NotFound` when a memory does not exist, `Invalid` when the memories have vectors of different models;
    /// otherwise when the search fails.
    async fn recall(&self, tenant: &TenantId, query: &MemoryQuery) -> Result<Recollection>;
}

/// There are no memories.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMemories;

fn missing(id: &MemoryId) -> Error {
    Error::not_found(format!("there is no memory `{id}`"))
}

#[async_trait]
impl Memories for NoMemories {
    async fn remember(&self, key: &MemoryKey, _: &str, _: &Turn) -> Result<()> {
        Err(missing(&key.id))
    }

    async fn recall(&self, _: &TenantId, query: &MemoryQuery) -> Result<Recollection> {
        query.memories.first().map_or_else(|| Ok(Recollection::default()), |id| Err(missing(id)))
    }
}
