//! Language models that answer messages.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use weft_macros::async_trait;

use crate::error::{Error, Result};
use crate::id::TenantId;
use crate::seam::{Embedder, Reranker, SpeechModel, TranscriptionModel};
use crate::stream::{TextMark, TextWriter};
use crate::value::Json;

pub use crate::tokens::{Prices, Usage};

/// The purpose of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// Answers messages.
    #[default]
    Chat,
    /// Answers messages that may contain images.
    Vision,
    /// Turns texts into embedding vectors.
    Embedding,
    /// Ranks passages by how well they answer a question.
    Rerank,
    /// Turns speech into text.
    Speech,
    /// Turns text into speech.
    Tts,
    /// Recognises text in pictures.
    Ocr,
}

/// What is known about a model before it is called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// Its name in the configuration.
    pub name: String,
    /// `openai`, `anthropic`, `gemini`, `ollama`, `scripted` or `extractive`.
    pub provider: String,
    /// Its name at the provider.
    pub model: String,
    /// The context window: maximum number of tokens of question and answer combined.
    pub window: usize,
    /// Whether it supports tools.
    pub tools: bool,
    /// Maximum number of tools in a request whose definitions the provider looks up on demand
    /// ([`ToolSchema::deferred`]); 0 if the provider has no such search.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deferred_tools_max: usize,
    /// Its purpose.
    pub kind: ModelKind,
    /// Its prices, if known.
    #[serde(default)]
    pub prices: Option<Prices>,
}

impl ModelInfo {
    /// Returns whether it generates text. A model that only quotes its input cannot be asked for keywords.
    pub fn writes(&self) -> bool {
        self.provider != "extractive"
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// The system instructions.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool, answering a call.
    Tool,
}

/// A tool call made by a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id of the call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments, as the model wrote them.
    pub arguments: String,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// Its author.
    pub author: Author,
    /// Its text.
    pub text: String,
    /// Images as data or http URLs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Tool calls, in an assistant message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The reasoning of an assistant message, which some providers require to be sent back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// Opaque data that the provider requires to be sent back with the message, encoded by the wire protocol it came
    /// over: its signature over the reasoning, without which the reasoning is rejected, and the results of its own
    /// tool search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

impl ChatMessage {
    /// Creates a plain text message.
    pub fn new(author: Author, text: impl Into<String>) -> Self {
        Self {
            author,
            text: text.into(),
            images: Vec::new(),
            tool_calls: Vec::new(),
            tool_call_id: None,
            thinking: None,
            signature: None,
        }
    }

    /// Creates a tool's answer to a call.
    pub fn tool(call_id: impl Into<String>, text: impl Into<String>) -> Self {
        Self { tool_call_id: Some(call_id.into()), ..Self::new(Author::Tool, text) }
    }
}

/// A tool as presented to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSchema {
    /// Its name: letters, digits and underscores.
    pub name: String,
    /// What it does.
    pub description: String,
    /// A JSON Schema of its arguments.
    pub parameters: Json,
    /// Whether the model does not see it until the provider's tool search finds it
    /// ([`ModelInfo::deferred_tools_max`]). Until then it takes no space in the prompt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deferred: bool,
}

/// Sampling parameters. Absent values are the provider's choice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// 0 to 2.
    pub temperature: Option<f64>,
    /// 0 to 1.
    pub top_p: Option<f64>,
    /// -2 to 2.
    pub presence_penalty: Option<f64>,
    /// -2 to 2.
    pub frequency_penalty: Option<f64>,
    /// Maximum number of tokens in the answer.
    pub max_tokens: Option<u32>,
    /// Whether the model should reason first; absent leaves it to the model.
    pub thinking: Option<bool>,
}

/// Whether a model may, must or must not call tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// No calls in this answer. The tools are still listed, for providers that require it if the conversation
    /// contains calls.
    None,
    /// At least one call.
    Required,
    /// A call of this tool.
    Named(String),
}

/// A request to a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChatRequest {
    /// The conversation.
    pub messages: Vec<ChatMessage>,
    /// The sampling parameters.
    pub sampling: Sampling,
    /// The tools on offer.
    #[serde(default)]
    pub tools: Arc<[ToolSchema]>,
    /// Whether tools may or must be called.
    #[serde(default)]
    pub tool_choice: ToolChoice,
    /// A JSON Schema that the answer must follow, for providers that can guarantee it.
    pub schema: Option<Json>,
    /// How many times to retry a call that failed before any piece of it was seen. 0 means never; absent means the
    /// directory's policy.
    pub retries_max: Option<u32>,
    /// Delay before the first retry; it doubles each time. Absent means the directory's policy.
    #[serde(default)]
    pub retry_delay: Option<Duration>,
    /// Whether the request may be answered from a cache of equal requests.
    #[serde(default)]
    pub cached: bool,
    /// Whether the pieces are seen as they arrive. This does not affect the question, so it is not part of what is
    /// recorded of it.
    #[serde(skip)]
    pub audience: Audience,
}

/// Whether the pieces of an answer are seen before it is complete.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Audience {
    /// Pieces are seen as they arrive and cannot be taken back.
    #[default]
    Listening,
    /// Only the complete answer is used: an answer that breaks off may start over ([`ChatDelta::Restarted`]).
    Nobody,
    /// The answer is written into a text from this mark on. It may start over until a reader has read any of it.
    Readers(TextMark),
}

impl Audience {
    /// The readers of what is written there, or nobody.
    pub fn of(writer: Option<&TextWriter>) -> Self {
        writer.map_or(Self::Nobody, |writer| Self::Readers(writer.mark()))
    }

    /// Returns whether any piece has been seen.
    pub fn has_heard(&self) -> bool {
        match self {
            Self::Listening => true,
            Self::Nobody => false,
            Self::Readers(mark) => mark.is_read_past(),
        }
    }

    /// Takes back the pieces so far. Returns whether that was possible, that is, none has been or will be seen.
    pub fn take_back(&self) -> bool {
        match self {
            Self::Listening => false,
            Self::Nobody => true,
            Self::Readers(mark) => mark.take_back(),
        }
    }
}

/// Why a model stopped generating.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The answer is complete.
    Stop,
    /// It reached its token limit.
    Length,
    /// It waits for the results of tools.
    ToolCalls,
    /// A filter stopped it.
    Filtered,
    /// The provider gave another reason or none.
    Other,
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ChatDelta {
    /// Part of the text.
    Text(String),
    /// Part of the reasoning, with any tags removed.
    Thinking(String),
    /// Opaque data to send back with the answer; see [`ChatMessage::signature`].
    Signature(String),
    /// Part of a tool call. The parts with the same `index` belong together, in order.
    ToolCall {
        /// The index of the call within this answer.
        index: usize,
        /// Present in the first part.
        id: Option<String>,
        /// Present in the first part.
        name: Option<String>,
        /// The next part of the arguments.
        arguments: String,
    },
    /// A problem worth reporting that is not a failure, such as a dropped parameter.
    Warning(String),
    /// The answer starts over: all earlier pieces are void. Sent only while [`ChatRequest::audience`] has seen none
    /// of them.
    Restarted,
    /// From here on this model answers, because the requested one could not.
    AnsweredBy(Arc<ModelInfo>),
    /// The provider has paused the answer. It is asked to continue, which is a call of its own, when the next delta is
    /// awaited.
    Paused {
        /// What the answer used since it began or was last paused; part of what [`ChatDelta::End`] reports.
        usage: Usage,
    },
    /// The last delta of every answer.
    End {
        /// Why it stopped.
        reason: StopReason,
        /// What it used.
        usage: Usage,
    },
}

/// The deltas of one answer. The stream ends after `End` or with an error; dropping it stops the model.
pub type ChatStream = BoxStream<'static, Result<ChatDelta>>;

/// A language model.
///
/// An implementation streams text, reasoning and tool calls as typed deltas, ends every answer with exactly one
/// [`ChatDelta::End`], reports a failure within a stream as an error instead of ending it silently, and stops the
/// provider's work when the stream is dropped.
#[async_trait]
pub trait ChatModel: Send + Sync {
    /// Returns its description.
    fn info(&self) -> &ModelInfo;

    /// Starts an answer.
    ///
    /// # Errors
    /// By kind: `Unauthenticated`, `RateLimited`, `Unavailable`, `Timeout`, `Invalid`, `Filtered`,
    /// `Garbled`.
    async fn chat(&self, request: ChatRequest) -> Result<ChatStream>;
}

/// Finds models by the `llm_id` a canvas names.
pub trait ModelDirectory: Send + Sync {
    /// Returns the model for an id such as `deepseek-chat@DeepSeek`; empty means the default.
    ///
    /// # Errors
    /// `NotFound` with code `MODEL_NOT_CONFIGURED` in its text, naming what could be used instead.
    fn resolve(&self, tenant: &TenantId, llm_id: &str) -> Result<Arc<dyn ChatModel>>;

    /// Returns a sentence that names both models if [`ModelDirectory::resolve`] returns a different one than `llm_id`
    /// names.
    fn substitution(&self, _tenant: &TenantId, _llm_id: &str) -> Option<String> {
        None
    }

    /// Returns the embedding model for an id such as `bge-m3@Ollama`; empty means the default.
    ///
    /// # Errors
    /// As [`ModelDirectory::resolve`].
    fn embedder(&self, _tenant: &TenantId, id: &str) -> Result<Arc<dyn Embedder>> {
        Err(not_configured("embedding", id))
    }

    /// Returns the reranking model for an id such as `jina-reranker-v2@Jina`; empty means the default.
    ///
    /// # Errors
    /// As [`ModelDirectory::resolve`].
    fn reranker(&self, _tenant: &TenantId, id: &str) -> Result<Arc<dyn Reranker>> {
        Err(not_configured("reranking", id))
    }

    /// Checks whether the reranker with this id is available. Returns a sentence if it is not and searches carry on
    /// without it.
    ///
    /// # Errors
    /// As [`ModelDirectory::reranker`], if searches must not carry on without it.
    fn reranker_notice(&self, tenant: &TenantId, id: &str) -> Result<Option<String>> {
        self.reranker(tenant, id).map(|_| None)
    }

    /// Returns the text-to-speech model for an id such as `tts-1@OpenAI`; empty means the default.
    ///
    /// # Errors
    /// As [`ModelDirectory::resolve`].
    fn speech(&self, _tenant: &TenantId, id: &str) -> Result<Arc<dyn SpeechModel>> {
        Err(not_configured("reading aloud", id))
    }

    /// Returns the transcription model for an id such as `whisper-1@OpenAI`; empty means the default.
    ///
    /// # Errors
    /// As [`ModelDirectory::resolve`].
    fn transcription(&self, _tenant: &TenantId, id: &str) -> Result<Arc<dyn TranscriptionModel>> {
        Err(not_configured("writing down speech", id))
    }

    /// Returns every model that can be resolved.
    fn list(&self, tenant: &TenantId) -> Vec<ModelInfo>;

    /// Returns the name that follows the `@` in each of these models, in the order of the list: that of
    /// `glm-4@ZHIPU-AI` is `ZHIPU-AI`.
    fn makers(&self, tenant: &TenantId) -> Vec<String> {
        self.list(tenant).into_iter().map(|model| model.provider).collect()
    }
}

/// A directory without models.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoModels;

impl ModelDirectory for NoModels {
    fn resolve(&self, _: &TenantId, llm_id: &str) -> Result<Arc<dyn ChatModel>> {
        Err(not_configured("answering", llm_id))
    }

    fn list(&self, _: &TenantId) -> Vec<ModelInfo> {
        Vec::new()
    }
}

fn not_configured(what: &str, id: &str) -> Error {
    let which = if id.is_empty() { String::new() } else { format!(" `{id}`") };
    Error::not_found(format!("MODEL_NOT_CONFIGURED: there is no model{which} for {what}"))
        .help("add it to `models` in weft.toml")
}
