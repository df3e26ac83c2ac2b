//! Plans as Markdown.

use super::{Plan, PlanState, Subtask};

/// The plan with one line per subtask.
pub(super) fn overview(plan: &Plan) -> String {
    let line = |(at, subtask): (usize, &Subtask)| {
        let (mark, tag) = match subtask.state {
            PlanState::Todo => (' ', ""),
            PlanState::InProgress => (' ', " [WIP]"),
            PlanState::Done => ('x', ""),
            PlanState::Abandoned => (' ', " [Abandoned]"),
        };
        format!("- [{mark}] {at}.{tag} {}", one_line(&subtask.draft.name))
    };
    let lines: Vec<String> = plan.subtasks.iter().enumerate().map(line).collect();
    let Plan { name, description, expected_outcome, state, .. } = plan;
    let state = state.as_str();
    format!(
        "# {}\n\n{description}\n\nExpected outcome: {expected_outcome}\nState: {state}\n\n{}",
        one_line(name),
        lines.join("\n")
    )
}

/// All details of one subtask.
pub(super) fn subtask_details(subtask: &Subtask) -> String {
    let mut lines = vec![
        format!("## {}", one_line(&subtask.draft.name)),
        format!("- State: {}", subtask.state.as_str()),
        format!("- Created: {}", time(subtask.created_ms)),
    ];
    lines.extend(subtask.finished_ms.map(|ms| format!("- Finished: {}", time(ms))));
    lines.push(format!("- Description: {}", subtask.draft.description));
    lines.push(format!("- Expected outcome: {}", subtask.draft.expected_outcome));
    lines.extend(subtask.outcome.as_ref().map(|outcome| format!("- Outcome: {outcome}")));
    lines.join("\n")
}

/// The past plans, one line each.
pub(super) fn history(plans: &[Plan]) -> String {
    let line = |plan: &Plan| {
        let outcome = plan.outcome.as_deref().map(|text| format!(": {}", one_line(text))).unwrap_or_default();
        let (id, state) = (&plan.id, plan.state.as_str());
        format!("- `{id}` {} ({state}, {}){outcome}", one_line(&plan.name), time(plan.created_ms))
    };
    if plans.is_empty() {
        return "There are no plans in the history.".to_owned();
    }
    plans.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn time(ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(ms) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => "at an unknown time".to_owned(),
    }
}
