//! A run that was cut off, as its journal tells it. Pure: the same records give the same state.
//!
//! The facts of the journal are given to a machine in their order, and it comes to where it was. Work
//! that was under way then is put back, so that it begins again; what it had got from outside by then
//! is kept for it, so that nothing is asked for twice.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use weft_core::budget::Spent;
use weft_core::citation::Cited;
use weft_core::component::Role;
use weft_core::context::{Limited, ToolStarted};
use weft_core::effect::Known;
use weft_core::journal::{Onward, Who};
use weft_core::seam::chat_model::Usage;
use weft_core::{ComponentId, Entry, Error, ErrorKind, Json, Outputs, Record, Result, SharedText, Value};
use weft_dsl::plan::NodeIx;

use crate::answers;
use crate::machine::{Consequence, Done, Machine, Running, Start};
use crate::scope::{Asleep, EdgeState, Filled, ScopeId, Status};
use crate::speech::Spoken;

/// A node in its round.
pub type Place = (ScopeId, NodeIx);

/// What work that begins again need not do again.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// Its calls to the outside.
    pub effects: HashMap<Arc<str>, Known>,
    /// Calls of tools that the run has been told of, by path and id.
    pub told: HashSet<(Arc<str>, Arc<str>)>,
    /// How long it was worked on, in milliseconds.
    pub millis: u64,
}

/// An activation that was under way.
#[derive(Debug)]
pub struct Open {
    /// Which.
    pub who: Who,
    /// Where.
    pub place: Place,
    /// It was in the middle of its reasoning.
    pub thinking: bool,
    /// It had said something.
    pub said: bool,
    /// Calls of tools that were under way.
    pub calls: Vec<ToolStarted>,
    before: Before,
    spoken: Spoken,
    alternative: usize,
    asleep: Option<Asleep>,
    filled: Option<Filled>,
    /// When it began, in milliseconds since 1970.
    began_ms: i64,
}

/// A run as its journal tells it.
#[derive(Debug)]
pub struct Recovered {
    /// Where it was, with what was under way put back.
    pub machine: Machine,
    /// What was under way.
    pub open: Vec<Open>,
    /// What work that begins again need not do again.
    pub before: HashMap<Place, Before>,
    /// Everything it has said, without reasoning and without what is taken back.
    pub said: String,
    /// The sources its messages cite.
    pub cited: Vec<Cited>,
    /// The sources it has found.
    pub sources: Vec<Cited>,
    /// What it has used.
    pub usage: Usage,
    /// What the work that is over has used up of its budget.
    pub spent: Spent,
    /// The part of it that the run whose beginning this one shares has used.
    pub shared: Spent,
    /// The limits that have cut agents' work short.
    pub limited: Vec<Limited>,
    /// The outputs of the last node.
    pub last: Arc<Outputs>,
    /// The outputs of the last Message.
    pub last_message: Option<Arc<Outputs>>,
    /// Why it was about to fail.
    pub failed: Option<Error>,
    /// Place of the last entry.
    pub seq: u64,
    /// Number of the last event.
    pub event: u64,
    /// The last record, when the run was over.
    pub ended: Option<Record>,
}

/// Reads a journal, entry by entry.
pub struct Reading {
    all: Recovered,
    active: BTreeMap<u32, Open>,
    texts: Vec<(u32, String)>,
    messages: HashSet<u32>,
    given: serde_json::Map<String, Json>,
    /// Frames that are complete and whose ends have not been read yet.
    done_frames: BTreeMap<u32, Consequence>,
    /// The texts that are being written again, by writer and output.
    offered: HashMap<(u32, Arc<str>), Value>,
    /// The time of the last entry, and of the first of this life of the run; in milliseconds since 1970.
    last_ms: i64,
    began_ms: Option<i64>,
    /// The last entry that it shares with the run that it was forked from.
    shared_to: u64,
}

impl Reading {
    /// Begins with the machine as the run began with it, and the inputs its caller gave.
    pub fn new(machine: Machine, given: serde_json::Map<String, Json>) -> Self {
        let all = Recovered {
            machine,
            open: Vec::new(),
            before: HashMap::new(),
            said: String::new(),
            cited: Vec::new(),
            sources: Vec::new(),
            usage: Usage::default(),
            spent: Spent::default(),
            shared: Spent::default(),
            limited: Vec::new(),
            last: Arc::default(),
            last_message: None,
            failed: None,
            seq: 0,
            event: 0,
            ended: None,
        };
        Self {
            all,
            active: BTreeMap::new(),
            texts: Vec::new(),
            messages: HashSet::new(),
            given,
            done_frames: BTreeMap::new(),
            offered: HashMap::new(),
            last_ms: 0,
            began_ms: None,
            shared_to: 0,
        }
    }

    /// The text that an activation begins to write, before the entry that tells of it is taken. Without
    /// one whoever listens gets an empty text: work that begins again is given another.
    pub fn offer(&mut self, activation: u32, output: &Arc<str>, text: Value) {
        self.offered.insert((activation, Arc::clone(output)), text);
    }

    /// What a complete frame has produced whose end has not been taken yet.
    pub fn frame_outputs(&self, activation: u32) -> Option<Arc<Outputs>> {
        match self.done_frames.get(&activation)? {
            Consequence::FrameDone(_, outputs) => Some(Arc::clone(outputs)),
            Consequence::Skipped(..) | Consequence::Stop(_) => None,
        }
    }

    /// Takes in the next entry. An activation that begins with it is handed over.
    ///
    /// # Errors
    /// `Conflict` when the entry cannot follow from those before it.
    pub fn take(&mut self, entry: &Entry) -> Result<Option<Start>> {
        self.all.seq = entry.seq;
        if matches!(entry.record, Record::PickedUp { .. }) {
            self.end_life();
        }
        self.began_ms.get_or_insert(entry.at_ms);
        self.last_ms = entry.at_ms;
        self.all.event = entry.event.unwrap_or(self.all.event);
        let mut begins = None;
        match &entry.record {
            Record::NodeStarted { who } => begins = Some(self.started(who)?),
            Record::NodeFinished { .. } => self.finished(&entry.record),
            Record::FrameOpened { activation, outputs, items } => {
                self.active.remove(activation);
                self.all.machine.open_frame(*activation, (**outputs).clone(), items.clone());
            }
            Record::Published { activation, output } => {
                let offered = self.offered.remove(&(*activation, Arc::clone(output)));
                let text = offered.unwrap_or_else(empty_text);
                self.all.machine.published(*activation, output, text);
            }
            Record::Said { activation, text, .. } => self.said(*activation, text),
            Record::ThinkingStarted { activation, .. } => self.think(*activation, &Thinks::Yes),
            Record::ThinkingEnded { activation, .. } => self.think(*activation, &Thinks::No),
            Record::MessageReset { activation, node } => self.take_back(*activation, node),
            Record::MessageEnded { activation, end, .. } => {
                self.messages.insert(*activation);
                self.cite(&end.cited);
            }
            Record::EffectFinished { usage, .. } => {
                self.all.usage += *usage;
            }
            Record::EffectBegan { activation, key, .. } => self.effect(*activation, key, Known::Begun),
            Record::EffectGave { activation, key, gave } => {
                self.effect(*activation, key, Known::Gave(gave.clone()));
            }
            Record::ToolStarted { activation, call } => {
                if let Some(open) = self.active.get_mut(activation) {
                    open.calls.push(call.clone());
                }
            }
            Record::ToolFinished { activation, call } => {
                if let Some(open) = self.active.get_mut(activation) {
                    open.calls.retain(|started| *started != call.started);
                    open.before.told.insert((Arc::clone(&call.started.path), Arc::clone(&call.started.call)));
                }
            }
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
            | Record::Warned { .. }
            | Record::Waiting { .. } => {}
        }
        // What the machine concludes is in the journal as well, if the cut did not come in between.
        while let Some(consequence) = self.all.machine.consequence() {
            if let Consequence::FrameDone(activation, _) = consequence {
                self.done_frames.insert(activation, consequence);
            }
        }
        Ok(begins)
    }

    /// Counts the time that was worked up to the last entry, when the process ended. A clock that was put
    /// back takes nothing away.
    fn end_life(&mut self) {
        let last_ms = self.last_ms;
        if let Some(began_ms) = self.began_ms.take() {
            self.all.spent.millis += span(began_ms, last_ms);
        }
        for open in self.active.values_mut() {
            open.before.millis += span(open.began_ms, last_ms);
        }
    }

    fn started(&mut self, who: &Who) -> Result<Start> {
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
        let (asleep, filled) = match start.resumed.clone() {
            Some(state) => {
                let (form, alternative) = (Default::default(), start.alternative);
                (Some(Asleep { form, state, answers: start.filled.clone(), alternative }), None)
            }
            None => (None, Some(Filled { values: start.filled.clone(), timed_out: start.timed_out })),
        };
        let open = Open {
            who: who.clone(),
            place,
            thinking: false,
            said: false,
            calls: Vec::new(),
            before: self.all.before.remove(&place).unwrap_or_default(),
            spoken: start.spoken.clone(),
            alternative: start.alternative,
            asleep,
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
        if self.all.seq <= self.shared_to {
            self.all.shared += *spent;
        }
        let open = self.active.remove(&who.activation);
        self.done_frames.remove(&who.activation);
        if *route == Onward::Suspended {
            let Some(open) = open else { return };
            let spoken = self.texts_of(who.activation, open.spoken);
            let all = &mut self.all;
            match suspension.as_deref() {
                Some(suspension) => {
                    all.machine.suspend(who.activation, (suspension.clone(), open.alternative), spoken);
                }
                // A listener, or work that was cut off before.
                None => {
                    all.machine.begin_again(who.activation, (spoken, open.asleep, open.filled));
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
        if let (Some(error), Onward::Nowhere) = (error, route) {
            let message = format!("{} ({}) failed: {error}", who.name, who.node);
            all.failed.get_or_insert_with(|| Error::new(ErrorKind::Unavailable, message));
        }
        let done = Done { outputs: Arc::clone(outputs), onward: route.clone(), assigned: assigned.clone() };
        all.machine.finished(who.activation, done);
    }

    /// What an activation has said by the time that it is put off.
    fn texts_of(&self, activation: u32, mut spoken: Spoken) -> Spoken {
        for (_, text) in self.texts.iter().filter(|(of, _)| *of == activation) {
            spoken.text.push_str(text);
        }
        spoken
    }

    fn said(&mut self, activation: u32, text: &str) {
        let open = self.active.get_mut(&activation);
        if open.as_ref().is_some_and(|open| open.thinking) {
            return;
        }
        if let Some(open) = open {
            open.said = true;
        }
        match self.texts.last_mut().filter(|(last, _)| *last == activation) {
            Some((_, said)) => said.push_str(text),
            None => self.texts.push((activation, text.to_owned())),
        }
    }

    /// What an activation has said does not count; in older journals the last text of its node.
    fn take_back(&mut self, activation: Option<u32>, node: &ComponentId) {
        if let Some(meant) = activation {
            self.texts.retain(|(activation, _)| *activation != meant);
            return;
        }
        let of_node =
            |activation: &u32| self.active.get(activation).is_some_and(|open| open.who.node == *node);
        if let Some(place) = self.texts.iter().rposition(|(activation, _)| of_node(activation)) {
            self.texts.remove(place);
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

    /// The run as it can go on: what was under way is put back, and what it had said is taken back.
    pub fn end(mut self) -> Recovered {
        self.end_life();
        let all = &mut self.all;
        for (activation, open) in std::mem::take(&mut self.active) {
            self.texts.retain(|(of, _)| *of != activation);
            all.machine
                .begin_again(activation, (open.spoken.clone(), open.asleep.clone(), open.filled.clone()));
            all.before.insert(open.place, open.before.clone());
            all.open.push(open);
        }
        // Conclusions are drawn when everything is back in its place.
        all.machine.settle();
        all.machine.consequences.extend(self.done_frames.into_values());
        all.said = self.texts.iter().map(|(_, text)| text.as_str()).collect();
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

impl Machine {
    /// Where an activation under way is.
    pub(crate) fn place(&self, activation: u32) -> Option<Place> {
        self.running.get(&activation).map(|running| (running.scope, running.node))
    }

    /// An activation that was cut off begins again: whatever let it start the first time still holds.
    fn begin_again(
        &mut self,
        activation: u32,
        (spoken, asleep, filled): (Spoken, Option<Asleep>, Option<Filled>),
    ) {
        self.fall_silent(activation);
        let Some(Running { scope, node, works, took }) = self.running.remove(&activation) else { return };
        self.working -= usize::from(works);
        let plan = Arc::clone(&self.plan);
        if let Some(filled) = filled.filter(|_| plan.nodes[node].role == Role::Pause) {
            self.filled.insert((scope, node), filled);
        }
        let Some(run) = self.scopes.get_mut(&scope) else { return };
        // Whoever is not the last to write is cut off as well, and will write again.
        for edge in took {
            run.edges[edge] = match run.edges[edge] {
                EdgeState::EarlyTaken => EdgeState::Open,
                EdgeState::Fired => EdgeState::Fresh,
                other => other,
            };
        }
        let heard = plan.nodes[node].ins.iter().any(|&edge| run.edges[edge] == EdgeState::Fresh);
        let listens = plan.nodes[node].shape.listens;
        run.change(plan.nodes[node].local, |state| {
            state.spoken = (!spoken.is_empty()).then(|| Box::new(spoken));
            // A listener waits for those that wrote what it heard; nobody else waits for anything.
            // What has reached a node in the middle of its work since is for later.
            if asleep.is_none() {
                state.pending = !listens || heard;
            }
            state.status = if asleep.is_some() { Status::Resuming } else { Status::Waiting };
            state.asleep = asleep.map(Box::new);
        });
        self.work.push_back((scope, node));
    }
}
