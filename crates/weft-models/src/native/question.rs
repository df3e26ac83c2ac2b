//! A request in genai's words.

use std::collections::HashMap;

use genai::chat::{
    Binary, ChatMessage as Said, ChatOptions, ChatRequest as Question, ChatResponseFormat, ContentPart,
    JsonSpec, MessageContent, ReasoningEffort, Tool, ToolCall as Call, ToolResponse,
};
use serde_json::Value as Json;
use weft_core::seam::chat_model::{Author, ChatMessage, ChatRequest, ToolCall};

use super::{Reported, notice};
use crate::factories::Provider;
use crate::sampling::Settled;

/// Divides a call's id from the signature that Gemini wants back with it. Ids are opaque to everyone
/// else, so this is where it travels.
pub(super) const SIGNATURE_MARK: &str = "~thought:";

pub(super) fn options(
    provider: Provider,
    request: &ChatRequest,
    settled: &mut Settled,
    reported: Reported,
) -> ChatOptions {
    let mut options = ChatOptions::default()
        .with_capture_usage(true)
        .with_raw_frame_fn(move |_, frame| notice(&reported, frame.data));
    options.temperature = settled.params.get("temperature").and_then(Json::as_f64);
    options.top_p = settled.params.get("top_p").and_then(Json::as_f64);
    options.max_tokens = request.sampling.max_tokens.filter(|max| *max > 0);
    options.reasoning_effort =
        request.sampling.thinking.map(|on| if on { ReasoningEffort::Medium } else { ReasoningEffort::Zero });
    if let Some(schema) = &request.schema {
        options.response_format = Some(match provider {
            // genai sends Ollama no schema, only that the answer is JSON.
            Provider::Ollama => ChatResponseFormat::JsonMode,
            _ => ChatResponseFormat::JsonSpec(JsonSpec::new("answer", schema.clone())),
        });
    }
    options
}

pub(super) fn question(provider: Provider, request: &ChatRequest) -> Question {
    let mut names = HashMap::new();
    let mut messages: Vec<Said> = Vec::new();
    let mut results: Vec<ToolResponse> = Vec::new();
    for message in &request.messages {
        if message.author == Author::Tool {
            results.push(result(message, &names));
            // Anthropic wants the results of one round in one message; genai's Ollama keeps one of several.
            if provider != Provider::Anthropic {
                messages.push(results_message(&mut results));
            }
            continue;
        }
        if !results.is_empty() {
            messages.push(results_message(&mut results));
        }
        names.extend(message.tool_calls.iter().map(|call| (call.id.clone(), call.name.clone())));
        messages.push(said(message));
    }
    if !results.is_empty() {
        messages.push(results_message(&mut results));
    }
    let question = Question::new(messages);
    if request.tools.is_empty() {
        return question;
    }
    question.with_tools(request.tools.iter().map(|tool| {
        Tool::new(tool.name.clone())
            .with_description(tool.description.clone())
            .with_schema(tool.parameters.clone())
    }))
}

fn results_message(results: &mut Vec<ToolResponse>) -> Said {
    Said::tool(MessageContent::from_tool_responses(std::mem::take(results)))
}

fn result(message: &ChatMessage, names: &HashMap<String, String>) -> ToolResponse {
    let id = message.tool_call_id.clone().unwrap_or_default();
    let name = names.get(&id).cloned();
    let result = ToolResponse::new(plain_id(&id).0, message.text.clone());
    match name {
        Some(name) => result.with_fn_name(name),
        None => result,
    }
}

fn plain_id(id: &str) -> (&str, Option<&str>) {
    id.split_once(SIGNATURE_MARK).map_or((id, None), |(id, signature)| (id, Some(signature)))
}

fn said(message: &ChatMessage) -> Said {
    match message.author {
        Author::System => Said::system(message.text.clone()),
        Author::Assistant if message.tool_calls.is_empty() => Said::assistant(message.text.clone()),
        Author::Assistant => {
            let text = (!message.text.is_empty()).then(|| ContentPart::from_text(message.text.clone()));
            let calls = message.tool_calls.iter().map(|tool_call| ContentPart::ToolCall(call(tool_call)));
            Said::assistant(MessageContent::from_parts(text.into_iter().chain(calls).collect::<Vec<_>>()))
        }
        Author::User | Author::Tool if message.images.is_empty() => Said::user(message.text.clone()),
        Author::User | Author::Tool => {
            let text = (!message.text.is_empty()).then(|| ContentPart::from_text(message.text.clone()));
            let images = message.images.iter().map(|url| image(url));
            Said::user(MessageContent::from_parts(text.into_iter().chain(images).collect::<Vec<_>>()))
        }
    }
}

fn call(call: &ToolCall) -> Call {
    let (id, signature) = plain_id(&call.id);
    // What is no object would be refused by every wire; the result message says what was wrong with it.
    let arguments = serde_json::from_str::<Json>(&call.arguments).ok().filter(Json::is_object);
    Call {
        call_id: id.to_owned(),
        fn_name: call.name.clone(),
        fn_arguments: arguments.unwrap_or_else(|| Json::Object(serde_json::Map::new())),
        thought_signatures: signature.map(|signature| vec![signature.to_owned()]),
    }
}

fn image(url: &str) -> ContentPart {
    let inline = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match inline {
        Some((kind, data)) => ContentPart::Binary(Binary::from_base64(kind, data, None)),
        None => {
            let kind = match url.rsplit('.').next() {
                Some("png") => "image/png",
                Some("webp") => "image/webp",
                Some("gif") => "image/gif",
                _ => "image/jpeg",
            };
            ContentPart::Binary(Binary::from_url(kind, url, None))
        }
    }
}
