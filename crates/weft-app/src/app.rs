//! What people do with canvases, as calls that the HTTP routes and the command line share.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::task::TaskTracker;
use weft_core::seam::canvas_store::{CHAT_TYPE, CanvasHead, PIPELINE_TYPE, StoredCanvas};
use weft_core::seam::session_store::{Session, SessionMessage};
use weft_core::seam::{
    CanvasStore, ChatStore, Clock, Databases, DatasetStore, DocumentReader, FileStore, Knowledge,
    ModelDirectory, ReadingLog, ReembeddingStore, RunStore, Sandbox, ScheduleStore, Secrets, SessionStore,
    SpendingStore, TaskStore, TokenStore, UsageStore, VersionStore, WorkQueue,
};
use weft_core::{
    CanvasId, CanvasKey, Catalog, Result, RunId, RunKey, SessionId, SessionKey, TaskKey, TenantId, TurnInput,
};
use weft_dsl::{Plan, Problem};
use weft_engine::{Engine, RunHandle, SessionState, StartRun};
use weft_knowledge::ingest::Library;
use weft_knowledge::local_documents::LocalDocuments;
use weft_knowledge::memories::ConversationMemories;
use weft_plugins::Plugins;

use crate::accounts::Accounts;
use crate::checking::{Purpose, refusal};
use crate::config::LimitsConfig;
use crate::file_manager::FileManager;
use crate::metrics::Meters;
use crate::new_session::{NewSession, Said, messages};
use crate::notifications::Notifications;
use crate::parts::{Close, ModelCheck, Parts, Probe};
use crate::plans::{Plans, compact};
use crate::tokens;
use crate::tool_servers::TenantServers;
use crate::turns::Lines;

/// Whose everything is as long as nobody asks for more tenants.
pub const DEFAULT_TENANT: &str = "default";

/// Everything Weft can do, put together. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct App {
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
    /// Datasets with their documents, to be read. They are changed in the library.
    pub datasets: Arc<dyn DatasetStore>,
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
    pub(crate) reader: Arc<dyn DocumentReader>,
    /// Databases of others that canvases ask.
    pub(crate) databases: Arc<dyn Databases>,
    /// Parses programs of canvases that are checked.
    pub sandbox: Arc<dyn Sandbox>,
    /// Language models.
    pub models: Arc<dyn ModelDirectory>,
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
    /// What runs and requests may use.
    pub limits: LimitsConfig,
    /// The questions that wait for their sessions.
    pub(crate) lines: Arc<Lines>,
    /// Which uses of tokens have been noted.
    pub token_uses: Arc<tokens::Uses>,
    /// Wakes the workers of this process when there is something to do.
    pub(crate) wake: Arc<Notify>,
    /// What goes to its end whoever waits for it.
    pub(crate) unfinished: TaskTracker,
    pub(crate) model_check: Arc<ModelCheck>,
    pub(crate) plans: Arc<Plans>,
    pub(crate) measuring: bool,
    probe: Arc<Probe>,
    close: Arc<Close>,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl App {
    /// An app of these parts.
    pub fn new(parts: Parts, limits: LimitsConfig) -> Self {
        Self {
            engine: parts.engine,
            canvases: parts.canvases,
            versions: parts.versions,
            chats: parts.chats,
            sessions: parts.sessions,
            runs: parts.runs,
            spending: parts.spending,
            uses: parts.uses,
            tasks: parts.tasks,
            tokens: parts.tokens,
            accounts: parts.accounts,
            notifications: parts.notifications,
            secrets: parts.secrets,
            queue: parts.queue,
            schedules: parts.schedules,
            memories: parts.memories,
            datasets: Arc::clone(parts.library.store()),
            library: parts.library,
            readings: parts.readings,
            reembeddings: parts.reembeddings,
            knowledge: parts.knowledge,
            beside: parts.beside,
            files: parts.files,
            file_bytes_max: parts.file_bytes_max,
            file_manager: parts.file_manager,
            reader: parts.reader,
            databases: parts.databases,
            sandbox: parts.sandbox,
            models: parts.models,
            catalog: parts.catalog,
            tool_servers: parts.tool_servers,
            plugins: parts.plugins,
            meters: parts.meters,
            clock: parts.clock,
            lines: Arc::default(),
            token_uses: Arc::default(),
            wake: Arc::default(),
            unfinished: TaskTracker::new(),
            model_check: parts.model_check,
            plans: Arc::new(Plans::new(limits.plans_kept)),
            measuring: false,
            probe: parts.probe,
            close: parts.close,
            limits,
        }
    }

    /// The same app with the components that only serve for measuring.
    #[must_use]
    pub fn for_measuring(self) -> Self {
        Self { measuring: true, plans: Arc::new(Plans::new(self.limits.plans_kept)), ..self }
    }

    /// Stores a canvas, new or changed, and says what was found in it. A canvas with errors is stored
    /// all the same; it cannot run.
    ///
    /// # Errors
    /// `Invalid` when the text is no JSON object, `Conflict` when another canvas has the title.
    pub async fn put_canvas(
        &self,
        tenant: &TenantId,
        id: Option<CanvasId>,
        head: CanvasHead,
        dsl: &str,
    ) -> Result<(StoredCanvas, Vec<Problem>)> {
        let (head, compact) = storable(head, dsl).await?;
        let key = CanvasKey::new(tenant, id.unwrap_or_else(CanvasId::generate));
        let stored = self.canvases.put(&key, &head, &compact).await?;
        self.with_problems(stored).await
    }

    /// The same for a canvas that was compiled already, with the plan that came of it: it is not looked at once more. A
    /// title that another canvas has gets a number.
    ///
    /// # Errors
    /// As [`App::put_canvas`].
    pub async fn put_checked(
        &self,
        key: &CanvasKey,
        head: CanvasHead,
        dsl: &str,
        plan: Plan,
    ) -> Result<StoredCanvas> {
        let (head, compact) = storable(head, dsl).await?;
        let stored = self.put_under_free_title(key, &head, &compact).await?;
        // The plan of another text is none of this one, which is then compiled when it is asked for.
        if plan.version == stored.version {
            self.keep(&stored.key, &stored.version, plan);
        }
        Ok(stored)
    }

    /// As [`App::put_canvas`] for a canvas that is still what was `seen`. Absent: somebody has stored it in the meantime, or removed it,
    /// and nothing was changed.
    ///
    /// # Errors
    /// As [`App::put_canvas`].
    pub async fn change_canvas(
        &self,
        seen: &StoredCanvas,
        head: CanvasHead,
        dsl: &str,
    ) -> Result<Option<(StoredCanvas, Vec<Problem>)>> {
        let (head, compact) = storable(head, dsl).await?;
        match self.canvases.change(seen, &head, &compact).await? {
            Some(stored) => self.with_problems(stored).await.map(Some),
            None => Ok(None),
        }
    }

    async fn with_problems(&self, stored: StoredCanvas) -> Result<(StoredCanvas, Vec<Problem>)> {
        let problems = match self.compiled(&stored.key.tenant, Arc::clone(&stored.dsl), Purpose::Tell).await?
        {
            Ok((plan, warnings)) => {
                self.keep(&stored.key, &stored.version, plan);
                warnings
            }
            Err(problems) => problems,
        };
        Ok((stored, problems))
    }

    /// A version of a canvas, checked and ready to run.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` that lists everything that keeps it from running.
    pub async fn plan(&self, key: &CanvasKey, version: &str) -> Result<Arc<Plan>> {
        let version: Arc<str> = version.into();
        if let Some(plan) = self.plans.get(key, &version) {
            return Ok(plan);
        }
        let dsl = self.canvases.version(key, &version).await?;
        let (plan, _) =
            self.compiled(&key.tenant, dsl, Purpose::Run).await?.map_err(|problems| refusal(&problems))?;
        Ok(self.keep(key, &version, plan))
    }

    /// Begins a conversation with the newest version of a canvas; its opening words are its first
    /// message.
    ///
    /// # Errors
    /// `NotFound` for an unknown canvas, `Invalid` for one with errors, `Conflict` when the id is
    /// taken.
    pub async fn open_session(
        &self,
        canvas: &CanvasKey,
        user_id: &str,
        id: Option<SessionId>,
    ) -> Result<Session> {
        self.open_session_on(canvas, NewSession { user_id, id, ..NewSession::default() }, "latest").await
    }

    /// The same with all that can be said of a session, on a version that is named as [`App::find_version`] has it.
    ///
    /// # Errors
    /// As [`App::open_session`].
    pub async fn open_session_on(
        &self,
        canvas: &CanvasKey,
        new: NewSession<'_>,
        version: &str,
    ) -> Result<Session> {
        let version = self.find_version(canvas, version).await?;
        let plan = self.plan(canvas, &version).await?;
        let now_ms = self.clock.now_ms();
        let session = new.session(canvas, &plan.version, SessionState::new(&plan), now_ms)?;
        self.sessions.create(&session, &opening(&plan, new.before, now_ms)).await?;
        self.stays_with_canvas(canvas, &session.key).await?;
        Ok(session)
    }

    /// Starts a turn of a session: a new one, or what a waiting one goes on with. Waits of it that are over
    /// without an answer are dealt with before.
    ///
    /// # Errors
    /// `NotFound` for an unknown session, `Conflict` while another turn of it runs, `Invalid` for a
    /// canvas with errors, `RateLimited` when too many runs are under way.
    pub async fn start_turn(&self, session: &SessionKey, input: TurnInput) -> Result<RunHandle> {
        let session = self.sessions.load(session).await?;
        self.start_turn_of(&session, input).await
    }

    /// The same for a session that was loaded already.
    ///
    /// # Errors
    /// As [`App::start_turn`].
    pub async fn start_turn_of(&self, session: &Session, input: TurnInput) -> Result<RunHandle> {
        let input = self.with_files_read(&session.key, input).await?;
        self.start_turn_read(RunId::generate(), session, input, None).await
    }

    /// The same when the files that come along are read already; for a task only as long as that is open.
    pub(crate) async fn start_turn_read(
        &self,
        id: RunId,
        session: &Session,
        input: TurnInput,
        task: Option<&TaskKey>,
    ) -> Result<RunHandle> {
        if session.state.get("paused").is_some_and(|paused| !paused.is_null()) {
            // Most turns have nothing to wait for before them, and need no room for it.
            Box::pin(self.time_out_before(session)).await?;
        }
        let canvas = CanvasKey::new(&session.key.tenant, session.canvas.clone());
        let plan = if session.canvas_version.is_empty() {
            Box::pin(self.plan_of_chat(&canvas, &input)).await?
        } else {
            self.plan(&canvas, &session.canvas_version).await?
        };
        let (key, task) = (session.key.clone(), task.map(|task| task.id.clone()));
        let request = StartRun { plan, canvas: canvas.id, session: key, input, seed: None, task };
        self.engine.start_of(id, request, Some(session)).await
    }

    /// Asks a run to stop, named by its own id or by its session's, whichever process works on it. Whether
    /// there was one that has not ended.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub async fn cancel(&self, tenant: &TenantId, id: &str) -> Result<bool> {
        Ok(self.engine.cancel(&RunKey::new(tenant, id)).await?
            || self.engine.cancel_session(&SessionKey::new(tenant, id)).await?)
    }

    /// Whether the store can be written now.
    ///
    /// # Errors
    /// When it cannot.
    pub async fn probe(&self) -> Result<()> {
        (self.probe)().await
    }

    /// Lets runs finish for `grace`, hands over the rest, and closes the store.
    ///
    /// # Errors
    /// When the store cannot be closed.
    pub async fn shut_down(&self, grace: Duration) -> Result<()> {
        self.engine.shut_down(grace).await;
        self.unfinished.close();
        // Whoever sends a file too slowly is not waited for.
        if tokio::time::timeout(grace, self.unfinished.wait()).await.is_err() {
            tracing::warn!("some requests had not ended, and may have left something behind");
        }
        self.library.close().await;
        // The store goes last: what ends before it may still write there.
        (self.close)().await
    }

    pub(crate) fn keep(&self, key: &CanvasKey, version: &Arc<str>, mut plan: Plan) -> Arc<Plan> {
        // Sessions name a version as the store does.
        plan.version = Arc::clone(version);
        let plan = Arc::new(plan);
        self.plans.keep(key, version, &plan);
        plan
    }

    /// Whether there is a language model with an id.
    pub fn check_model(&self, tenant: &TenantId, llm_id: &str) -> Result<(), String> {
        (self.model_check)(tenant, llm_id).map(drop)
    }
}

/// The messages that a conversation begins with: what was said before, else the opening words.
fn opening(plan: &Plan, before: &[Said], now_ms: i64) -> Vec<SessionMessage> {
    if before.is_empty() && !plan.prologue.is_empty() {
        return messages(&[("assistant", plan.prologue.clone())], now_ms);
    }
    messages(before, now_ms)
}

/// A canvas as it is stored: without spaces, and under the heading that its drawing says.
async fn storable(mut head: CanvasHead, dsl: &str) -> Result<(CanvasHead, Arc<str>)> {
    let compact: Arc<str> = compact(dsl)?.into();
    if crate::pipelines::is_pipeline(Arc::clone(&compact)).await? {
        PIPELINE_TYPE.clone_into(&mut head.canvas_type);
    // The drawing alone decides whether it is a pipeline, and no request makes the canvas of an
    // assistant.
    } else if matches!(&*head.canvas_type, PIPELINE_TYPE | CHAT_TYPE) {
        head.canvas_type.clear();
    }
    Ok((head, compact))
}
