//! What a program returns: its result, and the message of its failure.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use weft_core::Json;
use weft_core::seam::sandbox::{Failure, Language};

/// Maximum number of bytes in a message of a program.
const MESSAGE_MAX: usize = 2_000;
/// Number of digits in the smallest number that may exceed 64 bits.
const DIGITS_FITTING: usize = 19;

/// Parses a result as its interpreter writes it.
pub(crate) fn read(json: &str) -> Result<Json, Failure> {
    // Hardly any result contains lone surrogates, and searching for them costs as much as parsing.
    let read = serde_json::from_str(json).or_else(|_| serde_json::from_str(&without_halves(json)));
    read.map_err(|error| Failure::Program {
        message: format!("the result of the program cannot be read as JSON: {error}"),
        line: None,
    })
}

/// Parses a result of a language with unbounded integers: those that exceed 64 bits become texts, since as numbers they
/// would lose their last digits.
pub(crate) fn read_with_large_numbers(json: &str) -> Result<Json, Failure> {
    read(&without_large_numbers(json))
}

/// Parses a message that contains the result of a program in this language, as the result alone would be parsed.
///
/// # Errors
/// For what is not JSON of this form.
pub(crate) fn read_around<T: DeserializeOwned>(json: &str, language: Language) -> serde_json::Result<T> {
    let json = match language {
        Language::Python => without_large_numbers(json),
        Language::JavaScript => Cow::Borrowed(json),
    };
    serde_json::from_str(&json).or_else(|_| serde_json::from_str(&without_halves(&json)))
}

/// Converts integers beyond 64 bits in JSON to texts.
fn without_large_numbers(json: &str) -> Cow<'_, str> {
    // Fewer digits always fit.
    if !json.as_bytes().windows(DIGITS_FITTING).any(|digits| digits.iter().all(u8::is_ascii_digit)) {
        return Cow::Borrowed(json);
    }
    let is_digit = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
    let mut repaired = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => text_length(rest),
            '-' | '0'..='9' => rest.find(|c| !is_digit(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        let whole = matches!(first, '-' | '0'..='9') && !token.contains(['.', 'e', 'E']);
        if whole && token.parse::<i64>().is_err() && token.parse::<u64>().is_err() {
            repaired.extend(["\"", token, "\""]);
        } else {
            repaired.push_str(token);
        }
        rest = after;
    }
    Cow::Owned(repaired)
}

/// Returns the length of the string that JSON begins with, in bytes including its quotes.
fn text_length(json: &str) -> usize {
    let mut escaped = false;
    let end = json.bytes().enumerate().skip(1).find(|(_, byte)| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    });
    end.map_or(json.len(), |(at, _)| at + 1)
}

/// Replaces `\ud800` to `\udfff` in JSON, which are surrogates, by U+FFFD.
fn without_halves(json: &str) -> String {
    let mut repaired = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        repaired.push_str(before);
        let half = escape.get(..6).is_some_and(|escape| {
            let code = escape.strip_prefix("\\u").and_then(|code| u32::from_str_radix(code, 16).ok());
            code.is_some_and(|code| (0xd800..=0xdfff).contains(&code))
        });
        // Escapes are ASCII, so that they end at character boundaries.
        let length = if half { 6 } else { 2 };
        repaired.push_str(if half { "\\ufffd" } else { escape.get(..length).unwrap_or(escape) });
        rest = escape.get(length..).unwrap_or_default();
    }
    repaired + rest
}

/// Shortens a message so that it can be read without scrolling.
pub(crate) fn shortened(message: String) -> String {
    shortened_to(message, MESSAGE_MAX)
}

/// Shortens a message to at most this many bytes, not counting the ellipsis.
pub(crate) fn shortened_to(mut message: String, bytes_max: usize) -> String {
    if message.len() > bytes_max {
        message.truncate(message.floor_char_boundary(bytes_max));
        message.push('…');
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn integers_keep_all_digits() {
        let check =
            |text: &str, expected: Json| assert_eq!(read_with_large_numbers(text), Ok(expected), "{text}");
        check("15511210043330985984000000", json!("15511210043330985984000000"));
        check("[-9223372036854775808, 18446744073709551615]", json!([i64::MIN, u64::MAX]));
        check(
            r#"{"18446744073709551616": [18446744073709551616, -9223372036854775809, "1\"18446744073709551616"]}"#,
            json!({"18446744073709551616": ["18446744073709551616", "-9223372036854775809", "1\"18446744073709551616"]}),
        );
        check(
            "[0.12345678901234567890123, 12345678901234567890123e2, 1]",
            json!([0.123_456_789_012_345_68, 1.234_567_890_123_456_8e24, 1]),
        );
    }

    #[test]
    fn only_unpaired_surrogates_are_replaced() {
        let check = |text: &str, expected: Json| assert_eq!(read(text), Ok(expected), "{text}");
        check(r#""\ud83d""#, json!("\u{fffd}"));
        check(r#"["a\\ud83d", "\udead\n\u00e9é\""]"#, json!(["a\\ud83d", "\u{fffd}\néé\""]));
        assert!(matches!(read(&"[".repeat(500)), Err(Failure::Program { .. })));
    }
}
