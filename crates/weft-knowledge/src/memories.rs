//! What agents remember of their conversations: turns are stored, a model extracts facts from them, and
//! questions find both.

mod extract;
mod recall;
mod worker;

use std::fmt;
use std::sync::Arc;

use tokio::sync::{Notify, Semaphore};
use weft_core::id::{MemoryKey, TenantId};
use weft_core::seam::memories::{MemoryQuery, Recollection, Turn};
use weft_core::seam::memory_store::{MESSAGE_BYTES_MAX, MessageType, NewMessage};
use weft_core::seam::{Clock, Index, Memories, MemoryStore, ModelDirectory, UsageStore};
use weft_core::usage::UsageOwner;
use weft_core::{Result, async_trait};

pub use worker::MemoryWorker;

use crate::used::WorkModels;

/// Maximum number of concurrent searches: each holds the messages of its memories.
const SEARCHES_AT_ONCE: usize = 2;

/// Stores and searches what conversations leave in memories. Clones share their limits and their workers.
#[derive(Clone)]
pub struct ConversationMemories {
    /// The store of the memories.
    pub store: Arc<dyn MemoryStore>,
    models: Arc<dyn ModelDirectory>,
    clock: Arc<dyn Clock>,
    /// Creates an empty index in memory.
    index: fn() -> Arc<dyn Index>,
    searches: Arc<Semaphore>,
    /// Wakes up a worker of this process.
    wake: Arc<Notify>,
    uses: Option<Arc<dyn UsageStore>>,
}

impl fmt::Debug for ConversationMemories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConversationMemories").finish_non_exhaustive()
    }
}

impl ConversationMemories {
    /// Creates memories in a store, with models that extract facts from turns and compute vectors. `index`
    /// creates an empty index in memory.
    pub fn new(
        store: Arc<dyn MemoryStore>,
        models: Arc<dyn ModelDirectory>,
        clock: Arc<dyn Clock>,
        index: fn() -> Arc<dyn Index>,
    ) -> Self {
        let searches = Arc::new(Semaphore::new(SEARCHES_AT_ONCE));
        Self { store, models, clock, index, searches, wake: Arc::default(), uses: None }
    }

    /// Returns the memories with usage tracking: the model usage of extractions is reported to `uses`.
    #[must_use]
    pub fn noting_usage(self, uses: Arc<dyn UsageStore>) -> Self {
        Self { uses: Some(uses), ..self }
    }

    /// Returns the models for work on a turn, with usage tracking.
    fn models_for(&self, memory: &MemoryKey) -> WorkModels {
        let owner = UsageOwner::Memory(memory.clone());
        WorkModels::new(Arc::clone(&self.models), self.uses.clone(), owner)
    }
}

/// Returns the text of a turn. If it is too long, both sides are truncated.
fn text(turn: &Turn) -> String {
    let (said, answered) = ("User Input: ", "\nAgent Response: ");
    let room = MESSAGE_BYTES_MAX - said.len() - answered.len();
    let (query, response) = (turn.query.trim(), turn.response.trim());
    // Each side gets half of the room, plus what the other one leaves unused.
    let query_room = room.saturating_sub(response.len()).max(room / 2);
    let query = &query[..query.floor_char_boundary(query_room)];
    let response = &response[..response.floor_char_boundary(room - query.len())];
    format!("{said}{query}{answered}{response}")
}

#[async_trait]
impl Memories for ConversationMemories {
    async fn remember(&self, key: &MemoryKey, origin: &str, turn: &Turn) -> Result<()> {
        let now_ms = self.clock.now_ms();
        let message = NewMessage {
            kind: MessageType::Raw,
            user: turn.user.clone(),
            agent: turn.agent.clone(),
            session: turn.session.clone(),
            content: text(turn),
            vector: Vec::new(),
            valid_ms: now_ms,
            invalid_ms: None,
        };
        self.store.add(key, origin, &message, now_ms).await?;
        // After it is stored: a worker that is woken up looks there.
        self.wake.notify_one();
        Ok(())
    }

    async fn recall(&self, tenant: &TenantId, query: &MemoryQuery) -> Result<Recollection> {
        self.find(tenant, query).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_both_sides_and_is_bounded() {
        let turn = |query: &str, response: &str| Turn {
            query: query.to_owned(),
            response: response.to_owned(),
            ..Turn::default()
        };
        assert_eq!(text(&turn(" Hi ", "Hello\n")), "User Input: Hi\nAgent Response: Hello");
        let long = "ü".repeat(MESSAGE_BYTES_MAX);
        for (query, response) in
            [(long.as_str(), long.as_str()), (&long, "short"), ("short", &long), (&long, "")]
        {
            let text = text(&turn(query, response));
            assert!(text.len() <= MESSAGE_BYTES_MAX && text.len() > MESSAGE_BYTES_MAX - 8, "{}", text.len());
            assert!(query == long || text.contains("short"));
            assert!(response == long || text.ends_with(response));
        }
    }
}
