//! One conversation with an agent.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use weft_core::context::Signal;
use weft_core::effect::Effects;
use weft_core::seam::chat_model::Usage;
use weft_core::{Error, ErrorKind, Json, Result};

use super::background::{BackgroundTask, Tasks};
use super::finish::{StructuredOutput, finish_toolkit, given_up};
use super::format::Formatter;
use super::hooks::{HookContext, HookSet, Hooks};
use super::inbox::Inbox;
use super::print::{MessageQueue, Printer};
use super::turn::{Turn, TurnOutcome};
use super::{FinishStyle, ReActAgent, ReplyOptions};
use crate::ask::Ending;
use crate::memory::Memory;
use crate::message::Message;
use crate::plan_notebook::{Notebook, PlanNotebook};
use crate::standalone::{Signals, node_context, run_context};
use crate::toolkit::{Offered, Toolkit};

/// The format version of a saved session.
const FORMAT: u32 = 1;
/// Maximum number of warnings kept from one reply.
const WARNINGS_MAX: usize = 100;

/// A conversation with an agent: its messages, its active groups of tools, its output. Sessions of one agent are
/// independent of each other.
pub struct Session {
    agent: ReActAgent,
    id: Arc<str>,
    instructions: String,
    memory: Memory,
    tools: Toolkit,
    notebook: Option<PlanNotebook>,
    tasks: Tasks,
    inbox: Inbox,
    hooks: HookSet,
    printer: Arc<Printer>,
    interrupt: Interrupt,
    notices: Notices,
}

/// What a session collects besides messages.
#[derive(Debug, Default)]
pub(super) struct Notices {
    pub(super) usage: Usage,
    warnings: Vec<String>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id)
            .field("agent", &self.agent.name())
            .finish_non_exhaustive()
    }
}

/// Interrupts the replies of one session from anywhere. Clones are interchangeable.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<Mutex<CancellationToken>>);

impl Interrupt {
    /// Interrupts the current reply, if there is one. The reply ends soon with a message that has `is_interrupted` in
    /// its metadata, and the conversation can continue.
    pub fn interrupt(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).cancel();
    }

    /// Called when a reply starts; earlier interruptions do not count.
    // A new token each time: a cancelled token stays cancelled.
    fn arm(&self) -> CancellationToken {
        let token = CancellationToken::new();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&token);
        token
    }
}

/// The state of a session that can be saved, such as in a file: plain data with a stable JSON format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionState {
    format: u32,
    agent: String,
    session: String,
    instructions: String,
    memory: Memory,
    active_groups: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    notebook: Option<Notebook>,
    /// The number of background tasks started so far.
    #[serde(default, skip_serializing_if = "is_zero")]
    tasks_started: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Session {
    pub(super) fn new(agent: ReActAgent) -> Self {
        Self::with(agent, Notebook::default(), Tasks::default())
    }

    fn with(agent: ReActAgent, notebook: Notebook, tasks: Tasks) -> Self {
        let definition = &agent.0;
        let notebook = definition.notebook(notebook);
        // Tried when the agent was built; a tool added to it since then keeps its name.
        let tools =
            definition.equipped(notebook.as_ref(), &tasks).unwrap_or_else(|_| definition.tools.fork());
        let hooks = HookSet { session: Hooks::new(), agent: definition.hooks.clone() };
        Self {
            id: weft_core::id::generate().into(),
            instructions: definition.instructions.clone(),
            memory: Memory::new(),
            tools,
            notebook,
            tasks,
            inbox: Inbox::default(),
            printer: Arc::new(Printer::new(hooks.clone())),
            hooks,
            interrupt: Interrupt::default(),
            notices: Notices::default(),
            agent,
        }
    }

    pub(super) fn resumed(agent: ReActAgent, state: SessionState) -> Result<Self> {
        let SessionState {
            format,
            agent: of,
            session,
            instructions,
            memory,
            active_groups,
            notebook,
            tasks_started,
        } = state;
        if format != FORMAT || of != agent.name() {
            let message = format!("the state is not one of the agent `{}` in this version", agent.name());
            return Err(Error::new(ErrorKind::Conflict, message).help("start a new session"));
        }
        let resumed = Self::with(agent, notebook.unwrap_or_default(), Tasks::after(tasks_started));
        resumed.tools.set_active(&active_groups)?;
        Ok(Self { id: session.into(), instructions, memory, ..resumed })
    }

    /// Replies to a message.
    ///
    /// An interruption is not an error: see [`Interrupt`]. Dropping the future also stops the work and leaves the
    /// memory as it is at that moment; unfinished calls are closed when the conversation continues.
    ///
    /// # Errors
    /// The errors of the model or a hook, `QuotaExceeded` when the budget is used up, `Garbled` for empty answers.
    /// Tools do not fail a reply: the model is told.
    pub async fn reply(&mut self, message: impl Into<Message>) -> Result<Message> {
        self.reply_with(message, ReplyOptions::default()).await
    }

    /// Replies with a value of a type in addition to the text. The value is `None` when the reply was interrupted.
    ///
    /// # Errors
    /// As for [`Session::reply`]; `Invalid` when `T` is not a struct with named fields or has a field `response`,
    /// `Garbled` when the model never produces a valid value.
    pub async fn reply_as<T: DeserializeOwned + JsonSchema>(
        &mut self,
        message: impl Into<Message>,
    ) -> Result<(Message, Option<T>)> {
        let structured = Some(StructuredOutput::of::<T>()?);
        let options = ReplyOptions { structured, ..ReplyOptions::default() };
        match self.take_turn(Some(message.into()), options).await? {
            TurnOutcome::Interrupted(reply) => Ok((reply, None)),
            TurnOutcome::Completed(reply) => {
                // It was validated, but a hook may have changed it since.
                let value = serde_json::from_value(Json::Object(reply.metadata.clone()));
                let value = value.map_err(|cause| given_up("what was checked was changed").because(cause))?;
                Ok((reply, Some(value)))
            }
        }
    }

    /// Replies with the given options.
    ///
    /// # Errors
    /// As for [`Session::reply`] and [`Session::reply_as`]; `Invalid` when a tool is forced that is not offered. The
    /// session is unchanged then.
    pub async fn reply_with(
        &mut self,
        message: impl Into<Message>,
        options: ReplyOptions,
    ) -> Result<Message> {
        let replied = self.take_turn(Some(message.into()), options).await?;
        let (TurnOutcome::Completed(reply) | TurnOutcome::Interrupted(reply)) = replied;
        Ok(reply)
    }

    /// Replies to the messages it has observed, without a new message.
    ///
    /// # Errors
    /// As for [`Session::reply`].
    pub async fn reply_to_memory(&mut self) -> Result<Message> {
        let replied = self.take_turn(None, ReplyOptions::default()).await?;
        let (TurnOutcome::Completed(reply) | TurnOutcome::Interrupted(reply)) = replied;
        Ok(reply)
    }

    async fn take_turn(&mut self, message: Option<Message>, options: ReplyOptions) -> Result<TurnOutcome> {
        let agent = &*self.agent.0;
        let run = run_context(&agent.seams, agent.settings.budget, &self.id);
        let (ctx, signals) = node_context(&run, &agent.name, Effects::unkept(), self.interrupt.arm());
        let finish = match (agent.settings.finish, &options.structured) {
            (FinishStyle::Text, None) => Toolkit::new(),
            (_, structured) => finish_toolkit(structured.as_ref())?,
        };
        let turn = Turn {
            agent,
            memory: &mut self.memory,
            formatter: Formatter::new(agent.name.to_string(), self.instructions.clone()),
            tools: self.tools.clone(),
            notebook: self.notebook.clone(),
            tasks: self.tasks.clone(),
            inbox: self.inbox.clone(),
            hooks: self.hooks.clone(),
            printer: &self.printer,
            ctx,
            finish,
            structured: options.structured.is_some(),
            tool_choice: options.tool_choice,
            context: HookContext {
                agent: Arc::clone(&agent.name),
                session: Arc::clone(&self.id),
                iteration: 0,
            },
            options: Turn::call_options(agent),
            offered: Offered::default(),
            current: String::new(),
            ending: Ending::Whole,
            left_out: String::new(),
        };
        // Warnings are those of the last reply, usage is that of the whole session.
        self.notices.warnings.clear();
        let work = turn.reply(message);
        listening(work, signals, &mut self.notices).await
    }

    /// Adds a message without replying to it, such as one by another agent.
    ///
    /// # Errors
    /// The error of a hook; if it is one that runs before, the message is not added.
    pub async fn observe(&mut self, message: impl Into<Message>) -> Result<()> {
        let name = Arc::clone(&self.agent.0.name);
        let context = HookContext { agent: name, session: Arc::clone(&self.id), iteration: 0 };
        let message = self.hooks.run(|hooks| &hooks.pre_observe, &context, message.into()).await?;
        // An observed message comes after the calls of a dropped reply; nothing may stand between a call and its
        // result.
        self.memory.close_tool_uses(super::acting::INTERRUPTED);
        self.memory.add(message.clone().stamped(self.agent.0.seams.clock.now_ms()));
        self.hooks.run(|hooks| &hooks.post_observe, &context, message).await.map(drop)
    }

    /// Returns its id, which tools and hooks get with each call.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The conversation so far.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The conversation, to be edited. A call has to stay together with its result.
    pub fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// Its tools. Changes affect no other session.
    pub fn toolkit(&self) -> &Toolkit {
        &self.tools
    }

    /// Its plans, if its agent has a notebook.
    pub fn plan_notebook(&self) -> Option<&PlanNotebook> {
        self.notebook.as_ref()
    }

    /// The hooks of this session alone. They run before those of its agent.
    pub fn hooks(&self) -> &Hooks {
        &self.hooks.session
    }

    /// The inbox for messages to it while it replies.
    pub fn inbox(&self) -> Inbox {
        self.inbox.clone()
    }

    /// Its background calls, oldest first; see [`super::ReActAgentBuilder::background_tool`].
    pub fn background_tasks(&self) -> Vec<BackgroundTask> {
        self.tasks.all()
    }

    /// Stops its background calls. Interrupting a reply leaves them alone.
    pub fn cancel_background_tasks(&self) {
        self.tasks.cancel_all();
    }

    /// The handle that interrupts its replies.
    pub fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    /// Copies what is printed from now on to this queue, which replaces the previous one; `None` stops that.
    pub fn print_to(&self, queue: Option<MessageQueue>) {
        self.printer.attach(queue);
    }

    /// The usage of its model calls so far.
    pub fn usage(&self) -> Usage {
        let mut usage = self.notices.usage;
        usage += self.tasks.usage();
        usage
    }

    /// The warnings of the last reply, such as what was left out of a prompt.
    pub fn warnings(&self) -> &[String] {
        &self.notices.warnings
    }

    /// Everything needed to continue it elsewhere; see [`ReActAgent::resume`]. Its hooks, its queue, its inbox and
    /// its background calls are not included.
    pub fn state(&self) -> SessionState {
        SessionState {
            format: FORMAT,
            agent: self.agent.name().to_owned(),
            session: self.id.to_string(),
            instructions: self.instructions.clone(),
            memory: self.memory.clone(),
            active_groups: self.tools.active_groups(),
            notebook: self.notebook.as_ref().map(PlanNotebook::notebook),
            tasks_started: self.tasks.started(),
        }
    }
}

/// Does the work and handles its signals.
async fn listening<T>(work: impl Future<Output = T>, mut signals: Signals, notices: &mut Notices) -> T {
    let mut work = Box::pin(work);
    let done = loop {
        tokio::select! {
            // Signals first: a tool that waits until its call is recorded would keep the work from ending.
            biased;
            Some((_, signal)) = signals.recv() => notices.take(signal),
            done = &mut work => break done,
        }
    };
    // Signals sent at the very end are still in the channel.
    while let Ok((_, signal)) = signals.try_recv() {
        notices.take(signal);
    }
    done
}

impl Notices {
    pub(super) fn take(&mut self, signal: Signal) {
        match signal {
            Signal::Used(used) => self.usage += used.usage,
            Signal::Warn(warning) if self.warnings.len() < WARNINGS_MAX => self.warnings.push(warning),
            Signal::Limited(why) if self.warnings.len() < WARNINGS_MAX => {
                self.warnings.push(format!("the work was cut short: {}", why.as_str()));
            }
            Signal::EffectStarted(mut started) => {
                // Nothing is written to disk here, so nothing can be lost.
                if let Some(safe) = started.safe.take() {
                    let _ = safe.send(std::time::Duration::MAX);
                }
            }
            Signal::Stored(safe) => drop(safe.send(std::time::Duration::MAX)),
            // Calls are reported by messages and hooks; output of components has no reader here.
            Signal::Warn(_)
            | Signal::Limited(_)
            | Signal::Speak
            | Signal::Say(_)
            | Signal::Play(_)
            | Signal::Publish(..)
            | Signal::ToolStarted(_)
            | Signal::ToolFinished(_)
            | Signal::EffectFinished(_) => {}
        }
    }
}
