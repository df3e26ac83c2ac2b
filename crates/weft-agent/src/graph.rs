//! The agent loop as a graph of small nodes, each step of which is kept, for programs that embed the engine.
//!
//! ```text
//! init_state → memory_trigger → agent ─(calls)→ tools → agent
//!                                    └─────────→ finalize
//! ```
//!
//! A [`GraphAgent`] replies to messages in threads. The thread is the conversation: [`GraphState`], kept by a
//! [`Checkpointer`] after every node. When the process ends in the middle of a turn, [`GraphAgent::resume`] goes
//! on with it in another one, and neither a call of the model nor a tool that has given its result is called
//! again. A tool that was cut off in the middle is called again only when it is declared idempotent; otherwise
//! the model is told that nobody knows whether it was carried out.
//!
//! What decides is pure: [`next`] the edges, [`GraphState::apply`] what a node's [`Update`] changes,
//! [`GraphState::is_looping`] whether the model goes round in circles.

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

/// What follows when the last rounds of tool calls were alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterLoop {
    /// The model is asked once more, without tools, for an answer from what it has.
    #[default]
    Answer,
    /// The turn ends with a sentence that says so.
    Explain,
}

/// How a graph agent works.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphSettings {
    /// Rounds of tool calls in one turn, at most; then the model has to answer without tools.
    pub max_steps: u32,
    /// Rounds alike that make a loop, two at least.
    pub loop_window: usize,
    /// What follows then.
    pub after_loop: AfterLoop,
    /// How the calls of one message are made.
    pub tool_calls: ToolCalls,
    /// How answers are generated.
    pub sampling: Sampling,
    /// Tokens of a prompt, at most; absent: what the model's window has room for.
    pub prompt_tokens_max: Option<usize>,
    /// What one turn may use.
    pub budget: BudgetLimits,
    /// How long a turn waits, when all else is done, until what it has to remember is stored.
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

/// What one turn is to be like.
#[derive(Clone, Debug, Default)]
pub struct TurnOptions {
    /// Whose memories it may add to; without it those of the agent in this thread.
    pub owner: Option<Owner>,
    /// Ends the turn soon when it is cancelled: it then has the stop reason [`StopReason::Cancelled`].
    pub cancel: CancellationToken,
}

/// The reply of a turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphReply {
    /// The reply.
    pub reply: String,
    /// How the turn went.
    pub metadata: Metadata,
    /// What its requests have used in this process.
    pub usage: Usage,
    /// What is worth knowing and no failure, such as that a memory could not be stored.
    pub warnings: Vec<String>,
}

/// What a stream of a turn consists of: events, and the reply at its end.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamItem {
    /// An event.
    Event(GraphEvent),
    /// The reply.
    Reply(GraphReply),
}

/// An agent whose loop is a graph. Clones are the same agent.
#[derive(Clone)]
pub struct GraphAgent(Arc<Definition>);

/// What an agent is.
struct Definition {
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
    /// Begins an agent of this name that asks this model.
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

    /// Replies to a message in a thread. A turn that was cut off before is closed first.
    ///
    /// # Errors
    /// What the model fails with; the thread stands as it was after the last node then, and
    /// [`GraphAgent::resume`] tries again from there. `QuotaExceeded` when the budget is used up, what the
    /// checkpointer fails with, `Conflict` when two turns of one thread go on at the same time. Tools do not
    /// fail a turn: the model is told.
    pub async fn process_message(&self, thread: &str, message: impl Into<Message>) -> Result<GraphReply> {
        self.process_message_with(thread, message, TurnOptions::default()).await
    }

    /// The same in a particular way.
    ///
    /// # Errors
    /// As [`GraphAgent::process_message`].
    pub async fn process_message_with(
        &self,
        thread: &str,
        message: impl Into<Message>,
        options: TurnOptions,
    ) -> Result<GraphReply> {
        turn::whole(&self.0, thread, Some(message.into()), options).await
    }

    /// The same as events while it goes on, and the reply as the last item. The work is done while the stream is
    /// read; dropping it stops the work.
    pub fn process_message_stream(
        &self,
        thread: impl Into<String>,
        message: impl Into<Message>,
        options: TurnOptions,
    ) -> BoxStream<'static, Result<StreamItem>> {
        turn::streamed(Arc::clone(&self.0), thread.into(), Some(message.into()), options).boxed()
    }

    /// Goes on with a turn that was cut off, in this process or in another one. The reply of a turn that is over
    /// is given once more.
    ///
    /// # Errors
    /// As [`GraphAgent::process_message`]; `NotFound` when there is no such thread.
    pub async fn resume(&self, thread: &str, options: TurnOptions) -> Result<GraphReply> {
        turn::whole(&self.0, thread, None, options).await
    }

    /// The state of a thread; nothing when there is none of this name.
    ///
    /// # Errors
    /// What the checkpointer fails with.
    pub async fn state(&self, thread: &str) -> Result<Option<GraphState>> {
        Ok(self.0.checkpointer.latest(thread).await?.map(|saved| saved.state))
    }
}

/// An agent that is being put together.
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
    /// What the model is told first in every request.
    #[must_use]
    pub fn instructions(self, instructions: impl Into<String>) -> Self {
        Self { instructions: instructions.into(), ..self }
    }

    /// What it may call.
    #[must_use]
    pub fn toolkit(self, tools: Toolkit) -> Self {
        Self { tools, ..self }
    }

    /// How it works.
    #[must_use]
    pub fn settings(self, settings: GraphSettings) -> Self {
        Self { settings, ..self }
    }

    /// Where its threads are kept. Without it they are kept as long as the agent lives.
    #[must_use]
    pub fn checkpointer(self, checkpointer: Arc<dyn Checkpointer>) -> Self {
        Self { checkpointer: Some(checkpointer), ..self }
    }

    /// Where it stores what a user asks to be remembered. Without it nothing is stored.
    #[must_use]
    pub fn memory(self, memory: Arc<dyn LongTermMemory>) -> Self {
        Self { memory: Some(memory), ..self }
    }

    /// What its tools find around them. Without it there is a clock and nothing else.
    #[must_use]
    pub fn seams(self, seams: Arc<Seams>) -> Self {
        Self { seams: Some(seams), ..self }
    }

    /// The agent.
    ///
    /// # Errors
    /// `Invalid` for an empty name, and for a model that cannot call tools when there are some.
    pub fn build(self) -> Result<GraphAgent> {
        let Self { name, model, instructions, tools, settings, checkpointer, memory, seams } = self;
        if name.trim().is_empty() {
            return Err(Error::invalid("an agent needs a name"));
        }
        use weft_core::tool::ToolSession as _;
        // Found when the agent is made: in the first turn the provider would only say that the request is
        // wrong.
        if !model.info().tools && !tools.tools().is_empty() {
            let message = format!("the model `{}` cannot call tools", model.info().name);
            return Err(Error::invalid(message).help("choose another model"));
        }
        let checkpointer = checkpointer.unwrap_or_else(|| Arc::new(MemoryCheckpointer::new()));
        let seams = seams.unwrap_or_else(|| Arc::new(standalone::seams()));
        let name = name.into();
        let definition =
            Definition { name, instructions, model, tools, settings, checkpointer, memory, seams };
        Ok(GraphAgent(Arc::new(definition)))
    }
}
