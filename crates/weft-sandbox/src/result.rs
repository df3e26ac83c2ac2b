//! What a program gives: its result, and the message of its failure.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use weft_core::Json;
use weft_core::seam::sandbox::{Failure, Language};

/// Bytes of a message of a program, at most.
const MESSAGE_MAX: usize = 2_000;
/// Digits of the least number that may be beyond 64 bits.
const DIGITS_FITTING: usize = 19;

/// A result as its interpreter writes it.
pub(crate) fn read(json: &str) -> Result<Json, Failure> {
    // Hardly any result has halves of characters, and looking for them costs as much as reading it.
    let read = serde_json::from_str(json).or_else(|_| serde_json::from_str(&without_halves(json)));
    read.map_err(|error| Failure::Program {
        message: format!("what the program returns cannot be read as JSON: {error}"),
        line: None,
    })
}

/// The same of a language whose whole numbers have no end: those that are beyond 64 bits become texts, since as numbers
/// their last digits would be lost.
pub(crate) fn read_with_large_numbers(json: &str) -> Result<Json, Failure> {
    read(&without_large_numbers(json))
}

/// What somebody says who hands on the result of a program in this language, read as the result would be by itself.
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

/// JSON in which whole numbers beyond 64 bits are texts.
fn without_large_numbers(json: &str) -> Cow<'_, str> {
    // Fewer digits are no such number.
    if !json.as_bytes().windows(DIGITS_FITTING).any(|digits| digits.iter().all(u8::is_ascii_digit)) {
        return Cow::Borrowed(json);
    }
    let is_digit = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
    let mut mended = String::with_capacity(json.len());
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
            mended.extend(["\"", token, "\""]);
        } else {
            mended.push_str(token);
        }
        rest = after;
    }
    Cow::Owned(mended)
}

/// How long the text is that JSON begins with, in bytes with its quotes.
fn text_length(json: &str) -> usize {
    let mut escaped = false;
    let end = json.bytes().enumerate().skip(1).find(|(_, byte)| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    });
    end.map_or(json.len(), |(at, _)| at + 1)
}

/// JSON in which `\ud800` to `\udfff`, which stand for halves of characters, are U+FFFD.
fn without_halves(json: &str) -> String {
    let mut mended = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        mended.push_str(before);
        let half = escape.get(..6).is_some_and(|escape| {
            let code = escape.strip_prefix("\\u").and_then(|code| u32::from_str_radix(code, 16).ok());
            code.is_some_and(|code| (0xd800..=0xdfff).contains(&code))
        });
        // Escapes are ASCII, so that their ends are those of characters.
        let length = if half { 6 } else { 2 };
        mended.push_str(if half { "\\ufffd" } else { escape.get(..length).unwrap_or(escape) });
        rest = escape.get(length..).unwrap_or_default();
    }
    mended + rest
}

/// A message that nobody has to scroll through.
pub(crate) fn shortened(message: String) -> String {
    shortened_to(message, MESSAGE_MAX)
}

/// The same with at most this many bytes, beside the sign that it was cut.
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
    fn whole_numbers_keep_all_their_digits() {
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
    fn halves_of_characters_are_replaced_and_nothing_else() {
        let check = |text: &str, expected: Json| assert_eq!(read(text), Ok(expected), "{text}");
        check(r#""\ud83d""#, json!("\u{fffd}"));
        check(r#"["a\\ud83d", "\udead\n\u00e9é\""]"#, json!(["a\\ud83d", "\u{fffd}\néé\""]));
        assert!(matches!(read(&"[".repeat(500)), Err(Failure::Program { .. })));
    }
}
