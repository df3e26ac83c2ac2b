//! Calls that run in the background of the conversation.
//!
//! A call of such a tool immediately returns the id of a task. The model inspects it, waits for it or stops it with
//! three tools, and is notified once when it has finished. Tasks belong to their session: they run on between
//! replies, are unaffected by interrupted replies, and end with the session.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use weft_core::effect::Effects;
use weft_core::seam::chat_model::Usage;
use weft_core::tool::{
    Block, Invocation, ToolBody, ToolSession as _, ToolStep, ToolStream, failure_text, once,
};
use weft_core::{Error, ErrorKind, Json, Result, Tool, ToolOutput};

use super::session::Notices;
use crate::function;
use crate::standalone::node_context;
use crate::toolkit::Toolkit;

/// The tool that shows a task.
pub const VIEW_FUNCTION: &str = "view_task";
/// The tool that waits for a task.
pub const WAIT_FUNCTION: &str = "wait_task";
/// The tool that stops a task.
pub const CANCEL_FUNCTION: &str = "cancel_task";
/// Maximum number of running tasks per session.
// As many as the background calls of an agent on a canvas, for the same reason: each holds a connection or a process.
pub const TASKS_RUNNING_MAX: usize = 16;
/// Maximum number of tasks per session that are kept with their results; beyond that the oldest finished ones are
/// dropped.
// Each keeps its whole output.
pub const TASKS_KEPT_MAX: usize = 100;
/// Default number of seconds that the model waits for a task.
const WAIT_SECONDS: u64 = 10;
/// Maximum number of seconds: the waiting tool call has a time limit of its own.
const WAIT_SECONDS_MAX: u64 = 50;

/// The status of a background task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskStatus {
    /// Still running.
    Running,
    /// Finished with a result.
    Finished,
    /// Failed; the output says why.
    Failed,
    /// Stopped.
    Cancelled,
}

impl TaskStatus {
    /// Returns its name as it is shown to the model.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A snapshot of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct BackgroundTask {
    /// Its id, such as `task_1`.
    pub id: String,
    /// The tool that was called.
    pub tool: String,
    /// Its status.
    pub status: TaskStatus,
    /// Its whole output so far.
    pub output: ToolOutput,
}

/// The changing part of a task.
#[derive(Clone)]
struct TaskProgress {
    status: TaskStatus,
    output: ToolOutput,
}

struct TaskEntry {
    id: String,
    tool: String,
    progress: watch::Receiver<TaskProgress>,
    cancel: CancellationToken,
    /// Whether the model has been told of its end.
    told: bool,
}

impl TaskEntry {
    fn now(&self) -> BackgroundTask {
        let TaskProgress { status, output } = self.progress.borrow().clone();
        BackgroundTask { id: self.id.clone(), tool: self.tool.clone(), status, output }
    }
}

#[derive(Default)]
struct TaskList {
    running: JoinSet<()>,
    tasks: Vec<TaskEntry>,
    started: u64,
}

/// The tasks of one session. Dropping the last clone stops them.
#[derive(Clone, Default)]
pub(super) struct Tasks {
    state: Arc<Mutex<TaskList>>,
    /// The usage of their model calls.
    usage: Arc<Mutex<Usage>>,
}

impl Tasks {
    /// The tasks of a session that has already started this many, so that ids are not reused.
    pub(super) fn after(started: u64) -> Self {
        let tasks = Self::default();
        tasks.state().started = started;
        tasks
    }

    fn state(&self) -> MutexGuard<'_, TaskList> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many tasks have been started.
    pub(super) fn started(&self) -> u64 {
        self.state().started
    }

    /// The usage of their model calls so far.
    pub(super) fn usage(&self) -> Usage {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All tasks that are kept, oldest first.
    pub(super) fn all(&self) -> Vec<BackgroundTask> {
        self.state().tasks.iter().map(TaskEntry::now).collect()
    }

    /// Stops the running tasks.
    pub(super) fn cancel_all(&self) {
        self.state().tasks.iter().for_each(|task| task.cancel.cancel());
    }

    /// One sentence about each task that has ended and of which the model has not been told, with the ids of these
    /// tasks; `None` if there is none.
    pub(super) fn news(&self) -> Option<(String, Vec<String>)> {
        let state = self.state();
        let (mut news, mut ended) = (String::new(), Vec::new());
        for task in state.tasks.iter().filter(|task| !task.told) {
            let status = task.progress.borrow().status;
            if status != TaskStatus::Running {
                ended.push(task.id.clone());
                let _ = writeln!(news, "The task `{}` of `{}` is {}.", task.id, task.tool, status.as_str());
            }
        }
        if ended.is_empty() {
            return None;
        }
        let _ = write!(news, "`{VIEW_FUNCTION}` shows what it gave.");
        Some((news, ended))
    }

    /// Notes that the model has been told of the end of these tasks: one that reads the same news in every request
    /// believes that it is new.
    pub(super) fn note_told(&self, ended: &[String]) {
        for task in self.state().tasks.iter_mut().filter(|task| ended.contains(&task.id)) {
            task.told = true;
        }
    }

    /// The tool as the model sees it: a call starts a task.
    pub(super) fn starting(&self, tool: &Tool) -> Result<Tool> {
        // The inner toolkit enforces time limit, output size and presets, and catches panics.
        let inner = Toolkit::new();
        let basic = Tool { group: weft_core::tool::BASIC_GROUP.to_owned(), ..tool.clone() };
        let own = inner.register(basic)?;
        let description = format!(
            "{} It works in the background: the call gives the id of a task at once.",
            own.description.trim_end()
        );
        let body = Arc::new(Starting { tasks: self.clone(), tool: inner, name: own.name.clone() });
        let outer =
            Tool::new(own.name.clone(), description, own.parameters.clone(), own.origin.clone(), body);
        // The limits are those of the task; the call itself only starts it. Approval is requested before that.
        let traits = weft_core::tool::ToolTraits { approval: tool.traits.approval, ..Default::default() };
        Ok(outer.in_group(tool.group.clone()).with_traits(traits))
    }

    /// The tools with which the model follows its tasks.
    pub(super) fn tools(&self) -> Result<Vec<Tool>> {
        let tasks = [self.clone(), self.clone(), self.clone()];
        let [viewed, waited, cancelled] = tasks;
        let view = function::tool(VIEW_FUNCTION, "Shows how far a task in the background is.", {
            move |one: OneTask| {
                let shown = viewed.look(&one.task_id).map(|(task, _)| task);
                async move { shown.map(described) }
            }
        })?;
        let wait = function::tool(WAIT_FUNCTION, "Waits until a task in the background is over.", {
            move |wait: WaitForTask| {
                let (tasks, id) = (waited.clone(), wait.task_id);
                let time = Duration::from_secs(wait.seconds.unwrap_or(WAIT_SECONDS).min(WAIT_SECONDS_MAX));
                async move {
                    let (_, mut progress) = tasks.look(&id)?;
                    let over = progress.wait_for(|now| now.status != TaskStatus::Running);
                    // The lookup afterwards tells whether it has finished.
                    let _ = tokio::time::timeout(time, over).await;
                    tasks.look(&id).map(|(task, _)| described(task))
                }
            }
        })?;
        let cancel = function::tool(CANCEL_FUNCTION, "Stops a task in the background.", {
            move |one: OneTask| {
                let stopped = cancelled.cancel(&one.task_id);
                async move { stopped }
            }
        })?;
        let mut tools = vec![view, wait, cancel];
        for tool in &mut tools {
            (tool.traits.idempotent, tool.traits.poll) = (true, true);
        }
        Ok(tools)
    }

    fn look(&self, id: &str) -> Result<(BackgroundTask, watch::Receiver<TaskProgress>)> {
        let mut state = self.state();
        let known: Vec<String> = state.tasks.iter().map(|task| task.id.clone()).collect();
        let Some(task) = state.tasks.iter_mut().find(|task| task.id == id.trim()) else {
            let known = if known.is_empty() { "there is none".to_owned() } else { known.join(", ") };
            return Err(Error::not_found(format!("there is no task `{id}`"))
                .help(format!("tasks of this session in this process: {known}")));
        };
        let now = task.now();
        // A model that has seen the result need not be told that there is one.
        task.told |= now.status != TaskStatus::Running;
        Ok((now, task.progress.clone()))
    }

    fn cancel(&self, id: &str) -> Result<String> {
        let (task, _) = self.look(id)?;
        if task.status != TaskStatus::Running {
            return Ok(format!("The task `{}` was over already: {}.", task.id, task.status.as_str()));
        }
        let mut state = self.state();
        for task in state.tasks.iter_mut().filter(|known| known.id == task.id) {
            task.cancel.cancel();
            task.told = true;
        }
        Ok(format!("The task `{}` is stopped.", task.id))
    }

    /// Starts a call as a task of its own and returns the task's id.
    fn start(&self, tools: &Toolkit, name: &str, invocation: Invocation) -> Result<String> {
        let mut state = self.state();
        // Finished tasks stay in the set until they are joined, and nothing else joins them.
        while state.running.try_join_next().is_some() {}
        if state.running.len() >= TASKS_RUNNING_MAX {
            let message = format!("{TASKS_RUNNING_MAX} tasks run already");
            return Err(Error::new(ErrorKind::QuotaExceeded, message).help(format!(
                "wait for one of them with `{WAIT_FUNCTION}`, or stop one with `{CANCEL_FUNCTION}`"
            )));
        }
        // Running tasks are kept; there are fewer of them than the limit.
        while state.tasks.len() >= TASKS_KEPT_MAX {
            let over = |task: &TaskEntry| task.progress.borrow().status != TaskStatus::Running;
            let Some(place) = state.tasks.iter().position(over) else { break };
            state.tasks.remove(place);
        }
        state.started += 1;
        let id = format!("task_{}", state.started);
        let nothing = TaskProgress { status: TaskStatus::Running, output: ToolOutput::default() };
        let (tell, progress) = watch::channel(nothing);
        // Not a child of the reply's token: interrupting a reply leaves tasks alone.
        let cancel = CancellationToken::new();
        let work = BackgroundWork {
            tools: tools.clone(),
            name: name.to_owned(),
            tell,
            usage: Arc::clone(&self.usage),
        };
        state.running.spawn(work.carry_out(invocation, cancel.clone()));
        state.tasks.push(TaskEntry { id: id.clone(), tool: name.to_owned(), progress, cancel, told: false });
        Ok(id)
    }
}

/// A call that runs on its own. It holds no reference to its session, so that it does not keep the session alive.
struct BackgroundWork {
    tools: Toolkit,
    name: String,
    tell: watch::Sender<TaskProgress>,
    usage: Arc<Mutex<Usage>>,
}

impl BackgroundWork {
    async fn carry_out(self, invocation: Invocation, cancel: CancellationToken) {
        let Self { tools, name, tell, usage } = self;
        // The reply that started it may end long before it, so it has its own context.
        let agent = &invocation.agent;
        let (ctx, mut signals) = node_context(&agent.run, &agent.name, Effects::unkept(), cancel.clone());
        let mut steps = tools.call(&name, Invocation { agent: ctx, ..invocation });
        let mut notices = Notices::default();
        let mut output = ToolOutput::default();
        let status = loop {
            let step = tokio::select! {
                // Stopping first, then signals: a tool that waits until its signals are received would get stuck
                // otherwise.
                biased;
                () = cancel.cancelled() => break TaskStatus::Cancelled,
                Some((_, signal)) = signals.recv() => {
                    notices.take(signal);
                    continue;
                }
                step = steps.next() => step,
            };
            match step {
                Some(Ok(ToolStep::Progress(more))) => {
                    output = more;
                    let now = TaskProgress { status: TaskStatus::Running, output: output.clone() };
                    tell.send_replace(now);
                }
                Some(Ok(ToolStep::Done(whole))) => {
                    let failed = whole.failed;
                    output = whole;
                    break if failed { TaskStatus::Failed } else { TaskStatus::Finished };
                }
                Some(Ok(ToolStep::Suspended(_))) => {
                    output = ToolOutput::text("it waits for a person, and nobody is asked here");
                    break TaskStatus::Failed;
                }
                Some(Err(error)) => {
                    output.blocks.push(Block::Text { text: failure_text(&error) });
                    break TaskStatus::Failed;
                }
                None => {
                    output.blocks.push(Block::Text { text: "the tool ended without a result".to_owned() });
                    break TaskStatus::Failed;
                }
            }
        };
        // Signals sent with the last step are still in the channel.
        while let Ok((_, signal)) = signals.try_recv() {
            notices.take(signal);
        }
        *usage.lock().unwrap_or_else(PoisonError::into_inner) += notices.usage;
        tell.send_replace(TaskProgress { status, output });
    }
}

/// The body of a background tool: starts a task.
struct Starting {
    tasks: Tasks,
    tool: Toolkit,
    name: String,
}

impl ToolBody for Starting {
    fn call(&self, invocation: Invocation) -> ToolStream {
        let started = self.tasks.start(&self.tool, &self.name, invocation).map(|id| {
            let text = format!(
                "The task `{id}` has started. `{VIEW_FUNCTION}` shows it, `{WAIT_FUNCTION}` waits for it, \
                 `{CANCEL_FUNCTION}` stops it."
            );
            ToolOutput::text(text).with_metadata("task_id", Json::String(id))
        });
        once(async { started })
    }
}

/// The description of a task for the model.
fn described(task: BackgroundTask) -> ToolOutput {
    let line = format!("The task `{}` of `{}` is {}.", task.id, task.tool, task.status.as_str());
    let mut blocks = vec![Block::Text { text: line }];
    blocks.extend(task.output.blocks);
    ToolOutput { blocks, metadata: task.output.metadata, ..ToolOutput::default() }
        .with_metadata("task", json!({"id": task.id, "status": task.status.as_str()}))
}

#[derive(Deserialize, JsonSchema)]
struct OneTask {
    /// The id of the task.
    task_id: String,
}

#[derive(Deserialize, JsonSchema)]
struct WaitForTask {
    /// The id of the task.
    task_id: String,
    /// How many seconds to wait, 10 unless you say otherwise, 50 at most.
    seconds: Option<u64>,
}
