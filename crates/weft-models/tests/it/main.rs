//! Models against servers on loopback.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests fail by panicking"
)]
#![allow(missing_docs, reason = "tests")]

mod answers;
mod bounds;
mod directory;
mod failures;
mod openai;
mod pictures;
mod retrieval;
mod rounds;
mod same;
mod speech;
mod tool_search;
mod trouble;
mod wires;

use std::sync::Arc;

use futures::StreamExt as _;
use weft_core::seam::chat_model::{
    Author, ChatDelta, ChatMessage, ChatModel, ChatRequest, StopReason, ToolCall, ToolSchema, Usage,
};
use weft_core::{Error, Result};
use weft_models::{Directory, ModelEntry, ModelsConfig, Provider, Secret};
use weft_testkit::{ScriptedServer, Wire};

pub const KEY: &str = "the-very-secret-key";

/// The assembled answer.
#[derive(Debug, Default, PartialEq)]
pub struct Transcript {
    pub text: String,
    pub thinking: String,
    pub signature: String,
    pub calls: Vec<ToolCall>,
    pub warnings: Vec<String>,
    pub end: Option<(StopReason, Usage)>,
    /// What was used before each pause.
    pub paused: Vec<Usage>,
    /// Deltas of text and of calls.
    pub pieces: usize,
    /// The model that answered in place of the requested one.
    pub answered_by: Option<String>,
}

/// Reads an answer, and returns the part before an error with it.
pub async fn read(model: &dyn ChatModel, request: ChatRequest) -> (Transcript, Option<Error>) {
    let mut seen = Transcript::default();
    let mut answer = match model.chat(request).await {
        Ok(answer) => answer,
        Err(error) => return (seen, Some(error)),
    };
    while let Some(delta) = answer.next().await {
        assert_eq!(seen.end, None, "nothing follows the end");
        match delta {
            Ok(delta) => seen.take(delta),
            Err(error) => return (seen, Some(error)),
        }
    }
    assert!(seen.end.is_some(), "an answer without an error has an end");
    (seen, None)
}

impl Transcript {
    fn take(&mut self, delta: ChatDelta) {
        match delta {
            ChatDelta::Text(text) => {
                assert!(!text.is_empty());
                self.pieces += 1;
                self.text.push_str(&text);
            }
            ChatDelta::Thinking(text) => self.thinking.push_str(&text),
            ChatDelta::Signature(text) => self.signature.push_str(&text),
            ChatDelta::ToolCall { index, id, name, arguments } => {
                self.pieces += 1;
                if index == self.calls.len() {
                    let (id, name) =
                        (id.expect("an id in the first delta"), name.expect("a name in the first delta"));
                    self.calls.push(ToolCall { id, name, arguments });
                } else {
                    assert_eq!((id, name), (None, None), "only in the first delta");
                    self.calls[index].arguments.push_str(&arguments);
                }
            }
            ChatDelta::Warning(text) => self.warnings.push(text),
            ChatDelta::Restarted => {
                *self = Self { warnings: std::mem::take(&mut self.warnings), ..Self::default() }
            }
            ChatDelta::AnsweredBy(info) => self.answered_by = Some(info.name.clone()),
            ChatDelta::Paused { usage } => self.paused.push(usage),
            ChatDelta::End { reason, usage } => self.end = Some((reason, usage)),
        }
    }
}

pub fn provider(wire: Wire) -> Provider {
    match wire {
        Wire::OpenAi => Provider::OpenAi,
        Wire::Anthropic => Provider::Anthropic,
        Wire::Gemini => Provider::Gemini,
        Wire::Ollama => Provider::Ollama,
    }
}

pub fn entry(wire: Wire, server: &ScriptedServer) -> ModelEntry {
    let mut entry = ModelEntry::new("m", provider(wire));
    entry.base_url = Some(server.base_url.clone());
    entry.api_key = Secret::new(KEY);
    entry.model = Some("model-x".into());
    entry
}

pub fn open(entries: Vec<ModelEntry>) -> Result<Directory> {
    let config = ModelsConfig { entries, ..ModelsConfig::default() };
    Directory::open(&config, &weft_net::operator_client().unwrap())
}

pub fn model(wire: Wire, server: &ScriptedServer) -> Arc<dyn ChatModel> {
    open(vec![entry(wire, server)]).unwrap().resolve_with_notice("m").unwrap().0
}

pub fn asked(user: &str) -> ChatRequest {
    ChatRequest { messages: vec![ChatMessage::new(Author::User, user)], ..ChatRequest::default() }
}

pub fn tool(name: &str) -> ToolSchema {
    ToolSchema {
        name: name.into(),
        description: "a tool".into(),
        parameters: serde_json::json!({"type": "object", "properties": {"city": {"type": "string"}}}),
        deferred: false,
    }
}
