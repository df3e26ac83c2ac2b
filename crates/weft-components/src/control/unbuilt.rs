//! Components that canvases name and that this build cannot run. A canvas that contains one loads; the node reports
//! what is missing when it is checked and when it runs.

use std::sync::Arc;

use weft_core::{
    Component, ComponentSpec, Error, ErrorKind, Finished, NodeContext, NodeOutputs, Result, Role, Shape,
    async_trait,
};

const fn unbuilt(kind: &'static str, summary: &'static str) -> ComponentSpec {
    ComponentSpec {
        kind,
        role: Role::Step,
        summary,
        fields: &[],
        outputs: &[],
        time_limit: None,
        measuring_only: false,
        tool: None,
        build: |source| Ok(Arc::new(Unbuilt { kind: source.kind.to_owned() })),
    }
}

/// The component types that this build knows by name only.
pub(crate) static ALL: [ComponentSpec; 14] = [
    unbuilt("AgentInvoke", "A node of other editors that asked another agent."),
    unbuilt("Answer", "An older way to show an answer and wait for the next question."),
    unbuilt("Baidu", "An older search of the web."),
    unbuilt("BaiduFanyi", "An older translation."),
    unbuilt("Code", "An older name for a program."),
    unbuilt("Concentrator", "An older node that brought branches together."),
    unbuilt("Generate", "An older name for a model call."),
    unbuilt("Relevant", "An older node that asked a model whether passages fit the question."),
    unbuilt("Template", "An older node that filled in a text."),
    unbuilt("RewriteQuestion", "An older node that rewrote the question."),
    unbuilt("WaitingDialogue", "An older node that waited for the next question."),
    unbuilt("WenCai", "Chinese financial questions."),
    unbuilt("ExtractKeywords", "An older node that took keywords from the question."),
    unbuilt("KeywordExtract", "An older node that took keywords from the question."),
];

/// Returns what replaces a component of [`ALL`]. None is an exact equivalent, so none is substituted silently.
fn remedy(kind: &str) -> &'static str {
    match kind {
        "AgentInvoke" => {
            "add the other agent to the `tools` of an Agent, or call it with Invoke at `/api/v1/agents/ID/completions`"
        }
        "Answer" => {
            "show the answer with Message, and wait for a reply with UserFillUp; a conversation needs no node to \
             continue"
        }
        "Baidu" => "use WebSearch with an engine of your choice",
        "BaiduFanyi" => "use DeepL, or LLM with the languages in its prompt",
        "Code" => "use CodeExec, whose program has a function `main`",
        "Concentrator" => {
            "connect the branches to VariableAggregator, or to the next node, which waits for the outputs that it reads"
        }
        "Relevant" => "use Categorize with two categories, or LLM and Switch",
        "Template" => "use StringTransform with `method` `merge`, or Message",
        "Generate" => {
            "use LLM or Agent, with the prompt in `sys_prompt` and references such as `{Node:Id@output}`"
        }
        "RewriteQuestion" => "use LLM with the history of the conversation (`message_history_window_size`)",
        "WaitingDialogue" => "use UserFillUp",
        "WenCai" => {
            "its service has no public interface; use TuShare, AkShare, Jin10 or YahooFinance, or call a service of \
             your own with Invoke"
        }
        "ExtractKeywords" | "KeywordExtract" => {
            "use LLM, or `keyword` of Retrieval, which has a model add keywords"
        }
        _ => "remove the node, or give it a default value for exceptions",
    }
}

struct Unbuilt {
    kind: String,
}

impl Unbuilt {
    fn sentence(&self) -> String {
        format!("the component {} isn't part of this build", self.kind)
    }
}

#[async_trait]
impl Component for Unbuilt {
    fn shape(&self) -> Shape {
        Shape {
            unsupported: Some(format!("{} ({})", self.sentence(), remedy(&self.kind))),
            main_output: "result",
            // References to it are reported as unable to run, rather than as naming an unknown output.
            outputs: NodeOutputs::any(),
            ..Shape::default()
        }
    }

    async fn run(&self, _ctx: &NodeContext) -> Result<Finished> {
        Err(Error::new(ErrorKind::Unsupported, self.sentence()).help(remedy(&self.kind)))
    }
}

#[cfg(test)]
mod tests {
    use super::ALL;
    use crate::testing::{Node, Setting, failure};
    use serde_json::json;
    use weft_core::ErrorKind;

    #[tokio::test]
    async fn an_unbuilt_component_loads_and_fails_with_a_reason() {
        for spec in &ALL {
            let node = Node::new(spec.kind, json!({"api_key": ""}));
            let said = node.build().shape().unsupported.unwrap();
            let error = failure(&node, Setting::default()).await;
            assert!(said.contains(spec.kind) && error.message.contains(spec.kind));
            assert_eq!(error.kind, ErrorKind::Unsupported);
            // The remedy names the alternatives, before it runs and when it does.
            let help = super::remedy(spec.kind);
            assert!(said.contains(help) && error.full().contains(help), "{said} {}", error.full());
            let there = crate::catalog::ALL.iter().any(|one| help.contains(one.kind));
            assert!(there, "{}: {help}", spec.kind);
        }
    }
}
