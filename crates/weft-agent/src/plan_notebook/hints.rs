//! The hints that a model gets about its plan before each step.

use super::view::{overview, subtask_details};
use super::{Plan, PlanState};

const NO_PLAN: &str = include_str!("../prompts/plan_none.md");
const NOT_BEGUN: &str = include_str!("../prompts/plan_not_begun.md");
const IN_PROGRESS: &str = include_str!("../prompts/plan_in_progress.md");
const BETWEEN: &str = include_str!("../prompts/plan_between.md");
const ALL_OVER: &str = include_str!("../prompts/plan_all_over.md");

/// The hint for the current phase of a plan.
pub(super) fn hint(plan: Option<&Plan>) -> String {
    let Some(plan) = plan else { return wrapped(NO_PLAN, &[]) };
    let overview = overview(plan);
    let count = |is: fn(PlanState) -> bool| plan.subtasks.iter().filter(|one| is(one.state)).count();
    let in_progress = plan.subtasks.iter().position(|one| one.state == PlanState::InProgress);
    if let Some((at, subtask)) = in_progress.and_then(|at| Some((at, plan.subtasks.get(at)?))) {
        let values =
            [("{plan}", overview), ("{index}", at.to_string()), ("{subtask}", subtask_details(subtask))];
        return wrapped(IN_PROGRESS, &values);
    }
    // A subtask in progress comes first, whatever its position: the hint is about current work.
    let next = plan.subtasks.iter().position(|one| !one.state.is_over());
    match next {
        None => wrapped(ALL_OVER, &[("{plan}", overview)]),
        Some(_) if count(PlanState::is_over) == 0 => wrapped(NOT_BEGUN, &[("{plan}", overview)]),
        Some(next) => wrapped(BETWEEN, &[("{plan}", overview), ("{index}", next.to_string())]),
    }
}

/// Fills a prompt with its values. The plan's own text is inserted last, so that nothing in it is taken for a
/// placeholder.
fn wrapped(prompt: &str, values: &[(&str, String)]) -> String {
    let mut text = prompt.trim_end().to_owned();
    for (name, value) in values.iter().rev() {
        text = text.replacen(name, value, 1);
    }
    format!("<system-hint>\n{text}\n</system-hint>")
}
