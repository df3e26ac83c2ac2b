//! The Loop component: repeats its body until a condition holds.

use std::collections::{HashMap, HashSet};

use weft_core::exact::{is_lost, kept};
use weft_core::suggest::{did_you_mean, misspelled};
use weft_core::value::listed;
use weft_core::{
    Component, ComponentSpec, Finished, Json, NodeContext, NodeOutputs, Outputs, ParamProblem, Reads,
    Reference, Result, Role, Shape, Value, async_trait,
};

use crate::control::loop_end::{
    LOGICAL_OPERATOR, LOOP_TERMINATION_CONDITION, LoopEnd, MAXIMUM_LOOP_COUNT, MODES,
};
use crate::params::{Field, Kind, Params, described, fields, is_empty, number, pointer, truth};

static LOOP_VARIABLES: Field = Field::raw(
    "loop_variables",
    Kind::Objects(&[
        Field::raw("variable", Kind::Text, "its name"),
        Field::raw("type", Kind::Text, "its type"),
        Field::raw("input_mode", Kind::Choice(&MODES), "what `value` is"),
        Field::raw("value", Kind::Any, "its initial value"),
    ]),
    "variables that exist while the loop runs",
);
/// The types of loop variables, by name; lists are also written as `array<string>`.
const TYPES: [&str; 6] = ["string", "number", "integer", "boolean", "object", "array"];

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Loop",
    role: Role::Repeat,
    summary: "Repeats its body until a condition holds. Its variables exist while it runs.",
    fields: &[fields(&[
        &LOOP_VARIABLES,
        &LOGICAL_OPERATOR,
        &LOOP_TERMINATION_CONDITION,
        &MAXIMUM_LOOP_COUNT,
    ])],
    outputs: &[],
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        // Read here only to report problems; LoopItem uses the result.
        let end = LoopEnd::read(&mut params);
        let rows = params.rows(&LOOP_VARIABLES, &["variable", "value"]);
        let mut variables: Vec<LoopVariable> = Vec::new();
        let mut seen = HashSet::new();
        for (place, object) in rows {
            let Some(variable) = variable(&mut params, place, object) else { continue };
            if !seen.insert(object.get("variable").and_then(Json::as_str)) {
                let at = pointer(&["loop_variables", &place.to_string(), "variable"]);
                let message =
                    format!("an earlier variable is also called `{}`: only this one is used", variable.name);
                params.warn(ParamProblem::new(at, message).help("rename or remove one of them"));
            }
            variables.push(variable);
        }
        // Of several variables with one name, the last one counts.
        let own: HashMap<&str, &LoopVariable> =
            variables.iter().map(|variable| (variable.name.as_str(), variable)).collect();
        end.check(&mut params, |reference| match reference {
            Reference::Output { component, path } if component == source.id => {
                own.get(&**path).copied().and_then(LoopVariable::constant)
            }
            Reference::Output { .. } | Reference::Global(_) => None,
        });
        let warnings = params.warnings();
        params.finish(Loop { variables, warnings })
    },
};

/// A loop variable, and the source of its initial value.
struct LoopVariable {
    name: String,
    start: InitialValue,
    /// Whether its initial value is of its type, as far as that is known.
    fits: bool,
}

enum InitialValue {
    Constant(Json),
    From(Reference),
}

impl LoopVariable {
    /// Returns its initial value, if that is a literal of the right type.
    fn constant(&self) -> Option<&Json> {
        match &self.start {
            InitialValue::Constant(value) if self.fits => Some(value),
            InitialValue::Constant(_) | InitialValue::From(_) => None,
        }
    }

    /// Returns the JSON Schema type of its initial value; `any` if it is unknown or nothing is filled in.
    fn output_kind(&self) -> &'static str {
        match self.constant() {
            None | Some(Json::Null) => "any",
            Some(Json::Bool(_)) => "boolean",
            Some(Json::Number(_)) => "number",
            // An empty text may still become an object: assigning to a member of it makes it one.
            Some(Json::String(text)) if text.is_empty() => "any",
            Some(Json::String(_)) => "string",
            Some(Json::Array(_)) => "array",
            Some(Json::Object(_)) => "object",
        }
    }
}

fn variable(
    params: &mut Params<'_>,
    place: usize,
    object: &serde_json::Map<String, Json>,
) -> Option<LoopVariable> {
    let text = |key: &str| object.get(key).and_then(Json::as_str).unwrap_or_default();
    let at = |key: &str| pointer(&["loop_variables", &place.to_string(), key]);
    let name = text("variable").to_owned();
    if name.is_empty() {
        params.problem(ParamProblem::new(at("variable"), "the loop variable has no name"));
    }
    let kind = text("type").trim().to_lowercase();
    let is_known = TYPES.contains(&kind.as_str()) || kind.starts_with("array");
    if !is_known && !kind.is_empty() {
        let help =
            misspelled(&kind, TYPES).map_or_else(|| format!("use one of {}", listed(&TYPES)), did_you_mean);
        let message = format!("`{}` is not a type: `{name}` may be anything", text("type"));
        params.warn(ParamProblem::new(at("type"), message).help(help));
    }
    let value = object.get("value").unwrap_or(&Json::Null);
    // In any case, as the check reads it.
    let mode = text("input_mode").trim().to_ascii_lowercase();
    let start = match mode.as_str() {
        "variable" => {
            InitialValue::From(params.reference_at(at("value"), value.as_str().unwrap_or_default())?)
        }
        "constant" => InitialValue::Constant(typed(text("type"), value)),
        // Another mode means the empty value of the type.
        _ if value.is_null() => InitialValue::Constant(empty(text("type"))),
        _ => InitialValue::Constant(typed(text("type"), value)),
    };
    let must = match &start {
        InitialValue::Constant(value) => mismatch(text("type"), value),
        InitialValue::From(_) => None,
    };
    if let Some(must) = must {
        let message = format!("`{name}` must be {must} by its type, but starts as {}", described(value));
        params.warn(ParamProblem::new(at("value"), message).help("change the value or the type"));
    }
    (!name.is_empty()).then_some(LoopVariable { name, start, fits: must.is_none() })
}

/// Converts a constant to its declared type, if possible.
fn typed(kind: &str, value: &Json) -> Json {
    let kind = kind.trim().to_ascii_lowercase();
    let Json::String(text) = value else { return value.clone() };
    let typed = match kind.as_str() {
        // With more digits than a number can hold, it stays the text that it is.
        "number" | "integer" if number(value).is_some() && !is_lost(text.trim()) => {
            serde_json::from_str(text.trim()).ok()
        }
        "boolean" => truth(value).map(Json::Bool),
        "object" => serde_json::from_str(&kept(text)).ok(),
        kind if kind.starts_with("array") => serde_json::from_str(&kept(text)).ok(),
        _ => None,
    };
    typed.unwrap_or_else(|| value.clone())
}

/// Returns what type a constant must have, if it has another one. An empty value fits any type.
fn mismatch(kind: &str, value: &Json) -> Option<&'static str> {
    if is_empty(value) {
        return None;
    }
    let (suits, must) = match kind.trim().to_ascii_lowercase().as_str() {
        "string" => (!value.is_array() && !value.is_object(), "a text"),
        "number" | "integer" => (value.is_number(), "a number"),
        "boolean" => (value.is_boolean(), "true or false"),
        "object" => (value.is_object(), "an object"),
        kind if kind.starts_with("array") => (value.is_array(), "a list"),
        _ => return None,
    };
    (!suits).then_some(must)
}

fn empty(kind: &str) -> Json {
    match kind.trim().to_ascii_lowercase().as_str() {
        "number" | "integer" => 0.into(),
        "boolean" => false.into(),
        "object" => Json::Object(serde_json::Map::new()),
        kind if kind.starts_with("array") => Json::Array(Vec::new()),
        _ => "".into(),
    }
}

struct Loop {
    variables: Vec<LoopVariable>,
    warnings: Vec<ParamProblem>,
}

#[async_trait]
impl Component for Loop {
    fn shape(&self) -> Shape {
        let reads = self.variables.iter().filter_map(|variable| match &variable.start {
            InitialValue::Constant(_) => None,
            InitialValue::From(reference) => Some(reference.clone()),
        });
        let outputs = NodeOutputs::typed(
            self.variables.iter().map(|variable| (variable.name.as_str(), variable.output_kind())),
        );
        let warnings = self.warnings.clone();
        Shape { reads: Reads::always(reads), outputs, warnings, ..Shape::default() }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let value = |variable: &LoopVariable| match &variable.start {
            InitialValue::Constant(value) => Value::from(value.clone()),
            // The value itself rather than its text: a text that is still being written continues in the loop.
            InitialValue::From(reference) => ctx.value(reference),
        };
        let outputs: Outputs =
            self.variables.iter().map(|variable| (&variable.name, value(variable))).collect();
        Ok(outputs.into())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, outputs};
    use serde_json::json;

    #[tokio::test]
    async fn variables_become_outputs() {
        let node = Node::new(
            "Loop",
            json!({"maximum_loop_count": 3, "loop_variables": [
                {"variable": "n", "type": "number", "input_mode": "constant", "value": "0"},
                {"variable": "t", "type": "string", "input_mode": "variable", "value": "Agent:A@content"},
                {"variable": "l", "type": "array<string>", "input_mode": ""},
                {"variable": "b", "type": "boolean", "input_mode": "constant", "value": false},
                {"variable": "u", "type": "string", "input_mode": "Variable", "value": "Agent:A@content"},
            ]}),
        );
        let setting = Setting::values([("Agent:A@content", json!("x"))]);
        let expected = json!({"n": 0, "t": "x", "l": [], "b": false, "u": "x"});
        assert_eq!(outputs(&node, setting).await, expected);
    }

    #[tokio::test]
    async fn an_initial_value_loses_no_digits() {
        let id = "12345678901234567890123";
        let variables = json!([
            {"variable": "n", "type": "number", "input_mode": "constant", "value": id},
            {"variable": "l", "type": "array<number>", "input_mode": "constant", "value": format!("[1, {id}]")},
            {"variable": "z", "type": " Number ", "input_mode": ""},
        ]);
        let node = Node::new("Loop", json!({"loop_variables": variables}));
        assert_eq!(outputs(&node, Setting::default()).await, json!({"n": id, "l": [1, id], "z": 0}));
    }

    #[test]
    fn problems_are_all_reported() {
        let node = Node::new(
            "Loop",
            json!({"maximum_loop_count": 0, "logical_operator": "xor",
                "loop_termination_condition": [{"variable": "", "operator": "eval", "value": 1}], "loop_variables": [{"value": 1}, {"variable": "x", "input_mode": "variable", "value": "?"}]}),
        );
        let places = [
            "/maximum_loop_count",
            "/logical_operator",
            "/loop_termination_condition/0/variable",
            "/loop_termination_condition/0/operator",
            "/loop_variables/0/variable",
            "/loop_variables/1/value",
        ];
        assert_eq!(node.problems(), places);
        assert!(Node::new("Loop", json!({})).problems().is_empty());
    }
}
