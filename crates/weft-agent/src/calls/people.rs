//! The questions that people are asked about calls, and their answers.

use std::sync::Arc;

use serde_json::{Map, json};
use weft_core::component::Form;
use weft_core::seam::chat_model::ToolCall;
use weft_core::tool::Tool;
use weft_core::{Json, exact};

use super::{CallState, OpenCall, read};
use crate::arguments::{self, ArgumentSchema};
use crate::ask::Ending;
use crate::toolkit::meant;

/// Separates the id of a call from the id of a task inside of it. No call id contains it.
// Call ids are normalized before they get here (`transcript::tidy`), so an answer is never taken for that of another
// call.
pub const INSIDE: char = '/';

/// The accepted answers.
// Shown only to a person whose answer was not understood.
const UNDERSTOOD: &str =
    "Say `approve`, `deny`, `deny` and a reason, or {\"decision\": \"edit\", \"arguments\": {…}}.";

/// What a person said about a call.
pub(crate) enum Decision {
    /// Approved.
    Approve,
    /// Approved, with these arguments.
    Edit(Map<String, Json>),
    /// Denied, with the reason.
    Deny(String),
    /// Neither, for this reason; the person is asked again.
    Unclear(String),
}

/// Reads a person's answer. Only a clear answer counts as yes or no.
pub(crate) fn decision(answer: &Json) -> Decision {
    match answer {
        Json::Bool(true) => Decision::Approve,
        Json::Bool(false) => Decision::Deny(String::new()),
        Json::String(text) => word(text.trim()),
        Json::Object(answer) => {
            let reason = answer.get("reason").and_then(Json::as_str).unwrap_or_default().trim().to_owned();
            match (answer.get("decision").and_then(Json::as_str), answer.get("arguments")) {
                // Arguments beside an approval are intended: without them, the call would not be the one that was
                // approved.
                (Some("edit" | "approve"), Some(Json::Object(arguments))) => {
                    Decision::Edit(arguments.clone())
                }
                (Some("approve"), None) => Decision::Approve,
                (Some("deny"), None) => Decision::Deny(reason),
                (Some("edit"), _) => Decision::Unclear("an edit needs `arguments`, an object".to_owned()),
                _ => unclear(&Json::Object(answer.clone()).to_string()),
            }
        }
        other => unclear(&other.to_string()),
    }
}

/// Reads a text: one word, a denial with its reason, or an object written as text.
fn word(text: &str) -> Decision {
    // Forms submit text fields as text, so an edit arrives as JSON inside of one.
    if text.starts_with('{') {
        return match serde_json::from_str(&exact::kept(text)) {
            Ok(Json::Object(answer)) => decision(&Json::Object(answer)),
            _ => unclear(text),
        };
    }
    let lower = text.to_lowercase();
    match lower.as_str() {
        "approve" | "approved" | "yes" | "true" | "ok" => return Decision::Approve,
        "deny" | "denied" | "no" | "false" => return Decision::Deny(String::new()),
        _ => {}
    }
    // A reason may follow. After a bare "no" it has to be separated: "no idea" is not a denial.
    let reason = |word: &str, separators: &[char]| {
        let head = text.get(..word.len()).filter(|head| head.eq_ignore_ascii_case(word))?;
        let rest = text.get(head.len()..).filter(|rest| rest.starts_with(separators))?;
        Some(rest.trim_matches(|c: char| c.is_whitespace() || separators.contains(&c)).to_owned())
    };
    let refused = reason("deny", &[' ', ':', ',', '\n']).or_else(|| reason("no", &[':', ',']));
    refused.map_or_else(|| unclear(text), Decision::Deny)
}

fn unclear(answer: &str) -> Decision {
    const SHOWN_MAX: usize = 100;
    // An answer may be any pasted text; it goes into the tips of the next form.
    let shown: String = answer.chars().take(SHOWN_MAX).collect();
    Decision::Unclear(format!("`{shown}` is neither a yes nor a no"))
}

/// What is wrong with arguments that a person wrote, if anything. Unlike in a model's arguments, an unknown name is
/// an error: it would go unnoticed otherwise.
pub(super) fn fault(tool: Option<&Tool>, call: &ToolCall, edited: &Map<String, Json>) -> Option<String> {
    let tool = tool?;
    let asked = tool.parameters.get("properties").and_then(Json::as_object);
    let before = arguments::object(&call.arguments).map(|(before, _)| before).unwrap_or_default();
    let stranger = |name: &&String| {
        // A schema without properties does not restrict names.
        let known = asked.is_none_or(|asked| asked.is_empty() || asked.contains_key(*name));
        !(known || before.contains_key(*name) || tool.preset.contains_key(*name))
    };
    if let Some(name) = edited.keys().find(stranger) {
        let known: Vec<&str> = asked.into_iter().flat_map(Map::keys).map(String::as_str).collect();
        return Some(format!(
            "`{}` has no argument `{name}`; its arguments are: {}",
            call.name,
            known.join(", ")
        ));
    }
    let mut edited = edited.clone();
    // Presets override whatever is written, so a person cannot change them, and the schema does not contain them.
    edited.retain(|name, _| !tool.preset.contains_key(name));
    let problem = ArgumentSchema::new(&tool.parameters).ok()?.check(edited).err()?;
    Some(format!("these arguments don't suit `{}`: {problem}", call.name))
}

/// The answers to tasks inside the call with this id, by their ids within the call.
pub(super) fn inner_answers(call: &str, answers: &Map<String, Json>) -> Map<String, Json> {
    let inner = answers.iter().filter_map(|(task, answer)| {
        let inner = task.strip_prefix(call)?.strip_prefix(INSIDE)?;
        Some((inner.to_owned(), answer.clone()))
    });
    inner.collect()
}

/// The form with all open questions, if any: each waiting call is a task of its own.
pub(super) fn form(open: &[OpenCall], tools: &[Arc<Tool>], timeout: Option<u64>) -> Option<Form> {
    let mut fields = Map::new();
    let mut tips =
        "An agent asks before it goes on. Answer each of its calls with approve, deny or edit.".to_owned();
    for OpenCall { call, state, unclear, .. } in open {
        match state {
            CallState::New | CallState::Done(_) => {}
            CallState::Asked => {
                let tool = meant(tools, &call.name);
                let arguments =
                    read(call, Ending::Whole).map_or_else(|_| json!(call.arguments), |(map, _)| map.into());
                let mut field = json!({
                    "name": format!("Allow {}?", call.name),
                    "type": "approval",
                    "optional": false,
                    "options": ["approve", "deny", "edit"],
                    "tool": call.name,
                    "description": tool.map(|tool| &tool.description),
                    "arguments": arguments,
                });
                let timeout = tool.and_then(|tool| tool.traits.approval_timeout).or(timeout);
                limit_wait(&mut field, timeout);
                fields.insert(call.id.clone(), field);
                if let Some(why) = unclear {
                    tips.push_str(&format!("\n`{}`: {why}. {UNDERSTOOD}", call.id));
                }
            }
            // Questions of an inner agent are asked through this one: the run has a single form at any depth.
            CallState::Suspended(inner) => {
                // The first line introduces the questions; that was done above for all calls together.
                let told = inner.form.tips.iter().flat_map(|tips| tips.lines().skip(1));
                told.for_each(|line| tips.push_str(&format!("\n{line}")));
                let inside = inner.form.fields.iter();
                fields.extend(
                    inside.map(|(task, field)| (format!("{}{INSIDE}{task}", call.id), field.clone())),
                );
            }
        }
    }
    (!fields.is_empty()).then(|| Form { fields, tips: Some(tips), ..Form::default() })
}

/// Sets how long a field waits for an answer. No answer counts as a denial.
pub(crate) fn limit_wait(field: &mut Json, timeout_seconds: Option<u64>) {
    if let (Some(seconds), Some(field)) = (timeout_seconds, field.as_object_mut()) {
        let reason = format!("nobody answered within {seconds} s");
        field.insert("timeout_seconds".to_owned(), seconds.into());
        field.insert("otherwise".to_owned(), json!({"decision": "deny", "reason": reason}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn human_answers_are_parsed() {
        let check = |answer: Json, expected: &str| {
            let told = match decision(&answer) {
                Decision::Approve => "approve".to_owned(),
                Decision::Edit(arguments) => format!("edit {}", Json::Object(arguments)),
                Decision::Deny(reason) => format!("deny {reason}"),
                Decision::Unclear(_) => "unclear".to_owned(),
            };
            assert_eq!(told, expected, "{answer}");
        };
        check(json!(true), "approve");
        check(json!("Approve"), "approve");
        check(json!({"decision": "approve"}), "approve");
        check(json!({"decision": "edit", "arguments": {"a": 1}}), "edit {\"a\":1}");
        let id = "12345678901234567890123";
        let edited = format!(r#"{{"decision": "edit", "arguments": {{"id": {id}}}}}"#);
        check(json!(edited), &format!(r#"edit {{"id":"{id}"}}"#));
        check(json!(false), "deny ");
        check(json!("No"), "deny ");
        check(json!("deny not this one"), "deny not this one");
        check(json!("Deny: too dear"), "deny too dear");
        check(json!("no, too dear"), "deny too dear");
        check(json!("{\"decision\": \"deny\", \"reason\": \"late\"}"), "deny late");
        check(json!({"decision": "deny", "reason": " too dear "}), "deny too dear");
        // An answer that is neither is asked again: never taken as a yes, nor as a refusal nobody meant.
        for answer in ["aprove", "1", "", "no idea", "What's the weather?", "{\"decision\": \"ed", "approve?"]
        {
            check(json!(answer), "unclear");
        }
        for answer in [
            json!(null),
            json!(1),
            json!([]),
            json!({}),
            json!({"decision": "edit"}),
            json!({"approve": true}),
            json!({"decision": "edit", "arguments": "x"}),
            json!({"decision": "deny", "arguments": {}}),
        ] {
            check(answer, "unclear");
        }
    }

    #[test]
    fn answers_reach_nested_tasks() {
        let answers = json!({"a": 1, "a/x": 2, "a/y/z": 3, "ab/x": 4});
        let inner = inner_answers("a", answers.as_object().unwrap());
        assert_eq!(Json::Object(inner), json!({"x": 2, "y/z": 3}));
    }
}
