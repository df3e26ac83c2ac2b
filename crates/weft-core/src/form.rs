//! Checks whether a value that a person fills in suits the field of a form.

use crate::exact::is_lost;
use crate::seam::file_store::named_in;
use crate::value::{self, Json, described, number, to_text, truth, whole};

/// Returns what is wrong with a value for a field with this description, as a sentence fragment that follows the
/// field's name; `None` if it is valid. Missing values are not checked. Neither are decisions about the work of an
/// agent: the code that requests those asks again if an answer is unclear.
pub fn problem(description: &Json, value: &Json) -> Option<String> {
    let kind = kind_of(description);
    let optional = description.get("optional").and_then(truth).unwrap_or(false);
    // Pages send an empty text for a field that was not filled in.
    let empty = value.is_null() || optional && value.as_str().is_some_and(str::is_empty);
    let nothing = |value: &Json| value.as_array().is_some_and(Vec::is_empty) || value.as_str() == Some("");
    if empty || matches!(kind.as_str(), "approval" | "plan_review" | "credential") {
        return None;
    }
    if takes_files(description) {
        // Files are read before anything starts; an unread one would end up in a prompt verbatim.
        let refused = "must be a file: the response of an upload, a data URI, or a list of these";
        return (!nothing(value) && !is_read(value)).then(|| refused.to_owned());
    }
    let must = |what: &str| Some(format!("must be {what}, and is {}", described(value)));
    match kind.as_str() {
        "boolean" if truth(value).is_none() => return must("true or false"),
        "integer" if !is_whole(value) => return must("a whole number"),
        "number" | "float" if number(value).is_none() => return must("a number"),
        // Numbers and booleans have a text form and are accepted as texts.
        "line" | "paragraph" | "text" | "string" if value.is_array() || value.is_object() => {
            return must("a text");
        }
        "object" if !is_object(value) => return must("an object"),
        _ => {}
    }
    let options =
        description.get("options").and_then(Json::as_array).filter(|options| !options.is_empty())?;
    let offered: Vec<String> = options.iter().map(|option| to_text(meant(option))).collect();
    // Compared as texts: a page sends the option 3 as the text `3`.
    if offered.contains(&to_text(value)) {
        return None;
    }
    must(&format!("one of {}", listed(&offered)))
}

/// Returns whether a text that was entered for a field is its value as it stands, even if it looks like a number: a
/// version 1.10 is not 1.1.
pub fn keeps_text(description: &Json, entered: &str) -> bool {
    let options = description.get("options").and_then(Json::as_array).into_iter().flatten();
    match kind_of(description).as_str() {
        "line" | "paragraph" | "text" | "string" => true,
        // An option may also be a number.
        "options" => options.map(meant).any(|option| option.as_str() == Some(entered)),
        _ => false,
    }
}

/// Returns whether a field with this description takes files.
pub fn takes_files(description: &Json) -> bool {
    kind_of(description).contains("file")
}

fn kind_of(description: &Json) -> String {
    let kind = description.get("type").and_then(Json::as_str).unwrap_or_default();
    // Editors write field types in either case.
    kind.trim().to_ascii_lowercase()
}

/// Returns whether a value is a file that has been read: a picture, a text that names its file, or a list of these.
fn is_read(value: &Json) -> bool {
    match value {
        Json::Array(items) => items.iter().all(is_read),
        Json::String(text) => text.starts_with("data:image/") || named_in(text).is_some(),
        _ => false,
    }
}

/// An option is either its value, or an object with a value and a label.
fn meant(option: &Json) -> &Json {
    option.get("value").unwrap_or(option)
}

/// Returns whether a value is a whole number. Of one with many digits, such as an id, only its text has all of them.
fn is_whole(value: &Json) -> bool {
    let is_long = |text: &str| text.parse::<i128>().is_ok() || is_lost(text);
    number(value).and_then(whole).is_some()
        || value.is_i64()
        || value.is_u64()
        || value.as_str().is_some_and(|text| is_long(text.trim()))
}

fn is_object(value: &Json) -> bool {
    let parsed = |text: &str| serde_json::from_str::<Json>(text).is_ok_and(|value| value.is_object());
    value.is_object() || value.as_str().is_some_and(parsed)
}

fn listed(options: &[String]) -> String {
    // The message is for people: hundreds of options would hide the problem.
    const NAMED_MAX: usize = 20;
    let more = if options.len() > NAMED_MAX { ", …" } else { "" };
    format!("{}{more}", value::listed(options.iter().take(NAMED_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_match_the_type_of_their_field() {
        let check = |kind: &str, good: &[Json], bad: &[Json]| {
            let field = json!({"type": kind});
            for value in good {
                assert_eq!(problem(&field, value), None, "{kind} {value}");
            }
            for value in bad {
                assert!(problem(&field, value).is_some(), "{kind} {value}");
            }
        };
        check(
            "integer",
            &[json!(3), json!("-3"), json!(2.0), Json::Null],
            &[json!(1.5), json!("x"), json!(""), json!(true)],
        );
        check(" Integer ", &[json!(3)], &[json!("x")]);
        // Whole numbers that a float does not represent.
        let long = [json!(u64::MAX), json!(i64::MIN), json!("9007199254740993"), json!("1".repeat(50))];
        check("integer", &long, &[json!(1e300), json!("1".repeat(50) + ".5")]);
        check("number", &[json!(1.5), json!(" 2 ")], &[json!("two"), json!([1]), json!({})]);
        check("boolean", &[json!(true), json!("False")], &[json!("yes"), json!(2), json!("")]);
        check("line", &[json!("x"), json!(""), json!(3), json!(true)], &[json!(["x"]), json!({"x": 1})]);
        check("paragraph", &[json!("x\ny")], &[json!([])]);
        check("object", &[json!({}), json!("{\"a\": 1}")], &[json!("a"), json!([1]), json!(1)]);
        check(
            "file",
            &[
                json!(""),
                json!([]),
                Json::Null,
                json!("data:image/png;base64,AA"),
                json!(["File: a.txt (5f)\n\nx"]),
            ],
            &[json!("data:,"), json!({"id": "1"}), json!(["a"])],
        );
        check("", &[json!("x"), json!([1])], &[]);
        check("approval", &[json!("approve"), json!({"decision": "edit"})], &[]);
    }

    #[test]
    fn fields_of_texts_keep_what_was_entered() {
        for kind in ["line", "Paragraph", " text ", "string"] {
            assert!(keeps_text(&json!({"type": kind}), "1.10"), "{kind}");
        }
        for kind in ["integer", "number", "float", "boolean", "object", "file", "approval", ""] {
            assert!(!keeps_text(&json!({"type": kind}), "1.10"), "{kind}");
        }
        let options = json!({"type": "options", "options": ["1.10", 2, {"label": "Three", "value": "3"}]});
        let kept = ["1.10", "1.1", "2", "3"].map(|entered| keeps_text(&options, entered));
        assert_eq!(kept, [true, false, false, true]);
    }

    #[test]
    fn values_are_among_the_options() {
        let field = json!({"type": "options", "options": ["red", 2, {"label": "Green", "value": "g"}]});
        for good in [json!("red"), json!(2), json!("2"), json!("g"), Json::Null] {
            assert_eq!(problem(&field, &good), None, "{good}");
        }
        for bad in [json!("Red"), json!("Green"), json!(""), json!(["red"]), json!(3)] {
            let problem = problem(&field, &bad).unwrap();
            assert!(problem.starts_with("must be one of `red`, `2`, `g`, and is "), "{problem}");
        }
        assert_eq!(problem(&json!({"type": "options", "options": []}), &json!("any")), None);
        for flag in [json!(true), json!("true"), json!(1)] {
            let optional = json!({"type": "options", "options": ["a"], "optional": flag});
            assert_eq!(problem(&optional, &json!("")), None, "{optional}");
        }
    }
}
