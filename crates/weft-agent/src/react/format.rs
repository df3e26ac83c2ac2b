//! Converts a memory to the prompt of a model, within the limits of its window.

use std::collections::HashSet;

use weft_core::seam::chat_model::{Author, ChatMessage, ToolCall};
use weft_core::{Error, Result};

use crate::message::{ContentBlock, Message, Role, ToolResult, ToolUse, text_of};
use crate::window::{Keep, Line, fit};

/// Turns messages into the prompt of a model.
///
/// What does not fit is cut by whole units, oldest first: results of tools in earlier rounds are shortened, then
/// earlier turns are dropped, then earlier rounds of the current one, each call together with its results. The
/// instructions and the message that is replied to stay.
#[derive(Clone, Debug)]
pub struct Formatter {
    agent: String,
    instructions: String,
}

impl Formatter {
    /// A formatter for the agent of this name. Messages of other agents are labelled with their names.
    pub fn new(agent: impl Into<String>, instructions: impl Into<String>) -> Self {
        Self { agent: agent.into(), instructions: instructions.into() }
    }

    /// The messages for a request with room for this many tokens. `current` is the id of the message that is replied
    /// to; without it, the last message of a user. The second value says what was left out, if anything.
    ///
    /// # Errors
    /// `Invalid` when a call is not followed by its result or a result not preceded by its call, and when there is no
    /// room for the instructions and the current message.
    pub fn format(
        &self,
        messages: &[Message],
        current: Option<&str>,
        room: usize,
    ) -> Result<(Vec<ChatMessage>, Option<String>)> {
        let lines = self.lines(messages, current);
        paired(&lines)?;
        fit(lines, room)
    }

    fn lines(&self, messages: &[Message], current: Option<&str>) -> Vec<Line> {
        let current = match current {
            Some(id) => messages.iter().position(|message| message.id == id),
            None => messages.iter().rposition(|message| message.role == Role::User),
        };
        let mut lines = Vec::with_capacity(messages.len() + 1);
        if !self.instructions.is_empty() {
            lines.push(Line::pinned(ChatMessage::new(Author::System, self.instructions.clone())));
        }
        let mut rounds = 0;
        for (place, message) in messages.iter().enumerate() {
            let asks = message.tool_uses().next().is_some();
            let answers = message.tool_results().next().is_some();
            let keep = match current {
                Some(current) if place < current => Keep::History,
                _ if asks => {
                    rounds += 1;
                    Keep::Round(rounds)
                }
                // Belongs to the round that it answers, so that neither is left out without the other.
                _ if answers => Keep::Round(rounds),
                _ => Keep::Pinned,
            };
            lines.extend(self.formatted(message).into_iter().map(|message| Line { message, keep }));
        }
        lines
    }

    fn formatted(&self, message: &Message) -> Vec<ChatMessage> {
        let results: Vec<ChatMessage> = message.tool_results().map(result).collect();
        let text = text_of(&message.content);
        let tool_calls: Vec<ToolCall> = message.tool_uses().map(call).collect();
        let thinking = thinking(&message.content);
        // Reasoning that led to nothing is useless.
        if text.is_empty() && tool_calls.is_empty() {
            return results;
        }
        let own = message.role == Role::Assistant && message.name == self.agent;
        let said = match message.role {
            // Calls of another agent stay calls: the results that follow need them.
            Role::Assistant if own || !tool_calls.is_empty() => {
                let (thinking, signature) = thinking.unzip();
                let signature = signature.flatten();
                ChatMessage { tool_calls, thinking, signature, ..ChatMessage::new(Author::Assistant, text) }
            }
            // As another speaker's words, with its name: as its own, the model would take them for something it said.
            Role::Assistant => ChatMessage::new(Author::User, format!("{}: {text}", message.name)),
            Role::User | Role::System => ChatMessage::new(Author::User, text),
        };
        // Providers accept images from users and tools only.
        let images = if said.author == Author::User { images(&message.content) } else { Vec::new() };
        let mut all = vec![ChatMessage { images, ..said }];
        all.extend(results);
        all
    }
}

/// A call as the model wrote it, if its text is known.
pub(crate) fn call(call: &ToolUse) -> ToolCall {
    let arguments =
        call.raw_input.clone().unwrap_or_else(|| serde_json::Value::Object(call.input.clone()).to_string());
    ToolCall { id: call.id.clone(), name: call.name.clone(), arguments }
}

fn result(result: &ToolResult) -> ChatMessage {
    ChatMessage {
        images: images(&result.output),
        ..ChatMessage::tool(result.id.clone(), text_of(&result.output))
    }
}

fn images(content: &[ContentBlock]) -> Vec<String> {
    let image = |block: &ContentBlock| match block {
        ContentBlock::Image { source } => Some(source.to_url()),
        _ => None,
    };
    content.iter().filter_map(image).collect()
}

fn thinking(content: &[ContentBlock]) -> Option<(String, Option<String>)> {
    let block = content.iter().find_map(|block| match block {
        ContentBlock::Thinking { thinking, signature } => Some((thinking.clone(), signature.clone())),
        _ => None,
    });
    block.filter(|(thinking, _)| !thinking.is_empty())
}

/// Checks that every call is followed by its result, as providers require.
fn paired(lines: &[Line]) -> Result<()> {
    let unmatched = |what: &str| {
        Err(Error::invalid(format!("the conversation has {what}"))
            .help("keep each call together with its result when you edit messages"))
    };
    let mut due: HashSet<&str> = HashSet::new();
    for line in lines {
        match line.message.tool_call_id.as_deref() {
            Some(id) if !due.remove(id) => return unmatched("a result without its call"),
            Some(_) => {}
            None if !due.is_empty() => return unmatched("a call without its result"),
            None => due = line.message.tool_calls.iter().map(|call| call.id.as_str()).collect(),
        }
    }
    if due.is_empty() { Ok(()) } else { unmatched("a call without its result") }
}
