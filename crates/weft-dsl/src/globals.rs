//! What `sys.*` and `env.*` are when a session begins.

use indexmap::IndexMap;
use serde_json::{Map, json};
use weft_core::Json;
use weft_core::budget::Spent;
use weft_core::usage::{RUN_USAGE, run_usage};
use weft_core::value::truth;

use crate::references::prefixes;

/// A declared `env.*` value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EnvVariable {
    /// `string`, `secret`, `number`, `boolean`, `object` or `array<…>`; may be empty.
    pub kind: String,
    /// The declared value; null for none.
    pub value: Json,
    /// What it is for.
    pub description: String,
    /// Where it is declared: a JSON pointer into the document.
    pub pointer: String,
}

impl EnvVariable {
    /// Whether its type says that nobody may see it.
    pub fn is_secret(&self) -> bool {
        matches!(self.kind.to_lowercase().as_str(), "secret" | "password")
    }

    /// The declared value, or the empty value of its type.
    pub fn initial(&self) -> Json {
        match (&self.value, self.kind.to_lowercase().as_str()) {
            (Json::Null, "number" | "integer" | "float") => json!(0),
            (Json::Null, "boolean") => json!(false),
            (Json::Null, "object") => json!({}),
            (Json::Null, kind) if kind.starts_with("array") || kind == "list" => json!([]),
            (Json::Null, _) => json!(""),
            // What is not of the type stays as it is: the check has told of it, and a text is better than
            // nothing.
            (Json::String(text), kind) => typed(text, kind).unwrap_or_else(|| self.value.clone()),
            (value, _) => value.clone(),
        }
    }
}

/// What a text is as a value of a type that is none for texts; editors have one field for all of them.
fn typed(text: &str, kind: &str) -> Option<Json> {
    let suits: fn(&Json) -> bool = match kind {
        "number" | "integer" | "float" => Json::is_number,
        "boolean" => return truth(&Json::from(text)).map(Json::Bool),
        "object" => Json::is_object,
        kind if kind.starts_with("array") || kind == "list" => Json::is_array,
        _ => return None,
    };
    serde_json::from_str(text.trim()).ok().filter(suits)
}

/// The globals that every session has: name and first value. `sys.date` and `sys.run_id` are set at every run,
/// and `sys.usage` grows with it.
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

/// The globals of a new session. What a file holds of its last run does not count: `sys.*` is
/// emptied, a declared variable has its declared value; an undeclared `env.*` keeps what the file says.
pub(crate) fn initial(
    written: &Map<String, Json>,
    variables: &IndexMap<String, EnvVariable>,
) -> Map<String, Json> {
    let mut globals: Map<String, Json> =
        system().map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
    for (name, value) in written {
        if name.starts_with("sys.") {
            // A name that is not known here may be what a text of the
            // canvas refers to: it stays, with nothing in it.
            globals.entry(name).or_insert_with(|| emptied(value));
        } else {
            globals.insert(name.clone(), value.clone());
        }
    }
    for (name, variable) in variables {
        // After what the file says: a declaration is what an author wrote, the rest is left over from a run.
        globals.insert(format!("env.{name}"), variable.initial());
    }
    globals
}

/// Whether `name`, or the value it leads into (`env.settings.city`), exists.
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
    fn a_session_begins_with_declared_and_empty_values() {
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
