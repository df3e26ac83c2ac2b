//! Memories that last beyond one conversation.

mod local;
mod mem0;
mod request;

use serde::{Deserialize, Serialize};
use weft_core::{Error, Result, async_trait};

pub use local::{LocalMemory, MEMORIES_MAX, MEMORY_BYTES_MAX};
pub use mem0::Mem0;
pub use request::asked_to_remember;

/// The owner of memories. At least one of the three ids has to be set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// The user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

impl Owner {
    /// Creates the owner of what is remembered about a user, in all conversations and by all agents.
    pub fn user(id: impl Into<String>) -> Self {
        Self { user_id: Some(id.into()), ..Self::default() }
    }

    /// Checks that at least one id is set.
    ///
    /// # Errors
    /// `Invalid` when none is.
    pub fn check(&self) -> Result<()> {
        let ids = [&self.user_id, &self.agent_id, &self.run_id];
        if ids.into_iter().flatten().any(|id| !id.is_empty()) {
            return Ok(());
        }
        Err(Error::invalid("the memory has no owner").help("set a user, an agent or a run"))
    }
}

/// How a text is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storing {
    /// Verbatim.
    #[default]
    Verbatim,
    /// As the facts that the store extracts from it.
    Inferred,
}

/// A stored memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remembered {
    /// Its id in the store.
    pub id: String,
    /// Its text.
    #[serde(alias = "memory")]
    pub text: String,
    /// How well it matches the query; larger is better, and scores are comparable only within one answer.
    #[serde(default)]
    pub score: f64,
}

/// A store of memories.
#[async_trait]
pub trait LongTermMemory: Send + Sync {
    /// Stores a text. Returns the ids of the resulting memories, of which there may be none.
    ///
    /// # Errors
    /// `Invalid` without an owner, otherwise the errors of the store.
    async fn add(&self, owner: &Owner, text: &str, storing: Storing) -> Result<Vec<String>>;

    /// Returns the memories of this owner that best match a question, up to `limit`.
    ///
    /// # Errors
    /// As for [`LongTermMemory::add`].
    async fn search(&self, owner: &Owner, query: &str, limit: usize) -> Result<Vec<Remembered>>;
}
