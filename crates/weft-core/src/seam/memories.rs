//! Memories, as runs use them.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::id::{MemoryId, MemoryKey, TenantId};

/// A turn of a conversation, to be remembered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// The user it is about; empty: nobody in particular.
    pub user: String,
    /// The agent that was spoken to.
    pub agent: String,
    /// The conversation.
    pub session: String,
    /// What the user said.
    pub query: String,
    /// What was answered.
    pub response: String,
}

/// What to look for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryQuery {
    /// In these memories.
    pub memories: Vec<MemoryId>,
    /// The question.
    pub question: String,
    /// Only what is of these agents; empty: of all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// Only what is of this conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Only what is of this user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The smallest score that counts, 0 to 1.
    pub similarity_min: f64,
    /// The share of the vectors in a score, 0 to 1; words have the rest.
    pub vector_weight: f64,
    /// How many to give, at most.
    pub limit: usize,
}

/// A message that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recalled {
    /// Its memory.
    pub memory: MemoryId,
    /// Its number there.
    pub number: i64,
    /// What it says.
    pub content: String,
    /// How well it fits, 0 to 1.
    pub similarity: f64,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recollection {
    /// Best first.
    pub messages: Vec<Recalled>,
    /// What people should know about the search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Memories that one search looks at, at most.
pub const MEMORIES_AT_ONCE_MAX: usize = 16;

/// Memories that runs add to and search.
#[async_trait]
pub trait Memories: Send + Sync {
    /// Remembers a turn. `origin` names what it comes from within the tenant: the same one again adds nothing.
    ///
    /// # Errors
    /// `NotFound` when the memory is not there; otherwise when it cannot be written.
    async fn remember(&self, key: &MemoryKey, origin: &str, turn: &Turn) -> Result<()>;

    /// What fits a question best, best first.
    ///
    /// # Errors
    /// `NotFound` when a memory is not there, `Invalid` when they have vectors of different models;
    /// otherwise when the search fails.
    async fn recall(&self, tenant: &TenantId, query: &MemoryQuery) -> Result<Recollection>;
}

/// Where there are none.
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
