//! Does: starts activations, waits for them, stops them, and tells the machine and the journal what
//! came of it. Everything that is decided is decided in [`crate::machine`].

mod stop;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weft_core::citation::Cited;
use weft_core::component::{Role, Route};
use weft_core::context::{RunContext, SIGNALS_IN_FLIGHT_MAX, Signal};
use weft_core::journal::{Assigned, Ending, Onward, WaitingForm, Who};
use weft_core::seam::chat_model::Usage;
use weft_core::{Error, ErrorKind, NodeContext, Outputs, Piece, Record, Result, Value};
use weft_dsl::plan::{NodeIx, Plan};

use crate::form;
use crate::journal::Journal;
use crate::machine::{Done, Machine, Start};
use crate::perform::{Outcome, Settled, assigned, cancelled, perform, settle, settled_inputs, size};
use crate::scope::ScopeId;

/// What one run and its activations may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriveLimits {
    /// The whole run.
    pub run: Duration,
    /// One activation of a node whose component names no limit.
    pub node: Duration,
    /// What one activation produces.
    pub output_bytes: usize,
}

/// How a run went.
#[derive(Debug)]
pub struct Report {
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
    /// The open forms of a waiting run.
    pub forms: Vec<WaitingForm>,
    /// How long it took, in seconds.
    pub elapsed: f64,
    /// The machine as the run left it.
    pub machine: Machine,
}

/// An activation under way.
struct Active {
    who: Who,
    node: NodeIx,
    named: Arc<Outputs>,
    cancel: CancellationToken,
    began: Instant,
    thinking: bool,
    said: bool,
}

/// Runs a machine until it ends, waits or fails.
pub struct Driver<'a> {
    plan: Arc<Plan>,
    machine: Machine,
    context: Arc<RunContext>,
    journal: &'a mut Journal,
    cancel: CancellationToken,
    limits: DriveLimits,
    tasks: FuturesUnordered<BoxFuture<'static, Outcome>>,
    to_driver: mpsc::Sender<(u32, Signal)>,
    signals: mpsc::Receiver<(u32, Signal)>,
    active: BTreeMap<u32, Active>,
    /// Finished producers whose listeners still read.
    held: Vec<Settled>,
    /// An activation has failed and nothing caught it: the run is about to end.
    failed: bool,
    said: String,
    cited: Vec<Cited>,
    usage: Usage,
    last: Arc<Outputs>,
    last_message: Option<Arc<Outputs>>,
}

impl<'a> Driver<'a> {
    /// A driver for one run.
    pub fn new(
        machine: Machine,
        context: Arc<RunContext>,
        journal: &'a mut Journal,
        cancel: CancellationToken,
        limits: DriveLimits,
    ) -> Self {
        let (to_driver, signals) = mpsc::channel(SIGNALS_IN_FLIGHT_MAX);
        Self {
            plan: Arc::clone(&machine.plan),
            machine,
            context,
            journal,
            cancel,
            limits,
            tasks: FuturesUnordered::new(),
            to_driver,
            signals,
            active: BTreeMap::new(),
            held: Vec::new(),
            failed: false,
            said: String::new(),
            cited: Vec::new(),
            usage: Usage::default(),
            last: Arc::default(),
            last_message: None,
        }
    }

    /// Runs to the end. The journal holds everything but the last record, which the caller writes
    /// when the session is safe.
    pub async fn run(mut self) -> Report {
        let began = Instant::now();
        let result = self.go(began + self.limits.run).await;
        let (ending, error) = match result {
            Ok(()) if !self.machine.parked().is_empty() => (Ending::Waiting, None),
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
        let forms = if ending == Ending::Waiting { self.forms() } else { Vec::new() };
        Report {
            ending,
            outputs: self.last_message.unwrap_or(self.last),
            error,
            said: self.said,
            cited: self.cited,
            usage: self.usage,
            forms,
            elapsed: began.elapsed().as_secs_f64(),
            machine: self.machine,
        }
    }

    async fn go(&mut self, deadline: Instant) -> Result<()> {
        loop {
            self.start_ready()?;
            self.journal.begin_write()?;
            if self.tasks.is_empty() {
                let over = !self.machine.parked().is_empty() || self.machine.stuck().is_empty();
                if over || !self.machine.excuse() {
                    return Ok(());
                }
                continue;
            }
            if self.cancel.is_cancelled() {
                return Err(cancelled());
            }
            tokio::select! {
                biased;
                written = self.journal.written() => written?,
                Some((activation, signal)) = self.signals.recv(), if !self.journal.is_full() => {
                    self.signal(activation, signal);
                }
                Some(outcome) = self.tasks.next(), if !self.journal.is_full() => self.outcome(outcome)?,
                () = self.cancel.cancelled() => return Err(cancelled()),
                () = tokio::time::sleep_until(deadline) => {
                    let message = format!("the run took longer than its {} s", self.limits.run.as_secs());
                    return Err(Error::new(ErrorKind::Timeout, message).help("raise limits.run_seconds"));
                }
            }
        }
    }

    fn start_ready(&mut self) -> Result<()> {
        loop {
            self.follow();
            match self.machine.next_start() {
                Ok(Some(start)) => self.start(start),
                Ok(None) if self.unpark_addressed() => {}
                Ok(None) => return Ok(()),
                Err(_) => {
                    let count = self.machine.limits.activations;
                    let message = format!("the run used up its {count} activations");
                    return Err(Error::new(ErrorKind::QuotaExceeded, message)
                        .help("look for a cycle that never leaves, or raise limits.activations"));
                }
            }
        }
    }

    /// A form whose answers came with the run, below its node's id, need not wait for a person.
    fn unpark_addressed(&mut self) -> bool {
        if !std::mem::take(&mut self.machine.newly_parked) {
            return false;
        }
        let context = Arc::clone(&self.context);
        let inputs = &context.input.inputs;
        let parked = self.machine.parked().into_iter();
        let mut any = false;
        for (scope, ix) in parked.filter(|(_, ix)| form::addressed(&self.plan.nodes[*ix].id, inputs)) {
            let form = self.machine.form(scope, ix);
            let answers = form::answers(&self.plan.nodes[ix].id, &form, inputs);
            any |= self.machine.answer((scope, ix), &form, answers);
        }
        any
    }

    fn start(&mut self, start: Start) {
        let node = &self.plan.nodes[start.node];
        self.journal.note(Record::NodeStarted { who: start.who.clone() });
        // Only what is inside a frame can be stopped on its own.
        let framed = !start.who.frame.is_empty();
        let cancel = if framed { self.cancel.child_token() } else { self.cancel.clone() };
        let filled = match node.role {
            Role::Entry => form::unwrap(&self.context.input.inputs),
            _ => start.filled,
        };
        let context = NodeContext {
            run: Arc::clone(&self.context),
            node: node.id.clone(),
            name: Arc::clone(&node.name),
            activation: start.who.activation,
            inputs: start.inputs,
            alternative: start.alternative,
            round: start.round,
            filled,
            heard: start.heard,
            cancel: cancel.clone(),
            signals: self.to_driver.clone(),
        };
        let activation = start.who.activation;
        let active = Active {
            who: start.who,
            node: start.node,
            named: start.named,
            cancel: cancel.clone(),
            began: Instant::now(),
            thinking: false,
            said: false,
        };
        self.active.insert(activation, active);
        let limit = node.time_limit.unwrap_or(self.limits.node);
        let (plan, ix) = (Arc::clone(&self.plan), start.node);
        self.tasks.push(async move { perform(&plan.nodes[ix], context, cancel, limit).await }.boxed());
    }

    fn signal(&mut self, activation: u32, signal: Signal) {
        if matches!(signal, Signal::Say(Piece::Text(_))) {
            self.end_thinking(activation);
        }
        let Some(active) = self.active.get_mut(&activation) else { return };
        let node = active.who.node.clone();
        match signal {
            Signal::Say(Piece::Text(text)) => {
                active.said = true;
                self.said.push_str(&text);
                self.journal.note(Record::Said { activation, node, text });
            }
            Signal::Say(Piece::Thinking(text)) => {
                active.said = true;
                if !std::mem::replace(&mut active.thinking, true) {
                    self.journal.note(Record::ThinkingStarted { activation, node: node.clone() });
                }
                self.journal.note(Record::Said { activation, node, text });
            }
            Signal::Publish(output, text) => self.machine.published(activation, &output, Value::Stream(text)),
            Signal::Used(usage) => {
                self.usage += usage;
                self.journal.note(Record::EffectFinished { activation, effect: "model".into(), usage });
            }
            Signal::Warn(message) => self.journal.note(Record::Warned { node, message: message.into() }),
        }
    }

    /// Says that the reasoning is over, if it is under way.
    fn end_thinking(&mut self, activation: u32) {
        let Some(active) = self.active.get_mut(&activation) else { return };
        if std::mem::take(&mut active.thinking) {
            self.journal.note(Record::ThinkingEnded { activation, node: active.who.node.clone() });
        }
    }

    fn outcome(&mut self, mut outcome: Outcome) -> Result<()> {
        // What an activation said before it ended comes before its end.
        while let Ok((activation, signal)) = self.signals.try_recv() {
            self.signal(activation, signal);
        }
        if self.cancel.is_cancelled() {
            return Err(cancelled());
        }
        let activation = outcome.activation;
        let Some(ix) = self.active.get(&activation).map(|active| active.node) else { return Ok(()) };
        let node = &self.plan.nodes[ix];
        let role = node.role;
        let limit = self.limits.output_bytes;
        if outcome.result.as_ref().is_ok_and(|finished| size(&finished.outputs) > limit) {
            let message = format!("its output is larger than {limit} bytes");
            outcome.result = Err(Error::invalid(message).help("shorten it, or raise limits.output_bytes"));
        }
        let settled = settle(node, outcome);
        if settled.error.is_none() && matches!(role, Role::Each | Role::Repeat) {
            self.open_frame(settled);
            return Ok(());
        }
        // Whoever listens to it reads what there is before it ends, also when it failed.
        self.start_ready()?;
        if !self.machine.listening_to(activation).is_empty() {
            self.held.push(settled);
            return Ok(());
        }
        self.complete(settled)
    }

    fn open_frame(&mut self, settled: Settled) {
        let items = settled.finished.items.map(Arc::new);
        let activation = settled.activation;
        self.journal.note(Record::FrameOpened { activation, items: items.clone() });
        self.machine.open_frame(activation, settled.finished.outputs, items);
    }

    /// Ends an activation: its message first, then the producers it was the last to listen to, then
    /// itself. A failure of a producer is the cause of its listener's.
    fn complete(&mut self, mut settled: Settled) -> Result<()> {
        let activation = settled.activation;
        self.end_message(&mut settled);
        let released: Vec<_> = {
            let machine = &self.machine;
            let free =
                |held: &mut Settled| machine.listening_to(held.activation).iter().all(|&l| l == activation);
            self.held.extract_if(.., free).collect()
        };
        let mut first = Ok(());
        for ended in released.into_iter().chain([settled]) {
            let failure = self.failure(&ended);
            self.finish(ended);
            first = first.and(failure.map_or(Ok(()), Err));
        }
        first
    }

    /// Why the run fails with this activation, if it does.
    fn failure(&self, settled: &Settled) -> Option<Error> {
        let error = settled.error.as_ref().filter(|_| settled.onward == Onward::Nowhere)?;
        let who = &self.active.get(&settled.activation)?.who;
        Some(Error::new(error.kind, format!("{} ({}) failed: {}", who.name, who.node, error.full())))
    }

    fn end_message(&mut self, settled: &mut Settled) {
        let activation = settled.activation;
        self.end_thinking(activation);
        let Some(active) = self.active.get(&activation) else { return };
        let (node, ix) = (active.who.node.clone(), active.node);
        let said = active.said;
        let plan_node = &self.plan.nodes[ix];
        let caught = settled.error.is_some() && settled.onward == Onward::By(Route::Onward);
        if caught && !plan_node.message_follows {
            // Nobody after it will show the default value, so it is shown here.
            let text =
                plan_node.exception.default.as_ref().map(weft_core::value::to_text).unwrap_or_default();
            self.said.push_str(&text);
            self.journal.note(Record::Said { activation, node: node.clone(), text: text.into() });
            settled.finished.message_end.get_or_insert_default();
        }
        let end = settled.finished.message_end.take();
        if let Some(end) = end.or_else(|| (said && settled.error.is_some()).then(Default::default)) {
            self.last_message = Some(Arc::new(settled.finished.outputs.clone()));
            let new = end.cited.iter().filter(|c| !self.cited.iter().any(|known| known.number == c.number));
            let new: Vec<_> = new.cloned().collect();
            self.cited.extend(new);
            self.journal.note(Record::MessageEnded { activation, node, end });
        }
    }

    fn finish(&mut self, settled: Settled) {
        let Some(active) = self.active.remove(&settled.activation) else { return };
        let outputs = Arc::new(settled.finished.outputs);
        let assigned = assigned(&settled.finished.assigned);
        self.last = Arc::clone(&outputs);
        self.note_finished(active, &outputs, settled.error.as_ref(), (&settled.onward, &assigned));
        self.failed |= settled.error.is_some() && settled.onward == Onward::Nowhere;
        let done = Done { outputs, onward: settled.onward, assigned };
        self.machine.finished(settled.activation, done);
        self.follow();
    }

    fn note_finished(
        &mut self,
        active: Active,
        outputs: &Arc<Outputs>,
        error: Option<&Error>,
        (onward, assigned): (&Onward, &[Assigned]),
    ) {
        self.journal.note(Record::NodeFinished {
            inputs: settled_inputs(&active.named),
            who: active.who,
            outputs: Arc::clone(outputs),
            error: error.map(|error| error.full().into()),
            elapsed: active.began.elapsed().as_secs_f64(),
            route: onward.clone(),
            assigned: assigned.to_vec(),
        });
    }

    fn form(&self, scope: ScopeId, ix: NodeIx) -> WaitingForm {
        WaitingForm {
            node: self.plan.nodes[ix].id.clone(),
            frame: self.machine.path(scope),
            form: self.machine.form(scope, ix),
        }
    }

    fn forms(&self) -> Vec<WaitingForm> {
        self.machine.parked().into_iter().map(|(scope, ix)| self.form(scope, ix)).collect()
    }
}
