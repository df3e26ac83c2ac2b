//! Generates the JSON Schema of a canvas for editors, from the components' declarations.
//!
//! It accepts whatever can be loaded: canvases come from many editors, and a number may be a text that
//! contains one. What a schema cannot express (references, edges, frames) is checked by
//! [`compile`](crate::compile).

use serde_json::{Map, json};
use weft_core::component::Role;
use weft_core::field::schema::of_value;
use weft_core::field::{AnyField as _, Field, FieldSpec, Kind, Widget, common, specs};
use weft_core::{ComponentSpec, Json};

/// Returns the JSON Schema (2020-12) of a canvas built from these components.
pub fn canvas_schema(components: &[&'static ComponentSpec]) -> Json {
    let kinds: Vec<&str> = components.iter().map(|spec| spec.kind).collect();
    let defs: Map<String, Json> =
        components.iter().map(|spec| (spec.kind.to_owned(), parameters(spec))).collect();
    let by_kind: Vec<Json> = components
        .iter()
        .map(|spec| {
            json!({"if": {"required": ["component_name"], "properties": {"component_name": {"const": spec.kind}}},
                "then": {"properties": {"params": {"$ref": format!("#/$defs/parameters/{}", spec.kind)}}}})
        })
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Weft canvas",
        "description": "A workflow of agents: its components and how they are connected.",
        "type": "object",
        "anyOf": [{"required": ["components"]}, {"required": ["graph"]}, {"required": ["dsl"]},
            {"required": ["nodes", "edges"]}],
        "properties": {
            "dsl": {"description": "the canvas, in an exported file", "type": ["object", "string"],
                "properties": {"components": {"$ref": "#/$defs/components"}, "variables": {"$ref": "#/$defs/variables"}}},
            "components": {"$ref": "#/$defs/components"},
            "variables": {"$ref": "#/$defs/variables"},
            "globals": {"description": "what the last run has left behind; a new session does not read it"},
            "history": {"description": "the conversation of the last run; a new session does not read it"},
            "graph": {"description": "how an editor draws it; without `components` it is the canvas"},
            "nodes": {"description": "with `edges`: what is else below `graph`", "type": "array"},
            "edges": {"description": "with `nodes`: what is else below `graph`", "type": "array"},
        },
        "$defs": {
            "components": {"description": "the components by their ids; a run starts at `begin`", "type": "object",
                "additionalProperties": {"$ref": "#/$defs/component"}},
            "component": {
                "type": "object",
                "properties": {
                    "obj": {"type": "object", "allOf": by_kind, "properties": {
                        "component_name": {"description": "the type of the component", "type": "string", "examples": kinds},
                        "params": {"description": "its parameters", "type": ["object", "null"]}}},
                    "downstream": {"description": "the ids of the components that come next",
                        "type": ["array", "string", "null"], "items": {"type": "string"}},
                    "upstream": {"description": "the ids of the components that lead here; edges are read from `downstream`"},
                    "parent_id": {"description": framed(components), "type": ["string", "null"]},
                },
            },
            "variables": {"description": "what `{env.NAME}` is", "type": ["object", "array", "null"]},
            "parameters": defs,
        },
    })
}

fn framed(components: &[&'static ComponentSpec]) -> String {
    let frames = components.iter().filter(|spec| matches!(spec.role, Role::Each | Role::Repeat));
    let frames: Vec<&str> = frames.map(|spec| spec.kind).collect();
    format!("the id of the {} that this component belongs to", frames.join(" or "))
}

fn parameters(spec: &ComponentSpec) -> Json {
    let known = specs(spec.fields).chain(specs(common::GROUPS)).filter(|spec| spec.offered);
    json!({"description": spec.summary, "type": "object", "properties": properties(known)})
}

fn properties<'a>(fields: impl Iterator<Item = &'a FieldSpec>) -> Map<String, Json> {
    fields.map(|spec| (spec.name.to_owned(), field(spec))).collect()
}

/// Returns the schema of a field, which accepts everything that is read: see [`weft_core::params`].
fn field(spec: &FieldSpec) -> Json {
    let mut schema = of_kind(spec.kind);
    if spec.widget == Some(Widget::Form) {
        schema["type"] = json!(["object", "array", "null"]);
    }
    schema["description"] = spec.summary.into();
    if let Some(default) = spec.default.json() {
        schema["default"] = default;
    }
    schema
}

fn of_kind(kind: Kind) -> Json {
    let members = |members: &'static [Field]| properties(members.iter().map(|member| member.spec()));
    match kind {
        Kind::Any | Kind::List | Kind::Targets => json!({}),
        Kind::Text | Kind::Template | Kind::Reference => {
            json!({"type": ["string", "number", "boolean", "null"]})
        }
        Kind::Flag => json!({"type": ["boolean", "string", "number", "null"]}),
        Kind::Whole { .. } | Kind::Number { .. } => {
            // The bounds apply only to numbers; the value may be of another type.
            let mut schema = of_value(kind);
            schema.insert("type".to_owned(), json!(["number", "string", "null"]));
            Json::Object(schema)
        }
        Kind::Choice(choices) => {
            let values: Vec<&str> = choices.iter().map(|choice| choice.value).collect();
            json!({"type": ["string", "boolean", "null"], "examples": values})
        }
        Kind::Texts => json!({"type": ["array", "string", "number", "boolean", "null"]}),
        Kind::Objects([]) => json!({"type": ["array", "null"]}),
        Kind::Objects(list) => json!({"type": ["array", "null"],
            "items": {"type": "object", "properties": members(list)}}),
        Kind::Object([]) | Kind::Values => json!({"type": ["object", "string", "null"]}),
        Kind::Object(list) => json!({"type": ["object", "string", "null"], "properties": members(list)}),
        Kind::Named([]) => json!({"type": ["object", "null"]}),
        Kind::Named(list) => json!({"type": ["object", "null"],
            "additionalProperties": {"type": ["object", "null"], "properties": members(list)}}),
    }
}
