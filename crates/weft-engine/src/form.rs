//! Forms of human tasks: their fields, and the values that answer them.

use weft_core::Json;
use weft_core::component::Form;
use weft_core::value::truth;

/// Returns the values of a caller's `inputs` unwrapped: `{"value": x}` and plain `x` are treated alike.
pub fn unwrap(inputs: &serde_json::Map<String, Json>) -> serde_json::Map<String, Json> {
    inputs.iter().map(|(field, value)| (field.clone(), unwrapped(value))).collect()
}

/// Returns one value unwrapped.
pub fn unwrapped(value: &Json) -> Json {
    match value {
        Json::Object(map) if map.contains_key("value") => map["value"].clone(),
        other => other.clone(),
    }
}

/// Whether every field that is not optional has a value.
pub fn satisfied(form: &Form, answers: &serde_json::Map<String, Json>) -> bool {
    left_out(form, answers).next().is_none()
}

/// Returns the required fields that have no value.
pub(crate) fn left_out<'a>(
    form: &'a Form,
    answers: &'a serde_json::Map<String, Json>,
) -> impl Iterator<Item = &'a str> {
    let open = move |(field, description): &(&'a String, &'a Json)| {
        // Fields are required by default: a form that continues without an answer by mistake cannot be undone.
        let optional = description.get("optional").and_then(truth).unwrap_or(false);
        // Clients send null for a field that was not filled in.
        !optional && answers.get(*field).is_none_or(Json::is_null)
    };
    form.fields.iter().filter(open).map(|(field, _)| field.as_str())
}

/// Returns the only field of a form, if it has exactly one: a bare question answers it.
pub fn only_field(form: &Form) -> Option<&str> {
    let mut keys = form.fields.keys();
    match (keys.next(), keys.next()) {
        (Some(field), None) => Some(field),
        _ => None,
    }
}
