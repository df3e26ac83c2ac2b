//! The messages of an agent's work. Every call in it has exactly one result, which follows the message with the calls
//! in the order of the calls; providers refuse anything else.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use weft_core::seam::chat_model::{Author, ChatMessage, ToolCall};

use crate::calls::INSIDE;
use crate::toolkit::function_name;
use crate::window::{Keep, Line};

/// The result of a call that was never carried out.
pub const NOT_EXECUTED: &str = "not executed";

/// A conversation with the rounds of tool calls so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Transcript {
    /// Its messages.
    pub lines: Vec<Line>,
    round: u32,
}

impl Transcript {
    /// A conversation to continue. Irregularities left by an earlier engine or a crash are repaired.
    pub fn new(lines: Vec<Line>) -> Self {
        let round =
            lines.iter().filter_map(|line| if let Keep::Round(n) = line.keep { Some(n + 1) } else { None });
        let round = round.max().unwrap_or(0);
        Self { lines: repaired(lines), round }
    }

    /// Adds a message outside of a round of calls.
    pub fn say(&mut self, message: ChatMessage) {
        self.lines.push(Line::pinned(message));
    }

    /// Adds a round: the message with the calls, and the results in the order of its calls.
    pub fn round(&mut self, asked: ChatMessage, results: impl IntoIterator<Item = ChatMessage>) {
        let keep = Keep::Round(self.round);
        self.round += 1;
        self.lines.push(Line { message: asked, keep });
        self.lines.extend(results.into_iter().map(|message| Line { message, keep }));
    }

    /// Gives calls names and ids that providers accept: names are valid function names, and ids are unique within the
    /// conversation. Ids chosen by models are kept if possible.
    pub fn tidy(&self, calls: &mut [ToolCall]) {
        let before = self.lines.iter().flat_map(|line| &line.message.tool_calls);
        let mut taken = before.map(|call| call.id.clone()).collect();
        tidy(&mut taken, calls.iter_mut().map(|call| (&mut call.id, &mut call.name)));
    }

    /// Removes the images from the results of tools, whose texts still mention them. Returns whether there were any.
    pub fn forget_images(&mut self) -> bool {
        let results = self.lines.iter_mut().filter(|line| line.message.author == Author::Tool);
        results.map(|line| std::mem::take(&mut line.message.images).len()).sum::<usize>() > 0
    }

    /// The number of messages.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Whether any message contains a call.
    pub fn has_calls(&self) -> bool {
        self.lines.iter().any(|line| !line.message.tool_calls.is_empty())
    }
}

/// Same as [`Transcript::tidy`] for the ids and names of calls. `taken` are the ids used so far; the new ids are
/// added to it.
pub fn tidy<'a>(
    taken: &mut HashSet<String>,
    calls: impl IntoIterator<Item = (&'a mut String, &'a mut String)>,
) {
    for (id, name) in calls {
        *name = function_name(name);
        // The separator marks ids of tasks inside of a call; within a call's id it would make an answer ambiguous.
        *id = id.trim().replace(INSIDE, "_");
        if id.is_empty() || taken.contains(id) {
            // Ids of this form are mere counters and need not be kept.
            let nobodys = id.strip_prefix("call_").unwrap_or(id);
            let nobodys = nobodys.bytes().all(|b| b.is_ascii_digit());
            let stem = if nobodys { "call".to_owned() } else { id.clone() };
            // From there on, because the numbers below are mostly taken.
            let mut free = (taken.len()..).map(|n| format!("{stem}_{n}")).filter(|id| !taken.contains(id));
            *id = free.next().unwrap_or_default();
        }
        taken.insert(id.clone());
    }
}

/// Puts calls and results in order: consecutive messages of one round that each contain one call are merged; every
/// call is followed by its result, the first one if there are several; a call without a result gets a result that
/// says so; a result without a call is dropped.
pub fn repaired(lines: Vec<Line>) -> Vec<Line> {
    // In most conversations there is nothing to reorder, so nothing is copied.
    if lines.iter().all(|line| line.message.tool_calls.is_empty() && line.message.author != Author::Tool) {
        return lines;
    }
    let mut tidy: Vec<Line> = Vec::with_capacity(lines.len());
    let mut rest = lines.into_iter().peekable();
    while let Some(line) = rest.next() {
        if line.message.author == Author::Tool {
            continue;
        }
        if line.message.tool_calls.is_empty() {
            tidy.push(line);
            continue;
        }
        let mut asked = line;
        let mut results: HashMap<String, Line> = HashMap::new();
        // The rest of this round: results, and further messages that contain only calls, after a result.
        while let Some(next) = rest.peek() {
            let message = &next.message;
            let goes_on = next.keep == asked.keep
                && message.author == Author::Assistant
                && !message.tool_calls.is_empty()
                && message.text.is_empty()
                && message.thinking.is_none()
                && !results.is_empty()
                && !message
                    .tool_calls
                    .iter()
                    .any(|call| asked.message.tool_calls.iter().any(|c| c.id == call.id))
                && pairwise(&asked.message, message);
            if message.author == Author::Tool {
                let Some(result) = rest.next() else { break };
                if let Some(id) = result.message.tool_call_id.clone() {
                    results.entry(id).or_insert(result);
                }
            } else if goes_on {
                let Some(more) = rest.next() else { break };
                asked.message.tool_calls.extend(more.message.tool_calls);
            } else {
                break;
            }
        }
        let keep = asked.keep;
        let ids: Vec<String> = asked.message.tool_calls.iter().map(|call| call.id.clone()).collect();
        tidy.push(asked);
        for id in ids {
            let result = results.remove(&id);
            // In the order of the calls and not of the results, because some providers match them by position.
            tidy.push(result.unwrap_or_else(|| Line { message: ChatMessage::tool(id, NOT_EXECUTED), keep }));
        }
    }
    tidy
}

/// Whether two messages look like the calls of one round in separate messages. An engine that writes one message per
/// call numbers the calls of a round, while a model's next round usually includes text or reasoning. Only messages
/// with a single call each are merged.
fn pairwise(first: &ChatMessage, next: &ChatMessage) -> bool {
    first.text.is_empty() && first.thinking.is_none() && next.tool_calls.len() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(ids: &[&str]) -> Line {
        let call =
            |id: &&str| ToolCall { id: (*id).to_owned(), name: "t".to_owned(), arguments: "{}".to_owned() };
        let tool_calls = ids.iter().map(call).collect();
        Line::history(ChatMessage { tool_calls, ..ChatMessage::new(Author::Assistant, "") })
    }

    fn gives(id: &str, text: &str) -> Line {
        Line::history(ChatMessage::tool(id, text))
    }

    fn says(author: Author, text: &str) -> Line {
        Line::history(ChatMessage::new(author, text))
    }

    fn told(lines: &[Line]) -> String {
        let one = |line: &Line| {
            let message = &line.message;
            let calls: Vec<&str> = message.tool_calls.iter().map(|call| &*call.id).collect();
            match message.author {
                Author::Tool => format!("{}={}", message.tool_call_id.as_deref().unwrap(), message.text),
                _ if !calls.is_empty() => format!("ask({})", calls.join(",")),
                author => format!("{author:?}:{}", message.text),
            }
        };
        lines.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn inconsistent_histories_are_repaired() {
        let check = |lines: Vec<Line>, expected: &str| {
            let tidy = repaired(lines);
            assert_eq!(told(&tidy), expected);
            assert_eq!(told(&repaired(tidy)), expected, "repairing twice changes nothing");
        };
        check(vec![says(Author::User, "q"), says(Author::Assistant, "a")], "User:q Assistant:a");
        check(vec![asks(&["1", "2"]), gives("2", "b"), gives("1", "a")], "ask(1,2) 1=a 2=b");
        check(vec![asks(&["1", "2"]), gives("2", "b")], "ask(1,2) 1=not executed 2=b");
        check(vec![asks(&["1"]), says(Author::User, "q")], "ask(1) 1=not executed User:q");
        check(vec![gives("9", "x"), says(Author::User, "q"), gives("8", "y")], "User:q");
        check(vec![asks(&["1"]), gives("1", "a"), gives("1", "again")], "ask(1) 1=a");
        check(
            vec![asks(&["1"]), gives("1", "a"), asks(&["2"]), gives("2", "b"), says(Author::Assistant, "so")],
            "ask(1,2) 1=a 2=b Assistant:so",
        );
        check(vec![asks(&["1", "2"]), gives("9", "x")], "ask(1,2) 1=not executed 2=not executed");
    }

    #[test]
    fn calls_get_names_and_ids_accepted_by_providers() {
        let mut transcript = Transcript::default();
        transcript.round(asks(&["call_0", "functions.t:0"]).message, []);
        let call =
            |id: &str, name: &str| ToolCall { id: id.into(), name: name.into(), arguments: "{}".into() };
        let mut calls = [
            call("functions.t:1", "t"),
            call("call_0", "no such tool"),
            call("", ""),
            call("x/y", "t"),
            call("functions.t:0", "t"),
            call("call_4", "t"),
            call("call_4", "t"),
        ];
        transcript.tidy(&mut calls);
        let told: Vec<_> = calls.iter().map(|call| (&*call.id, &*call.name)).collect();
        let expected = [
            ("functions.t:1", "t"),
            ("call_3", "no_such_tool"),
            ("call_4", "tool"),
            ("x_y", "t"),
            ("functions.t:0_6", "t"),
            ("call_7", "t"),
            ("call_8", "t"),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn round_numbers_continue() {
        let mut transcript = Transcript::new(vec![Line::pinned(ChatMessage::new(Author::User, "q"))]);
        let ask = |id: &str| asks(&[id]).message;
        transcript.round(ask("1"), [ChatMessage::tool("1", "a")]);
        transcript.round(ask("2"), [ChatMessage::tool("2", "b")]);
        let keeps: Vec<_> = transcript.lines.iter().map(|line| line.keep).collect();
        assert_eq!(keeps, [Keep::Pinned, Keep::Round(0), Keep::Round(0), Keep::Round(1), Keep::Round(1)]);
        assert!(transcript.has_calls());
    }
}
