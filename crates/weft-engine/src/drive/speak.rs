//! Decides which activation streams its text: one at a time. The first one has the floor until it ends; the others wait
//! and are then streamed as a whole, in the order of their requests. The order of the journal is therefore the order of
//! the messages, and every reader sees the same text.
//!
//! Nothing is buffered for waiting activations: they stop before their first piece, and their text stays with its
//! writers. An activation that has the floor never waits for them: its remaining text comes from work in progress, and
//! that work ends whether or not its output has been read.

use std::collections::VecDeque;
use std::sync::Arc;

use weft_core::component::Route;
use weft_core::journal::NextEdges;
use weft_core::{Floor, Record, Result};

use super::RunDriver;
use crate::perform::NodeResult;
use crate::scope::ScopedNode;

/// Which activation has the floor, and which ones wait for it.
#[derive(Default)]
pub(super) struct Speakers {
    pub floor: Floor,
    /// Activations that wait for the floor, in the order of their requests.
    waiting: VecDeque<u32>,
    /// Ended activations that still stream text with their end. Each is also in `waiting`.
    unsaid: Vec<NodeResult>,
    /// The activation that the floor is reserved for: it had the floor when the run was interrupted.
    first: Option<ScopedNode>,
}

impl Speakers {
    pub(super) fn new(floor: Floor) -> Self {
        Self { floor, ..Self::default() }
    }

    /// Reserves the floor for the activation that had it.
    pub(super) fn keep_for(&mut self, place: Option<ScopedNode>) {
        self.first = place;
        if place.is_some() {
            self.floor.keep();
        }
    }

    /// Removes an ended activation. If it had the floor, the one that has waited longest gets it.
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
    /// Handles an activation's request for the floor. Returns whether it has it now; if not, it is queued.
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

    /// Returns whether its end still has to stream a text or to close a message.
    pub(super) fn speaks_at_end(&self, settled: &NodeResult) -> bool {
        settled.onward != NextEdges::Suspended
            && (settled.finished.message_end.is_some() || self.shows_default(settled))
    }

    /// Returns whether a default value replaces its result and no Message after it will show that value.
    pub(super) fn shows_default(&self, settled: &NodeResult) -> bool {
        let caught = settled.error.is_some() && settled.onward == NextEdges::Routed(Route::Onward);
        let node = self.active.get(&settled.activation).map(|active| &self.plan.nodes[active.node]);
        caught && node.is_some_and(|node| !node.message_follows)
    }

    /// Ends the message of an ending activation, if it has streamed one or its result contains one.
    pub(super) fn end_message(&mut self, settled: &mut NodeResult) {
        let activation = settled.activation;
        self.end_thinking(activation);
        let Some(active) = self.active.get(&activation) else { return };
        let (node, ix) = (active.who.node.clone(), active.node);
        let said = active.said;
        if settled.onward == NextEdges::Suspended {
            if said {
                // The text so far is a message of this turn.
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

    /// Postpones an end until its activation has the floor.
    pub(super) fn hold_back(&mut self, settled: NodeResult) {
        self.speakers.unsaid.push(settled);
    }

    /// Whether a listener is showing the activation's text now, so that it must end after that listener.
    pub(super) fn is_heard(&self, settled: &NodeResult) -> bool {
        let listeners = self.machine.listening_to(settled.activation);
        listeners.into_iter().any(|listener| !self.speakers.read_later(settled, listener))
    }

    /// Completes every activation that can end now, given which one has the floor and which ones wait.
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

    /// Stops reserving the floor when the activation that had it can no longer be reached, since the run may take
    /// another path this time. Also when all work in progress waits for the floor, because then none of it can lead
    /// there.
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
