//! The values that a person fills into a form.

use serde_json::Map;
use weft_core::{Json, Outputs};

use crate::params::{Field, Kind, Params, Widget, number, truth};

/// A form: field key → description.
pub type Fields = Map<String, Json>;

/// The parameter that declares them.
pub static INPUTS: Field = Field::raw(
    "inputs",
    Kind::Named(&[
        Field::raw("name", Kind::Text, "what people read"),
        Field::raw(
            "type",
            Kind::Text,
            "`line`, `paragraph`, `options`, `integer`, `number`, `boolean`, `object` or `file`",
        ),
        Field::raw("optional", Kind::Flag, "whether it may be left empty"),
        Field::raw("options", Kind::Texts, "what to choose from"),
    ]),
    "the fields of the form, by their keys",
)
.widget(Widget::Form);

/// The fields that a node declares.
pub fn declared(params: &Params<'_>) -> Fields {
    params.get(&INPUTS).and_then(Json::as_object).cloned().unwrap_or_default()
}

/// One output for every value filled in, declared or not.
pub fn outputs(fields: &Fields, filled: &Map<String, Json>) -> Outputs {
    filled.iter().map(|(key, value)| (key, coerced(fields.get(key), bare(value)))).collect()
}

/// The value itself: `{"value": …}` is accepted too.
fn bare(value: &Json) -> &Json {
    const KEYS: [&str; 7] = ["value", "name", "type", "optional", "options", "key", "description"];
    match value {
        Json::Object(members) if members.keys().all(|key| KEYS.contains(&key.as_str())) => {
            members.get("value").unwrap_or(value)
        }
        _ => value,
    }
}

/// A text that was typed into a field of another type becomes a value of that type, if it can.
fn coerced(field: Option<&Json>, value: &Json) -> Json {
    let kind = field.and_then(|field| field.get("type")).and_then(Json::as_str).unwrap_or_default();
    let Json::String(text) = value else { return value.clone() };
    let typed = match kind.to_ascii_lowercase().as_str() {
        "object" => serde_json::from_str(text).ok(),
        "integer" | "number" if number(value).is_some() => serde_json::from_str(text.trim()).ok(),
        "boolean" => truth(value).map(Json::Bool),
        _ => None,
    };
    typed.unwrap_or_else(|| value.clone())
}
