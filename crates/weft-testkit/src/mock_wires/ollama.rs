//! Ollama: `/api/chat`.

use serde_json::{Value as Json, json};
use weft_core::seam::chat_model::StopReason;
use weft_models::script::Step;

use super::writer::{WireWriter, reason_word};

impl WireWriter {
    pub(super) fn say_ollama(&mut self, step: &Step) -> Vec<String> {
        let message = match step {
            Step::Text(text) => json!({"content": text}),
            Step::Thinking(text) => json!({"content": "", "thinking": text}),
            Step::Call(call) => {
                self.calls += 1;
                let function = json!({"name": call.name, "arguments": call.arguments});
                json!({"content": "", "tool_calls": [{"function": function}]})
            }
            // This protocol has no signatures.
            Step::Signature(_)
            | Step::CallPart(_)
            | Step::ToolSearch(_)
            | Step::Wait(_)
            | Step::Error(_)
            | Step::Fault(_) => {
                return Vec::new();
            }
        };
        vec![self.ollama(&message, &json!({"done": false}))]
    }

    pub(super) fn end_ollama(&self, reason: StopReason) -> String {
        let mut end =
            json!({"done": true, "done_reason": reason_word(reason, ["stop", "length", "stop", "stop"])});
        if let Some(usage) = self.usage {
            end["prompt_eval_count"] = json!(usage.prompt_tokens);
            end["eval_count"] = json!(usage.completion_tokens);
        }
        self.ollama(&json!({"content": ""}), &end)
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
