//! The Begin component: where every run starts.

use std::sync::Arc;

use weft_core::{
    Component, ComponentSpec, Finished, Json, NodeContext, NodeOutputs, Outputs, ParamProblem, Reads,
    Reference, Result, Role, Shape, async_trait,
};

use weft_core::component::Form;
use weft_core::exact::kept;
use weft_core::form::problem;
use weft_core::reference::Inputs;
use weft_core::webhook::Webhook;

use super::webhook;
use crate::control::fields::{self, Fields};
use crate::params::{self, Field, Params, Widget, asks_for_something, choice};

static MODE: Field<&str> = Field::choice(
    "mode",
    "conversational",
    &[
        choice("conversational", "in a conversation"),
        choice("task", "as a task, without greeting"),
        choice("webhook", "by an HTTP request"),
    ],
    "how a run starts",
);
static PROLOGUE: Field<String> =
    Field::text("prologue", "the first message of a conversation").widget(Widget::Lines);
static ENABLE_PROLOGUE: Field<bool> =
    Field::flag("enablePrologue", "whether `prologue` is shown").on_by_default();
/// The form of the component; the first generation of canvases called it `query`.
static INPUTS: Field = fields::inputs().older(&["query"]);

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Begin",
    role: Role::Entry,
    summary: "Starts the run and passes on the values of its form. If none is given, the question stands in for them: \
              a JSON object for the fields that it names, another text for the only field. A value of the question \
              that does not fit its field is not taken. A run also starts if required fields are empty; only \
              UserFillUp waits for them.",
    fields: &[
        params::fields(&[&MODE, &PROLOGUE, &ENABLE_PROLOGUE, &INPUTS, &fields::LAYOUT_RECOGNIZE]),
        webhook::FIELDS,
    ],
    outputs: &[],
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        // Editors keep these settings in every mode; in another one, nothing about them is a mistake.
        let webhook = (params.take(&MODE) == "webhook").then(|| Arc::new(webhook::read(&mut params)));
        fields::check_reader(&mut params);
        let (fields, warnings) = (fields::declared(&mut params, &INPUTS), params.warnings());
        params.finish(Begin { fields, webhook, warnings })
    },
};

struct Begin {
    fields: Fields,
    webhook: Option<Arc<Webhook>>,
    warnings: Vec<ParamProblem>,
}

fn query() -> Reference {
    Reference::Global("sys.query".into())
}

impl Begin {
    /// Derives the values of a form that was not filled in from the question: an object sets the fields of the same
    /// names; otherwise, if there is only one field, it takes the question. Each value gets the type of its field, as
    /// when the form is filled in. What would be refused there is left out: the question may not be meant for the form.
    fn stand_in(&self, query: &Json) -> Outputs {
        let parsed = query.as_str().and_then(|text| serde_json::from_str::<Json>(&kept(text)).ok());
        let members = parsed.as_ref().unwrap_or(query).as_object().into_iter().flatten();
        let matching: Vec<_> =
            members.filter_map(|(key, value)| Some((key, self.fields.get(key)?, value))).collect();
        let values = match self.fields.iter().next() {
            // A question that happens to be JSON must not get lost.
            Some((key, field))
                if matching.is_empty() && self.fields.len() == 1 && asks_for_something(query) =>
            {
                vec![(key, field, query)]
            }
            _ => matching,
        };
        let fitting = values.into_iter().filter(|(_, field, value)| problem(field, value).is_none());
        fitting.map(|(key, field, value)| (key, fields::coerced(Some(field), value))).collect()
    }
}

#[async_trait]
impl Component for Begin {
    fn shape(&self) -> Shape {
        // Without fields, there is no form for the question to fill in.
        let reads = if self.fields.is_empty() { Reads::default() } else { Reads::always([query()]) };
        // Without a form, the values passed to the run determine the outputs.
        let named = NodeOutputs::named(self.fields.keys().map(String::as_str));
        let outputs = NodeOutputs { open: self.fields.is_empty(), ..named };
        let webhook = self.webhook.clone();
        Shape { reads, warnings: self.warnings.clone(), outputs, webhook, ..Shape::default() }
    }

    fn form(&self, _: &Inputs) -> Form {
        Form { fields: self.fields.clone(), ..Form::default() }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let call = ctx.run.input.webhook.as_deref().and_then(Json::as_object);
        if let (Some(_), Some(call)) = (&self.webhook, call) {
            return Ok(call.iter().map(|(name, value)| (name, value.clone())).collect::<Outputs>().into());
        }
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
            json!({"inputs": {"1": {"type": "line"}, "o": {"type": "object"}, "n": {"type": "integer"}, "id": {"type": "integer"}, "b": {"type": "boolean"}}}),
        );
        let filled = json!({"1": {"value": "x"}, "o": "{\"a\": 1}", "n": "7", "id": "12345678901234567890123", "b": "true", "extra": [1], "raw": {"a": 1}});
        let setting = Setting { filled, ..Setting::default() };
        // A number that would have lost digits stays as typed.
        let expected = json!({"1": "x", "o": {"a": 1}, "n": 7, "id": "12345678901234567890123", "b": true, "extra": [1], "raw": {"a": 1}});
        assert_eq!(outputs(&node, setting).await, expected);
    }

    #[tokio::test]
    async fn zero_and_one_are_booleans_in_a_boolean_field() {
        let fields = json!({"a": {"type": "boolean"}, "b": {"type": "Boolean"}, "n": {"type": "integer"}, "t": {"type": "line"}});
        let node = Node::new("Begin", json!({"inputs": fields}));
        let filled = json!({"a": 1, "b": {"value": 0}, "n": 1, "t": 1});
        let setting = Setting { filled, ..Setting::default() };
        assert_eq!(outputs(&node, setting).await, json!({"a": true, "b": false, "n": 1, "t": "1"}));
        let asked = Setting { query: "{\"a\": 1}", ..Setting::default() };
        assert_eq!(outputs(&node, asked).await, json!({"a": true}));
    }

    #[tokio::test]
    async fn what_a_text_field_accepts_is_a_text() {
        let fields =
            json!({"a": {"type": "line"}, "b": {"type": "Paragraph"}, "c": {"type": "text"}, "d": {}});
        let node = Node::new("Begin", json!({"inputs": fields}));
        let filled = json!({"a": 5, "b": {"value": 1.5}, "c": true, "d": 5});
        let setting = Setting { filled, ..Setting::default() };
        assert_eq!(outputs(&node, setting).await, json!({"a": "5", "b": "1.5", "c": "true", "d": 5}));
    }

    #[tokio::test]
    async fn numbers_are_numbers_however_they_are_spelled() {
        let fields = json!({"a": {"type": "float"}, "b": {"type": "integer"}, "c": {"type": "number"}, "d": {"type": " Integer "}});
        let node = Node::new("Begin", json!({"inputs": fields}));
        let filled = json!({"a": "1.5", "b": "+7", "c": " .5", "d": "007"});
        let setting = Setting { filled, ..Setting::default() };
        assert_eq!(outputs(&node, setting).await, json!({"a": 1.5, "b": 7, "c": 0.5, "d": 7}));
    }

    #[tokio::test]
    async fn fields_may_be_a_list() {
        for name in ["inputs", "query"] {
            let field = json!({"key": "web", "name": "Web?", "type": "options", "options": ["1", "0"]});
            let node =
                Node::new("Begin", json!({name: [field, {"name": "n", "type": "integr"}, {"type": "line"}]}));
            let warnings = node.build().shape().warnings;
            let places: Vec<_> = warnings.iter().map(|warning| warning.pointer.clone()).collect();
            assert_eq!(places, [format!("/{name}/2"), format!("/{name}/1/type")]);
            let filled = json!({"web": "1", "n": "x"});
            let setting = Setting { filled, ..Setting::default() };
            assert_eq!(outputs(&node, setting).await, json!({"web": "1", "n": "x"}));
            let fields = node.build().form(&weft_core::reference::Inputs::default()).fields;
            assert_eq!(fields.keys().collect::<Vec<_>>(), ["web", "n"]);
        }
        let both = Node::new("Begin", json!({"inputs": {"a": {}}, "query": [{"key": "b"}]}));
        let fields = both.build().form(&weft_core::reference::Inputs::default()).fields;
        assert_eq!(fields.keys().collect::<Vec<_>>(), ["a"]);
    }

    #[tokio::test]
    async fn the_question_replaces_an_empty_form() {
        let one = Node::new("Begin", json!({"inputs": {"topic": {"type": "line"}}}));
        let asked = |query| Setting { query, ..Setting::default() };
        assert_eq!(outputs(&one, asked("cats")).await, json!({"topic": "cats"}));
        assert_eq!(outputs(&one, asked("")).await, json!({}));
        assert_eq!(outputs(&one, asked("{\"topic\": 1, \"x\": 2}")).await, json!({"topic": "1"}));
        // JSON that has nothing to do with the form is a question like any other.
        assert_eq!(outputs(&one, asked("{\"x\": 2}")).await, json!({"topic": "{\"x\": 2}"}));
        assert_eq!(outputs(&one, asked("[1, 2]")).await, json!({"topic": "[1, 2]"}));
        let none = Node::new("Begin", json!({}));
        assert_eq!(outputs(&none, asked("cats")).await, json!({}));
    }

    #[tokio::test]
    async fn what_stands_in_has_the_type_of_its_field() {
        let asked = |query| Setting { query, ..Setting::default() };
        let count = Node::new("Begin", json!({"inputs": {"n": {"type": "integer"}}}));
        assert_eq!(outputs(&count, asked("7")).await, json!({"n": 7}));
        assert_eq!(outputs(&count, asked("{\"n\": \"7\"}")).await, json!({"n": 7}));
        let id = "12345678901234567890123";
        let with_id = asked("{\"n\": 12345678901234567890123}");
        assert_eq!(outputs(&count, with_id).await, json!({"n": id}));
        assert_eq!(outputs(&count, asked("seven")).await, json!({}));
        let order = Node::new("Begin", json!({"inputs": {"order": {"type": "object"}}}));
        assert_eq!(outputs(&order, asked("{\"id\": 1}")).await, json!({"order": {"id": 1}}));
        let filled = json!({"order": "{\"id\": 12345678901234567890123}"});
        let setting = Setting { filled, ..Setting::default() };
        assert_eq!(outputs(&order, setting).await, json!({"order": {"id": id}}));
    }

    #[tokio::test]
    async fn what_does_not_fit_its_field_is_not_taken_from_the_question() {
        let asked = |query| Setting { query, ..Setting::default() };
        let kind = json!({"type": "options", "options": ["a", "b"], "optional": true});
        let one = Node::new("Begin", json!({"inputs": {"kind": kind}}));
        for (query, expected) in [
            ("a", json!({"kind": "a"})),
            ("{\"kind\": \"b\"}", json!({"kind": "b"})),
            ("zzz", json!({})),
            ("{\"kind\": \"zzz\"}", json!({})),
        ] {
            assert_eq!(outputs(&one, asked(query)).await, expected, "{query}");
        }
        let fields = json!({"kind": kind, "n": {"type": "integer"}, "f": {"type": "file"}});
        let some = Node::new("Begin", json!({"inputs": fields}));
        let query = "{\"kind\": \"zzz\", \"n\": 7, \"f\": \"/etc/passwd\"}";
        assert_eq!(outputs(&some, asked(query)).await, json!({"n": 7}));
    }

    #[test]
    fn a_reader_of_files_that_does_not_exist_is_reported() {
        for (kind, reader, expected) in [
            ("Begin", "DeepDOC", None),
            ("Begin", "", None),
            ("Begin", "MinerU", Some("/layout_recognize")),
            ("UserFillUp", "Plain Text", None),
            ("UserFillUp", "vision@model", Some("/layout_recognize")),
        ] {
            let warnings = Node::new(kind, json!({"layout_recognize": reader})).build().shape().warnings;
            let places: Vec<_> = warnings.iter().map(|warning| warning.pointer.as_str()).collect();
            assert_eq!(places, expected.into_iter().collect::<Vec<_>>(), "{kind} {reader}");
        }
    }

    #[test]
    fn an_unknown_mode_is_a_problem() {
        assert_eq!(Node::new("Begin", json!({"mode": "other"})).problems(), ["/mode"]);
        let called = |mode: &str| Node::new("Begin", json!({"mode": mode})).build().shape().webhook.is_some();
        assert_eq!(["Webhook", "task", "conversational", ""].map(called), [true, false, false, false]);
    }
}
