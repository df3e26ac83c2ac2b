//! The public interface of the engine: start a turn, watch it, cancel it.

mod accounts;
mod announced;
mod begun_with;
mod counted;
mod failure_log;
mod fork;
mod give_way;
mod held;
mod launch;
mod limits;
mod messages;
mod owner;
mod pick_up;
mod rebuild;
mod replay;
mod sealed;
mod stopping;
mod stores;
mod trial;
mod turn;
mod used;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weft_core::budget::{Budget, Holder, Spent};
use weft_core::citation::Citations;
use weft_core::context::{HistoryMessage, RunContext};
use weft_core::inbox::Inbox;
use weft_core::past_calls::PastCalls;
use weft_core::seam::Seams;
use weft_core::seam::run_store::RunLease;
use weft_core::seam::session_store::Session;
use weft_core::{Error, ErrorKind, Result, RunId, RunKey, SessionKey, TenantId};
use weft_dsl::Plan;

use self::accounts::SharedBudgets;
pub use self::accounts::{Allowances, first_day};
pub use self::fork::ForkPoint;
pub use self::held::BusySession;
use self::held::{SessionLock, went_on_elsewhere};
use self::launch::HeldRun;
pub use self::limits::EngineLimits;
pub use self::messages::LeftMessage;
pub use self::owner::ProcessIdentity;
use self::owner::{Ownership, TakenRun};
pub use self::pick_up::PickedUp;
pub use self::replay::Replayed;
pub use self::stores::Stores;
pub use self::trial::{AnswerSource, Trial, Tried};
use self::turn::{last_record, next_state};
use crate::answers::{self, AnswerStatus};
use crate::calls::CallHandling;
use crate::counts::RunCounts;
use crate::drive::RunReport;
use crate::feed::{EntryReader, Feed};
use crate::history;
use crate::journal::RunJournal;
use crate::machine::{Machine, MachineLimits};
use crate::pause::Paused;
use crate::pins;
use crate::recover::Recovered;
use crate::retrying_store::retrying;
use crate::secrets::SecretValues;
use crate::session::{SessionState, date, turns_looked_back};
pub use crate::start_run::StartRun;
use crate::tasks;
use crate::turn_calls::keep_those_of;

/// Maximum length of the question that is stored with its run.
// It is stored for lists of runs; the journal has the whole question.
const QUERY_KEPT_MAX: usize = 500;

/// A run under way.
pub struct RunHandle {
    /// Its key.
    pub key: RunKey,
    /// Its entries from the first on. Dropping the reader does not stop the run.
    pub entries: EntryReader,
    /// Cancels it.
    pub cancel: CancellationToken,
}

struct LiveRun {
    feed: Arc<Feed>,
    cancel: CancellationToken,
    leave: CancellationToken,
    session: SessionKey,
    background: bool,
    inbox: Inbox,
}

impl LiveRun {
    /// Whether no one needs the run: it was not started in the background, and it has no listeners in this process.
    fn is_abandoned(&self) -> bool {
        !self.background && !self.feed.is_listened_to()
    }
}

#[derive(Default)]
struct RunningRuns {
    runs: HashMap<RunKey, LiveRun>,
    /// Sessions in the middle of a turn, with what notifies those waiting for them to become free.
    sessions: HashMap<SessionKey, Arc<Notify>>,
    /// A task reports that this process is alive and receives requests from other processes.
    kept: bool,
    /// This process has stopped: its readers do not wait for runs of other processes either.
    stopped: bool,
}

/// Runs canvases. Cheap to clone; all clones are the same engine.
#[derive(Clone)]
pub struct Engine(Arc<EngineInner>);

struct EngineInner {
    seams: Arc<Seams>,
    stores: Option<Stores>,
    limits: EngineLimits,
    allowances: Allowances,
    accounts: SharedBudgets,
    ownership: Ownership,
    places: Arc<Semaphore>,
    counts: Arc<RunCounts>,
    running: Mutex<RunningRuns>,
    tasks: TaskTracker,
}

/// Everything one run needs, prepared before it starts.
struct Prepared {
    request: StartRun,
    key: RunKey,
    state: SessionState,
    machine: Machine,
    context: Arc<RunContext>,
    resumes: Option<RunId>,
    /// The text that answers the waiting run's form.
    reply: String,
    revision: i64,
    now_ms: i64,
    /// Where an interrupted run resumes.
    recovered: Option<Recovered>,
    calls: CallHandling,
}

/// What a run begins with besides its request.
struct Beginning {
    key: RunKey,
    revision: i64,
    now_ms: i64,
    /// The budgets that it shares with other runs.
    around: Option<Arc<Budget>>,
    limits: MachineLimits,
    answers: AnswerStatus,
    secrets: SecretValues,
}

/// A run that is about to begin.
struct NewRun {
    id: RunId,
    answers: AnswerStatus,
}

/// Derives the random seed of a run for which the caller gave none.
fn seed_of(run: &RunId) -> u64 {
    // An id chosen by a caller need not be hexadecimal.
    run.as_str().get(..16).and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0)
}

/// Returns what a turn knows of the conversation before it: its messages, and which tools were called.
fn earlier(
    calls: &mut PastCalls,
    messages: Vec<HistoryMessage>,
    question: &str,
    going_on: Option<&Paused>,
) -> (Vec<HistoryMessage>, PastCalls) {
    if going_on.is_none() {
        // Messages that were removed from the conversation, or are too far back, take their calls with them.
        keep_those_of(calls, &messages);
    }
    let history = history::before(messages, question, going_on);
    let mut past_calls = calls.clone();
    if going_on.is_some() {
        // A turn that resumes does not see itself.
        keep_those_of(&mut past_calls, &history);
    }
    (history, past_calls)
}

impl Engine {
    /// Creates an engine. Without stores, sessions and runs live in memory only as long as their handles.
    pub fn new(seams: Arc<Seams>, stores: Option<Stores>, limits: EngineLimits) -> Self {
        Self::with_allowances(seams, stores, limits, Allowances::default())
    }

    /// Creates an engine with limits on what several runs use together. The limits apply to stored runs.
    pub fn with_allowances(
        seams: Arc<Seams>,
        stores: Option<Stores>,
        limits: EngineLimits,
        allowances: Allowances,
    ) -> Self {
        Self::as_process(seams, stores, limits, allowances, ProcessIdentity::nameless())
    }

    /// Creates an engine whose process identity lets other processes detect that it is gone.
    pub fn as_process(
        seams: Arc<Seams>,
        stores: Option<Stores>,
        limits: EngineLimits,
        allowances: Allowances,
        process: ProcessIdentity,
    ) -> Self {
        let stores = stores.map(retrying);
        Self(Arc::new(EngineInner {
            seams,
            stores,
            limits,
            allowances,
            accounts: SharedBudgets::default(),
            ownership: Ownership::new(process),
            // Limited, because a semaphore panics above its maximum and a configuration may have any number.
            places: Arc::new(Semaphore::new(limits.runs_at_once.min(Semaphore::MAX_PERMITS))),
            counts: Arc::default(),
            running: Mutex::default(),
            tasks: TaskTracker::new(),
        }))
    }

    /// Starts a turn of a stored session: a new one, or one that resumes a waiting run.
    ///
    /// # Errors
    /// `NotFound` for an unknown session, `Conflict` while another turn of it runs or when the task that it
    /// answers is no longer open, `RateLimited` when too many runs are under way, and any error of the store.
    pub async fn start(&self, request: StartRun) -> Result<RunHandle> {
        self.start_as(RunId::generate(), request).await
    }

    /// Starts a turn whose run id is known beforehand: however often it is started, it runs once.
    ///
    /// # Errors
    /// As [`Engine::start`]; also `Conflict` when there already is a run with this id.
    pub async fn start_as(&self, id: RunId, request: StartRun) -> Result<RunHandle> {
        self.start_of(id, request, None).await
    }

    /// Starts a turn with a session that was read already. If the session has changed since, it is read again.
    ///
    /// # Errors
    /// As [`Engine::start_as`].
    pub async fn start_of(
        &self,
        id: RunId,
        request: StartRun,
        mut known: Option<&Session>,
    ) -> Result<RunHandle> {
        let stores = self.stores()?;
        // First, so that a request for which there is no slot reads nothing.
        let place = self.place()?;
        let lock = SessionLock::for_new_turn(self, &request.session)?;
        self.say_at_work(&stores).await?;
        loop {
            let was_known = known.is_some();
            let session = match known.take() {
                Some(session) => session.clone(),
                None => stores.sessions.load(&request.session).await?,
            };
            let new = NewRun { id: id.clone(), answers: AnswerStatus::New };
            let prepared = match self.prepare(&stores, new, request.clone(), session).await {
                Ok(prepared) => prepared,
                // The error may only be due to the session having changed.
                Err(_) if was_known => continue,
                Err(error) => return Err(error),
            };
            let run = self.stored_run(&prepared);
            // Once announced, a run has its session to itself.
            if stores.runs.announce(&run, prepared.revision).await? {
                let taken = TakenRun::new(self, RunLease::of(&run));
                let handle = self.launch(stores, prepared, HeldRun::new(place, lock, RunLease::of(&run)));
                taken.kept();
                return Ok(handle);
            }
            // Another process has completed a whole turn since the session was read: an answer may have been used.
            if !was_known {
                return Err(went_on_elsewhere(&request.session));
            }
        }
    }

    /// Takes a slot for a run.
    fn place(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.0.places).try_acquire_owned().map_err(|_| {
            Error::new(ErrorKind::RateLimited, "too many runs are under way").help("try again in a moment")
        })
    }

    /// Runs one turn without any store. Returns its entries, its report, and the state that the next turn
    /// would begin with.
    ///
    /// # Errors
    /// When a waiting run cannot be resumed with this plan.
    pub async fn run_unstored(
        &self,
        request: StartRun,
        state: SessionState,
        history: Vec<HistoryMessage>,
    ) -> Result<(Arc<Feed>, RunReport, SessionState)> {
        let feed = Feed::whole();
        let secrets = self.secrets_of(&request.plan, &request.session.tenant).await?;
        let beginning = self.beginning(&request.session, RunId::generate(), 0, None);
        let beginning = Beginning { secrets, ..beginning };
        let mut prepared = self.assemble(request, state, history, beginning)?;
        prepared.calls = CallHandling::Unkept;
        let clock = Arc::clone(&self.0.seams.clock);
        let mut journal = RunJournal::new(RunLease::first(&prepared.key), None, Arc::clone(&feed), clock);
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

    /// Returns a reader of a run's events after number `after_event`: live, from the store, and as another
    /// process writes them there.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn events(&self, key: &RunKey, after_event: u64) -> Result<EntryReader> {
        let feed = self.feed(key);
        match &self.0.stores {
            Some(stores) => drop(stores.runs.get(key).await?),
            None if feed.is_none() => return Err(Error::not_found(format!("there is no run {}", key.id))),
            None => {}
        }
        Ok(self.reader(feed, key, after_event))
    }

    fn running(&self) -> MutexGuard<'_, RunningRuns> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> i64 {
        self.0.seams.clock.now_ms()
    }

    async fn prepare(
        &self,
        stores: &Stores,
        NewRun { id, answers }: NewRun,
        request: StartRun,
        Session { mut state, revision, canvas_version, .. }: Session,
    ) -> Result<Prepared> {
        // A session without a version adopts the one that its turn brings.
        if !canvas_version.is_empty() && canvas_version != request.plan.version {
            let message = format!("session {} is on another version of its canvas", request.session.id);
            return Err(
                Error::new(ErrorKind::Conflict, message).help("compile the version the session names")
            );
        }
        let secrets = self.secrets_of(&request.plan, &request.session.tenant).await?;
        if request.plan.secret_names().next().is_some() {
            secrets.open(&mut state);
        }
        let state = SessionState::from_json(&state)?;
        let turns = turns_looked_back(&request.plan);
        // A turn has two messages: a question and its answer.
        let messages = stores.sessions.history(&request.session, i64::MAX, 2 * turns as u64).await?;
        let history = messages.into_iter().map(HistoryMessage::from);
        let around = self.account(stores, &request.session.tenant, &request.canvas).await?;
        let beginning = self.beginning(&request.session, id, revision, around);
        self.assemble(request, state, history.collect(), Beginning { answers, secrets, ..beginning })
    }

    /// Returns the current values of the secrets that a plan names.
    async fn secrets_of(&self, plan: &Plan, tenant: &TenantId) -> Result<SecretValues> {
        SecretValues::of(plan, &*self.0.seams.secrets, tenant).await
    }

    fn beginning(
        &self,
        session: &SessionKey,
        id: RunId,
        revision: i64,
        around: Option<Arc<Budget>>,
    ) -> Beginning {
        let key = RunKey::new(&session.tenant, id);
        Beginning {
            key,
            revision,
            now_ms: self.now_ms(),
            around,
            limits: self.machine_limits(),
            answers: AnswerStatus::New,
            secrets: SecretValues::default(),
        }
    }

    fn machine_limits(&self) -> MachineLimits {
        MachineLimits { at_once: self.0.limits.nodes_at_once, activations: self.0.limits.activations }
    }

    fn assemble(
        &self,
        mut request: StartRun,
        mut state: SessionState,
        messages: Vec<HistoryMessage>,
        Beginning { key, revision, now_ms, around, limits, answers: given, secrets }: Beginning,
    ) -> Result<Prepared> {
        pins::check(&request.plan, &request.input.pins)?;
        if let Some(task) = &request.task {
            tasks::must_be_open(task, state.paused.as_deref())?;
        }
        let seed = request.seed.unwrap_or_else(|| seed_of(&key.id));
        let going_on = answers::resumed(&state, &request, limits);
        let question = going_on.as_ref().map_or(&request.input.query, |paused| &paused.input.query);
        let (history, past_calls) = earlier(&mut state.calls, messages, question, going_on.as_ref());
        let (mut machine, resumes, reply, citations, spent) = match going_on {
            Some(paused) => {
                let (waiting, citations, spent) = (paused.run.clone(), paused.citations(), paused.spent);
                let query = paused.complete(&mut request.input);
                let new = state.globals_for(&request.input, &history, &key.id, &date(now_ms));
                let globals = state.with_assigned(new, &paused.input);
                let mut machine = paused.restore(Arc::clone(&request.plan), globals, limits)?;
                answers::take(&mut machine, &request, &query, given, now_ms)?;
                (machine, Some(waiting), query, citations, spent)
            }
            None => {
                let globals = state.globals_for(&request.input, &history, &key.id, &date(now_ms));
                let mut machine = Machine::new(Arc::clone(&request.plan), globals, seed, limits);
                if given == AnswerStatus::New {
                    answers::check_beginning(&request.plan, &request.input.inputs)?;
                }
                machine.unused = answers::unasked(&request.plan, &request.input.inputs);
                (machine, None, String::new(), Citations::default(), Spent::default())
            }
        };
        let session = Budget::new(Holder::Session, self.0.allowances.session, state.spent, around);
        let budget = Budget::new(Holder::Run, self.0.limits.of(&request.plan).budget, spent, Some(session));
        let context = Arc::new(RunContext {
            masks: crate::values::take_secrets(&mut machine, secrets),
            tenant: request.session.tenant.clone(),
            run: key.id.clone(),
            canvas: request.canvas.clone(),
            session: request.session.id.clone(),
            input: request.input.clone(),
            history,
            past_calls,
            inbox: self.inbox_of(&key),
            citations,
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
            calls: CallHandling::Kept,
        })
    }
}
