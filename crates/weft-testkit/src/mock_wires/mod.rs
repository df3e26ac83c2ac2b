//! The server side of four providers' protocols: the same script in four encodings.

mod anthropic;
mod gemini;
mod ollama;
mod openai;
mod writer;

use serde_json::Value as Json;
use weft_core::seam::chat_model::{Author, ChatMessage, ChatRequest, ToolSchema};

pub(crate) use writer::WireWriter;

/// The protocol of a provider.
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
    /// All protocols.
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

    /// The model that a request asks for.
    pub(crate) fn model(self, path: &str, body: &Json) -> String {
        let of_path = || path.rsplit('/').next().and_then(|last| last.split(':').next()).unwrap_or_default();
        match self {
            Self::Gemini => of_path().to_owned(),
            Self::OpenAi | Self::Anthropic | Self::Ollama => {
                body["model"].as_str().unwrap_or_default().to_owned()
            }
        }
    }

    /// The messages and tools of a request, as far as scripts look at them: authors, texts, names.
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
        ChatRequest { messages, tools: self.tools(body).collect(), ..ChatRequest::default() }
    }

    fn tools(self, body: &Json) -> impl Iterator<Item = ToolSchema> {
        let (list, inner, schema) = match self {
            Self::OpenAi | Self::Ollama => ("/tools", "/function", "parameters"),
            Self::Anthropic => ("/tools", "", "input_schema"),
            Self::Gemini => ("/tools/0/functionDeclarations", "", "parametersJsonSchema"),
        };
        let listed = body.pointer(list).and_then(Json::as_array).into_iter().flatten();
        // A tool with a type is one of the provider's own.
        let own = move |tool: &&Json| self == Self::Anthropic && !tool["type"].is_null();
        let listed = listed.filter(move |tool| !own(tool));
        listed.filter_map(move |tool| tool.pointer(inner)).map(move |tool| ToolSchema {
            name: tool["name"].as_str().unwrap_or_default().to_owned(),
            description: tool["description"].as_str().unwrap_or_default().to_owned(),
            parameters: tool[schema].clone(),
            deferred: tool["defer_loading"] == true,
        })
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

/// All text in a message, wherever the protocol puts it.
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
