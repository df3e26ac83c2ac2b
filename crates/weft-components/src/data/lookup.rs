//! The Lookup component: returns immediately, for measuring the overhead of an engine.

use weft_core::{
    Component, ComponentSpec, Finished, NodeContext, Outputs, Reads, Result, Role, Shape, Template, ToolSpec,
    Value, async_trait,
};

use crate::params::{Field, Params, fields};

static KEY: Field<Template> = Field::template("key", "the key").by_model("the key");

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Lookup",
    role: Role::Step,
    summary: "Looks up the value of a key.",
    fields: &[fields(&[&KEY])],
    outputs: &[weft_core::OutputSpec::new("result", "string", "the value of the key")],
    time_limit: None,
    measuring_only: true,
    tool: Some(ToolSpec { function: "lookup", idempotent: true, sources: false }),
    build: |source| {
        let mut params = Params::of(source);
        let key = params.take(&KEY);
        params.finish(Lookup { key })
    },
};

struct Lookup {
    key: Template,
}

#[async_trait]
impl Component for Lookup {
    fn shape(&self) -> Shape {
        Shape {
            reads: Reads::always(self.key.references().cloned()),
            main_output: "result",
            ..Shape::default()
        }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let key = self.key.render(&ctx.inputs)?;
        Ok(Outputs::of("result", Value::text(format!("value of {key}"))).into())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, outputs};
    use serde_json::json;

    #[tokio::test]
    async fn a_value_is_found_by_key() {
        let node = Node::new("Lookup", json!({"key": "{sys.query}"}));
        assert_eq!(
            outputs(&node, Setting { query: "k", ..Setting::default() }).await,
            json!({"result": "value of k"})
        );
        assert!(super::SPEC.measuring_only);
    }
}
