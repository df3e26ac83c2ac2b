//! Types of requests and answers as plain data, and their JSON Schema.

use serde_json::{Map, Value as Json, json};
use weft_core::seam::document_reader::PAGE_RANGES_MAX;
use weft_core::value::listed;

use crate::wire::rules::Rule;

/// A named object type, which is the same wherever it appears.
#[derive(Debug)]
pub struct Shape {
    /// Its name in the OpenAPI document, such as `Agent`.
    pub name: &'static str,
    /// A description, as a sentence fragment.
    pub summary: &'static str,
    /// Its known members; there may be others.
    pub members: &'static [Member],
}

/// A member of an object, or a parameter.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Its name.
    pub name: &'static str,
    /// The type of its value.
    pub kind: Type,
    /// A description, as a sentence fragment; may be empty if the name is clear.
    pub summary: &'static str,
    /// Whether it is always present.
    pub required: bool,
    /// Whether it may be null.
    pub nullable: bool,
}

/// Type of a value.
#[derive(Clone, Copy, Debug)]
pub enum Type {
    /// Anything.
    Any,
    /// A string.
    Text,
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// An integer.
    Whole,
    /// Milliseconds since 1970.
    Time,
    /// A number.
    Number,
    /// True or false.
    Flag,
    /// Null.
    Null,
    /// A list.
    List(&'static Type),
    /// Names and values.
    Map(&'static Type),
    /// An object of a named type.
    Of(&'static Shape),
    /// An object of an anonymous type.
    Object(&'static [Member]),
    /// One of several types.
    Either(&'static [Type]),
    /// An object that is checked by these rules.
    Rules(&'static [(&'static str, Rule)]),
}

/// A member that is always present.
pub const fn member(name: &'static str, kind: Type, summary: &'static str) -> Member {
    Member { name, kind, summary, required: true, nullable: false }
}

/// A string that is always present.
pub const fn text(name: &'static str, summary: &'static str) -> Member {
    member(name, Type::Text, summary)
}

/// An integer that is always present.
pub const fn whole(name: &'static str, summary: &'static str) -> Member {
    member(name, Type::Whole, summary)
}

/// A time that is always present.
pub const fn time(name: &'static str, summary: &'static str) -> Member {
    member(name, Type::Time, summary)
}

/// A boolean that is always present.
pub const fn flag(name: &'static str, summary: &'static str) -> Member {
    member(name, Type::Flag, summary)
}

/// A list that is always present.
pub const fn list(name: &'static str, of: &'static Type, summary: &'static str) -> Member {
    member(name, Type::List(of), summary)
}

impl Member {
    /// Makes the member optional.
    #[must_use]
    pub const fn optional(mut self) -> Self {
        self.required = false;
        self
    }

    /// Makes the member nullable.
    #[must_use]
    pub const fn nullable(mut self) -> Self {
        self.nullable = true;
        self
    }
}

/// Schemas of named types, collected while other schemas are built.
pub type Shapes = Map<String, Json>;

/// Returns the JSON Schema of a type, and adds the named types in it to `shapes`.
pub fn schema(kind: Type, shapes: &mut Shapes) -> Json {
    match kind {
        Type::Any => json!({}),
        Type::Text => json!({"type": "string"}),
        Type::OneOf(words) => json!({"type": "string", "enum": words}),
        Type::Whole => json!({"type": "integer"}),
        Type::Time => json!({"type": "integer", "description": "milliseconds since 1970"}),
        Type::Number => json!({"type": "number"}),
        Type::Flag => json!({"type": "boolean"}),
        Type::Null => json!({"type": "null"}),
        Type::List(of) => json!({"type": "array", "items": schema(*of, shapes)}),
        Type::Map(of) => json!({"type": "object", "additionalProperties": schema(*of, shapes)}),
        Type::Of(shape) => {
            if !shapes.contains_key(shape.name) {
                // Reserves the name before its members, which may refer to it.
                shapes.insert(shape.name.to_owned(), Json::Null);
                let mut made = object(shape.members, shapes);
                made["description"] = shape.summary.into();
                shapes.insert(shape.name.to_owned(), made);
            }
            json!({"$ref": format!("#/components/schemas/{}", shape.name)})
        }
        Type::Object(members) => object(members, shapes),
        Type::Rules(rules) => of_rules(rules),
        Type::Either(of) => json!({"anyOf": of.iter().map(|kind| schema(*kind, shapes)).collect::<Vec<_>>()}),
    }
}

/// Returns the JSON Schema of an object with these members. It may have others: clients must accept new ones.
pub fn object(members: &[Member], shapes: &mut Shapes) -> Json {
    let properties: Map<String, Json> =
        members.iter().map(|member| (member.name.to_owned(), of_member(member, shapes))).collect();
    let required: Vec<&str> =
        members.iter().filter(|member| member.required).map(|member| member.name).collect();
    let mut made = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        made["required"] = required.into();
    }
    made
}

fn of_member(member: &Member, shapes: &mut Shapes) -> Json {
    let mut made = schema(member.kind, shapes);
    if member.nullable {
        made = match made.get("type") {
            Some(Json::String(name)) if made.get("enum").is_none() => {
                let types = json!([name, "null"]);
                made["type"] = types;
                made
            }
            _ => json!({"anyOf": [made, {"type": "null"}]}),
        };
    }
    if !member.summary.is_empty() {
        made["description"] = member.summary.into();
    }
    made
}

/// Returns the JSON Schema of an object that is checked by rules: all of its members are optional, and it has no
/// others.
fn of_rules(rules: &[(&str, Rule)]) -> Json {
    let properties: Map<String, Json> =
        rules.iter().map(|(name, rule)| ((*name).to_owned(), of_rule(*rule))).collect();
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

fn of_rule(rule: Rule) -> Json {
    match rule {
        Rule::Text(min, max) | Rule::Trimmed(min, max) => {
            json!({"type": ["string", "null"], "minLength": min, "maxLength": max})
        }
        Rule::Integer(min, max) => json!({"type": ["integer", "null"], "minimum": min, "maximum": max}),
        Rule::Number(min, max) => {
            let mut made = json!({"type": ["number", "null"]});
            for (key, bound) in [("minimum", min), ("maximum", max)] {
                if bound.is_finite() {
                    made[key] = bound.into();
                }
            }
            made
        }
        Rule::Flag => json!({"type": ["boolean", "null"]}),
        // Not an enum: case and surrounding space are ignored.
        Rule::OneOf(words) => json!({"type": ["string", "null"], "examples": words}),
        Rule::Texts => json!({"type": ["array", "null"], "items": {"type": "string"}}),
        Rule::Pages => {
            let range = json!({"type": "array", "items": {"type": "integer"}});
            json!({"type": ["array", "null"], "maxItems": PAGE_RANGES_MAX, "items": range})
        }
        Rule::Object => json!({"type": ["object", "null"]}),
        Rule::Fields(rules) => {
            let mut made = of_rules(rules);
            made["type"] = json!(["object", "null"]);
            made
        }
        Rule::Any => json!({}),
    }
}

/// Returns the name of a type, for people.
pub fn in_words(kind: Type) -> String {
    match kind {
        Type::Any => "any".to_owned(),
        Type::Text => "string".to_owned(),
        Type::OneOf(words) => listed(words),
        Type::Whole => "integer".to_owned(),
        Type::Time => "time in ms".to_owned(),
        Type::Number => "number".to_owned(),
        Type::Flag => "boolean".to_owned(),
        Type::Null => "null".to_owned(),
        Type::List(of) => format!("list of {}", in_words(*of)),
        Type::Map(of) => format!("object of {}", in_words(*of)),
        Type::Of(shape) => format!("[{0}](#{1})", shape.name, shape.name.to_lowercase()),
        Type::Object(members) => format!("{{{}}}", listed(members.iter().map(|member| member.name))),
        Type::Either(of) => of.iter().map(|kind| in_words(*kind)).collect::<Vec<_>>().join(" or "),
        Type::Rules(_) => "object".to_owned(),
    }
}
