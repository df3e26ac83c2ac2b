//! Rebuilds an interrupted run from its journal. Performs no I/O: the same records give the same state.
//!
//! The facts in the journal are fed to a machine in their order, which brings it to where it was. Work that
//! was under way is requeued so that it begins again; the outside results that it already had are kept for
//! it, so that nothing is requested twice.

mod begin_again;
mod tool_calls;
mod uses;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use weft_core::budget::Spent;
use weft_core::citation::Cited;
use weft_core::context::{Limited, ToolStarted};
use weft_core::effect::Known;
use weft_core::inbox::taken;
use weft_core::journal::{ActivationRef, NextEdges};
use weft_core::seam::chat_model::Usage;
use weft_core::usage::ModelUse;
use weft_core::{ComponentId, Entry, Error, ErrorKind, Json, Outputs, Record, Result, SharedText, Value};

use crate::answers;
use crate::journal::written_bytes;
use crate::machine::{ActivationStart, Consequence, FinishedActivation, Machine};
use crate::output_dedup::{SaidSoFar, SaidTexts};
use crate::perform::{failed_with, settle_frame};
use crate::scope::{Filled, ScopedNode, SuspendedNode};
use crate::stopped::STOPPED;
use crate::turn_calls::TurnCalls;

/// What work that begins again need not repeat.
#[derive(Clone, Debug, Default)]
pub struct EarlierWork {
    /// Its outside calls.
    pub effects: HashMap<Arc<str>, Known>,
    /// Tool calls that were already reported, by path and id.
    pub told: HashSet<(Arc<str>, Arc<str>)>,
    /// How long it has been worked on, in milliseconds.
    pub millis: u64,
}

/// An activation that was under way.
#[derive(Debug)]
pub struct OpenActivation {
    /// The activation.
    pub who: ActivationRef,
    /// Its scope and node.
    pub place: ScopedNode,
    /// It was in the middle of its reasoning.
    pub thinking: bool,
    /// It had said something.
    pub said: bool,
    /// Tool calls that were in progress.
    pub calls: Vec<ToolStarted>,
    before: EarlierWork,
    spoken: SaidSoFar,
    alternative: usize,
    suspended: Option<SuspendedNode>,
    filled: Option<Filled>,
    /// When it began, in milliseconds since 1970.
    began_ms: i64,
}

/// A run rebuilt from its journal.
#[derive(Debug)]
pub struct Recovered {
    /// Its state, with the work that was under way requeued.
    pub machine: Machine,
    /// The activations that were under way.
    pub open: Vec<OpenActivation>,
    /// What work that begins again need not repeat.
    pub before: HashMap<ScopedNode, EarlierWork>,
    /// Everything it has said, without reasoning and without what was taken back.
    pub said: SaidTexts,
    /// The node that was speaking when the run was interrupted.
    pub speaker: Option<ScopedNode>,
    /// The sources that its messages cite.
    pub cited: Vec<Cited>,
    /// The sources it has found.
    pub sources: Vec<Cited>,
    /// Its model usage.
    pub usage: Usage,
    /// Its usage by node and model, without that of a run whose beginning it shares.
    pub uses: Vec<ModelUse>,
    /// What its finished work has used of its budgets.
    pub spent: Spent,
    /// The part of that used by the run whose beginning this one shares.
    pub shared: Spent,
    /// The limits that cut agents' work short.
    pub limited: Vec<Limited>,
    /// The tool calls that its agents made.
    pub calls: TurnCalls,
    /// What people said to its agents while they worked.
    pub heard: Vec<String>,
    /// The outputs of the last node.
    pub last: Arc<Outputs>,
    /// The outputs of the last Message.
    pub last_message: Option<Arc<Outputs>>,
    /// Frames opened before a pause that are still open and not yet in this run's journal.
    pub reopens: Vec<u32>,
    /// The error it was about to fail with.
    pub failed: Option<Error>,
    /// Whether its process had released it.
    pub handed_over: bool,
    /// Number of the last entry.
    pub seq: u64,
    /// Number of the last event.
    pub event: u64,
    /// Size of its journal, in bytes.
    pub bytes: u64,
    /// The last record, if the run was over.
    pub ended: Option<Record>,
}

/// Reads a journal, entry by entry.
pub struct JournalReader {
    all: Recovered,
    active: BTreeMap<u32, OpenActivation>,
    messages: HashSet<u32>,
    given: serde_json::Map<String, Json>,
    /// Iterations and Loops whose frames were opened and whose ends have not been read yet.
    frames: BTreeMap<u32, OpenActivation>,
    /// Frames opened before a pause that continue in this run.
    reopened: HashSet<u32>,
    /// Complete frames whose ends have not been read yet.
    done_frames: BTreeMap<u32, Consequence>,
    /// Texts that are being written again, by writer and output.
    offered: HashMap<(u32, Arc<str>), Value>,
    /// The times of the last entry, and of the first entry since the run was last picked up, in milliseconds
    /// since 1970.
    last_ms: i64,
    began_ms: Option<i64>,
    /// The last entry shared with the run that this one was forked from.
    shared_to: u64,
    /// The first activation that began since the run was last picked up.
    lives_from: u32,
}

impl JournalReader {
    /// Creates a reader that starts with the machine as the run began, and with the caller's inputs.
    pub fn new(machine: Machine, given: serde_json::Map<String, Json>) -> Self {
        let all = Recovered {
            machine,
            handed_over: false,
            open: Vec::new(),
            before: HashMap::new(),
            said: SaidTexts::default(),
            speaker: None,
            cited: Vec::new(),
            sources: Vec::new(),
            usage: Usage::default(),
            uses: Vec::new(),
            spent: Spent::default(),
            shared: Spent::default(),
            limited: Vec::new(),
            calls: TurnCalls::default(),
            heard: Vec::new(),
            last: Arc::default(),
            last_message: None,
            reopens: Vec::new(),
            failed: None,
            seq: 0,
            event: 0,
            bytes: 0,
            ended: None,
        };
        Self {
            all,
            active: BTreeMap::new(),
            messages: HashSet::new(),
            given,
            frames: BTreeMap::new(),
            reopened: HashSet::new(),
            done_frames: BTreeMap::new(),
            offered: HashMap::new(),
            last_ms: 0,
            began_ms: None,
            shared_to: 0,
            lives_from: 0,
        }
    }

    /// Provides the text that an activation begins to write, before the entry that reports it is taken.
    /// Without it, listeners get an empty text; work that begins again gets another one.
    pub fn offer(&mut self, activation: u32, output: &Arc<str>, text: Value) {
        self.offered.insert((activation, Arc::clone(output)), text);
    }

    /// Provides the outputs of an activation whose work has ended, before the entry that reports it is taken,
    /// for nodes that read them early.
    pub fn produced(&self, activation: u32, produced: Result<&Outputs, &Error>) {
        self.all.machine.produced(activation, produced);
    }

    /// Returns the machine after the entries so far.
    pub fn machine(&self) -> &Machine {
        &self.all.machine
    }

    /// Returns the outputs of a complete frame whose end has not been taken yet.
    pub fn frame_outputs(&self, activation: u32) -> Option<Arc<Outputs>> {
        match self.done_frames.get(&activation)? {
            Consequence::FrameDone(_, outputs) => Some(Arc::clone(outputs)),
            Consequence::FrameFailed(_, broken) => {
                let machine = &self.all.machine;
                let node = &machine.plan.nodes[machine.frames.get(&activation)?.node];
                Some(Arc::new(settle_frame(node, activation, broken.clone()).finished.outputs))
            }
            Consequence::Skipped(..) | Consequence::Stop(..) => None,
        }
    }

    /// Applies the next entry. Returns the activation that begins with it, if any.
    ///
    /// # Errors
    /// `Conflict` when the entry cannot follow those before it.
    pub fn take(&mut self, entry: &Entry) -> Result<Option<ActivationStart>> {
        self.all.seq = entry.seq;
        self.all.bytes += written_bytes(&entry.record);
        if matches!(entry.record, Record::PickedUp { .. }) {
            self.end_life();
            self.lives_from = self.all.machine.next_activation;
        }
        self.began_ms.get_or_insert(entry.at_ms);
        self.last_ms = entry.at_ms;
        self.all.event = entry.event.unwrap_or(self.all.event);
        let mut begins = None;
        match &entry.record {
            Record::NodeStarted { who } if self.all.machine.frames.contains_key(&who.activation) => {
                self.reopened.insert(who.activation);
            }
            Record::NodeStarted { who } => begins = Some(self.started(who)?),
            Record::NodeFinished { .. } => self.finished(&entry.record),
            Record::FrameOpened { activation, outputs, items } => {
                if let Some(open) = self.active.remove(activation) {
                    self.frames.insert(*activation, open);
                }
                self.all.machine.open_frame(*activation, (**outputs).clone(), items.clone());
            }
            Record::Published { activation, output } => {
                let offered = self.offered.remove(&(*activation, Arc::clone(output)));
                let text = offered.unwrap_or_else(empty_text);
                self.all.machine.published(*activation, output, text);
            }
            Record::Said { activation, text, .. } => self.said(*activation, text),
            Record::ThinkingStarted { activation, .. } => {
                self.speaks(*activation);
                self.think(*activation, &Thinks::Yes);
            }
            Record::ThinkingEnded { activation, .. } => self.think(*activation, &Thinks::No),
            Record::MessageReset { activation, node } => self.take_back(*activation, node),
            Record::MessageEnded { activation, end, .. } => {
                self.messages.insert(*activation);
                self.cite(&end.cited);
            }
            Record::ModelUsed { .. } => self.used(&entry.record),
            Record::EffectStarted { activation, key, .. } => self.effect(*activation, key, Known::Begun),
            Record::EffectFinished { activation, key, gave } => {
                self.all.heard.extend(taken(key, gave));
                self.effect(*activation, key, Known::Ended(gave.clone()));
            }
            Record::ToolStarted { activation, call } => self.call_started(*activation, call),
            Record::ToolFinished { activation, call } => self.call_finished(*activation, call),
            Record::Limited { reason, .. } if !self.all.limited.contains(reason) => {
                self.all.limited.push(*reason);
            }
            Record::Sourced { sources } => self.all.sources.extend(sources.iter().cloned()),
            Record::RunFinished { .. } => self.all.ended = Some(entry.record.clone()),
            Record::RunStarted { forks: Some(forks), .. } => self.shared_to = forks.seq,
            Record::RunStarted { .. }
            | Record::NodeSkipped { .. }
            | Record::PickedUp { .. }
            | Record::Limited { .. }
            | Record::Played { .. }
            | Record::Warned { .. }
            | Record::Waiting { .. } => {}
        }
        self.note_frames();
        Ok(begins)
    }

    /// Keeps the machine's conclusions about frames until the journal reports them.
    fn note_frames(&mut self) {
        // The machine's conclusions are in the journal as well, unless the interruption came in between.
        while let Some(consequence) = self.all.machine.consequence() {
            if let Consequence::FrameDone(activation, _) | Consequence::FrameFailed(activation, _) =
                consequence
            {
                self.done_frames.insert(activation, consequence);
            }
        }
    }

    fn started(&mut self, who: &ActivationRef) -> Result<ActivationStart> {
        let unfit = || {
            let message =
                format!("the journal does not fit the canvas: activation {} of {}", who.activation, who.node);
            Error::new(ErrorKind::Conflict, message)
        };
        let machine = &mut self.all.machine;
        let start = loop {
            match machine.next_start() {
                Ok(Some(start)) => break start,
                Ok(None) if answers::give_ahead(machine, &self.given) => {}
                Ok(None) | Err(_) => return Err(unfit()),
            }
        };
        if start.who.activation != who.activation || start.who.node != who.node {
            return Err(unfit());
        }
        let place = machine.place(who.activation).ok_or_else(unfit)?;
        let (suspended, filled) = match start.resumed.clone() {
            Some(state) => {
                let (form, alternative) = (Default::default(), start.alternative);
                (Some(SuspendedNode { form, state, answers: start.filled.clone(), alternative }), None)
            }
            None => (None, Some(Filled { values: start.filled.clone(), timed_out: start.timed_out })),
        };
        let open = OpenActivation {
            who: who.clone(),
            place,
            thinking: false,
            said: false,
            calls: Vec::new(),
            before: self.all.before.remove(&place).unwrap_or_default(),
            spoken: start.spoken.clone(),
            alternative: start.alternative,
            suspended,
            filled,
            began_ms: self.last_ms,
        };
        self.active.insert(who.activation, open);
        Ok(start)
    }

    fn finished(&mut self, record: &Record) {
        let Record::NodeFinished { who, outputs, error, route, assigned, suspension, spent, .. } = record
        else {
            return;
        };
        self.all.spent += *spent;
        self.all.machine.spent += *spent;
        if self.all.seq <= self.shared_to {
            self.all.shared += *spent;
        }
        let open = self.active.remove(&who.activation);
        self.frames.remove(&who.activation);
        self.done_frames.remove(&who.activation);
        // An activation that is only suspended speaks again, unless another one speaks meanwhile.
        let ends = *route != NextEdges::Suspended || suspension.is_some();
        if ends && open.as_ref().is_some_and(|open| self.all.speaker == Some(open.place)) {
            self.all.speaker = None;
        }
        if *route == NextEdges::Suspended {
            let Some(open) = open else { return };
            let spoken = self.texts_of(who.activation, open.spoken);
            let all = &mut self.all;
            match suspension.as_deref() {
                Some(suspension) => {
                    all.machine.suspend(who.activation, suspension.clone(), open.alternative, spoken);
                }
                // A listener, or work that was interrupted before.
                None => {
                    all.machine.begin_again(who.activation, spoken, open.suspended, open.filled);
                    all.machine.settle();
                    all.before.insert(open.place, open.before);
                }
            }
            return;
        }
        let all = &mut self.all;
        all.last = Arc::clone(outputs);
        if self.messages.contains(&who.activation) {
            all.last_message = Some(Arc::clone(outputs));
        }
        // What was stopped because its frame closed has left the machine already, and fails nothing.
        let at_work = all.machine.running.contains_key(&who.activation);
        let caught =
            |error: &str| !error.starts_with(STOPPED) && all.machine.catching(who.activation).is_some();
        let fatal = error.as_deref().filter(|error| at_work && *route == NextEdges::None && !caught(error));
        if let Some(error) = fatal {
            all.failed.get_or_insert_with(|| Error::new(ErrorKind::Unavailable, failed_with(who, error)));
        }
        // Changes that could be applied when they were recorded can be applied now, whatever the limits are;
        // those of an edited journal may not fit.
        let changes =
            all.machine.changes(who.activation, assigned, usize::MAX, usize::MAX).unwrap_or_default();
        let done = FinishedActivation { outputs: Arc::clone(outputs), onward: route.clone(), changes };
        all.machine.finished(who.activation, done);
    }

    /// Returns what an activation has said by the time it is suspended.
    fn texts_of(&self, activation: u32, mut spoken: SaidSoFar) -> SaidSoFar {
        spoken.text.push_str(self.all.said.of(activation));
        spoken
    }

    fn said(&mut self, activation: u32, text: &str) {
        self.speaks(activation);
        let open = self.active.get_mut(&activation);
        if open.as_ref().is_some_and(|open| open.thinking) {
            return;
        }
        if let Some(open) = open {
            open.said = true;
        }
        self.all.said.add(activation, text);
    }

    fn speaks(&mut self, activation: u32) {
        if let Some(open) = self.active.get(&activation) {
            self.all.speaker = Some(open.place);
        }
    }

    /// Discards what an activation has said; in older journals, the last text of its node.
    fn take_back(&mut self, activation: Option<u32>, node: &ComponentId) {
        let of_node = |activation| self.active.get(&activation).is_some_and(|open| open.who.node == *node);
        if let Some(meant) = activation.or_else(|| self.all.said.last_of(of_node)) {
            self.all.said.take_back(meant);
        }
    }

    fn cite(&mut self, cited: &[Cited]) {
        let known = &mut self.all.cited;
        let new = cited.iter().filter(|new| !known.iter().any(|old| old.number == new.number));
        let new: Vec<_> = new.cloned().collect();
        known.extend(new);
    }

    fn think(&mut self, activation: u32, thinks: &Thinks) {
        if let Some(open) = self.active.get_mut(&activation) {
            open.thinking = matches!(thinks, Thinks::Yes);
        }
    }

    fn effect(&mut self, activation: u32, key: &Arc<str>, known: Known) {
        if let Some(open) = self.active.get_mut(&activation) {
            open.before.effects.insert(Arc::clone(key), known);
        }
    }

    /// Returns the run ready to be resumed: work that was under way is requeued, and what it had said is discarded.
    pub fn end(mut self) -> Recovered {
        self.end_life();
        let all = &mut self.all;
        for (activation, open) in std::mem::take(&mut self.active) {
            all.said.take_back(activation);
            all.machine.begin_again(
                activation,
                open.spoken.clone(),
                open.suspended.clone(),
                open.filled.clone(),
            );
            all.before.insert(open.place, open.before.clone());
            all.open.push(open);
        }
        let told =
            |activation: &u32| self.frames.contains_key(activation) || self.reopened.contains(activation);
        all.reopens = all.machine.frames.keys().filter(|activation| !told(activation)).copied().collect();
        // Activations stopped together with their frame have left the machine, but their ends were not
        // recorded any more.
        let running = &all.machine.running;
        all.open.extend(
            std::mem::take(&mut self.frames)
                .into_values()
                .filter(|open| !running.contains_key(&open.who.activation)),
        );
        // Only once everything is back in place.
        all.machine.settle();
        all.machine.consequences.extend(self.done_frames.into_values());
        self.all
    }
}

fn span(from_ms: i64, to_ms: i64) -> u64 {
    u64::try_from(to_ms.saturating_sub(from_ms)).unwrap_or_default()
}

fn empty_text() -> Value {
    let (writer, text) = SharedText::new();
    writer.finish();
    Value::Stream(text)
}

enum Thinks {
    Yes,
    No,
}
