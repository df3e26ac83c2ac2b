//! The wires of four providers, as a server writes them: the same script, in four spellings.

use serde_json::{Value as Json, json};
use weft_core::seam::chat_model::{Author, ChatMessage, ChatRequest, StopReason, Usage};
use weft_models::script::Step;

/// Characters of a tool call's arguments in one piece, where a wire sends them in pieces.
const ARGUMENT_PIECE: usize = 7;

/// Which provider's wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Chat completions.
    OpenAi,
    /// Messages.
    Anthropic,
    /// `streamGenerateContent`.
    Gemini,
    /// `/api/chat`.
    Ollama,
}

impl Wire {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::OpenAi, Self::Anthropic, Self::Gemini, Self::Ollama];

    pub(crate) fn base_path(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Anthropic => "/v1",
            Self::Gemini => "/v1beta",
            Self::Ollama => "",
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Anthropic | Self::Gemini => "text/event-stream",
            Self::Ollama => "application/x-ndjson",
        }
    }

    /// The model a request asks for.
    pub(crate) fn model(self, path: &str, body: &Json) -> String {
        let of_path = || path.rsplit('/').next().and_then(|last| last.split(':').next()).unwrap_or_default();
        match self {
            Self::Gemini => of_path().to_owned(),
            Self::OpenAi | Self::Anthropic | Self::Ollama => {
                body["model"].as_str().unwrap_or_default().to_owned()
            }
        }
    }

    /// The messages of a request, as far as scripts look at them.
    pub(crate) fn messages(self, body: &Json) -> ChatRequest {
        let system = match self {
            Self::Anthropic => Some(&body["system"]),
            Self::Gemini => Some(&body["systemInstruction"]),
            Self::OpenAi | Self::Ollama => None,
        };
        let said = if self == Self::Gemini { &body["contents"] } else { &body["messages"] };
        let mut messages: Vec<ChatMessage> = Vec::new();
        if let Some(system) = system.filter(|system| !system.is_null()) {
            messages.push(ChatMessage::new(Author::System, text_of(system)));
        }
        for message in said.as_array().into_iter().flatten() {
            messages.push(ChatMessage::new(author(message), text_of(message)));
        }
        ChatRequest { messages, ..ChatRequest::default() }
    }
}

fn author(message: &Json) -> Author {
    let holds = |name: &str| {
        ["content", "parts"].iter().any(|list| {
            message[*list]
                .as_array()
                .into_iter()
                .flatten()
                .any(|part| part["type"] == name || !part[name].is_null())
        })
    };
    match message["role"].as_str().unwrap_or_default() {
        "system" | "developer" => Author::System,
        "assistant" | "model" => Author::Assistant,
        "tool" | "function" => Author::Tool,
        _ if holds("tool_result") || holds("functionResponse") => Author::Tool,
        _ => Author::User,
    }
}

/// Every text in a message, wherever its wire puts it.
fn text_of(json: &Json) -> String {
    match json {
        Json::String(text) => text.clone(),
        Json::Array(items) => items.iter().map(text_of).collect::<Vec<_>>().join("\n"),
        Json::Object(map) => {
            if let Some(response) = map.get("functionResponse") {
                return response["response"].to_string();
            }
            let places = ["text", "content", "parts"];
            places.iter().filter_map(|place| map.get(*place)).map(text_of).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// Writes one answer.
#[derive(Debug)]
pub(crate) struct Writer {
    wire: Wire,
    model: String,
    usage: Usage,
    calls: usize,
    /// Anthropic: the kind of the open block, and how many blocks there were.
    block: Option<&'static str>,
    blocks: usize,
}

impl Writer {
    pub fn new(wire: Wire, model: &str, usage: Usage) -> Self {
        Self { wire, model: model.to_owned(), usage, calls: 0, block: None, blocks: 0 }
    }

    pub fn begin(&self) -> String {
        match self.wire {
            Wire::OpenAi => self.openai(&json!({"role": "assistant", "content": ""}), &Json::Null),
            Wire::Anthropic => {
                named(&json!({"type": "message_start", "message": {"id": "msg_1", "type": "message",
                "role": "assistant", "content": [], "model": self.model,
                "usage": {"input_tokens": self.usage.prompt_tokens, "output_tokens": 1}}}))
            }
            Wire::Gemini | Wire::Ollama => String::new(),
        }
    }

    /// The frames of one step.
    pub fn say(&mut self, step: &Step) -> Vec<String> {
        match self.wire {
            Wire::OpenAi => self.say_openai(step),
            Wire::Anthropic => self.say_anthropic(step),
            Wire::Gemini => self.say_gemini(step),
            Wire::Ollama => self.say_ollama(step),
        }
    }

    pub fn error(&self, object: &Json) -> String {
        match self.wire {
            Wire::OpenAi | Wire::Gemini => data(&json!({"error": object})),
            Wire::Anthropic => named(&json!({"type": "error", "error": object})),
            Wire::Ollama => format!("{}\n", json!({"error": object["message"]})),
        }
    }

    pub fn garbage(&self) -> String {
        match self.wire {
            Wire::Anthropic => "event: content_block_delta\ndata: {not json\n\n".to_owned(),
            Wire::OpenAi | Wire::Gemini => "data: {not json\n\n".to_owned(),
            Wire::Ollama => "{not json\n".to_owned(),
        }
    }

    pub fn end(&mut self, reason: StopReason) -> String {
        let Usage { prompt_tokens, completion_tokens, .. } = self.usage;
        match self.wire {
            Wire::OpenAi => {
                let usage = json!({"id": "c1", "object": "chat.completion.chunk", "choices": [], "usage": {
                    "prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens,
                    "total_tokens": prompt_tokens + completion_tokens}});
                let end = self.openai(
                    &json!({}),
                    &json!(reason_word(reason, ["stop", "length", "tool_calls", "content_filter"])),
                );
                format!("{end}{}data: [DONE]\n\n", data(&usage))
            }
            Wire::Anthropic => {
                let reason = reason_word(reason, ["end_turn", "max_tokens", "tool_use", "refusal"]);
                let delta = json!({"type": "message_delta", "delta": {"stop_reason": reason},
                    "usage": {"output_tokens": completion_tokens}});
                format!("{}{}{}", self.close(), named(&delta), named(&json!({"type": "message_stop"})))
            }
            Wire::Gemini => data(&json!({
                "candidates": [{"content": {"role": "model", "parts": [{"text": ""}]},
                    "finishReason": reason_word(reason, ["STOP", "MAX_TOKENS", "STOP", "SAFETY"])}],
                "usageMetadata": {"promptTokenCount": prompt_tokens, "candidatesTokenCount": completion_tokens,
                    "totalTokenCount": prompt_tokens + completion_tokens}})),
            Wire::Ollama => {
                let reason = reason_word(reason, ["stop", "length", "stop", "stop"]);
                self.ollama(
                    &json!({"content": ""}),
                    &json!({"done": true, "done_reason": reason,
                    "prompt_eval_count": prompt_tokens, "eval_count": completion_tokens}),
                )
            }
        }
    }

    fn openai(&self, delta: &Json, finish_reason: &Json) -> String {
        data(&json!({"id": "c1", "object": "chat.completion.chunk", "created": 0, "model": self.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}))
    }

    fn say_openai(&mut self, step: &Step) -> Vec<String> {
        match step {
            Step::Text(text) => vec![self.openai(&json!({"content": text}), &Json::Null)],
            Step::Thinking(text) => vec![self.openai(&json!({"reasoning_content": text}), &Json::Null)],
            Step::Call(call) => {
                let index = self.calls;
                self.calls += 1;
                let id = call.id.clone().unwrap_or_else(|| format!("call_{}", index + 1));
                let first = json!({"tool_calls": [{"index": index, "id": id, "type": "function",
                    "function": {"name": call.name, "arguments": ""}}]});
                let mut frames = vec![self.openai(&first, &Json::Null)];
                frames.extend(pieces(&call.arguments_text()).into_iter().map(|piece| {
                    self.openai(
                        &json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}),
                        &Json::Null,
                    )
                }));
                frames
            }
            Step::Wait(_) | Step::Error(_) | Step::Fault(_) => Vec::new(),
        }
    }

    fn say_anthropic(&mut self, step: &Step) -> Vec<String> {
        match step {
            Step::Text(text) => {
                let open = self.open("text", &json!({"type": "text", "text": ""}));
                vec![format!("{open}{}", self.block_delta(&json!({"type": "text_delta", "text": text})))]
            }
            Step::Thinking(text) => {
                let open =
                    self.open("thinking", &json!({"type": "thinking", "thinking": "", "signature": ""}));
                vec![format!(
                    "{open}{}",
                    self.block_delta(&json!({"type": "thinking_delta", "thinking": text}))
                )]
            }
            Step::Call(call) => {
                self.calls += 1;
                let id = call.id.clone().unwrap_or_else(|| format!("call_{}", self.calls));
                let closed = self.close();
                let open = self
                    .open("tool_use", &json!({"type": "tool_use", "id": id, "name": call.name, "input": {}}));
                let mut frames = vec![format!("{closed}{open}")];
                frames.extend(pieces(&call.arguments_text()).into_iter().map(|piece| {
                    self.block_delta(&json!({"type": "input_json_delta", "partial_json": piece}))
                }));
                frames.push(self.close());
                frames
            }
            Step::Wait(_) | Step::Error(_) | Step::Fault(_) => Vec::new(),
        }
    }

    fn open(&mut self, kind: &'static str, block: &Json) -> String {
        if self.block == Some(kind) {
            return String::new();
        }
        let closed = self.close();
        self.block = Some(kind);
        self.blocks += 1;
        let start = json!({"type": "content_block_start", "index": self.blocks - 1, "content_block": block});
        format!("{closed}{}", named(&start))
    }

    fn close(&mut self) -> String {
        match self.block.take() {
            Some(_) => named(&json!({"type": "content_block_stop", "index": self.blocks - 1})),
            None => String::new(),
        }
    }

    fn block_delta(&self, delta: &Json) -> String {
        named(&json!({"type": "content_block_delta", "index": self.blocks.saturating_sub(1), "delta": delta}))
    }

    fn say_gemini(&mut self, step: &Step) -> Vec<String> {
        let part = match step {
            Step::Text(text) => json!({"text": text}),
            Step::Thinking(text) => json!({"text": text, "thought": true}),
            Step::Call(call) => json!({"functionCall": {"name": call.name, "args": call.arguments}}),
            Step::Wait(_) | Step::Error(_) | Step::Fault(_) => return Vec::new(),
        };
        vec![data(&json!({"candidates": [{"content": {"role": "model", "parts": [part]}}],
            "usageMetadata": {"promptTokenCount": self.usage.prompt_tokens}}))]
    }

    fn say_ollama(&mut self, step: &Step) -> Vec<String> {
        let message = match step {
            Step::Text(text) => json!({"content": text}),
            Step::Thinking(text) => json!({"content": "", "thinking": text}),
            Step::Call(call) => {
                json!({"content": "", "tool_calls": [{"function": {"name": call.name, "arguments": call.arguments}}]})
            }
            Step::Wait(_) | Step::Error(_) | Step::Fault(_) => return Vec::new(),
        };
        vec![self.ollama(&message, &json!({"done": false}))]
    }

    fn ollama(&self, message: &Json, rest: &Json) -> String {
        let mut frame = json!({"model": self.model, "created_at": "2025-01-01T00:00:00Z", "message": {"role": "assistant"}});
        for (into, from) in [("/message", message), ("", rest)] {
            if let (Some(Json::Object(into)), Json::Object(from)) = (frame.pointer_mut(into), from) {
                into.extend(from.clone());
            }
        }
        format!("{frame}\n")
    }
}

fn data(json: &Json) -> String {
    format!("data: {json}\n\n")
}

fn named(json: &Json) -> String {
    format!("event: {}\ndata: {json}\n\n", json["type"].as_str().unwrap_or_default())
}

fn pieces(text: &str) -> Vec<String> {
    text.chars().collect::<Vec<_>>().chunks(ARGUMENT_PIECE).map(|piece| piece.iter().collect()).collect()
}

fn reason_word(reason: StopReason, [stop, length, calls, filtered]: [&'static str; 4]) -> &'static str {
    match reason {
        StopReason::Stop | StopReason::Other => stop,
        StopReason::Length => length,
        StopReason::ToolCalls => calls,
        StopReason::Filtered => filtered,
    }
}
