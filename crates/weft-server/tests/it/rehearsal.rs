//! A component that does what its parameters say, as an agent would: it calls tools, asks for approval, reaches
//! limits.

use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use weft_core::component::{
    Component, ComponentSpec, Finished, Form, NodeSource, ParamProblem, Role, Shape, Suspension,
};
use weft_core::context::{Limited, Signal, ToolFinished, ToolStarted};
use weft_core::value::to_text;
use weft_core::{Catalog, NodeContext, Outputs, Piece, Result, SharedText, Value, async_trait};

static SPEC: ComponentSpec = ComponentSpec {
    kind: "Rehearsal",
    role: Role::Step,
    summary: "",
    fields: &[],
    outputs: &[],
    time_limit: None,
    measuring_only: false,
    tool: None,
    build,
};

/// The component catalog of these tests.
pub(crate) fn catalog() -> Catalog {
    Catalog::new(weft_components::catalog().all().into_iter().chain([&SPEC]))
}

/// A component that makes these calls, given as `{"tool", "arguments", "result", …}`.
pub(crate) fn calls(calls: &Json) -> Json {
    json!({"calls": calls})
}

/// A canvas with one rehearsal component, whose text a message shows.
pub(crate) fn canvas(params: &Json) -> Json {
    json!({"components": {
        "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["Agent:A"]},
        "Agent:A": {"obj": {"component_name": "Rehearsal", "params": params}, "downstream": ["Message:M"]},
        "Message:M": {"obj": {"component_name": "Message", "params": {"content": ["{Agent:A@content}"]}}},
    }})
}

fn build(source: &NodeSource<'_>) -> Result<Arc<dyn Component>, Vec<ParamProblem>> {
    Ok(Arc::new(Rehearsal(source.params.clone())))
}

struct Rehearsal(Map<String, Json>);

impl Rehearsal {
    fn list(&self, key: &str) -> &[Json] {
        self.0.get(key).and_then(Json::as_array).map_or(&[], Vec::as_slice)
    }
}

#[async_trait]
impl Component for Rehearsal {
    fn shape(&self) -> Shape {
        Shape { main_output: "content", streams: true, ..Shape::default() }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let (writer, text) = SharedText::new();
        ctx.publish("content", text).await?;
        let mut whole = String::new();
        let mut write = |piece: String| {
            whole.push_str(&piece);
            writer.push(Piece::Text(piece.into()));
        };
        if self.0.contains_key("approve") {
            write("Let me see. ".to_owned());
        }
        if ctx.resumed.is_none() {
            for (number, call) in self.list("calls").iter().enumerate() {
                self.call(ctx, number, call).await?;
            }
            if let Some(fields) = self.0.get("approve").and_then(Json::as_object) {
                let form =
                    Form { fields: fields.clone(), tips: Some("May I?".to_owned()), ..Form::default() };
                return Ok(Finished::suspended(Suspension { form, state: json!({"version": 1}) }));
            }
        }
        for (task, decision) in &ctx.filled {
            write(format!("{task}: {}. ", to_text(decision)));
        }
        if self.0.contains_key("limited") {
            ctx.signal(Signal::Limited(Limited::MaxRounds)).await?;
        }
        if self.0.contains_key("hold") {
            std::future::pending::<()>().await;
        }
        write("Done.".to_owned());
        writer.finish();
        Ok(Outputs::of("content", Value::text(whole)).into())
    }
}

impl Rehearsal {
    async fn call(&self, ctx: &NodeContext, number: usize, call: &Json) -> Result<()> {
        let text = |key: &str| call[key].as_str().map(str::to_owned);
        let agent = text("agent").unwrap_or_else(|| ctx.node.to_string());
        let tool = text("tool").unwrap();
        let started = ToolStarted {
            path: format!("{agent}-->{tool}").into(),
            agent: agent.into(),
            call: format!("call_{number}").into(),
            tool: tool.into(),
            arguments: Arc::new(call["arguments"].clone()),
        };
        ctx.signal(Signal::ToolStarted(Box::new(started.clone()))).await?;
        let finished = ToolFinished {
            started,
            result: Arc::new(call["result"].clone()),
            failed: call["failed"] == true,
            repaired: call["repaired"] == true,
            elapsed: 0.25,
        };
        ctx.signal(Signal::ToolFinished(Box::new(finished))).await
    }
}
