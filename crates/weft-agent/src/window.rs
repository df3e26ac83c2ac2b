//! Fits a conversation into a model's window by dropping whole rounds and shortening messages.

mod text;

use serde::{Deserialize, Serialize};
use weft_core::seam::chat_model::{Author, ChatMessage, ToolSchema};
use weft_core::value::{plural, plural_with};
use weft_core::{Error, ErrorKind, Result};

use self::text::shorter_object;
pub use text::{cut, head_and_tail, tokens};

/// Tokens that every message costs in addition to its text.
const PER_MESSAGE: usize = 4;
/// Estimated tokens of an image.
const PER_IMAGE: usize = 1_000;
/// A question is never cut to fewer than this many tokens.
// A shorter part of a question would probably ask something else.
pub const QUESTION_MIN: usize = 200;
/// The result of a tool is never cut to fewer than this many tokens while its round is kept.
// Enough for the beginning and the end, which usually tell what a result is.
const RESULT_MIN: usize = 100;
/// The same minimum when there are so many results that they would still not fit.
const MANY_RESULTS_MIN: usize = 12;
/// The arguments and the result of one call may each take one part in this many of the room before the other is cut
/// to its minimum.
// Results have their own limit; arguments written by a model have none, and have served their purpose by the time
// they are sent back.
const CALL_SHARE: usize = 3;
/// The share of a window that is filled, in percent.
// Token counts without the model's own vocabulary are off by a few percent.
const WINDOW_PERCENT: usize = 97;
/// Maximum tokens reserved for an answer without its own limit.
const ANSWER_TOKENS: usize = 1_024;

/// What may be done with a message when there is not enough room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// It is kept; as a last resort, the longest of these is shortened.
    Pinned,
    /// It belongs to the earlier conversation and is dropped with its round, oldest first.
    History,
    /// It belongs to this round of tool calls; all rounds but the last may be dropped.
    Round(u32),
}

/// A message and what may be done with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The message.
    pub message: ChatMessage,
    /// What may be done with it.
    pub keep: Keep,
}

impl Line {
    /// A message that is kept.
    pub fn pinned(message: ChatMessage) -> Self {
        Self { message, keep: Keep::Pinned }
    }

    /// A message of the earlier conversation.
    pub fn history(message: ChatMessage) -> Self {
        Self { message, keep: Keep::History }
    }
}

/// Adds a section to the instructions of a conversation.
pub fn add_to_system(lines: &mut Vec<Line>, section: &str) {
    match lines.first_mut().filter(|line| line.message.author == Author::System) {
        Some(line) if !line.message.text.is_empty() => {
            line.message.text.push_str("\n\n");
            line.message.text.push_str(section);
        }
        Some(line) => section.clone_into(&mut line.message.text),
        None => lines.insert(0, Line::pinned(ChatMessage::new(Author::System, section))),
    }
}

/// The estimated number of tokens that a message takes in a request.
pub(crate) fn cost(message: &ChatMessage) -> usize {
    let calls =
        message.tool_calls.iter().map(|call| PER_MESSAGE + tokens(&call.name) + tokens(&call.arguments));
    let thinking = message.thinking.as_deref().map_or(0, tokens);
    PER_MESSAGE + tokens(&message.text) + thinking + PER_IMAGE * message.images.len() + calls.sum::<usize>()
}

/// The number of tokens that tools take in every request; deferred ones take none.
pub fn tokens_of_tools(tools: &[ToolSchema]) -> usize {
    let one = |tool: &ToolSchema| {
        PER_MESSAGE + tokens(&tool.name) + tokens(&tool.description) + tokens(&tool.parameters.to_string())
    };
    tools.iter().filter(|tool| !tool.deferred).map(one).sum()
}

/// The number of tokens of a window that are left for messages, with tools that take `tools` tokens and an answer of
/// up to `answer` tokens.
pub fn room(window: usize, answer: Option<u32>, tools: usize) -> usize {
    let answer = answer.map_or(ANSWER_TOKENS, |max| usize::try_from(max).unwrap_or(ANSWER_TOKENS));
    let filled = window.saturating_mul(WINDOW_PERCENT) / 100;
    // Some models have an answer limit above the window itself; a question must still have room.
    filled.saturating_sub(answer.min(window / 2)).saturating_sub(tools)
}

/// Fits the messages into the room. Returns them with a note of what was done, if anything: very long arguments of
/// calls are shortened, then the results and arguments of earlier rounds; the oldest rounds of the history are
/// dropped, then the oldest rounds of tool calls; then the arguments and results of the last round are shortened,
/// then the instructions or the question.
///
/// # Errors
/// `Invalid` when the messages cannot fit without cutting the question below [`QUESTION_MIN`] tokens.
pub fn fit(lines: Vec<Line>, room: usize) -> Result<(Vec<ChatMessage>, Option<String>)> {
    let last_round = lines.iter().rev().find_map(|line| match line.keep {
        Keep::Round(round) => Some(round),
        Keep::Pinned | Keep::History => None,
    });
    let mut fitted = FittingMessages::new(lines);
    let mut notes = Vec::new();
    // The model is about to answer the last round; the others have served their purpose.
    let earlier = |keep: Keep| matches!(keep, Keep::Round(round) if Some(round) != last_round);
    let share = RESULT_MIN.max(room / CALL_SHARE);
    let mut calls = fitted.shorten_calls(room, share, |_| true);
    if fitted.total > room && fitted.shorten_results(room, RESULT_MIN, earlier) {
        notes.push("tool results of earlier rounds were shortened".to_owned());
    }
    calls |= fitted.shorten_calls(room, RESULT_MIN, earlier);
    if fitted.drop_images(room, earlier) {
        notes.push("images of earlier rounds were left out".to_owned());
    }
    let dropped = fitted.drop_while_over(room, |keep| keep == Keep::History);
    if dropped > 0 {
        notes.push(format!("{} left out", plural_with(dropped, "older message", ["was", "were"])));
    }
    let dropped = fitted.drop_while_over(room, earlier);
    if dropped > 0 {
        let messages = plural(dropped, "message");
        notes.push(format!("left out of earlier rounds of tool calls: {messages}"));
    }
    let last = |keep| matches!(keep, Keep::Round(_));
    // Neither is cut to its minimum because of the length of the other.
    let much = fitted.shorten_results(room, share, last);
    calls |= fitted.shorten_calls(room, RESULT_MIN, last);
    if calls {
        notes.push("tool arguments were shortened".to_owned());
    }
    let much = fitted.shorten_results(room, RESULT_MIN, last) || much;
    if fitted.shorten_results(room, MANY_RESULTS_MIN, last) || much {
        notes.push("the last tool results were shortened".to_owned());
    }
    if fitted.drop_images(room, last) {
        notes.push("images of the last tool results were left out".to_owned());
    }
    if fitted.total > room {
        fitted.shorten_longest(room)?;
        notes.push("the prompt was shortened".to_owned());
    }
    let note = (!notes.is_empty()).then(|| format!("to fit the model's window, {}", notes.join(" and ")));
    Ok((fitted.lines.into_iter().map(|(line, _)| line.message).collect(), note))
}

struct FittingMessages {
    /// Each message with its cost.
    lines: Vec<(Line, usize)>,
    total: usize,
}

impl FittingMessages {
    fn new(lines: Vec<Line>) -> Self {
        let with_cost = |line: Line| {
            let cost = cost(&line.message);
            (line, cost)
        };
        let lines: Vec<_> = lines.into_iter().map(with_cost).collect();
        let total = lines.iter().map(|(_, cost)| cost).sum();
        Self { lines, total }
    }

    /// Shortens results among these lines, longest first and none below `least` tokens, until it fits. Returns
    /// whether any was shortened.
    fn shorten_results(&mut self, room: usize, least: usize, of: impl Fn(Keep) -> bool) -> bool {
        // A planner gets the results of its tools in messages of the user.
        let is_result = |line: &Line| of(line.keep) && line.message.author != Author::Assistant;
        let results = self.lines.iter_mut().filter(|(line, _)| is_result(line));
        let sized = results.map(|line| (tokens(&line.0.message.text), line));
        let mut long: Vec<_> = sized.filter(|(size, _)| *size > least).collect();
        // Cutting one long result in half loses less than cutting ten short ones to nothing.
        long.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
        let mut any = false;
        for (size, (line, cost)) in long {
            let over = self.total.saturating_sub(room);
            if over == 0 {
                break;
            }
            let shorter = head_and_tail(&line.message.text, size.saturating_sub(over).max(least));
            let saved = size.saturating_sub(tokens(&shorter));
            if saved > 0 {
                line.message.text = shorter;
                *cost -= saved;
                self.total -= saved;
                any = true;
            }
        }
        any
    }

    /// Shortens the arguments of calls in these lines, longest first and none below `least` tokens, until it fits.
    /// Returns whether any was shortened.
    fn shorten_calls(&mut self, room: usize, least: usize, of: impl Fn(Keep) -> bool) -> bool {
        if self.total <= room {
            return false;
        }
        let mut long = Vec::new();
        for (place, (line, _)) in self.lines.iter().enumerate().filter(|(_, (line, _))| of(line.keep)) {
            let calls = line.message.tool_calls.iter().enumerate();
            long.extend(calls.map(|(nth, call)| (tokens(&call.arguments), place, nth)));
        }
        long.retain(|(size, ..)| *size > least);
        long.sort_by_key(|(size, ..)| std::cmp::Reverse(*size));
        let mut any = false;
        for (size, place, nth) in long {
            let over = self.total.saturating_sub(room);
            if over == 0 {
                break;
            }
            let Some((line, cost)) = self.lines.get_mut(place) else { continue };
            let Some(call) = line.message.tool_calls.get_mut(nth) else { continue };
            let shorter = shorter_object(&call.arguments, size.saturating_sub(over).max(least));
            let saved = size.saturating_sub(tokens(&shorter));
            if saved > 0 {
                call.arguments = shorter;
                *cost -= saved;
                self.total -= saved;
                any = true;
            }
        }
        any
    }

    /// Removes images in tool results of these lines, oldest first, until it fits. Returns whether any was removed.
    fn drop_images(&mut self, room: usize, of: impl Fn(Keep) -> bool) -> bool {
        let mut any = false;
        for (line, cost_before) in &mut self.lines {
            let (over, images) = (self.total.saturating_sub(room), line.message.images.len());
            if over == 0 {
                break;
            }
            if images > 0 && of(line.keep) && line.message.author == Author::Tool {
                line.message.images.truncate(images.saturating_sub(over.div_ceil(PER_IMAGE)));
                line.message.text.push_str("\n[images were left out]");
                let after = cost(&line.message);
                self.total = self.total.saturating_sub(*cost_before) + after;
                *cost_before = after;
                any = true;
            }
        }
        any
    }

    /// Drops the oldest rounds among these lines until it fits. Returns the number of messages dropped.
    fn drop_while_over(&mut self, room: usize, of: impl Fn(Keep) -> bool) -> usize {
        let before = self.lines.len();
        let mut total = self.total;
        // The round that is currently being dropped.
        let mut goes = None;
        self.lines.retain(|(line, cost)| {
            // The rest of a round is dropped with it: in the history, everything up to the next message of the user.
            let same = goes == Some(line.keep)
                && (line.keep != Keep::History || line.message.author != Author::User);
            goes = (of(line.keep) && (same || total > room)).then_some(line.keep);
            total -= if goes.is_some() { *cost } else { 0 };
            goes.is_none()
        });
        self.total = total;
        before - self.lines.len()
    }

    fn shorten_longest(&mut self, room: usize) -> Result<()> {
        let over = self.total.saturating_sub(room);
        let longest = self.lines.iter_mut().max_by_key(|(line, _)| tokens(&line.message.text));
        let Some((line, cost_before)) = longest else { return Ok(()) };
        let keep = tokens(&line.message.text).saturating_sub(over);
        let minimum = if line.message.author == Author::System { 1 } else { QUESTION_MIN };
        if keep < minimum {
            return Err(Error::new(
                ErrorKind::Invalid,
                "the prompt is much longer than the model's context window",
            )
            .help("shorten the prompt or the referenced values, or choose a model with a larger window"));
        }
        line.message.text = cut(&line.message.text, keep).to_owned();
        *cost_before = cost(&line.message);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::seam::chat_model::ToolCall;

    fn pinned(author: Author, text: &str) -> Line {
        Line::pinned(ChatMessage::new(author, text))
    }

    fn said(author: Author, text: &str) -> Line {
        Line::history(ChatMessage::new(author, text))
    }

    fn conversation() -> Vec<Line> {
        vec![
            pinned(Author::System, "sys"),
            said(Author::User, &"a".repeat(400)),
            said(Author::Assistant, &"b".repeat(400)),
            said(Author::User, &"c".repeat(400)),
            said(Author::Assistant, &"d".repeat(400)),
            pinned(Author::User, "question"),
        ]
    }

    fn round(number: u32, calls: u32, result: &str) -> Vec<Line> {
        let id = |call| format!("{number}.{call}");
        let mut asked = ChatMessage::new(Author::Assistant, "");
        asked.tool_calls = (0..calls)
            .map(|call| ToolCall { id: id(call), name: "find".to_owned(), arguments: "{}".to_owned() })
            .collect();
        let results = (0..calls).map(|call| ChatMessage::tool(id(call), result));
        let messages = std::iter::once(asked).chain(results);
        messages.map(|message| Line { message, keep: Keep::Round(number) }).collect()
    }

    #[test]
    fn tokens_are_estimated() {
        let check = |text: &str, expected| assert_eq!(tokens(text), expected, "{text}");
        check("", 0);
        check("abcde", 2);
        check("汉字", 2);
        check("汉字abcd", 3);
    }

    #[test]
    fn whole_rounds_are_dropped_oldest_first() {
        let kept = |room| {
            fit(conversation(), room).unwrap().0.iter().map(|m| m.text[..1].to_owned()).collect::<String>()
        };
        assert_eq!(kept(1_000), "sabcdq");
        assert_eq!(kept(300), "scdq");
        assert_eq!(kept(100), "sq");
        assert!(fit(conversation(), 100).unwrap().1.unwrap().contains("4 older messages"));
    }

    #[test]
    fn the_longest_part_is_shortened_and_the_question_never_below_its_minimum() {
        let long = |system: usize, question: usize| {
            vec![
                pinned(Author::System, &"s".repeat(system * 4)),
                pinned(Author::User, &"q".repeat(question * 4)),
            ]
        };
        let sizes = |lines: Vec<Line>, room| {
            fit(lines, room).map(|(m, _)| (tokens(&m[0].text), tokens(&m[1].text))).ok()
        };
        assert_eq!(sizes(long(500, 100), 308), Some((200, 100)));
        assert_eq!(sizes(long(100, 500), 408), Some((100, 300)));
        assert_eq!(sizes(long(100, 500), 250), None);
        assert_eq!(sizes(long(100, 200), 250), None);
    }

    #[test]
    fn a_call_is_never_separated_from_its_results() {
        let mut lines = conversation();
        for number in 0..12 {
            lines.extend(round(number, 1 + number % 3, &"r".repeat(200 * (number as usize % 5))));
        }
        for room in (40..3_000).step_by(7) {
            let Ok((messages, _)) = fit(lines.clone(), room) else { continue };
            assert!(messages.iter().map(cost).sum::<usize>() <= room);
            let calls: Vec<_> =
                messages.iter().flat_map(|m| &m.tool_calls).map(|call| call.id.clone()).collect();
            let results: Vec<_> = messages.iter().filter_map(|m| m.tool_call_id.clone()).collect();
            assert_eq!(calls, results, "{room}");
            assert_eq!(messages[0].text, "sys");
            assert!(messages.iter().any(|m| m.text == "question"));
            assert!(calls.contains(&"11.0".to_owned()), "the last round stays");
        }
    }

    #[test]
    fn images_that_do_not_fit_are_dropped_oldest_round_first() {
        let mut lines = vec![pinned(Author::User, "question")];
        for number in 0..3 {
            lines.extend(round(number, 1, "seen"));
            lines.last_mut().unwrap().message.images = vec!["data:image/png;base64,A".to_owned(); 4];
        }
        let kept = |room| {
            let (messages, note) = fit(lines.clone(), room).unwrap();
            let images: Vec<_> =
                messages.iter().filter(|m| m.author == Author::Tool).map(|m| m.images.len()).collect();
            (images, note.unwrap_or_default())
        };
        assert_eq!(kept(20_000), (vec![4, 4, 4], String::new()));
        assert_eq!(kept(9_500).0, [1, 4, 4]);
        assert_eq!(kept(4_500).0, [0, 0, 4]);
        let (images, note) = kept(1_200);
        assert_eq!(images, [1]);
        assert!(note.contains("images of the last tool results"), "{note}");
    }

    #[test]
    fn long_call_arguments_are_shortened_before_anything_is_dropped() {
        let asks = |arguments: serde_json::Value| {
            let mut lines = conversation();
            let mut round = round(0, 2, "done");
            round[0].message.tool_calls[0].arguments = arguments.to_string();
            lines.extend(round);
            lines
        };
        let check = |arguments: serde_json::Value, room| {
            let (messages, note) = fit(asks(arguments), room).unwrap();
            assert!(messages.iter().map(cost).sum::<usize>() <= room);
            assert_eq!(messages.len(), 9, "{note:?}");
            assert!(note.unwrap().ends_with("tool arguments were shortened"));
            let calls = &messages[6].tool_calls;
            assert_eq!(calls[1].arguments, "{}");
            serde_json::from_str::<serde_json::Value>(&calls[0].arguments).unwrap()
        };
        let text = format!("begin{}end", "x".repeat(400_000));
        let short = check(serde_json::json!({"path": "a.txt", "content": text, "mode": 1}), 2_000);
        assert_eq!((&short["path"], &short["mode"]), (&"a.txt".into(), &1.into()));
        let content = short["content"].as_str().unwrap();
        assert!(
            content.starts_with("beginx") && content.ends_with("xend") && content.len() > 400,
            "{content}"
        );
        // No single part of it is long, and it stays an object.
        let numbers = check(serde_json::json!({"all": vec![1_234_567; 40_000]}), 2_000);
        assert!(numbers.is_object(), "{numbers}");
        let escaped = check(serde_json::json!({"a": "\"\n\u{1}".repeat(40_000)}), 2_000);
        assert!(escaped["a"].is_string(), "{escaped}");
        // Text of an earlier turn as well as text that fits.
        assert!(fit(asks(serde_json::json!({"a": "short"})), 2_000).unwrap().1.is_none());
    }

    #[test]
    fn many_results_of_one_round_fit_into_a_small_window() {
        let mut lines = vec![pinned(Author::System, "sys"), pinned(Author::User, "question")];
        lines.extend(round(0, 30, &"r".repeat(4_000)));
        let (messages, _) = fit(lines, 1_000).unwrap();
        assert!(messages.iter().map(cost).sum::<usize>() <= 1_000);
        assert_eq!(messages.len(), 33);
        assert_eq!((&*messages[0].text, &*messages[1].text), ("sys", "question"));
    }

    /// Each of thousands of rounds is visited once; otherwise this test does not end.
    #[test]
    fn a_long_transcript_is_fitted_in_one_pass() {
        let mut lines = vec![pinned(Author::User, "question")];
        for number in 0..20_000 {
            lines.extend(round(number, 1, &"r".repeat(500)));
        }
        let (messages, _) = fit(lines, 1_000).unwrap();
        assert!(messages.len() < 50 && messages[0].text == "question");
    }

    #[test]
    fn a_long_result_keeps_its_beginning_and_its_end() {
        let mut lines = vec![pinned(Author::User, "q")];
        lines.extend(round(0, 1, &format!("begin{}end", "x".repeat(40_000))));
        let (messages, note) = fit(lines, 500).unwrap();
        let text = &messages[2].text;
        assert!(text.starts_with("begin") && text.ends_with("end") && tokens(text) < 490, "{}", text.len());
        assert!(note.unwrap().contains("last tool results"));
        assert_eq!(head_and_tail("short", 100), "short");
        assert_eq!(
            (head_and_tail("short", usize::MAX).as_str(), cut("short", usize::MAX)),
            ("short", "short")
        );
    }

    #[test]
    fn tools_count_towards_the_window() {
        let tool = ToolSchema {
            name: "a".to_owned(),
            description: "b".repeat(40),
            parameters: serde_json::json!({"type": "object"}),
            deferred: false,
        };
        let kept_back = ToolSchema { deferred: true, ..tool.clone() };
        assert_eq!(room(10_000, None, 0) - room(10_000, None, tokens_of_tools(&[tool, kept_back])), 20);
    }
}
