//! An agent's memory of a conversation: its messages, in order.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::message::{ContentBlock, Message, ToolResult, ToolUse};
use crate::react::Summary;

/// Maximum number of messages in a memory. Beyond that the oldest are dropped, a call always together with its
/// results.
// A memory is written as a whole each time its session is saved.
pub const MESSAGES_MAX: usize = 10_000;

/// The messages of one conversation. Messages are unique by their ids.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "MemoryJson", into = "MemoryJson")]
pub struct Memory {
    messages: Vec<Message>,
    summary: Option<Summarized>,
}

/// The JSON form of a memory: the list of its messages, or an object if there is more.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum MemoryJson {
    Messages(Vec<Message>),
    Summarized { messages: Vec<Message>, summary: Summarized },
}

impl From<MemoryJson> for Memory {
    fn from(saved: MemoryJson) -> Self {
        match saved {
            MemoryJson::Messages(messages) => Self { messages, summary: None },
            MemoryJson::Summarized { messages, summary } => Self { messages, summary: Some(summary) },
        }
    }
}

impl From<Memory> for MemoryJson {
    fn from(memory: Memory) -> Self {
        let Memory { messages, summary } = memory;
        match summary {
            None => Self::Messages(messages),
            Some(summary) => Self::Summarized { messages, summary },
        }
    }
}

/// Replaces the older part of a memory in prompts. The messages themselves stay in the memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summarized {
    /// The summary of that part.
    pub summary: Summary,
    /// The id of its last message.
    pub through: String,
}

/// A tool call in a memory.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedToolUse {
    /// The call.
    pub call: ToolUse,
    /// Its result, if there is one.
    pub result: Option<ToolResult>,
}

impl Memory {
    /// An empty memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a message, unless it is already there.
    pub fn add(&mut self, message: Message) {
        // A hub of several agents, and a reply that is resumed, may add the same message again.
        if self.messages.iter().any(|known| known.id == message.id) {
            return;
        }
        self.messages.push(message);
        if self.messages.len() > MESSAGES_MAX {
            self.forget_oldest();
        }
    }

    /// Drops the oldest message together with the results of its calls.
    fn forget_oldest(&mut self) {
        let oldest = self.messages.remove(0);
        let calls: HashSet<String> = oldest.tool_uses().map(|call| call.id.clone()).collect();
        if !calls.is_empty() {
            self.messages.retain(|message| !message.tool_results().any(|result| calls.contains(&result.id)));
        }
    }

    /// The messages, oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Removes the messages with these ids; unknown ids are ignored. Returns how many were removed.
    pub fn remove(&mut self, ids: &[&str]) -> usize {
        let before = self.messages.len();
        self.messages.retain(|message| !ids.contains(&message.id.as_str()));
        before - self.messages.len()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.messages.clear();
        self.summary = None;
    }

    /// The summary that replaces its older part in prompts, if any.
    pub fn summary(&self) -> Option<&Summarized> {
        self.summary.as_ref()
    }

    pub(crate) fn set_summary(&mut self, summary: Summarized) {
        self.summary = Some(summary);
    }

    /// The tool calls with their results, oldest first. With a name, only the calls of that tool.
    pub fn tool_uses(&self, name: Option<&str>) -> Vec<RecordedToolUse> {
        let results: Vec<&ToolResult> = self.messages.iter().flat_map(Message::tool_results).collect();
        let calls = self.messages.iter().flat_map(Message::tool_uses);
        let wanted = calls.filter(|call| name.is_none_or(|name| call.name == name));
        let recorded = wanted.map(|call| RecordedToolUse {
            call: call.clone(),
            result: results.iter().find(|result| result.id == call.id).map(|result| (*result).clone()),
        });
        recorded.collect()
    }

    /// The number of calls; with a name, only those of that tool.
    pub fn count_tool_uses(&self, name: Option<&str>) -> usize {
        let calls = self.messages.iter().flat_map(Message::tool_uses);
        calls.filter(|call| name.is_none_or(|name| call.name == name)).count()
    }

    /// The ids of all calls.
    pub(crate) fn call_ids(&self) -> HashSet<String> {
        self.messages.iter().flat_map(Message::tool_uses).map(|call| call.id.clone()).collect()
    }

    /// The calls without a result.
    pub fn open_tool_uses(&self) -> Vec<ToolUse> {
        let results: HashSet<&str> =
            self.messages.iter().flat_map(Message::tool_results).map(|result| result.id.as_str()).collect();
        let calls = self.messages.iter().flat_map(Message::tool_uses);
        calls.filter(|call| !results.contains(&*call.id)).cloned().collect()
    }

    /// Gives every call without a result one with the text `note`, right after the message with the call and the
    /// results that follow it. Providers refuse a conversation with open calls.
    pub fn close_tool_uses(&mut self, note: &str) {
        let open: HashSet<String> = self.open_tool_uses().into_iter().map(|call| call.id).collect();
        if open.is_empty() {
            return;
        }
        let mut closed = Vec::with_capacity(self.messages.len() + open.len());
        let mut due: Vec<Message> = Vec::new();
        for message in self.messages.drain(..) {
            // After the existing results: providers require those of one message to be together.
            if message.tool_results().next().is_none() {
                closed.append(&mut due);
            }
            due.extend(message.tool_uses().filter(|call| open.contains(&call.id)).map(|call| {
                let output = vec![ContentBlock::text(note)];
                Message::tool_result(ToolResult { id: call.id.clone(), name: call.name.clone(), output })
            }));
            closed.push(message);
        }
        closed.append(&mut due);
        self.messages = closed;
    }
}
