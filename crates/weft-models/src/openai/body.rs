//! A request as the OpenAI wire wants it.

use serde_json::{Map, Value as Json, json};
use weft_core::seam::chat_model::{Author, ChatMessage, ChatRequest, ToolCall, ToolSchema};

use crate::sampling::{SchemaMode, Settled};

/// The name under which an answer's schema is sent; providers insist on one.
const SCHEMA_NAME: &str = "answer";

pub(super) fn body(model: &str, url: &str, request: &ChatRequest, settled: &Settled) -> Json {
    let messages: Vec<Json> = request.messages.iter().map(|m| message(m, url)).collect();
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(model));
    body.insert("messages".to_owned(), Json::Array(messages));
    body.insert("stream".to_owned(), json!(true));
    body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    body.extend(settled.params.clone());
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
    }
    if let Some(schema) = &request.schema {
        let format = match settled.schema {
            SchemaMode::Schema => {
                json!({"type": "json_schema", "json_schema": {"name": SCHEMA_NAME, "schema": schema}})
            }
            SchemaMode::JsonOnly => json!({"type": "json_object"}),
        };
        body.insert("response_format".to_owned(), format);
    }
    Json::Object(body)
}

fn message(message: &ChatMessage, url: &str) -> Json {
    match message.author {
        Author::System => json!({"role": "system", "content": message.text}),
        Author::User => json!({"role": "user", "content": content(message)}),
        Author::Tool => {
            json!({"role": "tool", "tool_call_id": message.tool_call_id.as_deref().unwrap_or_default(), "content": message.text})
        }
        Author::Assistant => {
            let mut said = json!({"role": "assistant", "content": message.text});
            if !message.tool_calls.is_empty() {
                said["tool_calls"] = message.tool_calls.iter().map(call).collect();
                if let Some(thinking) = message.thinking.as_ref().filter(|_| wants_thinking_back(url)) {
                    said["reasoning_content"] = json!(thinking);
                }
            }
            said
        }
    }
}

fn content(message: &ChatMessage) -> Json {
    if message.images.is_empty() {
        return json!(message.text);
    }
    let text = (!message.text.is_empty()).then(|| json!({"type": "text", "text": message.text}));
    let images = message.images.iter().map(|url| json!({"type": "image_url", "image_url": {"url": url}}));
    text.into_iter().chain(images).collect()
}

fn call(call: &ToolCall) -> Json {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

fn tool(tool: &ToolSchema) -> Json {
    json!({"type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters}})
}

/// DeepSeek refuses a round of tool calls that comes back without its reasoning.
fn wants_thinking_back(url: &str) -> bool {
    url.contains("deepseek.com")
}
