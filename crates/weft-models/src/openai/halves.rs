//! Characters that a server has cut in half: some cut an answer by bytes or by the units of UTF-16.

/// An event with U+FFFD in the place of each half of a character.
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

/// How long the escape is that a text begins with, and whether it is whole.
fn look(escape: &str) -> (usize, bool) {
    let Some(first) = unit(escape) else {
        // The character behind the backslash belongs to it, also when it is another one.
        return (escape.chars().take(2).map(char::len_utf8).sum(), true);
    };
    let opens = (0xd800..0xdc00).contains(&first);
    let closes = |unit: u32| (0xdc00..0xe000).contains(&unit);
    if opens && escape.get(6..).and_then(unit).is_some_and(closes) {
        return (12, true);
    }
    (6, !opens && !closes(first))
}

/// The unit of UTF-16 that a text begins with as `\uXXXX`.
fn unit(escape: &str) -> Option<u32> {
    u32::from_str_radix(escape.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_replaced_and_all_else_stays() {
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
