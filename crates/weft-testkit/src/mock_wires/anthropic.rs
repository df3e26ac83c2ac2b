//! Anthropic: the Messages API.

use serde_json::{Value as Json, json};
use weft_core::seam::chat_model::StopReason;
use weft_models::script::{ScriptSearch, Step};

use super::writer::{WireWriter, named, pieces, reason_word};

impl WireWriter {
    pub(super) fn begin_anthropic(&self) -> String {
        let mut message = json!({"id": "msg_1", "type": "message", "role": "assistant", "content": [],
            "model": self.model});
        if let Some(usage) = self.usage {
            // Cached tokens are counted separately in this protocol.
            let cached = usage.cache_read_tokens + usage.cache_write_tokens;
            message["usage"] = json!({
                "input_tokens": usage.prompt_tokens.saturating_sub(cached), "output_tokens": 1,
                "cache_read_input_tokens": usage.cache_read_tokens,
                "cache_creation_input_tokens": usage.cache_write_tokens});
        }
        named(&json!({"type": "message_start", "message": message}))
    }

    pub(super) fn say_anthropic(&mut self, step: &Step) -> Vec<String> {
        match step {
            Step::Text(text) => {
                let open = self.open("text", &json!({"type": "text", "text": ""}));
                vec![format!("{open}{}", self.block_delta(&json!({"type": "text_delta", "text": text})))]
            }
            Step::Thinking(text) => {
                let open = self.open_thinking();
                let delta = json!({"type": "thinking_delta", "thinking": text});
                vec![format!("{open}{}", self.block_delta(&delta))]
            }
            Step::Signature(seal) => {
                let open = self.open_thinking();
                let delta = json!({"type": "signature_delta", "signature": seal});
                vec![format!("{open}{}", self.block_delta(&delta))]
            }
            Step::Call(call) => {
                let id = self.next_call_id(call);
                let closed = self.close();
                let block = json!({"type": "tool_use", "id": id, "name": call.name, "input": {}});
                let open = self.open("tool_use", &block);
                let mut frames = vec![format!("{closed}{open}")];
                frames.extend(pieces(&call.arguments_text()).into_iter().map(|piece| {
                    self.block_delta(&json!({"type": "input_json_delta", "partial_json": piece}))
                }));
                frames.push(self.close());
                frames
            }
            Step::ToolSearch(search) => self.searches(search),
            Step::CallPart(_) | Step::Wait(_) | Step::Error(_) | Step::Fault(_) => Vec::new(),
        }
    }

    pub(super) fn end_anthropic(&mut self, reason: StopReason) -> String {
        let reason = match reason {
            // The only stop reason that no other provider has.
            StopReason::Other => "pause_turn",
            _ => reason_word(reason, ["end_turn", "max_tokens", "tool_use", "refusal"]),
        };
        let mut delta = json!({"type": "message_delta", "delta": {"stop_reason": reason}});
        if let Some(usage) = self.usage {
            delta["usage"] = json!({"output_tokens": usage.completion_tokens});
        }
        format!("{}{}{}", self.close(), named(&delta), named(&json!({"type": "message_stop"})))
    }

    /// The call in fragments, followed by the whole result.
    fn searches(&mut self, search: &ScriptSearch) -> Vec<String> {
        self.searches += 1;
        let id = search.id.clone().unwrap_or_else(|| format!("srvtoolu_{}", self.searches));
        let mut frames = vec![self.close()];
        if let Some(query) = &search.query {
            let block = json!({"type": "server_tool_use", "id": id, "input": {},
                "name": "tool_search_tool_bm25", "caller": {"type": "direct"}});
            frames.push(self.open("server_tool_use", &block));
            let input = json!({"query": query}).to_string();
            let piece = |piece| self.block_delta(&json!({"type": "input_json_delta", "partial_json": piece}));
            frames.extend(pieces(&input).into_iter().map(piece));
            frames.push(self.close());
        }
        let found = search.found.as_ref().map(|found| {
            let found: Vec<Json> =
                found.iter().map(|name| json!({"type": "tool_reference", "tool_name": name})).collect();
            json!({"type": "tool_search_tool_search_result", "tool_references": found})
        });
        let failed = search.error.as_ref().map(
            |code| json!({"type": "tool_search_tool_result_error", "error_code": code, "error_message": "no"}),
        );
        if let Some(content) = found.or(failed) {
            let block = json!({"type": "tool_search_tool_result", "tool_use_id": id, "content": content});
            frames.push(self.open("tool_search_tool_result", &block));
            frames.push(self.close());
        }
        frames
    }

    fn open_thinking(&mut self) -> String {
        self.open("thinking", &json!({"type": "thinking", "thinking": "", "signature": ""}))
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
}
