//! Generates JSON Schemas from fields.

use serde_json::{Map, json};

use super::{AnyField as _, ByModel, Field, FieldGroup, FieldSpec, Kind, specs};
use crate::value::Json;

/// Returns the JSON Schema of an object with the offered fields of these groups. It has no `required`, because
/// components report missing parameters themselves, together with a remedy.
pub fn of_parameters(groups: impl IntoIterator<Item = &'static FieldGroup>) -> Json {
    let offered = specs(groups).filter(|spec| spec.offered);
    json!({"type": "object", "properties": properties(offered)})
}

/// Returns the JSON Schema of the arguments that a model fills in: exactly the fields that are marked for models.
pub fn of_arguments(groups: &'static [FieldGroup]) -> Json {
    let filled = || specs(groups).filter_map(|spec| Some((spec, spec.by_model?)));
    let properties: Map<String, Json> =
        filled().map(|(spec, by_model)| (spec.name.to_owned(), argument(spec, &by_model))).collect();
    let required: Vec<&str> =
        filled().filter(|(_, by_model)| by_model.required).map(|(spec, _)| spec.name).collect();
    let mut schema = json!({"type": "object", "additionalProperties": false});
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema["properties"] = properties.into();
    schema
}

fn argument(spec: &FieldSpec, by_model: &ByModel) -> Json {
    let mut schema = of_value(by_model.kind.unwrap_or(spec.kind));
    if let Some(default) = spec.default.json().filter(|_| !by_model.required) {
        schema.insert("default".to_owned(), default);
    }
    schema.insert("description".to_owned(), by_model.summary.into());
    Json::Object(schema)
}

fn properties<'a>(specs: impl Iterator<Item = &'a FieldSpec>) -> Map<String, Json> {
    specs.map(|spec| (spec.name.to_owned(), of_field(spec))).collect()
}

/// Returns the JSON Schema of one field.
pub fn of_field(spec: &FieldSpec) -> Json {
    let mut schema = of_value(spec.kind);
    schema.insert("description".to_owned(), spec.summary.into());
    if let Some(default) = spec.default.json() {
        schema.insert("default".to_owned(), default);
    }
    Json::Object(schema)
}

/// Returns the JSON Schema type of a value; `any` if it may be anything.
pub fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Any => "any",
        Kind::Text | Kind::Template | Kind::Reference | Kind::Choice(_) => "string",
        Kind::Flag => "boolean",
        Kind::Whole { .. } => "integer",
        Kind::Number { .. } => "number",
        Kind::Texts | Kind::List | Kind::Targets | Kind::Objects(_) => "array",
        Kind::Object(_) | Kind::Named(_) | Kind::Values => "object",
    }
}

/// Returns the JSON Schema of a value of this kind.
pub fn of_value(kind: Kind) -> Map<String, Json> {
    let mut schema = Map::new();
    if !matches!(kind, Kind::Any) {
        schema.insert("type".to_owned(), type_name(kind).into());
    }
    let mut set = |key: &str, value: Json| {
        schema.insert(key.to_owned(), value);
    };
    match kind {
        Kind::Any | Kind::Text | Kind::Template | Kind::Reference | Kind::Flag | Kind::List => {}
        Kind::Object([]) | Kind::Named([]) => {}
        Kind::Whole { min, max } => {
            let bounds = [("minimum", min, i64::MIN), ("maximum", max, i64::MAX)];
            bounds
                .into_iter()
                .filter(|(_, bound, none)| bound != none)
                .for_each(|(key, bound, _)| set(key, bound.into()));
        }
        Kind::Number { min, max } => {
            let bounds = [("minimum", min), ("maximum", max)];
            bounds
                .into_iter()
                .filter(|(_, bound)| bound.is_finite())
                .for_each(|(key, bound)| set(key, bound.into()));
        }
        Kind::Choice(choices) => {
            set("enum", choices.iter().map(|choice| choice.value).collect::<Vec<_>>().into());
        }
        Kind::Texts | Kind::Targets => set("items", json!({"type": "string"})),
        Kind::Objects(members) => set("items", of_members(members)),
        Kind::Object(members) => set("properties", properties(members.iter().map(Field::spec)).into()),
        Kind::Named(members) => set("additionalProperties", of_members(members)),
        Kind::Values => set("additionalProperties", json!({"type": ["string", "number", "boolean"]})),
    }
    schema
}

fn of_members(members: &[Field]) -> Json {
    json!({"type": "object", "properties": properties(members.iter().map(Field::spec))})
}
