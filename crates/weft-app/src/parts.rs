//! What an application is made of.

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

/// Says whether a model can be used: `Ok(None)` if so, `Ok(Some(notice))` if another one stands in
/// for it, `Err(reason)` if not.
pub(crate) type ModelCheck = dyn Fn(&TenantId, &str) -> Result<Option<String>, String> + Send + Sync;

/// Writes what waits to be written and lets go of the backends.
pub(crate) type Close = dyn Fn() -> BoxFuture<'static, Result<()>> + Send + Sync;

/// Writes to the store, and says whether that could be done.
pub(crate) type Probe = dyn Fn() -> BoxFuture<'static, Result<()>> + Send + Sync;

/// What an [`App`](crate::App) is made of.
pub struct Parts {
    /// Runs canvases.
    pub engine: Engine,
    /// Where canvases are.
    pub canvases: Arc<dyn CanvasStore>,
    /// What is said about their versions.
    pub versions: Arc<dyn VersionStore>,
    /// Where chat assistants are.
    pub chats: Arc<dyn ChatStore>,
    /// Where sessions are.
    pub sessions: Arc<dyn SessionStore>,
    /// Where runs are.
    pub runs: Arc<dyn RunStore>,
    /// What runs have used.
    pub spending: Arc<dyn SpendingStore>,
    /// The same of models, by node, user and session.
    pub uses: Arc<dyn UsageStore>,
    /// What people are asked.
    pub tasks: Arc<dyn TaskStore>,
    /// Where tokens are.
    pub tokens: Arc<dyn TokenStore>,
    /// Users, tenants and who may do what there.
    pub accounts: Accounts,
    /// Tells people what they have not asked for.
    pub notifications: Notifications,
    /// Secrets that canvases name.
    pub secrets: Arc<dyn Secrets>,
    /// Where runs wait for a worker.
    pub queue: Arc<dyn WorkQueue>,
    /// Where schedules are.
    pub schedules: Arc<dyn ScheduleStore>,
    /// What agents remember of their conversations.
    pub memories: ConversationMemories,
    /// Datasets with their documents, to be changed.
    pub library: Arc<Library>,
    /// What has become of readings of documents.
    pub readings: Arc<dyn ReadingLog>,
    /// Tasks that make the vectors of datasets anew.
    pub reembeddings: Arc<dyn ReembeddingStore>,
    /// Datasets, to be asked.
    pub knowledge: Arc<dyn Knowledge>,
    /// Documents beside canvases, which are searched like datasets and kept by this process alone.
    pub beside: LocalDocuments,
    /// Files of conversations.
    pub files: Arc<dyn FileStore>,
    /// Bytes that one of them may have.
    pub file_bytes_max: u64,
    /// Folders of tenants with files in them.
    pub file_manager: FileManager,
    /// Reads files.
    pub reader: Arc<dyn DocumentReader>,
    /// Databases of others that canvases ask.
    pub databases: Arc<dyn Databases>,
    /// Runs programs, and parses those of canvases that are checked.
    pub sandbox: Arc<dyn Sandbox>,
    /// Language models.
    pub models: Arc<dyn ModelDirectory>,
    /// Whether a model that a canvas names can be used.
    pub model_check: Arc<ModelCheck>,
    /// What canvases may be made of.
    pub catalog: Arc<Catalog>,
    /// MCP servers of tenants.
    pub tool_servers: TenantServers,
    /// Tools that were added without a new build.
    pub plugins: Plugins,
    /// What is counted for whoever looks after the process.
    pub meters: Meters,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Says whether the store can be written.
    pub probe: Arc<Probe>,
    /// Lets go of the backends.
    pub close: Arc<Close>,
}
