//! The questions of a waiting run, task by task, for protocols that support them.

use serde_json::{Map, Value as Json, json};
use weft_core::TaskId;
use weft_core::journal::WaitingForm;
use weft_core::seam::task_store::TaskKind;
use weft_core::value::truth;

/// Returns the tasks of a form, each with its fields.
pub(super) fn tasks(waiting: &WaitingForm) -> Vec<(&TaskId, Map<String, Json>)> {
    let fields = &waiting.form.fields;
    match waiting.tasks.as_slice() {
        [] => Vec::new(),
        // A form at the start of a turn is answered as a whole.
        [task] if fields.len() != 1 || !is_decision(fields) => vec![(task, fields.clone())],
        tasks => {
            let one = |(name, field): (&String, &Json)| Map::from_iter([(name.clone(), field.clone())]);
            tasks.iter().zip(fields.iter().map(one)).collect()
        }
    }
}

/// Returns whether the task is a decision of a person: about a call or a plan.
pub(super) fn is_decision(fields: &Map<String, Json>) -> bool {
    let agreed_to =
        |field: &Json| matches!(TaskKind::of_field(field), TaskKind::ToolApproval | TaskKind::PlanReview);
    fields.len() == 1 && fields.values().all(agreed_to)
}

/// Returns the text of the question for people.
pub(super) fn words<'a>(waiting: &'a WaitingForm, fields: &'a Map<String, Json>) -> Option<&'a str> {
    let name = fields.values().next().and_then(|field| field.get("name")).and_then(Json::as_str);
    waiting.form.tips.as_deref().filter(|tips| !tips.trim().is_empty()).or(name)
}

/// Returns the schema for the values of a form.
pub(super) fn schema(fields: &Map<String, Json>) -> Json {
    let property = |(name, field): (&String, &Json)| {
        let word = |key: &str| field.get(key).and_then(Json::as_str).unwrap_or_default();
        let mut property = match word("type") {
            "integer" => json!({"type": "integer"}),
            "number" => json!({"type": "number"}),
            "boolean" | "bool" => json!({"type": "boolean"}),
            "file" => json!({}),
            _ => json!({"type": "string"}),
        };
        if let Some(options) = field.get("options").and_then(Json::as_array).filter(|list| !list.is_empty()) {
            property["enum"] = json!(options);
        }
        if !word("name").is_empty() {
            property["title"] = json!(word("name"));
        }
        (name.clone(), property)
    };
    let properties: Map<String, Json> = fields.iter().map(property).collect();
    let needed = |field: &Json| field.get("optional").and_then(truth) != Some(true);
    let required: Vec<&String> =
        fields.iter().filter(|(_, field)| needed(field)).map(|(name, _)| name).collect();
    json!({"type": "object", "properties": properties, "required": required})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_fields_are_not_required_in_any_spelling() {
        let fields =
            json!({"a": {"optional": true}, "b": {"optional": "true"}, "c": {"optional": 1}, "d": {}});
        let schema = schema(fields.as_object().unwrap());
        assert_eq!(schema["required"], json!(["d"]));
    }
}
