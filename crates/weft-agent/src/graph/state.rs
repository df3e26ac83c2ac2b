//! What a graph agent knows between two nodes, and how the update of a node changes it.

use serde::{Deserialize, Serialize};
use weft_core::Json;

use crate::loop_guard::{LoopGuard, Observed, Outcome, Verdict};
use crate::memory::MESSAGES_MAX;
use crate::message::{BlockKind, Message, Role, ToolResult, ToolUse, text_of};

/// The key of a tool message's metadata that says whether the call went well: `success` or `error`.
pub const STATUS: &str = "status";

/// Why a turn has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It has not, or it ended by itself. In the metadata of a turn that is [`StopReason::Completed`].
    #[default]
    #[serde(rename = "")]
    None,
    /// By itself. Only in metadata.
    Completed,
    /// There were as many rounds of tool calls as there may be.
    MaxSteps,
    /// The last rounds of tool calls were alike.
    LoopDetected,
    /// Somebody has cancelled it.
    Cancelled,
    /// The model's provider held its answer back.
    ContentFilter,
    /// The answer reached the model's limit of tokens.
    Length,
    /// The model said nothing, twice.
    EmptyResponse,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCallRecord {
    /// The tool.
    pub name: String,
    /// What it was called with.
    pub args: Json,
}

/// How a turn went.
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

/// The state of a conversation. Every field has a default, so that checkpoints from before it can be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GraphState {
    /// What was said, oldest first.
    pub messages: Vec<Message>,
    /// Rounds of tool calls in this turn.
    pub current_step: u32,
    /// How many there may be.
    pub max_steps: u32,
    /// Requests to the model in this turn.
    pub llm_calls: u32,
    /// The calls of this turn, in order.
    pub tool_call_history: Vec<ToolCallRecord>,
    /// What they gave, as text, one for each call.
    pub tool_result_history: Vec<String>,
    /// Their tools' names, one for each call.
    pub tools_used: Vec<String>,
    /// Whether the turn is to end.
    pub stop: bool,
    /// Why.
    pub stop_reason: StopReason,
    /// The answer of the turn.
    pub final_reply: String,
    /// How the turn went, once it is over.
    pub metadata: Option<Metadata>,
}

/// What one node changes. What is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Update {
    /// A turn begins: what belongs to the one before is cleared first. Messages stay.
    #[serde(skip_serializing_if = "is_false")]
    pub new_turn: bool,
    /// Added at the end; one whose id is there takes that one's place.
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
    /// Added at the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_call_history: Vec<ToolCallRecord>,
    /// Added at the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_result_history: Vec<String>,
    /// Added at the end.
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
    /// Takes in what a node has changed.
    pub fn apply(&mut self, update: Update) {
        if update.new_turn {
            // Everything but the conversation belongs to one turn. Written as "all but", so that a new field
            // is cleared unless somebody thinks of it.
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

    /// Whole turns go, oldest first, when there are more messages than [`MESSAGES_MAX`].
    fn forget_oldest(&mut self) {
        if self.messages.len() <= MESSAGES_MAX {
            return;
        }
        let more = self.messages.len() - MESSAGES_MAX;
        let turns = |message: &Message| message.role == Role::User;
        // At a question: a conversation that begins with results without their call is refused by providers.
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

    /// The messages of the turn, from the question on.
    fn turn(&self) -> &[Message] {
        let from = self.messages.iter().rposition(|message| message.role == Role::User);
        self.messages.get(from.unwrap_or_default()..).unwrap_or_default()
    }

    /// The calls of the last message of the model that have no result yet.
    pub fn open_calls(&self) -> Vec<&ToolUse> {
        let results: Vec<&str> =
            self.messages.iter().flat_map(Message::tool_results).map(|result| result.id.as_str()).collect();
        let calls = self.messages.iter().flat_map(Message::tool_uses);
        calls.filter(|call| !results.contains(&call.id.as_str())).collect()
    }

    /// Whether the last `window` rounds of tool calls were alike. `polls` says of which tools nobody minds.
    pub fn is_looping(&self, window: usize, polls: impl Fn(&str) -> bool) -> bool {
        let turn = self.turn();
        let mut rounds: Vec<&Message> =
            // Made anew each time from the messages: the state that is kept then has nothing that could
            // disagree with them.
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
