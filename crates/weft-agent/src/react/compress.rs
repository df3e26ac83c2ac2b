//! Keeps the part of a conversation that is sent to a model short, by whole units: a message, or a call together with
//! its results. The memory itself loses nothing.

use std::ops::Range;

use weft_core::context::Signal;
use weft_core::seam::chat_model::{Audience, Author, ChatMessage, ChatRequest};
use weft_core::value::{plural, plural_with};
use weft_core::{Error, ErrorKind, Json, Result};

use super::printed::PrintedMessage;
use super::summary::Summary;
use super::turn::Turn;
use super::{Hints, finish};
use crate::ask::ask_structured;
use crate::memory::{Memory, Summarized};
use crate::message::{ContentBlock, Message, Role, text_of};
use crate::structured::Schema;
use crate::window::{head_and_tail, room, tokens};

/// The prompt that asks for a summary.
const SUMMARIZE: &str = include_str!("../prompts/summarize.md");
/// How often the model may correct a summary that does not follow its schema.
// A conversation that is not summarized is only longer, so more attempts are not worth their requests.
const REPAIRS_MAX: u32 = 2;
/// Tokens of a message in addition to its text.
// Roles and separators in the templates of the usual models.
const PER_MESSAGE: usize = 4;
/// Results of up to this many tokens are kept: their replacement would not be shorter.
const SHORT_RESULT: usize = 40;
/// Default number of recent units that stay unchanged.
pub const KEEP_RECENT: usize = 3;

/// How the prompt of a long conversation is kept short. With every choice, a prompt that is still too long for the
/// model's window is fitted by [`super::Formatter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Nothing is omitted until the window is full.
    #[default]
    ToFit,
    /// Results of tools that are older than the last `keep_recent` units are omitted once the conversation has more
    /// than `trigger_tokens`. The calls stay, with a note that they were made.
    ToolResults {
        /// The number of tokens above which results are omitted.
        trigger_tokens: usize,
        /// The number of recent units that stay unchanged.
        keep_recent: usize,
    },
    /// Only the last turns are sent to the model, including the current one.
    SlidingWindow {
        /// The number of turns; at least one.
        turns: usize,
    },
    /// Everything older than the last `keep_recent` units is summarized by a model once the conversation has more
    /// than `trigger_tokens`; see [`Summary`]. If that fails, the conversation stays as it is.
    Summary {
        /// The number of tokens above which the conversation is summarized.
        trigger_tokens: usize,
        /// The number of recent units that stay unchanged.
        keep_recent: usize,
    },
}

/// The conversation that is sent to the model, and what was omitted, if anything.
struct SentConversation {
    messages: Vec<Message>,
    note: Option<String>,
}

/// The units of a conversation, in order and without gaps.
fn units(messages: &[Message]) -> Vec<Range<usize>> {
    let mut units: Vec<Range<usize>> = Vec::new();
    for (place, message) in messages.iter().enumerate() {
        // A result is never separated from its call: providers refuse one without the other.
        let results = message.tool_results().next().is_some();
        match units.last_mut() {
            Some(unit) if results => unit.end = place + 1,
            _ => units.push(place..place + 1),
        }
    }
    units
}

/// The start of the units that stay unchanged.
fn recent(messages: &[Message], keep: usize) -> usize {
    let units = units(messages);
    let place = units.len().saturating_sub(keep);
    units.get(place).map_or(messages.len(), |unit| unit.start)
}

fn cost(message: &Message) -> usize {
    let block = |block: &ContentBlock| match block {
        ContentBlock::ToolUse(call) => {
            tokens(&call.name) + tokens(&serde_json::to_string(&call.input).unwrap_or_default())
        }
        ContentBlock::ToolResult(result) => tokens(&text_of(&result.output)),
        ContentBlock::Text { text } => tokens(text),
        other => tokens(&text_of(std::slice::from_ref(other))),
    };
    PER_MESSAGE + message.content.iter().map(block).sum::<usize>()
}

fn cost_of(messages: &[Message]) -> usize {
    messages.iter().map(cost).sum()
}

/// A message that only the model sees.
fn notice(text: String) -> Message {
    Message::new(Role::User, "hint", vec![ContentBlock::text(text)])
}

/// The summary, followed by the messages after the summarized part. The message that is replied to is always
/// included.
fn summarized(memory: &Memory, current: &str) -> Vec<Message> {
    let messages = memory.messages();
    let Some(Summarized { summary, through }) = memory.summary() else { return messages.to_vec() };
    let after = messages.iter().position(|message| message.id == *through).map_or(0, |place| place + 1);
    let (older, newer) = messages.split_at(after);
    let mut view = vec![notice(summary.to_text())];
    // A long reply may have summarized its own question; the model must still read it verbatim.
    view.extend(older.iter().filter(|message| message.id == current).cloned());
    view.extend_from_slice(newer);
    view
}

/// Replaces old results of tools by a note.
fn without_results(messages: Vec<Message>, trigger_tokens: usize, keep_recent: usize) -> SentConversation {
    if cost_of(&messages) <= trigger_tokens {
        return SentConversation { messages, note: None };
    }
    let mut messages = messages;
    let older = recent(&messages, keep_recent);
    let mut left_out = 0;
    let results = messages.iter_mut().take(older).flat_map(|message| &mut message.content);
    for result in results.filter_map(|block| match block {
        ContentBlock::ToolResult(result) => Some(result),
        _ => None,
    }) {
        let size = tokens(&text_of(&result.output));
        if size > SHORT_RESULT {
            left_out += 1;
            result.output = vec![ContentBlock::text(format!(
                "[The call was made. What it gave ({size} tokens) is left out to keep the conversation short.]"
            ))];
        }
    }
    let note = (left_out > 0)
        .then(|| format!("{} left out", plural_with(left_out, "earlier tool result", ["is", "are"])));
    SentConversation { messages, note }
}

/// The last turns. A turn begins with a user message after a reply.
fn last_turns(messages: Vec<Message>, turns: usize) -> SentConversation {
    let is_reply =
        |message: &Message| message.role == Role::Assistant && message.tool_uses().next().is_none();
    let begins = |place: &usize| {
        let before = place.checked_sub(1).and_then(|before| messages.get(before));
        let user = messages.get(*place).is_some_and(|message| message.role == Role::User);
        user && before.is_none_or(is_reply)
    };
    let starts: Vec<usize> = (0..messages.len()).filter(begins).collect();
    let first = starts.len().checked_sub(turns.max(1)).and_then(|place| starts.get(place)).copied();
    let Some(first) = first.filter(|first| *first > 0) else {
        return SentConversation { messages, note: None };
    };
    let note = format!("{} left out", plural_with(first, "older message", ["is", "are"]));
    let mut view = vec![notice(format!("[{first} older messages of this conversation are left out.]"))];
    view.extend_from_slice(messages.get(first..).unwrap_or_default());
    SentConversation { messages: view, note: Some(note) }
}

/// A conversation as text, for the model that summarizes it.
fn as_text(messages: &[Message]) -> String {
    let block = |block: &ContentBlock| match block {
        ContentBlock::ToolUse(call) => {
            Some(format!("[calls {} with {}]", call.name, Json::Object(call.input.clone())))
        }
        ContentBlock::ToolResult(result) => {
            Some(format!("[{} gave] {}", result.name, text_of(&result.output)))
        }
        // The reasoning has led to what was said and done; only that matters.
        ContentBlock::Thinking { .. } => None,
        other => Some(text_of(std::slice::from_ref(other))),
    };
    let one = |message: &Message| {
        let said: Vec<String> = finish::as_shown(message.clone()).content.iter().filter_map(block).collect();
        format!("{}: {}", message.name, said.join("\n"))
    };
    messages.iter().map(one).collect::<Vec<_>>().join("\n\n")
}

impl Turn<'_> {
    /// The conversation that is sent to the model next.
    pub(super) async fn compressed(&mut self) -> Result<Vec<Message>> {
        if let Compression::Summary { trigger_tokens, keep_recent } = self.agent.settings.compression {
            self.sum_up(trigger_tokens, keep_recent).await?;
        }
        let messages = summarized(self.memory, &self.current);
        let SentConversation { messages, note } = match self.agent.settings.compression {
            Compression::ToFit | Compression::Summary { .. } => SentConversation { messages, note: None },
            Compression::ToolResults { trigger_tokens, keep_recent } => {
                without_results(messages, trigger_tokens, keep_recent)
            }
            Compression::SlidingWindow { turns } => last_turns(messages, turns),
        };
        if let Some(note) = note.filter(|note| self.left_out != *note) {
            self.left_out.clone_from(&note);
            self.ctx.signal(Signal::Warn(format!("to keep the conversation short, {note}"))).await?;
        }
        Ok(messages)
    }

    /// Summarizes the older part once the conversation has grown beyond the limit.
    async fn sum_up(&mut self, trigger_tokens: usize, keep_recent: usize) -> Result<()> {
        let messages = summarized(self.memory, &self.current);
        let older = recent(&messages, keep_recent);
        let Some(through) = older.checked_sub(1).and_then(|last| messages.get(last)) else { return Ok(()) };
        // The existing summary and the message that is replied to are nothing new to summarize.
        let known = |message: &Message| self.memory.messages().iter().any(|one| one.id == message.id);
        if cost_of(&messages) <= trigger_tokens || !known(through) || through.id == self.current {
            return Ok(());
        }
        let (text, through) = (as_text(messages.get(..older).unwrap_or_default()), through.id.clone());
        match self.summary_of(&text).await {
            Ok(summary) => {
                let told = format!(
                    "to keep the conversation short, its older part ({}) is summarized",
                    plural(older, "message")
                );
                self.ctx.signal(Signal::Warn(told)).await?;
                if self.agent.settings.hints == Hints::Printed {
                    let message = notice(summary.to_text()).stamped(self.now_ms());
                    self.print(PrintedMessage { message, last: true }).await?;
                }
                self.memory.set_summary(Summarized { summary, through });
                Ok(())
            }
            // These end the reply as well; after any other failure the conversation is merely longer.
            Err(error) if self.ctx.cancel.is_cancelled() || error.kind == ErrorKind::QuotaExceeded => {
                Err(error)
            }
            Err(error) => self.warn("the conversation is not summarized", &error).await,
        }
    }

    async fn summary_of(&self, text: &str) -> Result<Summary> {
        let model = self.agent.extras.summary_model.as_ref().unwrap_or(&self.agent.model);
        let schema = Schema::new(schemars::schema_for!(Summary).into())?;
        let instructions = format!("{}\n\n{}", SUMMARIZE.trim_end(), schema.instructions());
        // The window of that model, which may be smaller.
        let room = room(model.info().window, None, tokens(&instructions));
        let text = format!("<conversation>\n{}\n</conversation>", head_and_tail(text, room));
        let request = ChatRequest {
            messages: vec![
                ChatMessage::new(Author::System, instructions),
                ChatMessage::new(Author::User, text),
            ],
            schema: Some(schema.json.clone()),
            audience: Audience::Nobody,
            ..ChatRequest::default()
        };
        let asking = ask_structured(&self.ctx, &**model, request, &schema, REPAIRS_MAX);
        let value = self.unless_interrupted(Box::pin(asking)).await??;
        serde_json::from_value(value)
            .map_err(|cause| Error::new(ErrorKind::Garbled, "the model returned no summary").because(cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{ToolResult, ToolUse};
    use serde_json::{Map, json};

    fn said(role: Role, text: &str) -> Message {
        Message::new(role, if role == Role::User { "user" } else { "Ada" }, vec![ContentBlock::text(text)])
    }

    fn round(id: &str, gave: &str) -> [Message; 2] {
        let input = Map::from_iter([("q".to_owned(), json!(id))]);
        let call = ToolUse { id: id.to_owned(), name: "look".to_owned(), input, raw_input: None };
        let asked = Message::new(Role::Assistant, "Ada", vec![ContentBlock::ToolUse(call)]);
        let output = vec![ContentBlock::text(gave)];
        [asked, Message::tool_result(ToolResult { id: id.to_owned(), name: "look".to_owned(), output })]
    }

    fn conversation() -> Vec<Message> {
        let mut messages = vec![said(Role::User, "one")];
        messages.extend(round("a", &"first ".repeat(50)));
        messages.push(said(Role::Assistant, "done"));
        messages.push(said(Role::User, "two"));
        messages.extend(round("b", &"second ".repeat(50)));
        messages.push(said(Role::User, "and quickly"));
        messages
    }

    #[test]
    fn a_call_and_its_results_are_one_unit() {
        assert_eq!(units(&conversation()), [0..1, 1..3, 3..4, 4..5, 5..7, 7..8]);
        assert_eq!(recent(&conversation(), 2), 5);
        assert_eq!(recent(&conversation(), 0), 8);
        assert_eq!(recent(&conversation(), 99), 0);
    }

    #[test]
    fn old_results_are_dropped_and_their_calls_kept() {
        let view = without_results(conversation(), 50, 2);
        let results: Vec<String> = view
            .messages
            .iter()
            .flat_map(|message| {
                message.tool_results().map(|result| text_of(&result.output)).collect::<Vec<_>>()
            })
            .collect();
        assert!(results[0].starts_with("[The call was made.") && results[1].starts_with("second second"));
        assert_eq!(view.messages.iter().flat_map(Message::tool_uses).count(), 2);
        assert_eq!(view.note.as_deref(), Some("1 earlier tool result is left out"));
        assert!(without_results(conversation(), 10_000, 0).note.is_none(), "there is no need yet");
    }

    #[test]
    fn a_window_slides_by_turns_and_an_injected_message_starts_none() {
        let view = last_turns(conversation(), 1);
        let texts: Vec<String> = view.messages.iter().map(Message::text).collect();
        assert_eq!(
            texts,
            ["[4 older messages of this conversation are left out.]", "two", "", "", "and quickly"]
        );
        assert!(last_turns(conversation(), 2).note.is_none());
        assert_eq!(last_turns(conversation(), 0).messages.len(), 5, "the current turn is always kept");
        assert!(last_turns(Vec::new(), 3).messages.is_empty());
    }
}
