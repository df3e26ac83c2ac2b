//! The tools with which a model works on its plan.

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use weft_core::{Error, Result, Tool};

use super::view::{history, subtask_details};
use super::{PlanDraft, PlanNotebook, PlanState, Revision, SubtaskDraft};
use crate::function::tool;

/// Maximum number of positions that one view shows in addition to as many as there are subtasks.
// A model may name thousands, and each wrong one would be a line of the result.
const WRONG_PLACES_MAX: usize = 10;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Add,
    Revise,
    Delete,
}

#[derive(Deserialize, JsonSchema)]
struct Revise {
    /// The subtask's place, from 0; for `add` the place that it gets.
    subtask_idx: usize,
    /// What to do there.
    action: Action,
    /// The subtask, for `add` and `revise`.
    subtask: Option<SubtaskDraft>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OpenState {
    Todo,
    InProgress,
    Abandoned,
}

#[derive(Deserialize, JsonSchema)]
struct Update {
    /// The subtask's place, from 0.
    subtask_idx: usize,
    /// How far it is.
    state: OpenState,
}

#[derive(Deserialize, JsonSchema)]
struct FinishSubtask {
    /// The subtask's place, from 0.
    subtask_idx: usize,
    /// What came of it: facts that can be checked, no intentions.
    subtask_outcome: String,
}

#[derive(Deserialize, JsonSchema)]
struct View {
    /// The subtasks' places, from 0.
    subtask_idx: Vec<usize>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum EndState {
    Done,
    Abandoned,
}

#[derive(Deserialize, JsonSchema)]
struct Finish {
    /// How it ends.
    state: EndState,
    /// What came of it, or why it is abandoned.
    outcome: String,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
struct Recover {
    /// The plan's id, as `view_historical_plans` tells it.
    plan_id: String,
}

impl PlanNotebook {
    /// Creates a tool that works on this notebook; it changes nothing else.
    fn tool_of<A: DeserializeOwned + JsonSchema + Send + 'static>(
        &self,
        name: &str,
        description: &str,
        work: impl Fn(&Self, A) -> Result<String> + Send + Sync + 'static,
    ) -> Result<Tool> {
        let notebook = self.clone();
        let mut tool = tool(name, description, move |arguments: A| {
            let done = work(&notebook, arguments);
            async move { done }
        })?;
        // Each call builds on the previous one.
        tool.traits.alone = true;
        Ok(tool)
    }

    /// Returns the tools with which a model edits the notebook.
    pub(crate) fn tools(&self) -> Result<Vec<Tool>> {
        Ok(vec![
            self.tool_of(
                "create_plan",
                "Makes a plan of subtasks for a task of several steps. It takes the place of the current plan.",
                create,
            )?,
            self.tool_of("revise_current_plan", "Adds, changes or deletes a subtask of the current plan.", revise)?,
            self.tool_of("update_subtask_state", "Says how far a subtask of the current plan is.", update)?,
            self.tool_of(
                "finish_subtask",
                "Marks a subtask as done, with its outcome. The next one begins.",
                finish_subtask,
            )?,
            self.tool_of("view_subtasks", "Shows subtasks of the current plan with all details.", view)?,
            self.tool_of("finish_plan", "Ends the current plan.", finish)?,
            self.tool_of("view_historical_plans", "Lists the plans of the past.", |notebook, _: Nothing| {
                Ok(history(&notebook.lock().history))
            })?,
            self.tool_of("recover_historical_plan", "Takes up a plan of the past again.", recover)?,
        ])
    }
}

fn create(notebook: &PlanNotebook, draft: PlanDraft) -> Result<String> {
    let name = draft.name.clone();
    let replaced = notebook.change(|notebook, max, now| notebook.create(draft, max, now))?;
    Ok(match replaced {
        None => format!("The plan `{name}` is made."),
        Some(other) => format!("The plan `{name}` is made in the place of `{other}`, which is abandoned."),
    })
}

fn revise(notebook: &PlanNotebook, Revise { subtask_idx: at, action, subtask }: Revise) -> Result<String> {
    let subtask = |what: &str| {
        subtask.ok_or_else(|| Error::invalid(format!("`subtask` is missing: `{what}` needs it")))
    };
    let (revision, done) = match action {
        Action::Add => (Revision::Add(at, subtask("add")?), "added"),
        Action::Revise => (Revision::Revise(at, subtask("revise")?), "changed"),
        Action::Delete => (Revision::Delete(at), "deleted"),
    };
    notebook.change(|notebook, max, now| notebook.revise(revision, max, now))?;
    Ok(format!("Subtask {at} is {done}."))
}

fn update(notebook: &PlanNotebook, Update { subtask_idx: at, state }: Update) -> Result<String> {
    let state = match state {
        OpenState::Todo => PlanState::Todo,
        OpenState::InProgress => PlanState::InProgress,
        OpenState::Abandoned => PlanState::Abandoned,
    };
    notebook.change(|notebook, _, now| notebook.update(at, state, now))?;
    Ok(format!("Subtask {at} is {}.", state.as_str()))
}

fn finish_subtask(notebook: &PlanNotebook, done: FinishSubtask) -> Result<String> {
    let FinishSubtask { subtask_idx: at, subtask_outcome } = done;
    let next = notebook.change(|notebook, _, now| notebook.finish_subtask(at, subtask_outcome, now))?;
    Ok(match next {
        Some(next) => format!("Subtask {at} is done; subtask {next} is in progress now."),
        None => format!("Subtask {at} is done. All subtasks are over: call `finish_plan`."),
    })
}

fn view(notebook: &PlanNotebook, View { mut subtask_idx }: View) -> Result<String> {
    subtask_idx.sort_unstable();
    // Otherwise a subtask that is named twice would be shown twice.
    subtask_idx.dedup();
    let mut notebook = notebook.lock();
    let plan = notebook.plan()?;
    let count = plan.subtasks.len();
    let shown = subtask_idx.iter().take(count.saturating_add(WRONG_PLACES_MAX)).map(|at| {
        match plan.subtasks.get(*at) {
            Some(subtask) => subtask_details(subtask),
            None => format!("There is no subtask {at}: use one from 0 to {}.", count.saturating_sub(1)),
        }
    });
    Ok(shown.collect::<Vec<_>>().join("\n\n"))
}

fn finish(notebook: &PlanNotebook, Finish { state, outcome }: Finish) -> Result<String> {
    let state = match state {
        EndState::Done => PlanState::Done,
        EndState::Abandoned => PlanState::Abandoned,
    };
    notebook.change(|notebook, _, now| notebook.finish(state, outcome, now))?;
    Ok(format!("The plan is {}.", state.as_str()))
}

fn recover(notebook: &PlanNotebook, Recover { plan_id }: Recover) -> Result<String> {
    let replaced = notebook.change(|notebook, _, now| notebook.recover(&plan_id, now))?;
    Ok(match replaced {
        None => "The plan is the current one again.".to_owned(),
        Some(other) => format!("The plan is the current one again; `{other}` is in the history now."),
    })
}
