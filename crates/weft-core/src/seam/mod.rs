//! The traits that separate the engine from the outside world. Each states what an implementation must guarantee.

pub mod audit_store;
pub mod blob_store;
pub mod browser;
pub mod canvas_store;
pub mod chat_model;
pub mod chat_store;
pub mod clock;
pub mod conversations;
pub mod databases;
pub mod dataset_store;
pub mod document_reader;
pub mod document_writer;
pub mod embedder;
pub mod file_store;
pub mod folder_store;
pub mod http;
pub mod identity_store;
pub mod index;
pub mod ingest_queue;
pub mod knowledge;
pub mod mailer;
pub mod memories;
pub mod memory_store;
pub mod notice_store;
pub mod picture_reader;
pub mod process_store;
pub mod reading_log;
pub mod reembedding_store;
pub mod reranker;
pub mod run_messages;
pub mod run_store;
pub mod sandbox;
pub mod schedule_store;
pub mod secrets;
pub mod session_store;
pub mod share_store;
pub mod speech;
pub mod spending_store;
pub mod task_store;
pub mod tenant_store;
pub mod token_store;
pub mod tool_credentials;
pub mod tool_server_store;
pub mod tool_source;
pub mod usage_store;
pub mod user_store;
pub mod version_store;
pub mod work_queue;
pub mod workspace;

use std::fmt;
use std::sync::Arc;

pub use audit_store::AuditStore;
pub use blob_store::BlobStore;
pub use browser::Browser;
pub use canvas_store::CanvasStore;
pub use chat_model::{ChatModel, ModelDirectory};
pub use chat_store::ChatStore;
pub use clock::Clock;
pub use conversations::Conversations;
pub use databases::Databases;
pub use dataset_store::DatasetStore;
pub use document_reader::DocumentReader;
pub use document_writer::DocumentWriter;
pub use embedder::Embedder;
pub use file_store::FileStore;
pub use folder_store::FolderStore;
pub use http::Http;
pub use identity_store::IdentityStore;
pub use index::Index;
pub use ingest_queue::IngestQueue;
pub use knowledge::Knowledge;
pub use mailer::Mailer;
pub use memories::Memories;
pub use memory_store::MemoryStore;
pub use notice_store::NoticeStore;
pub use picture_reader::PictureReader;
pub use process_store::ProcessStore;
pub use reading_log::ReadingLog;
pub use reembedding_store::ReembeddingStore;
pub use reranker::Reranker;
pub use run_messages::RunMessages;
pub use run_store::RunStore;
pub use sandbox::Sandbox;
pub use schedule_store::ScheduleStore;
pub use secrets::Secrets;
pub use session_store::SessionStore;
pub use share_store::ShareStore;
pub use speech::{SpeechModel, TranscriptionModel};
pub use spending_store::SpendingStore;
pub use task_store::TaskStore;
pub use tenant_store::TenantStore;
pub use token_store::TokenStore;
pub use tool_credentials::ToolCredentials;
pub use tool_server_store::ToolServerStore;
pub use tool_source::ToolSource;
pub use usage_store::UsageStore;
pub use user_store::UserStore;
pub use version_store::VersionStore;
pub use work_queue::WorkQueue;
pub use workspace::Workspace;

/// The services outside the engine that components may use.
#[derive(Clone)]
pub struct Seams {
    /// Language models, looked up by `llm_id`.
    pub models: Arc<dyn ModelDirectory>,
    /// The only way to make HTTP requests.
    pub http: Arc<dyn Http>,
    /// The documents that can be searched.
    pub knowledge: Arc<dyn Knowledge>,
    /// What agents remember from their conversations.
    pub memories: Arc<dyn Memories>,
    /// The messages of past conversations.
    pub conversations: Arc<dyn Conversations>,
    /// The tools of MCP servers.
    pub tools: Arc<dyn ToolSource>,
    /// Files that agents read and write.
    pub workspace: Arc<dyn Workspace>,
    /// Runs programs in isolation.
    pub sandbox: Arc<dyn Sandbox>,
    /// The files of conversations.
    pub files: Arc<dyn FileStore>,
    /// Reads files and splits them into chunks.
    pub reader: Arc<dyn DocumentReader>,
    /// Writes documents and reads tables.
    pub documents: Arc<dyn DocumentWriter>,
    /// External databases.
    pub databases: Arc<dyn Databases>,
    /// Web browsers.
    pub browser: Arc<dyn Browser>,
    /// E-mail.
    pub mailer: Arc<dyn Mailer>,
    /// The secrets that canvases name.
    pub secrets: Arc<dyn Secrets>,
    /// The current time.
    pub clock: Arc<dyn Clock>,
}

impl Seams {
    /// HTTP and a clock: every other service refuses what it is asked, or has nothing.
    pub fn without_services(http: Arc<dyn Http>, clock: Arc<dyn Clock>) -> Self {
        Self {
            models: Arc::new(chat_model::NoModels),
            http,
            knowledge: Arc::new(knowledge::NoKnowledge),
            memories: Arc::new(memories::NoMemories),
            conversations: Arc::new(conversations::NoConversations),
            tools: Arc::new(tool_source::NoTools),
            workspace: Arc::new(workspace::NoWorkspace),
            sandbox: Arc::new(sandbox::NoSandbox),
            files: Arc::new(file_store::NoFiles),
            documents: Arc::new(document_writer::NoWriter),
            databases: Arc::new(databases::NoDatabases),
            browser: Arc::new(browser::NoBrowser),
            reader: Arc::new(document_reader::NoReader),
            mailer: Arc::new(mailer::NoMailer),
            secrets: Arc::new(secrets::NoSecrets),
            clock,
        }
    }
}

impl fmt::Debug for Seams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seams").finish_non_exhaustive()
    }
}
