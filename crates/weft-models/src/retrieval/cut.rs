//! Fits texts to models whose tokenizer is unknown.

use std::borrow::Cow;

use crate::estimate::is_ideograph;

/// Replaces a blank text, which most providers reject.
const STAND_IN: &str = ".";

/// The beginning of `text` with at most `tokens_max` tokens by a conservative count: too high for prose, and right
/// for code and numbers.
pub(super) fn cut(text: &str, tokens_max: usize) -> &str {
    let room = tokens_max.saturating_mul(SIXTHS);
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += sixths(c);
        if used > room {
            return &text[..at];
        }
    }
    text
}

/// The number of tokens in `text` by the same count.
pub(super) fn tokens(text: &str) -> usize {
    text.chars().map(sixths).sum::<usize>().div_ceil(SIXTHS)
}

/// A text as it is sent: cut to the limit, and never empty.
pub(super) fn fitting<'a>(prefix: &str, text: &'a str, tokens_max: usize) -> Cow<'a, str> {
    let text = if text.trim().is_empty() { STAND_IN } else { text };
    if prefix.is_empty() {
        return Cow::Borrowed(cut(text, tokens_max));
    }
    Cow::Owned(cut(&format!("{prefix}{text}"), tokens_max).to_owned())
}

const SIXTHS: usize = 6;

/// The maximum number of sixths of a token that a character takes, in running text.
fn sixths(c: char) -> usize {
    match c {
        // Rare ones take two or three tokens.
        _ if is_ideograph(c) => 9,
        _ if c.is_ascii_alphanumeric() => 2,
        _ if c.is_whitespace() => 1,
        _ => SIXTHS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_truncated_by_a_conservative_count() {
        let check = |text: &str, tokens_max: usize, expected: &str| {
            assert_eq!(cut(text, tokens_max), expected, "{text}");
            assert!(tokens(expected) <= tokens_max);
        };
        check("short", 10, "short");
        check("abcdef", 1, "abc");
        check("汉字汉字", 3, "汉字");
        check("é!?", 2, "é!");
        check("any", 0, "");
    }

    #[test]
    fn nothing_is_sent_empty() {
        assert_eq!(fitting("", " \n", 5), ".");
        assert_eq!(fitting("query: ", "", 5), "query: .");
        assert_eq!(fitting("query: ", "what", 5), "query: what");
    }
}
