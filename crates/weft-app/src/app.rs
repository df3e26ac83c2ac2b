//! The operations of the application, shared by the HTTP routes and the command line.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::task::TaskTracker;
use weft_core::seam::DatasetStore;
use weft_core::seam::canvas_store::{CHAT_TYPE, CanvasHead, PIPELINE_TYPE, StoredCanvas};
use weft_core::seam::session_store::{Session, SessionMessage};
use weft_core::{CanvasId, CanvasKey, Result, RunId, SessionId, SessionKey, TaskKey, TenantId, TurnInput};
use weft_dsl::{Plan, Problem};
use weft_engine::{RunHandle, SessionState, StartRun};

use crate::checking::{Purpose, refusal};
use crate::config::LimitsConfig;
use crate::late::is_values_alone;
use crate::new_session::{NewSession, Said, messages, named};
use crate::parts::Parts;
use crate::plans::{Plans, compact};
use crate::tokens;
use crate::turns::Lines;

pub use crate::default_tenant::DEFAULT_TENANT;

/// The whole application. Cheap to clone; all clones share the same state. Its parts are fields of it, by dereferencing.
#[derive(Clone)]
pub struct App(Arc<AppState>);

impl Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.0
    }
}

/// The state behind an [`App`].
#[derive(Clone)]
pub struct AppState {
    parts: Parts,
    /// Datasets and documents, for reading. Changes go through the library.
    pub datasets: Arc<dyn DatasetStore>,
    /// Limits of runs and requests.
    pub limits: LimitsConfig,
    /// Questions that wait for their sessions.
    pub(crate) lines: Arc<Lines>,
    /// Recently recorded uses of tokens.
    pub token_uses: Arc<tokens::Uses>,
    /// Wakes the workers of this process when there is work.
    pub(crate) wake: Arc<Notify>,
    /// Tasks that run to completion even if the caller goes away.
    pub(crate) unfinished: TaskTracker,
    pub(crate) plans: Arc<Plans>,
    pub(crate) measuring: bool,
}

impl Deref for AppState {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl App {
    /// Creates an app from its parts.
    pub fn new(parts: Parts, limits: LimitsConfig) -> Self {
        Self(Arc::new(AppState {
            datasets: Arc::clone(parts.library.store()),
            parts,
            lines: Arc::default(),
            token_uses: Arc::default(),
            wake: Arc::default(),
            unfinished: TaskTracker::new(),
            plans: Arc::new(Plans::new(limits.plans_kept)),
            measuring: false,
            limits,
        }))
    }

    /// Returns the same app with other parts; what its calls share stays shared.
    #[must_use]
    pub fn with_parts(&self, change: impl FnOnce(&mut Parts)) -> Self {
        let mut state = AppState::clone(self);
        change(&mut state.parts);
        Self(Arc::new(state))
    }

    /// Returns the same app with the components that are only for benchmarks.
    #[must_use]
    pub fn for_measuring(self) -> Self {
        // The plans so far were compiled without these components.
        let plans = Arc::new(Plans::new(self.limits.plans_kept));
        Self(Arc::new(AppState { measuring: true, plans, ..AppState::clone(&self) }))
    }

    /// Stores a new or changed canvas, and returns the problems found in it. A canvas with errors is stored anyway,
    /// but cannot run.
    ///
    /// # Errors
    /// `Invalid` when the text is not a JSON object, `Conflict` when another canvas has the title.
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

    /// The same for a canvas that was already compiled into `plan`: it is not checked again. A title that another
    /// canvas has gets a number appended.
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
        // A plan of a different text does not apply; the stored version is then compiled on demand.
        if plan.version == stored.version {
            self.keep(&stored.key, &stored.version, plan);
        }
        Ok(stored)
    }

    /// Like [`App::put_canvas`], for a canvas that is unchanged since it was `seen`. `None`: it was stored or removed
    /// in the meantime, and nothing was changed.
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

    /// Returns a version of a canvas, checked and ready to run.
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

    /// Creates a conversation with the newest version of a canvas; the opening text is its first message.
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

    /// The same with all options of a session, and a version as [`App::find_version`] resolves it.
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
        let mut session = new.session(canvas, &plan.version, SessionState::new(&plan), now_ms)?;
        let mut opening = opening(&plan, new.before, now_ms);
        if !(new.name.is_empty() && new.before.is_empty()) {
            // A person may have written a secret into the question that the name is taken from.
            let masks = self.engine.masks_at_first(&plan, &canvas.tenant).await?;
            session.name = named(&masks.text(new.name));
            for message in &mut opening {
                message.content = masks.text(&message.content).into_owned();
            }
        }
        self.sessions.create(&session, &opening).await?;
        self.stays_with_canvas(canvas, &session).await?;
        Ok(session)
    }

    /// Starts a turn of a session: a new one, or the continuation of a suspended one. Expired tasks of the session
    /// are handled first.
    ///
    /// # Errors
    /// `NotFound` for an unknown session, `Conflict` while another turn of it is under way and for values that answer a
    /// task which has ended, `Invalid` for a canvas with errors, `RateLimited` when too many runs are under way.
    pub async fn start_turn(&self, session: &SessionKey, input: TurnInput) -> Result<RunHandle> {
        let session = self.sessions.load(session).await?;
        self.start_turn_of(&session, input).await
    }

    /// The same for a session that is already loaded.
    ///
    /// # Errors
    /// As [`App::start_turn`].
    pub async fn start_turn_of(&self, session: &Session, input: TurnInput) -> Result<RunHandle> {
        let input = self.with_files_read(session, input).await?;
        self.start_turn_read(RunId::generate(), session, input, None).await
    }

    /// The same for an input whose files were already read; with a task, only while that is open. Values that answer a
    /// task of the session start nothing else, whether that is open or has ended.
    pub(crate) async fn start_turn_read(
        &self,
        id: RunId,
        session: &Session,
        input: TurnInput,
        task: Option<&TaskKey>,
    ) -> Result<RunHandle> {
        let task = match task {
            Some(task) => Some(task.clone()),
            None => Box::pin(self.answered_by(session, &input)).await?,
        };
        if session.state.get("paused").is_some_and(|paused| !paused.is_null()) {
            // Boxed, because most turns have no expired tasks and should not reserve the space.
            Box::pin(self.time_out_before(session)).await?;
        }
        let canvas = CanvasKey::new(&session.key.tenant, session.canvas.clone());
        let plan = if session.canvas_version.is_empty() {
            Box::pin(self.plan_of_chat(&canvas, &input)).await?
        } else {
            self.plan(&canvas, &session.canvas_version).await?
        };
        if task.is_none() && is_values_alone(&input) {
            Box::pin(self.refuse_late(session, &plan, &input.inputs)).await?;
        }
        let (key, answered) = (session.key.clone(), task.as_ref().map(|task| task.id.clone()));
        let request = StartRun { plan, canvas: canvas.id, session: key, input, seed: None, task: answered };
        let outcome = self.engine.start_of(id, request, Some(session)).await;
        self.unless_ended(task.as_ref(), outcome).await
    }

    /// Checks that the store can be written.
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
        // Runs come first, because they use everything that is closed below.
        self.engine.shut_down(grace).await;
        self.unfinished.close();
        // Clients that send a file too slowly are not waited for.
        if tokio::time::timeout(grace, self.unfinished.wait()).await.is_err() {
            tracing::warn!("some requests had not finished and may have left data behind");
        }
        self.library.close().await;
        // The store is closed last, because the steps before may still write to it.
        (self.close)().await
    }

    pub(crate) fn keep(&self, key: &CanvasKey, version: &Arc<str>, mut plan: Plan) -> Arc<Plan> {
        // Sessions name a version in the same way as the store.
        plan.version = Arc::clone(version);
        let plan = Arc::new(plan);
        self.plans.keep(key, version, &plan);
        plan
    }

    /// Checks that a language model with this id exists.
    pub fn check_model(&self, tenant: &TenantId, llm_id: &str) -> Result<(), String> {
        (self.model_check)(tenant, llm_id).map(drop)
    }
}

/// Returns the first messages of a conversation: the given earlier messages, else the opening text.
fn opening(plan: &Plan, before: &[Said], now_ms: i64) -> Vec<SessionMessage> {
    if before.is_empty() && !plan.prologue.is_empty() {
        return messages(&[("assistant", plan.prologue.clone())], now_ms);
    }
    messages(before, now_ms)
}

/// Returns a canvas in the form that is stored: without whitespace, and with the type that its content determines.
async fn storable(mut head: CanvasHead, dsl: &str) -> Result<(CanvasHead, Arc<str>)> {
    let compact: Arc<str> = compact(dsl)?.into();
    if crate::pipelines::is_pipeline(Arc::clone(&compact)).await? {
        PIPELINE_TYPE.clone_into(&mut head.canvas_type);
    // Only the content decides whether it is a pipeline, and no request can create the canvas of an assistant.
    } else if matches!(&*head.canvas_type, PIPELINE_TYPE | CHAT_TYPE) {
        head.canvas_type.clear();
    }
    Ok((head, compact))
}
