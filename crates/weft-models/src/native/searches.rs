//! Anthropic's own search for tools, as requests have it: the tool that searches, the definitions that are kept back,
//! and the searches of earlier answers, which have to come back for what they found to stay known.

use std::collections::HashSet;

use genai::chat::{ContentPart, CustomPart};
use serde_json::{Value as Json, json};
use weft_core::seam::chat_model::{Author, ChatMessage, ToolSchema};

use super::seal::{anthropic_parts, is_thinking, seal_blocks};

/// The search by words, in its first and only version. The name is the provider's, too.
const SEARCH: (&str, &str) = ("tool_search_tool_bm25_20251119", "tool_search_tool_bm25");

/// The tools as the wire has them. What is kept back is no part of the prompt, so it comes after what is.
pub(super) fn tools(tools: &[ToolSchema]) -> Json {
    let plain = |tool: &ToolSchema| json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters});
    let (deferred, shown): (Vec<&ToolSchema>, Vec<&ToolSchema>) =
        tools.iter().partition(|tool| tool.deferred);
    let search = (!deferred.is_empty()).then(|| json!({"type": SEARCH.0, "name": SEARCH.1}));
    let deferred = deferred.into_iter().map(|tool| {
        let mut tool = plain(tool);
        tool["defer_loading"] = true.into();
        tool
    });
    search.into_iter().chain(shown.into_iter().map(plain)).chain(deferred).collect()
}

/// What of the searches of a conversation may go back.
pub(super) struct Searches<'a> {
    /// Whether the request has the search: without it no block of one is taken.
    offered: bool,
    /// The tools that results may name.
    names: HashSet<&'a str>,
    /// Searches that were asked for, and those that have a result.
    asked: HashSet<String>,
    answered: HashSet<String>,
    /// Where the answer is that the provider goes on with: its last search may have no result yet.
    open: Option<usize>,
}

impl<'a> Searches<'a> {
    pub(super) fn of(messages: &[ChatMessage], tools: &'a [ToolSchema]) -> Self {
        let mut searches = Self {
            offered: tools.iter().any(|tool| tool.deferred),
            names: tools.iter().map(|tool| tool.name.as_str()).collect(),
            asked: HashSet::new(),
            answered: HashSet::new(),
            open: None,
        };
        if !searches.offered {
            return searches;
        }
        for message in messages {
            for block in seal_blocks(message).unwrap_or_default() {
                let id = |member: &str| block[member].as_str().map(str::to_owned);
                searches.asked.extend(id("id"));
                searches.answered.extend(id("tool_use_id"));
            }
        }
        // It is gone on with when nothing but the results of its calls follows.
        searches.open = messages
            .iter()
            .rposition(|message| message.author != Author::Tool)
            .filter(|at| messages[*at].author == Author::Assistant);
        searches
    }

    /// The parts of the message of an assistant before its calls.
    pub(super) fn parts(&self, place: usize, message: &ChatMessage) -> Vec<ContentPart> {
        let blocks = seal_blocks(message).filter(|blocks| self.offered && blocks.iter().any(is_search));
        let Some(blocks) = blocks else {
            let text = (!message.text.is_empty()).then(|| ContentPart::from_text(message.text.clone()));
            return anthropic_parts(message).into_iter().chain(text).collect();
        };
        let mut texts = Texts::of(&blocks, &message.text);
        let mut parts = Vec::new();
        for block in blocks {
            if block["type"] == "text" {
                parts.extend(texts.next(&block));
            } else if let Some(data) = self.taken(place, block) {
                parts.push(ContentPart::Custom(CustomPart { model_iden: None, data }));
            }
        }
        parts.extend(texts.rest());
        parts
    }

    /// A block as it goes back, if it does.
    fn taken(&self, place: usize, mut block: Json) -> Option<Json> {
        let names =
            |set: &HashSet<String>, member: &str| block[member].as_str().is_some_and(|id| set.contains(id));
        let goes = match block["type"].as_str()? {
            "server_tool_use" => names(&self.answered, "id") || self.open == Some(place),
            "tool_search_tool_result" => names(&self.asked, "tool_use_id"),
            _ => is_thinking(&block),
        };
        // A tool that is gone since would be refused.
        if let Some(Json::Array(found)) = block.pointer_mut("/content/tool_references") {
            found.retain(|one| one["tool_name"].as_str().is_some_and(|name| self.names.contains(name)));
        }
        goes.then_some(block)
    }
}

fn is_search(block: &Json) -> bool {
    matches!(block["type"].as_str(), Some("server_tool_use" | "tool_search_tool_result"))
}

/// The text of a message, cut where blocks stood in it.
struct Texts<'a> {
    left: &'a str,
    /// Whether the lengths are those of this text; it may have been changed since.
    fits: bool,
}

impl<'a> Texts<'a> {
    fn of(blocks: &[Json], text: &'a str) -> Self {
        let sum = blocks.iter().map(length).fold(0, usize::saturating_add);
        Self { left: text, fits: sum == text.len() }
    }

    fn next(&mut self, block: &Json) -> Option<ContentPart> {
        // A message that hooks or masks have changed goes back whole at the first place: better in another
        // order than cut in two.
        let end = if self.fits { self.left.floor_char_boundary(length(block)) } else { self.left.len() };
        let (piece, left) = self.left.split_at(end);
        self.left = left;
        part(piece)
    }

    fn rest(self) -> Option<ContentPart> {
        part(self.left)
    }
}

/// A text of nothing but spaces is refused.
fn part(text: &str) -> Option<ContentPart> {
    (!text.trim().is_empty()).then(|| ContentPart::from_text(text))
}

fn length(block: &Json) -> usize {
    block["bytes"].as_u64().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0)
}
