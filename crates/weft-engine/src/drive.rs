//! Carries out a run: starts activations, waits for them, stops them, and reports their outcomes to the
//! machine and the journal. All decisions are made in [`crate::machine`].

mod conclude;
mod go_on;
mod hear;
mod speak;
mod start;
mod stop;
mod suspending;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::mpsc;
use tokio::task::coop::unconstrained;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weft_core::budget::{Budget, Spent};
use weft_core::citation::Cited;
use weft_core::component::{Role, Suspension};
use weft_core::context::{Limited, RunContext, SIGNALS_IN_FLIGHT_MAX, Signal, ToolStarted};
use weft_core::journal::{ActivationRef, Ending, NextEdges, WaitingForm};
use weft_core::seam::chat_model::Usage;
use weft_core::usage::ModelUse;
use weft_core::{Error, ErrorKind, Floor, Outputs, Record, Result};
use weft_dsl::plan::{NodeIx, Plan};

use crate::calls::{CallHandling, Ledger};
use crate::journal::RunJournal;
use crate::machine::Machine;
use crate::masked::{masked, shown};
use crate::output_dedup::{OutputDedup, SaidTexts};
use crate::perform::{ActivationOutcome, ActivationRoom, NodeResult, bounded, cancelled, settle};
use crate::recover::EarlierWork;
use crate::scope::ScopedNode;
use crate::turn_calls::TurnCalls;

use self::speak::Speakers;

/// Effectively never: an `Instant` further ahead cannot be represented, and adding a longer limit to now would panic.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);
/// Maximum number of activation ends handled in a row before anything else is polled.
// Otherwise a long chain of nodes that end immediately would delay all other tasks on this thread.
const STRETCH_MAX: u32 = 64;

/// Limits of one run and its activations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriveLimits {
    /// Time for the whole run.
    pub run: Duration,
    /// Time for one activation of a node whose component sets no limit of its own.
    pub node: Duration,
    /// Size of what one activation produces, in bytes.
    pub output_bytes: usize,
    /// Size of all values of the run together, in bytes.
    pub values_bytes: usize,
    /// Size of the run's journal, in bytes.
    pub journal_bytes: u64,
}

/// The result of a run.
#[derive(Debug)]
pub struct RunReport {
    /// How it ended.
    pub ending: Ending,
    /// The outputs of the last Message, or else of the last node.
    pub outputs: Arc<Outputs>,
    /// The cause, unless the run succeeded or waits.
    pub error: Option<Error>,
    /// Everything the run said, without reasoning.
    pub said: String,
    /// The sources that its messages cite.
    pub cited: Vec<Cited>,
    /// Its model usage.
    pub usage: Usage,
    /// Its usage by node and model, without the usage of a run whose beginning it shares.
    pub uses: Vec<ModelUse>,
    /// What it used of its budgets.
    pub spent: Spent,
    /// The limits that cut agents' work short.
    pub limited: Vec<Limited>,
    /// The open forms of a waiting run.
    pub forms: Vec<WaitingForm>,
    /// The tool calls that its agents made.
    pub(crate) calls: TurnCalls,
    /// What people said to its agents while they worked.
    pub(crate) heard: Vec<String>,
    /// Its duration, in seconds.
    pub elapsed: f64,
    /// The machine as the run left it.
    pub machine: Machine,
}

/// An activation under way.
struct RunningActivation {
    who: ActivationRef,
    node: NodeIx,
    named: Arc<Outputs>,
    /// Cancels its frame; absent at the top level, where nothing is stopped on its own.
    cancel: Option<CancellationToken>,
    began: Instant,
    thinking: bool,
    /// It has said something new, that is, not heard before.
    said: bool,
    speech: OutputDedup,
    alternative: usize,
    /// Tool calls in progress, and when each began.
    calls: Vec<(ToolStarted, Instant)>,
    /// Tool calls that were already reported before the run was interrupted.
    told: HashSet<(Arc<str>, Arc<str>)>,
    /// What it asks and remembers when it stops to wait for a person.
    suspension: Option<Box<Suspension>>,
    /// The budget it draws on; absent for a frame that was opened in an earlier run.
    budget: Option<Arc<Budget>>,
}

fn too_long(most: Duration) -> Error {
    let message = format!("the run took longer than its {} s", most.as_secs());
    Error::new(ErrorKind::Timeout, message).help("raise limits.run_seconds")
}

/// Runs a machine until it ends, waits or fails.
pub struct RunDriver<'a> {
    plan: Arc<Plan>,
    machine: Machine,
    context: Arc<RunContext>,
    journal: &'a mut RunJournal,
    cancel: CancellationToken,
    limits: DriveLimits,
    tasks: FuturesUnordered<BoxFuture<'static, ActivationOutcome>>,
    /// Activations that finished on their first poll, in the order in which they began.
    done: VecDeque<ActivationOutcome>,
    to_driver: mpsc::Sender<(u32, Signal)>,
    signals: mpsc::Receiver<(u32, Signal)>,
    // Boxed: a map has room for eleven, and most runs have one or two.
    active: BTreeMap<u32, Box<RunningActivation>>,
    /// The tokens that cancel the work in a frame, by the frame's activation.
    frames: BTreeMap<u32, CancellationToken>,
    /// Finished producers whose listeners are still reading.
    held: Vec<NodeResult>,
    speakers: Speakers,
    /// Listeners whose text broke off, until its writers report why.
    cut_off: Vec<ActivationOutcome>,
    /// An activation failed and nothing caught the error: the run is about to end.
    failed: bool,
    /// Why the run was about to fail when it was interrupted.
    failed_before: Option<Error>,
    /// Open frames that this run has not reported yet.
    reopens: Vec<u32>,
    /// Another process may still be working on the run, until our takeover is stored.
    takes_over: bool,
    said: SaidTexts,
    cited: Vec<Cited>,
    usage: Usage,
    uses: Vec<ModelUse>,
    limited: Vec<Limited>,
    calls: TurnCalls,
    heard: Vec<String>,
    /// How many of the sources found are in the journal, once the journal records that a search took place.
    sourced: Option<usize>,
    /// How long the run was worked on before it was interrupted.
    worked: Duration,
    /// What the run whose beginning it shares used for that beginning.
    shared: Spent,
    /// What restarted work need not do again.
    before: HashMap<ScopedNode, EarlierWork>,
    ledger: Ledger,
    last: Arc<Outputs>,
    last_message: Option<Arc<Outputs>>,
}

impl<'a> RunDriver<'a> {
    /// Creates the driver of one run.
    pub fn new(
        machine: Machine,
        context: Arc<RunContext>,
        journal: &'a mut RunJournal,
        cancel: CancellationToken,
        limits: DriveLimits,
    ) -> Self {
        // Bounded, so that work which says more than can be recorded waits.
        let (to_driver, signals) = mpsc::channel(SIGNALS_IN_FLIGHT_MAX);
        let floor = if context.input.parallel_messages { Floor::default() } else { Floor::of_one() };
        let reopens = machine.frames.keys().copied().collect();
        Self {
            plan: Arc::clone(&machine.plan),
            machine,
            context,
            journal,
            cancel,
            limits,
            tasks: FuturesUnordered::new(),
            done: VecDeque::new(),
            to_driver,
            signals,
            active: BTreeMap::new(),
            frames: BTreeMap::new(),
            held: Vec::new(),
            speakers: Speakers::new(floor),
            cut_off: Vec::new(),
            failed: false,
            failed_before: None,
            reopens,
            takes_over: false,
            said: SaidTexts::default(),
            cited: Vec::new(),
            usage: Usage::default(),
            uses: Vec::new(),
            limited: Vec::new(),
            calls: TurnCalls::default(),
            heard: Vec::new(),
            sourced: None,
            worked: Duration::ZERO,
            shared: Spent::default(),
            before: HashMap::new(),
            ledger: Ledger::new(CallHandling::Kept),
            last: Arc::default(),
            last_message: None,
        }
    }

    /// Sets how outside calls are handled; the default is to keep them.
    #[must_use]
    pub fn with_calls(self, calls: CallHandling) -> Self {
        Self { ledger: Ledger::new(calls), ..self }
    }

    /// Runs to the end; [`RunDriver::report`] returns the outcome.
    ///
    /// # Errors
    /// The reason the run did not complete.
    pub async fn run(&mut self, began: Instant) -> Result<()> {
        self.reopen_frames();
        let left = self.limits.run.saturating_sub(self.worked).min(FOREVER);
        self.go(began + left).await
    }

    /// Reports how the run went. The journal holds everything but the last record, which the caller writes
    /// once the session is stored.
    pub fn report(mut self, began: Instant, result: Result<()>) -> RunReport {
        let (ending, error) = match result {
            Ok(()) if !self.machine.waiting_nodes().is_empty() => (Ending::Waiting, None),
            Ok(()) => match self.machine.stuck() {
                stuck if stuck.is_empty() => (Ending::Succeeded, None),
                stuck => (
                    Ending::Failed,
                    Some(Error::internal(format!("these nodes never became ready: {stuck:?}"))),
                ),
            },
            Err(error) if error.kind == ErrorKind::Cancelled && self.cancel.is_cancelled() => {
                (Ending::Cancelled, Some(error))
            }
            Err(error) => (Ending::Failed, Some(error)),
        };
        if ending != Ending::Waiting {
            self.stop_all(ending);
        }
        let forms = if ending == Ending::Waiting { self.ask_people() } else { Vec::new() };
        let masks = &self.context.masks;
        RunReport {
            ending,
            outputs: shown(masks, self.last_message.unwrap_or(self.last)),
            error: error.map(|error| masked(masks, error)),
            said: masks.text(&self.said.whole()).into_owned(),
            cited: self.cited,
            usage: self.usage,
            uses: self.uses,
            spent: self.context.budget.own().beyond(self.shared),
            limited: self.limited,
            forms,
            calls: self.calls,
            heard: self.heard,
            elapsed: (self.worked + began.elapsed()).as_secs_f64(),
            machine: self.machine,
        }
    }

    /// Works until nothing is left to do, something fails, or the time is up.
    async fn go(&mut self, deadline: Instant) -> Result<()> {
        if self.takes_over {
            self.journal.flush().await?;
        }
        // A run that is cancelled before it begins starts no work.
        if self.cancel.is_cancelled() {
            return Err(cancelled());
        }
        if let Some(error) = self.failed_before.take() {
            return Err(error);
        }
        let cancel = self.cancel.clone();
        let (stopped, over) = (cancel.cancelled(), tokio::time::sleep_until(deadline));
        // Polled only when one of the two wakes it: otherwise each step would poll both.
        let mut ends: FuturesUnordered<BoxFuture<'_, Error>> = FuturesUnordered::new();
        let most = self.limits.run;
        ends.push(unconstrained(stopped).map(|()| cancelled()).boxed());
        ends.push(unconstrained(over).map(move |()| too_long(most)).boxed());
        let mut stretch = 0;
        loop {
            self.start_ready()?;
            self.take_turns()?;
            if self.journal.has_gathered() {
                self.journal.begin_write()?;
            }
            if self.tasks.is_empty() && self.done.is_empty() {
                let over = !self.machine.waiting_nodes().is_empty() || self.machine.stuck().is_empty();
                if over || !self.machine.excuse() {
                    return Ok(());
                }
                continue;
            }
            if self.cancel.is_cancelled() {
                return Err(cancelled());
            }
            // While no write is in progress, only finished work needs to be looked at.
            let free = stretch < STRETCH_MAX && !self.journal.is_writing() && !self.journal.is_full();
            if free && let Some(outcome) = self.done.pop_front() {
                stretch += 1;
                self.outcome(outcome)?;
                self.check_size()?;
                continue;
            }
            if std::mem::take(&mut stretch) >= STRETCH_MAX {
                // What is awaited here may depend on other tasks being polled.
                tokio::task::yield_now().await;
            }
            tokio::select! {
                // A completed write makes room for the rest, and what work says comes before how it ends.
                biased;
                written = self.journal.written() => {
                    written?;
                    self.check_size()?;
                }
                Some((activation, signal)) = self.signals.recv(), if !self.journal.is_full() => {
                    self.signal(activation, signal);
                }
                Some(outcome) = self.tasks.next(), if !self.journal.is_full() => {
                    self.outcome(outcome)?;
                    self.check_size()?;
                }
                Some(end) = ends.next() => return Err(end),
                // Last: there may be ever more of it, and the branches above wait for something.
                () = std::future::ready(()), if !self.done.is_empty() && !self.journal.is_full() => {
                    if let Some(outcome) = self.done.pop_front() {
                        self.outcome(outcome)?;
                        self.check_size()?;
                    }
                }
                // Records that can be written now are written together: each write wakes all readers.
                () = std::future::ready(()), if self.journal.can_write() => self.journal.begin_write()?,
            }
        }
    }

    /// Handles the end of an activation, in these steps: this function first takes in what it said before;
    /// `ended` opens a frame, or holds a producer until its listeners have ended; `complete` ends its message
    /// and the producers that nothing else listens to; `conclude` determines whether the run fails with it;
    /// `finish` records the end and informs the machine.
    fn outcome(&mut self, outcome: ActivationOutcome) -> Result<()> {
        // What an activation said before it ended is handled before its end.
        while let Ok((activation, signal)) = self.signals.try_recv() {
            let begins = matches!(signal, Signal::Publish(..));
            self.signal(activation, signal);
            if begins {
                // Listeners start as soon as there is something to hear, however fast the rest was.
                self.start_ready()?;
            }
        }
        if self.cancel.is_cancelled() {
            return Err(cancelled());
        }
        if self.was_cut_off(&outcome) {
            self.cut_off.push(outcome);
            return Ok(());
        }
        self.ended(outcome)?;
        while let Some(place) = self.cut_off.iter().position(|outcome| !self.was_cut_off(outcome)) {
            let listener = self.cut_off.swap_remove(place);
            self.ended(listener)?;
        }
        Ok(())
    }

    /// Settles the outcome of an activation within its size limits, and decides what to do with it: see
    /// [`RunDriver::outcome`].
    fn ended(&mut self, outcome: ActivationOutcome) -> Result<()> {
        let activation = outcome.activation;
        let Some(ix) = self.active.get(&activation).map(|active| active.node) else { return Ok(()) };
        let node = &self.plan.nodes[ix];
        let role = node.role;
        let DriveLimits { output_bytes, values_bytes, .. } = self.limits;
        let room = ActivationRoom::of(&self.machine, activation, output_bytes, values_bytes);
        let mut outcome = bounded(outcome, room);
        let settled = self.suspension_of(&mut outcome).unwrap_or_else(|| settle(node, outcome));
        let pinned = self.context.input.pins.contains_key(&node.id);
        let opens = settled.error.is_none() && settled.onward != NextEdges::Suspended && !pinned;
        if opens && matches!(role, Role::Each | Role::Repeat) {
            self.open_frame(settled);
            return Ok(());
        }
        // Listeners read what there is before the activation ends, even when it failed.
        self.start_ready()?;
        if settled.onward == NextEdges::Suspended {
            self.machine.stop_speaking(activation);
        } else {
            self.machine.produced(activation, settled.produced());
        }
        if self.is_heard(&settled) {
            self.held.push(settled);
            return Ok(());
        }
        self.complete(settled)
    }

    /// Opens the frame of an Iteration or a Loop, which now has what its rounds work on, so that they can begin.
    fn open_frame(&mut self, settled: NodeResult) {
        let items = settled.finished.items.map(Arc::new);
        let activation = settled.activation;
        let outputs = Arc::new(settled.finished.outputs.clone());
        self.journal.note(Record::FrameOpened { activation, outputs, items: items.clone() });
        self.machine.open_frame(activation, settled.finished.outputs, items);
    }

    /// Ends an activation: first its message, then the producers that only it still listened to, then the
    /// activation itself. A producer's failure is reported as the cause of its listener's.
    fn complete(&mut self, mut settled: NodeResult) -> Result<()> {
        let activation = settled.activation;
        let changes = self.changes(&mut settled);
        if self.speaks_at_end(&settled) && !self.may_speak(activation) {
            self.hold_back(settled);
            return Ok(());
        }
        self.end_message(&mut settled);
        let released: Vec<_> = {
            let (machine, speakers) = (&self.machine, &self.speakers);
            let free = |held: &mut NodeResult| {
                let listeners = machine.listening_to(held.activation).into_iter();
                listeners.filter(|&l| l != activation).all(|l| speakers.read_later(held, l))
            };
            self.held.extract_if(.., free).collect()
        };
        let mut first = Ok(());
        for mut ended in released {
            let changes = self.changes(&mut ended);
            first = first.and(self.conclude(ended, changes));
        }
        first.and(self.conclude(settled, changes))
    }
}
