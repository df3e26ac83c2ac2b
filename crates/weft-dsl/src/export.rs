//! Exports a canvas for sharing: as drawn, without secrets and without what its runs have left in it.

use std::collections::BTreeSet;

use serde_json::{Map, json};
use weft_core::masking::MASK;
use weft_core::reference::Names;
use weft_core::{Json, Template};

use crate::canvas::Canvas;
use crate::globals;
use crate::pointer::join;
use crate::secrets;

/// Parts of a DSL that hold conversations and search results, and no part of the drawing.
// The last two occur in older files: the answer, and the passages that it was based on.
const LEFT_BY_RUNS: [&str; 7] = ["history", "path", "retrieval", "messages", "memory", "answer", "reference"];
/// Maximum nesting depth of JSON within texts within JSON.
// Headers are JSON in a text, which may contain another one. Each level is parsed and written again.
const TEXTS_DEEP_MAX: usize = 3;

/// A canvas that may be shared.
#[derive(Clone, Debug, PartialEq)]
pub struct Export {
    /// The DSL.
    pub dsl: Json,
    /// JSON pointers into the DSL to the places where secrets were removed.
    pub stripped: Vec<String>,
    /// The secrets that it names and that its recipient has to provide.
    pub secrets: Vec<String>,
}

/// Exports a canvas.
pub fn export(canvas: &Canvas) -> Export {
    // Without the surrounding document: an API response contains names of people and tenants.
    let mut dsl = canvas.dsl().clone();
    if let Json::Object(members) = &mut dsl {
        for part in LEFT_BY_RUNS {
            if let Some(part) = members.get_mut(part) {
                *part = json!([]);
            }
        }
        // Values of the last run may contain what a person has typed.
        if members.contains_key("globals") {
            let initial = globals::initial(&canvas.globals, &canvas.variables);
            members.insert("globals".to_owned(), Json::Object(initial));
        }
    }
    let ids = canvas.nodes.keys().cloned().collect();
    let names = Names { components: &ids, item: None };
    let mut strip = Strip { names, stripped: Vec::new() };
    // First of all: whether a variable is secret depends on its type, which the walk over the values does not see.
    strip.variables(canvas, &mut dsl);
    strip.value("", "", &mut dsl, TEXTS_DEEP_MAX);
    let stripped = strip.stripped;
    let mut secrets = BTreeSet::new();
    named(&dsl, names, &mut secrets);
    Export { dsl, stripped, secrets: secrets.into_iter().collect() }
}

/// Returns the secrets that a canvas names.
pub fn secrets_named(canvas: &Canvas) -> Vec<String> {
    let ids = canvas.nodes.keys().cloned().collect();
    let mut secrets = BTreeSet::new();
    named(canvas.dsl(), Names { components: &ids, item: None }, &mut secrets);
    secrets.into_iter().collect()
}

struct Strip<'a> {
    names: Names<'a>,
    stripped: Vec<String>,
}

impl Strip<'_> {
    /// Removes the values of variables that are secret by their type or name, both where they are declared
    /// and where a run has left them.
    fn variables(&mut self, canvas: &Canvas, dsl: &mut Json) {
        for (name, variable) in &canvas.variables {
            let told = secrets::in_variable(name, &variable.value, self.names).is_some();
            if !(variable.is_secret() || told) {
                continue;
            }
            // Addressed by its declaration: variables are written as an object or as a list.
            let declared = variable.pointer.strip_prefix(&canvas.container.pointer).unwrap_or_default();
            let places = [join(declared, "value"), join("/globals", format!("env.{name}"))];
            for place in places {
                if let Some(value) = dsl.pointer_mut(&place) {
                    self.empty(&place, value);
                }
            }
        }
    }

    fn empty(&mut self, pointer: &str, value: &mut Json) {
        // A value that was empty anyway is not listed as a secret that the recipient has to provide.
        if !matches!(value, Json::Null) && value.as_str() != Some("") {
            *value = json!("");
            self.stripped.push(pointer.to_owned());
        }
    }

    fn value(&mut self, key: &str, pointer: &str, value: &mut Json, deep: usize) {
        match value {
            Json::String(text) => {
                if secrets::names_a_secret(key) && secrets::is_literal(text, self.names) {
                    self.empty(pointer, value);
                } else if let Some(cleaned) = self.text(text, deep) {
                    *value = Json::String(cleaned);
                    self.stripped.push(pointer.to_owned());
                }
            }
            Json::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.value(key, &join(pointer, index), item, deep);
                }
            }
            Json::Object(members) => self.members(pointer, members, deep),
            // A PIN or a numeric password may be written as a number.
            Json::Number(_) if secrets::names_a_secret(key) => self.empty(pointer, value),
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }

    fn members(&mut self, pointer: &str, members: &mut Map<String, Json>, deep: usize) {
        // Headers and variables may also be written as lists of names and values.
        let pair = ["key", "name"].iter().find_map(|key| members.get(*key)?.as_str()).map(str::to_owned);
        for (key, value) in members {
            let place = join(pointer, key);
            let named = pair.as_deref().filter(|_| key == "value").unwrap_or(key);
            self.value(named, &place, value, deep);
        }
    }

    /// Returns a text without the keys that it contains, or `None` if it contains none. The text may itself
    /// be JSON, such as that of headers.
    fn text(&self, text: &str, deep: usize) -> Option<String> {
        if deep > 0
            && text.trim_start().starts_with(['{', '['])
            && let Ok(mut json) = serde_json::from_str::<Json>(text)
        {
            let mut within = Strip { names: self.names, stripped: Vec::new() };
            within.value("", "", &mut json, deep - 1);
            // A text without a secret stays as written, including its whitespace.
            return (!within.stripped.is_empty()).then(|| json.to_string());
        }
        secrets::without_keys(text, MASK)
    }
}

fn named(value: &Json, names: Names<'_>, found: &mut BTreeSet<String>) {
    match value {
        Json::String(text) => {
            let template = Template::parse(text, names);
            found.extend(template.references().filter_map(|name| name.secret()).map(str::to_owned));
        }
        Json::Array(items) => items.iter().for_each(|item| named(item, names, found)),
        Json::Object(members) => members.values().for_each(|item| named(item, names, found)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_has_no_secrets_and_no_run_data() {
        let key = "sk-abcdefghijklmnop1234";
        let params = json!({
            "api_key": "rosebud-0815", "max_tokens": "4096", "smtp": {"password": "{secret.SMTP}"},
            "headers": format!("{{\"Authorization\": \"Basic cm9zZWJ1ZA==\", \"Accept\": \"text/plain\"}}"),
            "list": [{"key": "Authorization", "value": "Basic cm9zZWJ1ZA=="}, {"key": "Accept", "value": "text/html"}],
            "login": {"password": 47_110_815},
            "prompt": format!("use {key}, or {{secret.OTHER}}, not task-forces"),
        });
        let dsl = json!({
            "components": {"A:x": {"obj": {"component_name": "Invoke", "params": params}, "downstream": []}},
            "graph": {"nodes": [{"id": "A:x", "data": {"form": params}}]},
            "variables": {"pin": {"type": "secret", "value": "4711-0815"}, "city": {"type": "string", "value": "Ulm"}},
            "globals": {"sys.query": "who am I", "env.pin": "4711-0815", "env.city": "Bonn"},
            "history": [["user", "who am I"]], "path": ["A:x"], "retrieval": [{"chunks": {}}], "messages": [1],
            "memory": [["who am I", "you", "a question"]], "answer": ["who am I"],
            "reference": [{"chunks": [{"content": "who am I"}]}],
        });
        let canvas = crate::load(dsl.to_string().as_bytes()).unwrap();
        let export = export(&canvas);
        let text = export.dsl.to_string();
        for gone in ["rosebud", "4711", "cm9z", key, "who am I", "Bonn"] {
            assert!(!text.contains(gone), "{gone} in {text}");
        }
        let params = &export.dsl["components"]["A:x"]["obj"]["params"];
        assert_eq!(params["prompt"], "use ***, or {secret.OTHER}, not task-forces");
        assert_eq!(params["smtp"]["password"], "{secret.SMTP}");
        assert_eq!(params["max_tokens"], "4096");
        assert!(params["headers"].as_str().unwrap().contains("text/plain"));
        assert_eq!(
            (&params["list"][0]["value"], &params["list"][1]["value"]),
            (&json!(""), &json!("text/html"))
        );
        assert_eq!(export.dsl["globals"]["env.city"], "Ulm");
        assert_eq!(export.secrets, ["OTHER", "SMTP"]);
        assert!(
            export.stripped.contains(&"/components/A:x/obj/params/api_key".to_owned()),
            "{:?}",
            export.stripped
        );
        let listed = json!({"dsl": {"components": dsl["components"],
            "variables": [{"name": "city", "value": "Ulm"}, {"name": "login", "type": "secret", "value": "0815-4711"}]}});
        let listed = super::export(&crate::load(listed.to_string().as_bytes()).unwrap());
        assert_eq!(listed.dsl["variables"][1], json!({"name": "login", "type": "secret", "value": ""}));
        assert_eq!(listed.dsl["variables"][0]["value"], "Ulm");
        assert!(listed.stripped.contains(&"/variables/1/value".to_owned()), "{:?}", listed.stripped);
        // An export can be read, and exporting it again changes nothing.
        let again = crate::load(text.as_bytes()).unwrap();
        assert_eq!(super::export(&again).dsl, export.dsl);
        assert_eq!(super::export(&again).stripped, [""; 0]);
    }
}
