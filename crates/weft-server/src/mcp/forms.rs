//! Forms as JSON Schemas: the arguments of an agent's tool, and the questions of its runs to people.

use std::collections::HashSet;

use serde_json::{Map, Value as Json, json};
use weft_core::TaskKey;
use weft_core::seam::task_store::{Task, TaskKind};
use weft_core::value::truth;

use weft_app::tasks::TaskAnswer;

/// Argument for the question.
pub(super) const QUERY: &str = "query";
/// Argument for the conversation.
pub(super) const SESSION: &str = "session_id";
/// Key that names the header which mirrors a field.
const HEADER: &str = "x-mcp-header";

/// Returns the schema of an agent's arguments: the question, the fields of its form, and the conversation.
pub(super) fn arguments(fields: &Map<String, Json>) -> Json {
    let mut properties = Map::from_iter([(
        QUERY.to_owned(),
        json!({"type": "string", "description": "The question, or what to do."}),
    )]);
    let mut required = vec![QUERY.to_owned()];
    let mut said = HashSet::new();
    for (key, field) in fields.iter().filter(|(key, _)| *key != QUERY) {
        let mut property = argument(field);
        // Clients ignore a tool in which two arguments have the same header.
        if let Some(header) = header(field).filter(|header| said.insert(header.to_ascii_lowercase())) {
            property[HEADER] = header.into();
        }
        properties.insert(key.clone(), property);
        if !is_optional(field) {
            required.push(key.clone());
        }
    }
    // If the form has such a field, its meaning takes precedence.
    properties.entry(SESSION).or_insert_with(
        || json!({"type": "string", "description": "Session to continue, from an earlier answer."}),
    );
    json!({"type": "object", "properties": properties, "required": required})
}

/// Returns whether a header has to mirror any of these fields.
pub(super) fn is_mirrored(fields: &Map<String, Json>) -> bool {
    fields.iter().any(|(key, field)| key != QUERY && header(field).is_some())
}

/// Returns the header that mirrors a field, as far as the protocol allows one.
fn header(field: &Json) -> Option<&str> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let header = field.get(HEADER)?.as_str()?;
    let is_simple = !matches!(word(field, "type"), "object" | "file" | "number");
    (is_simple && !header.is_empty() && header.chars().all(is_token)).then_some(header)
}

fn is_optional(field: &Json) -> bool {
    field.get("optional").and_then(truth) == Some(true)
}

fn word<'a>(field: &'a Json, key: &str) -> &'a str {
    field.get(key).and_then(Json::as_str).unwrap_or_default()
}

/// Returns the schema of a form field that a program fills in.
fn argument(field: &Json) -> Json {
    let mut property = match word(field, "type") {
        "object" => json!({"type": "object"}),
        "file" => json!({}),
        _ => simple(field),
    };
    describe(&mut property, field);
    property
}

/// Returns the schema of a form field that a person fills in. The protocol only allows simple types.
fn simple(field: &Json) -> Json {
    let mut property = match word(field, "type") {
        "integer" => json!({"type": "integer"}),
        "number" => json!({"type": "number"}),
        "boolean" | "bool" => json!({"type": "boolean"}),
        _ => json!({"type": "string"}),
    };
    let options = field.get("options").and_then(Json::as_array).filter(|list| !list.is_empty());
    // The protocol only supports choices among strings.
    if let Some(options) = options.filter(|_| property["type"] == "string") {
        property["enum"] =
            options.iter().map(|option| Json::from(weft_core::value::to_text(option))).collect();
    }
    property
}

fn describe(property: &mut Json, field: &Json) {
    if !word(field, "name").is_empty() {
        property["title"] = word(field, "name").into();
    }
    if !word(field, "description").is_empty() {
        property["description"] = word(field, "description").into();
    }
}

/// Converts a task of a waiting run into a question to the client.
pub(super) fn question(task: &Task) -> Json {
    let fields = &task.form.fields;
    let first = fields.values().next().map(|field| word(field, "name")).unwrap_or_default();
    let tips = task.form.tips.as_deref().filter(|tips| !tips.trim().is_empty());
    let mut message = tips.unwrap_or(if first.is_empty() { &task.title } else { first }).to_owned();
    if let Some(arguments) = fields.values().next().and_then(|field| field.get("arguments")) {
        message = format!("{message} {}", weft_core::value::to_text(arguments));
    }
    let schema = if is_decision(task) {
        json!({
            "type": "object",
            "properties": {
                "decision": {"type": "string", "enum": ["approve", "deny"]},
                "reason": {"type": "string"},
            },
            "required": ["decision"],
        })
    } else {
        form(fields)
    };
    json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}})
}

fn form(fields: &Map<String, Json>) -> Json {
    let property = |(key, field): (&String, &Json)| {
        let mut property = simple(field);
        describe(&mut property, field);
        (key.clone(), property)
    };
    let properties: Map<String, Json> = fields.iter().map(property).collect();
    let required: Vec<&String> =
        fields.iter().filter(|(_, field)| !is_optional(field)).map(|(key, _)| key).collect();
    json!({"type": "object", "properties": properties, "required": required})
}

fn is_decision(task: &Task) -> bool {
    matches!(task.kind, TaskKind::ToolApproval | TaskKind::PlanReview)
}

/// A client's response to the open tasks.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FormResponse {
    /// Answers with which the run can continue.
    Answers(Vec<(TaskKey, TaskAnswer)>),
    /// The person declined to fill in a form.
    Declined,
    /// Nothing that answers an open task.
    Nothing,
}

/// Reads the answers of a client. Answers to anything that was not asked are ignored.
pub(super) fn hear(open: &[Task], answers: &Map<String, Json>) -> FormResponse {
    let said = || open.iter().filter_map(|task| Some((task, answers.get(task.key.id.as_str())?)));
    let given = said().filter_map(|(task, said)| Some((task.key.clone(), answer(task, said)?)));
    let given: Vec<_> = given.collect();
    // If some questions are declined and others answered, the run continues with the answers.
    if !given.is_empty() {
        return FormResponse::Answers(given);
    }
    if said().any(|(_, said)| matches!(word(said, "action"), "decline" | "cancel")) {
        FormResponse::Declined
    } else {
        FormResponse::Nothing
    }
}

/// Returns an answer with which a run can continue.
fn answer(task: &Task, said: &Json) -> Option<TaskAnswer> {
    match (word(said, "action"), said.get("content")) {
        ("accept", Some(Json::Object(content))) if is_decision(task) => {
            Some(TaskAnswer::Decision(Json::Object(content.clone())))
        }
        ("accept", Some(Json::Object(content))) => {
            // Values that were not asked for are ignored.
            let asked = content.iter().filter(|(key, _)| task.form.fields.contains_key(*key));
            Some(TaskAnswer::Inputs(asked.map(|(key, value)| (key.clone(), value.clone())).collect()))
        }
        // Declining a call is an answer as well: the agent receives the denial and continues.
        ("decline" | "cancel", _) if is_decision(task) => Some(TaskAnswer::Decision("deny".into())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_testkit::open_task as task;

    #[test]
    fn a_form_becomes_a_schema_of_arguments() {
        let fields = json!({
            "town": {"type": "line", "name": "Town", "optional": false},
            "days": {"type": "integer", "optional": true},
            "style": {"type": "options", "options": ["short", 2]},
            "more": {"type": "object", "optional": "true"},
            "query": {"type": "line"},
        });
        let schema = arguments(fields.as_object().unwrap());
        assert_eq!(schema["required"], json!(["query", "town", "style"]));
        let properties = &schema["properties"];
        assert_eq!(properties["town"], json!({"type": "string", "title": "Town"}));
        assert_eq!(properties["style"]["enum"], json!(["short", "2"]));
        assert_eq!(properties["more"], json!({"type": "object"}));
        assert_eq!(properties["session_id"]["type"], "string");
        let own = arguments(json!({"session_id": {"type": "integer"}}).as_object().unwrap());
        assert_eq!(own["properties"]["session_id"], json!({"type": "integer"}));
    }

    #[test]
    fn responses_of_people_become_answers_to_tasks() {
        let form = task(TaskKind::Form, &json!({"go": {"type": "boolean", "name": "Go on?"}}));
        let asked = question(&form);
        assert_eq!(asked["params"]["message"], "Go on?");
        assert_eq!(asked["params"]["requestedSchema"]["required"], json!(["go"]));
        let said = |content: Json| json!({"action": "accept", "content": content});
        let inputs = answer(&form, &said(json!({"go": true, "x": 1})));
        assert_eq!(inputs, Some(TaskAnswer::Inputs(json!({"go": true}).as_object().unwrap().clone())));
        assert_eq!(answer(&form, &json!({"action": "decline"})), None);
        assert_eq!(answer(&form, &json!({"ignored": true})), None);
        let heard =
            |said: Json| hear(std::slice::from_ref(&form), json!({"run-1": said}).as_object().unwrap());
        assert_eq!(heard(json!({"action": "decline"})), FormResponse::Declined);
        assert_eq!(heard(json!({"action": "accept"})), FormResponse::Nothing);
        assert!(matches!(heard(said(json!({"go": true}))), FormResponse::Answers(all) if all.len() == 1));
        assert_eq!(
            hear(std::slice::from_ref(&form), json!({"other": {}}).as_object().unwrap()),
            FormResponse::Nothing
        );
        let call =
            task(TaskKind::ToolApproval, &json!({"c": {"name": "Allow?", "arguments": {"path": "a"}}}));
        assert_eq!(question(&call)["params"]["message"], "Allow? {\"path\":\"a\"}");
        assert_eq!(answer(&call, &json!({"action": "cancel"})), Some(TaskAnswer::Decision("deny".into())));
        let decided = answer(&call, &said(json!({"decision": "approve"})));
        assert_eq!(decided, Some(TaskAnswer::Decision(json!({"decision": "approve"}))));
    }
}
