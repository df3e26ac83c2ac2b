//! Checks how the variables of a canvas are declared.

use weft_core::Json;
use weft_core::reference::is_name_char;
use weft_core::suggest::did_you_mean;
use weft_core::value::{kind_of, number, truth};

use crate::canvas::Canvas;
use crate::pointer::join;
use crate::problem::{Problem, ProblemList};
use crate::suggest::Suggester;

/// The names of the types; lists are also written as `array<string>`.
const TYPES: [&str; 9] =
    ["string", "secret", "password", "number", "integer", "float", "boolean", "object", "list"];

/// Reports types with misspelled names, and initial values of another type than the declared one.
pub(crate) fn check(canvas: &Canvas, suggester: &mut Suggester, problems: &mut ProblemList) {
    for (name, variable) in &canvas.variables {
        if !name.chars().all(|c| is_name_char(c) || matches!(c, '.' | '-')) {
            let message = format!("`env.{name}` cannot be referred to: a name has letters, digits and `_`");
            let plain: String = name.trim().chars().map(|c| if is_name_char(c) { c } else { '_' }).collect();
            let problem = Problem::warning("malformed-reference", &variable.pointer, message);
            problems.add(problem.help(format!("call it `{plain}`")));
        }
        let kind = variable.type_name();
        let known = TYPES.contains(&kind.as_str()) || kind.is_empty() || kind.starts_with("array");
        if !known {
            // Unknown types are otherwise not reported: other editors have some of their own.
            if let Some(meant) = suggester.misspelled(&kind, TYPES.into_iter().chain(["array"])) {
                let message = format!("`{}` is not a type: `env.{name}` starts as a text", variable.kind);
                let problem = Problem::warning("unknown-choice", join(&variable.pointer, "type"), message);
                problems.add(problem.help(did_you_mean(meant)));
            }
        } else if let Some(must) = mismatch(&kind, &variable.value) {
            // Only its type is named: the value may be a secret.
            let is = kind_of(&variable.value);
            let message =
                format!("`env.{name}` must be {must}, as its type `{}` says, and is {is}", variable.kind);
            let problem = Problem::warning("wrong-type", join(&variable.pointer, "value"), message);
            problems.add(problem.help("change the value or the type"));
        } else if let Some(OddItem { place, must, is }) = odd_item(&kind, &variable.initial()) {
            let message = format!(
                "item {place} of `env.{name}` must be {must}, as its type `{}` says, and is {is}",
                variable.kind
            );
            let problem = Problem::warning("wrong-type", join(&variable.pointer, "value"), message);
            problems.add(problem.help("change the item or the type"));
        }
    }
}

fn mismatch(kind: &str, value: &Json) -> Option<&'static str> {
    let parsed = |value: &Json| value.as_str().and_then(|text| serde_json::from_str::<Json>(text).ok());
    let blank = value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty());
    let (suits, must) = match kind {
        _ if blank => return None,
        "string" | "secret" | "password" => (!value.is_array() && !value.is_object(), "a text"),
        "number" | "integer" | "float" => (number(value).is_some(), "a number"),
        "boolean" => (truth(value).is_some(), "true or false"),
        "object" => (value.is_object() || parsed(value).is_some_and(|value| value.is_object()), "an object"),
        "" => return None,
        _ => (value.is_array() || parsed(value).is_some_and(|value| value.is_array()), "a list"),
    };
    (!suits).then_some(must)
}

/// An item of a list that does not suit the list's declared type.
struct OddItem {
    /// Its position, from 1.
    place: usize,
    /// What the type requires.
    must: &'static str,
    /// What it is.
    is: &'static str,
}

/// Returns the first item that does not suit the declared type of a list.
fn odd_item(kind: &str, list: &Json) -> Option<OddItem> {
    let of_items = item_kind(kind)?;
    let wrong = |item: &Json| mismatch(of_items, item);
    list.as_array()?
        .iter()
        .enumerate()
        .find_map(|(place, item)| Some(OddItem { place: place + 1, must: wrong(item)?, is: kind_of(item) }))
}

/// Returns the JSON Schema type of the items of a list that is declared as `array<string>` or the like.
pub(crate) fn item_kind(declared: &str) -> Option<&'static str> {
    match declared.strip_prefix("array<")?.strip_suffix('>')?.trim() {
        "string" => Some("string"),
        "number" | "integer" | "float" => Some("number"),
        "boolean" => Some("boolean"),
        "object" => Some("object"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_match_their_type() {
        let check = |kind: &str, value: Json, expected: Option<&str>| {
            assert_eq!(mismatch(kind, &value), expected, "{kind} {value}");
        };
        check("number", json!("2.5"), None);
        check("number", json!("two"), Some("a number"));
        check("boolean", json!("false"), None);
        check("boolean", json!(2), Some("true or false"));
        check("object", json!("{}"), None);
        check("object", json!([]), Some("an object"));
        check("array<string>", json!("a, b"), Some("a list"));
        check("array<string>", json!(""), None);
        check("string", json!(7), None);
        check("secret", json!({}), Some("a text"));
        check("", json!([]), None);
    }

    #[test]
    fn items_match_the_type_of_their_list() {
        let check = |kind: &str, list: Json, expected: Option<(usize, &str)>| {
            let found = odd_item(kind, &list).map(|odd| (odd.place, odd.must));
            assert_eq!(found, expected, "{kind} {list}");
        };
        check("array<number>", json!([1, "a"]), Some((2, "a number")));
        check("array<number>", json!([1, "2", null]), None);
        check("array<string>", json!(["a", 1]), None);
        check("array<string>", json!([["a"]]), Some((1, "a text")));
        check("array<object>", json!([{}, []]), Some((2, "an object")));
        check("array<file>", json!([1, "a"]), None);
        check("array", json!([1, "a"]), None);
    }
}
