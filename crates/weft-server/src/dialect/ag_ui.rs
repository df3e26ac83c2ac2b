//! Run events in the format of the AG-UI protocol (version 1.0): what a person sees of an agent, and its questions as
//! interrupts. Every message and step that starts also ends before the run does, even if the run fails or is stopped.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use weft_core::journal::WaitingForm;
use weft_core::value::to_text;
use weft_core::{Ending, Entry, Record, TaskId};

use super::asked;
use crate::answer::{Answer, RunEnd};

/// The client's names for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientNames {
    /// The conversation.
    pub thread: String,
    /// The run id that the client has chosen.
    pub run: String,
}

/// The part of a message that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessagePart {
    Text,
    Reasoning,
}

/// The events of a run, as of the entries processed so far.
pub struct AgUiRun {
    names: ClientNames,
    answer: Answer,
    /// The open part of each activation, with the id of its message.
    open: HashMap<u32, (MessagePart, String)>,
    /// Number of parts that each activation has started: each is a message of its own.
    parts: HashMap<u32, u32>,
    /// Steps that have started and not ended, with their activations.
    steps: Vec<(u32, String)>,
}

impl AgUiRun {
    /// Creates the state of a run whose entries are yet to come.
    pub fn new(names: ClientNames) -> Self {
        let (open, parts, steps) = (HashMap::new(), HashMap::new(), Vec::new());
        Self { names, answer: Answer::default(), open, parts, steps }
    }

    /// Processes the next entry and returns its events. Must be called with all entries of a run, in order.
    pub fn events(&mut self, entry: &Arc<Entry>) -> Vec<Json> {
        let mut events = Vec::new();
        self.tell(entry, &mut events);
        self.answer.learn(entry);
        if let Record::RunFinished { .. } = &entry.record {
            self.end(&mut events);
        }
        for event in &mut events {
            event["timestamp"] = json!(entry.at_ms);
        }
        events
    }

    /// Returns the event for a stream that breaks off before its run ends; `None` if the run has ended.
    pub fn broken_off(&self, message: &str) -> Option<Json> {
        self.answer
            .end
            .is_none()
            .then(|| json!({"type": "RUN_ERROR", "message": message, "code": "INTERRUPTED"}))
    }

    fn tell(&mut self, entry: &Entry, events: &mut Vec<Json>) {
        match &entry.record {
            Record::RunStarted { .. } => {
                let ClientNames { thread, run } = &self.names;
                events.push(json!({"type": "RUN_STARTED", "threadId": thread, "runId": run}));
            }
            Record::NodeStarted { who } => {
                let taken = |name: &str| self.steps.iter().any(|(_, other)| other == name);
                // Several iterations of a loop may be running the same node concurrently.
                let name = match who.node.as_str() {
                    name if taken(name) => format!("{name}#{}", who.activation),
                    name => name.to_owned(),
                };
                events.push(json!({"type": "STEP_STARTED", "stepName": name}));
                self.steps.push((who.activation, name));
            }
            Record::NodeFinished { who, .. } => {
                // A node that fails or is stopped has no event for the end of its message, but its text has to end
                // before its step does.
                self.close(who.activation, events);
                self.end_step(who.activation, events);
            }
            // Clients of the protocol reject a piece without text.
            Record::Said { activation, text, .. } if !text.is_empty() => {
                let thinks = self.answer.is_thinking(*activation);
                let part = if thinks { MessagePart::Reasoning } else { MessagePart::Text };
                let id = self.begin(*activation, part, events);
                let kind = match part {
                    MessagePart::Text => "TEXT_MESSAGE_CONTENT",
                    MessagePart::Reasoning => "REASONING_MESSAGE_CONTENT",
                };
                events.push(json!({"type": kind, "messageId": id, "delta": text}));
            }
            Record::ThinkingStarted { activation, .. } | Record::ThinkingEnded { activation, .. } => {
                self.close(*activation, events);
            }
            Record::MessageEnded { activation, end, .. } => {
                self.close(*activation, events);
                if !end.cited.is_empty() {
                    let reference = weft_core::citation::reference(&end.cited);
                    events.push(json!({"type": "CUSTOM", "name": "reference", "value": reference}));
                }
            }
            Record::MessageReset { activation, .. } => self.reset(*activation, events),
            Record::ToolStarted { activation, call } => {
                let id = self.call_id(*activation, &call.call);
                // The arguments are complete when a call starts, so they are sent as one piece.
                let arguments = to_text(&call.arguments);
                events.push(json!({"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": call.tool}));
                events.push(json!({"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": arguments}));
                events.push(json!({"type": "TOOL_CALL_END", "toolCallId": id}));
            }
            Record::ToolFinished { activation, call } => {
                let id = self.call_id(*activation, &call.started.call);
                events.push(json!({
                    "type": "TOOL_CALL_RESULT", "messageId": format!("{id}/result"), "toolCallId": id,
                    "content": to_text(&call.result), "role": "tool"
                }));
            }
            Record::Warned { node, message } => {
                let value = json!({"component_id": node, "message": message});
                events.push(json!({"type": "CUSTOM", "name": "warning", "value": value}));
            }
            _ => {}
        }
    }

    /// Call ids are unique within their activation, but clients need them to be unique within the conversation.
    fn call_id(&self, activation: u32, call: &str) -> String {
        format!("{}/{activation}/{call}", self.names.run)
    }

    /// Returns the id of the message that a piece belongs to, starting the message if necessary.
    fn begin(&mut self, activation: u32, part: MessagePart, events: &mut Vec<Json>) -> String {
        if let Some((open, id)) = self.open.get(&activation)
            && *open == part
        {
            return id.clone();
        }
        self.close(activation, events);
        let place = self.parts.entry(activation).or_default();
        *place += 1;
        let id = format!("{}/{activation}/{place}", self.names.run);
        match part {
            MessagePart::Text => {
                events.push(json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"}));
            }
            MessagePart::Reasoning => {
                events.push(json!({"type": "REASONING_START", "messageId": id}));
                events.push(json!({"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"}));
            }
        }
        self.open.insert(activation, (part, id.clone()));
        id
    }

    fn close(&mut self, activation: u32, events: &mut Vec<Json>) {
        match self.open.remove(&activation) {
            Some((MessagePart::Text, id)) => {
                events.push(json!({"type": "TEXT_MESSAGE_END", "messageId": id}));
            }
            Some((MessagePart::Reasoning, id)) => {
                events.push(json!({"type": "REASONING_MESSAGE_END", "messageId": id}));
                events.push(json!({"type": "REASONING_END", "messageId": id}));
            }
            None => {}
        }
    }

    /// The protocol cannot retract messages, so clients are notified which message no longer counts.
    fn reset(&mut self, activation: Option<u32>, events: &mut Vec<Json>) {
        let Some(activation) = activation else { return };
        let begun = self.parts.get(&activation).copied().unwrap_or_default();
        self.close(activation, events);
        let ids: Vec<String> =
            (1..=begun).map(|place| format!("{}/{activation}/{place}", self.names.run)).collect();
        if !ids.is_empty() {
            events.push(json!({"type": "CUSTOM", "name": "message_reset", "value": {"messageIds": ids}}));
        }
    }

    fn end_step(&mut self, activation: u32, events: &mut Vec<Json>) {
        if let Some(place) = self.steps.iter().position(|(of, _)| *of == activation) {
            let (_, name) = self.steps.remove(place);
            events.push(json!({"type": "STEP_FINISHED", "stepName": name}));
        }
    }

    fn end(&mut self, events: &mut Vec<Json>) {
        let mut open: Vec<u32> = self.open.keys().copied().collect();
        // A map has no order, and the same journal must produce the same events each time.
        open.sort_unstable();
        open.into_iter().for_each(|activation| self.close(activation, events));
        for (_, name) in self.steps.drain(..) {
            events.push(json!({"type": "STEP_FINISHED", "stepName": name}));
        }
        let Some(RunEnd { ending, error, usage, .. }) = &self.answer.end else { return };
        let usage = json!([{
            "inputTokens": usage.prompt_tokens, "outputTokens": usage.completion_tokens,
            "totalTokens": usage.total_tokens(),
        }]);
        let outcome = match ending {
            Ending::Failed => {
                let message = error.as_deref().unwrap_or("the run failed");
                events
                    .push(json!({"type": "RUN_ERROR", "message": message, "code": "FAILED", "usage": usage}));
                return;
            }
            Ending::Succeeded => json!({"type": "success"}),
            Ending::Cancelled => json!({"type": "cancelled"}),
            Ending::Waiting => {
                let interrupts: Vec<Json> = self.answer.forms.iter().flat_map(interrupts).collect();
                json!({"type": "interrupt", "interrupts": interrupts})
            }
        };
        let ClientNames { thread, run } = &self.names;
        let mut event = json!({
            "type": "RUN_FINISHED", "threadId": thread, "runId": run, "outcome": outcome, "usage": usage
        });
        if let Some(limit) = self.answer.limited() {
            event["result"] = json!({"stop_reason": limit.as_str()});
        }
        events.push(event);
    }
}

/// The events of a run that does nothing, because the run that it would resume was given up.
pub(crate) fn given_up(names: &ClientNames, at_ms: i64) -> [Json; 2] {
    let ClientNames { thread, run } = names;
    let mut events = [
        json!({"type": "RUN_STARTED", "threadId": thread, "runId": run}),
        json!({"type": "RUN_FINISHED", "threadId": thread, "runId": run, "outcome": {"type": "cancelled"}}),
    ];
    for event in &mut events {
        event["timestamp"] = json!(at_ms);
    }
    events
}

/// Converts a task into an interrupt.
fn interrupt(waiting: &WaitingForm, task: &TaskId, fields: &Map<String, Json>) -> Json {
    let decides = asked::is_decision(fields);
    let schema = if decides {
        json!({
            "type": "object",
            "properties": {
                "decision": {"type": "string", "enum": ["approve", "deny", "edit"]},
                "reason": {"type": "string"},
                "arguments": {"type": "object"},
            },
            "required": ["decision"],
        })
    } else {
        asked::schema(fields)
    };
    let mut interrupt = json!({
        "id": task,
        "reason": if decides { "tool_call" } else { "input_required" },
        "responseSchema": schema,
        "metadata": {"component_id": waiting.node, "inputs": fields},
    });
    if let Some(message) = asked::words(waiting, fields) {
        interrupt["message"] = json!(message);
    }
    if let Some(due) = waiting.due_ms.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok()) {
        interrupt["expiresAt"] = json!(due.to_string());
    }
    interrupt
}

/// Returns the questions of a form, one interrupt per task.
fn interrupts(waiting: &WaitingForm) -> Vec<Json> {
    asked::tasks(waiting).iter().map(|(task, fields)| interrupt(waiting, task, fields)).collect()
}

#[cfg(test)]
mod tests {
    use weft_core::component::Form;

    use super::*;

    #[test]
    fn approvals_and_plans_are_tool_calls_and_forms_are_input_requests() {
        let reasons = |fields: Json, tasks: &[&str]| {
            let form = Form { fields: fields.as_object().unwrap().clone(), ..Form::default() };
            let tasks = tasks.iter().map(|id| TaskId::from(*id)).collect();
            let waiting = WaitingForm { tasks, ..WaitingForm::new("N".into(), [].into(), form) };
            let told = interrupts(&waiting);
            told.iter().map(|one| one["reason"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let calls = json!({"call_1": {"type": "approval", "tool": "pay"}, "call_2": {"type": "approval"}});
        assert_eq!(reasons(calls, &["t1", "t2"]), ["tool_call", "tool_call"]);
        assert_eq!(reasons(json!({"plan": {"type": "plan_review"}}), &["t1"]), ["tool_call"]);
        let form = json!({"name": {"type": "line", "tool": "hammer"}, "age": {"type": "integer"}});
        assert_eq!(reasons(form, &["t1"]), ["input_required"]);
        assert_eq!(reasons(json!({"name": {"type": "line", "tool": "hammer"}}), &["t1"]), ["input_required"]);
    }
}
