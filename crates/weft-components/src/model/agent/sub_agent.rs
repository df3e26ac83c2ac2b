//! An agent as a tool of another agent.

use std::fmt::Write as _;
use std::sync::Arc;

use futures::stream::{self, StreamExt as _};
use serde_json::{Map, json};
use weft_core::tool::{Invocation, ToolBody, ToolStep, ToolStream};
use weft_core::{Component as _, ComponentId, Error, Json, Result};

use super::Agent;
use super::called::{self, CallContext, step};
use crate::model::prompt::Asker;

/// A tool that calls an agent.
#[derive(Clone)]
pub(super) struct SubAgent {
    /// The agent.
    pub agent: Arc<Agent>,
    /// The id of the tool: its agent's id, `-->` and its own name.
    pub node: ComponentId,
    /// The name by which the model calls it.
    pub function: String,
}

/// Returns the schema of what a calling agent fills in. A canvas may override the description of the task.
pub(super) fn parameters(params: &Map<String, Json>) -> Json {
    let task = match params.get("user_prompt") {
        Some(own @ Json::Object(_)) => own.clone(),
        _ => json!({"type": "string", "description": "what to do, in full: the agent sees nothing else"}),
    };
    json!({
        "type": "object",
        "properties": {
            "user_prompt": task,
            "reasoning": {"type": "string", "description": "why this agent was chosen and what is expected of it"},
            "context": {"type": "string", "description": "everything it has to know about the matter"},
        },
        "required": ["user_prompt", "reasoning", "context"],
    })
}

/// Returns the task in labelled parts, or just the task if there is nothing else.
fn question(arguments: &Map<String, Json>) -> String {
    let text = |name: &str| arguments.get(name).map(weft_core::value::to_text).unwrap_or_default();
    let (task, reasoning, context) = (text("user_prompt"), text("reasoning"), text("context"));
    if reasoning.trim().is_empty() && context.trim().is_empty() {
        return task.trim().to_owned();
    }
    let mut question = String::new();
    for (label, part) in [("Reasoning", reasoning), ("Context", context), ("Query", task)] {
        if !part.trim().is_empty() {
            let _ = writeln!(question, "# {label}\n{}\n", part.trim());
        }
    }
    question.trim_end().to_owned()
}

impl SubAgent {
    async fn carry_out(self, invocation: Invocation) -> Result<ToolStep> {
        let shape = self.agent.shape();
        let reads = shape.reads.all().map(|reference| (reference.clone(), invocation.agent.value(reference)));
        let place = CallContext {
            node: self.node,
            function: self.function,
            inputs: invocation.agent.inputs.afresh(reads),
        };
        let question = question(&invocation.arguments);
        if question.is_empty() {
            return Err(Error::invalid("`user_prompt` is empty").help("say what the agent is to do"));
        }
        let agent = self.agent;
        // Agents call agents: boxing the future breaks the recursive type.
        let work = |ctx| async move { Box::pin(agent.work(&ctx, Asker::Agent(&question))).await };
        let finished = called::run(&invocation, place, work).await?;
        Ok(step(finished, shape.main_output))
    }
}

impl ToolBody for SubAgent {
    fn call(&self, invocation: Invocation) -> ToolStream {
        stream::once(self.clone().carry_out(invocation)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_task_is_sent_in_labelled_parts() {
        let check = |arguments: Json, expected: &str| {
            assert_eq!(question(arguments.as_object().unwrap()), expected);
        };
        check(json!({"user_prompt": "Q"}), "Q");
        check(json!({"user_prompt": "Q", "reasoning": " ", "context": ""}), "Q");
        check(json!({"user_prompt": " ", "reasoning": "", "context": ""}), "");
        check(
            json!({"user_prompt": "Q", "reasoning": "R", "context": "C"}),
            "# Reasoning\nR\n\n# Context\nC\n\n# Query\nQ",
        );
        check(json!({"user_prompt": "Q", "context": "C"}), "# Context\nC\n\n# Query\nQ");
    }
}
