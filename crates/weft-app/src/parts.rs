//! The parts of an application.

use std::sync::Arc;

use futures::future::BoxFuture;
use weft_core::seam::{
    CanvasStore, ChatStore, Clock, Databases, DocumentReader, FileStore, Knowledge, ModelDirectory,
    ReadingLog, ReembeddingStore, RunStore, Sandbox, ScheduleStore, Secrets, SessionStore, SpendingStore,
    TaskStore, TokenStore, UsageStore, VersionStore, WorkQueue,
};
use weft_core::{Catalog, Result, TenantId};
use weft_engine::Engine;
use weft_knowledge::ingest::Library;
use weft_knowledge::local_documents::LocalDocuments;
use weft_knowledge::memories::ConversationMemories;
use weft_plugins::Plugins;

use crate::accounts::Accounts;
use crate::file_manager::FileManager;
use crate::metrics::Meters;
use crate::notifications::Notifications;
use crate::tool_servers::TenantServers;

/// Returns whether a model can be used: `Ok(None)` if so, `Ok(Some(notice))` if another one replaces it,
/// `Err(reason)` if not.
pub(crate) type ModelCheck = dyn Fn(&TenantId, &str) -> Result<Option<String>, String> + Send + Sync;

/// Writes pending data and closes the backends.
pub(crate) type Close = dyn Fn() -> BoxFuture<'static, Result<()>> + Send + Sync;

/// Checks that the store can be written, by writing to it.
pub(crate) type Probe = dyn Fn() -> BoxFuture<'static, Result<()>> + Send + Sync;

/// The parts of an [`App`](crate::App).
#[derive(Clone)]
pub struct Parts {
    /// Runs canvases.
    pub engine: Engine,
    /// Stores canvases.
    pub canvases: Arc<dyn CanvasStore>,
    /// Stores titles, descriptions and labels of their versions.
    pub versions: Arc<dyn VersionStore>,
    /// Stores chat assistants.
    pub chats: Arc<dyn ChatStore>,
    /// Stores sessions.
    pub sessions: Arc<dyn SessionStore>,
    /// Stores runs.
    pub runs: Arc<dyn RunStore>,
    /// Stores the usage of runs.
    pub spending: Arc<dyn SpendingStore>,
    /// Stores the usage of models, by node, user and session.
    pub uses: Arc<dyn UsageStore>,
    /// Stores tasks for people.
    pub tasks: Arc<dyn TaskStore>,
    /// Stores API keys.
    pub tokens: Arc<dyn TokenStore>,
    /// Users, tenants and access rights.
    pub accounts: Accounts,
    /// Sends notifications to people.
    pub notifications: Notifications,
    /// Secrets that canvases refer to.
    pub secrets: Arc<dyn Secrets>,
    /// Queue of runs for workers.
    pub queue: Arc<dyn WorkQueue>,
    /// Stores schedules.
    pub schedules: Arc<dyn ScheduleStore>,
    /// Memories of agents.
    pub memories: ConversationMemories,
    /// Datasets and documents, for changes.
    pub library: Arc<Library>,
    /// Outcomes of document ingestions.
    pub readings: Arc<dyn ReadingLog>,
    /// Tasks that re-embed datasets.
    pub reembeddings: Arc<dyn ReembeddingStore>,
    /// Datasets, for searches.
    pub knowledge: Arc<dyn Knowledge>,
    /// Documents next to canvases, which are searched like datasets and only known to this process.
    pub beside: LocalDocuments,
    /// Files of conversations.
    pub files: Arc<dyn FileStore>,
    /// Maximum size of such a file, in bytes.
    pub file_bytes_max: u64,
    /// Folders and files of tenants.
    pub file_manager: FileManager,
    /// Parses documents.
    pub reader: Arc<dyn DocumentReader>,
    /// External databases that canvases query.
    pub databases: Arc<dyn Databases>,
    /// Runs programs, and parses those of canvases that are checked.
    pub sandbox: Arc<dyn Sandbox>,
    /// Language models.
    pub models: Arc<dyn ModelDirectory>,
    /// Checks whether a model that a canvas names can be used.
    pub model_check: Arc<ModelCheck>,
    /// The available component types.
    pub catalog: Arc<Catalog>,
    /// MCP servers of tenants.
    pub tool_servers: TenantServers,
    /// Tools that plugins add at run time.
    pub plugins: Plugins,
    /// Metrics of the process.
    pub meters: Meters,
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
    /// Checks that the store can be written.
    pub probe: Arc<Probe>,
    /// Closes the backends.
    pub close: Arc<Close>,
}
