//! Repairs characters that a server has split: some split an answer at bytes or at UTF-16 code units.

/// An event with each half of a character replaced by U+FFFD.
pub(super) fn mended(event: &[u8]) -> String {
    let text = String::from_utf8_lossy(event);
    let mut mended = String::with_capacity(text.len());
    let mut rest = &*text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        let (length, whole) = look(escape);
        let (escape, after) = escape.split_at(length);
        mended.push_str(before);
        mended.push_str(if whole { escape } else { "\\ufffd" });
        rest = after;
    }
    mended.push_str(rest);
    mended
}

/// The length of the escape at the start of a text, and whether it is complete.
fn look(escape: &str) -> (usize, bool) {
    let Some(first) = unit(escape) else {
        // The character after the backslash belongs to it, even if it is a backslash.
        return (escape.chars().take(2).map(char::len_utf8).sum(), true);
    };
    let opens = (0xd800..0xdc00).contains(&first);
    let closes = |unit: u32| (0xdc00..0xe000).contains(&unit);
    if opens && escape.get(6..).and_then(unit).is_some_and(closes) {
        return (12, true);
    }
    (6, !opens && !closes(first))
}

/// The UTF-16 code unit with which a text starts, as `\uXXXX`.
fn unit(escape: &str) -> Option<u32> {
    u32::from_str_radix(escape.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpaired_surrogates_are_replaced_and_all_else_stays() {
        let check = |event: &str, expected: &str| assert_eq!(mended(event.as_bytes()), expected, "{event}");
        for same in
            ["", "a", r#"{"a":"\ud83d\ude00\n\"\\"}"#, r"\\ud83d", "\\", r"\u12", "\\\u{6c49}", r"\u00e9"]
        {
            check(same, same);
        }
        check(r#""a\ud83d""#, r#""a\ufffd""#);
        check(r#""\ude00b""#, r#""\ufffdb""#);
        check(r"\ud83d\ud83d\ude00\ud83dx", r"\ufffd\ud83d\ude00\ufffdx");
        check(r"\ud83d\n", r"\ufffd\n");
        assert_eq!(mended(b"\"a\xf0\x9f\""), "\"a\u{fffd}\"");
    }
}
