//! What an agent remembers of a conversation: its messages in the order in which they came.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::message::{ContentBlock, Message, ToolResult, ToolUse};
use crate::react::Summary;

/// Messages that a memory holds, at most. Beyond that the oldest go, a call never without its results.
// A memory is written as a whole each time that its session is kept.
pub const MESSAGES_MAX: usize = 10_000;

/// The messages of one conversation. Every message is in it once, by its id.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Saved", into = "Saved")]
pub struct Memory {
    messages: Vec<Message>,
    summary: Option<Summarized>,
}

/// A memory in JSON: the list of its messages, or an object where there is more.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Saved {
    Messages(Vec<Message>),
    Summarized { messages: Vec<Message>, summary: Summarized },
}

impl From<Saved> for Memory {
    fn from(saved: Saved) -> Self {
        match saved {
            Saved::Messages(messages) => Self { messages, summary: None },
            Saved::Summarized { messages, summary } => Self { messages, summary: Some(summary) },
        }
    }
}

impl From<Memory> for Saved {
    fn from(memory: Memory) -> Self {
        let Memory { messages, summary } = memory;
        match summary {
            None => Self::Messages(messages),
            Some(summary) => Self::Summarized { messages, summary },
        }
    }
}

/// What stands for the older part of a memory in prompts. The messages themselves stay in the memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summarized {
    /// What that part came to.
    pub summary: Summary,
    /// The id of its last message.
    pub through: String,
}

/// A call of a tool that a memory holds.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedToolUse {
    /// The call: its name and its input.
    pub call: ToolUse,
    /// What came of it, if that is there.
    pub result: Option<ToolResult>,
}

impl Memory {
    /// An empty memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message at the end, unless it is there already.
    pub fn add(&mut self, message: Message) {
        // The hub of several agents and a reply that is taken up again may bring the same one.
        if self.messages.iter().any(|known| known.id == message.id) {
            return;
        }
        self.messages.push(message);
        if self.messages.len() > MESSAGES_MAX {
            self.forget_oldest();
        }
    }

    /// Drops the oldest message, and the results of the calls it asks for with it.
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

    /// Removes the messages with these ids; unknown ids are left alone. How many there were.
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

    /// What stands for its older part in prompts, if anything.
    pub fn summary(&self) -> Option<&Summarized> {
        self.summary.as_ref()
    }

    pub(crate) fn set_summary(&mut self, summary: Summarized) {
        self.summary = Some(summary);
    }

    /// The calls of tools, oldest first, with what came of them. With a name only the calls of that tool.
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

    /// How many calls there are; with a name, of that tool.
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

    /// Gives every call without a result one that says `note`, right behind the message that asks for it
    /// and the results that are there. Providers refuse a conversation with calls that nobody has answered.
    pub fn close_tool_uses(&mut self, note: &str) {
        let open: HashSet<String> = self.open_tool_uses().into_iter().map(|call| call.id).collect();
        if open.is_empty() {
            return;
        }
        let mut closed = Vec::with_capacity(self.messages.len() + open.len());
        let mut due: Vec<Message> = Vec::new();
        for message in self.messages.drain(..) {
            // Behind the results that are there: providers want those of one message together.
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
