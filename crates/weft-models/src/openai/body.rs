//! A request in the OpenAI wire format.

use serde_json::{Map, Value as Json, json};
use weft_core::seam::chat_model::{Author, ChatMessage, ChatRequest, ToolCall, ToolChoice, ToolSchema};

use crate::offer::ToolOffer;
use crate::sampling::{SchemaMode, Settled};
use crate::tool_images;

/// The name under which an answer's schema is sent; providers require one.
const SCHEMA_NAME: &str = "answer";

/// Model families that reject a round of tool calls without its reasoning, or answer worse, identified by a part of
/// the address or of the model's name.
const WANT_REASONING_BACK: &[&str] = &["deepseek", "moonshot", "kimi", "bigmodel.cn", "z.ai", "glm-"];

pub(super) fn body(
    model: &str,
    url: &str,
    request: &ChatRequest,
    settled: &Settled,
    offer: &ToolOffer<'_>,
) -> Json {
    let echo = wants_reasoning_back(model, url);
    let messages = tool_images::after_results(&request.messages);
    let messages: Vec<Json> =
        messages.iter().map(|m| message(m, m.thinking.as_deref().filter(|_| echo))).collect();
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(model));
    body.insert("messages".to_owned(), Json::Array(messages));
    body.insert("stream".to_owned(), json!(true));
    // Without it, a stream reports no usage, and budgets would depend on an estimate.
    body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    body.extend(settled.params.clone());
    if !offer.tools.is_empty() {
        body.insert("tools".to_owned(), offer.tools.iter().map(tool).collect());
        body.insert("tool_choice".to_owned(), choice(&offer.choice));
    }
    let format = request.schema.as_ref().and_then(|schema| match settled.schema {
        SchemaMode::Schema => {
            Some(json!({"type": "json_schema", "json_schema": {"name": SCHEMA_NAME, "schema": schema}}))
        }
        SchemaMode::JsonOnly => Some(json!({"type": "json_object"})),
        SchemaMode::Nothing => None,
    });
    body.extend(format.map(|format| ("response_format".to_owned(), format)));
    Json::Object(body)
}

fn message(message: &ChatMessage, reasoning: Option<&str>) -> Json {
    match message.author {
        Author::System => json!({"role": "system", "content": message.text}),
        Author::User => json!({"role": "user", "content": content(message)}),
        Author::Tool => {
            json!({"role": "tool", "tool_call_id": message.tool_call_id.as_deref().unwrap_or_default(), "content": message.text})
        }
        Author::Assistant if message.tool_calls.is_empty() => {
            json!({"role": "assistant", "content": message.text})
        }
        Author::Assistant => {
            let text = Some(&message.text).filter(|text| !text.is_empty());
            let calls: Vec<Json> = message.tool_calls.iter().map(call).collect();
            let mut said = json!({"role": "assistant", "content": text, "tool_calls": calls});
            if let Some(reasoning) = reasoning {
                said["reasoning_content"] = json!(reasoning);
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
    // Several servers parse the arguments again and reject the whole conversation if they are not JSON; the result
    // message says what was wrong with them.
    let readable = serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments).is_ok();
    let arguments = if readable { call.arguments.as_str() } else { "{}" };
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
}

fn tool(tool: &ToolSchema) -> Json {
    json!({"type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters}})
}

fn choice(choice: &ToolChoice) -> Json {
    match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Named(name) => json!({"type": "function", "function": {"name": name}}),
    }
}

fn wants_reasoning_back(model: &str, url: &str) -> bool {
    let model = model.to_lowercase();
    WANT_REASONING_BACK.iter().any(|part| model.contains(part) || url.contains(part))
}
