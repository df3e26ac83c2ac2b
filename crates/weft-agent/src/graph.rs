//! The agent loop as a graph of small nodes whose state is saved after each step, for programs that embed the engine.
//!
//! ```text
//! init_state → memory_trigger → agent ─(calls)→ tools → agent
//!                                    └─────────→ finalize
//! ```
//!
//! A [`GraphAgent`] replies to messages in threads. A thread is a conversation: a [`GraphState`] that a
//! [`Checkpointer`] saves after every node. When the process ends in the middle of a turn, [`GraphAgent::resume`]
//! continues it in another process, without repeating any model call or tool call whose result is known. A tool call
//! that was interrupted is repeated only if the tool is declared idempotent; otherwise the model is told that it is
//! unknown whether it was carried out.
//!
//! All decisions are pure functions: [`next`] follows the edges, [`GraphState::apply`] applies a node's [`Update`],
//! [`GraphState::is_looping`] detects whether the model goes round in circles.

mod checkpoint;
mod events;
mod explanation;
mod nodes;
mod state;
mod topology;
mod turn;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt as _};
use tokio_util::sync::CancellationToken;
use weft_core::budget::BudgetLimits;
use weft_core::seam::Seams;
use weft_core::seam::chat_model::{ChatModel, Sampling, Usage};
use weft_core::{Error, Result};

use crate::long_term::{LongTermMemory, Owner};
use crate::message::Message;
use crate::react::ToolCalls;
use crate::standalone;
use crate::toolkit::Toolkit;

pub use checkpoint::{
    CallNote, Checkpoint, Checkpointer, FolderCheckpointer, MemoryCheckpointer, Saved, THREAD_MAX, VERSION,
};
pub use events::{EVENT_RESULT_MAX, EventKind, GraphEvent};
pub use state::{GraphState, Metadata, STATUS, StopReason, ToolCallRecord, Update};
pub use topology::{EDGES, Edge, EdgeKind, Node, next, to_mermaid};

/// What happens when the last rounds of tool calls were alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterLoop {
    /// The model is asked once more, without tools, to answer with what it has.
    #[default]
    Answer,
    /// The turn ends with a sentence that explains it.
    Explain,
}

/// How a graph agent works.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphSettings {
    /// Maximum number of rounds of tool calls in one turn; after that the model has to answer without tools.
    pub max_steps: u32,
    /// How many similar rounds make a loop, at least two.
    pub loop_window: usize,
    /// What happens then.
    pub after_loop: AfterLoop,
    /// How the calls of one message are made.
    pub tool_calls: ToolCalls,
    /// How answers are generated.
    pub sampling: Sampling,
    /// Maximum tokens of a prompt; absent: as many as fit in the model's window.
    pub prompt_tokens_max: Option<usize>,
    /// Limits of what one turn may use.
    pub budget: BudgetLimits,
    /// How long a turn waits at its end until its memories are stored.
    pub memory_time_limit: Duration,
}

impl Default for GraphSettings {
    fn default() -> Self {
        Self {
            max_steps: 10,
            loop_window: 2,
            after_loop: AfterLoop::default(),
            tool_calls: ToolCalls::default(),
            sampling: Sampling::default(),
            prompt_tokens_max: None,
            budget: BudgetLimits::default(),
            memory_time_limit: Duration::from_secs(10),
        }
    }
}

/// Options of a single turn.
#[derive(Clone, Debug, Default)]
pub struct TurnOptions {
    /// The owner of memories that it adds; absent: the agent in this thread.
    pub owner: Option<Owner>,
    /// When cancelled, ends the turn soon, with the stop reason [`StopReason::Cancelled`].
    pub cancel: CancellationToken,
}

/// The result of a turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphReply {
    /// The text of the reply.
    pub reply: String,
    /// A summary of the turn.
    pub metadata: Metadata,
    /// The usage of its requests in this process.
    pub usage: Usage,
    /// Problems that did not fail the turn, such as a memory that could not be stored.
    pub warnings: Vec<String>,
}

/// An item of a turn's stream: an event, or the reply at its end.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamItem {
    /// An event.
    Event(GraphEvent),
    /// The reply.
    Reply(GraphReply),
}

/// An agent whose loop is a graph. Clones are the same agent.
#[derive(Clone)]
pub struct GraphAgent(Arc<GraphDefinition>);

/// The definition of an agent.
struct GraphDefinition {
    name: Arc<str>,
    instructions: String,
    model: Arc<dyn ChatModel>,
    tools: Toolkit,
    settings: GraphSettings,
    checkpointer: Arc<dyn Checkpointer>,
    memory: Option<Arc<dyn LongTermMemory>>,
    seams: Arc<Seams>,
}

impl fmt::Debug for GraphAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphAgent").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl GraphAgent {
    /// Starts building an agent with this name that asks this model.
    pub fn builder(name: impl Into<String>, model: Arc<dyn ChatModel>) -> GraphAgentBuilder {
        GraphAgentBuilder {
            name: name.into(),
            model,
            instructions: String::new(),
            tools: Toolkit::new(),
            settings: GraphSettings::default(),
            checkpointer: None,
            memory: None,
            seams: None,
        }
    }

    /// Replies to a message in a thread. An unfinished previous turn is closed first.
    ///
    /// # Errors
    /// The model's errors; the thread then stays as it was after the last node, and [`GraphAgent::resume`] tries
    /// again from there. `QuotaExceeded` when the budget is used up, the errors of the checkpointer, `Conflict` when
    /// two turns of one thread run at the same time. Tools do not fail a turn: the model is told.
    pub async fn process_message(&self, thread: &str, message: impl Into<Message>) -> Result<GraphReply> {
        self.process_message_with(thread, message, TurnOptions::default()).await
    }

    /// Same as [`GraphAgent::process_message`], with options.
    ///
    /// # Errors
    /// As for [`GraphAgent::process_message`].
    pub async fn process_message_with(
        &self,
        thread: &str,
        message: impl Into<Message>,
        options: TurnOptions,
    ) -> Result<GraphReply> {
        turn::whole(&self.0, thread, Some(message.into()), options).await
    }

    /// Same as [`GraphAgent::process_message_with`], as a stream of events with the reply as the last item. The work
    /// is done while the stream is read; dropping it stops the work.
    pub fn process_message_stream(
        &self,
        thread: impl Into<String>,
        message: impl Into<Message>,
        options: TurnOptions,
    ) -> BoxStream<'static, Result<StreamItem>> {
        turn::streamed(Arc::clone(&self.0), thread.into(), Some(message.into()), options).boxed()
    }

    /// Continues an unfinished turn, in this process or in another one. If the turn has ended, returns its reply
    /// again.
    ///
    /// # Errors
    /// As for [`GraphAgent::process_message`]; `NotFound` when there is no such thread.
    pub async fn resume(&self, thread: &str, options: TurnOptions) -> Result<GraphReply> {
        turn::whole(&self.0, thread, None, options).await
    }

    /// The state of a thread; `None` when there is no thread of this name.
    ///
    /// # Errors
    /// The errors of the checkpointer.
    pub async fn state(&self, thread: &str) -> Result<Option<GraphState>> {
        Ok(self.0.checkpointer.latest(thread).await?.map(|saved| saved.state))
    }
}

/// Builds an agent.
#[derive(Clone)]
pub struct GraphAgentBuilder {
    name: String,
    model: Arc<dyn ChatModel>,
    instructions: String,
    tools: Toolkit,
    settings: GraphSettings,
    checkpointer: Option<Arc<dyn Checkpointer>>,
    memory: Option<Arc<dyn LongTermMemory>>,
    seams: Option<Arc<Seams>>,
}

impl fmt::Debug for GraphAgentBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphAgentBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

impl GraphAgentBuilder {
    /// Instructions for the model, at the start of every request.
    #[must_use]
    pub fn instructions(self, instructions: impl Into<String>) -> Self {
        Self { instructions: instructions.into(), ..self }
    }

    /// The tools it may call.
    #[must_use]
    pub fn toolkit(self, tools: Toolkit) -> Self {
        Self { tools, ..self }
    }

    /// Replaces its settings.
    #[must_use]
    pub fn settings(self, settings: GraphSettings) -> Self {
        Self { settings, ..self }
    }

    /// Where its threads are stored. Without it they exist as long as the agent.
    #[must_use]
    pub fn checkpointer(self, checkpointer: Arc<dyn Checkpointer>) -> Self {
        Self { checkpointer: Some(checkpointer), ..self }
    }

    /// Where it stores what a user asks it to remember. Without it nothing is stored.
    #[must_use]
    pub fn memory(self, memory: Arc<dyn LongTermMemory>) -> Self {
        Self { memory: Some(memory), ..self }
    }

    /// The environment of its tools. Without it there is only a clock.
    #[must_use]
    pub fn seams(self, seams: Arc<Seams>) -> Self {
        Self { seams: Some(seams), ..self }
    }

    /// Builds the agent.
    ///
    /// # Errors
    /// `Invalid` for an empty name, and for tools with a model that cannot call tools.
    pub fn build(self) -> Result<GraphAgent> {
        let Self { name, model, instructions, tools, settings, checkpointer, memory, seams } = self;
        if name.trim().is_empty() {
            return Err(Error::invalid("an agent needs a name"));
        }
        use weft_core::tool::ToolSession as _;
        // Checked when the agent is built: in the first turn the provider would only report an invalid request.
        if !model.info().tools && !tools.tools().is_empty() {
            let message = format!("the model `{}` cannot call tools", model.info().name);
            return Err(Error::invalid(message).help("choose another model"));
        }
        let checkpointer = checkpointer.unwrap_or_else(|| Arc::new(MemoryCheckpointer::new()));
        let seams = seams.unwrap_or_else(|| Arc::new(standalone::seams()));
        let name = name.into();
        let definition =
            GraphDefinition { name, instructions, model, tools, settings, checkpointer, memory, seams };
        Ok(GraphAgent(Arc::new(definition)))
    }
}
