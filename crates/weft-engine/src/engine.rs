//! The public face: start a turn, watch it, cancel it.

mod accounts;
mod again;
mod alive;
mod announced;
mod fork;
mod held;
mod pick_up;
mod replay;
mod trial;
mod turn;

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weft_core::budget::{Budget, BudgetLimits, Holder, Spent};
use weft_core::citation::Citations;
use weft_core::context::{HistoryMessage, RunContext};
use weft_core::journal::Ending;
use weft_core::seam::run_store::StoredRun;
use weft_core::seam::session_store::Session;
use weft_core::seam::{RunStore, Seams, SessionStore, SpendingStore};
use weft_core::{CanvasId, Error, ErrorKind, Result, RunId, RunKey, SessionKey, TaskId, TurnInput};
use weft_dsl::Plan;

use self::accounts::Accounts;
pub use self::accounts::Allowances;
use self::alive::{Used, say_alive};
pub use self::fork::ForkPoint;
use self::held::{Listed, SessionLock};
pub use self::pick_up::{PICK_UPS_MAX, PickedUp};
pub use self::replay::Replayed;
pub use self::trial::{Source, Trial, Tried};
use self::turn::{last_record, next_state};
use crate::answers;
use crate::calls::Calls;
use crate::drive::Report;
use crate::feed::{EntryReader, Feed};
use crate::journal::Journal;
use crate::machine::{Machine, MachineLimits};
use crate::patient::patient;
use crate::pause::Paused;
use crate::pins;
use crate::recover::Recovered;
use crate::session::{SessionState, date, turns_looked_back};
use crate::tasks;

/// A run whose process has not been heard of for so long was cut off.
pub const SILENT_MAX: Duration = Duration::from_secs(15);

/// How much of a question is kept with its run.
const QUERY_KEPT_MAX: usize = 500;

/// What runs may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EngineLimits {
    /// Runs at the same time; a further one is refused.
    pub runs_at_once: usize,
    /// Nodes at the same time within a run.
    pub nodes_at_once: usize,
    /// Activations of a run, beyond one for each node and for each item of an Iteration.
    pub activations: u64,
    /// Bytes of what one activation produces.
    pub output_bytes: usize,
    /// What the models and tools of a run may use together.
    pub budget: BudgetLimits,
    /// How long a run may take.
    pub run_time: Duration,
    /// How long an activation may take whose component names no limit.
    pub node_time: Duration,
}

impl Default for EngineLimits {
    fn default() -> Self {
        Self {
            runs_at_once: 4_096,
            nodes_at_once: 5,
            activations: 1_000,
            output_bytes: 32 << 20,
            budget: BudgetLimits::default(),
            run_time: Duration::from_secs(3_600),
            node_time: Duration::from_secs(600),
        }
    }
}

/// The stores an engine keeps runs and sessions in.
#[derive(Clone)]
pub struct Stores {
    /// Runs and journals.
    pub runs: Arc<dyn RunStore>,
    /// Conversations.
    pub sessions: Arc<dyn SessionStore>,
    /// What runs have used.
    pub spending: Arc<dyn SpendingStore>,
}

/// A turn to run.
#[derive(Clone, Debug)]
pub struct StartRun {
    /// The canvas version the session is on.
    pub plan: Arc<Plan>,
    /// The canvas.
    pub canvas: CanvasId,
    /// The session; it must exist in the store.
    pub session: SessionKey,
    /// What the caller gave.
    pub input: TurnInput,
    /// What random choices derive from; absent: chosen at random.
    pub seed: Option<u64>,
    /// The task that it is about: unless that is still open, nothing begins.
    pub task: Option<TaskId>,
}

/// A run under way.
pub struct RunHandle {
    /// Its key.
    pub key: RunKey,
    /// Its entries from the first on. Dropping it does not stop the run.
    pub entries: EntryReader,
    /// Stops it.
    pub cancel: CancellationToken,
}

struct Live {
    feed: Arc<Feed>,
    cancel: CancellationToken,
    leave: CancellationToken,
    session: SessionKey,
}

#[derive(Default)]
struct Running {
    runs: HashMap<RunKey, Live>,
    sessions: HashSet<SessionKey>,
}

/// Runs canvases. Cheap to clone; all clones are the same engine.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    seams: Arc<Seams>,
    stores: Option<Stores>,
    limits: EngineLimits,
    allowances: Allowances,
    accounts: Accounts,
    places: Arc<Semaphore>,
    running: Mutex<Running>,
    tasks: TaskTracker,
}

/// Everything one run needs, worked out before it starts.
struct Prepared {
    request: StartRun,
    key: RunKey,
    state: SessionState,
    machine: Machine,
    context: Arc<RunContext>,
    resumes: Option<RunId>,
    /// The words that answer the waiting run's form.
    reply: String,
    revision: i64,
    now_ms: i64,
    /// Where it goes on, when it was cut off.
    recovered: Option<Recovered>,
    calls: Calls,
}

/// What a run begins with besides its request.
struct Beginning {
    key: RunKey,
    revision: i64,
    now_ms: i64,
    /// The budgets that it shares with other runs.
    around: Option<Arc<Budget>>,
    limits: MachineLimits,
}

impl Engine {
    /// An engine. Without stores, sessions and runs live in memory only as long as their handles.
    pub fn new(seams: Arc<Seams>, stores: Option<Stores>, limits: EngineLimits) -> Self {
        Self::with_allowances(seams, stores, limits, Allowances::default())
    }

    /// The same with limits on what several runs use together. They hold for stored runs.
    pub fn with_allowances(
        seams: Arc<Seams>,
        stores: Option<Stores>,
        limits: EngineLimits,
        allowances: Allowances,
    ) -> Self {
        let stores = stores.map(patient);
        Self(Arc::new(Inner {
            seams,
            stores,
            limits,
            allowances,
            accounts: Accounts::default(),
            places: Arc::new(Semaphore::new(limits.runs_at_once)),
            running: Mutex::default(),
            tasks: TaskTracker::new(),
        }))
    }

    /// Starts a turn of a stored session: a new one, or what a waiting one goes on with.
    ///
    /// # Errors
    /// `NotFound` for an unknown session, `Conflict` while another turn of it runs and when the task that
    /// it is about is not open any more, `RateLimited` when too many runs are under way, and whatever
    /// the store says.
    pub async fn start(&self, request: StartRun) -> Result<RunHandle> {
        self.start_as(RunId::generate(), request).await
    }

    /// The same for a run whose id is known beforehand: however often it is started, it runs once.
    ///
    /// # Errors
    /// As [`Engine::start`]; `Conflict` also when there is a run with this id already.
    pub async fn start_as(&self, id: RunId, request: StartRun) -> Result<RunHandle> {
        let stores = self.0.stores.clone().ok_or_else(|| Error::internal("this engine has no store"))?;
        let place = Arc::clone(&self.0.places).try_acquire_owned().map_err(|_| {
            Error::new(ErrorKind::RateLimited, "too many runs are under way").help("try again in a moment")
        })?;
        let lock = SessionLock::take(self, &request.session)?;
        let prepared = self.prepare(&stores, id, request).await?;
        stores.runs.create(&stored_run(&prepared, self.now_ms())).await?;
        self.check_still_current(&stores, &prepared).await?;
        Ok(self.launch(stores, prepared, (place, lock)))
    }

    /// From its announcement on a run has its session to itself. Another process may have held a whole
    /// turn of it between the reading of its state and that: what was read does not count then.
    async fn check_still_current(&self, stores: &Stores, prepared: &Prepared) -> Result<()> {
        let session = &prepared.request.session;
        let overtaken = match stores.sessions.revision(session).await {
            Ok(revision) if revision == prepared.revision => return Ok(()),
            Ok(_) => {
                Error::new(ErrorKind::Conflict, format!("somebody else went on with session {}", session.id))
                    .help("ask again")
            }
            Err(error) => error,
        };
        self.note_ending(stores, &prepared.key, Ending::Failed).await;
        Err(overtaken)
    }

    /// Sets a run going, on the list of those under way.
    fn launch(
        &self,
        stores: Stores,
        prepared: Prepared,
        (place, lock): (OwnedSemaphorePermit, SessionLock),
    ) -> RunHandle {
        let (key, feed, cancel) = (prepared.key.clone(), Feed::stored(), CancellationToken::new());
        let (live_feed, session) = (Arc::clone(&feed), prepared.request.session.clone());
        let leave = CancellationToken::new();
        let live = Live { feed: live_feed, cancel: cancel.clone(), leave: leave.clone(), session };
        self.running().runs.insert(key.clone(), live);
        let listed =
            Listed { engine: self.clone(), run: key.clone(), feed: Arc::clone(&feed), lock: Some(lock) };
        let entries =
            EntryReader::new(Some(Arc::clone(&feed)), Some((Arc::clone(&stores.runs), key.clone())), 0);
        let (engine, stop, run) = (self.clone(), cancel.clone(), key.clone());
        let used = Used::by(&prepared);
        self.0.tasks.spawn(async move {
            let turn = AssertUnwindSafe(engine.turn(&stores, prepared, &feed, stop)).catch_unwind();
            let turn = tokio::select! {
                biased;
                turn = turn => turn,
                never = say_alive(&stores, &run, (&engine, &used)) => match never {},
                // As if the process had ended here: its journal says how to go on.
                () = leave.cancelled() => return drop((listed, place)),
            };
            if turn.is_err() {
                tracing::error!(run.id = %run.id, "the end of a run could not be written: the engine broke");
                engine.note_ending(&stores, &run, Ending::Failed).await;
            }
            drop((listed, place));
        });
        RunHandle { key, entries, cancel }
    }

    /// Runs one turn without any store. Its entries, how it went, and the state that a next turn would
    /// begin with come back.
    ///
    /// # Errors
    /// When a waiting run cannot go on with this plan.
    pub async fn run_unstored(
        &self,
        request: StartRun,
        state: SessionState,
        history: Vec<HistoryMessage>,
    ) -> Result<(Arc<Feed>, Report, SessionState)> {
        let feed = Feed::whole();
        let beginning = self.beginning((&request.session, RunId::generate()), 0, None);
        let mut prepared = self.assemble(request, state, history, beginning)?;
        prepared.calls = Calls::Unkept;
        let clock = Arc::clone(&self.0.seams.clock);
        let mut journal = Journal::new(prepared.key.clone(), None, Arc::clone(&feed), clock);
        let before = prepared.state.clone();
        let (report, context) = self.drive(prepared, &mut journal, CancellationToken::new()).await;
        let state = next_state(&before, &report, &context);
        journal.note(last_record(&report));
        journal.flush().await?;
        feed.close();
        Ok((feed, report, state))
    }

    /// Whether a run is under way in this process.
    pub fn is_under_way(&self, key: &RunKey) -> bool {
        self.running().runs.contains_key(key)
    }

    /// Asks a run to stop. Whether it was under way.
    pub fn cancel(&self, key: &RunKey) -> bool {
        let running = self.running();
        running.runs.get(key).map(|live| live.cancel.cancel()).is_some()
    }

    /// Stops working on a run without ending it: another process goes on with it as soon as this one has
    /// not been heard of for a while. Whether it was under way.
    pub fn leave(&self, key: &RunKey) -> bool {
        let running = self.running();
        running.runs.get(key).map(|live| live.leave.cancel()).is_some()
    }

    /// Asks every run of a session to stop. Whether one was under way.
    pub fn cancel_session(&self, key: &SessionKey) -> bool {
        let running = self.running();
        let of_session = running.runs.values().filter(|live| live.session == *key);
        of_session.map(|live| live.cancel.cancel()).count() > 0
    }

    /// The events of a run after number `after_event`, live or from the store.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn events(&self, key: &RunKey, after_event: u64) -> Result<EntryReader> {
        let feed = self.running().runs.get(key).map(|live| Arc::clone(&live.feed));
        let store = self.0.stores.as_ref().map(|stores| (Arc::clone(&stores.runs), key.clone()));
        match &store {
            Some((runs, key)) => drop(runs.get(key).await?),
            None if feed.is_none() => return Err(Error::not_found(format!("there is no run {}", key.id))),
            None => {}
        }
        Ok(EntryReader::new(feed, store, after_event))
    }

    /// Waits for the runs under way, at most `grace`, then stops the rest and waits for their ends
    /// to be written.
    pub async fn shut_down(&self, grace: Duration) {
        self.0.tasks.close();
        if tokio::time::timeout(grace, self.0.tasks.wait()).await.is_err() {
            self.running().runs.values().for_each(|live| live.cancel.cancel());
            self.0.tasks.wait().await;
        }
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> i64 {
        self.0.seams.clock.now_ms()
    }

    async fn prepare(&self, stores: &Stores, id: RunId, request: StartRun) -> Result<Prepared> {
        let Session { state, revision, canvas_version, .. } = stores.sessions.load(&request.session).await?;
        if canvas_version != request.plan.version {
            let message = format!("session {} is on another version of its canvas", request.session.id);
            return Err(
                Error::new(ErrorKind::Conflict, message).help("compile the version the session names")
            );
        }
        let state = SessionState::from_json(&state)?;
        let turns = turns_looked_back(&request.plan);
        let messages = stores.sessions.messages(&request.session, i64::MAX, 2 * turns as u64).await?;
        let history = messages.into_iter().map(|m| HistoryMessage { role: m.role, content: m.content });
        let around = self.account(stores, &request.session.tenant, &request.canvas).await?;
        let beginning = self.beginning((&request.session, id), revision, around);
        self.assemble(request, state, history.collect(), beginning)
    }

    fn beginning(
        &self,
        (session, id): (&SessionKey, RunId),
        revision: i64,
        around: Option<Arc<Budget>>,
    ) -> Beginning {
        let key = RunKey::new(&session.tenant, id);
        Beginning { key, revision, now_ms: self.now_ms(), around, limits: self.machine_limits() }
    }

    fn machine_limits(&self) -> MachineLimits {
        MachineLimits { at_once: self.0.limits.nodes_at_once, activations: self.0.limits.activations }
    }

    fn assemble(
        &self,
        mut request: StartRun,
        state: SessionState,
        history: Vec<HistoryMessage>,
        Beginning { key, revision, now_ms, around, limits }: Beginning,
    ) -> Result<Prepared> {
        pins::check(&request.plan, &request.input.pins)?;
        if let Some(task) = &request.task {
            tasks::must_be_open(task, state.paused.as_deref())?;
        }
        let of_id = || key.id.as_str().get(..16).and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let seed = request.seed.or_else(of_id).unwrap_or(0);
        let now = date(now_ms);
        let going_on = state.paused.as_deref().cloned().filter(|paused| goes_on(paused, &request.input));
        let (machine, resumes, reply, cited, spent) = match going_on {
            Some(paused) => {
                let (waiting, cited, spent) = (paused.run.clone(), paused.cited.clone(), paused.spent);
                let query = std::mem::replace(&mut request.input.query, paused.input.query.clone());
                if request.input.files.is_empty() {
                    request.input.files.clone_from(&paused.input.files);
                }
                if request.input.pins.is_empty() {
                    request.input.pins.clone_from(&paused.input.pins);
                }
                let globals = state.globals_for(&request.input, &history, &now);
                let mut machine = paused.restore(Arc::clone(&request.plan), globals, limits)?;
                machine.time_out(now_ms);
                tasks::must_be_in_time(&request, &machine)?;
                answers::give(&mut machine, &request.input.inputs, &query);
                (machine, Some(waiting), query, cited, spent)
            }
            None => {
                let globals = state.globals_for(&request.input, &history, &now);
                let mut machine = Machine::new(Arc::clone(&request.plan), globals, seed, limits);
                machine.unused = answers::unasked(&request.plan, &request.input.inputs);
                (machine, None, String::new(), Vec::new(), Spent::default())
            }
        };
        let of_session = Budget::new(Holder::Session, self.0.allowances.session, state.spent, around);
        let budget = Budget::new(Holder::Run, self.0.limits.budget, spent, Some(of_session));
        let context = Arc::new(RunContext {
            tenant: request.session.tenant.clone(),
            run: key.id.clone(),
            session: request.session.id.clone(),
            input: request.input.clone(),
            history,
            citations: Citations::restore(cited),
            seams: Arc::clone(&self.0.seams),
            components: Arc::clone(&request.plan.components),
            budget,
            seed,
        });
        Ok(Prepared {
            request,
            key,
            state,
            machine,
            context,
            resumes,
            reply,
            revision,
            now_ms,
            recovered: None,
            calls: Calls::Kept,
        })
    }
}

/// Whether a caller's input speaks to a waiting run. A bare question does when the form has at most
/// one field; otherwise it begins a new turn. Work that waits in the middle is not lost to one.
fn goes_on(paused: &Paused, input: &TurnInput) -> bool {
    !input.inputs.is_empty() || input.query.is_empty() || paused.fields <= 1 || paused.waits_within()
}

fn stored_run(prepared: &Prepared, now_ms: i64) -> StoredRun {
    StoredRun {
        key: prepared.key.clone(),
        session: prepared.request.session.id.clone(),
        canvas: prepared.request.canvas.clone(),
        query: prepared.request.input.query.chars().take(QUERY_KEPT_MAX).collect(),
        ending: None,
        started_ms: now_ms,
        finished_ms: None,
        alive_ms: now_ms,
    }
}
