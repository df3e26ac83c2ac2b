//! The input and output of every driver of the agent loop.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Map;
use weft_core::component::Suspension;
use weft_core::context::Limited;
use weft_core::seam::chat_model::{Audience, ChatMessage, ChatModel, ChatRequest, Sampling};
use weft_core::stream::TextWriter;
use weft_core::tool::ToolSession;
use weft_core::{Error, Json, NodeContext, Result, async_trait};

use crate::structured::Schema;
use crate::used::Used;
use crate::window::Line;

/// The format version of a suspended loop's state.
// Raised when a state written by an older program would be misread; a person's answer may come weeks later.
const FORMAT: u32 = 1;

/// Default maximum of tokens of one result in the conversation.
// About a long article: the usual window has room for several, and few results are longer.
pub const RESULT_TOKENS: usize = 10_000;

/// How an agent works, independent of its driver.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rounds of tool calls after the first one: up to one more than this many requests are made with tools and their
    /// calls carried out. Only then, and only when the last of them asked for calls, one request without tools
    /// follows.
    pub rounds_max: u32,
    /// Maximum number of parallel calls in one round.
    pub parallel: usize,
    /// How answers are generated.
    pub sampling: Sampling,
    /// Retries of a model call after the first try; absent: as in the model's settings.
    pub retries: Option<u32>,
    /// How long to wait before the second try; absent: the model's own policy.
    pub retry_delay: Option<std::time::Duration>,
    /// Whether equal requests may be answered from a cache.
    pub cached: bool,
    /// The form of the answer.
    pub schema: Option<Arc<Schema>>,
    /// The rules for citations in the answer; absent when it must not cite.
    pub citing: Option<String>,
    /// Whether calls and their results are part of the visible text.
    pub verbose: bool,
    /// How long a person may take to approve something, in seconds; unlimited when absent. No answer counts as a
    /// refusal.
    pub approval_timeout: Option<u64>,
    /// Maximum tokens of one result in the conversation; a longer one goes to a file that the model reads in parts.
    /// Results that answers cite stay as they are.
    pub result_tokens: usize,
    /// How the planner works.
    pub planner: PlannerOptions,
}

impl Options {
    /// Maximum number of requests with tools, if there are any. One more than `rounds_max`: canvases from other
    /// editors say 1 and rely on a second try.
    pub fn requests_with_tools(&self) -> u32 {
        self.rounds_max.saturating_add(1)
    }

    /// How often an answer that does not match its schema may be corrected.
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
    /// Whether the model analyses the task first; otherwise the prompt has only instructions and request.
    pub analyse: bool,
    /// Whether a person has to approve the analysis before any tool is called.
    pub review: bool,
    /// Whether the model reflects on the results of tools; otherwise it only sees them.
    pub reflect: bool,
    /// Replacements for our own instructions, by stage.
    pub prompts: Overrides,
    /// The language of a rewritten question; absent: the user's.
    pub language: Option<String>,
    /// Yesterday, today and tomorrow, as `YYYY-MM-DD`.
    pub days: [String; 3],
}

/// Instructions from a canvas that replace our own, by stage.
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

/// One task for a driver.
pub struct Job<'a> {
    /// The agent's activation. Its budget is the agent's own.
    pub ctx: &'a Arc<NodeContext>,
    /// The model.
    pub model: &'a dyn ChatModel,
    /// The tools.
    pub tools: &'a dyn ToolSession,
    /// How the agent works.
    pub options: &'a Options,
    /// Where visible text is written as it arrives.
    pub writer: Option<&'a TextWriter>,
}

impl Job<'_> {
    /// The audience of the model's pieces as they arrive.
    pub fn audience(&self) -> Audience {
        Audience::of(self.writer)
    }

    /// A request with these messages and the settings of the options. It offers no tools.
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

/// How a driver starts.
#[derive(Debug)]
pub enum Start {
    /// With a conversation: instructions, history, question.
    Conversation(Vec<Line>),
    /// From the state in which it was suspended to wait for a person.
    Resumed {
        /// The state it saved.
        state: Json,
        /// The answers of people, by task.
        answers: Map<String, Json>,
    },
}

/// The result of a driver.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Everything said, or the last text before the value was found.
    pub text: String,
    /// The value, when there is a schema.
    pub structured: Option<Json>,
    /// The calls that were made, in order.
    pub used: Vec<Used>,
    /// The limit that cut the work short, if any.
    pub limited: Option<Limited>,
}

/// How a driver stopped.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// With an answer.
    Answered(Answer),
    /// Suspended until a person answers.
    Suspended(Suspension),
}

/// A way to run the agent loop.
#[async_trait]
pub trait Driver: Send + Sync {
    /// Works until there is an answer or a person has to decide.
    ///
    /// # Errors
    /// The model's errors, `QuotaExceeded` when a budget is used up, `Cancelled`.
    async fn run(&self, job: &Job<'_>, start: Start) -> Result<End>;
}

/// The state of a suspended loop, with the name of its driver so that no other driver reads it.
#[derive(Serialize, Deserialize)]
struct SuspendedDriver<T> {
    format: u32,
    driver: String,
    state: T,
}

/// Serializes a state for [`Suspension::state`].
///
/// # Errors
/// `Internal` when it cannot be written as JSON.
pub fn keep<T: Serialize>(driver: &str, state: &T) -> Result<Json> {
    serde_json::to_value(SuspendedDriver { format: FORMAT, driver: driver.to_owned(), state })
        .map_err(|cause| Error::internal("cannot store the state of the agent").because(cause))
}

/// Deserializes a state written by [`keep`].
///
/// # Errors
/// `Conflict` when it was written by another driver or another version of this program.
pub fn kept<T: for<'de> Deserialize<'de>>(driver: &str, state: Json) -> Result<T> {
    let refuse = |cause: Option<serde_json::Error>| {
        let error = Error::new(
            weft_core::ErrorKind::Conflict,
            "the state of the agent was stored by another version",
        );
        let error = error.help("start a new turn");
        match cause {
            Some(cause) => error.because(cause),
            None => error,
        }
    };
    let kept: SuspendedDriver<T> = serde_json::from_value(state).map_err(|cause| refuse(Some(cause)))?;
    // A canvas may have been changed to another driver while its run was suspended.
    if kept.format == FORMAT && kept.driver == driver { Ok(kept.state) } else { Err(refuse(None)) }
}
