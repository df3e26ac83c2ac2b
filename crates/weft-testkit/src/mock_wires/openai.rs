//! OpenAI: chat completions.

use serde_json::{Value as Json, json};
use weft_core::seam::chat_model::StopReason;
use weft_models::script::{CallPart, Step};

use super::writer::{WireWriter, data, pieces, reason_word};

impl WireWriter {
    pub(super) fn say_openai(&mut self, step: &Step) -> Vec<String> {
        match step {
            Step::Text(text) => vec![self.openai(&json!({"content": text}), &Json::Null)],
            Step::Thinking(text) => vec![self.openai(&json!({"reasoning_content": text}), &Json::Null)],
            Step::Call(call) => {
                let index = self.calls;
                let id = self.next_call_id(call);
                let begun =
                    CallPart { index, id: Some(id), name: Some(call.name.clone()), arguments: String::new() };
                let mut frames = vec![self.openai_call_part(&begun)];
                for arguments in pieces(&call.arguments_text()) {
                    let part = CallPart { index, id: None, name: None, arguments };
                    frames.push(self.openai_call_part(&part));
                }
                frames
            }
            Step::CallPart(part) => vec![self.openai_call_part(part)],
            // This protocol has no signatures.
            Step::Signature(_) | Step::ToolSearch(_) | Step::Wait(_) | Step::Error(_) | Step::Fault(_) => {
                Vec::new()
            }
        }
    }

    pub(super) fn openai_call_part(&mut self, part: &CallPart) -> String {
        self.calls = self.calls.max(part.index + 1);
        let mut piece = json!({"index": part.index, "function": {"arguments": part.arguments}});
        if let Some(name) = &part.name {
            let id = part.id.clone().unwrap_or_else(|| format!("call_{}", part.index + 1));
            piece["id"] = json!(id);
            piece["type"] = json!("function");
            piece["function"]["name"] = json!(name);
        } else if let Some(id) = &part.id {
            piece["id"] = json!(id);
        }
        self.openai(&json!({"tool_calls": [piece]}), &Json::Null)
    }

    pub(super) fn end_openai(&self, reason: StopReason) -> String {
        let reason = reason_word(reason, ["stop", "length", "tool_calls", "content_filter"]);
        let end = self.openai(&json!({}), &json!(reason));
        let usage = self.usage.map(|usage| {
            data(&json!({"id": "c1", "object": "chat.completion.chunk", "choices": [], "usage": {
                "prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens,
                "total_tokens": usage.total_tokens(),
                "prompt_tokens_details": {
                    "cached_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens},
                "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens}}}))
        });
        format!("{end}{}data: [DONE]\n\n", usage.unwrap_or_default())
    }

    pub(super) fn openai(&self, delta: &Json, finish_reason: &Json) -> String {
        data(&json!({"id": "c1", "object": "chat.completion.chunk", "created": 0, "model": self.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}))
    }
}
