//! The items of a response, and the events that announce them.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use weft_core::citation::Chunk;
use weft_core::context::{ToolFinished, ToolStarted};
use weft_core::journal::WaitingForm;
use weft_core::seam::chat_model::Usage;
use weft_core::value::to_text;
use weft_core::{RunId, TaskId};

use crate::dialect::asked;

/// Name of the function call that asks a person to fill in a form.
const FORM: &str = "fill_in_form";

/// Kind of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextKind {
    /// Text of the answer.
    Text,
    /// The model's reasoning.
    Reasoning,
}

/// Returns the id of an item without the prefix for its type.
pub(super) fn ids(run: &RunId, place: usize) -> String {
    format!("{run}_{place}")
}

fn added(item: &Json, place: usize) -> Json {
    json!({"type": "response.output_item.added", "output_index": place, "item": item})
}

/// Returns the event with the final state of an item.
pub(super) fn done(item: &Json, place: usize) -> Json {
    json!({"type": "response.output_item.done", "output_index": place, "item": item})
}

impl TextKind {
    fn content(self, text: &str, annotations: &[Json]) -> Json {
        match self {
            Self::Text => {
                json!({"type": "output_text", "text": text, "annotations": annotations, "logprobs": []})
            }
            Self::Reasoning => json!({"type": "reasoning_text", "text": text}),
        }
    }

    fn item(self, id: &Json, status: &str, content: &Json) -> Json {
        match self {
            Self::Text => {
                json!({"id": id, "type": "message", "role": "assistant", "status": status, "content": content})
            }
            Self::Reasoning => {
                json!({"id": id, "type": "reasoning", "status": status, "summary": [], "content": content})
            }
        }
    }

    /// Returns a new empty item, and the events that announce it.
    pub(super) fn begun(self, ids: &str, place: usize) -> (Json, [Json; 2]) {
        let kind = match self {
            Self::Text => "msg",
            Self::Reasoning => "rs",
        };
        let id = json!(format!("{kind}_{ids}"));
        let item = self.item(&id, "in_progress", &json!([]));
        let part = json!({"type": "response.content_part.added", "item_id": id, "output_index": place,
            "content_index": 0, "part": self.content("", &[])});
        let told = [added(&item, place), part];
        (item, told)
    }

    /// Removes the text from an item.
    pub(super) fn empty(self, item: &mut Json) {
        item["content"] = json!([self.content("", &[])]);
        item["status"] = json!("incomplete");
    }

    /// Returns the event for a piece of text.
    pub(super) fn delta(self, id: &Json, place: usize, text: &str) -> Json {
        let mut event = json!({"item_id": id, "output_index": place, "content_index": 0, "delta": text});
        match self {
            Self::Text => {
                event["type"] = json!("response.output_text.delta");
                event["logprobs"] = json!([]);
            }
            Self::Reasoning => event["type"] = json!("response.reasoning_text.delta"),
        }
        event
    }

    /// Returns the complete item, and all events of its end but the last.
    pub(super) fn ended(
        self,
        id: &Json,
        place: usize,
        status: &str,
        said: SaidText<'_>,
    ) -> (Json, Vec<Json>) {
        let SaidText { text, sources } = said;
        let cited = match self {
            Self::Text => annotations(text, sources),
            Self::Reasoning => Vec::new(),
        };
        let at = |kind: &str| json!({"type": kind, "item_id": id, "output_index": place, "content_index": 0});
        let mut events = Vec::new();
        for (number, annotation) in cited.iter().enumerate() {
            let mut event = at("response.output_text.annotation.added");
            event["annotation_index"] = json!(number);
            event["annotation"] = annotation.clone();
            events.push(event);
        }
        let mut whole = match self {
            Self::Text => at("response.output_text.done"),
            Self::Reasoning => at("response.reasoning_text.done"),
        };
        whole["text"] = json!(text);
        if self == Self::Text {
            whole["logprobs"] = json!([]);
        }
        events.push(whole);
        let content = self.content(text, &cited);
        let mut part = at("response.content_part.done");
        part["part"] = content.clone();
        events.push(part);
        (self.item(id, status, &json!([content])), events)
    }
}

/// A text, and the sources of its citations.
#[derive(Clone, Copy)]
pub(super) struct SaidText<'a> {
    pub(super) text: &'a str,
    /// By the numbers in the citations.
    pub(super) sources: &'a HashMap<u32, Arc<Chunk>>,
}

/// Returns the source of each citation `[ID:n]` in a text. Positions are counted in characters, as clients count
/// them.
fn annotations(text: &str, sources: &HashMap<u32, Arc<Chunk>>) -> Vec<Json> {
    let mut found = Vec::new();
    let (mut rest, mut before) = (text, 0);
    while let Some(from) = rest.find("[ID:") {
        let Some(length) = rest[from..].find(']') else { break };
        let to = from + length;
        // A citation may follow one that is not closed.
        let from = from + rest[from..to].rfind("[ID:").unwrap_or_default();
        // Counted from the previous citation, so that a long text with many citations is scanned only once.
        let start = before + rest[..from].chars().count();
        let mark = &rest[from..=to];
        let end = start + mark.chars().count();
        let number = mark["[ID:".len()..mark.len() - 1].trim().parse().ok();
        // A citation without a number, or with a number that no source has, is text.
        if let Some(chunk) = number.and_then(|number: u32| sources.get(&number)) {
            found.push(annotation(chunk, start, end));
        }
        (rest, before) = (&rest[to + 1..], end);
    }
    found
}

fn annotation(chunk: &Chunk, start: usize, end: usize) -> Json {
    match chunk.url.as_deref().filter(|url| !url.is_empty()) {
        Some(url) => json!({"type": "url_citation", "start_index": start, "end_index": end, "url": url,
            "title": chunk.document_name}),
        None => json!({"type": "file_citation", "index": start, "file_id": chunk.document_id,
            "filename": chunk.document_name}),
    }
}

/// Returns the item of a call that starts, and the events that announce it.
pub(super) fn call_of(call: &ToolStarted, ids: &str, place: usize) -> (Json, [Json; 4]) {
    let (id, arguments) = (format!("mcp_{ids}"), to_text(&call.arguments));
    let item = |arguments: &str| {
        json!({"id": id, "type": "mcp_call", "server_label": call.agent, "name": call.tool, "arguments": arguments,
            "approval_request_id": null, "output": null, "error": null, "status": "in_progress"})
    };
    let at = |kind: &str| json!({"type": kind, "item_id": id, "output_index": place});
    let mut delta = at("response.mcp_call_arguments.delta");
    delta["delta"] = json!(arguments);
    let mut whole = at("response.mcp_call_arguments.done");
    whole["arguments"] = json!(arguments);
    let told = [added(&item(""), place), at("response.mcp_call.in_progress"), delta, whole];
    (item(&arguments), told)
}

/// Completes the item of a call, and returns the events for it.
pub(super) fn call_ended(item: &mut Json, call: &ToolFinished, place: usize) -> [Json; 2] {
    let result = to_text(&call.result);
    let kind = if call.failed {
        item["error"] =
            json!({"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": result}]});
        item["status"] = json!("failed");
        "response.mcp_call.failed"
    } else {
        item["output"] = json!(result);
        item["status"] = json!("completed");
        "response.mcp_call.completed"
    };
    let ended = json!({"type": kind, "item_id": item["id"], "output_index": place});
    [ended, done(item, place)]
}

/// Returns the question of a waiting run as an item that a client answers, and the events that announce it: a call or
/// a plan becomes an approval, a form a function call.
pub(super) fn question(
    waiting: &WaitingForm,
    task: &TaskId,
    fields: &Map<String, Json>,
    place: usize,
) -> (Json, Vec<Json>) {
    if asked::is_decision(fields) {
        let field = fields.values().next().unwrap_or(&Json::Null);
        let name = field.get("tool").or_else(|| field.get("type")).map(to_text).unwrap_or_default();
        let arguments = field.get("arguments").unwrap_or(field);
        let item = json!({"id": task, "type": "mcp_approval_request", "server_label": waiting.node, "name": name,
            "arguments": to_text(arguments)});
        let told = vec![added(&item, place), done(&item, place)];
        return (item, told);
    }
    let id = format!("fc_{task}");
    let arguments = to_text(&json!({
        "component_id": waiting.node, "message": asked::words(waiting, fields), "fields": fields,
        "schema": asked::schema(fields),
    }));
    let item = |arguments: &str, status: &str| {
        json!({"id": id, "type": "function_call", "call_id": task, "name": FORM, "arguments": arguments,
            "status": status})
    };
    let delta = json!({"type": "response.function_call_arguments.delta", "item_id": id, "output_index": place,
        "delta": arguments});
    let whole = json!({"type": "response.function_call_arguments.done", "item_id": id, "output_index": place,
        "name": FORM, "arguments": arguments});
    let made = item(&arguments, "completed");
    let told = vec![added(&item("", "in_progress"), place), delta, whole, done(&made, place)];
    (made, told)
}

/// The usage of a run.
pub(super) fn usage(usage: Usage) -> Json {
    let (input, output) = (usage.prompt_tokens, usage.completion_tokens);
    json!({
        "input_tokens": input,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens(),
    })
}
