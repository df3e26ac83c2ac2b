//! What every driver of the agent loop is given and gives back.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Map;
use weft_core::component::Suspension;
use weft_core::context::Limited;
use weft_core::seam::chat_model::{Audience, ChatMessage, ChatModel, ChatRequest, Sampling};
use weft_core::stream::TextWriter;
use weft_core::tool::ToolSession;
use weft_core::{Error, Json, NodeContext, Result};

use crate::calls::Used;
use crate::structured::Schema;
use crate::window::Line;

/// The format of what a suspended loop remembers.
// Raised when a state that an older program wrote would be misread; a person's answer may come weeks later.
const FORMAT: u32 = 1;

/// Tokens of one result in the conversation unless somebody says otherwise.
// About a long article: the usual window has room for several, and few results are longer.
pub const RESULT_TOKENS: usize = 10_000;

/// How an agent works, whatever its driver.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rounds of tool calls after the first one: so many requests and one more are made with tools and
    /// their calls carried out. Only then, and only when the last of them asked for calls, one without
    /// tools follows.
    pub rounds_max: u32,
    /// Calls of one round that are made side by side, at most.
    pub parallel: usize,
    /// How answers are generated.
    pub sampling: Sampling,
    /// Tries of a model call after the first; absent: as many as the model's settings say.
    pub retries: Option<u32>,
    /// How long to wait before the second try; absent: the model's own policy.
    pub retry_delay: Option<std::time::Duration>,
    /// Whether equal requests may be answered from memory.
    pub cached: bool,
    /// What the answer has to look like.
    pub schema: Option<Arc<Schema>>,
    /// The rules by which the answer cites; absent when it must not.
    pub citing: Option<String>,
    /// Whether calls and their results are part of the visible text.
    pub verbose: bool,
    /// How long a person may take to agree to something, in seconds; for ever without it. No answer is a no.
    pub approval_timeout: Option<u64>,
    /// Tokens of one result in the conversation; a longer one goes to a file that the model reads by parts. Results that
    /// answers cite stay as they are.
    pub result_tokens: usize,
    /// How the planner works.
    pub planner: PlannerOptions,
}

impl Options {
    /// Requests with tools, at most, when there are any: canvases that come from other editors say 1 and
    /// rely on a second try.
    pub fn requests_with_tools(&self) -> u32 {
        self.rounds_max.saturating_add(1)
    }

    /// How often an answer that does not keep to its schema may be put right.
    pub fn repairs(&self) -> u32 {
        self.retries.unwrap_or(0).saturating_add(1)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rounds_max: 5,
            parallel: 5,
            sampling: Sampling::default(),
            retries: None,
            retry_delay: None,
            cached: false,
            schema: None,
            citing: None,
            verbose: false,
            approval_timeout: None,
            result_tokens: RESULT_TOKENS,
            planner: PlannerOptions::default(),
        }
    }
}

/// How the planner works.
#[derive(Clone, Debug, Default)]
pub struct PlannerOptions {
    /// Whether the model analyses the task first; otherwise instructions and request are all there is.
    pub analyse: bool,
    /// Whether a person has to agree to the analysis before any tool is called.
    pub review: bool,
    /// Whether the model reflects on what tools gave; otherwise it only sees it.
    pub reflect: bool,
    /// What replaces our own instructions for a stage.
    pub prompts: Overrides,
    /// The language that a rewritten question has; absent: the user's.
    pub language: Option<String>,
    /// Today as people write it, `YYYY-MM-DD`, with the days before and after.
    pub days: [String; 3],
}

/// Instructions of a canvas in the place of our own, by stage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// `TASK_ANALYSIS`
    pub task_analysis: Option<String>,
    /// `PLAN_GENERATION`
    pub plan_generation: Option<String>,
    /// `REFLECTION`
    pub reflection: Option<String>,
    /// `CITATION_GUIDELINES`
    pub citation_guidelines: Option<String>,
}

/// One piece of work for a driver.
pub struct Job<'a> {
    /// The agent's activation. Its budget is the agent's own.
    pub ctx: &'a Arc<NodeContext>,
    /// The model.
    pub model: &'a dyn ChatModel,
    /// The tools.
    pub tools: &'a dyn ToolSession,
    /// How.
    pub options: &'a Options,
    /// Where visible text goes while it is being written.
    pub writer: Option<&'a TextWriter>,
}

impl Job<'_> {
    /// Who sees the model's pieces as they come.
    pub fn audience(&self) -> Audience {
        Audience::of(self.writer)
    }

    /// A request with these messages that is made as the options say. It offers no tools.
    pub(crate) fn request(&self, messages: Vec<ChatMessage>) -> ChatRequest {
        ChatRequest {
            messages,
            sampling: self.options.sampling.clone(),
            retries_max: self.options.retries,
            retry_delay: self.options.retry_delay,
            cached: self.options.cached,
            audience: self.audience(),
            ..ChatRequest::default()
        }
    }
}

/// Where a driver begins.
#[derive(Debug)]
pub enum Start {
    /// With a conversation: instructions, history, question.
    Conversation(Vec<Line>),
    /// Where it stopped to wait for a person.
    Resumed {
        /// What it had to remember.
        state: Json,
        /// What people have answered, by task.
        answers: Map<String, Json>,
    },
}

/// What a driver gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Everything said, or the last text before the value was found.
    pub text: String,
    /// The value, when there is a schema.
    pub structured: Option<Json>,
    /// The calls made, in order.
    pub used: Vec<Used>,
    /// What cut the work short, if anything.
    pub limited: Option<Limited>,
}

/// How a driver ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// With an answer.
    Answered(Answer),
    /// It waits for a person.
    Suspended(Suspension),
}

/// A way to run the agent loop.
#[async_trait]
pub trait Driver: Send + Sync {
    /// Works until there is an answer or a person has to decide.
    ///
    /// # Errors
    /// What the model fails with, `QuotaExceeded` when a budget is used up, `Cancelled`.
    async fn run(&self, job: &Job<'_>, start: Start) -> Result<End>;
}

/// What a suspended loop remembers, with the name of its driver, so that no other one reads it.
#[derive(Serialize, Deserialize)]
struct Kept<T> {
    format: u32,
    driver: String,
    state: T,
}

/// Puts a state into words for [`Suspension::state`].
///
/// # Errors
/// `Internal` when it cannot be written as JSON.
pub fn keep<T: Serialize>(driver: &str, state: &T) -> Result<Json> {
    serde_json::to_value(Kept { format: FORMAT, driver: driver.to_owned(), state })
        .map_err(|cause| Error::internal("cannot write down what the agent was doing").because(cause))
}

/// Reads a state again.
///
/// # Errors
/// `Conflict` when it was written by another driver or another version of this program.
pub fn kept<T: for<'de> Deserialize<'de>>(driver: &str, state: Json) -> Result<T> {
    let refuse = |cause: Option<serde_json::Error>| {
        let error = Error::new(
            weft_core::ErrorKind::Conflict,
            "what the agent was doing was written by another version",
        );
        let error = error.help("start a new turn");
        match cause {
            Some(cause) => error.because(cause),
            None => error,
        }
    };
    let kept: Kept<T> = serde_json::from_value(state).map_err(|cause| refuse(Some(cause)))?;
    // A canvas may have been changed to another driver while its run waited.
    if kept.format == FORMAT && kept.driver == driver { Ok(kept.state) } else { Err(refuse(None)) }
}
