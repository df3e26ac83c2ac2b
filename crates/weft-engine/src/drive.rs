//! Does: starts activations, waits for them, stops them, and tells the machine and the journal what
//! came of it. Everything that is decided is decided in [`crate::machine`].

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
use crate::recover::{EarlierWork, ScopedNode};
use crate::turn_calls::TurnCalls;

use self::speak::Speakers;

/// How the errors of work begin that did not end by itself.
pub(crate) const STOPPED: &str = "stopped: ";

/// As good as no end: an instant further ahead cannot be told, and adding a longer limit to now would panic.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);
/// Activations that end one after the other before it is looked at anything else.
const STRETCH_MAX: u32 = 64;

/// What one run and its activations may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriveLimits {
    /// The whole run.
    pub run: Duration,
    /// One activation of a node whose component names no limit.
    pub node: Duration,
    /// What one activation produces.
    pub output_bytes: usize,
    /// What the values of the run take together.
    pub values_bytes: usize,
    /// What its journal takes.
    pub journal_bytes: u64,
}

/// How a run went.
#[derive(Debug)]
pub struct RunReport {
    /// How it ended.
    pub ending: Ending,
    /// The outputs of the last Message, else of the last node.
    pub outputs: Arc<Outputs>,
    /// Why, unless it succeeded or waits.
    pub error: Option<Error>,
    /// Everything it said, without reasoning.
    pub said: String,
    /// The sources its messages cite.
    pub cited: Vec<Cited>,
    /// What it used.
    pub usage: Usage,
    /// The same by node and model, without what the run used whose beginning it shares.
    pub uses: Vec<ModelUse>,
    /// What it used of the budgets.
    pub spent: Spent,
    /// The limits that have cut agents' work short.
    pub limited: Vec<Limited>,
    /// The open forms of a waiting run.
    pub forms: Vec<WaitingForm>,
    /// The calls of tools that its agents have made.
    pub(crate) calls: TurnCalls,
    /// What people have said to its agents while they worked.
    pub(crate) heard: Vec<String>,
    /// How long it took, in seconds.
    pub elapsed: f64,
    /// The machine as the run left it.
    pub machine: Machine,
}

/// An activation under way.
struct RunningActivation {
    who: ActivationRef,
    node: NodeIx,
    named: Arc<Outputs>,
    /// Stops its frame; absent at the top, where nothing is stopped alone.
    cancel: Option<CancellationToken>,
    began: Instant,
    thinking: bool,
    /// It has said something that nobody had heard before.
    said: bool,
    speech: OutputDedup,
    alternative: usize,
    /// Calls of tools that are under way, and since when.
    calls: Vec<(ToolStarted, Instant)>,
    /// Calls of tools that were told before the run was interrupted.
    told: HashSet<(Arc<str>, Arc<str>)>,
    /// What it asks and remembers, when it stops to wait for a person.
    suspension: Option<Box<Suspension>>,
    /// What it uses; absent for a frame that was opened in an earlier run.
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
    /// What was over as soon as it had begun, in the order in which it began.
    done: VecDeque<ActivationOutcome>,
    to_driver: mpsc::Sender<(u32, Signal)>,
    signals: mpsc::Receiver<(u32, Signal)>,
    // Boxed: a map has room for eleven, and most runs have one or two.
    active: BTreeMap<u32, Box<RunningActivation>>,
    /// What stops the work in a frame, by the frame's activation.
    frames: BTreeMap<u32, CancellationToken>,
    /// Finished producers whose listeners still read.
    held: Vec<NodeResult>,
    speakers: Speakers,
    /// Listeners whose text was cut off, until those who wrote it tell why.
    cut_off: Vec<ActivationOutcome>,
    /// An activation has failed and nothing caught it: the run is about to end.
    failed: bool,
    /// Why the run was about to fail when it was cut off.
    failed_before: Option<Error>,
    /// Frames that are open and have not been told of in this run.
    reopens: Vec<u32>,
    /// Somebody else may still be at work on the run, until it is stored that it is ours.
    takes_over: bool,
    said: SaidTexts,
    cited: Vec<Cited>,
    usage: Usage,
    uses: Vec<ModelUse>,
    limited: Vec<Limited>,
    calls: TurnCalls,
    heard: Vec<String>,
    /// How many of the sources that were found are in the journal, once it says that somebody looked for some.
    sourced: Option<usize>,
    /// How long the run was worked on before it was cut off.
    worked: Duration,
    /// What the run whose beginning it shares has used for that.
    shared: Spent,
    /// What work that begins again need not do again.
    before: HashMap<ScopedNode, EarlierWork>,
    ledger: Ledger,
    last: Arc<Outputs>,
    last_message: Option<Arc<Outputs>>,
}

impl<'a> RunDriver<'a> {
    /// A driver for one run.
    pub fn new(
        machine: Machine,
        context: Arc<RunContext>,
        journal: &'a mut RunJournal,
        cancel: CancellationToken,
        limits: DriveLimits,
    ) -> Self {
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

    /// What becomes of its calls; without this they are kept.
    #[must_use]
    pub fn with_calls(self, calls: CallHandling) -> Self {
        Self { ledger: Ledger::new(calls), ..self }
    }

    /// Runs to the end; [`RunDriver::report`] takes what came of it.
    ///
    /// # Errors
    /// Why it did not come to its end.
    pub async fn run(&mut self, began: Instant) -> Result<()> {
        self.reopen_frames();
        let left = self.limits.run.saturating_sub(self.worked).min(FOREVER);
        self.go(began + left).await
    }

    /// How it went. The journal holds everything but the last record, which the caller writes when the session is safe.
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

    /// Works until nothing is left to do, something fails, or the time is over.
    async fn go(&mut self, deadline: Instant) -> Result<()> {
        if self.takes_over {
            self.journal.flush().await?;
            if self.cancel.is_cancelled() {
                return Err(cancelled());
            }
        }
        if let Some(error) = self.failed_before.take() {
            return Err(error);
        }
        let cancel = self.cancel.clone();
        let (stopped, over) = (cancel.cancelled(), tokio::time::sleep_until(deadline));
        // Looked at only when one of the two wakes this: otherwise each step would ask both.
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
            // As long as nothing is waited for, nothing need be looked at but what is done.
            let free = stretch < STRETCH_MAX && !self.journal.is_writing() && !self.journal.is_full();
            if free && let Some(outcome) = self.done.pop_front() {
                stretch += 1;
                self.outcome(outcome)?;
                self.check_size()?;
                continue;
            }
            if std::mem::take(&mut stretch) >= STRETCH_MAX {
                // What is waited for here may wait for others to have their turn.
                tokio::task::yield_now().await;
            }
            tokio::select! {
                // A write that is done makes room for the rest, and what work says comes before how it ends.
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
                // After the others: there may be more and more of it, and they wait for something.
                () = std::future::ready(()), if !self.done.is_empty() && !self.journal.is_full() => {
                    if let Some(outcome) = self.done.pop_front() {
                        self.outcome(outcome)?;
                        self.check_size()?;
                    }
                }
                // What can be done at once is written down together: each write wakes whoever reads.
                () = std::future::ready(()), if self.journal.can_write() => self.journal.begin_write()?,
            }
        }
    }

    /// An activation has ended. Its end takes these steps: here what it said before is heard; `ended` opens a frame, or keeps a
    /// producer until its listeners have ended; `complete` ends its message and the producers that nobody else listens to;
    /// `conclude` finds out whether the run fails with it; `finish` writes it down and tells the machine.
    fn outcome(&mut self, outcome: ActivationOutcome) -> Result<()> {
        // What an activation said before it ended comes before its end.
        while let Ok((activation, signal)) = self.signals.try_recv() {
            let begins = matches!(signal, Signal::Publish(..));
            self.signal(activation, signal);
            if begins {
                // Whoever listens begins as soon as there is something to hear, however fast the rest was.
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

    /// Settles what came of an activation within the room that it has, and says what is done with it: see
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
        // Whoever listens to it reads what there is before it ends, also when it failed.
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

    /// An Iteration or a Loop has what its rounds work on: they can begin.
    fn open_frame(&mut self, settled: NodeResult) {
        let items = settled.finished.items.map(Arc::new);
        let activation = settled.activation;
        let outputs = Arc::new(settled.finished.outputs.clone());
        self.journal.note(Record::FrameOpened { activation, outputs, items: items.clone() });
        self.machine.open_frame(activation, settled.finished.outputs, items);
    }

    /// Ends an activation: its message first, then the producers it was the last to listen to, then
    /// itself. A failure of a producer is the cause of its listener's.
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
