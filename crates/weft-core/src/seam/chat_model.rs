//! Language models that answer messages.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::id::TenantId;
use crate::seam::{Embedder, Reranker, SpeechModel, TranscriptionModel};
use crate::stream::{TextMark, TextWriter};
use crate::value::Json;

/// What a model is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// Answers messages.
    #[default]
    Chat,
    /// Answers messages that may hold images.
    Vision,
    /// Turns texts into vectors.
    Embedding,
    /// Orders passages by how well they answer a question.
    Rerank,
    /// Turns speech into text.
    Speech,
    /// Turns text into speech.
    Tts,
    /// Reads what is written in pictures.
    Ocr,
}

/// What a model costs, in the operator's currency for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// For what it reads.
    pub prompt: f64,
    /// For what it writes.
    pub completion: f64,
    /// For what it reads and has in its cache; absent: as for anything else that it reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// For what it reads and puts into its cache; absent: as for anything else that it reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
}

impl Prices {
    /// The same for what is in the cache as for anything else.
    pub const fn new(prompt: f64, completion: f64) -> Self {
        Self { prompt, completion, cache_read: None, cache_write: None }
    }
}

/// What is known about a model before it is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// The name in the configuration.
    pub name: String,
    /// `openai`, `anthropic`, `gemini`, `ollama`, `scripted` or `extractive`.
    pub provider: String,
    /// The name the provider knows it by.
    pub model: String,
    /// How many tokens question and answer may have together.
    pub window: usize,
    /// Whether it can be given tools.
    pub tools: bool,
    /// How many tools a request may hold whose definitions its provider looks up when the model asks for them
    /// ([`ToolSchema::deferred`]); 0 where the provider has no such search.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deferred_tools_max: usize,
    /// What it is for.
    pub kind: ModelKind,
    /// What it costs; absent when nobody said.
    #[serde(default)]
    pub prices: Option<Prices>,
}

impl ModelInfo {
    /// Whether it writes by itself; what only quotes what it is given cannot be asked to find keywords.
    pub fn writes(&self) -> bool {
        self.provider != "extractive"
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Who said a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// The instructions.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool, answering a call.
    Tool,
}

/// A call that a model makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id for it.
    pub id: String,
    /// Which tool.
    pub name: String,
    /// The arguments as the model wrote them.
    pub arguments: String,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// Who.
    pub author: Author,
    /// What.
    pub text: String,
    /// Images as data or http URLs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Calls, of an assistant message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The reasoning that some providers want back, of an assistant message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// What the provider wants back with the message, packed by the wire that it came over: its seal on that
    /// reasoning, without which the reasoning is refused, and what its own search for tools has found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

impl ChatMessage {
    /// A plain text message.
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

    /// What a tool answered to a call.
    pub fn tool(call_id: impl Into<String>, text: impl Into<String>) -> Self {
        Self { tool_call_id: Some(call_id.into()), ..Self::new(Author::Tool, text) }
    }
}

/// A tool as a model sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSchema {
    /// A name of letters, digits and underscores.
    pub name: String,
    /// What it does.
    pub description: String,
    /// A JSON schema of its arguments.
    pub parameters: Json,
    /// Whether the model is not shown it until it has searched for it, which its provider does
    /// ([`ModelInfo::deferred_tools_max`]). It takes no room in the prompt until then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deferred: bool,
}

/// How an answer is to be generated. Absent values are the provider's choice.
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
    /// Tokens of the answer, at most.
    pub max_tokens: Option<u32>,
    /// Whether the model should reason first; absent: as the model likes.
    pub thinking: Option<bool>,
}

/// Whether a model may, must or must not call tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// Not in this answer. The tools are still named, for providers that want that when the
    /// conversation holds calls.
    None,
    /// At least one.
    Required,
    /// This one.
    Named(String),
}

/// A request to a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChatRequest {
    /// The conversation.
    pub messages: Vec<ChatMessage>,
    /// How.
    pub sampling: Sampling,
    /// Tools on offer.
    #[serde(default)]
    pub tools: Arc<[ToolSchema]>,
    /// What it may do with them.
    #[serde(default)]
    pub tool_choice: ToolChoice,
    /// A JSON schema the answer must follow, for providers that can promise it.
    pub schema: Option<Json>,
    /// How often a call that failed before anybody saw a piece of it is tried again; 0 is never, absent
    /// the directory's policy.
    pub retries_max: Option<u32>,
    /// How long to wait before the second try; it doubles each time. Absent: the directory's policy.
    #[serde(default)]
    pub retry_delay: Option<Duration>,
    /// Whether an equal request that was answered before may be answered from memory.
    #[serde(default)]
    pub cached: bool,
    /// Whether anybody sees the pieces as they come. It changes nothing about the question, so it is no
    /// part of what is written down of it.
    #[serde(skip)]
    pub audience: Audience,
}

/// Whether somebody sees the pieces of an answer before it is whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Audience {
    /// What has come cannot be taken back.
    #[default]
    Listening,
    /// Only the whole answer counts: one that breaks off in the middle may begin anew
    /// ([`ChatDelta::Restarted`]).
    Nobody,
    /// It is written into a text from this place on: it may begin anew as long as nobody has read any of it.
    Readers(TextMark),
}

impl Audience {
    /// Those who read what is written there, or nobody.
    pub fn of(writer: Option<&TextWriter>) -> Self {
        writer.map_or(Self::Nobody, |writer| Self::Readers(writer.mark()))
    }

    /// Whether somebody has seen something that has come.
    pub fn has_heard(&self) -> bool {
        match self {
            Self::Listening => true,
            Self::Nobody => false,
            Self::Readers(mark) => mark.is_read_past(),
        }
    }

    /// Takes back what has come. Whether that was possible: nobody has seen it, and nobody will.
    pub fn take_back(&self) -> bool {
        match self {
            Self::Listening => false,
            Self::Nobody => true,
            Self::Readers(mark) => mark.take_back(),
        }
    }
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It was done.
    Stop,
    /// It ran into its token limit.
    Length,
    /// It waits for tools.
    ToolCalls,
    /// A filter stopped it.
    Filtered,
    /// The provider gave another reason or none.
    Other,
}

/// Tokens and calls. Adds up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the questions.
    pub prompt_tokens: u64,
    /// Tokens of the answers.
    pub completion_tokens: u64,
    /// Model calls.
    pub calls: u64,
    /// Of the tokens of the questions those that the provider had in its cache.
    #[serde(default, skip_serializing_if = "is_none")]
    pub cache_read_tokens: u64,
    /// Of the tokens of the questions those that the provider put into its cache.
    #[serde(default, skip_serializing_if = "is_none")]
    pub cache_write_tokens: u64,
    /// Of the tokens of the answers those of the reasoning.
    #[serde(default, skip_serializing_if = "is_none")]
    pub reasoning_tokens: u64,
}

/// Most providers say nothing of the parts, and most records hold none.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_none(tokens: &u64) -> bool {
    *tokens == 0
}

impl Usage {
    /// Tokens of questions and answers.
    pub fn total_tokens(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.prompt_tokens, other.prompt_tokens);
        add(&mut self.completion_tokens, other.completion_tokens);
        add(&mut self.calls, other.calls);
        add(&mut self.cache_read_tokens, other.cache_read_tokens);
        add(&mut self.cache_write_tokens, other.cache_write_tokens);
        add(&mut self.reasoning_tokens, other.reasoning_tokens);
    }
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ChatDelta {
    /// Part of the text.
    Text(String),
    /// Part of the reasoning, already without tags.
    Thinking(String),
    /// What the provider wants back of the answer so far; see [`ChatMessage::signature`].
    Signature(String),
    /// Part of a tool call: the pieces of one `index` belong together, in order.
    ToolCall {
        /// Which call of this answer.
        index: usize,
        /// In the first piece.
        id: Option<String>,
        /// In the first piece.
        name: Option<String>,
        /// The next part of the arguments' text.
        arguments: String,
    },
    /// Something worth knowing that is no failure, such as a parameter that was dropped.
    Warning(String),
    /// The answer begins anew: every piece before this one is void. Comes only where
    /// [`ChatRequest::audience`] is nobody.
    Restarted,
    /// From here on this model answers, because the one that was asked could not.
    AnsweredBy(Arc<ModelInfo>),
    /// The last delta of every answer.
    End {
        /// Why it stopped.
        reason: StopReason,
        /// What it used.
        usage: Usage,
    },
}

/// The deltas of one answer. It ends after `End` or with an error; dropping it stops the model.
pub type ChatStream = BoxStream<'static, Result<ChatDelta>>;

/// A language model.
///
/// An implementation streams text, reasoning and tool calls as typed deltas, ends every answer with
/// exactly one [`ChatDelta::End`], reports an error inside a stream as an error and never as a silent
/// end, and stops the provider's work when the stream is dropped.
#[async_trait]
pub trait ChatModel: Send + Sync {
    /// What it is.
    fn info(&self) -> &ModelInfo;

    /// Begins an answer.
    ///
    /// # Errors
    /// By kind: `Unauthenticated`, `RateLimited`, `Unavailable`, `Timeout`, `Invalid`, `Filtered`,
    /// `Garbled`.
    async fn chat(&self, request: ChatRequest) -> Result<ChatStream>;
}

/// Finds models by the `llm_id` a canvas names.
pub trait ModelDirectory: Send + Sync {
    /// The model for an id such as `deepseek-chat@DeepSeek`; empty means the default.
    ///
    /// # Errors
    /// `NotFound` with code `MODEL_NOT_CONFIGURED` in its text, naming what could be used instead.
    fn resolve(&self, tenant: &TenantId, llm_id: &str) -> Result<Arc<dyn ChatModel>>;

    /// A sentence that names both models, when [`ModelDirectory::resolve`] gives another one than `llm_id`
    /// names.
    fn substitution(&self, _tenant: &TenantId, _llm_id: &str) -> Option<String> {
        None
    }

    /// The model that turns texts into vectors, for an id such as `bge-m3@Ollama`; empty means the
    /// default one.
    ///
    /// # Errors
    /// As [`ModelDirectory::resolve`].
    fn embedder(&self, _tenant: &TenantId, id: &str) -> Result<Arc<dyn Embedder>> {
        Err(not_configured("embedding", id))
    }

    /// The model that orders passages, for an id such as `jina-reranker-v2@Jina`; empty means the
    /// default one.
    ///
    /// # Errors
    /// As [`ModelDirectory::resolve`].
    fn reranker(&self, _tenant: &TenantId, id: &str) -> Result<Arc<dyn Reranker>> {
        Err(not_configured("reranking", id))
    }

    /// Whether passages can be ordered by the model of an id: a sentence when it is not there and a search does without
    /// it.
    ///
    /// # Errors
    /// As [`ModelDirectory::reranker`], where a search must not go on without.
    fn reranker_notice(&self, tenant: &TenantId, id: &str) -> Result<Option<String>> {
        self.reranker(tenant, id).map(|_| None)
    }

    /// The model that reads texts aloud, for an id such as `tts-1@OpenAI`; empty means the default one.
    ///
    /// # Errors
    /// As [`ModelDirectory::resolve`].
    fn speech(&self, _tenant: &TenantId, id: &str) -> Result<Arc<dyn SpeechModel>> {
        Err(not_configured("reading aloud", id))
    }

    /// The model that writes down speech, for an id such as `whisper-1@OpenAI`; empty means the default one.
    ///
    /// # Errors
    /// As [`ModelDirectory::resolve`].
    fn transcription(&self, _tenant: &TenantId, id: &str) -> Result<Arc<dyn TranscriptionModel>> {
        Err(not_configured("writing down speech", id))
    }

    /// Every model that could be resolved.
    fn list(&self, tenant: &TenantId) -> Vec<ModelInfo>;

    /// What each of these models is named after behind an `@`, in the order of the list: `glm-4@ZHIPU-AI` is one of `ZHIPU-AI`.
    fn makers(&self, tenant: &TenantId) -> Vec<String> {
        self.list(tenant).into_iter().map(|model| model.provider).collect()
    }
}

/// Where there are no models.
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
