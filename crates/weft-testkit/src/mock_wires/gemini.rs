//! Gemini: `streamGenerateContent`.

use serde_json::{Value as Json, json};
use weft_core::seam::chat_model::StopReason;
use weft_models::script::Step;

use super::writer::{WireWriter, data, reason_word};

impl WireWriter {
    pub(super) fn say_gemini(&mut self, step: &Step) -> Vec<String> {
        let part = match step {
            Step::Text(text) => json!({"text": text}),
            Step::Thinking(text) => json!({"text": text, "thought": true}),
            Step::Signature(seal) => {
                self.seal.get_or_insert_default().push_str(seal);
                return Vec::new();
            }
            Step::Call(call) => {
                self.calls += 1;
                let mut function = json!({"name": call.name, "args": call.arguments});
                if let Some(id) = &call.id {
                    function["id"] = json!(id);
                }
                self.sealed(json!({"functionCall": function}))
            }
            Step::CallPart(_) | Step::ToolSearch(_) | Step::Wait(_) | Step::Error(_) | Step::Fault(_) => {
                return Vec::new();
            }
        };
        let mut chunk = json!({"candidates": [{"content": {"role": "model", "parts": [part]}}]});
        if let Some(usage) = self.usage {
            chunk["usageMetadata"] = json!({"promptTokenCount": usage.prompt_tokens});
        }
        vec![data(&chunk)]
    }

    pub(super) fn end_gemini(&mut self, reason: StopReason) -> String {
        let part = self.sealed(json!({"text": ""}));
        let reason = reason_word(reason, ["STOP", "MAX_TOKENS", "STOP", "SAFETY"]);
        let mut chunk = json!({
            "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": reason}]});
        if let Some(usage) = self.usage {
            // Reasoning tokens are counted separately in this protocol.
            chunk["usageMetadata"] = json!({"promptTokenCount": usage.prompt_tokens,
                "cachedContentTokenCount": usage.cache_read_tokens,
                "candidatesTokenCount": usage.completion_tokens.saturating_sub(usage.reasoning_tokens),
                "thoughtsTokenCount": usage.reasoning_tokens,
                "totalTokenCount": usage.total_tokens()});
        }
        data(&chunk)
    }

    fn sealed(&mut self, mut part: Json) -> Json {
        if let Some(seal) = self.seal.take() {
            part["thoughtSignature"] = json!(seal);
        }
        part
    }
}
