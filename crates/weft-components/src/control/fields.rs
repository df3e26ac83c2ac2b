//! Form fields, and the values that a person enters.

use std::collections::HashSet;

use serde_json::Map;
use weft_core::exact::{is_lost, kept};
use weft_core::suggest::{did_you_mean, nearest};
use weft_core::value::{listed, to_text};
use weft_core::{Json, Outputs, ParamProblem};

use crate::params::{Field, Kind, Params, Widget, number, pointer, truth, whole};

/// A form: field key → description.
pub(super) type Fields = Map<String, Json>;

/// The parameter that declares the fields.
pub(super) static INPUTS: Field = inputs();

/// The parameter that declares the fields, for components that add older names to it.
pub(super) const fn inputs() -> Field {
    Field::raw("inputs", Kind::Named(MEMBERS), "the fields of the form, by key").widget(Widget::Form)
}

const MEMBERS: &[Field] = &[
    Field::raw("name", Kind::Text, "its label"),
    Field::raw(
        "type",
        Kind::Text,
        "`line`, `paragraph`, `options`, `integer`, `number`, `boolean`, `object` or `file`",
    ),
    Field::raw("optional", Kind::Flag, "whether it may be left empty"),
    // Texts, numbers, or objects with a value and a label.
    Field::raw("options", Kind::List, "the choices"),
];

/// Field types, as editors name them. Any name that contains `file` means files.
const TYPES: [&str; 11] = [
    "line",
    "paragraph",
    "options",
    "integer",
    "number",
    "boolean",
    "object",
    "file",
    "text",
    "string",
    "float",
];

/// The reader of the files of a form, which other editors let their users choose.
pub(super) static LAYOUT_RECOGNIZE: Field =
    Field::raw("layout_recognize", Kind::Text, "how files of the form are read").not_offered();

/// The values of [`LAYOUT_RECOGNIZE`] that ask for nothing else than the built-in reader, in lower case.
const READERS: [&str; 6] = ["", "deepdoc", "plain text", "plain_text", "naive", "ocr"];

/// Warns if the files of a form are to be read by a reader that does not exist here.
pub(super) fn check_reader(params: &mut Params<'_>) {
    let reader = params.get(&LAYOUT_RECOGNIZE).and_then(Json::as_str).unwrap_or_default();
    if !READERS.contains(&reader.trim().to_lowercase().as_str()) {
        let problem =
            ParamProblem::new(params.pointer(&LAYOUT_RECOGNIZE), format!("`{reader}` has no effect"));
        params.warn(problem.help("files are read by the built-in reader, without a model"));
    }
}

/// Returns the fields that a node declares with this parameter: an object of them, or a list whose members state their
/// keys.
pub(super) fn declared(params: &mut Params<'_>, inputs: &Field) -> Fields {
    let at = params.pointer(inputs);
    let written: Vec<(String, &str, &Json)> = match params.get(inputs) {
        Some(Json::Object(fields)) => {
            let field = |(key, field)| (format!("{at}{}", pointer(&[key])), key, field);
            fields.iter().map(|(key, value)| (key.as_str(), value)).map(field).collect()
        }
        Some(Json::Array(fields)) => {
            let keyed = fields.iter().enumerate();
            let of_list: Vec<_> = keyed.map(|(place, field)| (format!("{at}/{place}"), field)).collect();
            for (at, _) in of_list.iter().filter(|(_, field)| field.is_object() && key(field).is_none()) {
                let problem =
                    ParamProblem::new(at.as_str(), "has no `key`, so the form does not have this field");
                params.warn(problem.help("give it a `key`, by which its value is referred to"));
            }
            of_list.into_iter().filter_map(|(at, field)| Some((at, key(field)?, field))).collect()
        }
        _ => Vec::new(),
    };
    let mut seen = HashSet::new();
    for (at, key, _) in &written {
        if !seen.insert(*key) {
            let message = format!("an earlier field also has the key `{key}`: only this one is shown");
            params.warn(ParamProblem::new(at.as_str(), message).help("give one of them another key"));
        }
    }
    for (at, _, field) in &written {
        if let Some(problem) = doubtful(at, field) {
            params.warn(problem);
        }
    }
    written.into_iter().map(|(_, key, field)| (key.to_owned(), field.clone())).collect()
}

/// Returns the key that a field in a list states.
fn key(field: &Json) -> Option<&str> {
    let said = |member: &str| field.get(member)?.as_str().filter(|key| !key.is_empty());
    said("key").or_else(|| said("name"))
}

/// Returns a warning about a probable mistake in the description of a field.
fn doubtful(at: &str, field: &Json) -> Option<ParamProblem> {
    let kind = field.get("type").and_then(Json::as_str).unwrap_or_default().trim().to_ascii_lowercase();
    let at = |member: &str| format!("{at}/{member}");
    if !kind.is_empty() && !kind.contains("file") && !TYPES.contains(&kind.as_str()) {
        let help =
            nearest(&kind, TYPES).map_or_else(|| format!("use one of {}", listed(&TYPES[..8])), did_you_mean);
        let message = format!("`{kind}` is not a field type: any value is accepted");
        return Some(ParamProblem::new(at("type"), message).help(help));
    }
    let offers = |options: &Json| !options.as_array().is_some_and(Vec::is_empty);
    if kind == "options" && !field.get("options").is_some_and(offers) {
        let problem =
            ParamProblem::new(at("type"), "there are no options to choose from: any value is accepted");
        return Some(problem.help("list the choices in `options`"));
    }
    None
}

/// Returns one output for every value filled in, declared or not.
pub(super) fn outputs(fields: &Fields, filled: &Map<String, Json>) -> Outputs {
    filled.iter().map(|(key, value)| (key, coerced(fields.get(key), bare(value)))).collect()
}

/// Unwraps a value that is given as `{"value": …}`.
fn bare(value: &Json) -> &Json {
    // With any other member, it is an object that was filled in as such.
    const KEYS: [&str; 7] = ["value", "name", "type", "optional", "options", "key", "description"];
    match value {
        Json::Object(members) if members.keys().all(|key| KEYS.contains(&key.as_str())) => {
            members.get("value").unwrap_or(value)
        }
        _ => value,
    }
}

/// Converts a value that was entered into a field to the type of the field, if possible: text to any type, 0 and 1 to
/// booleans, and numbers and booleans to text, so that every value which a field accepts is one of its type.
pub(super) fn coerced(field: Option<&Json>, value: &Json) -> Json {
    let kind = field.and_then(|field| field.get("type")).and_then(Json::as_str).unwrap_or_default();
    let typed = match (kind.trim().to_ascii_lowercase().as_str(), value) {
        ("boolean", _) => truth(value).map(Json::Bool),
        // Programs send the number of an order, or a telephone number, as a number.
        ("line" | "paragraph" | "text" | "string", Json::Number(_) | Json::Bool(_)) => {
            Some(to_text(value).into())
        }
        ("object", Json::String(text)) => serde_json::from_str(&kept(text)).ok(),
        // Only if the text is a number, because other texts are JSON of other types.
        ("integer" | "number" | "float", Json::String(text))
            if number(value).is_some() && !is_lost(text.trim()) =>
        {
            serde_json::from_str(text.trim()).ok().or_else(|| respelled(value))
        }
        _ => None,
    };
    typed.unwrap_or_else(|| value.clone())
}

/// Returns a number that people spell in a way that JSON does not: `+7`, `007`, `.5`.
fn respelled(value: &Json) -> Option<Json> {
    let number = number(value)?;
    // Beyond the range of `whole`, digits could be lost.
    whole(number).map(Json::from).or_else(|| (number.fract() != 0.0).then(|| number.into()))
}
