//! The state of a graph agent between two nodes, and how the update of a node changes it.

use serde::{Deserialize, Serialize};
use weft_core::Json;

use crate::loop_guard::{LoopGuard, Observed, Outcome, Verdict};
use crate::memory::MESSAGES_MAX;
use crate::message::{BlockKind, Message, Role, ToolResult, ToolUse, text_of};

/// The metadata key of a tool message with the outcome of the call: `success` or `error`.
pub const STATUS: &str = "status";

/// Why a turn has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It has not ended, or it completed; in the metadata of a turn the latter is [`StopReason::Completed`].
    #[default]
    #[serde(rename = "")]
    None,
    /// It completed. Only in metadata.
    Completed,
    /// The maximum of rounds of tool calls was reached.
    MaxSteps,
    /// The last rounds of tool calls were alike.
    LoopDetected,
    /// It was cancelled.
    Cancelled,
    /// The model's provider withheld its answer.
    ContentFilter,
    /// The answer reached the model's token limit.
    Length,
    /// The model's answer was empty, twice.
    EmptyResponse,
}

/// A tool call that was made in a turn, without its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCallRecord {
    /// The tool.
    pub name: String,
    /// The arguments.
    pub args: Json,
}

/// A summary of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Rounds of tool calls.
    pub steps_taken: u32,
    /// The tools that were called, each once, in the order of their first calls.
    pub tools_used: Vec<String>,
    /// Why it ended.
    pub stop_reason: StopReason,
    /// Requests to the model.
    pub llm_calls: u32,
}

/// The state of a conversation. Every field has a default, so that older checkpoints can be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GraphState {
    /// The messages, oldest first.
    pub messages: Vec<Message>,
    /// Rounds of tool calls in this turn.
    pub current_step: u32,
    /// The maximum number of rounds.
    pub max_steps: u32,
    /// Requests to the model in this turn.
    pub llm_calls: u32,
    /// The calls of this turn, in order.
    pub tool_call_history: Vec<ToolCallRecord>,
    /// The results of the calls as text, one per call.
    pub tool_result_history: Vec<String>,
    /// The names of the tools, one per call.
    pub tools_used: Vec<String>,
    /// Whether the turn has to end.
    pub stop: bool,
    /// The reason for that.
    pub stop_reason: StopReason,
    /// The answer of the turn.
    pub final_reply: String,
    /// The summary of the turn, once it has ended.
    pub metadata: Option<Metadata>,
}

/// The changes made by one node. Absent fields stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Update {
    /// A new turn starts: the data of the previous turn is cleared first. Messages stay.
    #[serde(skip_serializing_if = "is_false")]
    pub new_turn: bool,
    /// Appended; a message with an existing id replaces that message.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// Replaces the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_step: Option<u32>,
    /// Replaces the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// Replaces the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm_calls: Option<u32>,
    /// Appended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_call_history: Vec<ToolCallRecord>,
    /// Appended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_result_history: Vec<String>,
    /// Appended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools_used: Vec<String>,
    /// Replaces the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<bool>,
    /// Replaces the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// Replaces the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_reply: Option<String>,
    /// Replaces the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this signature")]
fn is_false(value: &bool) -> bool {
    !value
}

impl GraphState {
    /// Applies the changes of a node.
    pub fn apply(&mut self, update: Update) {
        if update.new_turn {
            // Everything but the conversation belongs to one turn. Written as "all but", so that a new field is
            // cleared by default.
            let messages = std::mem::take(&mut self.messages);
            *self = Self { messages, max_steps: self.max_steps, ..Self::default() };
        }
        for message in update.messages {
            match self.messages.iter_mut().find(|known| known.id == message.id) {
                Some(known) => *known = message,
                None => self.messages.push(message),
            }
        }
        self.forget_oldest();
        self.tool_call_history.extend(update.tool_call_history);
        self.tool_result_history.extend(update.tool_result_history);
        self.tools_used.extend(update.tools_used);
        replace(&mut self.current_step, update.current_step);
        replace(&mut self.max_steps, update.max_steps);
        replace(&mut self.llm_calls, update.llm_calls);
        replace(&mut self.stop, update.stop);
        replace(&mut self.stop_reason, update.stop_reason);
        replace(&mut self.final_reply, update.final_reply);
        self.metadata = update.metadata.or(self.metadata.take());
    }

    /// Drops whole turns, oldest first, when there are more messages than [`MESSAGES_MAX`].
    fn forget_oldest(&mut self) {
        if self.messages.len() <= MESSAGES_MAX {
            return;
        }
        let more = self.messages.len() - MESSAGES_MAX;
        let turns = |message: &Message| message.role == Role::User;
        // Cuts at a question: providers refuse a conversation that begins with results without their calls.
        let next = self.messages.iter().skip(more).position(turns).map(|place| place + more);
        self.messages.drain(..next.unwrap_or_default());
    }

    /// The message that the turn replies to.
    pub(super) fn question(&self) -> Option<&Message> {
        self.messages.iter().rfind(|message| message.role == Role::User)
    }

    /// The last message of the model.
    pub(super) fn last_answer(&self) -> Option<&Message> {
        self.turn().iter().rfind(|message| message.role == Role::Assistant)
    }

    /// The messages of the turn, starting with the question.
    fn turn(&self) -> &[Message] {
        let from = self.messages.iter().rposition(|message| message.role == Role::User);
        self.messages.get(from.unwrap_or_default()..).unwrap_or_default()
    }

    /// The calls that have no result yet.
    pub fn open_calls(&self) -> Vec<&ToolUse> {
        let results: Vec<&str> =
            self.messages.iter().flat_map(Message::tool_results).map(|result| result.id.as_str()).collect();
        let calls = self.messages.iter().flat_map(Message::tool_uses);
        calls.filter(|call| !results.contains(&call.id.as_str())).collect()
    }

    /// Whether the last `window` rounds of tool calls were alike. `polls` returns whether a tool may be called
    /// repeatedly.
    pub fn is_looping(&self, window: usize, polls: impl Fn(&str) -> bool) -> bool {
        let turn = self.turn();
        let mut rounds: Vec<&Message> =
            // Recomputed from the messages each time, so that the saved state contains nothing that could disagree
            // with them.
            turn.iter().rev().filter(|message| message.has(BlockKind::ToolUse)).take(window.max(2)).collect();
        rounds.reverse();
        let mut guard = LoopGuard::new(window);
        let mut verdict = Verdict::Continue;
        for round in rounds {
            let observed: Vec<Observed> = round
                .tool_uses()
                .filter_map(|call| {
                    let (failed, result) = result_of(turn, &call.id)?;
                    let text = text_of(&result.output);
                    let result = if failed { Outcome::Error(text) } else { Outcome::Text(text) };
                    let arguments = Json::Object(call.input.clone());
                    Some(Observed { name: call.name.clone(), arguments, result, poll: polls(&call.name) })
                })
                .collect();
            verdict = guard.observe(&observed);
        }
        verdict == Verdict::Loop
    }
}

fn result_of<'a>(messages: &'a [Message], call: &str) -> Option<(bool, &'a ToolResult)> {
    let results =
        messages.iter().flat_map(|message| message.tool_results().map(move |result| (message, result)));
    let (message, result) = results.into_iter().find(|(_, result)| result.id == call)?;
    Some((message.metadata.get(STATUS).is_some_and(|status| status == "error"), result))
}

fn replace<T>(value: &mut T, new: Option<T>) {
    if let Some(new) = new {
        *value = new;
    }
}
