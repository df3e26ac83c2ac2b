//! Writes one answer in any of the protocols.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use weft_core::seam::chat_model::{StopReason, Usage};
use weft_models::script::{CallPart, ScriptCall, Step};

use super::Wire;

/// Number of characters of a tool call's arguments in one fragment, for protocols that send fragments.
const ARGUMENT_PIECE: usize = 7;

/// Writes one answer.
#[derive(Debug)]
pub(crate) struct WireWriter {
    wire: Wire,
    pub(super) model: String,
    /// `None` if the provider sends no usage.
    pub(super) usage: Option<Usage>,
    /// Number of calls so far.
    pub(super) calls: usize,
    /// Calls whose fragments were interleaved, for protocols that do not allow that.
    held: BTreeMap<usize, CallPart>,
    /// Anthropic: the kind of the open block, and the number of blocks so far.
    pub(super) block: Option<&'static str>,
    pub(super) blocks: usize,
    /// Anthropic: the number of tool searches so far.
    pub(super) searches: usize,
    /// Gemini: the signature to send with the next call, or at the end.
    pub(super) seal: Option<String>,
}

impl WireWriter {
    pub(crate) fn new(wire: Wire, model: &str, usage: Option<Usage>) -> Self {
        Self {
            wire,
            model: model.to_owned(),
            usage,
            calls: 0,
            held: BTreeMap::new(),
            block: None,
            blocks: 0,
            searches: 0,
            seal: None,
        }
    }

    pub(crate) fn begin(&self) -> String {
        match self.wire {
            Wire::OpenAi => self.openai(&json!({"role": "assistant", "content": ""}), &Json::Null),
            Wire::Anthropic => self.begin_anthropic(),
            Wire::Gemini | Wire::Ollama => String::new(),
        }
    }

    /// The frames of one step.
    pub(crate) fn say(&mut self, step: &Step) -> Vec<String> {
        match step {
            Step::CallPart(part) if self.wire == Wire::OpenAi => return vec![self.openai_call_part(part)],
            Step::CallPart(part) => {
                let held = self.held.entry(part.index).or_insert_with(|| CallPart {
                    index: part.index,
                    id: None,
                    name: None,
                    arguments: String::new(),
                });
                held.id = held.id.take().or_else(|| part.id.clone());
                held.name = held.name.take().or_else(|| part.name.clone());
                held.arguments.push_str(&part.arguments);
                return Vec::new();
            }
            _ => {}
        }
        let mut frames = self.release();
        frames.extend(self.say_here(step));
        frames
    }

    fn say_here(&mut self, step: &Step) -> Vec<String> {
        match self.wire {
            Wire::OpenAi => self.say_openai(step),
            Wire::Anthropic => self.say_anthropic(step),
            Wire::Gemini => self.say_gemini(step),
            Wire::Ollama => self.say_ollama(step),
        }
    }

    /// The frames of the calls that were held back until complete.
    fn release(&mut self) -> Vec<String> {
        let held = std::mem::take(&mut self.held);
        let whole = |part: CallPart| {
            let arguments = serde_json::from_str(&part.arguments).unwrap_or(Json::String(part.arguments));
            Step::Call(ScriptCall { id: part.id, name: part.name.unwrap_or_default(), arguments })
        };
        held.into_values().flat_map(|part| self.say_here(&whole(part))).collect()
    }

    pub(crate) fn error(&self, object: &Json) -> String {
        match self.wire {
            Wire::OpenAi | Wire::Gemini => data(&json!({"error": object})),
            Wire::Anthropic => named(&json!({"type": "error", "error": object})),
            Wire::Ollama => format!("{}\n", json!({"error": object["message"]})),
        }
    }

    pub(crate) fn garbage(&self) -> String {
        match self.wire {
            Wire::Anthropic => "event: content_block_delta\ndata: {not json\n\n".to_owned(),
            Wire::OpenAi | Wire::Gemini => "data: {not json\n\n".to_owned(),
            Wire::Ollama => "{not json\n".to_owned(),
        }
    }

    pub(crate) fn end(&mut self, reason: StopReason) -> String {
        let held = self.release().concat();
        let end = match self.wire {
            Wire::OpenAi => self.end_openai(reason),
            Wire::Anthropic => self.end_anthropic(reason),
            Wire::Gemini => self.end_gemini(reason),
            Wire::Ollama => self.end_ollama(reason),
        };
        format!("{held}{end}")
    }

    /// The id of the next call.
    pub(super) fn next_call_id(&mut self, call: &ScriptCall) -> String {
        self.calls += 1;
        call.id.clone().unwrap_or_else(|| format!("call_{}", self.calls))
    }
}

pub(super) fn data(json: &Json) -> String {
    format!("data: {json}\n\n")
}

pub(super) fn named(json: &Json) -> String {
    format!("event: {}\ndata: {json}\n\n", json["type"].as_str().unwrap_or_default())
}

pub(super) fn pieces(text: &str) -> Vec<String> {
    text.chars().collect::<Vec<_>>().chunks(ARGUMENT_PIECE).map(|piece| piece.iter().collect()).collect()
}

pub(super) fn reason_word(
    reason: StopReason,
    [stop, length, calls, filtered]: [&'static str; 4],
) -> &'static str {
    match reason {
        StopReason::Stop | StopReason::Other => stop,
        StopReason::Length => length,
        StopReason::ToolCalls => calls,
        StopReason::Filtered => filtered,
    }
}
