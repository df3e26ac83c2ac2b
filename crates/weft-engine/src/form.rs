//! Human tasks: what a waiting run asks, and which of the answers belongs to which form.

use weft_core::component::Form;
use weft_core::{ComponentId, Json};

/// The values of a caller's `inputs` without their wrapping: `{"value": x}` and plain `x` alike.
pub fn unwrap(inputs: &serde_json::Map<String, Json>) -> serde_json::Map<String, Json> {
    inputs.iter().map(|(field, value)| (field.clone(), unwrapped(value))).collect()
}

fn unwrapped(value: &Json) -> Json {
    match value {
        Json::Object(map) if map.contains_key("value") => map["value"].clone(),
        other => other.clone(),
    }
}

/// The answers for one form: those below its node's id, else those whose keys are its fields.
pub fn answers(
    node: &ComponentId,
    form: &Form,
    inputs: &serde_json::Map<String, Json>,
) -> serde_json::Map<String, Json> {
    let own = match inputs.get(node.as_str()) {
        Some(Json::Object(own)) => own,
        _ => inputs,
    };
    let fields = form.fields.keys().filter_map(|field| Some((field.clone(), unwrapped(own.get(field)?))));
    fields.collect()
}

/// Whether a caller's inputs speak to this node by its id.
pub fn addressed(node: &ComponentId, inputs: &serde_json::Map<String, Json>) -> bool {
    matches!(inputs.get(node.as_str()), Some(Json::Object(_)))
}

/// Whether every field that is not optional has a value.
pub fn satisfied(form: &Form, answers: &serde_json::Map<String, Json>) -> bool {
    form.fields.iter().all(|(field, description)| {
        let optional = description.get("optional").and_then(Json::as_bool).unwrap_or(false);
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(json: &Json) -> serde_json::Map<String, Json> {
        json.as_object().unwrap().clone()
    }

    #[test]
    fn answers_reach_the_form_they_are_for() {
        let form = Form { fields: map(&json!({"ok": {}, "why": {"optional": true}})), tips: None };
        let check = |inputs: Json, expected: Json, satisfied_expected: bool| {
            let got = answers(&"Fill:1".into(), &form, &map(&inputs));
            assert_eq!(got, map(&expected));
            assert_eq!(satisfied(&form, &got), satisfied_expected);
        };
        check(json!({"ok": {"value": true}, "other": 1}), json!({"ok": true}), true);
        check(json!({"Fill:1": {"ok": 1}, "ok": 2}), json!({"ok": 1}), true);
        check(json!({"why": "x"}), json!({"why": "x"}), false);
        check(json!({"ok": null}), json!({"ok": null}), false);
    }
}
