//! The IterationItem component: the first node of every round of an Iteration.

use std::sync::Arc;

use weft_core::{
    Component, ComponentSpec, Error, Finished, Json, NodeContext, Outputs, Result, Role, Shape, Value,
    async_trait,
};

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "IterationItem",
    role: Role::RoundStart,
    summary: "Passes the item of the current round and its index to the body of an Iteration.",
    fields: &[],
    outputs: &[
        weft_core::OutputSpec::new("item", "any", "the item of the current round"),
        weft_core::OutputSpec::new("index", "integer", "its index in the list, starting at 0"),
        weft_core::OutputSpec::new("result", "any", "the same as `item`"),
    ],
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |_| Ok(Arc::new(IterationItem)),
};

struct IterationItem;

#[async_trait]
impl Component for IterationItem {
    fn shape(&self) -> Shape {
        Shape { main_output: "item", ..Shape::default() }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let round = ctx.round.as_ref();
        let Some((round, item)) = round.and_then(|round| Some((round, round.item.clone()?))) else {
            return Err(Error::invalid("an IterationItem ran outside an Iteration")
                .help("put the node inside an Iteration"));
        };
        let mut outputs = Outputs::new();
        outputs.set("item", Value::Json(Arc::clone(&item)));
        outputs.set("index", Json::from(round.index));
        outputs.set("result", Value::Json(item));
        Ok(outputs.into())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, failure, outputs};
    use serde_json::json;
    use weft_core::context::Round;

    #[tokio::test]
    async fn item_and_index_have_their_old_names_too() {
        let node = Node::new("IterationItem", json!({}));
        let round = Some(Round { index: 2, item: Some(json!({"a": 1}).into()) });
        let setting = Setting { round, ..Setting::default() };
        assert_eq!(outputs(&node, setting).await, json!({"item": {"a": 1}, "index": 2, "result": {"a": 1}}));
        assert!(failure(&node, Setting::default()).await.message.contains("outside an Iteration"));
    }
}
