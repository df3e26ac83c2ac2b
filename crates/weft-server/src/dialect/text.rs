//! JSON on a single line, by every client's definition of a line.

use std::io;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

/// Compact JSON in which U+0085, U+2028 and U+2029 are escaped: otherwise, clients that split a stream at every
/// Unicode line break would break the frame.
struct OneLine;

impl Formatter for OneLine {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment.as_bytes();
        while let Some((at, escape)) = line_break(rest) {
            writer.write_all(&rest[..at])?;
            writer.write_all(escape.as_bytes())?;
            // U+0085 takes two bytes in UTF-8, the others three.
            let width = if escape == NEXT_LINE { 2 } else { 3 };
            rest = &rest[at + width..];
        }
        writer.write_all(rest)
    }
}

const NEXT_LINE: &str = "\\u0085";

/// Finds the first of the three, and its escape. All start with a byte that does not occur in ASCII text.
fn line_break(bytes: &[u8]) -> Option<(usize, &'static str)> {
    for at in memchr::memchr2_iter(0xC2, 0xE2, bytes) {
        match bytes[at..] {
            [0xC2, 0x85, ..] => return Some((at, NEXT_LINE)),
            [0xE2, 0x80, 0xA8, ..] => return Some((at, "\\u2028")),
            [0xE2, 0x80, 0xA9, ..] => return Some((at, "\\u2029")),
            _ => {}
        }
    }
    None
}

/// Appends a value as one line of JSON.
pub(crate) fn write_json<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    let before = out.len();
    let mut written = serde_json::to_writer(&mut *out, value);
    // Scanning the result once is faster than checking each part, and hardly any value contains one of the three.
    if written.is_ok() && line_break(&out[before..]).is_some() {
        out.truncate(before);
        written = value.serialize(&mut Serializer::with_formatter(&mut *out, OneLine));
    }
    if written.is_err() {
        // Only a map with keys that are not strings can fail, which no frame has; but half a frame would be worse
        // than none.
        out.truncate(before);
        out.extend_from_slice(b"null");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_line_breaks_are_escaped() {
        let check = |text: &str, expected: &str| {
            let mut out = Vec::new();
            write_json(text, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        check("plain \"x\"\n", r#""plain \"x\"\n""#);
        check("a\u{85}b\u{2028}\u{2029}c", r#""a\u0085b\u2028\u2029c""#);
        check("汉字 é \u{1F600} \u{2027}\u{202A}", "\"汉字 é \u{1F600} \u{2027}\u{202A}\"");
        check("\u{b}\u{1c}", r#""\u000b\u001c""#);
        check("\u{2028}", r#""\u2028""#);
    }
}
