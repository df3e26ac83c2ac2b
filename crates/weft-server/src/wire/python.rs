//! Values in the format of the compatible API's messages, which is that of Python.

use std::fmt::Write as _;

use serde_json::Value as Json;

/// Formats a value by itself: a string without quotation marks.
pub(crate) fn shown(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => quoted(other),
    }
}

/// Formats a value within a list or an object.
pub(crate) fn quoted(value: &Json) -> String {
    match value {
        Json::Null => "None".to_owned(),
        Json::Bool(true) => "True".to_owned(),
        Json::Bool(false) => "False".to_owned(),
        Json::Number(number) => number.to_string(),
        Json::String(text) => quoted_text(text),
        Json::Array(list) => format!("[{}]", list.iter().map(quoted).collect::<Vec<_>>().join(", ")),
        Json::Object(map) => {
            let pairs: Vec<_> =
                map.iter().map(|(key, value)| format!("{}: {}", quoted_text(key), quoted(value))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
    }
}

/// Formats a list of strings: `['a', 'b']`.
pub(crate) fn list<T: AsRef<str>>(texts: &[T]) -> String {
    format!("[{}]", texts.iter().map(|text| quoted_text(text.as_ref())).collect::<Vec<_>>().join(", "))
}

/// Returns the name of a value's type in Python.
pub(crate) fn type_name(value: &Json) -> &'static str {
    match value {
        Json::Null => "NoneType",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_f64() => "float",
        Json::Number(_) => "int",
        Json::String(_) => "str",
        Json::Array(_) => "list",
        Json::Object(_) => "dict",
    }
}

fn quoted_text(text: &str) -> String {
    // As in Python: double quotes where they avoid an escape.
    let mark = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut shown = String::with_capacity(text.len() + 2);
    shown.push(mark);
    for letter in text.chars() {
        match letter {
            '\\' => shown.push_str("\\\\"),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            letter if letter == mark => {
                shown.push('\\');
                shown.push(letter);
            }
            letter if letter.is_control() => {
                let _ = write!(shown, "\\x{:02x}", u32::from(letter));
            }
            letter => shown.push(letter),
        }
    }
    shown.push(mark);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_printed_as_in_python() {
        let check = |value: Json, expected: &str| assert_eq!(shown(&value), expected);
        check(json!(null), "None");
        check(json!(true), "True");
        check(json!("a'b"), "a'b");
        check(json!(["a", 1, 2.5, null, false]), "['a', 1, 2.5, None, False]");
        check(json!(["it's", "\"it's\"", "a\\b\n\u{1}"]), r#"["it's", '"it\'s"', 'a\\b\n\x01']"#);
        check(json!({"a": {"b": []}}), "{'a': {'b': []}}");
        assert_eq!(list(&["x", "y"]), "['x', 'y']");
        assert_eq!(list::<&str>(&[]), "[]");
    }
}
