//! Finds the DSL in a document: the document itself, a DSL wrapped by an editor or an API, or a drawing alone.

use serde_json::{Map, json};
use weft_core::Json;
use weft_core::suggest::{did_you_mean, misspelled};
use weft_core::value::kind_of;

use crate::pointer::join;
use crate::problem::Problem;

/// Maximum number of objects and lists around a DSL: a response, its data, a page of rows, a row.
// The search visits every value on its way, and a text inside a canvas that looks like a DSL is not meant.
const AROUND_MAX: usize = 5;

/// Maximum number of canvases named in an error when there are several.
const NAMED_MAX: usize = 3;

/// What surrounds the DSL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// JSON pointer to the DSL in the document.
    pub pointer: String,
    /// How it is written there.
    pub form: Form,
}

/// How a DSL is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As an object with `components` or `graph`.
    Object,
    /// As JSON inside a string.
    Text,
    /// As the content of `graph`: editors export the drawing alone.
    Drawing,
}

impl Container {
    /// Returns the JSON pointer to the components.
    pub fn components(&self) -> String {
        join(&self.pointer, "components")
    }

    /// Returns the JSON pointer to the drawing.
    pub fn graph(&self) -> String {
        match self.form {
            Form::Drawing => self.pointer.clone(),
            Form::Object | Form::Text => join(&self.pointer, "graph"),
        }
    }
}

/// A DSL that was found, with its value where that is not a part of the document itself.
pub type Found = (Container, Option<Json>);

/// Finds the DSL.
///
/// # Errors
/// When there is none, or when it is ambiguous which one is meant.
pub fn find(document: &Json) -> Result<Found, Vec<Problem>> {
    let mut found = Vec::new();
    search(document, "", AROUND_MAX, &mut found);
    match found.as_slice() {
        [(first, _), (second, _), more @ ..] => Err(vec![several(first, second, more)]),
        _ => found.pop().ok_or_else(|| vec![nothing_there(document)]),
    }
}

fn search(value: &Json, pointer: &str, around: usize, found: &mut Vec<Found>) {
    let before = found.len();
    if let Some(dsl) = value.get("dsl") {
        let pointer = join(pointer, "dsl");
        match dsl {
            // Beside `components`, a text of this name is some other property of the canvas.
            Json::String(text) if value.get("components").is_none() => found.extend(in_text(text, pointer)),
            dsl if around > 0 => search(dsl, &pointer, around - 1, found),
            _ => {}
        }
        // The DSL under `dsl` is meant, not what stands beside it.
        if found.len() > before {
            return;
        }
    }
    if let Some(form) = form(value) {
        let made = (form == Form::Drawing).then(|| drawn(value));
        found.push((Container { pointer: pointer.to_owned(), form }, made));
        return;
    }
    // More than one is an error in any case; the others need not be found.
    if around == 0 || found.len() > NAMED_MAX {
        return;
    }
    match value {
        Json::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                search(item, &join(pointer, place), around - 1, found);
            }
        }
        Json::Object(members) => {
            for (key, member) in members.iter().filter(|(key, _)| *key != "dsl") {
                search(member, &join(pointer, key), around - 1, found);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

fn in_text(text: &str, pointer: String) -> Option<Found> {
    let dsl: Json = serde_json::from_str(text).ok()?;
    let dsl = match form(&dsl)? {
        Form::Drawing => drawn(&dsl),
        Form::Object | Form::Text => dsl,
    };
    Some((Container { pointer, form: Form::Text }, Some(dsl)))
}

fn form(value: &Json) -> Option<Form> {
    let is = |key: &str, suits: fn(&Json) -> bool| value.get(key).is_some_and(suits);
    if is("components", Json::is_object) || is("graph", Json::is_object) {
        Some(Form::Object)
    } else {
        // Both are required: a list called `nodes` alone may hold anything.
        (is("nodes", Json::is_array) && is("edges", Json::is_array)).then_some(Form::Drawing)
    }
}

/// Builds the DSL around a drawing that stands alone; everything beside it is kept.
fn drawn(value: &Json) -> Json {
    let mut dsl = value.as_object().cloned().unwrap_or_default();
    let mut graph = Map::new();
    for key in ["nodes", "edges"] {
        graph.extend(dsl.remove(key).map(|part| (key.to_owned(), part)));
    }
    dsl.insert("graph".to_owned(), json!(graph));
    Json::Object(dsl)
}

fn several(first: &Container, second: &Container, more: &[Found]) -> Problem {
    let shown = |at: &Container| if at.pointer.is_empty() { "/".to_owned() } else { at.pointer.clone() };
    let more = if more.is_empty() { "" } else { " and elsewhere" };
    let message = format!("there is more than one canvas: at {}, at {}{more}", shown(first), shown(second));
    Problem::error("several-canvases", &second.pointer, message).help("keep one of them in the file")
}

fn nothing_there(document: &Json) -> Problem {
    let Some(object) = document.as_object() else {
        let message = format!("a canvas is a JSON object, but this is {}", kind_of(document));
        return Problem::error("not-an-object", "", message);
    };
    if let Some(Json::String(text)) = object.get("dsl").filter(|_| !object.contains_key("components"))
        && let Err(error) = serde_json::from_str::<Json>(text)
    {
        return Problem::error("not-json", "/dsl", format!("the text under `dsl` is not JSON: {error}"));
    }
    let usual = ["components", "graph"];
    let (pointer, object) = match object.get("dsl") {
        Some(dsl) if !usual.iter().any(|half| object.contains_key(*half)) => {
            ("/dsl", dsl.as_object().unwrap_or(object))
        }
        _ => ("", object),
    };
    let help = "a canvas is the exported JSON of an agent: the DSL itself, an object with the DSL under `dsl`, \
                or a drawing of `nodes` and `edges`";
    let other = usual.iter().find_map(|half| Some((half, object.get(*half)?)));
    if let Some((half, value)) = other.filter(|(_, value)| !value.is_object()) {
        let message = format!("`{half}` must be an object, but this is {}", kind_of(value));
        return Problem::error("no-components", join(pointer, half), message).help(help);
    }
    let message = "there is neither an object `components` nor an object `graph`";
    let slip = object.keys().find_map(|key| misspelled(key, usual));
    Problem::error("no-components", pointer, message).help(help).maybe_help(slip.map(did_you_mean))
}
