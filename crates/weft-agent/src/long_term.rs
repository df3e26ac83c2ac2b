//! What is remembered beyond one conversation.

mod local;
mod mem0;
mod request;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use weft_core::{Error, Result};

pub use local::{LocalMemory, MEMORIES_MAX, MEMORY_BYTES_MAX};
pub use mem0::Mem0;
pub use request::asked_to_remember;

/// Whose memories they are. One of the three has to be there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// The person who is talked to.
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
    /// A person.
    pub fn user(id: impl Into<String>) -> Self {
        Self { user_id: Some(id.into()), ..Self::default() }
    }

    /// Whether it names anybody.
    ///
    /// # Errors
    /// `Invalid` when it does not.
    pub fn check(&self) -> Result<()> {
        let ids = [&self.user_id, &self.agent_id, &self.run_id];
        if ids.into_iter().flatten().any(|id| !id.is_empty()) {
            return Ok(());
        }
        Err(Error::invalid("nobody is named whose memory it is").help("give a user, an agent or a run"))
    }
}

/// How what is to be remembered is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storing {
    /// Word by word.
    #[default]
    Verbatim,
    /// As the facts that the store finds in it.
    Inferred,
}

/// Something that is remembered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remembered {
    /// What the store calls it.
    pub id: String,
    /// What it says.
    #[serde(alias = "memory")]
    pub text: String,
    /// How well it fits what was looked for; larger is better, and scores compare within one answer only.
    #[serde(default)]
    pub score: f64,
}

/// A store of memories.
#[async_trait]
pub trait LongTermMemory: Send + Sync {
    /// Remembers a text. The ids of what was made of it, which may be nothing.
    ///
    /// # Errors
    /// `Invalid` without an owner, otherwise what the store fails with.
    async fn add(&self, owner: &Owner, text: &str, storing: Storing) -> Result<Vec<String>>;

    /// What fits a question best, at most `limit` of what this owner has.
    ///
    /// # Errors
    /// As [`LongTermMemory::add`].
    async fn search(&self, owner: &Owner, query: &str, limit: usize) -> Result<Vec<Remembered>>;
}
