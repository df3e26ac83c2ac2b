//! Begin: where every run starts.

use async_trait::async_trait;
use weft_core::{
    Component, ComponentSpec, Finished, Json, NodeContext, NodeOutputs, Outputs, ParamProblem, Reads,
    Reference, Result, Role, Shape,
};

use weft_core::component::Form;
use weft_core::reference::Inputs;

use crate::control::fields::{self, Fields};
use crate::params::{self, Field, Params, Widget, asks_for_something, choice};

static MODE: Field<&str> = Field::choice(
    "mode",
    "conversational",
    &[
        choice("conversational", "people write to it"),
        choice("task", "nobody is greeted"),
        choice("webhook", "not part of this build"),
    ],
    "how a run begins",
);
static PROLOGUE: Field<String> =
    Field::text("prologue", "the first message of a conversation").widget(Widget::Lines);
static ENABLE_PROLOGUE: Field<bool> = Field::flag("enablePrologue", "whether there is one").on_by_default();

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Begin",
    role: Role::Entry,
    summary: "Starts the run and hands on what was filled into its form.",
    fields: &[params::fields(&[&MODE, &PROLOGUE, &ENABLE_PROLOGUE, &fields::INPUTS])],
    outputs: &[],
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        if params.take(&MODE) == "webhook" {
            let problem = ParamProblem::new("/mode", "has no effect: webhooks aren't part of this build");
            params.warn(problem.help("start the canvas in another way, such as over HTTP or by a schedule"));
        }
        let (fields, warnings) = (fields::declared(&mut params), params.warnings());
        params.finish(Begin { fields, warnings })
    },
};

struct Begin {
    fields: Fields,
    warnings: Vec<ParamProblem>,
}

fn query() -> Reference {
    Reference::Global("sys.query".into())
}

impl Begin {
    /// Without a filled form the question stands in for it: an object is spread over the fields of
    /// the same names, and the only field there is takes the question as it is.
    fn stand_in(&self, query: &Json) -> Outputs {
        let parsed = query.as_str().and_then(|text| serde_json::from_str::<Json>(text).ok());
        let members = parsed.as_ref().unwrap_or(query).as_object();
        if let Some(members) = members {
            let matching = members.iter().filter(|(key, _)| self.fields.contains_key(*key));
            return matching.map(|(key, value)| (key, value.clone())).collect();
        }
        match self.fields.keys().next() {
            Some(key) if self.fields.len() == 1 && asks_for_something(query) => {
                Outputs::of(key, query.clone())
            }
            _ => Outputs::new(),
        }
    }
}

#[async_trait]
impl Component for Begin {
    fn shape(&self) -> Shape {
        let reads = if self.fields.is_empty() { Reads::default() } else { Reads::always([query()]) };
        // Without a form whoever starts the run says what there is.
        let named = NodeOutputs::named(self.fields.keys().map(String::as_str));
        let outputs = NodeOutputs { open: self.fields.is_empty(), ..named };
        Shape { reads, warnings: self.warnings.clone(), outputs, ..Shape::default() }
    }

    fn form(&self, _: &Inputs) -> Form {
        Form { fields: self.fields.clone(), ..Form::default() }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        if ctx.filled.is_empty() {
            return Ok(self.stand_in(&ctx.inputs.json(&query())).into());
        }
        Ok(fields::outputs(&self.fields, &ctx.filled).into())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, outputs};
    use serde_json::json;

    #[tokio::test]
    async fn filled_values_become_outputs() {
        let node = Node::new(
            "Begin",
            json!({"inputs": {"1": {"type": "line"}, "o": {"type": "object"}, "n": {"type": "integer"}, "b": {"type": "boolean"}}}),
        );
        let filled = json!({"1": {"value": "x"}, "o": "{\"a\": 1}", "n": "7", "b": "true", "extra": [1], "raw": {"a": 1}});
        let setting = Setting { filled, ..Setting::default() };
        let expected = json!({"1": "x", "o": {"a": 1}, "n": 7, "b": true, "extra": [1], "raw": {"a": 1}});
        assert_eq!(outputs(&node, setting).await, expected);
    }

    #[tokio::test]
    async fn the_question_stands_in_for_an_empty_form() {
        let one = Node::new("Begin", json!({"inputs": {"topic": {"type": "line"}}}));
        let asked = |query| Setting { query, ..Setting::default() };
        assert_eq!(outputs(&one, asked("cats")).await, json!({"topic": "cats"}));
        assert_eq!(outputs(&one, asked("")).await, json!({}));
        assert_eq!(outputs(&one, asked("{\"topic\": 1, \"x\": 2}")).await, json!({"topic": 1}));
        let none = Node::new("Begin", json!({}));
        assert_eq!(outputs(&none, asked("cats")).await, json!({}));
    }

    #[test]
    fn an_unknown_mode_is_a_problem() {
        assert_eq!(Node::new("Begin", json!({"mode": "other"})).problems(), ["/mode"]);
        let warned = |mode: &str| Node::new("Begin", json!({"mode": mode})).build().shape().warnings.len();
        assert_eq!(["Webhook", "task", "conversational", ""].map(warned), [1, 0, 0, 0]);
    }
}
