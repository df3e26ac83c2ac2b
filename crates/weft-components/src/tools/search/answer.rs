//! Reads the answers of services and turns invalid ones into errors with a message.

use weft_core::seam::http::HttpResponse;
use weft_core::value::to_text;
use weft_core::{Error, ErrorKind, Json, Result};

use crate::web::said;

/// Where services report failures in an answer with a success status.
const FAILURES: [&str; 3] = ["/error", "/errors/0", "/errors"];
/// Where they give the reason within it, the best message first.
const REASONS: [&str; 7] = ["/message", "/info", "/msg", "/detail", "/title", "/description", "/code"];

/// Parses the answer as JSON.
///
/// # Errors
/// `Garbled` when it is not JSON.
pub(crate) fn json(answer: &HttpResponse) -> Result<Json> {
    serde_json::from_str(&answer.body).map_err(|cause| garbled("the answer is not JSON").because(cause))
}

/// Returns the objects of the list at a JSON pointer.
///
/// # Errors
/// `Garbled` when there is no list.
pub(crate) fn rows(json: &Json, pointer: &str) -> Result<Vec<Json>> {
    rows_if_any(json, pointer)?.ok_or_else(|| garbled(&format!("the answer contains no list at `{pointer}`")))
}

/// Returns the objects of a list that may be left out when it is empty.
///
/// # Errors
/// `Unavailable` when there is no list and the service reports a failure, `Garbled` when something else is in its
/// place.
pub(crate) fn rows_if_any(json: &Json, pointer: &str) -> Result<Option<Vec<Json>>> {
    match json.pointer(pointer) {
        // Without this check, a service that is down would appear to have no results.
        None | Some(Json::Null) if json.is_object() => failure(json).map_or(Ok(None), Err),
        // An entry that is not an object has no members to read; it must not invalidate the others.
        Some(Json::Array(rows)) => Ok(Some(rows.iter().filter(|row| row.is_object()).cloned().collect())),
        _ => Err(garbled(&format!("the answer contains no list at `{pointer}`"))),
    }
}

/// Returns the failure that an answer reports, if any.
fn failure(json: &Json) -> Option<Error> {
    let is_said = |value: &&Json| match value {
        Json::Null => false,
        Json::Bool(is) => *is,
        Json::Number(code) => code.as_i64() != Some(0),
        Json::String(text) => !text.trim().is_empty(),
        Json::Array(items) => !items.is_empty(),
        Json::Object(members) => !members.is_empty(),
    };
    let told = FAILURES.iter().find_map(|place| json.pointer(place).filter(is_said))?;
    let reason = REASONS.iter().map(|place| text(told, place)).find(|text| !text.trim().is_empty());
    let reason = said(&reason.unwrap_or_else(|| to_text(told)));
    let error = Error::new(ErrorKind::Unavailable, format!("it says: {reason}"));
    Some(error.help("follow this message, or use another service"))
}

/// Returns the text at a JSON pointer; empty if there is none.
pub(crate) fn text(row: &Json, pointer: &str) -> String {
    match row.pointer(pointer) {
        None | Some(Json::Null) => String::new(),
        Some(Json::Array(items)) => items.iter().map(to_text).collect::<Vec<_>>().join(", "),
        Some(value) => to_text(value),
    }
}

/// Returns lines `Name: value` for the members of a row that have a value.
pub(crate) fn lines(row: &Json, names: &[(&str, &str)]) -> String {
    let named = names.iter().map(|(name, pointer)| (name, text(row, pointer)));
    let lines = named.filter(|(_, value)| !value.trim().is_empty());
    lines.map(|(name, value)| format!("{name}: {}", value.trim())).collect::<Vec<_>>().join("\n")
}

/// Returns the error for an invalid answer.
pub(crate) fn garbled(message: &str) -> Error {
    Error::new(ErrorKind::Garbled, message)
        .help("check that `base_url`, if set, is the address of the service")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_without_a_list_may_be_a_failure() {
        let check = |json: Json, expected: Option<&str>| {
            let told = rows_if_any(&json, "/results").map(|rows| rows.is_none());
            match (told, expected) {
                (Ok(is_none), None) => assert!(is_none, "{json}"),
                (Err(error), Some(words)) => {
                    assert!(error.kind == ErrorKind::Unavailable && error.help.is_some(), "{json}");
                    assert_eq!(error.message, format!("it says: {words}"), "{json}");
                }
                (told, _) => panic!("{json}: {told:?}"),
            }
        };
        for nothing in [json!({}), json!({"error": null}), json!({"error": ""}), json!({"error": false})] {
            check(nothing, None);
        }
        check(json!({"errors": [], "error": {}}), None);
        check(json!({"error": "the index is gone"}), Some("the index is gone"));
        check(json!({"error": {"code": 401, "message": "no\nkey"}, "results": null}), Some("no key"));
        check(json!({"errors": [{"code": "InsufficientAuthorization"}]}), Some("InsufficientAuthorization"));
        check(json!({"error": true}), Some(&to_text(&json!(true))));
        let found = rows_if_any(&json!({"error": "slow", "results": [{}]}), "/results").unwrap();
        assert_eq!(found.unwrap().len(), 1, "found results count");
        assert!(rows(&json!({"error": "down"}), "/results").unwrap_err().message.contains("down"));
    }
}
