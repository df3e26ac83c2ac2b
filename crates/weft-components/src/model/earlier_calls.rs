//! The conversation before a question, with the tool calls of its turns.

use std::collections::HashSet;

use weft_agent::marks::neutral;
use weft_agent::transcript::tidy;
use weft_agent::window::Line;
use weft_core::NodeContext;
use weft_core::context::HistoryMessage;
use weft_core::past_calls::{PastCall, ToolHistory};
use weft_core::seam::chat_model::{Author, ChatMessage, ToolCall};

use crate::model::prompt_lines::add;

/// Delimiters of the summary of a turn's calls. It is not part of an answer, so that no model takes it for a way to
/// call tools.
const BEGINS: &str =
    "<tool_calls_made>\nNoted by the program: tools that were called for this, with what came of it.";
const ENDS: &str = "</tool_calls_made>";

/// Adds the last `turns` turns of the conversation, with as much of their calls as the node sees. A call stands between
/// the question of its turn and the answer.
pub(super) fn add_history(lines: &mut Vec<Line>, ctx: &NodeContext, turns: usize, sees: ToolHistory) {
    let history = ctx.history(turns);
    let calls = match sees {
        ToolHistory::None => &[],
        ToolHistory::Summary | ToolHistory::Full => ctx.run.past_calls.of(&ctx.node),
    };
    let mut taken = HashSet::new();
    // Computed once per call: repeating this for every message would scan a long conversation a thousand times.
    let places: Vec<_> = calls.iter().map(|call| place_of(call, history)).collect();
    let at = |place: usize| {
        let here = calls.iter().zip(&places).filter(move |(_, at)| **at == Some(place));
        here.map(|(call, _)| call)
    };
    for (place, message) in history.iter().enumerate() {
        add_calls(lines, at(place), sees, &mut taken);
        let author = if message.role == "user" { Author::User } else { Author::Assistant };
        add(lines, Line::history(ChatMessage::new(author, message.content.clone())));
    }
    add_calls(lines, at(history.len()), sees, &mut taken);
    // A node that sees nothing of the conversation sees none of its calls either.
    if turns == 0 {
        return;
    }
    // A question that got no answer and is asked again is not in the history, but its calls have been made.
    let asked_again = |call: &&PastCall| !ctx.run.history.iter().any(|message| is_of(call, message));
    let mut asked_again = calls.iter().filter(asked_again).peekable();
    if asked_again.peek().is_some() {
        if lines.last().is_none_or(|line| line.message.author != Author::User) {
            let question = ChatMessage::new(Author::User, ctx.run.input.query.clone());
            lines.push(Line::history(question));
        }
        add_calls(lines, asked_again, sees, &mut taken);
    }
}

fn is_of(call: &PastCall, message: &HistoryMessage) -> bool {
    message.run.as_ref() == Some(&call.run)
}

/// Returns the message that a call precedes: the answer of its run, or else what follows the question.
fn place_of(call: &PastCall, history: &[HistoryMessage]) -> Option<usize> {
    let answer = history.iter().position(|message| is_of(call, message) && message.role != "user");
    answer.or_else(|| Some(history.iter().rposition(|message| is_of(call, message))? + 1))
}

fn add_calls<'a>(
    lines: &mut Vec<Line>,
    calls: impl Iterator<Item = &'a PastCall>,
    sees: ToolHistory,
    taken: &mut HashSet<String>,
) {
    let mut calls = calls.peekable();
    if calls.peek().is_none() {
        return;
    }
    match sees {
        ToolHistory::Full => add_messages(lines, calls, taken),
        ToolHistory::None | ToolHistory::Summary => {
            let told: Vec<String> = calls.map(in_a_line).collect();
            let summary = format!("{BEGINS}\n{}\n{ENDS}", told.join("\n"));
            add(lines, Line::history(ChatMessage::new(Author::User, summary)));
        }
    }
}

/// Adds the calls as a model requests them, with their results. Ids are made unique: each run has a first call.
fn add_messages<'a>(
    lines: &mut Vec<Line>,
    calls: impl Iterator<Item = &'a PastCall>,
    taken: &mut HashSet<String>,
) {
    let (mut asked, mut results) = (Vec::new(), Vec::new());
    for past in calls {
        let mut call = ToolCall {
            id: past.call.to_string(),
            name: past.tool.to_string(),
            arguments: past.arguments.to_string(),
        };
        tidy(taken, [(&mut call.id, &mut call.name)]);
        results.push(Line::history(ChatMessage::tool(call.id.clone(), neutral(&past.result))));
        asked.push(call);
    }
    match lines.last_mut().map(|line| &mut line.message) {
        // What the model said before the calls.
        Some(said) if said.author == Author::Assistant && said.tool_calls.is_empty() => {
            said.tool_calls = asked;
        }
        _ => {
            let asks = ChatMessage { tool_calls: asked, ..ChatMessage::new(Author::Assistant, "") };
            lines.push(Line::history(asks));
        }
    }
    lines.extend(results);
}

/// Formats a call on one line. A tool's result must not look like the text around it.
fn in_a_line(call: &PastCall) -> String {
    let outcome = if call.failed { "failed: " } else { "" };
    let line = format!("{}({}) -> {outcome}{}", call.tool, call.arguments, neutral(&call.result));
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    // A result must not end the summary that it stands in.
    format!("- {}", line.replace("</", "<\\/"))
}
