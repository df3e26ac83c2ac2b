//! Replays a run from its journal: every activation runs with the inputs and outside results it had then, and
//! nothing is called outside. What it says, calls and returns is compared with the journal.
//!
//! The journal leads: its entries are taken in order, so activations begin and end when they did then,
//! whatever the speed of this machine. The events of the replay are the journal's entries, byte for byte; the
//! differences say where they no longer hold.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use weft_core::budget::{BudgetLimits, Spent};
use weft_core::component::Suspension;
use weft_core::context::{Limited, RunContext, SIGNALS_IN_FLIGHT_MAX, Signal, ToolFinished};
use weft_core::effect::{Effects, Recorded};
use weft_core::journal::{ActivationRef, NextEdges};
use weft_core::masking::Masks;
use weft_core::value::to_text;
use weft_core::{ComponentId, Entry, Floor, Json, Piece, Record, Result, SharedText, Value};
use weft_dsl::plan::{NodeIx, Plan};

use crate::machine::ActivationStart;
use crate::output_dedup::OutputDedup;
use crate::perform::{ActivationOutcome, ActivationRoom, NodeResult, Own, bounded, context_of, settle, work};
use crate::recording::Recording;
use crate::recover::JournalReader;
use crate::stopped::STOPPED;

/// Maximum number of polls of work that may be stuck waiting for a call that never returned.
const LOOKS_MAX: usize = 1_000;

/// A difference between a replayed run and its journal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The number of the journal entry.
    pub seq: u64,
    /// The node.
    pub node: ComponentId,
    /// What differs: `outputs`, `error`, `route`, `assigned`, `suspension`, `text`, `tool`, `stream`.
    pub what: &'static str,
    /// The value in the journal.
    pub recorded: Json,
    /// The value in the replay.
    pub now: Json,
}

impl Difference {
    /// Returns the difference with secrets masked.
    #[must_use]
    pub fn masked(self, masks: &Masks) -> Self {
        let shown = |value: Json| masks.json(&value).unwrap_or(value);
        Self { recorded: shown(self.recorded), now: shown(self.now), ..self }
    }
}

/// Limits of replayed activations.
#[derive(Clone, Copy, Debug)]
pub struct ReplayLimits {
    /// Time limit of an activation whose component sets none of its own.
    pub node: Duration,
    /// Size of what one activation produces, in bytes.
    pub output_bytes: usize,
    /// Size of all values of the run together, in bytes.
    pub values_bytes: usize,
}

/// An activation that is being replayed.
struct ReplayedActivation {
    who: ActivationRef,
    ix: NodeIx,
    cancel: CancellationToken,
    speech: OutputDedup,
    said: String,
    tools: Vec<ToolFinished>,
    /// The budgets that have cut its work short.
    budgets: HashSet<Limited>,
    texts: BTreeMap<Arc<str>, SharedText>,
    end: Option<ActivationEnd>,
    /// What the journal says about it so far.
    then: Then,
}

/// The outcome of a replayed activation.
struct ActivationEnd {
    settled: NodeResult,
    /// The suspension, if it was only suspended.
    suspended: Option<Suspension>,
}

#[derive(Default)]
struct Then {
    thinking: bool,
    said: String,
    tools: Vec<ToolFinished>,
    budgets: HashSet<Limited>,
}

/// A run that is being replayed.
pub struct Replay {
    plan: Arc<Plan>,
    context: Arc<RunContext>,
    limits: ReplayLimits,
    reading: JournalReader,
    recording: Recording,
    recorded: Arc<Recorded>,
    tasks: FuturesUnordered<BoxFuture<'static, ActivationOutcome>>,
    to_replay: mpsc::Sender<(u32, Signal)>,
    signals: mpsc::Receiver<(u32, Signal)>,
    active: BTreeMap<u32, ReplayedActivation>,
    /// Work is waiting for a call that never returned.
    stuck: bool,
    /// Activations that listen to such work.
    unheard: HashSet<u32>,
    /// The entries of steps whose outputs were edited when the run was forked.
    given: Vec<u64>,
    differences: Vec<Difference>,
}

impl Replay {
    /// Creates a replay from the machine and the context that the run began with.
    pub fn new(
        reading: JournalReader,
        plan: Arc<Plan>,
        context: Arc<RunContext>,
        limits: ReplayLimits,
    ) -> Self {
        let (to_replay, signals) = mpsc::channel(SIGNALS_IN_FLIGHT_MAX);
        Self {
            plan,
            context,
            limits,
            reading,
            recording: Recording::default(),
            recorded: Arc::default(),
            tasks: FuturesUnordered::new(),
            to_replay,
            signals,
            active: BTreeMap::new(),
            stuck: false,
            unheard: HashSet::new(),
            given: Vec::new(),
            differences: Vec::new(),
        }
    }

    /// Replays everything in these entries.
    ///
    /// # Errors
    /// `Conflict` when the entries cannot follow from one another on this canvas.
    pub async fn run(mut self, entries: &[Entry]) -> Result<Vec<Difference>> {
        self.recording = Recording::of(entries);
        self.given = match entries.first().map(|entry| &entry.record) {
            Some(Record::RunStarted { forks: Some(forks), .. }) => forks.given().collect(),
            _ => Vec::new(),
        };
        for entry in entries {
            self.before(entry).await;
            if let Some(start) = self.reading.take(entry)? {
                self.start(start);
            }
            if let Record::Published { activation, .. } = &entry.record {
                self.produced(*activation);
            }
        }
        Ok(self.differences)
    }

    fn start(&mut self, mut start: ActivationStart) {
        let activation = start.who.activation;
        let node = &self.plan.nodes[start.node];
        let cancel = CancellationToken::new();
        let calls = self.recording.of_activation(activation);
        let effects = Effects::recorded(calls, HashMap::new(), Arc::clone(&self.recorded));
        let budget = self.context.budget.within(BudgetLimits::default(), Spent::default());
        // Each activation's text keeps its own order; the order of the messages is the journal's.
        let (floor, signals) = (Floor::default(), self.to_replay.clone());
        let text_max = self.limits.output_bytes;
        let own = Own { effects, budget, floor, cancel: cancel.clone(), signals, text_max };
        let context = context_of(&self.context, node, &mut start, own);
        let limit = node.time_limit.unwrap_or(self.limits.node);
        self.tasks.push(work(&self.plan, start.node, context, limit));
        let active = ReplayedActivation {
            who: start.who,
            ix: start.node,
            cancel,
            speech: OutputDedup::after(start.spoken),
            said: String::new(),
            tools: Vec::new(),
            budgets: HashSet::new(),
            texts: BTreeMap::new(),
            end: None,
            then: Then::default(),
        };
        self.active.insert(activation, active);
    }

    /// Provides and compares what is needed before an entry is taken.
    async fn before(&mut self, entry: &Entry) {
        match &entry.record {
            Record::Published { activation, output } => {
                if let Some(text) = self.text(*activation, output).await {
                    self.reading.offer(*activation, output, text);
                } else if let Some(active) = self.active.get(activation).filter(|_| !self.stuck) {
                    let node = active.who.node.clone();
                    let (seq, recorded, now) = (entry.seq, json!(output), Json::Null);
                    self.differences.push(Difference { seq, node, what: "stream", recorded, now });
                }
            }
            Record::FrameOpened { activation, outputs, items } => {
                let Some((active, ActivationEnd { settled: NodeResult { finished, .. }, .. })) =
                    self.end(*activation).await
                else {
                    return;
                };
                let at = (entry.seq, &active.who.node);
                self.compare(at, "outputs", json!(outputs), json!(finished.outputs));
                self.compare(at, "items", json!(items), json!(finished.items));
            }
            Record::NodeFinished { who, .. } => self.finished(who, entry).await,
            Record::ThinkingStarted { activation, .. } => self.told(*activation, |then| then.thinking = true),
            Record::ThinkingEnded { activation, .. } => self.told(*activation, |then| then.thinking = false),
            Record::Said { activation, text, .. } => self.told(*activation, |then| {
                if !then.thinking {
                    then.said.push_str(text);
                }
            }),
            Record::ToolFinished { activation, call } => {
                self.told(*activation, |then| then.tools.push(call.clone()));
            }
            Record::Limited { activation, reason: reason @ Limited::Budget(_), .. } => {
                self.told(*activation, |then| then.budgets.extend([*reason]));
            }
            _ => {}
        }
    }

    fn told(&mut self, activation: u32, note: impl FnOnce(&mut Then)) {
        if let Some(active) = self.active.get_mut(&activation) {
            note(&mut active.then);
        }
    }

    async fn finished(&mut self, who: &ActivationRef, entry: &Entry) {
        let Record::NodeFinished { outputs, error, route, assigned: given, suspension, .. } = &entry.record
        else {
            return;
        };
        let at = (entry.seq, &who.node);
        let by_hand = self.given.contains(&entry.seq);
        let stopped = error.as_ref().is_some_and(|error| error.starts_with(STOPPED));
        let suspended = *route == NextEdges::Suspended && suspension.is_none();
        if stopped || suspended || by_hand || self.unheard.remove(&who.activation) {
            // It did not end by itself then, its outputs were edited, or the text it listened to is unknown:
            // there is nothing to compare.
            if let Some(active) = self.active.remove(&who.activation) {
                active.cancel.cancel();
            }
            return;
        }
        if !self.active.contains_key(&who.activation) {
            // The end of a frame, which results from its rounds.
            if let Some(now) = self.reading.frame_outputs(who.activation) {
                self.compare(at, "outputs", json!(outputs), json!(now));
            }
            return;
        }
        let listeners = self.reading.machine().listening_to(who.activation);
        let Some((active, ActivationEnd { settled, suspended })) = self.end(who.activation).await else {
            self.unheard.extend(listeners);
            return;
        };
        if active.budgets != active.then.budgets {
            // What other runs had used of a shared budget is not in this journal.
            self.unheard.extend(listeners);
            return;
        }
        let node = Arc::clone(&self.plan);
        let node = &node.nodes[active.ix];
        self.compare(at, "suspension", timeless(json!(suspension)), timeless(json!(suspended)));
        if suspended.is_some() || suspension.is_some() {
            return;
        }
        // The results of its assignments are computed when it is the activation's turn to end.
        let (assigned, text_max) = (&settled.finished.assigned, self.limits.output_bytes);
        let changes = self.reading.machine().changes(who.activation, assigned, text_max, usize::MAX);
        let settled = match changes {
            Ok(_) => settled,
            Err(error) => settle(node, ActivationOutcome { activation: who.activation, result: Err(error) }),
        };
        let NodeResult { finished, onward, error: now, .. } = settled;
        self.compare(at, "error", json!(error), json!(now.as_ref().map(weft_core::Error::full)));
        self.compare(at, "outputs", json!(outputs), json!(finished.outputs));
        self.compare(at, "route", json!(route), json!(onward));
        self.compare(at, "assigned", json!(given), json!(finished.assigned));
        let mut said = active.said;
        let shown =
            now.is_some() && onward == NextEdges::Routed(weft_core::Route::Onward) && !node.message_follows;
        if let Some(default) = node.exception.default.as_ref().filter(|_| shown) {
            said.push_str(&to_text(default));
        }
        self.compare(at, "text", json!(active.then.said), json!(said));
        for call in active.then.tools {
            let now = active.tools.iter().find(|now| {
                (&now.started.path, &now.started.call) == (&call.started.path, &call.started.call)
            });
            let of = |call: &ToolFinished| json!({"tool": call.started.tool, "arguments": call.started.arguments, "result": call.result, "failed": call.failed});
            let cut = call.failed && call.result.as_str().is_some_and(|result| result.starts_with(STOPPED));
            if !cut {
                self.compare(at, "tool", of(&call), now.map_or(Json::Null, of));
            }
        }
    }

    fn compare(&mut self, at: (u64, &ComponentId), what: &'static str, recorded: Json, now: Json) {
        if recorded != now {
            let (seq, node) = (at.0, at.1.clone());
            self.differences.push(Difference { seq, node, what, recorded, now });
        }
    }

    /// Returns the text that an activation begins to write; `None` when it ends without writing one, or when
    /// it waits for a call that never returned.
    async fn text(&mut self, activation: u32, output: &str) -> Option<Value> {
        for _ in 0..LOOKS_MAX {
            let active = self.active.get(&activation)?;
            if let Some(text) = active.texts.get(output) {
                return Some(Value::Stream(text.clone()));
            }
            if active.end.is_some() {
                return None;
            }
            self.go_on().await;
        }
        None
    }

    /// Returns the outcome of an activation; `None` when it waits for a call that never returned, so that its
    /// recorded end had another cause.
    async fn end(&mut self, activation: u32) -> Option<(ReplayedActivation, ActivationEnd)> {
        let mut looks = 0;
        while looks < LOOKS_MAX {
            if self.active.get(&activation)?.end.is_some() {
                let mut active = self.active.remove(&activation)?;
                let end = active.end.take()?;
                return Some((active, end));
            }
            self.go_on().await;
            // Only polls of stuck work count: other work may take as many steps as it needs.
            looks += usize::from(self.stuck);
        }
        let active = self.active.remove(&activation)?;
        active.cancel.cancel();
        None
    }

    /// Lets the work advance by one step.
    async fn go_on(&mut self) {
        let recorded = Arc::clone(&self.recorded);
        tokio::select! {
            // Signals before ends, as in the run itself: the order is part of what is compared.
            biased;
            Some((activation, signal)) = self.signals.recv() => self.signal(activation, signal),
            Some(outcome) = self.tasks.next() => {
                // What it said before it ended is handled before its end.
                while let Ok((activation, signal)) = self.signals.try_recv() {
                    self.signal(activation, signal);
                }
                self.ended(outcome);
            }
            () = recorded.waits(), if !self.stuck => self.stuck = true,
            () = tokio::task::yield_now(), if self.stuck => {}
        }
    }

    fn ended(&mut self, mut outcome: ActivationOutcome) {
        let Some(active) = self.active.get_mut(&outcome.activation) else { return };
        let suspended = outcome.result.as_mut().ok().and_then(|finished| finished.suspended.take());
        let ReplayLimits { output_bytes, values_bytes, .. } = self.limits;
        let machine = self.reading.machine();
        let room = ActivationRoom::of(machine, outcome.activation, output_bytes, values_bytes);
        let settled = settle(&self.plan.nodes[active.ix], bounded(outcome, room));
        let activation = settled.activation;
        active.end = Some(ActivationEnd { settled, suspended: suspended.map(|suspended| *suspended) });
        self.produced(activation);
    }

    /// Provides the activation's outputs to nodes that read them early. It may have ended here before the
    /// journal reports that it began to write.
    fn produced(&self, activation: u32) {
        let end = self.active.get(&activation).and_then(|active| active.end.as_ref());
        if let Some(ActivationEnd { settled, suspended: None }) = end {
            self.reading.produced(activation, settled.produced());
        }
    }

    fn signal(&mut self, activation: u32, signal: Signal) {
        let Some(active) = self.active.get_mut(&activation) else { return };
        match signal {
            Signal::Say(piece) => {
                if let Some(Piece::Text(text)) = active.speech.new_part(piece) {
                    active.said.push_str(&text);
                }
            }
            Signal::Publish(output, text) => drop(active.texts.insert(output, text)),
            Signal::ToolFinished(call) => active.tools.push(*call),
            Signal::Limited(reason @ Limited::Budget(_)) => active.budgets.extend([reason]),
            // These were reported by the code that made the calls.
            Signal::Speak
            | Signal::Play(_)
            | Signal::Used(_)
            | Signal::Warn(_)
            | Signal::ToolStarted(_)
            | Signal::Limited(_)
            | Signal::EffectStarted(_)
            | Signal::EffectFinished(_)
            | Signal::Stored(_) => {}
        }
    }
}

/// Returns saved state without the time spent, which is never the same twice.
fn timeless(mut remembered: Json) -> Json {
    let mut inside = vec![&mut remembered];
    while let Some(value) = inside.pop() {
        match value {
            Json::Object(members) => {
                if let Some(Json::Object(spent)) = members.get_mut("spent") {
                    spent.remove("millis");
                }
                inside.extend(members.values_mut());
            }
            Json::Array(items) => inside.extend(items),
            _ => {}
        }
    }
    remembered
}
