//! JSON: values with the paths that lead to them; records are kept together.

mod part;

use serde_json::Value;

use super::{FileContents, FileFormat, FileInput, ReadResult, code};
use crate::parts::PartCollector;
use crate::unreadable::Unreadable;
use crate::words::{beginning, decode};
use part::JsonPart;

/// A single value, or one on each line.
pub(super) const FORMAT: FileFormat = FileFormat {
    name: "JSON",
    endings: &["json", "jsonl", "ndjson", "geojson", "json5"],
    is_binary: false,
    looks: |contents: &FileContents<'_>| {
        let text = contents.text();
        // A file longer than the examined part may end in the middle of a value.
        let mut values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        text.trim_start().starts_with(['{', '['])
            && values.next().is_some_and(|value| value.map_or_else(|cause| cause.is_eof(), |_| true))
    },
    read,
};

/// Maximum number of characters of a value that is kept together.
const RECORD_CHARS_MAX: usize = 1_000;
/// Maximum number of characters of one name in a path.
const NAME_CHARS_MAX: usize = 200;
/// Size in bytes beyond which a path is not extended. It is repeated in front of every value below it.
const PATH_BYTES_MAX: usize = 500;

fn read(file: &FileInput<'_>) -> ReadResult {
    let mut parts = PartCollector::default();
    let (values, broken) = match values(&decode(file.bytes)) {
        // Anything with comments or unquoted names is shown as its author wrote it.
        Err(_) if file.ending() == "json5" => return (code::FORMAT.read)(file),
        values => values?,
    };
    if broken > 0 {
        let lines = weft_core::value::plural_with(broken, "line", ["was", "were"]);
        parts.warn(format!("{lines} left out for not being JSON"));
    }
    for value in values {
        record(&value, "", &mut parts);
    }
    Ok(parts.finish())
}

/// Parses the values of a file, one after another, on separate lines or not. In a file with one record on each line,
/// most of them readable, the unreadable ones are counted: a log may be truncated, or contain a message of its program.
fn values(text: &str) -> Result<(Vec<JsonPart>, usize), Unreadable> {
    let values = serde_json::Deserializer::from_str(text).into_iter::<JsonPart>();
    let cause = match values.collect::<Result<Vec<_>, _>>() {
        Ok(values) => return Ok((values, 0)),
        Err(cause) => cause,
    };
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let records: Vec<JsonPart> = lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let broken = lines().count() - records.len();
    if records.len() > broken && records.iter().all(JsonPart::has_parts) {
        return Ok((records, broken));
    }
    Err(Unreadable::because("it is not JSON", cause))
}

/// Adds a value: as one element if it is short, otherwise as several.
fn record(value: &JsonPart, path: &str, parts: &mut PartCollector) {
    if parts.is_full() {
        return;
    }
    let mut lines = Vec::new();
    let mut left = RECORD_CHARS_MAX;
    if !is_list(value) && flatten(value, path, &mut lines, &mut left) {
        parts.paragraph(&lines.join("\n"));
        return;
    }
    match value {
        JsonPart::Object(members) => {
            // Short values stay together, so that a record's own values are not separated.
            let mut short = Vec::new();
            let mut left = RECORD_CHARS_MAX;
            let mut long = Vec::new();
            for (key, value) in members {
                let path = below(path, key);
                let before = short.len();
                if is_list(value) || !flatten(value, &path, &mut short, &mut left) {
                    // A value that turns out to be too long has already written some of its lines.
                    short.truncate(before);
                    left = RECORD_CHARS_MAX.saturating_sub(short.iter().map(String::len).sum());
                    long.push((path, value));
                }
            }
            parts.paragraph(&short.join("\n"));
            for (path, value) in long {
                record(value, &path, parts);
            }
        }
        JsonPart::Array(values) => {
            for (number, value) in values.iter().enumerate() {
                record(value, &entry(path, number), parts);
            }
        }
        JsonPart::Plain(Value::String(text)) => parts.paragraph(&labelled(path, text)),
        JsonPart::Plain(_) => {}
    }
}

/// A list of records is never a record itself.
fn is_list(value: &JsonPart) -> bool {
    matches!(value, JsonPart::Array(values) if values.iter().any(JsonPart::has_parts))
}

/// Writes a line for each value; returns false if there are too many.
fn flatten(value: &JsonPart, path: &str, lines: &mut Vec<String>, left: &mut usize) -> bool {
    match value {
        JsonPart::Object(members) => {
            members.iter().all(|(key, value)| flatten(value, &below(path, key), lines, left))
        }
        JsonPart::Array(values) if is_list(value) => {
            values.iter().enumerate().all(|(number, value)| flatten(value, &entry(path, number), lines, left))
        }
        JsonPart::Array(values) => {
            let mut text = String::new();
            // Elements that contain others are not part of this list.
            for value in values.iter().filter_map(JsonPart::plain) {
                text.push_str(if text.is_empty() { "" } else { ", " });
                text.push_str(&plain(value));
                // Each level above tries again, so no more is written than can fit.
                if text.len() > RECORD_CHARS_MAX * 4 {
                    return false;
                }
            }
            add(labelled(path, &text), lines, left)
        }
        JsonPart::Plain(Value::Null) => true,
        JsonPart::Plain(value) => add(labelled(path, &plain(value)), lines, left),
    }
}

fn add(line: String, lines: &mut Vec<String>, left: &mut usize) -> bool {
    let Some(rest) = left.checked_sub(line.chars().count() + 1) else { return false };
    *left = rest;
    lines.push(line);
    true
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn labelled(path: &str, text: &str) -> String {
    if path.is_empty() { text.to_owned() } else { format!("{path}: {text}") }
}

fn below(path: &str, key: &str) -> String {
    let key = beginning(key, NAME_CHARS_MAX);
    match path.len() {
        0 => key.to_owned(),
        1..=PATH_BYTES_MAX => format!("{path}.{key}"),
        _ => path.to_owned(),
    }
}

fn entry(path: &str, number: usize) -> String {
    if path.len() > PATH_BYTES_MAX { path.to_owned() } else { format!("{path}[{number}]") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::ElementBody;

    fn paragraphs(text: &str) -> Vec<String> {
        let mut parts = PartCollector::default();
        for value in values(text).unwrap().0 {
            record(&value, "", &mut parts);
        }
        let bodies = parts.finish().elements.into_iter().map(|element| match element.body {
            ElementBody::Paragraph(text) => text,
            other => panic!("{other:?}"),
        });
        bodies.collect()
    }

    #[test]
    fn records_stay_together_with_their_paths() {
        assert_eq!(
            paragraphs(
                r#"[{"name": "Ada", "born": {"year": 1815}, "tags": ["x", 2]}, {"name": null}, "text"]"#
            ),
            ["[0].name: Ada\n[0].born.year: 1815\n[0].tags: x, 2", "[2]: text"],
        );
        assert_eq!(paragraphs("{\"a\": 1}\n{\"a\": 2}\n"), ["a: 1", "a: 2"]);
    }

    #[test]
    fn a_duplicate_key_is_read_twice() {
        let text =
            r#"{"x": 1, "id": 7, "x": {"y": [true, "z"]}, "x": 1.5, "n": null, "big": 18446744073709551615}"#;
        assert_eq!(paragraphs(text), ["x: 1\nid: 7\nx.y: true, z\nx: 1.5\nbig: 18446744073709551615"]);
        let long = "w".repeat(RECORD_CHARS_MAX);
        let text = format!(r#"{{"x": "{long}", "x": 2}}"#);
        assert_eq!(paragraphs(&text), ["x: 2".to_owned(), format!("x: {long}")]);
    }

    #[test]
    fn records_are_read_despite_invalid_lines() {
        let count = |text: &str| values(text).map(|(values, broken)| (values.len(), broken)).ok();
        assert_eq!(count("{\"a\": 1}\n\nstarting\n{\"a\": 2}\n[3]\n{\"a\""), Some((3, 2)));
        assert_eq!(count("{\n\"a\": [\n1,\n2\n"), None);
        assert_eq!(count("{\"a\": 1}\nno\nno\n"), None);
    }

    #[test]
    fn long_values_are_separate_elements() {
        let long = "x".repeat(RECORD_CHARS_MAX);
        let text = format!(r#"{{"a": 1, "b": "{long}", "c": true, "d": [{{"e": 1}}]}}"#);
        assert_eq!(
            paragraphs(&text),
            ["a: 1\nc: true".to_owned(), format!("b: {long}"), "d[0].e: 1".to_owned()]
        );
    }
}
