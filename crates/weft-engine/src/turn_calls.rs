//! Tool calls of a turn, on their way into the session: what its agents see of them in later turns.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weft_core::context::{HistoryMessage, RunContext, ToolFinished};
use weft_core::masking::Masks;
use weft_core::past_calls::{CALLS_MAX, PastCall, PastCalls, ToolHistory};
use weft_core::value::to_text;
use weft_core::{ComponentId, Json, RunId};
use weft_dsl::plan::{Plan, PlanNode};

/// Separates a nested call's id from those of the calls that lead to it.
const INSIDE: char = '/';

/// The calls that a run has made so far, by node: the latest of each, and only of nodes that look back at
/// them. This is a fold of the journal's records, so that a run which is picked up has the same.
#[derive(Clone, Debug, Default)]
pub struct TurnCalls(BTreeMap<ComponentId, VecDeque<ToolFinished>>);

impl TurnCalls {
    /// Notes the end of a call that was made by an activation of this node.
    pub fn note(&mut self, node: &PlanNode, call: &ToolFinished) {
        // Nested calls belong to the called agent or script; the model never saw them.
        let own = call.started.agent == node.id && !call.started.call.contains(INSIDE);
        if node.shape.tool_history == ToolHistory::None || !own {
            return;
        }
        let calls = self.0.entry(node.id.clone()).or_default();
        if calls.len() == CALLS_MAX {
            // Drops the oldest: the next question is about what an agent did last.
            calls.pop_front();
        }
        calls.push_back(call.clone());
    }

    /// Returns the calls that the session keeps after this run.
    pub fn after(&self, before: &PastCalls, plan: &Plan, context: &RunContext) -> PastCalls {
        let mut all = before.clone();
        let keeps = |id: &ComponentId| {
            let node = plan.nodes.iter().find(|node| node.id == *id);
            node.map_or(ToolHistory::None, |node| node.shape.tool_history)
        };
        all.retain(|node, _| keeps(node) != ToolHistory::None);
        for (node, calls) in &self.0 {
            let keeps = keeps(node);
            all.add(node, keeps, calls.iter().map(|call| kept(call, keeps, &context.run, &context.masks)));
        }
        all
    }
}

/// Drops the calls of runs that have no part in this conversation.
pub(crate) fn keep_those_of(calls: &mut PastCalls, messages: &[HistoryMessage]) {
    calls.retain(|_, call| messages.iter().any(|message| message.run.as_ref() == Some(&call.run)));
}

/// Returns a call as a session keeps it. Secrets are masked before anything is truncated: half a secret would
/// not be recognised.
fn kept(call: &ToolFinished, keeps: ToolHistory, run: &RunId, masks: &Masks) -> PastCall {
    let hidden = |value: &Json| masks.json(value);
    let arguments = hidden(&call.started.arguments);
    let arguments = arguments.as_ref().unwrap_or(&call.started.arguments).to_string();
    let result = hidden(&call.result);
    let result = to_text(result.as_ref().unwrap_or(&call.result));
    PastCall {
        run: run.clone(),
        call: Arc::clone(&call.started.call),
        tool: Arc::clone(&call.started.tool),
        arguments: short_arguments(arguments, keeps).into(),
        result: cut(result, keeps.result_max()).into(),
        failed: call.failed,
    }
}

/// Arguments that are sent back to a model have to be a complete object.
fn short_arguments(arguments: String, keeps: ToolHistory) -> String {
    let count = arguments.chars().count();
    match keeps {
        ToolHistory::Full if count > keeps.arguments_max() => {
            serde_json::json!({"omitted": format!("{count} characters")}).to_string()
        }
        ToolHistory::Full => arguments,
        ToolHistory::None | ToolHistory::Summary => cut(arguments, keeps.arguments_max()),
    }
}

/// Returns the beginning of a text, with a note of its full length.
fn cut(mut text: String, most: usize) -> String {
    let Some((place, _)) = text.char_indices().nth(most) else { return text };
    let count = text.chars().count();
    text.truncate(place);
    text.push_str(&format!(" … [{count} characters]"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use weft_core::context::ToolStarted;

    fn call(arguments: Json, result: Json) -> ToolFinished {
        let started = ToolStarted {
            agent: "Agent:A".into(),
            path: "A-->t".into(),
            call: "call_1".into(),
            tool: "t".into(),
            arguments: Arc::new(arguments),
        };
        ToolFinished { started, result: Arc::new(result), failed: false, repaired: false, elapsed: 0.0 }
    }

    #[test]
    fn truncation_leaves_no_part_of_a_secret() {
        let masks = Masks::default();
        masks.add("env.token", &json!("0123456789abcdef")).unwrap();
        let text = format!("{}0123456789abcdef and more", "x".repeat(195));
        let kept = kept(
            &call(json!({"token": "0123456789abcdef"}), json!(text)),
            ToolHistory::Summary,
            &"r".into(),
            &masks,
        );
        assert_eq!(&*kept.arguments, r#"{"token":"***"}"#);
        assert!(!kept.result.contains("0123") && kept.result.contains("x***"), "{}", kept.result);
    }

    #[test]
    fn truncated_arguments_stay_a_json_object() {
        let long = call(json!({"text": "ä".repeat(5_000)}), json!("ä".repeat(9_000)));
        let full = kept(&long, ToolHistory::Full, &"r".into(), &Masks::default());
        let arguments: Json = serde_json::from_str(&full.arguments).unwrap();
        assert_eq!(arguments["omitted"], "5011 characters");
        assert!(full.result.ends_with(" … [9000 characters]") && full.result.chars().count() < 6_100);
        let summary = kept(&long, ToolHistory::Summary, &"r".into(), &Masks::default());
        assert!(summary.arguments.chars().count() < 200 && summary.result.chars().count() < 240);
    }
}
