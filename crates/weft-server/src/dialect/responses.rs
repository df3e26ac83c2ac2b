//! Run events in the format of OpenAI's Responses API: a response is the fold of a run's journal, and its events are
//! the steps of that fold. A stream, a single answer and a response retrieved later are therefore consistent.

mod items;
mod note;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use weft_core::citation::{Chunk, Cited};
use weft_core::{CanvasId, Ending, Entry, Record, RunId, SessionId};

use self::items::{TextKind, call_of, done, ids, question};
use super::asked;
use crate::answer::Answer;

pub use self::note::{Note, PREFIX, response_id};

/// An item to which text is still added.
#[derive(Debug)]
struct OpenItem {
    part: TextKind,
    /// Its index in the output.
    place: usize,
    text: String,
}

/// A response, as of the entries processed so far.
#[derive(Debug)]
pub struct ResponseRun {
    run: RunId,
    session: SessionId,
    model: CanvasId,
    created_ms: i64,
    ended_ms: Option<i64>,
    note: Note,
    answer: Answer,
    output: Vec<Json>,
    /// The open item of each activation.
    open: HashMap<u32, OpenItem>,
    /// The messages that each activation has started.
    said: HashMap<u32, Vec<usize>>,
    /// The calls that have not ended, with their index in the output.
    calls: HashMap<(u32, Arc<str>), usize>,
    sources: HashMap<u32, Arc<Chunk>>,
    /// Number of events so far.
    told: u64,
}

impl ResponseRun {
    /// Creates the state of a run whose entries are yet to come.
    pub fn new(run: &RunId, session: &SessionId, model: &CanvasId) -> Self {
        Self {
            run: run.clone(),
            session: session.clone(),
            model: model.clone(),
            created_ms: 0,
            ended_ms: None,
            note: Note::default(),
            answer: Answer::default(),
            output: Vec::new(),
            open: HashMap::new(),
            said: HashMap::new(),
            calls: HashMap::new(),
            sources: HashMap::new(),
            told: 0,
        }
    }

    /// The note of its request.
    pub fn note(&self) -> &Note {
        &self.note
    }

    /// Returns whether the end of the run was processed.
    pub fn is_over(&self) -> bool {
        self.answer.end.is_some()
    }

    /// Processes the next entry and returns its events. Must be called with all entries of a run, in order.
    pub fn events(&mut self, entry: &Arc<Entry>) -> Vec<Json> {
        let mut events = Vec::new();
        self.tell(entry, &mut events);
        // Processed before the end event, which is built from the answer.
        self.answer.learn(entry);
        if let Record::RunFinished { ending, .. } = &entry.record {
            self.ended_ms = Some(entry.at_ms);
            self.end(*ending, &mut events);
        }
        for event in &mut events {
            event["sequence_number"] = json!(self.told);
            self.told += 1;
        }
        events
    }

    /// Returns the event for a stream that breaks off before its run ends.
    pub fn broken_off(&self, message: &str) -> Json {
        json!({"type": "error", "code": "server_error", "message": message, "param": null, "sequence_number": self.told})
    }

    fn tell(&mut self, entry: &Entry, events: &mut Vec<Json>) {
        match &entry.record {
            Record::RunStarted { input, canvas, session, .. } => {
                self.created_ms = entry.at_ms;
                (self.model, self.session) = (canvas.clone(), session.clone());
                self.note = Note::of(input);
                for name in ["response.created", "response.in_progress"] {
                    events.push(json!({"type": name, "response": self.response()}));
                }
            }
            Record::Said { activation, text, .. } if !text.is_empty() => {
                let thinks = self.answer.is_thinking(*activation);
                self.say(
                    *activation,
                    if thinks { TextKind::Reasoning } else { TextKind::Text },
                    text,
                    events,
                );
            }
            Record::ThinkingStarted { activation, .. } | Record::ThinkingEnded { activation, .. } => {
                self.close(*activation, "completed", events);
            }
            Record::Sourced { sources } => self.learn_sources(sources),
            Record::MessageEnded { activation, end, .. } => {
                self.learn_sources(&end.cited);
                self.close(*activation, "completed", events);
            }
            Record::NodeFinished { who, error, .. } => {
                let status = if error.is_some() { "incomplete" } else { "completed" };
                self.close(who.activation, status, events);
            }
            Record::MessageReset { activation: Some(activation), .. } => self.take_back(*activation, events),
            Record::ToolStarted { activation, call } => {
                let place = self.output.len();
                let (item, begun) = call_of(call, &ids(&self.run, place), place);
                self.output.push(item);
                self.calls.insert((*activation, Arc::clone(&call.call)), place);
                events.extend(begun);
            }
            Record::ToolFinished { activation, call } => {
                if let Some(place) = self.calls.remove(&(*activation, Arc::clone(&call.started.call))) {
                    events.extend(items::call_ended(&mut self.output[place], call, place));
                }
            }
            _ => {}
        }
    }

    fn learn_sources(&mut self, sources: &[Cited]) {
        self.sources.extend(sources.iter().map(|one| (one.number, Arc::clone(&one.chunk))));
    }

    /// Adds a piece of an activation's output to the item that it belongs to.
    fn say(&mut self, activation: u32, part: TextKind, text: &str, events: &mut Vec<Json>) {
        if self.open.get(&activation).is_some_and(|open| open.part != part) {
            self.close(activation, "completed", events);
        }
        let next = self.output.len();
        if !self.open.contains_key(&activation) {
            let (item, begun) = part.begun(&ids(&self.run, next), next);
            self.output.push(item);
            events.extend(begun);
            if part == TextKind::Text {
                self.said.entry(activation).or_default().push(next);
            }
        }
        let open = self.open.entry(activation).or_insert_with(|| OpenItem {
            part,
            place: next,
            text: String::new(),
        });
        open.text.push_str(text);
        events.push(part.delta(&self.output[open.place]["id"], open.place, text));
    }

    fn close(&mut self, activation: u32, status: &str, events: &mut Vec<Json>) {
        let Some(OpenItem { part, place, text }) = self.open.remove(&activation) else { return };
        let said = items::SaidText { text: &text, sources: &self.sources };
        let (item, ended) = part.ended(&self.output[place]["id"], place, status, said);
        events.extend(ended);
        self.output[place] = item;
        events.push(done(&self.output[place], place));
    }

    /// Clears what an activation has said. The protocol cannot retract messages, so they stay in their places and are
    /// empty from now on.
    fn take_back(&mut self, activation: u32, events: &mut Vec<Json>) {
        // Reasoning stays as it is: it is not part of the answer.
        if let Some(open) = self.open.get_mut(&activation).filter(|open| open.part == TextKind::Text) {
            open.text.clear();
        }
        self.close(activation, "incomplete", events);
        // Text that is said again begins a new message.
        for place in self.said.remove(&activation).unwrap_or_default() {
            TextKind::Text.empty(&mut self.output[place]);
        }
    }

    fn end(&mut self, ending: Ending, events: &mut Vec<Json>) {
        let stopped = matches!(ending, Ending::Failed | Ending::Cancelled);
        let mut open: Vec<u32> = self.open.keys().copied().collect();
        // A map has no order, and a response that is retrieved later must have the same numbers.
        open.sort_unstable();
        for activation in open {
            self.close(activation, if stopped { "incomplete" } else { "completed" }, events);
        }
        let mut calls: Vec<usize> = self.calls.drain().map(|(_, place)| place).collect();
        // The map of calls has no order, either.
        calls.sort_unstable();
        for place in calls {
            self.output[place]["status"] = json!("incomplete");
            events.push(done(&self.output[place], place));
        }
        if ending == Ending::Waiting {
            // Taken out while the loop modifies the rest of the response.
            let forms = std::mem::take(&mut self.answer.forms);
            for waiting in &forms {
                for (task, fields) in asked::tasks(waiting) {
                    let place = self.output.len();
                    let (item, told) = question(waiting, task, &fields, place);
                    self.output.push(item);
                    events.extend(told);
                }
            }
            self.answer.forms = forms;
        }
        let name = match self.status() {
            "completed" => "response.completed",
            "failed" => "response.failed",
            // There is no event for a cancelled response; its status says so.
            _ => "response.incomplete",
        };
        events.push(json!({"type": name, "response": self.response()}));
    }

    /// The status of the response.
    pub fn status(&self) -> &'static str {
        let Some(end) = &self.answer.end else { return "in_progress" };
        match end.ending {
            Ending::Failed => "failed",
            Ending::Cancelled => "cancelled",
            Ending::Succeeded if self.answer.limited().is_some() => "incomplete",
            // Waits for items that a client answers, in the same way as calls.
            Ending::Succeeded | Ending::Waiting => "completed",
        }
    }

    /// The response object.
    pub fn response(&self) -> Json {
        let over = self.answer.end.as_ref();
        let error = self.answer.failure().map(|reason| json!({"code": "server_error", "message": reason}));
        let limit = self.answer.limited().filter(|_| self.status() == "incomplete");
        let incomplete = limit.map(|limit| json!({"reason": "max_output_tokens", "limit": limit.as_str()}));
        let mut response = json!({
            "id": response_id(&self.run),
            "object": "response",
            "created_at": self.created_ms.div_euclid(1000),
            "completed_at": self.ended_ms.map(|ms| ms.div_euclid(1000)),
            "status": self.status(),
            "error": error,
            "incomplete_details": incomplete,
            "model": self.model,
            "conversation": {"id": self.session},
            "output": self.output,
            "usage": over.map(|end| items::usage(end.usage)),
            "max_output_tokens": null, "max_tool_calls": null, "parallel_tool_calls": true, "prompt_cache_key": null,
            "reasoning": {"effort": null, "summary": null}, "service_tier": "default", "temperature": null,
            "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": null,
            "truncation": "disabled",
        });
        self.note.put_into(&mut response);
        response
    }
}

#[cfg(test)]
mod tests;
