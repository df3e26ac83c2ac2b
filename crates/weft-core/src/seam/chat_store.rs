//! Chat assistants and search apps, which answer questions about datasets, and their settings.

use serde::{Deserialize, Serialize};
use serde_json::Map;
use weft_macros::async_trait;

use crate::error::Result;
use crate::id::{CanvasId, CanvasKey, TenantId};
use crate::value::Json;

/// Maximum length of a name, in characters.
pub const NAME_CHARS_MAX: usize = 255;

/// How people use an assistant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ChatKind {
    /// In conversations.
    #[default]
    Assistant,
    /// In single questions: a search app.
    Search,
}

impl ChatKind {
    /// Returns its name in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Assistant => "assistant",
            Self::Search => "search",
        }
    }
}

/// The settings of an assistant. They are stored as JSON, so new members need a default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChatSettings {
    /// A description for people.
    pub description: String,
    /// A picture as a data URI, or empty.
    pub icon: String,
    /// The datasets that are searched, by id.
    pub datasets: Vec<String>,
    /// The model; empty means the default.
    pub llm_id: String,
    /// The model's settings, by their names in the API.
    pub llm_setting: Map<String, Json>,
    /// Instructions, opening message, variables and switches, by their names in the API.
    pub prompt_config: Map<String, Json>,
    /// A filter on the metadata of the documents to search.
    pub meta_data_filter: Map<String, Json>,
    /// Minimum score of a passage.
    pub similarity_threshold: f64,
    /// The weight of the vector part in a score.
    pub vector_similarity_weight: f64,
    /// Number of passages passed to the model.
    pub top_n: u64,
    /// Number of candidates to rank.
    pub top_k: u64,
    /// The reranking model; empty for none.
    pub rerank_id: String,
    /// The settings of a search app, by their names in the API; the other settings are derived from them.
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
    /// Its tenant and id. The canvas that runs it has the same id.
    pub key: CanvasKey,
    /// How people use it. Never changes.
    pub kind: ChatKind,
    /// Its name, unique among the assistants of this kind in a tenant, ignoring case.
    pub name: String,
    /// Its settings.
    pub settings: ChatSettings,
    /// Counts the changes; a writer must supply the current value.
    pub revision: i64,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it was last changed, in milliseconds since 1970.
    pub updated_ms: i64,
}

/// The sort order of a list of assistants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChatOrder {
    /// By when they were created.
    #[default]
    Created,
    /// By when they were last changed.
    Updated,
    /// By name, ignoring case.
    Name,
}

/// Which assistants to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatFilter {
    /// Only this one.
    pub id: Option<CanvasId>,
    /// Only of this kind.
    pub kind: Option<ChatKind>,
    /// Only those with this name, ignoring case.
    pub name: Option<String>,
    /// Part of the name, ignoring case.
    pub keywords: String,
    /// The sort order.
    pub order: ChatOrder,
    /// Smallest first instead of largest first.
    pub ascending: bool,
    /// How many to skip.
    pub offset: u64,
    /// Maximum number to return.
    pub limit: u64,
}

/// Stores chat assistants. Their conversations are sessions of the canvas with their id.
#[async_trait]
pub trait ChatStore: Send + Sync {
    /// Stores a new assistant.
    ///
    /// # Errors
    /// `Conflict` when another assistant of this kind in the tenant has the name, or the id is taken; `Invalid` for a
    /// name that is too long; `QuotaExceeded` for one too many.
    async fn create(&self, chat: &Chat) -> Result<()>;

    /// Returns an assistant.
    ///
    /// # Errors
    /// `NotFound`.
    async fn get(&self, key: &CanvasKey) -> Result<Chat>;

    /// Replaces the name and the settings of an assistant if it is still at the revision of `chat`, and increments
    /// the revision. `None`: it has been changed or removed in the meantime, and nothing was changed.
    ///
    /// # Errors
    /// As [`ChatStore::create`].
    async fn change(&self, chat: &Chat, now_ms: i64) -> Result<Option<Chat>>;

    /// Returns assistants that match a filter, and their total number.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list(&self, tenant: &TenantId, filter: &ChatFilter) -> Result<(Vec<Chat>, u64)>;

    /// Removes an assistant. Removing its canvas and its conversations is up to the caller.
    ///
    /// # Errors
    /// `NotFound`.
    async fn delete(&self, key: &CanvasKey) -> Result<()>;
}
