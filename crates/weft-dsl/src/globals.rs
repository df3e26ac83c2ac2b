//! The values of `sys.*` and `env.*` when a session begins.

use indexmap::IndexMap;
use serde_json::{Map, json};
use weft_core::Json;
use weft_core::budget::Spent;
use weft_core::exact::kept;
use weft_core::usage::{RUN_USAGE, run_usage};
use weft_core::value::truth;

use crate::paths::prefixes;

/// A declared `env.*` value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EnvVariable {
    /// `string`, `secret`, `number`, `boolean`, `object` or `array<…>`; may be empty.
    pub kind: String,
    /// The declared value; null if there is none.
    pub value: Json,
    /// What it is for, in the author's words.
    pub description: String,
    /// JSON pointer to its declaration in the document.
    pub pointer: String,
}

impl EnvVariable {
    /// Returns its type in the spelling that is compared.
    pub(crate) fn type_name(&self) -> String {
        self.kind.trim().to_lowercase()
    }

    /// Whether its type marks it as secret.
    pub fn is_secret(&self) -> bool {
        matches!(self.type_name().as_str(), "secret" | "password")
    }

    /// Returns the declared value, or the empty value of its type.
    pub fn initial(&self) -> Json {
        match (&self.value, self.type_name().as_str()) {
            (Json::Null, "number" | "integer" | "float") => json!(0),
            (Json::Null, "boolean") => json!(false),
            (Json::Null, "object") => json!({}),
            (Json::Null, kind) if kind.starts_with("array") || kind == "list" => json!([]),
            (Json::Null, _) => json!(""),
            // A value of the wrong type is kept: the check has reported it, and a text is better than nothing.
            (Json::String(text), kind) => typed(text, kind).unwrap_or_else(|| self.value.clone()),
            (value, _) => value.clone(),
        }
    }
}

/// Converts a text to a value of a type other than text; editors use one text field for all types.
fn typed(text: &str, kind: &str) -> Option<Json> {
    let suits: fn(&Json) -> bool = match kind {
        "number" | "integer" | "float" => Json::is_number,
        "boolean" => return truth(&Json::from(text)).map(Json::Bool),
        "object" => Json::is_object,
        kind if kind.starts_with("array") || kind == "list" => Json::is_array,
        _ => return None,
    };
    // An integer with more digits than a number can hold stays the text that it is.
    serde_json::from_str(&kept(text.trim())).ok().filter(suits)
}

/// The globals that every session has, with their initial values. `sys.date` and `sys.run_id` are set for
/// every run, and `sys.usage` grows during the run.
pub(crate) fn system() -> [(&'static str, Json); 9] {
    [
        ("sys.query", json!("")),
        ("sys.user_id", json!("")),
        ("sys.conversation_turns", json!(0)),
        ("sys.files", json!([])),
        ("sys.history", json!([])),
        ("sys.date", json!("")),
        ("sys.run_id", json!("")),
        (RUN_USAGE, run_usage(Spent::default())),
        ("sys.chat_template_kwargs", json!({})),
    ]
}

/// Returns the globals of a new session. What a file keeps of its last run does not count: `sys.*` are
/// emptied, and declared variables get their declared values; an undeclared `env.*` keeps the value in the
/// file.
pub(crate) fn initial(
    written: &Map<String, Json>,
    variables: &IndexMap<String, EnvVariable>,
) -> Map<String, Json> {
    let mut globals: Map<String, Json> =
        system().map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
    for (name, value) in written {
        if name.starts_with("sys.") {
            // A name that is not known here may still be referred to by a text of the canvas: it is kept, but
            // emptied.
            globals.entry(name).or_insert_with(|| emptied(value));
        } else {
            globals.insert(name.clone(), value.clone());
        }
    }
    for (name, variable) in variables {
        // After the values in the file: a declaration was written by an author, the rest is left over from a run.
        globals.insert(format!("env.{name}"), variable.initial());
    }
    globals
}

/// Whether `name` exists, or the value that it is a path into (`env.settings.city`).
pub(crate) fn knows(globals: &Map<String, Json>, name: &str) -> bool {
    globals.contains_key(name) || prefixes(name).any(|prefix| globals.contains_key(prefix))
}

fn emptied(value: &Json) -> Json {
    match value {
        Json::Null => Json::Null,
        Json::Bool(_) => json!(false),
        Json::Number(_) => json!(0),
        Json::String(_) => json!(""),
        Json::Array(_) => json!([]),
        Json::Object(_) => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_starts_with_declared_and_empty_values() {
        let written = json!({"sys.query": "old", "sys.extra": ["x"], "env.free": 7, "env.city": "old"});
        let declare =
            |kind: &str, value: Json| EnvVariable { kind: kind.into(), value, ..EnvVariable::default() };
        let variables = IndexMap::from_iter([
            ("city".to_owned(), declare("string", json!("Ulm"))),
            ("off".to_owned(), declare("boolean", json!(false))),
            ("n".to_owned(), declare("number", Json::Null)),
            ("list".to_owned(), declare("array<string>", Json::Null)),
            ("o".to_owned(), declare("object", Json::Null)),
            ("s".to_owned(), declare("", Json::Null)),
            ("texts".to_owned(), declare("array<string>", json!(" [\"x\"]"))),
            ("one".to_owned(), declare("number", json!("1"))),
            ("on".to_owned(), declare("Boolean", json!("True"))),
            ("members".to_owned(), declare("object", json!("{\"a\": 1}"))),
            ("odd".to_owned(), declare("object", json!("[1]"))),
            ("text".to_owned(), declare("string", json!("[1]"))),
        ]);
        let globals = initial(written.as_object().unwrap(), &variables);
        let expected = json!({
            "sys.query": "", "sys.user_id": "", "sys.conversation_turns": 0, "sys.files": [], "sys.history": [],
            "sys.date": "", "sys.run_id": "", "sys.usage": {"model_calls": 0, "tool_calls": 0, "total_tokens": 0, "money": 0.0},
            "sys.chat_template_kwargs": {}, "sys.extra": [], "env.free": 7, "env.city": "Ulm",
            "env.off": false, "env.n": 0, "env.list": [], "env.o": {}, "env.s": "",
            "env.texts": ["x"], "env.one": 1, "env.on": true, "env.members": {"a": 1}, "env.odd": "[1]", "env.text": "[1]"
        });
        assert_eq!(Json::Object(globals.clone()), expected);
        for (name, known) in [("env.o.a.b", true), ("sys.files.0", true), ("env", false), ("env.cit", false)]
        {
            assert_eq!(knows(&globals, name), known, "{name}");
        }
    }
}
