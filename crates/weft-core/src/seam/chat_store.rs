//! Chat assistants and search apps: who answers questions about datasets, and how.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use crate::error::Result;
use crate::id::{CanvasId, CanvasKey, TenantId};
use crate::value::Json;

/// Characters of a name, at most.
pub const NAME_CHARS_MAX: usize = 255;

/// How people talk to an assistant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ChatKind {
    /// In conversations.
    #[default]
    Assistant,
    /// In single questions: a search app.
    Search,
}

impl ChatKind {
    /// Its name in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Assistant => "assistant",
            Self::Search => "search",
        }
    }
}

/// What an assistant is like, as its clients set it. It is kept as JSON, so new members need a default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChatSettings {
    /// For people.
    pub description: String,
    /// A picture as a data URI, or nothing.
    pub icon: String,
    /// The datasets that are searched, by id.
    pub datasets: Vec<String>,
    /// The model; empty: the default one.
    pub llm_id: String,
    /// How the model answers, by the API's names.
    pub llm_setting: Map<String, Json>,
    /// Instructions, opening words, variables and switches, by the API's names.
    pub prompt_config: Map<String, Json>,
    /// Which documents are searched, by their metadata.
    pub meta_data_filter: Map<String, Json>,
    /// What a passage has to score at least.
    pub similarity_threshold: f64,
    /// The share of vectors in a score.
    pub vector_similarity_weight: f64,
    /// How many passages reach the model.
    pub top_n: u64,
    /// How many candidates are ranked.
    pub top_k: u64,
    /// The model that ranks; empty for none.
    pub rerank_id: String,
    /// The settings of a search app by the API's names, from which the others are made.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub search_config: Map<String, Json>,
}

impl Default for ChatSettings {
    fn default() -> Self {
        Self {
            description: String::new(),
            icon: String::new(),
            datasets: Vec::new(),
            llm_id: String::new(),
            llm_setting: Map::new(),
            prompt_config: Map::new(),
            meta_data_filter: Map::new(),
            similarity_threshold: 0.1,
            vector_similarity_weight: 0.3,
            top_n: 6,
            top_k: 1_024,
            rerank_id: String::new(),
            search_config: Map::new(),
        }
    }
}

/// A chat assistant.
#[derive(Clone, Debug, PartialEq)]
pub struct Chat {
    /// Which tenant it belongs to, and its id. The canvas that it is run as has the same id.
    pub key: CanvasKey,
    /// How people talk to it. That never changes.
    pub kind: ChatKind,
    /// Unique among the assistants of this kind of a tenant, without regard to case.
    pub name: String,
    /// What it is like.
    pub settings: ChatSettings,
    /// Counts the changes; a writer must know the current one.
    pub revision: i64,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// Milliseconds since 1970.
    pub updated_ms: i64,
}

/// What a list of assistants is ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChatOrder {
    /// When they were made.
    #[default]
    Created,
    /// When they were changed.
    Updated,
    /// Their names, without regard to case.
    Name,
}

/// Which assistants to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatFilter {
    /// Only this one.
    pub id: Option<CanvasId>,
    /// Only of this kind.
    pub kind: Option<ChatKind>,
    /// Only those with this name, without regard to case.
    pub name: Option<String>,
    /// Part of the name, without regard to case.
    pub keywords: String,
    /// In which order.
    pub order: ChatOrder,
    /// Smallest first instead of largest first.
    pub ascending: bool,
    /// How many to pass over.
    pub offset: u64,
    /// How many at most.
    pub limit: u64,
}

/// Where chat assistants are kept. Their conversations are sessions of the canvas with their id.
#[async_trait]
pub trait ChatStore: Send + Sync {
    /// Stores a new assistant.
    ///
    /// # Errors
    /// `Conflict` when another assistant of the tenant and of this kind has the name, or the id is taken; `Invalid` for a name that is
    /// too long.
    async fn create(&self, chat: &Chat) -> Result<()>;

    /// An assistant.
    ///
    /// # Errors
    /// `NotFound`.
    async fn get(&self, key: &CanvasKey) -> Result<Chat>;

    /// Replaces the name and the settings of an assistant that is still at the revision of `chat`, and raises the
    /// revision. Absent: somebody has changed it in the meantime, or removed it, and nothing was changed.
    ///
    /// # Errors
    /// As [`ChatStore::create`].
    async fn change(&self, chat: &Chat, now_ms: i64) -> Result<Option<Chat>>;

    /// Assistants by filter, and how many there are in all.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list(&self, tenant: &TenantId, filter: &ChatFilter) -> Result<(Vec<Chat>, u64)>;

    /// Removes an assistant; its canvas and its conversations are the caller's to remove.
    ///
    /// # Errors
    /// `NotFound`.
    async fn delete(&self, key: &CanvasKey) -> Result<()>;
}
