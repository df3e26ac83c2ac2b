//! Who speaks: one activation at a time. Who began first has the floor until it ends, the others are held
//! back and then said whole, in the order in which they wanted to begin. So the journal's order is the order
//! of the messages, and whoever reads it tells the same text.
//!
//! Nothing is kept for those who are held back: they stop at their first word, and what they are about to
//! say is kept by those who wrote it. Nobody who speaks waits for them: what a speaker still lacks comes
//! from work that is under way, and that ends whether or not anybody has heard it.

use std::collections::VecDeque;
use std::sync::Arc;

use weft_core::component::Route;
use weft_core::journal::NextEdges;
use weft_core::{Floor, Record, Result};

use super::RunDriver;
use crate::perform::NodeResult;
use crate::recover::ScopedNode;

/// Who speaks and who wants to.
#[derive(Default)]
pub(super) struct Speakers {
    pub floor: Floor,
    /// Those who want to say something, in the order in which they asked.
    waiting: VecDeque<u32>,
    /// What has ended and still says something with its end. Each is among those who wait.
    unsaid: Vec<NodeResult>,
    /// The floor is kept for this one: it spoke when the run was interrupted.
    first: Option<ScopedNode>,
}

impl Speakers {
    pub(super) fn new(floor: Floor) -> Self {
        Self { floor, ..Self::default() }
    }

    /// Keeps the floor for the one that had it.
    pub(super) fn keep_for(&mut self, place: Option<ScopedNode>) {
        self.first = place;
        if place.is_some() {
            self.floor.keep();
        }
    }

    /// An activation is over: whoever has waited longest speaks.
    pub(super) fn leave(&mut self, activation: u32) {
        self.waiting.retain(|waits| *waits != activation);
        self.unsaid.retain(|settled| settled.activation != activation);
        if self.floor.is_of(activation) {
            self.pass_on();
        }
    }

    /// Whether a listener reads what has been written later: who is held back holds up nobody who has
    /// finished. A text that breaks off for now is waited for by all.
    pub(super) fn read_later(&self, written: &NodeResult, listener: u32) -> bool {
        written.onward != NextEdges::Suspended && self.waiting.contains(&listener)
    }

    fn pass_on(&mut self) {
        self.floor.pass(self.waiting.pop_front());
    }

    fn next_unsaid(&mut self) -> Option<NodeResult> {
        let place = self.unsaid.iter().position(|settled| self.floor.is_of(settled.activation))?;
        Some(self.unsaid.remove(place))
    }
}

impl RunDriver<'_> {
    /// An activation wants to speak. Whether it may now; if not its turn comes.
    pub(super) fn may_speak(&mut self, activation: u32) -> bool {
        let speakers = &mut self.speakers;
        if speakers.first.is_some() && speakers.first == self.machine.place(activation) {
            speakers.first = None;
            speakers.floor.pass(None);
        }
        if speakers.floor.take(activation) {
            // It may be waiting to hear so.
            speakers.floor.pass(Some(activation));
            return true;
        }
        if !speakers.waiting.contains(&activation) {
            speakers.waiting.push_back(activation);
        }
        false
    }

    /// Whether its text has to be said with its end, or the end of a message to be told.
    pub(super) fn speaks_at_end(&self, settled: &NodeResult) -> bool {
        settled.onward != NextEdges::Suspended
            && (settled.finished.message_end.is_some() || self.shows_default(settled))
    }

    /// Whether a default value has taken the place of its result and nobody after it will show that.
    pub(super) fn shows_default(&self, settled: &NodeResult) -> bool {
        let caught = settled.error.is_some() && settled.onward == NextEdges::Routed(Route::Onward);
        let node = self.active.get(&settled.activation).map(|active| &self.plan.nodes[active.node]);
        caught && node.is_some_and(|node| !node.message_follows)
    }

    /// Tells that a message is over, when the activation that ends has said one or brings one with its end.
    pub(super) fn end_message(&mut self, settled: &mut NodeResult) {
        let activation = settled.activation;
        self.end_thinking(activation);
        let Some(active) = self.active.get(&activation) else { return };
        let (node, ix) = (active.who.node.clone(), active.node);
        let said = active.said;
        if settled.onward == NextEdges::Suspended {
            if said {
                // What there is so far is a message of this turn.
                self.journal.note(Record::MessageEnded { activation, node, end: Default::default() });
            }
            return;
        }
        if self.shows_default(settled) {
            let default = self.plan.nodes[ix].exception.default.as_ref();
            let text = default.map(weft_core::value::to_text).unwrap_or_default();
            self.said.add(activation, &text);
            self.journal.note(Record::Said { activation, node: node.clone(), text: text.into() });
            settled.finished.message_end.get_or_insert_default();
        }
        let end = settled.finished.message_end.take();
        if let Some(end) = end.or_else(|| (said && settled.error.is_some()).then(Default::default)) {
            // Also that of a message which failed in the middle: it is the last that the reader saw.
            self.last_message = Some(Arc::new(settled.finished.outputs.clone()));
            let new = end.cited.iter().filter(|c| !self.cited.iter().any(|known| known.number == c.number));
            let new: Vec<_> = new.cloned().collect();
            self.cited.extend(new);
            self.journal.note(Record::MessageEnded { activation, node, end: *end });
        }
    }

    /// Puts an end off until its activation may speak.
    pub(super) fn hold_back(&mut self, settled: NodeResult) {
        self.speakers.unsaid.push(settled);
    }

    /// Whether somebody shows the text of an activation now, so that it ends only after them.
    pub(super) fn is_heard(&self, settled: &NodeResult) -> bool {
        let listeners = self.machine.listening_to(settled.activation);
        listeners.into_iter().any(|listener| !self.speakers.read_later(settled, listener))
    }

    /// Draws the conclusions from who speaks now and who is held back.
    pub(super) fn take_turns(&mut self) -> Result<()> {
        loop {
            self.stop_keeping();
            if let Some(settled) = self.speakers.next_unsaid() {
                self.complete(settled)?;
            } else if let Some(unheard) = self.held.iter().position(|held| !self.is_heard(held)) {
                let held = self.held.remove(unheard);
                self.complete(held)?;
            } else {
                return Ok(());
            }
            self.start_ready()?;
        }
    }

    /// The floor is kept only as long as the one that had it may come: it can end otherwise this time. And
    /// when all that is under way waits for the floor, nobody comes.
    fn stop_keeping(&mut self) {
        let Some(first) = self.speakers.first else { return };
        // Whoever waits for the floor is still among the tasks, has its end put off, or was cut off together
        // with whom it listens to: what is more than that works.
        let is_there = |waits: &&u32| self.cut_off.iter().all(|outcome| outcome.activation != **waits);
        let waiting = self.speakers.waiting.iter().filter(is_there).count();
        let under_way = self.tasks.len() + self.done.len() + self.speakers.unsaid.len();
        let at_work = under_way.saturating_sub(waiting);
        if at_work == 0 || !self.machine.may_come(first) {
            self.speakers.first = None;
            self.speakers.pass_on();
        }
    }
}
