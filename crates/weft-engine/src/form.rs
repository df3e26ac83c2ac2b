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
    left_out(form, answers).next().is_none()
}

/// The fields that are not optional and have no value.
pub(crate) fn left_out<'a>(
    form: &'a Form,
    answers: &'a serde_json::Map<String, Json>,
) -> impl Iterator<Item = &'a str> {
    let open = move |(field, description): &(&'a String, &'a Json)| {
        // A field is asked for unless it says otherwise: a form that goes on without an answer by mistake
        // cannot be taken back.
        let optional = description.get("optional").and_then(Json::as_bool).unwrap_or(false);
        // Null is what clients send for a field that nobody has touched.
        !optional && answers.get(*field).is_none_or(Json::is_null)
    };
    form.fields.iter().filter(open).map(|(field, _)| field.as_str())
}

/// The only field of a form, when it has one: a bare question answers it.
pub fn only_field(form: &Form) -> Option<&str> {
    let mut keys = form.fields.keys();
    match (keys.next(), keys.next()) {
        (Some(field), None) => Some(field),
        _ => None,
    }
}
