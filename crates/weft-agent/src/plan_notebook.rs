//! Plans that an agent makes for larger tasks: subtasks with their states, a history of plans, and hints that tell
//! the model what to do next.
//!
//! [`Notebook`] is plain data and contains the rules; [`PlanNotebook`] is one that a session and its tools share.

mod hints;
mod tools;
mod view;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_core::seam::Clock;
use weft_core::{Error, ErrorKind, Result};

/// The group of its tools, for agents whose model chooses the groups it needs.
pub const PLAN_GROUP: &str = "plan_related";
/// Maximum number of past plans that are kept; the oldest are dropped first.
// The history is part of a session's state, which is written as a whole.
pub const HISTORY_MAX: usize = 100;
/// Default maximum of subtasks in one plan.
// The hint before each step lists all of them.
pub const SUBTASKS_MAX: usize = 50;

/// How far a plan or a subtask is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanState {
    /// It has not begun.
    #[default]
    Todo,
    /// It is being worked on.
    InProgress,
    /// It has its outcome.
    Done,
    /// It is not worked on any more.
    Abandoned,
}

impl PlanState {
    /// Whether it is done or abandoned.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Abandoned)
    }

    /// Returns its name in JSON and in texts for the model.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Todo => "todo",
            Self::InProgress => "in_progress",
            Self::Done => "done",
            Self::Abandoned => "abandoned",
        }
    }
}

/// What a model writes of a subtask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubtaskDraft {
    /// A short name, with a verb: at most ten words.
    pub name: String,
    /// What is to be done, with limits and goals.
    pub description: String,
    /// What is there when it is done, so that it can be checked.
    pub expected_outcome: String,
}

/// A part of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Subtask {
    /// The part that the model writes.
    #[serde(flatten)]
    pub draft: SubtaskDraft,
    /// Its outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Its state.
    #[serde(default)]
    pub state: PlanState,
    /// When it was created, in milliseconds since 1970-01-01 UTC.
    #[serde(default)]
    pub created_ms: i64,
    /// When it was done or abandoned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_ms: Option<i64>,
}

impl Subtask {
    fn new(draft: SubtaskDraft, now_ms: i64) -> Self {
        Self { draft, outcome: None, state: PlanState::Todo, created_ms: now_ms, finished_ms: None }
    }
}

/// A plan that a model has made for a task, with the state of its subtasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub description: String,
    /// The expected outcome.
    pub expected_outcome: String,
    /// Its subtasks, in the order in which they are done.
    pub subtasks: Vec<Subtask>,
    /// Its state. While it is the current plan, the state follows from its subtasks.
    #[serde(default)]
    pub state: PlanState,
    /// When it was created, in milliseconds since 1970-01-01 UTC.
    #[serde(default)]
    pub created_ms: i64,
    /// When it was done or abandoned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_ms: Option<i64>,
    /// Its outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

/// What a model writes of a plan.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub struct PlanDraft {
    /// A short name, at most ten words.
    pub name: String,
    /// What is to be done and under which conditions.
    pub description: String,
    /// What is there when it is done.
    pub expected_outcome: String,
    /// Its parts, in the order in which they are to be done.
    pub subtasks: Vec<SubtaskDraft>,
}

/// A change of a plan's subtasks.
#[derive(Clone, Debug, PartialEq)]
pub enum Revision {
    /// Inserts a subtask at this position; those from there on move back.
    Add(usize, SubtaskDraft),
    /// Replaces the subtask at this position.
    Revise(usize, SubtaskDraft),
    /// Deletes the subtask at this position.
    Delete(usize),
}

/// The current plan of one conversation and the plans before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Notebook {
    /// The plan that is being worked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<Plan>,
    /// The plans before it, oldest first.
    #[serde(default)]
    pub history: Vec<Plan>,
}

fn refused<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::invalid(what))
}

impl Notebook {
    fn plan(&mut self) -> Result<&mut Plan> {
        self.current.as_mut().ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "there is no plan").help("make one with `create_plan` first")
        })
    }

    /// Starts a plan. A current plan moves to the history as abandoned; its name is returned.
    ///
    /// # Errors
    /// `Invalid` for a plan without subtasks, or with more than `subtasks_max`.
    pub fn create(&mut self, draft: PlanDraft, subtasks_max: usize, now_ms: i64) -> Result<Option<String>> {
        let count = draft.subtasks.len();
        if count == 0 {
            return refused("a plan needs at least one subtask");
        }
        if count > subtasks_max {
            return refused(format!("the plan has {count} subtasks; {subtasks_max} are allowed"));
        }
        // Not refused: a model that starts over has usually forgotten the plan, and the history keeps what was done.
        let replaced = self.current.take().map(|plan| {
            let name = plan.name.clone();
            self.archive(plan, PlanState::Abandoned, now_ms);
            name
        });
        self.current = Some(Plan {
            id: weft_core::id::generate(),
            name: draft.name,
            description: draft.description,
            expected_outcome: draft.expected_outcome,
            subtasks: draft.subtasks.into_iter().map(|draft| Subtask::new(draft, now_ms)).collect(),
            state: PlanState::Todo,
            created_ms: now_ms,
            finished_ms: None,
            outcome: None,
        });
        Ok(replaced)
    }

    fn archive(&mut self, plan: Plan, state: PlanState, now_ms: i64) {
        // A finished plan is not marked as abandoned by the next one.
        let state = if plan.state.is_over() { plan.state } else { state };
        let finished_ms = plan.finished_ms.or(Some(now_ms));
        // A recovered plan is in the history only once, at its new position.
        self.history.retain(|known| known.id != plan.id);
        self.history.push(Plan { state, finished_ms, ..plan });
        let more = self.history.len().saturating_sub(HISTORY_MAX);
        self.history.drain(..more);
    }

    /// Changes the subtasks of the plan.
    ///
    /// # Errors
    /// `NotFound` without a plan, `Invalid` for a position that does not exist, for more subtasks than
    /// `subtasks_max`, and for deleting the only subtask of a plan.
    pub fn revise(&mut self, revision: Revision, subtasks_max: usize, now_ms: i64) -> Result<()> {
        let plan = self.plan()?;
        let count = plan.subtasks.len();
        match revision {
            Revision::Add(_, _) if count >= subtasks_max => {
                return refused(format!("the plan has {count} subtasks already, as many as are allowed"));
            }
            Revision::Add(at, draft) if at <= count => {
                plan.subtasks.insert(at, Subtask::new(draft, now_ms));
            }
            Revision::Add(at, _) => {
                return refused(format!("there is no place {at}: use one from 0 to {count}"));
            }
            Revision::Revise(at, draft) => plan.subtask(at)?.draft = draft,
            // A plan without subtasks would count as done, and the hint would ask to finish it.
            Revision::Delete(_) if count == 1 => {
                return refused("it is the plan's only subtask: finish the plan as abandoned instead");
            }
            Revision::Delete(at) => {
                plan.subtask(at)?;
                plan.subtasks.remove(at);
            }
        }
        // Always derived and never set by the model, so the two cannot disagree.
        plan.follow_subtasks();
        Ok(())
    }

    /// Sets the state of a subtask.
    ///
    /// # Errors
    /// `NotFound` without a plan; `Invalid` for a position that does not exist, for `done`, which needs an outcome,
    /// and for `in_progress` before all earlier subtasks are done or abandoned or while another one is in progress.
    pub fn update(&mut self, at: usize, state: PlanState, now_ms: i64) -> Result<()> {
        let plan = self.plan()?;
        plan.subtask(at)?;
        match state {
            PlanState::Done => return refused("use `finish_subtask` for a subtask that is done"),
            PlanState::InProgress => {
                // In order, because each subtask is written with the outcomes of the earlier ones in mind.
                plan.check_earlier(at)?;
                let other = plan.subtasks.iter().position(|one| one.state == PlanState::InProgress);
                if let Some(other) = other.filter(|other| *other != at) {
                    return refused(format!("subtask {other} is in progress: finish it first"));
                }
            }
            PlanState::Todo | PlanState::Abandoned => {}
        }
        let subtask = plan.subtask(at)?;
        subtask.state = state;
        subtask.finished_ms = state.is_over().then_some(now_ms);
        plan.follow_subtasks();
        Ok(())
    }

    /// Marks a subtask as done, starts the next one and returns its position.
    ///
    /// # Errors
    /// `NotFound` without a plan; `Invalid` for a position that does not exist and while an earlier subtask is not
    /// done or abandoned.
    pub fn finish_subtask(&mut self, at: usize, outcome: String, now_ms: i64) -> Result<Option<usize>> {
        let plan = self.plan()?;
        plan.check_earlier(at)?;
        let subtask = plan.subtask(at)?;
        subtask.state = PlanState::Done;
        subtask.outcome = Some(outcome);
        subtask.finished_ms = Some(now_ms);
        let next = plan.subtasks.iter().position(|one| !one.state.is_over());
        // A subtask that was inserted meanwhile comes before the one in progress, which then has to wait: subtasks
        // are worked on in order, one at a time.
        for later in plan.subtasks.iter_mut().filter(|one| one.state == PlanState::InProgress) {
            later.state = PlanState::Todo;
        }
        if let Some(subtask) = next.and_then(|at| plan.subtasks.get_mut(at)) {
            subtask.state = PlanState::InProgress;
        }
        plan.follow_subtasks();
        Ok(next)
    }

    /// Finishes the plan and moves it to the history.
    ///
    /// # Errors
    /// `NotFound` without a plan, `Invalid` for a state other than `done` and `abandoned`.
    pub fn finish(&mut self, state: PlanState, outcome: String, now_ms: i64) -> Result<()> {
        if !state.is_over() {
            return refused("a plan ends as `done` or as `abandoned`");
        }
        self.plan()?;
        if let Some(plan) = self.current.take() {
            self.archive(Plan { state, outcome: Some(outcome), ..plan }, state, now_ms);
        }
        Ok(())
    }

    /// Makes a plan of the history the current one. The previous current plan moves to the history; its name is
    /// returned.
    ///
    /// # Errors
    /// `NotFound` when there is no plan with this id.
    pub fn recover(&mut self, id: &str, now_ms: i64) -> Result<Option<String>> {
        let Some(at) = self.history.iter().position(|plan| plan.id == id) else {
            return Err(Error::not_found(format!("there is no plan `{id}` in the history"))
                .help("look at `view_historical_plans`"));
        };
        let plan = self.history.remove(at);
        let replaced = self.current.take().map(|plan| {
            let name = plan.name.clone();
            self.archive(plan, PlanState::Abandoned, now_ms);
            name
        });
        // Its former outcome no longer counts; the outcomes of its subtasks do.
        let mut plan = Plan { state: PlanState::Todo, finished_ms: None, outcome: None, ..plan };
        plan.follow_subtasks();
        self.current = Some(plan);
        Ok(replaced)
    }
}

impl Plan {
    fn subtask(&mut self, at: usize) -> Result<&mut Subtask> {
        let count = self.subtasks.len();
        let missing = || {
            Error::invalid(format!("there is no subtask {at}: use one from 0 to {}", count.saturating_sub(1)))
        };
        self.subtasks.get_mut(at).ok_or_else(missing)
    }

    fn check_earlier(&self, at: usize) -> Result<()> {
        match self.subtasks.iter().take(at).position(|one| !one.state.is_over()) {
            Some(earlier) => refused(format!("subtask {earlier} comes before it and is not over")),
            None => Ok(()),
        }
    }

    /// Derives its state: a current plan is in progress while one of its subtasks is.
    fn follow_subtasks(&mut self) {
        let working = self.subtasks.iter().any(|one| one.state == PlanState::InProgress);
        self.state = if working { PlanState::InProgress } else { PlanState::Todo };
    }
}

/// Called after every change, with the current plan.
type ChangeHook = dyn Fn(Option<&Plan>) + Send + Sync;

/// A notebook that a session and its tools share. Clones share the same notebook.
#[derive(Clone)]
pub struct PlanNotebook(Arc<NotebookState>);

struct NotebookState {
    notebook: Mutex<Notebook>,
    hooks: Mutex<Vec<(String, Arc<ChangeHook>)>>,
    subtasks_max: usize,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for PlanNotebook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PlanNotebook").field(&self.notebook()).finish()
    }
}

impl PlanNotebook {
    pub(crate) fn new(notebook: Notebook, subtasks_max: usize, clock: Arc<dyn Clock>) -> Self {
        let (notebook, hooks) = (Mutex::new(notebook), Mutex::default());
        Self(Arc::new(NotebookState { notebook, hooks, subtasks_max, clock }))
    }

    fn lock(&self) -> MutexGuard<'_, Notebook> {
        self.0.notebook.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of its content.
    pub fn notebook(&self) -> Notebook {
        self.lock().clone()
    }

    /// Calls `hook` after every change from now on; it replaces the hook of the same name. It is called by whoever
    /// makes the change and should return quickly.
    pub fn on_change(&self, name: &str, hook: impl Fn(Option<&Plan>) + Send + Sync + 'static) {
        let mut hooks = self.0.hooks.lock().unwrap_or_else(PoisonError::into_inner);
        hooks.retain(|(known, _)| known != name);
        hooks.push((name.to_owned(), Arc::new(hook)));
    }

    /// Removes the hook of this name. Returns whether there was one.
    pub fn remove_hook(&self, name: &str) -> bool {
        let mut hooks = self.0.hooks.lock().unwrap_or_else(PoisonError::into_inner);
        let before = hooks.len();
        hooks.retain(|(known, _)| known != name);
        hooks.len() < before
    }

    /// Changes the notebook, then calls the hooks.
    ///
    /// # Errors
    /// The error with which the change is refused; the hooks are not called then.
    pub fn change<T>(&self, change: impl FnOnce(&mut Notebook, usize, i64) -> Result<T>) -> Result<T> {
        let (value, plan) = {
            let mut notebook = self.lock();
            let value = change(&mut notebook, self.0.subtasks_max, self.0.clock.now_ms())?;
            (value, notebook.current.clone())
        };
        // Not under the lock: a hook may read the notebook.
        let hooks = self.0.hooks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        hooks.iter().for_each(|(_, hook)| hook(plan.as_ref()));
        Ok(value)
    }

    /// The hint that the model gets before its next step.
    pub fn hint(&self) -> String {
        hints::hint(self.lock().current.as_ref())
    }
}
