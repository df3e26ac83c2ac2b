//! Integers with more digits than a number keeps, such as ids: as a number each would be another one.

use std::borrow::Cow;

/// Digits that an integer has at least when a number may not keep it.
// The smallest that do not fit into 64 bits have 19 with a sign and 20 without.
const DIGITS_MIN: usize = 19;

/// JSON with quotes around each such integer, so that it is read as the text of its digits.
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

/// Whether a word is an integer whose digits no number keeps.
pub fn is_lost(word: &str) -> bool {
    let digits = word.strip_prefix('-').unwrap_or(word);
    let is_long = digits.len() >= DIGITS_MIN && digits.bytes().all(|byte| byte.is_ascii_digit());
    let fits = || word.parse::<i64>().is_ok() || word.parse::<u64>().is_ok();
    // As the reader of JSON has it, which may be next to the nearest one.
    let float = || serde_json::from_str::<f64>(word).is_ok_and(|float| format!("{float:.0}") == word);
    is_long && !fits() && !float()
}

fn is_of_number(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')
}

/// The place behind the string that `at` lies in.
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
