//! The outputs that a canvas declares for a program, and how its result fills them.

use weft_core::exact::is_lost;
use weft_core::suggest;
use weft_core::value::{to_text, walk};
use weft_core::{Error, Json, ParamProblem, Result};

use crate::params::{self, Params, described, pointer};

/// Outputs that are not filled from the result.
const OTHERS: [&str; 9] = [
    "stdout",
    "stderr",
    "truncated",
    "content",
    "attachments",
    "actual_type",
    "raw_result",
    "_ARTIFACTS",
    "_ATTACHMENT_CONTENT",
];

/// The names of types.
const TYPES: [&str; 16] = [
    "string", "str", "text", "number", "integer", "int", "float", "boolean", "bool", "object", "dict",
    "json", "array", "list", "any", "null",
];

/// Names and types, in order; at least one.
pub(super) struct DeclaredOutputs(Vec<(String, OutputType)>);

#[derive(Clone, Debug, PartialEq)]
enum OutputType {
    Any,
    Text,
    Number,
    Truth,
    Object,
    List(Box<OutputType>),
}

impl DeclaredOutputs {
    /// Reads `outputs`. If there are none, the only output is `result`, of any type.
    pub(super) fn read(params: &Params<'_>) -> Self {
        let declared = params.get(&super::OUTPUTS).and_then(Json::as_object).into_iter().flatten();
        // Editors declare these among the results, but they are not filled from what a program returns.
        let ours = declared.filter(|(name, _)| !OTHERS.contains(&name.as_str()) && *name != "_ERROR");
        let mut outputs: Vec<_> = ours.map(|(name, output)| (name.clone(), OutputType::of(output))).collect();
        if outputs.is_empty() {
            outputs.push(("result".to_owned(), OutputType::Any));
        }
        Self(outputs)
    }

    /// Returns warnings about unknown types of outputs, which are treated as any.
    pub(super) fn misspelled(params: &Params<'_>) -> Vec<ParamProblem> {
        let declared = params.get(&super::OUTPUTS).and_then(Json::as_object).into_iter().flatten();
        let slip = |(name, output): (&String, &Json)| {
            let written = output.get("type")?.as_str()?;
            let word = written.trim().to_lowercase();
            let mut word = word.split('<').map(|word| word.trim_end_matches('>').trim());
            let wrong =
                word.find(|word| !TYPES.contains(word) && !word.starts_with("array") && !word.is_empty())?;
            let help = suggest::misspelled(wrong, TYPES).map_or_else(
                || "use `String`, `Number`, `Boolean`, `Object`, `Array<T>` or `Any`".to_owned(),
                suggest::did_you_mean,
            );
            let message = format!("`{written}` is not a type: any value is accepted");
            Some(ParamProblem::new(pointer(&["outputs", name, "type"]), message).help(help))
        };
        declared.filter_map(slip).collect()
    }

    /// Returns the names, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the names with their JSON Schema types, in order.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.0.iter().map(|(name, kind)| (name.as_str(), kind.schema()))
    }

    /// Returns the outputs that a result fills.
    ///
    /// # Errors
    /// `Invalid` when a value does not have its declared type.
    pub(super) fn fill(&self, result: &Json) -> Result<Vec<(String, Json)>> {
        let written = self.written(result);
        let result = written.as_ref().unwrap_or(result);
        let fill = |(place, (name, kind)): (usize, &(String, OutputType))| {
            let value = self.part(result, place, name);
            let actual = described(&value);
            let fitted = kind.fit(value).ok_or_else(|| {
                Error::invalid(format!(
                    "the output `{name}` must be {}, but the program returned {actual}",
                    kind.name()
                ))
                .help("return a value of that type, or declare another one")
            })?;
            Ok((name.clone(), fitted))
        };
        self.0.iter().enumerate().map(fill).collect()
    }

    /// Returns the outputs that a default value fills in place of a result. A value that does not have its declared
    /// type is left as written, because the canvas says so.
    pub(super) fn fill_with(&self, default: &Json) -> Vec<(String, Json)> {
        let fill = |(place, (name, kind)): (usize, &(String, OutputType))| {
            let value = self.part(default, place, name);
            (name.clone(), kind.fit(value.clone()).unwrap_or(value))
        };
        self.0.iter().enumerate().map(fill).collect()
    }

    /// Parses a result that a program returned as JSON text where an object or a list is declared. A result declared as
    /// text remains a text.
    fn written(&self, result: &Json) -> Option<Json> {
        let Json::String(text) = result else { return None };
        // Most texts are not JSON, and need not be parsed.
        if !text.trim_start().starts_with(['{', '[']) {
            return None;
        }
        let json: Json = serde_json::from_str(text.trim()).ok()?;
        let fits = match (&json, self.0.as_slice()) {
            (Json::Object(_), [(_, OutputType::Object)]) | (Json::Array(_), [(_, OutputType::List(_))]) => {
                true
            }
            (Json::Object(members), [_, _, ..]) => self.names().any(|name| members.contains_key(name)),
            (Json::Array(items), [_, _, ..]) => items.len() == self.0.len(),
            _ => false,
        };
        fits.then_some(json)
    }

    /// Returns the part of a result for the output with this name at this position.
    fn part(&self, result: &Json, place: usize, name: &str) -> Json {
        match result {
            // An object with other members is itself the single output, unless it has a member of that name.
            Json::Object(members) if self.0.len() > 1 || leads_somewhere(result, name) => {
                members.get(name).cloned().unwrap_or_else(|| walk(result, name.split('.')))
            }
            Json::Array(items) if self.0.len() > 1 => items.get(place).cloned().unwrap_or_default(),
            whole if place == 0 => whole.clone(),
            _ => Json::Null,
        }
    }
}

/// Whether an object has a member of this name, or a value at the path that the name spells.
fn leads_somewhere(object: &Json, name: &str) -> bool {
    object.get(name).is_some() || (name.contains('.') && !walk(object, name.split('.')).is_null())
}

/// Maximum nesting depth of lists in a declared type; more is never meant.
const LISTS_MAX: usize = 8;

impl OutputType {
    /// Returns the type of a declared output; an unknown name means any.
    fn of(output: &Json) -> Self {
        Self::named(output.get("type").and_then(Json::as_str).unwrap_or_default())
    }

    fn named(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let (mut name, mut lists) = (name.trim(), 0);
        while let Some(items) = name.strip_prefix("array").or_else(|| name.strip_prefix("list")) {
            if lists == LISTS_MAX {
                return Self::Any;
            }
            lists += 1;
            name = items.trim().trim_start_matches('<').trim_end_matches('>').trim();
        }
        let item = match name {
            "string" | "str" | "text" => Self::Text,
            "number" | "integer" | "int" | "float" => Self::Number,
            "boolean" | "bool" => Self::Truth,
            "object" | "dict" | "json" => Self::Object,
            _ => Self::Any,
        };
        (0..lists).fold(item, |item, _| Self::List(Box::new(item)))
    }

    fn schema(&self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Text => "string",
            Self::Number => "number",
            Self::Truth => "boolean",
            Self::Object => "object",
            Self::List(_) => "array",
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Any => "Any".to_owned(),
            Self::Text => "String".to_owned(),
            Self::Number => "Number".to_owned(),
            Self::Truth => "Boolean".to_owned(),
            Self::Object => "Object".to_owned(),
            Self::List(items) => format!("Array<{}>", items.name()),
        }
    }

    /// Converts the value to this type, if nothing is lost. Every value has a text; null fits any type.
    fn fit(&self, value: Json) -> Option<Json> {
        Some(match (self, value) {
            // A program may leave an output out, whatever its type.
            (_, Json::Null) => Json::Null,
            (Self::Any, value) => value,
            (Self::Text, value) => Json::from(to_text(&value)),
            (Self::Number, value @ Json::Number(_))
            | (Self::Truth, value @ Json::Bool(_))
            | (Self::Object, value @ Json::Object(_)) => value,
            (Self::Number, Json::String(text)) => number(&text)?,
            (Self::Truth, value @ Json::String(_)) => Json::from(params::truth(&value)?),
            (Self::List(kind), Json::Array(items)) => {
                items.into_iter().map(|item| kind.fit(item)).collect::<Option<Vec<_>>>()?.into()
            }
            _ => return None,
        })
    }
}

/// Parses a number, keeping all of its digits.
fn number(text: &str) -> Option<Json> {
    let text = text.trim();
    serde_json::from_str(text).ok().filter(|number: &Json| number.is_number() && !is_lost(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Node;
    use serde_json::{Map, json};

    fn filled(outputs: &Json, result: &Json) -> Result<Json, String> {
        let node = Node::new("CodeExec", json!({"outputs": outputs}));
        let declared = DeclaredOutputs::read(&Params::of(&node.source()));
        let filled = declared.fill(result).map_err(|error| error.message)?;
        Ok(Json::Object(filled.into_iter().collect()))
    }

    #[test]
    fn results_fill_outputs_by_name_by_position_or_whole() {
        let check = |names: &[&str], result: Json, expected: Json| {
            let outputs: Map<String, Json> =
                names.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
            assert_eq!(filled(&outputs.into(), &result), Ok(expected), "{names:?} {result}");
        };
        check(&[], json!({"a": 1}), json!({"result": {"a": 1}}));
        check(&["attachments", "stdout", "_ERROR"], json!(1), json!({"result": 1}));
        check(&["a"], json!({"a": 1, "b": 2}), json!({"a": 1}));
        check(&["x"], json!({"a": 1}), json!({"x": {"a": 1}}));
        check(&["x"], json!([1, 2]), json!({"x": [1, 2]}));
        // A JSON text is parsed for several outputs and stays a text for a single one.
        check(&["a", "b"], json!("{\"a\": 1, \"b\": [2]}"), json!({"a": 1, "b": [2]}));
        check(&["a", "b"], json!("[1, 2]"), json!({"a": 1, "b": 2}));
        check(&["x"], json!("{\"a\": 1}"), json!({"x": "{\"a\": 1}"}));
        check(&["a", "b"], json!("{\"c\": 1}"), json!({"a": "{\"c\": 1}", "b": null}));
        check(&["a", "b", "c"], json!({"a": 1, "b": {"c": 2}}), json!({"a": 1, "b": {"c": 2}, "c": null}));
        check(&["a.b", "c"], json!({"a": {"b": 1}}), json!({"a.b": 1, "c": null}));
        check(&["a.b"], json!({"a": {"b": 4}}), json!({"a.b": 4}));
        check(&["a.b"], json!({"a": 4}), json!({"a.b": {"a": 4}}));
        check(&["a", "b"], json!([1]), json!({"a": 1, "b": null}));
        check(&["a", "b"], json!("x"), json!({"a": "x", "b": null}));
        check(&["a"], Json::Null, json!({"a": null}));
    }

    #[test]
    fn a_default_value_fills_outputs_as_a_result_does() {
        let check = |outputs: Json, default: Json, expected: Json| {
            let node = Node::new("CodeExec", json!({"outputs": outputs}));
            let filled = DeclaredOutputs::read(&Params::of(&node.source())).fill_with(&default);
            assert_eq!(Json::Object(filled.into_iter().collect()), expected, "{default}");
        };
        check(json!({"sum": {"type": "Number"}}), json!("7"), json!({"sum": 7}));
        check(json!({"sum": {"type": "Number"}}), json!("none"), json!({"sum": "none"}));
        check(json!({"a": {}, "b": {}}), json!({"b": 2}), json!({"a": null, "b": 2}));
        check(json!({"a": {}, "b": {}}), json!("x"), json!({"a": "x", "b": null}));
        check(json!({}), json!(0), json!({"result": 0}));
    }

    #[test]
    fn values_have_their_declared_types_or_are_refused() {
        let check = |kind: &str, value: Json, expected: Option<Json>| {
            let outputs = json!({"x": {"type": kind, "value": ""}});
            let found = filled(&outputs, &json!({"x": value})).map(|found| found["x"].clone());
            assert_eq!(found.clone().ok(), expected, "{kind} {value}: {found:?}");
        };
        check("String", json!("汉"), Some(json!("汉")));
        check("string", json!({"a": 1}), Some(json!("{\"a\":1}")));
        check("Number", json!(1.5), Some(json!(1.5)));
        check("number", json!(" 12345678901234567 "), Some(json!(12_345_678_901_234_567_i64)));
        check("Number", json!("12345678901234567890123"), None);
        check("Number", json!("twelve"), None);
        check("Number", json!(true), None);
        check("Boolean", json!("true"), Some(json!(true)));
        check("Boolean", json!(0), None);
        check("Object", json!([]), None);
        check("Object", json!({}), Some(json!({})));
        check("Array<Number>", json!([1, "2", null]), Some(json!([1, 2, null])));
        check("Array<Array<String>>", json!([[1]]), Some(json!([["1"]])));
        // The author of the canvas chooses its length.
        check(&"array".repeat(100_000), json!([1]), Some(json!([1])));
        check("Array<Number>", json!([1, "x"]), None);
        check("Array<String>", json!({}), None);
        check("array", json!([1, "x"]), Some(json!([1, "x"])));
        check("Any", json!([1]), Some(json!([1])));
        check("whatever", json!(1), Some(json!(1)));
        let message = filled(&json!({"x": {"type": "array<number>"}}), &json!({"x": ["no"]})).unwrap_err();
        assert_eq!(message, "the output `x` must be Array<Number>, but the program returned a list of 1");
    }
}
