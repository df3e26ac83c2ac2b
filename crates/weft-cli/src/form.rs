//! Forms of waiting runs: describing them, answering them with flags, and asking in the terminal.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::json;
use weft_core::component::{Form, Role};
use weft_core::exact::kept;
use weft_core::journal::WaitingForm;
use weft_core::reference::Inputs;
use weft_core::{Json, value};
use weft_dsl::Plan;

use crate::lines::InputLines;
use crate::screen::Notes;
use crate::words::quoted;

/// A field of a form.
#[derive(Debug)]
struct ShownField<'a> {
    key: &'a str,
    name: &'a str,
    kind: &'a str,
    optional: bool,
    options: Vec<String>,
    preset: Option<&'a Json>,
    /// For an approval, the call to decide about.
    call: Option<String>,
    /// The field in the form.
    description: &'a Json,
}

/// Answers to an approval other than `approve` and `deny`, in JSON.
const DECISIONS: &str = r#"{"decision":"deny","reason":"…"} or {"decision":"edit","arguments":{…}}"#;

impl<'a> ShownField<'a> {
    fn of(key: &'a str, description: &'a Json) -> Self {
        let text = |member: &str| description.get(member).and_then(Json::as_str).unwrap_or_default();
        let options = description.get("options").and_then(Json::as_array).into_iter().flatten();
        Self {
            key,
            name: text("name"),
            kind: text("type"),
            optional: description.get("optional").and_then(value::truth).unwrap_or(false),
            options: options.map(value::to_text).collect(),
            preset: description.get("value").filter(|value| !value.is_null() && *value != &Json::from("")),
            call: (text("type") == "approval").then(|| {
                let arguments = description.get("arguments").map(value::to_text).unwrap_or_default();
                format!("{} {arguments}", text("tool"))
            }),
            description,
        }
    }

    /// Returns a description such as `note (line, optional): Anything to add?`.
    fn line(&self) -> String {
        let mut text = self.key.to_owned();
        let kind = if self.options.is_empty() { self.kind.to_owned() } else { self.options.join(" | ") };
        let facts: Vec<&str> = [kind.as_str(), if self.optional { "optional" } else { "" }]
            .into_iter()
            .filter(|f| !f.is_empty())
            .collect();
        if !facts.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(text, " ({})", facts.join(", "));
        }
        if !self.name.is_empty() && self.name != self.key {
            let _ = write!(text, ": {}", self.name);
        }
        text
    }

    /// Parses the text that a person has entered.
    fn parse(&self, typed: &str) -> Result<Option<Json>, String> {
        let typed = typed.trim();
        if typed.is_empty() {
            return match (self.preset, self.optional) {
                (Some(preset), _) => Ok(Some(preset.clone())),
                (None, true) => Ok(None),
                (None, false) => Err("this field needs an answer".to_owned()),
            };
        }
        match self.kind.to_lowercase().as_str() {
            "approval" => self.decision(typed).map(Some),
            "boolean" => {
                yes_or_no(typed).map(|yes| Some(Json::Bool(yes))).ok_or_else(|| "answer yes or no".to_owned())
            }
            "integer" | "number" => match typed.parse::<serde_json::Number>() {
                Ok(number) => Ok(Some(Json::Number(number))),
                Err(_) => Err("answer with a number".to_owned()),
            },
            _ if !self.options.is_empty() => self.option(typed).map(Some),
            _ => Ok(Some(Json::from(typed))),
        }
    }

    /// Checks a value against the field.
    fn suits(&self, value: Option<Json>) -> Result<Option<Json>, String> {
        match value.as_ref().and_then(|value| weft_core::form::problem(self.description, value)) {
            Some(problem) => Err(problem),
            None => Ok(value),
        }
    }

    /// Parses `approve`, `deny`, `deny WHY` or `edit {…}` with other arguments; also the decision as JSON.
    fn decision(&self, typed: &str) -> Result<Json, String> {
        if let Ok(decision @ Json::Object(_)) = serde_json::from_str(&kept(typed)) {
            return Ok(decision);
        }
        let (word, rest) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
        let word = word.trim_end_matches([':', ',']).to_lowercase();
        let meant = match word.as_str() {
            "a" | "approve" => Some("approve"),
            "d" | "deny" => Some("deny"),
            "e" | "edit" => Some("edit"),
            other => yes_or_no(other).map(|yes| if yes { "approve" } else { "deny" }),
        };
        let offered =
            |word: &&str| self.options.is_empty() || self.options.iter().any(|option| option == word);
        match (meant.filter(offered), rest.trim()) {
            (Some(word @ ("approve" | "deny")), "") => Ok(Json::from(word)),
            (Some("deny"), reason) => Ok(json!({"decision": "deny", "reason": reason})),
            (Some("edit"), arguments) => match serde_json::from_str(&kept(arguments)) {
                Ok(Json::Object(arguments)) => Ok(json!({"decision": "edit", "arguments": arguments})),
                Ok(_) | Err(_) => {
                    Err("write the new arguments after it: edit {\"name\": \"value\"}".to_owned())
                }
            },
            _ => Err("answer approve, deny, deny WHY, or edit {\"name\": \"value\"}".to_owned()),
        }
    }

    fn option(&self, typed: &str) -> Result<Json, String> {
        // An option may itself be a number.
        let by_text = self.options.iter().find(|option| option.eq_ignore_ascii_case(typed));
        let by_place =
            || typed.parse::<usize>().ok().and_then(|place| self.options.get(place.checked_sub(1)?));
        let found = by_text.or_else(by_place).map(|option| Json::from(option.as_str()));
        found.ok_or_else(|| format!("choose one of {}", self.options.join(", ")))
    }
}

fn yes_or_no(typed: &str) -> Option<bool> {
    match typed.to_lowercase().as_str() {
        "y" | "yes" | "true" | "1" => Some(true),
        "n" | "no" | "false" | "0" => Some(false),
        _ => None,
    }
}

/// Describes the forms, as lines for people.
pub(crate) fn describe(forms: &[WaitingForm]) -> String {
    let mut text = String::new();
    for waiting in forms {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "`{}` waits for a person:", waiting.node);
        for line in waiting.form.tips.iter().flat_map(|tips| tips.lines()) {
            let _ = writeln!(text, "  {line}");
        }
        for (key, description) in &waiting.form.fields {
            let field = ShownField::of(key, description);
            let _ = writeln!(text, "  - {}", field.line());
            if let Some(call) = field.call {
                let _ = writeln!(text, "      {call}");
                let _ = writeln!(text, "      also: {DECISIONS}");
            }
        }
    }
    text
}

/// Returns the `--input` flags that answer the forms, with placeholders for the values.
pub(crate) fn flags(forms: &[WaitingForm]) -> String {
    let mut seen = HashSet::new();
    // If two forms ask for the same key, each answer names its form.
    let apart = forms.iter().flat_map(|waiting| waiting.form.fields.keys()).all(|key| seen.insert(key));
    let mut text = String::new();
    for waiting in forms {
        let fields = waiting.form.fields.iter().map(|(key, description)| ShownField::of(key, description));
        // The key of a flag ends at its first `=`, and an address of a field may contain one.
        let plain = waiting.form.fields.keys().all(|key| !key.contains('='));
        if apart && plain {
            for field in fields {
                let flag = format!("--input {}", quoted(&format!("{}=VALUE", field.key)));
                // Writing to a String cannot fail.
                let _ = if field.optional { write!(text, " [{flag}]") } else { write!(text, " {flag}") };
            }
        } else {
            let values: serde_json::Map<_, _> =
                fields.map(|field| (field.key.to_owned(), Json::from("VALUE"))).collect();
            let value = format!("{}={}", waiting.address(), Json::Object(values));
            let _ = write!(text, " --input {}", quoted(&value));
        }
    }
    text
}

/// Returns the form that a run of a plan starts with; without fields if it has none.
pub(crate) fn of_start(plan: &Plan) -> Form {
    let start = plan.scopes.first().and_then(|top| plan.nodes.get(top.start));
    let entry = start.filter(|node| node.role == Role::Entry);
    entry.map(|node| node.component.form(&Inputs::default())).unwrap_or_default()
}

/// Restores the values of text fields as they were typed in the `KEY=VALUE` pairs: parsed as JSON, `1.10` has become
/// `1.1`. A text in quotes and an object were typed as JSON on purpose.
pub(crate) fn keep_typed(inputs: &mut serde_json::Map<String, Json>, pairs: &[String], forms: &[Form]) {
    for (key, typed) in pairs.iter().filter_map(|pair| pair.split_once('=')) {
        let mut fields = forms.iter().filter_map(|form| form.fields.get(key)).peekable();
        let is_text =
            fields.peek().is_some() && fields.all(|field| weft_core::form::keeps_text(field, typed));
        if let Some(value) = inputs.get_mut(key)
            && is_text
            && !value.is_string()
            && !value.is_object()
        {
            *value = Json::from(typed);
        }
    }
}

/// Asks a person field by field. Returns the answers, each below its form's address; `None` if the input ended early.
pub(crate) async fn ask(
    forms: &[WaitingForm],
    lines: &mut InputLines,
) -> Option<serde_json::Map<String, Json>> {
    let mut answers = serde_json::Map::new();
    for waiting in forms {
        waiting.form.tips.iter().for_each(Notes::line);
        let mut own = serde_json::Map::new();
        for (key, description) in &waiting.form.fields {
            if let Some(value) = ask_field(&ShownField::of(key, description), lines).await? {
                own.insert(key.clone(), value);
            }
        }
        answers.insert(waiting.address(), Json::Object(own));
    }
    Some(answers)
}

async fn ask_field(field: &ShownField<'_>, lines: &mut InputLines) -> Option<Option<Json>> {
    let prompt = format!("  {} ", field.line());
    field.call.iter().for_each(|call| Notes::line(format!("  {call}")));
    loop {
        let typed = lines.next(&prompt).await?;
        match field.parse(&typed).and_then(|value| field.suits(value)) {
            Ok(value) => return Some(value),
            Err(why) => Notes::line(format!("  {}: {why}", field.key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::journal::FrameStep;

    fn waiting(node: &str, fields: &Json) -> WaitingForm {
        let fields = fields.as_object().unwrap().clone();
        let form = Form { fields, tips: Some("Look:".into()), ..Form::default() };
        WaitingForm::new(node.into(), std::sync::Arc::from([]), form)
    }

    #[test]
    fn typed_text_becomes_a_value_of_the_field_type() {
        let check = |description: Json, typed: &str, expected: Result<Option<Json>, ()>| {
            assert_eq!(
                ShownField::of("f", &description).parse(typed).map_err(drop),
                expected,
                "{description} {typed}"
            );
        };
        check(json!({"type": "boolean"}), "Yes", Ok(Some(json!(true))));
        check(json!({"type": "boolean"}), "maybe", Err(()));
        check(json!({"type": "integer"}), " 12 ", Ok(Some(json!(12))));
        check(json!({"type": "number"}), "twelve", Err(()));
        check(json!({"type": "options", "options": ["red", "blue"]}), "BLUE", Ok(Some(json!("blue"))));
        check(json!({"type": "options", "options": ["red", "blue"]}), "1", Ok(Some(json!("red"))));
        check(json!({"type": "options", "options": ["red", "blue"]}), "0", Err(()));
        check(json!({"type": "line"}), "", Err(()));
        check(json!({"type": "line", "optional": true}), "", Ok(None));
        check(json!({"type": "line", "value": "preset"}), "", Ok(Some(json!("preset"))));
        check(json!("odd"), "text", Ok(Some(json!("text"))));
        let approval = || json!({"type": "approval", "options": ["approve", "deny", "edit"]});
        check(approval(), "a", Ok(Some(json!("approve"))));
        check(approval(), "yes", Ok(Some(json!("approve"))));
        check(approval(), "No", Ok(Some(json!("deny"))));
        check(
            approval(),
            "deny: not this one",
            Ok(Some(json!({"decision": "deny", "reason": "not this one"}))),
        );
        let edited = json!({"decision": "edit", "arguments": {"path": "b"}});
        check(approval(), "edit {\"path\": \"b\"}", Ok(Some(edited.clone())));
        check(approval(), &edited.to_string(), Ok(Some(edited)));
        for unclear in ["", "perhaps", "edit", "edit 5", "approve and more"] {
            check(approval(), unclear, Err(()));
        }
        check(json!({"type": "approval", "options": ["approve", "deny"]}), "edit {}", Err(()));
    }

    #[test]
    fn text_fields_keep_what_was_typed() {
        let fields = json!({"version": {"type": "line"}, "note": {"type": "paragraph"}, "n": {"type": "number"},
            "size": {"type": "options", "options": ["1.10", 2]}, "shared": {"type": "line"}});
        let form = waiting("A:1", &fields).form;
        let other = waiting("B:1", &json!({"shared": {"type": "number"}})).form;
        let pairs = ["version=1.10", "note=null", "n=1.10", "size=1.10", "shared=1.10", "free=1.10"];
        let pairs = pairs.map(str::to_owned);
        let parsed = json!({"version": 1.1, "note": null, "n": 1.1, "size": 1.1, "shared": 1.1, "free": 1.1});
        let mut inputs = parsed.as_object().unwrap().clone();
        keep_typed(&mut inputs, &pairs, &[form.clone(), other]);
        let expected = json!({"version": "1.10", "note": "null", "n": 1.1, "size": "1.10", "shared": 1.1,
            "free": 1.1});
        assert_eq!(Json::Object(inputs), expected);
        // Written as JSON, to be certain of the type.
        let json = json!({"version": "5", "note": {"value": "x"}});
        let mut inputs = json.as_object().unwrap().clone();
        keep_typed(&mut inputs, &["version=\"5\"".into(), "note={\"value\": \"x\"}".into()], &[form]);
        assert_eq!(Json::Object(inputs), json);
    }

    #[test]
    fn an_approval_shows_the_call() {
        let field = json!({"call_1": {"name": "Allow delete_file?", "type": "approval", "tool": "delete_file",
            "arguments": {"path": "a"}, "options": ["approve", "deny", "edit"], "optional": false}});
        let text = describe(&[waiting("A:1", &field)]);
        for part in
            ["call_1 (approve | deny | edit): Allow delete_file?", r#"delete_file {"path":"a"}"#, "decision"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let step = FrameStep { node: "It".into(), activation: 1, round: 1 };
        let round = |frame: &[FrameStep]| WaitingForm { frame: frame.into(), ..waiting("A:1", &field) };
        assert_eq!(flags(&[round(&[])]), " --input call_1=VALUE");
        assert_eq!(
            flags(&[round(&[]), round(&[step])]),
            r#" --input 'A:1={"call_1":"VALUE"}' --input 'A:1[1]={"call_1":"VALUE"}'"#
        );
    }

    #[test]
    fn the_suggested_flags_are_quoted_for_a_shell() {
        let go = json!({"go": {"type": "boolean"}, "any note": {"optional": true}});
        assert_eq!(flags(&[waiting("A:1", &go)]), " --input go=VALUE [--input 'any note=VALUE']");
        assert_eq!(
            flags(&[waiting("A:1", &json!({"go": {}})), waiting("B:2", &json!({"go": {}}))]),
            r#" --input 'A:1={"go":"VALUE"}' --input 'B:2={"go":"VALUE"}'"#
        );
        assert_eq!(flags(&[waiting("A:1", &json!({"a=b": {}}))]), r#" --input 'A:1={"a=b":"VALUE"}'"#);
        let text = describe(&[waiting("A:1", &go)]);
        assert_eq!(text, "`A:1` waits for a person:\n  Look:\n  - go (boolean)\n  - any note (optional)\n");
    }
}
