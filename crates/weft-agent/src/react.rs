//! The agent for programs that embed the engine: it reasons and acts in turns, and ends a reply by calling a
//! function.
//!
//! A [`ReActAgent`] says what an agent is: model, instructions, tools, settings, hooks. A [`Session`] is one
//! conversation with it, with a memory of its own; any number may go on at the same time. The loop of calls,
//! the checks of arguments and the bounds are those of the agents on a canvas ([`crate::calls`],
//! [`crate::toolkit`], [`crate::ask`], [`crate::window`]).

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
mod remember;
mod retrieve;
mod session;
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
pub use compress::{Compression, KEEP_RECENT, Summary};
pub(crate) use draft::Draft;
pub use equip::EQUIP_FUNCTION;
pub use finish::{FINISH_FUNCTION, StructuredOutput};
pub use format::Formatter;
pub(crate) use format::call;
pub use guardrails::{GuardPoint, Verdict};
pub use hooks::{HookContext, HookList, Hooks, ReasoningInput, ToolResponse};
pub use inbox::{INBOX_MAX, Inbox};
pub use print::{MESSAGES_QUEUED_MAX, MessageQueue, PrintedMessage, PrintedMessages, message_queue};
pub use remember::MemoryControl;
pub use retrieve::{KnowledgeBase, KnowledgeDocument, QueryRewrite};
pub use session::{Interrupt, Session, SessionState};

/// How the calls of one message are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolCalls {
    /// One after another, in order.
    #[default]
    Sequential,
    /// Side by side, but for tools that have to be alone. Their results are remembered in the order of the
    /// calls all the same.
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
    /// By calling the finish function; words alone are made such a call.
    #[default]
    Function,
    /// By words alone, which takes fewer tokens. The finish function is there only where a reply has to bring
    /// a structured value.
    Text,
}

/// Whether the user sees what only the model is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hints {
    /// They do not.
    #[default]
    Hidden,
    /// They do.
    Printed,
}

/// Settings that go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// 10 iterations, calls one after another, whole messages. The settings of an agent that says nothing.
    Basic,
    /// 20 iterations, calls side by side, streamed messages.
    Fast,
    /// 3 iterations, calls one after another, whole messages, hints shown.
    Debug,
}

/// How an agent works.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How often the model may be asked for calls in one reply; then it has to sum up.
    pub max_iters: u32,
    /// How the calls of one message are made.
    pub tool_calls: ToolCalls,
    /// How messages of the model are shown.
    pub output: Output,
    /// Whether the user sees what only the model is told.
    pub hints: Hints,
    /// How the model ends a reply.
    pub finish: FinishStyle,
    /// How answers are generated.
    pub sampling: Sampling,
    /// Tokens of a prompt, at most; absent: what the model's window has room for.
    pub prompt_tokens_max: Option<usize>,
    /// How a long conversation is kept short for the model.
    pub compression: Compression,
    /// What one reply may use.
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

/// What one reply is to be like.
#[derive(Clone, Debug, Default)]
pub struct ReplyOptions {
    /// A value that the reply has to bring. The finish function gets its fields, and the reply's metadata the
    /// value.
    pub structured: Option<StructuredOutput>,
    /// Whether the model must call tools. A named tool is forced in the first request of the reply only,
    /// everything else in all of them.
    pub tool_choice: ToolChoice,
}

/// An agent. Clones are the same agent: they share its tools and its hooks.
#[derive(Clone, Debug)]
pub struct ReActAgent(Arc<Definition>);

/// What an agent is.
struct Definition {
    name: Arc<str>,
    instructions: String,
    model: Arc<dyn ChatModel>,
    tools: Toolkit,
    settings: Settings,
    hooks: Hooks,
    seams: Arc<Seams>,
    extras: Extras,
}

/// What an agent has beside its tools, if its builder was told to.
#[derive(Clone, Default)]
struct Extras {
    /// Whether the model chooses its groups of tools.
    equips: bool,
    /// Subtasks of a plan, at most, where there is a notebook.
    plans: Option<usize>,
    memory: Option<AgentMemory>,
    knowledge: Vec<Arc<dyn KnowledgeBase>>,
    rewrite: QueryRewrite,
    /// Sums up long conversations; absent: the agent's own model does.
    summary_model: Option<Arc<dyn ChatModel>>,
    /// Tools whose calls go on beside the conversation.
    background: Vec<Tool>,
}

impl Definition {
    /// The tools of a session that begins now.
    ///
    /// # Errors
    /// `Conflict` when one of the agent's own has the name of one that is added here.
    fn equipped(&self, notebook: Option<&PlanNotebook>, tasks: &Tasks) -> Result<Toolkit> {
        // Each session switches its groups on and off; what a shared toolkit has active would be everybody's.
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

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReActAgent")
            .field("name", &self.name)
            .field("tools", &self.tools)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl ReActAgent {
    /// Begins an agent of this name that asks this model.
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

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// How it works.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The hooks of all its sessions, those that have begun included. A session has hooks of its own, which
    /// run first.
    pub fn hooks(&self) -> &Hooks {
        &self.0.hooks
    }

    /// Begins a conversation. It has the tools that the agent has now; which groups of them are active is its
    /// own affair.
    pub fn session(&self) -> Session {
        Session::new(self.clone())
    }

    /// Goes on with a conversation that was saved.
    ///
    /// # Errors
    /// `Conflict` when the state is another agent's or was written by another version of this program,
    /// `NotFound` when a group of tools that was active is not there any more.
    pub fn resume(&self, state: SessionState) -> Result<Session> {
        Session::resumed(self.clone(), state)
    }
}

/// An agent that is being put together.
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
    /// What the model is told first in every request.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = instructions.into();
        self
    }

    /// What it may call, beside the finish function.
    #[must_use]
    pub fn toolkit(mut self, tools: Toolkit) -> Self {
        self.tools = tools;
        self
    }

    /// How it works: those of a preset, with what is changed.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Settings that go together.
    #[must_use]
    pub fn preset(self, preset: Preset) -> Self {
        self.settings(Settings::of(preset))
    }

    /// Hooks that it shares with whoever else has a clone of them, such as all agents of a kind.
    #[must_use]
    pub fn hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = hooks;
        self
    }

    /// What its tools find around them: the clock, the way to the network and so on. Without it there is a
    /// clock and nothing else.
    #[must_use]
    pub fn seams(mut self, seams: Arc<Seams>) -> Self {
        self.seams = Some(seams);
        self
    }

    /// The model chooses which groups of tools it needs, by [`EQUIP_FUNCTION`].
    #[must_use]
    pub fn with_meta_tool(mut self) -> Self {
        self.extras.equips = true;
        self
    }

    /// Each session has a notebook for plans of at most `subtasks_max` subtasks, which the model makes and follows
    /// by tools; see [`crate::plan_notebook`]. With a meta tool the tools are in the group [`PLAN_GROUP`].
    #[must_use]
    pub fn with_plan_notebook(mut self, subtasks_max: usize) -> Self {
        self.extras.plans = Some(subtasks_max);
        self
    }

    /// What it remembers beyond a session, and of whom.
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

    /// Each reply begins with what this collection knows about the message, beside those that were given before.
    #[must_use]
    pub fn knowledge(mut self, base: Arc<dyn KnowledgeBase>) -> Self {
        self.extras.knowledge.push(base);
        self
    }

    /// Whether the model words the question anew for its knowledge.
    #[must_use]
    pub fn query_rewrite(mut self, rewrite: QueryRewrite) -> Self {
        self.extras.rewrite = rewrite;
        self
    }

    /// The model that sums up long conversations, for [`Compression::Summary`]. Without it the agent's own does.
    #[must_use]
    pub fn summary_model(mut self, model: Arc<dyn ChatModel>) -> Self {
        self.extras.summary_model = Some(model);
        self
    }

    /// A tool whose calls go on beside the conversation. A call gives the id of a task at once; the model looks
    /// at it, waits for it and stops it by [`VIEW_FUNCTION`], [`WAIT_FUNCTION`] and [`CANCEL_FUNCTION`], and is
    /// told once when it is over. The tool's time limit is that of the task.
    #[must_use]
    pub fn background_tool(mut self, tool: Tool) -> Self {
        self.extras.background.push(tool);
        self
    }

    /// The agent.
    ///
    /// # Errors
    /// `Invalid` for an empty name, for no iterations, for a model that cannot call tools and for a long-term
    /// memory that is nobody's; `Conflict` when a tool has the name of one that the agent brings itself.
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
            return Err(Error::new(ErrorKind::Conflict, message).help("give it another name"));
        }
        let seams = seams.unwrap_or_else(|| Arc::new(standalone::seams()));
        let name = name.into();
        if let Some(memory) = &extras.memory {
            memory.owner.check()?;
        }
        let definition = Definition { name, instructions, model, tools, settings, hooks, seams, extras };
        // Tried once now, so that a clash of names is found when the agent is made and not in a conversation.
        definition.equipped(definition.notebook(Notebook::default()).as_ref(), &Tasks::default())?;
        Ok(ReActAgent(Arc::new(definition)))
    }
}
