//! Handles the signals that activations send while they run.

use std::sync::Arc;

use tokio::time::Instant;
use weft_core::context::{Signal, ToolStarted};
use weft_core::effect::{EffectFinished, EffectStarted};
use weft_core::inbox::taken;
use weft_core::usage::{self, UsedModel};
use weft_core::{ComponentId, Piece, Record, Value};

use super::{RunDriver, RunningActivation};

impl RunDriver<'_> {
    /// Handles a signal that an activation sends while it runs.
    pub(super) fn signal(&mut self, activation: u32, signal: Signal) {
        let Some(active) = self.active.get_mut(&activation) else { return };
        let node = active.who.node.clone();
        match signal {
            Signal::Speak => {
                // The activation is notified when its turn comes.
                self.may_speak(activation);
            }
            Signal::Say(piece) => {
                if let Some(piece) = active.speech.new_part(piece) {
                    self.say(activation, node, piece);
                }
            }
            Signal::Play(audio) => {
                // Work that resumes after a person has answered repeats what was heard before.
                if active.speech.is_new() {
                    self.journal.note(Record::Played { activation, node, audio });
                }
            }
            Signal::Publish(output, text) => {
                self.journal.note(Record::Published { activation, output: Arc::clone(&output) });
                self.machine.published(activation, &output, Value::Stream(text));
            }
            Signal::Used(used) => {
                self.usage += used.usage;
                usage::add(&mut self.uses, &node, &used);
                let UsedModel { model, usage, micros } = *used;
                self.journal.note(Record::ModelUsed {
                    activation,
                    effect: "model".into(),
                    usage,
                    model,
                    micros,
                });
            }
            Signal::Warn(message) => {
                tracing::warn!(run.id = %self.journal.run(), component.id = %node, message, "a component warns");
                self.journal.note(Record::Warned { node, message: message.into() });
            }
            Signal::EffectStarted(EffectStarted { key, kind, safe }) => {
                let record = Record::EffectStarted { activation, key, effect: kind.into() };
                match safe {
                    Some(safe) => self.journal.note_awaited(record, safe),
                    None => self.journal.note(record),
                }
            }
            Signal::EffectFinished(EffectFinished { key, gave }) => {
                self.note_sources();
                self.heard.extend(taken(&key, &gave));
                self.journal.note(Record::EffectFinished { activation, key, gave });
            }
            Signal::Stored(safe) => self.journal.await_stored(safe),
            // Restarted work meets calls that were already reported the first time.
            Signal::ToolStarted(call) if active.told_before(&call) => {}
            Signal::ToolFinished(call) if active.told_before(&call.started) => {}
            Signal::ToolStarted(call) => {
                active.calls.push((ToolStarted::clone(&call), Instant::now()));
                self.journal.note(Record::ToolStarted { activation, call: *call });
            }
            Signal::ToolFinished(call) => {
                let ended = active.calls.iter().position(|(started, _)| *started == call.started);
                ended.map(|place| active.calls.swap_remove(place));
                self.calls.note(&self.plan.nodes[active.node], &call);
                self.journal.note(Record::ToolFinished { activation, call: *call });
            }
            // The report names each reason once; the journal names it each time, with the node.
            Signal::Limited(reason) => {
                if !self.limited.contains(&reason) {
                    self.limited.push(reason);
                }
                self.journal.note(Record::Limited { activation, node, reason });
            }
        }
    }

    fn say(&mut self, activation: u32, node: ComponentId, piece: Piece) {
        if matches!(piece, Piece::Text(_)) {
            self.end_thinking(activation);
        }
        let Some(active) = self.active.get_mut(&activation) else { return };
        active.said = true;
        let text = match piece {
            Piece::Text(text) => {
                self.said.add(activation, &text);
                text
            }
            Piece::Thinking(text) => {
                if !std::mem::replace(&mut active.thinking, true) {
                    self.journal.note(Record::ThinkingStarted { activation, node: node.clone() });
                }
                text
            }
        };
        self.journal.note(Record::Said { activation, node, text });
    }

    /// Ends the reasoning, if it is in progress.
    pub(super) fn end_thinking(&mut self, activation: u32) {
        let Some(active) = self.active.get_mut(&activation) else { return };
        if std::mem::take(&mut active.thinking) {
            self.journal.note(Record::ThinkingEnded { activation, node: active.who.node.clone() });
        }
    }

    /// Records the sources that were found since the last call, so that they keep their numbers.
    pub(super) fn note_sources(&mut self) {
        // Called before the result of a call is noted: when work is repeated from that result after an
        // interruption, it must find the sources under the numbers that the result names.
        let citations = &self.context.citations;
        let known = self.sourced.unwrap_or_default();
        let sources = citations.since(known);
        // A search that found nothing still decides how citation marks in later text are treated.
        if !sources.is_empty() || self.sourced.is_none() && citations.was_searched() {
            self.sourced = Some(known + sources.len());
            self.journal.note(Record::Sourced { sources });
        }
    }
}

impl RunningActivation {
    fn told_before(&self, call: &ToolStarted) -> bool {
        self.told.contains(&(Arc::clone(&call.path), Arc::clone(&call.call)))
    }
}
