//! UserFillUp: stops the run until a person has filled in a form.

use async_trait::async_trait;
use weft_core::component::Form;
use weft_core::reference::Inputs;
use weft_core::{Component, ComponentSpec, Finished, NodeContext, Reads, Result, Role, Shape, Value};

use crate::control::fields::{self, Fields};
use crate::params::{self, Params};
use crate::text::Text;

const TIPS: &str = "Please fill in the form to go on.";

/// The spec.
pub static SPEC: ComponentSpec = ComponentSpec {
    kind: "UserFillUp",
    role: Role::Pause,
    summary: "Asks a person to fill in a form and goes on with the answers.",
    params_schema: || {
        params::schema(&[
            ("enable_tips", "boolean", "whether to show the tips"),
            ("tips", "string", "what to tell the person; may hold references"),
            ("inputs", "object", "the form: field key → {name, type, optional, options}"),
        ])
    },
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        let shown = params.flag("enable_tips").unwrap_or(true);
        let tips = params.text("tips").unwrap_or_else(|| TIPS.to_owned());
        let tips = match Text::parse(&tips, source, "/tips") {
            Ok(text) => shown.then_some(text),
            Err(problem) => {
                params.problem(problem);
                None
            }
        };
        params.finish(UserFillUp { tips, fields: fields::declared(source) })
    },
};

struct UserFillUp {
    tips: Option<Text>,
    fields: Fields,
}

#[async_trait]
impl Component for UserFillUp {
    fn shape(&self) -> Shape {
        let reads = Reads::always(self.tips.iter().flat_map(Text::references));
        Shape { reads, main_output: "tips", ..Shape::default() }
    }

    fn form(&self, inputs: &Inputs) -> Form {
        // Tips are a courtesy: when their template fails, the form is shown without them.
        let tips = self.tips.as_ref().and_then(|tips| tips.render(inputs).ok());
        Form { fields: self.fields.clone(), tips, ..Form::default() }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let mut outputs = fields::outputs(&self.fields, &ctx.filled);
        if let Some(tips) = &self.tips {
            outputs.set("tips", Value::text(tips.render(&ctx.inputs)?));
        }
        Ok(outputs.into())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, Stage, outputs};
    use serde_json::json;

    #[tokio::test]
    async fn the_form_shows_rendered_tips_and_the_answers_become_outputs() {
        let params = json!({"tips": "The plan: {Agent:A@plan}", "inputs": {"ok": {"type": "boolean"}}});
        let node = Node::new("UserFillUp", params.clone());
        let component = node.build();
        let values = || Setting::values([("Agent:A@plan", json!("a, b"))]);
        let stage = Stage::new(&node, &*component, values());
        let form = component.form(&stage.ctx.inputs);
        assert_eq!(form.tips.as_deref(), Some("The plan: a, b"));
        assert_eq!(json!(form.fields), params["inputs"]);

        let setting = Setting { filled: json!({"ok": "true"}), ..values() };
        assert_eq!(outputs(&node, setting).await, json!({"ok": true, "tips": "The plan: a, b"}));
    }

    #[tokio::test]
    async fn tips_can_be_switched_off() {
        let node = Node::new("UserFillUp", json!({"tips": "{Agent:A@plan}", "enable_tips": false}));
        let component = node.build();
        assert!(component.shape().reads.always.is_empty());
        assert_eq!(component.form(&weft_core::reference::Inputs::default()).tips, None);
    }
}
