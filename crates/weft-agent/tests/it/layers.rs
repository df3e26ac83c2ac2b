//! Agent, model and tools depend only on each other's traits.

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use serde_json::json;
use weft_agent::driver::{Answer, Driver, End, Job, Start};
use weft_agent::native::Native;
use weft_core::seam::chat_model::{
    ChatDelta, ChatModel, ChatRequest, ChatStream, ModelInfo, ModelKind, StopReason, Usage,
};
use weft_core::tool::{
    Invocation, Origin, Tool, ToolBody, ToolOutput, ToolSession, ToolStep, ToolStream, once,
};
use weft_core::{Result, async_trait};
use weft_testkit::Reply;

use crate::kit::{World, look, question};

struct StubTools;

impl ToolBody for StubTools {
    fn call(&self, _: Invocation) -> ToolStream {
        once(async { Ok(ToolOutput::text("from a stub")) })
    }
}

#[async_trait]
impl ToolSession for StubTools {
    fn tools(&self) -> Vec<Arc<Tool>> {
        vec![Arc::new(Tool::new("look", "", json!({}), Origin::Function, Arc::new(Self)))]
    }

    fn call(&self, _: &str, invocation: Invocation) -> ToolStream {
        ToolBody::call(self, invocation)
    }
}

struct StubModel(ModelInfo);

#[async_trait]
impl ChatModel for StubModel {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    async fn chat(&self, _: ChatRequest) -> Result<ChatStream> {
        let end = ChatDelta::End { reason: StopReason::Stop, usage: Usage::default() };
        Ok(stream::iter([Ok(ChatDelta::Text("from a stub".to_owned())), Ok(end)]).boxed())
    }
}

/// A driver that calls the first tool once and answers with its result.
struct StubAgent;

#[async_trait]
impl Driver for StubAgent {
    async fn run(&self, job: &Job<'_>, _: Start) -> Result<End> {
        let tool = job.tools.tools().remove(0);
        let arguments = serde_json::Map::from_iter([("q".to_owned(), json!("x"))]);
        let invocation =
            Invocation { id: "c".to_owned(), arguments, agent: Arc::clone(job.ctx), resumed: None };
        let mut steps = job.tools.call(&tool.name, invocation);
        let Some(Ok(ToolStep::Done(output))) = steps.next().await else { panic!("one step") };
        Ok(End::Answered(Answer { text: output.to_text(), ..Answer::default() }))
    }
}

#[tokio::test]
async fn each_layer_may_be_replaced() {
    let text = |end: Result<End>| match end.unwrap() {
        End::Answered(answer) => answer.text,
        End::Suspended(_) => panic!("it answers"),
    };
    // The tools are a stub.
    let world = World::new([look("x"), Reply::text("done")]);
    let job = Job {
        ctx: &world.ctx,
        model: &world.model,
        tools: &StubTools,
        options: &world.options,
        writer: None,
    };
    assert_eq!(text(Native.run(&job, question("Q")).await), "done");
    assert_eq!(world.asked()[1].messages[3].text, "from a stub");
    // The model is a stub.
    let world = World::new([]);
    let info = ModelInfo {
        name: "stub".to_owned(),
        provider: "stub".to_owned(),
        model: "stub".to_owned(),
        window: 1_000,
        tools: true,
        deferred_tools_max: 0,
        kind: ModelKind::Chat,
        prices: None,
    };
    let model = StubModel(info);
    let job =
        Job { ctx: &world.ctx, model: &model, tools: &world.toolkit, options: &world.options, writer: None };
    assert_eq!(text(Native.run(&job, question("Q")).await), "from a stub");
    // The agent is a stub.
    let world = World::new([]);
    assert_eq!(text(world.drive(&StubAgent, question("Q")).await), "found x");
}
