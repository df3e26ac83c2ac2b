//! Decides who speaks: one activation at a time. The one that began first has the floor until it ends; the
//! others are held back and then said whole, in the order in which they asked for it. The journal's order is
//! therefore the order of the messages, and every reader of it sees the same text.
//!
//! Nothing is buffered for activations that are held back: they stop at their first word, and the text they
//! are about to say is kept by its writers. A speaker never waits for them: what it still lacks comes from
//! work that is under way, and that work ends whether or not its output has been heard.

use std::collections::VecDeque;
use std::sync::Arc;

use weft_core::component::Route;
use weft_core::journal::NextEdges;
use weft_core::{Floor, Record, Result};

use super::RunDriver;
use crate::perform::NodeResult;
use crate::recover::ScopedNode;

/// Which activation speaks, and which ones want to.
#[derive(Default)]
pub(super) struct Speakers {
    pub floor: Floor,
    /// Activations that want to say something, in the order in which they asked.
    waiting: VecDeque<u32>,
    /// Ended activations that still say something with their end. Each is also in `waiting`.
    unsaid: Vec<NodeResult>,
    /// The activation that the floor is kept for: it was speaking when the run was interrupted.
    first: Option<ScopedNode>,
}

impl Speakers {
    pub(super) fn new(floor: Floor) -> Self {
        Self { floor, ..Self::default() }
    }

    /// Keeps the floor for the activation that had it.
    pub(super) fn keep_for(&mut self, place: Option<ScopedNode>) {
        self.first = place;
        if place.is_some() {
            self.floor.keep();
        }
    }

    /// An activation is over: whichever has waited longest speaks next.
    pub(super) fn leave(&mut self, activation: u32) {
        self.waiting.retain(|waits| *waits != activation);
        self.unsaid.retain(|settled| settled.activation != activation);
        if self.floor.is_of(activation) {
            self.pass_on();
        }
    }

    /// Whether a listener reads the text only later: a listener that is held back does not delay a finished
    /// writer. The end of a writer that is suspended waits for all its listeners.
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
    /// Handles an activation's request to speak. Returns whether it may now; if not, it is queued.
    pub(super) fn may_speak(&mut self, activation: u32) -> bool {
        let speakers = &mut self.speakers;
        if speakers.first.is_some() && speakers.first == self.machine.place(activation) {
            speakers.first = None;
            speakers.floor.pass(None);
        }
        if speakers.floor.take(activation) {
            // It may be waiting to be notified.
            speakers.floor.pass(Some(activation));
            return true;
        }
        if !speakers.waiting.contains(&activation) {
            speakers.waiting.push_back(activation);
        }
        false
    }

    /// Whether its end still has to say a text or to close a message.
    pub(super) fn speaks_at_end(&self, settled: &NodeResult) -> bool {
        settled.onward != NextEdges::Suspended
            && (settled.finished.message_end.is_some() || self.shows_default(settled))
    }

    /// Whether a default value has taken the place of its result and no Message after it will show that value.
    pub(super) fn shows_default(&self, settled: &NodeResult) -> bool {
        let caught = settled.error.is_some() && settled.onward == NextEdges::Routed(Route::Onward);
        let node = self.active.get(&settled.activation).map(|active| &self.plan.nodes[active.node]);
        caught && node.is_some_and(|node| !node.message_follows)
    }

    /// Ends the message of an ending activation, if it has said one or brings one with its end.
    pub(super) fn end_message(&mut self, settled: &mut NodeResult) {
        let activation = settled.activation;
        self.end_thinking(activation);
        let Some(active) = self.active.get(&activation) else { return };
        let (node, ix) = (active.who.node.clone(), active.node);
        let said = active.said;
        if settled.onward == NextEdges::Suspended {
            if said {
                // What has been said so far is a message of this turn.
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
            // Also for a message that failed midway: it is the last one the reader saw.
            self.last_message = Some(Arc::new(settled.finished.outputs.clone()));
            let new = end.cited.iter().filter(|c| !self.cited.iter().any(|known| known.number == c.number));
            let new: Vec<_> = new.cloned().collect();
            self.cited.extend(new);
            self.journal.note(Record::MessageEnded { activation, node, end: *end });
        }
    }

    /// Postpones an end until its activation may speak.
    pub(super) fn hold_back(&mut self, settled: NodeResult) {
        self.speakers.unsaid.push(settled);
    }

    /// Whether a listener is showing the activation's text now, so that it must end after that listener.
    pub(super) fn is_heard(&self, settled: &NodeResult) -> bool {
        let listeners = self.machine.listening_to(settled.activation);
        listeners.into_iter().any(|listener| !self.speakers.read_later(settled, listener))
    }

    /// Completes whatever can end now, given who speaks and who is held back.
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

    /// Stops keeping the floor once the activation that had it can no longer come: it may end differently
    /// this time. It also stops when everything under way waits for the floor, because then none of it can
    /// get there.
    fn stop_keeping(&mut self) {
        let Some(first) = self.speakers.first else { return };
        // An activation that waits for the floor is still among the tasks, has its end postponed, or was cut
        // off together with its writer: anything beyond those is working.
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
