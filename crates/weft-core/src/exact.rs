//! Integers with more digits than a number can hold, such as ids: parsed as numbers they would change.

use std::borrow::Cow;

/// Minimum number of digits of an integer that may not fit into a number.
// The smallest integers that do not fit into 64 bits have 19 digits with a sign and 20 without.
const DIGITS_MIN: usize = 19;

/// Returns JSON in which such integers are quoted, so that they are parsed as texts.
pub fn kept(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let (mut kept, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(&byte) = bytes.get(at) {
        at = match byte {
            b'"' => behind_string(bytes, at + 1),
            b'-' | b'0'..=b'9' => {
                let end = at + bytes.iter().skip(at).take_while(|byte| is_of_number(**byte)).count();
                let word = text.get(at..end).unwrap_or_default();
                if is_lost(word) {
                    kept.push_str(text.get(copied..at).unwrap_or_default());
                    kept.extend(["\"", word, "\""]);
                    copied = end;
                }
                end
            }
            _ => at + 1,
        };
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    kept.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(kept)
}

/// Returns whether a word is an integer that no number can represent exactly.
pub fn is_lost(word: &str) -> bool {
    let digits = word.strip_prefix('-').unwrap_or(word);
    let is_long = digits.len() >= DIGITS_MIN && digits.bytes().all(|byte| byte.is_ascii_digit());
    let fits = || word.parse::<i64>().is_ok() || word.parse::<u64>().is_ok();
    // As parsed by the JSON parser, whose result may be one off from the nearest float.
    let float = || serde_json::from_str::<f64>(word).is_ok_and(|float| format!("{float:.0}") == word);
    is_long && !fits() && !float()
}

fn is_of_number(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')
}

/// Returns the position after the end of the string that `at` is in.
fn behind_string(bytes: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}
