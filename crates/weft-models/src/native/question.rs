//! A conversation in genai's words.

use std::collections::HashMap;

use genai::chat::{
    Binary, ChatMessage as Said, ChatRequest as Question, ContentPart, MessageContent, Tool,
    ToolCall as Call, ToolResponse,
};
use serde_json::{Map, Value as Json, json};
use weft_core::seam::chat_model::{Author, ChatMessage, ChatRequest, ToolCall, ToolSchema};

use super::cache::Marks;
use super::seal::{GeminiSeals, is_thinking};
use super::searches::Searches;
use crate::factories::Provider;
use crate::tool_images;

pub(super) fn question(provider: Provider, request: &ChatRequest, tools: &[ToolSchema]) -> Question {
    let placed = match provider {
        Provider::Anthropic => request.messages.as_slice().into(),
        _ => tool_images::after_results(&request.messages),
    };
    let searches = Searches::of(&placed, if provider == Provider::Anthropic { tools } else { &[] });
    let mut names = HashMap::new();
    let mut messages: Vec<Said> = Vec::new();
    let mut results: Vec<ContentPart> = Vec::new();
    for (place, message) in placed.iter().enumerate() {
        if message.author == Author::Tool {
            results.push(result(provider, message, &names));
            // Anthropic wants the results of one round in one message; genai's Ollama keeps one of several.
            if provider != Provider::Anthropic {
                messages.extend(results_message(&mut results));
            }
            continue;
        }
        messages.extend(results_message(&mut results));
        // A result has the id of its call alone, and Gemini wants the name as well.
        names.extend(message.tool_calls.iter().map(|call| (call.id.as_str(), call.name.as_str())));
        match (provider, message.author) {
            (Provider::Anthropic, Author::Assistant) => {
                let calls =
                    message.tool_calls.iter().map(|one| ContentPart::ToolCall(call(provider, one, None)));
                in_order(searches.parts(place, message).into_iter().chain(calls), &mut messages);
            }
            _ => messages.extend(said(provider, message)),
        }
    }
    messages.extend(results_message(&mut results));
    if provider == Provider::Anthropic {
        Marks::of(request, tools).mark_messages(&mut messages);
    }
    let question = Question::new(messages);
    // The others get theirs as the wire has them; see `options`.
    if provider != Provider::Ollama || tools.is_empty() {
        return question;
    }
    question.with_tools(tools.iter().map(|tool| {
        Tool::new(tool.name.clone())
            .with_description(tool.description.clone())
            .with_schema(tool.parameters.clone())
    }))
}

/// What genai leaves out of the messages.
pub(super) fn left_out(provider: Provider, model: &str, request: &ChatRequest) -> Option<String> {
    let mut images = request.messages.iter().flat_map(|message| &message.images);
    let by_address = provider == Provider::Ollama && images.any(|image| !image.starts_with("data:"));
    by_address.then(|| format!("`{model}` takes no images by address; they were left out"))
}

fn results_message(results: &mut Vec<ContentPart>) -> Option<Said> {
    let results = std::mem::take(results);
    (!results.is_empty()).then(|| Said::tool(MessageContent::from_parts(results)))
}

fn result(provider: Provider, message: &ChatMessage, names: &HashMap<&str, &str>) -> ContentPart {
    let id = message.tool_call_id.as_deref().unwrap_or_default();
    let name = names.get(id).copied();
    if !message.images.is_empty() && provider == Provider::Anthropic {
        let text = (!message.text.is_empty()).then(|| json!({"type": "text", "text": message.text}));
        let content: Vec<Json> =
            text.into_iter().chain(message.images.iter().map(|url| anthropic_image(url))).collect();
        return ContentPart::from_custom(
            json!({"type": "tool_result", "tool_use_id": id, "content": content}),
            None,
        );
    }
    let result = ToolResponse::new(wire_id(provider, id, name), message.text.clone());
    ContentPart::ToolResponse(match name {
        Some(name) => result.with_fn_name(name),
        None => result,
    })
}

/// genai leaves ids of the form `call#name#number` out of what it sends to Gemini: those that Gemini did
/// not give.
fn wire_id(provider: Provider, id: &str, name: Option<&str>) -> String {
    let made_up = id.strip_prefix("call_").filter(|rest| rest.bytes().all(|b| b.is_ascii_digit()));
    match (provider, made_up, name) {
        (Provider::Gemini, Some(number), Some(name)) if !number.is_empty() => format!("call#{name}#{number}"),
        _ => id.to_owned(),
    }
}

fn said(provider: Provider, message: &ChatMessage) -> Option<Said> {
    match message.author {
        Author::System => Some(Said::system(message.text.clone())),
        Author::Assistant => {
            let parts = assistant_parts(provider, message);
            // An empty message is refused.
            (!parts.is_empty()).then(|| Said::assistant(MessageContent::from_parts(parts)))
        }
        Author::User | Author::Tool if message.images.is_empty() => Some(Said::user(message.text.clone())),
        Author::User | Author::Tool => {
            let images = message.images.iter().map(|url| match provider {
                Provider::Anthropic => ContentPart::from_custom(anthropic_image(url), None),
                _ => image(url),
            });
            let parts: Vec<_> = text_part(message).into_iter().chain(images).collect();
            Some(Said::user(MessageContent::from_parts(parts)))
        }
    }
}

/// A message of an assistant with its parts in their order. genai moves reasoning to the front of a message, so where some comes
/// after something else another message begins; Anthropic takes messages of one author that follow each other for one.
fn in_order(parts: impl Iterator<Item = ContentPart>, messages: &mut Vec<Said>) {
    let thinks = |part: &ContentPart| match part {
        ContentPart::ThoughtSignature(_) | ContentPart::ReasoningContent(_) => true,
        ContentPart::Custom(custom) => is_thinking(&custom.data),
        _ => false,
    };
    let mut begun: Vec<ContentPart> = Vec::new();
    for part in parts {
        if thinks(&part) && begun.last().is_some_and(|last| !thinks(last)) {
            messages.push(Said::assistant(MessageContent::from_parts(std::mem::take(&mut begun))));
        }
        begun.push(part);
    }
    // An empty message is refused.
    if !begun.is_empty() {
        messages.push(Said::assistant(MessageContent::from_parts(begun)));
    }
}

fn assistant_parts(provider: Provider, message: &ChatMessage) -> Vec<ContentPart> {
    let mut seals = GeminiSeals::default();
    let mut parts = Vec::new();
    if provider == Provider::Gemini {
        seals = GeminiSeals::of(message);
        let text = seals.text.take().filter(|_| !message.text.is_empty());
        parts.extend(text.map(ContentPart::ThoughtSignature));
    }
    parts.extend(text_part(message));
    for (at, tool_call) in message.tool_calls.iter().enumerate() {
        parts.push(ContentPart::ToolCall(call(provider, tool_call, seals.calls.remove(&at))));
    }
    parts
}

fn text_part(message: &ChatMessage) -> Option<ContentPart> {
    (!message.text.is_empty()).then(|| ContentPart::from_text(message.text.clone()))
}

fn call(provider: Provider, call: &ToolCall, seal: Option<String>) -> Call {
    // What is no object would be refused by every wire; the result message says what was wrong with it.
    let arguments = serde_json::from_str::<Json>(&call.arguments).ok().filter(Json::is_object);
    Call {
        call_id: wire_id(provider, &call.id, Some(&call.name)),
        fn_name: call.name.clone(),
        fn_arguments: arguments.unwrap_or_else(|| Json::Object(Map::new())),
        thought_signatures: seal.map(|seal| vec![seal]),
    }
}

/// Kind and data of an image that is a data URL.
fn inline(url: &str) -> Option<(&str, &str)> {
    url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"))
}

/// genai drops images by address on this wire, which takes them.
fn anthropic_image(url: &str) -> Json {
    let source = match inline(url) {
        Some((kind, data)) => json!({"type": "base64", "media_type": kind, "data": data}),
        None => json!({"type": "url", "url": url}),
    };
    json!({"type": "image", "source": source})
}

fn image(url: &str) -> ContentPart {
    match inline(url) {
        Some((kind, data)) => ContentPart::Binary(Binary::from_base64(kind, data, None)),
        None => {
            let kind = match url.rsplit('.').next() {
                Some("png") => "image/png",
                Some("webp") => "image/webp",
                Some("gif") => "image/gif",
                // An address that does not say gets the most frequent kind; providers look at the bytes.
                _ => "image/jpeg",
            };
            ContentPart::Binary(Binary::from_url(kind, url, None))
        }
    }
}
