//! Unquoted keys and values.

use serde_json::Number;
use weft_core::Json;
use weft_core::exact::is_lost;

/// Whether a character may be part of an unquoted key.
pub(super) fn bare_key(c: char) -> bool {
    // Letters of any script, and the characters used in names by the languages that models learn from: JSON5, YAML,
    // JSON-LD, query operators.
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '$' | '@')
}

/// Whether a text continues with one of these characters after spaces and tabs.
pub(super) fn blanks_then(text: &str, any: &[char]) -> bool {
    text.trim_start_matches([' ', '\t']).starts_with(any)
}

/// The length of an unquoted key.
pub(super) fn bare_key_length(text: &str) -> usize {
    text.chars().take_while(|&c| bare_key(c)).map(char::len_utf8).sum()
}

/// The length of an unquoted value: up to a separator of values, a bracket, a quote, a colon followed by whitespace,
/// or a comment.
pub(super) fn bare_value_length(text: &str) -> usize {
    let mut before = ' ';
    for (place, c) in text.char_indices() {
        let after = |length: usize| text.get(place + length..).and_then(|rest| rest.chars().next());
        let ends = match c {
            ',' | '}' | ']' | '{' | '[' | '"' | '\n' => true,
            '\'' | '#' => before.is_whitespace(),
            '/' => before.is_whitespace() && matches!(after(1), Some('/' | '*')),
            // A colon within a word belongs to it: `https://…`, `12:30`.
            ':' => after(1).is_none_or(char::is_whitespace),
            _ => false,
        };
        if ends {
            return place;
        }
        before = c;
    }
    text.len()
}

/// The value of an unquoted word, including spellings of other languages.
pub(super) fn literal(word: &str) -> Option<Json> {
    match word {
        "true" | "True" | "TRUE" => return Some(Json::Bool(true)),
        "false" | "False" | "FALSE" => return Some(Json::Bool(false)),
        "null" | "None" | "NULL" | "Null" | "nil" | "undefined" | "NaN" => return Some(Json::Null),
        _ => {}
    }
    // No useful number is longer; what follows would scan the whole text.
    if word.len() > 400
        || !word.starts_with(['+', '-', '.', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
    {
        return None;
    }
    // JSON has no leading plus, no bare decimal point and no underscores between digits; Python and JavaScript do.
    let unsigned = word.trim_start_matches(['+', '-']);
    let mut plain = String::with_capacity(word.len() + 2);
    if word.starts_with('-') {
        plain.push('-');
    }
    if unsigned.starts_with('.') {
        plain.push('0');
    }
    plain.push_str(unsigned);
    if plain.ends_with('.') {
        plain.push('0');
    }
    let grouped = plain.contains('_') && !plain.ends_with('_') && !plain.contains("__");
    let plain = if grouped { plain.replace('_', "") } else { plain };
    // `--5` and `+-5` are expressions, and nothing is evaluated here.
    let fits = word.len() - unsigned.len() <= 1;
    if fits && is_lost(&plain) {
        return Some(Json::String(plain));
    }
    fits.then(|| serde_json::from_str::<Number>(&plain).ok()).flatten().map(Json::Number)
}

/// The value of a word whose end is missing.
pub(super) fn begun(word: &str) -> Option<Json> {
    let begins = |whole: &str| !word.is_empty() && whole.starts_with(word);
    let values = [("true", Json::Bool(true)), ("false", Json::Bool(false)), ("null", Json::Null)];
    let python = [("True", Json::Bool(true)), ("False", Json::Bool(false)), ("None", Json::Null)];
    values.into_iter().chain(python).find(|(whole, _)| begins(whole)).map(|(_, value)| value)
}
