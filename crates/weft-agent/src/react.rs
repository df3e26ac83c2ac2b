//! The agent for programs that embed the engine: it reasons and acts in turns, and ends a reply by calling a
//! function.
//!
//! A [`ReActAgent`] defines an agent: model, instructions, tools, settings, hooks. A [`Session`] is one conversation
//! with it, with its own memory; any number of them may run concurrently. The loop of calls, the validation of
//! arguments and the limits are those of the agents on a canvas ([`crate::calls`], [`crate::toolkit`],
//! [`crate::ask`], [`crate::window`]).

mod acting;
mod ask_user;
mod background;
mod compress;
mod draft;
mod equip;
mod finish;
mod format;
mod guardrails;
mod hooks;
mod inbox;
mod print;
mod printed;
mod remember;
mod retrieve;
mod session;
mod summary;
mod turn;

use std::fmt;
use std::sync::Arc;

use weft_core::budget::BudgetLimits;
use weft_core::seam::Seams;
use weft_core::seam::chat_model::{ChatModel, Sampling, ToolChoice};
use weft_core::tool::{BASIC_GROUP, ToolSession as _};
use weft_core::{Error, ErrorKind, Result, Tool};

use crate::long_term::{LongTermMemory, Owner};
use crate::plan_notebook::{Notebook, PLAN_GROUP, PlanNotebook};
use crate::standalone;
use crate::toolkit::{Group, Toolkit};
use background::Tasks;
use equip::equip_tool;
use remember::AgentMemory;

pub use ask_user::{ASK_FUNCTION, QUESTIONS_OPEN_MAX, UserQuestion, UserQuestions};
pub use background::{
    BackgroundTask, CANCEL_FUNCTION, TASKS_KEPT_MAX, TASKS_RUNNING_MAX, TaskStatus, VIEW_FUNCTION,
    WAIT_FUNCTION,
};
pub use compress::{Compression, KEEP_RECENT};
pub(crate) use draft::Draft;
pub use equip::EQUIP_FUNCTION;
pub use finish::{FINISH_FUNCTION, StructuredOutput};
pub use format::Formatter;
pub(crate) use format::call;
pub use guardrails::{GuardPoint, Verdict};
pub use hooks::{HookContext, HookList, Hooks, ReasoningInput, ToolResponse};
pub use inbox::{INBOX_MAX, Inbox};
pub use print::{MESSAGES_QUEUED_MAX, MessageQueue, PrintedMessages, message_queue};
pub use printed::PrintedMessage;
pub use remember::MemoryControl;
pub use retrieve::{KnowledgeBase, KnowledgeDocument, QueryRewrite};
pub use session::{Interrupt, Session, SessionState};
pub use summary::Summary;

/// How the calls of one message are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolCalls {
    /// One after another, in order.
    #[default]
    Sequential,
    /// In parallel, except for tools that have to run alone. Their results are still remembered in the order of the
    /// calls.
    Parallel,
}

/// How messages of the model are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Once, when they are complete.
    #[default]
    Whole,
    /// With every piece, and once more when they are complete.
    Streamed,
}

/// How the model ends a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FinishStyle {
    /// By calling the finish function; a message of text alone is converted to such a call.
    #[default]
    Function,
    /// With a message of text alone, which takes fewer tokens. The finish function is offered only where a reply has
    /// to include a structured value.
    Text,
}

/// Whether the user sees the hints that are meant for the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hints {
    /// They do not.
    #[default]
    Hidden,
    /// They do.
    Printed,
}

/// Predefined combinations of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// 10 iterations, sequential calls, whole messages. The default settings.
    Basic,
    /// 20 iterations, parallel calls, streamed messages.
    Fast,
    /// 3 iterations, sequential calls, whole messages, hints shown.
    Debug,
}

/// How an agent works.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How often the model may be asked for calls in one reply; after that it has to sum up.
    pub max_iters: u32,
    /// How the calls of one message are made.
    pub tool_calls: ToolCalls,
    /// How messages of the model are shown.
    pub output: Output,
    /// Whether the user sees the hints that are meant for the model.
    pub hints: Hints,
    /// How the model ends a reply.
    pub finish: FinishStyle,
    /// How answers are generated.
    pub sampling: Sampling,
    /// Maximum tokens of a prompt; absent: as many as fit in the model's window.
    pub prompt_tokens_max: Option<usize>,
    /// How the prompt of a long conversation is kept short.
    pub compression: Compression,
    /// Limits of what one reply may use.
    pub budget: BudgetLimits,
}

impl Settings {
    /// The settings of a preset.
    pub fn of(preset: Preset) -> Self {
        let (max_iters, tool_calls, output, hints) = match preset {
            Preset::Basic => (10, ToolCalls::Sequential, Output::Whole, Hints::Hidden),
            Preset::Fast => (20, ToolCalls::Parallel, Output::Streamed, Hints::Hidden),
            Preset::Debug => (3, ToolCalls::Sequential, Output::Whole, Hints::Printed),
        };
        Self {
            max_iters,
            tool_calls,
            output,
            hints,
            finish: FinishStyle::default(),
            sampling: Sampling::default(),
            prompt_tokens_max: None,
            compression: Compression::default(),
            budget: BudgetLimits::default(),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::of(Preset::Basic)
    }
}

/// Options of a single reply.
#[derive(Clone, Debug, Default)]
pub struct ReplyOptions {
    /// A value that the reply has to include. Its fields become parameters of the finish function, and the value is
    /// put in the reply's metadata.
    pub structured: Option<StructuredOutput>,
    /// Whether the model must call tools. A named tool is forced only in the first request of the reply; every other
    /// choice applies to all requests.
    pub tool_choice: ToolChoice,
}

/// An agent. Clones are the same agent: they share its tools and its hooks.
#[derive(Clone, Debug)]
pub struct ReActAgent(Arc<ReActDefinition>);

/// The definition of an agent.
struct ReActDefinition {
    name: Arc<str>,
    instructions: String,
    model: Arc<dyn ChatModel>,
    tools: Toolkit,
    settings: Settings,
    hooks: Hooks,
    seams: Arc<Seams>,
    extras: Extras,
}

/// Optional features of an agent.
#[derive(Clone, Default)]
struct Extras {
    /// Whether the model chooses its groups of tools.
    equips: bool,
    /// Maximum number of subtasks in a plan; present if there is a notebook.
    plans: Option<usize>,
    memory: Option<AgentMemory>,
    knowledge: Vec<Arc<dyn KnowledgeBase>>,
    rewrite: QueryRewrite,
    /// The model that summarizes long conversations; absent: the agent's own model.
    summary_model: Option<Arc<dyn ChatModel>>,
    /// Tools whose calls run in the background.
    background: Vec<Tool>,
}

impl ReActDefinition {
    /// The tools of a new session.
    ///
    /// # Errors
    /// `Conflict` when a tool of the agent has the name of one that is added here.
    fn equipped(&self, notebook: Option<&PlanNotebook>, tasks: &Tasks) -> Result<Toolkit> {
        // Each session switches groups on and off; in a shared toolkit this would affect all sessions.
        let tools = self.tools.fork();
        for tool in &self.extras.background {
            tools.register(tasks.starting(tool)?)?;
        }
        if !self.extras.background.is_empty() {
            for tool in tasks.tools()? {
                tools.register(tool)?;
            }
        }
        if let Some(memory) = self.extras.memory.as_ref().filter(|memory| memory.control.is_by_agent()) {
            for tool in memory.tools()? {
                tools.register(tool)?;
            }
        }
        if let Some(notebook) = notebook {
            let group = if self.extras.equips { PLAN_GROUP } else { BASIC_GROUP };
            if self.extras.equips {
                let description = "Making and following a plan for a task of several steps.".to_owned();
                tools.add_group(PLAN_GROUP, Group { active: false, description, notes: String::new() })?;
            }
            for tool in notebook.tools()? {
                tools.register(tool.in_group(group))?;
            }
        }
        if self.extras.equips || notebook.is_some() {
            equip_tool(&tools).map(|tool| tools.register(tool)).transpose()?;
        }
        Ok(tools)
    }

    fn notebook(&self, notebook: Notebook) -> Option<PlanNotebook> {
        let subtasks_max = self.extras.plans?;
        Some(PlanNotebook::new(notebook, subtasks_max, Arc::clone(&self.seams.clock)))
    }
}

impl fmt::Debug for ReActDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReActAgent")
            .field("name", &self.name)
            .field("tools", &self.tools)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl ReActAgent {
    /// Starts building an agent with this name that asks this model.
    pub fn builder(name: impl Into<String>, model: Arc<dyn ChatModel>) -> ReActAgentBuilder {
        ReActAgentBuilder {
            name: name.into(),
            model,
            instructions: String::new(),
            tools: Toolkit::new(),
            settings: Settings::default(),
            hooks: Hooks::new(),
            seams: None,
            extras: Extras::default(),
        }
    }

    /// Returns its name, which is also the author of its messages.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the settings that all its sessions use.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The hooks of all its sessions, including those that already exist. A session's own hooks run first.
    pub fn hooks(&self) -> &Hooks {
        &self.0.hooks
    }

    /// Starts a conversation. It has the tools that the agent has now; it activates and deactivates groups
    /// independently.
    pub fn session(&self) -> Session {
        Session::new(self.clone())
    }

    /// Continues a saved conversation.
    ///
    /// # Errors
    /// `Conflict` when the state belongs to another agent or was written by another version of this program,
    /// `NotFound` when a group of tools that was active no longer exists.
    pub fn resume(&self, state: SessionState) -> Result<Session> {
        Session::resumed(self.clone(), state)
    }
}

/// Builds an agent.
#[derive(Clone)]
pub struct ReActAgentBuilder {
    name: String,
    model: Arc<dyn ChatModel>,
    instructions: String,
    tools: Toolkit,
    settings: Settings,
    hooks: Hooks,
    seams: Option<Arc<Seams>>,
    extras: Extras,
}

impl fmt::Debug for ReActAgentBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReActAgentBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ReActAgentBuilder {
    /// Instructions for the model, at the start of every request.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = instructions.into();
        self
    }

    /// The tools it may call, besides the finish function.
    #[must_use]
    pub fn toolkit(mut self, tools: Toolkit) -> Self {
        self.tools = tools;
        self
    }

    /// Its settings: those of a preset, with changes if needed.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Uses the settings of a preset.
    #[must_use]
    pub fn preset(self, preset: Preset) -> Self {
        self.settings(Settings::of(preset))
    }

    /// Hooks that it shares with all other holders of a clone, such as all agents of a kind.
    #[must_use]
    pub fn hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = hooks;
        self
    }

    /// The environment of its tools: the clock, network access and so on. Without it there is only a clock.
    #[must_use]
    pub fn seams(mut self, seams: Arc<Seams>) -> Self {
        self.seams = Some(seams);
        self
    }

    /// Lets the model choose the groups of tools it needs, with [`EQUIP_FUNCTION`].
    #[must_use]
    pub fn with_meta_tool(mut self) -> Self {
        self.extras.equips = true;
        self
    }

    /// Gives each session a notebook for plans of up to `subtasks_max` subtasks, which the model makes and follows
    /// with tools; see [`crate::plan_notebook`]. With a meta tool, these tools are in the group [`PLAN_GROUP`].
    #[must_use]
    pub fn with_plan_notebook(mut self, subtasks_max: usize) -> Self {
        self.extras.plans = Some(subtasks_max);
        self
    }

    /// A memory that lasts beyond a session, and the owner of its content.
    #[must_use]
    pub fn long_term_memory(
        mut self,
        store: Arc<dyn LongTermMemory>,
        owner: Owner,
        control: MemoryControl,
    ) -> Self {
        self.extras.memory = Some(AgentMemory { store, owner, control });
        self
    }

    /// Searches this collection for the message at the start of each reply, in addition to those added before.
    #[must_use]
    pub fn knowledge(mut self, base: Arc<dyn KnowledgeBase>) -> Self {
        self.extras.knowledge.push(base);
        self
    }

    /// Whether the model rewrites the question for the search in its knowledge.
    #[must_use]
    pub fn query_rewrite(mut self, rewrite: QueryRewrite) -> Self {
        self.extras.rewrite = rewrite;
        self
    }

    /// The model that summarizes long conversations, for [`Compression::Summary`]. Without it, the agent's own model
    /// does.
    #[must_use]
    pub fn summary_model(mut self, model: Arc<dyn ChatModel>) -> Self {
        self.extras.summary_model = Some(model);
        self
    }

    /// Adds a tool whose calls run in the background. A call immediately returns the id of a task; the model inspects
    /// it, waits for it and stops it with [`VIEW_FUNCTION`], [`WAIT_FUNCTION`] and [`CANCEL_FUNCTION`], and is
    /// notified once when it has finished. The tool's time limit applies to the task.
    #[must_use]
    pub fn background_tool(mut self, tool: Tool) -> Self {
        self.extras.background.push(tool);
        self
    }

    /// Builds the agent.
    ///
    /// # Errors
    /// `Invalid` for an empty name, for zero iterations, for a model that cannot call tools and for a long-term
    /// memory without an owner; `Conflict` when a tool has the name of one that the agent adds itself.
    pub fn build(self) -> Result<ReActAgent> {
        let Self { name, model, instructions, tools, settings, hooks, seams, extras } = self;
        if name.trim().is_empty() {
            return Err(Error::invalid("an agent needs a name"));
        }
        if settings.max_iters == 0 {
            return Err(Error::invalid("an agent needs at least one iteration").help("raise `max_iters`"));
        }
        if !model.info().tools {
            let message = format!("the model `{}` cannot call tools", model.info().name);
            return Err(Error::invalid(message).help("choose another model"));
        }
        if tools.tools().iter().any(|tool| tool.name == FINISH_FUNCTION) {
            let message = format!("a tool cannot have the name `{FINISH_FUNCTION}`");
            return Err(Error::new(ErrorKind::Conflict, message).help("rename it"));
        }
        let seams = seams.unwrap_or_else(|| Arc::new(standalone::seams()));
        let name = name.into();
        if let Some(memory) = &extras.memory {
            memory.owner.check()?;
        }
        let definition = ReActDefinition { name, instructions, model, tools, settings, hooks, seams, extras };
        // Tried once now, so that a name conflict is found when the agent is built and not in a conversation.
        definition.equipped(definition.notebook(Notebook::default()).as_ref(), &Tasks::default())?;
        Ok(ReActAgent(Arc::new(definition)))
    }
}
