//! Answers of services, read: what is not valid is an error in words.

use weft_core::seam::http::HttpResponse;
use weft_core::value::to_text;
use weft_core::{Error, ErrorKind, Json, Result};

/// The answer as JSON.
///
/// # Errors
/// `Garbled` when it is none.
pub fn json(answer: &HttpResponse) -> Result<Json> {
    serde_json::from_str(&answer.body).map_err(|cause| garbled("the answer is not JSON").because(cause))
}

/// The objects of the list at a JSON pointer.
///
/// # Errors
/// `Garbled` when there is no list.
pub fn rows(json: &Json, pointer: &str) -> Result<Vec<Json>> {
    rows_if_any(json, pointer)?.ok_or_else(|| garbled(&format!("the answer holds no list at `{pointer}`")))
}

/// The same of a list that is left out when it is empty.
///
/// # Errors
/// `Garbled` when something else is in its place.
pub fn rows_if_any(json: &Json, pointer: &str) -> Result<Option<Vec<Json>>> {
    match json.pointer(pointer) {
        None | Some(Json::Null) if json.is_object() => Ok(None),
        // What is no object has no members to read; one that is amiss must not take the others with it.
        Some(Json::Array(rows)) => Ok(Some(rows.iter().filter(|row| row.is_object()).cloned().collect())),
        _ => Err(garbled(&format!("the answer holds no list at `{pointer}`"))),
    }
}

/// The text at a JSON pointer; empty when there is nothing.
pub fn text(row: &Json, pointer: &str) -> String {
    match row.pointer(pointer) {
        None | Some(Json::Null) => String::new(),
        Some(Json::Array(items)) => items.iter().map(to_text).collect::<Vec<_>>().join(", "),
        Some(value) => to_text(value),
    }
}

/// Lines `Name: value` for what of a row has a value.
pub fn lines(row: &Json, names: &[(&str, &str)]) -> String {
    let named = names.iter().map(|(name, pointer)| (name, text(row, pointer)));
    let lines = named.filter(|(_, value)| !value.trim().is_empty());
    lines.map(|(name, value)| format!("{name}: {}", value.trim())).collect::<Vec<_>>().join("\n")
}

/// An answer that is not valid.
pub fn garbled(message: &str) -> Error {
    Error::new(ErrorKind::Garbled, message)
        .help("look whether `base_url`, if it is set, leads to the service")
}
