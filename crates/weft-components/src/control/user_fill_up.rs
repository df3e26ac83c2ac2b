//! The UserFillUp component: suspends the run until a person has filled in a form.

use weft_core::component::Form;
use weft_core::reference::Inputs;
use weft_core::{
    Component, ComponentId, ComponentSpec, Error, ErrorKind, Finished, Json, NodeContext, NodeOutputs,
    ParamProblem, Reads, Result, Role, Route, Shape, Value, async_trait,
};

use crate::control::fields::{self, Fields};
use crate::params::{self, Field, FieldGroup, Kind, Params, Widget, asks_for_something, described, pointer};
use crate::text::Text;

static ENABLE_TIPS: Field<bool> = Field::flag("enable_tips", "whether to show `tips`").on_by_default();
static TIPS: Field<String> =
    Field::text("tips", "the text shown to the person, with references or as a Jinja template")
        .or("Please fill in the form to go on.")
        .with_references()
        .widget(Widget::Lines);
static TIMEOUT_SECONDS: Field<Option<u64>> =
    Field::seconds("timeout_seconds", "how long to wait for an answer; if absent, without limit");
static TIMEOUT_GOTO: Field = Field::raw(
    "timeout_goto",
    Kind::Targets,
    "the components that run next when nobody has answered in time",
);
static TIMEOUT_DEFAULT: Field = Field::raw(
    "timeout_default",
    Kind::Object(&[]),
    "the values of the fields when nobody has answered in time",
);

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "UserFillUp",
    role: Role::Pause,
    summary: "Asks a person to fill in a form and continues with the answers.",
    fields: &[
        params::fields(&[&ENABLE_TIPS, &TIPS, &fields::INPUTS, &fields::LAYOUT_RECOGNIZE]),
        FieldGroup {
            title: "When nobody answers",
            fields: &[&TIMEOUT_SECONDS, &TIMEOUT_GOTO, &TIMEOUT_DEFAULT],
        },
    ],
    outputs: &[weft_core::OutputSpec::new("tips", "string", "the text shown to the person").when_asked_for()],
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        let shown = params.take(&ENABLE_TIPS);
        let tips = params.take(&TIPS);
        let tips = match Text::parse(&tips, source, "/tips") {
            Ok(text) => {
                text.doubts(source, "/tips").into_iter().for_each(|doubt| params.warn(doubt));
                shown.then_some(text)
            }
            Err(problem) => {
                params.problem(problem);
                None
            }
        };
        let fields = fields::declared(&mut params, &fields::INPUTS);
        fields::check_reader(&mut params);
        let timeout = timeout(&mut params, &fields);
        let (downstream, warnings) = (source.downstream.to_vec(), params.warnings());
        params.finish(UserFillUp { tips, fields, timeout, downstream, warnings })
    },
};

/// What happens to a form that is not filled in.
struct Timeout {
    seconds: u64,
    goto: Vec<ComponentId>,
    default: Option<Fields>,
}

fn timeout(params: &mut Params<'_>, fields: &Fields) -> Option<Timeout> {
    // Editors write an empty text or list where no edge is drawn.
    let goto = match params.get(&TIMEOUT_GOTO).filter(|value| asks_for_something(value)) {
        Some(value) => params.targets("/timeout_goto", Some(value)),
        None => Vec::new(),
    };
    let default = match params.get(&TIMEOUT_DEFAULT) {
        None => None,
        Some(Json::Object(values)) => {
            if let Some(unknown) = values.keys().find(|key| !fields.contains_key(*key)) {
                let problem =
                    ParamProblem::new(pointer(&["timeout_default", unknown]), "is not a field of the form");
                params.problem(problem.help("give values for the keys of `inputs`"));
            }
            for (key, value) in values {
                let wrong = fields.get(key).and_then(|field| weft_core::form::problem(field, value));
                if let Some(wrong) = wrong {
                    let problem = ParamProblem::new(pointer(&["timeout_default", key]), wrong);
                    params.warn(problem.help("give a value that a person could have entered"));
                }
            }
            Some(values.clone())
        }
        Some(other) => {
            let message =
                format!("must be an object that maps fields to values, and is {}", described(other));
            params.problem(ParamProblem::new("/timeout_default", message));
            None
        }
    };
    let seconds = params.take(&TIMEOUT_SECONDS);
    if seconds.is_none() && (default.is_some() || !goto.is_empty()) {
        let key = if goto.is_empty() { "/timeout_default" } else { "/timeout_goto" };
        let problem = ParamProblem::new(key, "has no effect: the form never times out");
        params.warn(problem.help("set a time limit in `timeout_seconds`"));
        return None;
    }
    if seconds.is_some() && default.is_none() && goto.is_empty() {
        let problem =
            ParamProblem::new("/timeout_seconds", "no action is set for a timeout, so the run fails");
        params.warn(problem.help("name components in `timeout_goto`, or values in `timeout_default`"));
    }
    Some(Timeout { seconds: seconds?, goto, default })
}

struct UserFillUp {
    tips: Option<Text>,
    fields: Fields,
    timeout: Option<Timeout>,
    downstream: Vec<ComponentId>,
    warnings: Vec<ParamProblem>,
}

impl UserFillUp {
    fn branches(&self) -> Option<&Vec<ComponentId>> {
        self.timeout.as_ref().map(|timeout| &timeout.goto).filter(|goto| !goto.is_empty())
    }
}

#[async_trait]
impl Component for UserFillUp {
    fn shape(&self) -> Shape {
        let reads = Reads::always(self.tips.iter().flat_map(Text::references));
        let branches = self.branches().map(|goto| {
            vec![
                ("/downstream".to_owned(), self.downstream.clone()),
                ("/timeout_goto".to_owned(), goto.clone()),
            ]
        });
        let tips = self.tips.iter().map(|_| "tips");
        let outputs = NodeOutputs::named(tips.chain(self.fields.keys().map(String::as_str)));
        let warnings = self.warnings.clone();
        Shape { reads, branches, main_output: "tips", outputs, warnings, ..Shape::default() }
    }

    fn form(&self, inputs: &Inputs) -> Form {
        // Tips are optional: when their template fails, the form is shown without them.
        let tips = self.tips.as_ref().and_then(|tips| tips.render(inputs).ok());
        let timeout_seconds = self.timeout.as_ref().map(|timeout| timeout.seconds);
        Form { fields: self.fields.clone(), tips, timeout_seconds }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let late = self.timeout.as_ref().filter(|_| ctx.timed_out);
        let default = match late {
            Some(Timeout { seconds, goto, default: None }) if goto.is_empty() => {
                let error =
                    Error::new(ErrorKind::Timeout, format!("nobody filled in the form within {seconds} s"));
                return Err(error.help("name components in `timeout_goto`, or values in `timeout_default`"));
            }
            Some(timeout) => timeout.default.as_ref(),
            None => None,
        };
        let mut outputs = fields::outputs(&self.fields, default.unwrap_or(&ctx.filled));
        if let Some(tips) = &self.tips {
            // As for the form: a person has answered, and a failing tip must not lose that.
            outputs.set("tips", Value::text(tips.render(&ctx.inputs).unwrap_or_default()));
        }
        let route = match (self.branches(), late) {
            (None, _) => Route::Onward,
            (Some(goto), Some(_)) => Route::To(goto.clone()),
            (Some(_), None) => Route::To(self.downstream.clone()),
        };
        Ok(Finished { route, ..outputs.into() })
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
        for (number, meant) in [(1, true), (0, false)] {
            let setting = Setting { filled: json!({"ok": number}), ..values() };
            assert_eq!(outputs(&node, setting).await, json!({"ok": meant, "tips": "The plan: a, b"}));
        }
    }

    #[tokio::test]
    async fn an_unanswered_form_takes_a_branch_a_default_or_fails() {
        let form = |more: serde_json::Value| {
            let mut params = json!({"enable_tips": false, "inputs": {"ok": {"type": "boolean"}}});
            params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            Node::new("UserFillUp", params)
        };
        let late = || Setting { timed_out: true, ..Setting::default() };
        let node = form(json!({"timeout_seconds": 1.2, "timeout_default": {"ok": "true"}}));
        let asked = node.build().form(&weft_core::reference::Inputs::default());
        assert_eq!(asked.timeout_seconds, Some(2));
        assert_eq!(outputs(&node, late()).await, json!({"ok": true}));
        let node = form(json!({"timeout_seconds": 60}));
        let stage = Stage::new(&node, &*node.build(), late());
        let error = node.build().run(&stage.ctx).await.unwrap_err();
        assert_eq!(error.kind, weft_core::ErrorKind::Timeout);
    }

    #[test]
    fn ineffective_settings_are_reported() {
        let problems = |params: serde_json::Value| Node::new("UserFillUp", params).problems();
        let inputs = json!({"ok": {}});
        assert_eq!(problems(json!({"timeout_seconds": "soon"})), ["/timeout_seconds"]);
        assert_eq!(problems(json!({"timeout_seconds": 0})), ["/timeout_seconds"]);
        let wrong = json!({"inputs": inputs, "timeout_seconds": 5, "timeout_default": {"okay": 1}});
        assert_eq!(problems(wrong), ["/timeout_default/okay"]);
        assert_eq!(problems(json!({"timeout_seconds": 5, "timeout_default": 1})), ["/timeout_default"]);
    }

    #[tokio::test]
    async fn tips_can_be_switched_off() {
        let node = Node::new("UserFillUp", json!({"tips": "{Agent:A@plan}", "enable_tips": false}));
        let component = node.build();
        assert!(component.shape().reads.always.is_empty());
        assert_eq!(component.form(&weft_core::reference::Inputs::default()).tips, None);
    }
}
