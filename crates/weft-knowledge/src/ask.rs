//! What a search, and the building of contents and graphs, may ask a language model.

use std::time::Duration;

use futures::StreamExt as _;
use weft_agent::arguments;
use weft_core::seam::chat_model::{Audience, Author, ChatDelta, ChatMessage, ChatRequest, Sampling};
use weft_core::seam::{ChatModel, ModelDirectory};
use weft_core::{Error, ErrorKind, Json, Result, TenantId, async_trait};

/// Sampling temperature for auxiliary requests, which should follow their instructions closely.
// As low as in the engine whose auxiliary requests these replace.
const TEMPERATURE: f64 = 0.2;
/// Maximum size of one answer, in bytes.
const ANSWER_MAX: usize = 1 << 20;

/// What a model is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Conditions on metadata.
    Filter,
    /// The question in other languages.
    Translate,
    /// Words that a good passage would contain.
    Keywords,
    /// Which entries of a table of contents are relevant to the question.
    ContentsChoice,
    /// The headings of a document that marks none.
    Contents,
    /// What a question to a graph is about.
    GraphQuestion,
    /// Entities and relations of a text.
    Graph,
    /// The subject of a text, with branches and details.
    MindMap,
}

impl Step {
    /// Returns the purpose of the step, for messages.
    pub fn purpose(self) -> &'static str {
        match self {
            Self::Filter => "choosing a filter",
            Self::Translate => "translating the question",
            Self::Keywords => "finding keywords",
            Self::ContentsChoice => "choosing from the table of contents",
            Self::Contents => "finding headings",
            Self::GraphQuestion => "reading the question for the graph",
            Self::Graph => "finding entities and relations",
            Self::MindMap => "drawing a mind map",
        }
    }
}

/// A language model, as far as a search needs one, and the time.
///
/// An implementation that is part of a run records its answers, so that repeated work asks nothing twice, and
/// counts what it uses.
#[async_trait]
pub trait Ask: Send + Sync {
    /// Returns the text of the model's answer, without its reasoning.
    ///
    /// # Errors
    /// The model's error; `QuotaExceeded` when nothing more may be asked.
    async fn ask(&self, step: Step, instructions: &str, question: &str) -> Result<String>;

    /// Returns the time, in milliseconds since 1970.
    ///
    /// # Errors
    /// `Interrupted` when the work is replayed from a recording that lacks the time.
    async fn now_ms(&self) -> Result<i64>;
}

/// Time limit of one answer.
const ANSWER_TIME: Duration = Duration::from_secs(120);

/// A model asked outside of any run: for a search over HTTP or from the command line, and for what is built
/// from documents. The model is resolved when it is asked, so that a search that needs none works without
/// one.
#[derive(Clone, Copy)]
pub struct Direct<'a> {
    /// Resolves models.
    pub models: &'a dyn ModelDirectory,
    /// The tenant that asks.
    pub tenant: &'a TenantId,
    /// The model's id; empty means the default model.
    pub llm_id: &'a str,
    /// The time, in milliseconds since 1970.
    pub now_ms: i64,
}

#[async_trait]
impl Ask for Direct<'_> {
    async fn ask(&self, step: Step, instructions: &str, question: &str) -> Result<String> {
        let answer = tokio::time::timeout(ANSWER_TIME, self.answer(instructions, question)).await;
        answer.unwrap_or_else(|_| {
            let message = format!("the model did not answer in time while {}", step.purpose());
            Err(Error::new(ErrorKind::Timeout, message))
        })
    }

    async fn now_ms(&self) -> Result<i64> {
        Ok(self.now_ms)
    }
}

impl Direct<'_> {
    async fn answer(&self, instructions: &str, question: &str) -> Result<String> {
        answer(&*self.models.resolve(self.tenant, self.llm_id)?, request(instructions, question)).await
    }
}

/// Returns the whole answer of a model.
///
/// # Errors
/// As [`ChatModel::chat`]; `Garbled` for an answer that breaks off or does not end.
pub(crate) async fn answer(model: &dyn ChatModel, request: ChatRequest) -> Result<String> {
    if !model.info().writes() {
        return Err(Error::new(ErrorKind::Unsupported, "no language model is configured"));
    }
    let mut deltas = model.chat(request).await?;
    let mut answer = String::new();
    while let Some(delta) = deltas.next().await.transpose()? {
        match delta {
            ChatDelta::Text(text) => answer.push_str(&text),
            ChatDelta::End { .. } => return Ok(answer),
            ChatDelta::Restarted => answer.clear(),
            ChatDelta::Thinking(_)
            | ChatDelta::Signature(_)
            | ChatDelta::ToolCall { .. }
            | ChatDelta::AnsweredBy(_)
            | ChatDelta::Paused { .. }
            | ChatDelta::Warning(_) => {}
        }
        if answer.len() > ANSWER_MAX {
            return Err(Error::new(ErrorKind::Garbled, "the model's answer ended early"));
        }
    }
    // Without an end the answer was cut off, and half an answer may read like a whole one.
    Err(Error::new(ErrorKind::Garbled, "the model's answer stopped unexpectedly"))
}

/// Builds the request to a model.
pub fn request(instructions: &str, question: &str) -> ChatRequest {
    ChatRequest {
        messages: vec![
            ChatMessage::new(Author::System, instructions.to_owned()),
            ChatMessage::new(Author::User, question.to_owned()),
        ],
        sampling: Sampling { temperature: Some(TEMPERATURE), ..Sampling::default() },
        audience: Audience::Nobody,
        ..ChatRequest::default()
    }
}

/// Asks for JSON and parses the answer leniently. The inner error is one that a search continues without.
///
/// # Errors
/// An error that ends the whole work: it was cancelled, its budget is used up, or a recording lacks the answer.
pub async fn ask_json(
    model: &dyn Ask,
    step: Step,
    instructions: &str,
    question: &str,
) -> Result<Result<Json>> {
    let answer = match model.ask(step, instructions, question).await {
        Ok(answer) => answer,
        Err(error) if ends_the_work(error.kind) => return Err(error),
        Err(error) => return Ok(Err(error)),
    };
    Ok(arguments::parse(&answer).map(|parsed| parsed.value))
}

/// Whether such a failure ends the whole work. A model that does not exist is an error to be reported, not
/// one to continue without.
pub fn ends_the_work(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Cancelled | ErrorKind::QuotaExceeded | ErrorKind::Interrupted | ErrorKind::NotFound
    )
}

/// Whether such a failure may be gone when the same request is made later.
pub fn passes(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::RateLimited | ErrorKind::Timeout | ErrorKind::Unavailable | ErrorKind::Internal)
}

/// Returns the error for an answer that is not what was asked for.
pub(crate) fn unexpected(what: &str) -> Error {
    Error::new(ErrorKind::Garbled, format!("the model was asked for {what} but answered something else"))
}
