//! The ExitLoop component: leaves the enclosing Loop immediately.

use std::sync::Arc;

use weft_core::{Component, ComponentSpec, Finished, NodeContext, Result, Role, Shape, async_trait};

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "ExitLoop",
    role: Role::Leave,
    summary: "Ends the surrounding Loop immediately.",
    fields: &[],
    outputs: &[],
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |_| Ok(Arc::new(ExitLoop)),
};

struct ExitLoop;

#[async_trait]
impl Component for ExitLoop {
    fn shape(&self) -> Shape {
        Shape::default()
    }

    async fn run(&self, _ctx: &NodeContext) -> Result<Finished> {
        Ok(Finished::default())
    }
}
