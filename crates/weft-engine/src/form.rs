//! Human tasks: their fields, and the values that answer them.

use weft_core::Json;
use weft_core::component::Form;

/// The values of a caller's `inputs` without their wrapping: `{"value": x}` and plain `x` alike.
pub fn unwrap(inputs: &serde_json::Map<String, Json>) -> serde_json::Map<String, Json> {
    inputs.iter().map(|(field, value)| (field.clone(), unwrapped(value))).collect()
}

/// One value without its wrapping.
pub fn unwrapped(value: &Json) -> Json {
    match value {
        Json::Object(map) if map.contains_key("value") => map["value"].clone(),
        other => other.clone(),
    }
}

/// Whether every field that is not optional has a value.
pub fn satisfied(form: &Form, answers: &serde_json::Map<String, Json>) -> bool {
    form.fields.iter().all(|(field, description)| {
        // A field is asked for unless it says otherwise: a form that goes on without an answer by mistake
        // cannot be taken back.
        let optional = description.get("optional").and_then(Json::as_bool).unwrap_or(false);
        // Null is what clients send for a field that nobody has touched.
        optional || answers.get(field).is_some_and(|value| !value.is_null())
    })
}

/// The only field of a form, when it has one: a bare question answers it.
pub fn only_field(form: &Form) -> Option<&str> {
    let mut keys = form.fields.keys();
    match (keys.next(), keys.next()) {
        (Some(field), None) => Some(field),
        _ => None,
    }
}
