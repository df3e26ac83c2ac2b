//! VariableAssigner: gives values to globals, loop variables and other outputs.

use async_trait::async_trait;
use serde_json::Map;
use weft_core::value::walk;
use weft_core::{
    Component, ComponentSpec, Error, Finished, Json, NodeContext, ParamProblem, Reads, Reference, Result,
    Role, Shape, Template,
};

use crate::params::{self, Params, described, number, pointer};

/// The spec.
pub static SPEC: ComponentSpec = ComponentSpec {
    kind: "VariableAssigner",
    role: Role::Step,
    summary: "Changes variables, one operation after the other.",
    params_schema: || {
        params::schema(&[("variables", "array", "[{variable, operator, parameter}], done in order")])
    },
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        let changes = params
            .objects("variables")
            .into_iter()
            .filter_map(|(place, object)| change(&mut params, place, object))
            .collect();
        params.finish(VariableAssigner { changes })
    },
};

struct Change {
    target: Reference,
    operation: Operation,
}

enum Operation {
    Overwrite(Parameter),
    Set(Parameter),
    Clear,
    Append(Parameter),
    Extend(Parameter),
    RemoveFirst,
    RemoveLast,
    Calculate(Sign, Parameter),
}

#[derive(Clone, Copy)]
enum Sign {
    Plus,
    Minus,
    Times,
    By,
}

enum Parameter {
    Literal(Json),
    Reference(Reference),
    Text(Template),
}

const OPERATORS: &str =
    "`overwrite`, `set`, `clear`, `append`, `extend`, `remove_first`, `remove_last`, `+=`, `-=`, `*=`, `/=`";

fn change(params: &mut Params<'_>, place: usize, object: &Map<String, Json>) -> Option<Change> {
    let at = |key: &str| pointer(&["variables", &place.to_string(), key]);
    let text = |key: &str| object.get(key).and_then(Json::as_str).unwrap_or_default();
    let target = params.reference_at(at("variable"), text("variable"));
    let value = object.get("parameter").unwrap_or(&Json::Null);
    let parameter = parameter(params, value);
    let operation = match text("operator") {
        "overwrite" => Operation::Overwrite(parameter),
        "set" => Operation::Set(parameter),
        "clear" => Operation::Clear,
        "append" => Operation::Append(parameter),
        "extend" => Operation::Extend(parameter),
        "remove_first" => Operation::RemoveFirst,
        "remove_last" => Operation::RemoveLast,
        "+=" => Operation::Calculate(Sign::Plus, parameter),
        "-=" => Operation::Calculate(Sign::Minus, parameter),
        "*=" => Operation::Calculate(Sign::Times, parameter),
        "/=" => Operation::Calculate(Sign::By, parameter),
        other => {
            let problem = ParamProblem::new(at("operator"), format!("`{other}` is no operation"));
            params.problem(problem.help(format!("use one of {OPERATORS}")));
            return None;
        }
    };
    let bare = matches!(
        operation,
        Operation::Clear | Operation::RemoveFirst | Operation::RemoveLast | Operation::Set(_)
    );
    if !bare && (value.is_null() || value.as_str() == Some("")) {
        params.problem(ParamProblem::new(at("parameter"), "is missing").help("name the value to use"));
    }
    Some(Change { target: target?, operation })
}

fn parameter(params: &Params<'_>, value: &Json) -> Parameter {
    let Json::String(text) = value else { return Parameter::Literal(value.clone()) };
    let names = params.source.names();
    match Reference::whole(text, names) {
        Some(reference) => Parameter::Reference(reference),
        None => match Template::parse(text, names) {
            template if template.references().next().is_some() => Parameter::Text(template),
            _ => Parameter::Literal(value.clone()),
        },
    }
}

/// The values as the operations before have left them.
struct View<'a> {
    ctx: &'a NodeContext,
    assigned: Vec<(Reference, Json)>,
}

impl View<'_> {
    fn get(&self, reference: &Reference) -> Json {
        let mut value = (*self.ctx.inputs.json(reference)).clone();
        let name = reference.to_string();
        for (target, assigned) in &self.assigned {
            let target = target.to_string();
            if target == name {
                value = assigned.clone();
            } else if let Some(rest) = name.strip_prefix(&target).and_then(|rest| rest.strip_prefix('.')) {
                value = walk(assigned, rest.split('.'));
            } else if let Some(rest) = target.strip_prefix(&name).and_then(|rest| rest.strip_prefix('.')) {
                put(&mut value, rest.split('.'), assigned);
            }
        }
        value
    }

    fn parameter(&self, parameter: &Parameter) -> Json {
        match parameter {
            Parameter::Literal(value) => value.clone(),
            Parameter::Reference(reference) => self.get(reference),
            Parameter::Text(template) => {
                let values = template.references().map(|r| (r.clone(), self.get(r).into()));
                Json::String(template.render(&weft_core::reference::Inputs(values.collect())))
            }
        }
    }
}

/// Sets a member below an object, making the objects on the way.
fn put<'a>(value: &mut Json, path: impl Iterator<Item = &'a str>, new: &Json) {
    let mut current = value;
    for step in path {
        if !current.is_object() {
            *current = Json::Object(Map::new());
        }
        let Json::Object(members) = current else { return };
        current = members.entry(step.to_owned()).or_insert(Json::Null);
    }
    *current = new.clone();
}

fn changed(operation: &Operation, old: Json, view: &View<'_>) -> Result<Json> {
    match operation {
        Operation::Overwrite(parameter) => Ok(view.parameter(parameter)),
        Operation::Set(parameter) => Ok(match (view.parameter(parameter), &old) {
            (value @ Json::String(_), _) => value,
            // Nothing given to a text or to nothing is an empty text.
            (Json::Null, Json::Null | Json::String(_)) => "".into(),
            (value, _) => value,
        }),
        Operation::Clear => Ok(match old {
            Json::Null => Json::Null,
            Json::Bool(_) => false.into(),
            Json::Number(_) => 0.into(),
            Json::String(_) => "".into(),
            Json::Array(_) => Json::Array(Vec::new()),
            Json::Object(_) => Json::Object(Map::new()),
        }),
        Operation::Append(parameter) => {
            let mut items = list(old)?;
            items.push(view.parameter(parameter));
            one_type(items)
        }
        Operation::Extend(parameter) => {
            let mut items = list(old)?;
            match view.parameter(parameter) {
                Json::Array(more) => items.extend(more),
                other => {
                    return Err(Error::invalid(format!(
                        "the parameter is {}, not a list",
                        described(&other)
                    )));
                }
            }
            one_type(items)
        }
        Operation::RemoveFirst => Ok(list(old)?.into_iter().skip(1).collect()),
        Operation::RemoveLast => {
            let mut items = list(old)?;
            items.pop();
            Ok(Json::Array(items))
        }
        Operation::Calculate(sign, parameter) => calculated(*sign, &old, &view.parameter(parameter)),
    }
}

fn list(value: Json) -> Result<Vec<Json>> {
    match value {
        Json::Null => Ok(Vec::new()),
        Json::Array(items) => Ok(items),
        other => Err(Error::invalid(format!("the variable is {}, not a list", described(&other)))),
    }
}

/// A list keeps elements of one type.
fn one_type(items: Vec<Json>) -> Result<Json> {
    let first = items.first().map(std::mem::discriminant);
    match items.iter().find(|item| Some(std::mem::discriminant(*item)) != first) {
        Some(other) => {
            Err(Error::invalid(format!("{} doesn't fit the other elements of the list", described(other))))
        }
        None => Ok(Json::Array(items)),
    }
}

fn calculated(sign: Sign, old: &Json, by: &Json) -> Result<Json> {
    let not_number = |value: &Json, what: &str| {
        Error::invalid(format!("the {what} is {}, not a number", described(value)))
    };
    let (Json::Number(_), Some(a)) = (old, number(old)) else { return Err(not_number(old, "variable")) };
    let b = number(by).ok_or_else(|| not_number(by, "parameter"))?;
    let integers = old.as_i64().zip(params::whole(b));
    let exact = match (sign, integers) {
        (Sign::Plus, Some((a, b))) => a.checked_add(b),
        (Sign::Minus, Some((a, b))) => a.checked_sub(b),
        (Sign::Times, Some((a, b))) => a.checked_mul(b),
        (Sign::By, _) | (_, None) => None,
    };
    if let Some(exact) = exact {
        return Ok(exact.into());
    }
    let result = match sign {
        Sign::Plus => a + b,
        Sign::Minus => a - b,
        Sign::Times => a * b,
        Sign::By if b == 0.0 => return Err(Error::invalid("cannot divide by zero")),
        Sign::By => a / b,
    };
    let whole = params::whole(result).map(Json::from);
    whole.map_or_else(
        || {
            serde_json::Number::from_f64(result)
                .map(Json::Number)
                .ok_or_else(|| Error::invalid("the result is too large for a number"))
        },
        Ok,
    )
}

struct VariableAssigner {
    changes: Vec<Change>,
}

#[async_trait]
impl Component for VariableAssigner {
    fn shape(&self) -> Shape {
        let mut reads = Vec::new();
        for change in &self.changes {
            reads.push(change.target.clone());
            match &change.operation {
                Operation::Overwrite(parameter)
                | Operation::Set(parameter)
                | Operation::Append(parameter)
                | Operation::Extend(parameter)
                | Operation::Calculate(_, parameter) => match parameter {
                    Parameter::Literal(_) => {}
                    Parameter::Reference(reference) => reads.push(reference.clone()),
                    Parameter::Text(template) => reads.extend(template.references().cloned()),
                },
                Operation::Clear | Operation::RemoveFirst | Operation::RemoveLast => {}
            }
        }
        Shape { reads: Reads::always(reads), ..Shape::default() }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let mut view = View { ctx, assigned: Vec::new() };
        for change in &self.changes {
            let value = changed(&change.operation, view.get(&change.target), &view).map_err(|cause| {
                Error::invalid(format!("cannot change `{}`", change.target)).because(cause)
            })?;
            view.assigned.push((change.target.clone(), value));
        }
        Ok(Finished { assigned: view.assigned, ..Finished::default() })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, failure, run};
    use serde_json::{Value as Json, json};

    fn values() -> Setting {
        Setting::values([
            ("env.n", json!(2)),
            ("env.l", json!(["a"])),
            ("env.t", json!("old")),
            ("env.o", json!({"a": {"b": 1}})),
            ("env.o.a", json!({"b": 1})),
            ("env.f", json!(true)),
            ("Agent:A@content", json!("new")),
            ("Agent:A@list", json!(["b", "c"])),
        ])
    }

    fn assigner(changes: &[(&str, &str, Json)]) -> Node {
        let list: Vec<Json> =
            changes.iter().map(|(v, o, p)| json!({"variable": v, "operator": o, "parameter": p})).collect();
        Node::new("VariableAssigner", json!({"variables": list}))
    }

    #[tokio::test]
    async fn operations() {
        let check = async |changes: &[(&str, &str, Json)], expected: Json| {
            let finished = run(&assigner(changes), values()).await.unwrap();
            assert_eq!(finished.assigned.last().unwrap().1, expected, "{changes:?}");
        };
        check(&[("env.t", "overwrite", json!("Agent:A@list"))], json!(["b", "c"])).await;
        check(&[("env.t", "set", json!("<{Agent:A@content} >"))], json!("<new >")).await;
        check(&[("env.n", "set", json!(7))], json!(7)).await;
        check(&[("env.t", "set", json!(null))], json!("")).await;
        check(&[("env.f", "clear", json!(null))], json!(false)).await;
        check(&[("env.o", "clear", json!(null))], json!({})).await;
        check(&[("env.l", "append", json!("{Agent:A@content}"))], json!(["a", "new"])).await;
        check(&[("env.none", "append", json!("x"))], json!(["x"])).await;
        check(&[("env.l", "extend", json!("Agent:A@list"))], json!(["a", "b", "c"])).await;
        check(&[("env.l", "remove_first", json!(null))], json!([])).await;
        check(&[("env.none", "remove_last", json!(null))], json!([])).await;
        check(&[("env.n", "+=", json!("3"))], json!(5)).await;
        check(&[("env.n", "-=", json!(0.5))], json!(1.5)).await;
        check(&[("env.n", "/=", json!(4))], json!(0.5)).await;
        check(&[("env.n", "/=", json!(2))], json!(1)).await;
    }

    #[tokio::test]
    async fn later_operations_see_earlier_results() {
        let changes = [
            ("env.n", "+=", json!(1)),
            ("env.n", "*=", json!("env.n")),
            ("env.o.a.c", "set", json!("x")),
            ("env.t", "overwrite", json!("env.o.a")),
        ];
        let assigned = run(&assigner(&changes), values()).await.unwrap().assigned;
        let found: Vec<_> =
            assigned.iter().map(|(target, value)| (target.to_string(), value.clone())).collect();
        let expected = [
            ("env.n", json!(3)),
            ("env.n", json!(9)),
            ("env.o.a.c", json!("x")),
            ("env.t", json!({"b": 1, "c": "x"})),
        ];
        assert_eq!(found, expected.map(|(target, value)| (target.to_owned(), value)));
    }

    #[tokio::test]
    async fn a_failure_is_an_error_and_never_a_value() {
        let check = async |change: (&str, &str, Json), expected: &str| {
            let error = failure(&assigner(&[change]), values()).await.full();
            assert!(error.contains(expected), "{error}");
        };
        check(("env.t", "append", json!("x")), "not a list").await;
        check(("env.l", "append", json!(1)), "doesn't fit").await;
        check(("env.l", "extend", json!("x")), "not a list").await;
        check(("env.n", "/=", json!(0)), "divide by zero").await;
        check(("env.t", "+=", json!(1)), "the variable is the text `old`").await;
        check(("env.n", "+=", json!("x")), "the parameter is the text `x`").await;
        check(("env.n", "remove_first", json!(null)), "not a list").await;
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
