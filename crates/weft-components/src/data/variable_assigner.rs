//! The VariableAssigner component: assigns values to globals, loop variables and other outputs.

use indexmap::IndexSet;
use serde_json::Map;
use weft_core::{
    AssignOperator, Assignment, Component, ComponentSpec, Finished, Json, NodeContext, Operand, ParamProblem,
    Reads, Reference, Result, Role, Shape, Template, async_trait,
};

use crate::params::{Field, Kind, Params, described, fields, is_empty, number, pointer};

static VARIABLES: Field = Field::raw(
    "variables",
    Kind::Objects(&[
        Field::raw("variable", Kind::Reference, "the variable"),
        Field::raw("operator", Kind::Text, "the operator, such as `overwrite`, `append` or `+=`"),
        Field::raw("parameter", Kind::Any, "the operand, or a reference to it"),
    ]),
    "the changes, made in this order",
);

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "VariableAssigner",
    role: Role::Step,
    summary: "Changes variables, one after the other.",
    fields: &[fields(&[&VARIABLES])],
    outputs: &[],
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        let changes = params
            .rows(&VARIABLES, &["variable", "parameter"])
            .into_iter()
            .filter_map(|(place, object)| change(&mut params, place, object))
            .collect();
        let warnings = params.warnings();
        params.finish(VariableAssigner { changes, warnings })
    },
};

const OPERATORS: &str =
    "`overwrite`, `set`, `clear`, `append`, `extend`, `remove_first`, `remove_last`, `+=`, `-=`, `*=`, `/=`";

fn change(params: &mut Params<'_>, place: usize, object: &Map<String, Json>) -> Option<Assignment> {
    let at = |key: &str| pointer(&["variables", &place.to_string(), key]);
    let text = |key: &str| object.get(key).and_then(Json::as_str).unwrap_or_default();
    let target = params.reference_at(at("variable"), text("variable"));
    // The author of a canvas may use a secret, but never set one.
    if target.as_ref().is_some_and(|target| target.secret().is_some()) {
        let problem = ParamProblem::new(at("variable"), "a canvas cannot change a secret");
        params.problem(problem.help("change its value with `weft secret set NAME`"));
        return None;
    }
    let value = object.get("parameter").unwrap_or(&Json::Null);
    let operator = match text("operator") {
        "overwrite" => AssignOperator::Overwrite,
        "set" => AssignOperator::Set,
        "clear" => AssignOperator::Clear,
        "append" => AssignOperator::Append,
        "extend" => AssignOperator::Extend,
        "remove_first" => AssignOperator::RemoveFirst,
        "remove_last" => AssignOperator::RemoveLast,
        "+=" => AssignOperator::Add,
        "-=" => AssignOperator::Subtract,
        "*=" => AssignOperator::Multiply,
        "/=" => AssignOperator::Divide,
        other => {
            let problem = ParamProblem::new(at("operator"), format!("`{other}` is not an operation"));
            params.problem(problem.help(format!("use one of {OPERATORS}")));
            return None;
        }
    };
    // `set` may clear a variable, and needs no operand for that.
    let needed = operator.takes_operand() && operator != AssignOperator::Set;
    if needed && (value.is_null() || value.as_str() == Some("")) {
        params.problem(ParamProblem::new(at("parameter"), "is missing").help("name the value to use"));
    }
    let operand = if operator.takes_operand() { operand(params, value) } else { Operand::Value(Json::Null) };
    if let Some(message) = misfit(operator, &operand) {
        params.warn(
            ParamProblem::new(at("parameter"), message).help("write another value, or a reference to one"),
        );
    }
    // Read to the end first, so that the author sees all mistakes together.
    Some(Assignment { target: target?, operator, operand })
}

/// Returns why an assignment of a literal value fails, whatever the variable is.
fn misfit(operator: AssignOperator, operand: &Operand) -> Option<String> {
    use AssignOperator::{Add, Divide, Extend, Multiply, Subtract};
    // A missing value is reported elsewhere, and braces are a mistyped reference, which is reported as such.
    let Operand::Value(value) = operand else { return None };
    if is_empty(value) || value.as_str().is_some_and(|text| text.contains(['{', '}'])) {
        return None;
    }
    let number = number(value);
    match operator {
        Add | Subtract | Multiply | Divide if number.is_none() => {
            Some(format!("is {}, not a number: the change fails", described(value)))
        }
        Divide if number == Some(0.0) => {
            Some("is 0, and division by zero is not possible: the change fails".to_owned())
        }
        Extend if !value.is_array() => Some(format!("is {}, not a list: the change fails", described(value))),
        _ => None,
    }
}

fn operand(params: &Params<'_>, value: &Json) -> Operand {
    let Json::String(text) = value else { return Operand::Value(value.clone()) };
    let names = params.source.names();
    match Reference::whole(text, names) {
        Some(reference) => Operand::Reference(reference),
        None => match Template::parse(text, names) {
            template if template.references().next().is_some() => Operand::Text(template),
            _ => Operand::Value(value.clone()),
        },
    }
}

struct VariableAssigner {
    changes: Vec<Assignment>,
    warnings: Vec<ParamProblem>,
}

#[async_trait]
impl Component for VariableAssigner {
    fn shape(&self) -> Shape {
        // Both in the order of the canvas, because the plan reads them in that order; looked up by hash, because a node
        // may have a hundred thousand changes.
        let operands: IndexSet<_> =
            self.changes.iter().flat_map(|change| change.operand.references()).cloned().collect();
        let targets = self.changes.iter().map(|change| &change.target);
        let changes: Vec<_> = targets.filter(|target| !operands.contains(*target)).cloned().collect();
        let reads = Reads::always(changes.iter().cloned().chain(operands));
        let unfilled = self.changes.is_empty().then(|| {
            ParamProblem::new(pointer(&[VARIABLES.name()]), "is empty, so nothing is changed")
                .help("name a variable, and what is done with it")
        });
        let (warnings, unfilled) = (self.warnings.clone(), unfilled.into_iter().collect());
        Shape { reads, changes, warnings, unfilled, ..Shape::default() }
    }

    async fn run(&self, _ctx: &NodeContext) -> Result<Finished> {
        Ok(Finished { assigned: self.changes.clone(), ..Finished::default() })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, run};
    use serde_json::{Value as Json, json};

    fn assigner(changes: &[(&str, &str, Json)]) -> Node {
        let list: Vec<Json> =
            changes.iter().map(|(v, o, p)| json!({"variable": v, "operator": o, "parameter": p})).collect();
        Node::new("VariableAssigner", json!({"variables": list}))
    }

    #[tokio::test]
    async fn assignments_are_operations_not_results() {
        let check = async |change: (&str, &str, Json), expected: Json| {
            let values = Setting::values([("env.n", json!(2)), ("Agent:A@list", json!([1]))]);
            let finished = run(&assigner(&[change]), values).await.unwrap();
            assert_eq!(json!(finished.assigned), json!([expected]));
        };
        check(
            ("env.t", "overwrite", json!("Agent:A@list")),
            json!({"target": "env.t", "reference": "Agent:A@list"}),
        )
        .await;
        check(
            ("env.t", "set", json!("<{Agent:A@content} >")),
            json!({"target": "env.t", "operator": "set",
                "text": [{"text": "<"}, {"reference": "Agent:A@content"}, {"text": " >"}]}),
        )
        .await;
        check(("env.n", "+=", json!(3)), json!({"target": "env.n", "operator": "add", "value": 3})).await;
        check(("env.l", "clear", json!("Agent:A@list")), json!({"target": "env.l", "operator": "clear"}))
            .await;
    }

    #[test]
    fn it_depends_on_its_targets_and_its_sources() {
        let node =
            assigner(&[("Agent:A@list", "append", json!("{Agent:B@n}!")), ("env.n", "-=", json!("env.m"))]);
        let reads: Vec<String> = node.build().shape().reads.always.iter().map(ToString::to_string).collect();
        assert_eq!(reads, ["Agent:A@list", "env.n", "Agent:B@n", "env.m"]);
        let changes = |changes: &[(&str, &str, Json)]| -> Vec<String> {
            assigner(changes).build().shape().changes.iter().map(ToString::to_string).collect()
        };
        assert_eq!(changes(&[("env.l", "append", json!("env.m"))]), ["env.l"]);
        // An operation that reads its own target is given its value.
        assert_eq!(changes(&[("env.t", "set", json!("{env.t}!"))]), [""; 0]);
    }

    #[test]
    fn problems_are_all_reported() {
        let node = assigner(&[
            ("?", "set", json!("x")),
            ("env.t", "explode", json!(1)),
            ("env.t", "append", json!("")),
        ]);
        assert_eq!(
            node.problems(),
            ["/variables/0/variable", "/variables/1/operator", "/variables/2/parameter"]
        );
    }
}
