//! Boundaries of sentences, words and characters.

use std::ops::Range;

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation as _};

/// Number of bytes that are searched for a word boundary.
const WORD_WINDOW: usize = 512;

/// Offsets where sentences after the first begin, for Latin and Chinese text.
pub(crate) fn sentences(text: &str) -> Vec<usize> {
    // By the Unicode rules, an opening quote or bracket belongs to the sentence before it when no space separates them.
    let opens = ['“', '‘', '「', '『', '（', '《', '【', '〈'];
    let begin = |at: usize| text[..at].trim_end_matches(opens).len();
    text.split_sentence_bound_indices().map(|(at, _)| begin(at)).filter(|at| *at > 0).collect()
}

/// Offsets where words after the first begin.
pub(crate) fn words(text: &str) -> Vec<usize> {
    let begins = |word: &str| word.chars().next().is_some_and(char::is_alphanumeric);
    text.split_word_bound_indices().filter(|(at, word)| *at > 0 && begins(word)).map(|(at, _)| at).collect()
}

/// The last offset where a word begins, after the start of the range and not beyond `room`.
pub(crate) fn last_word(text: &str, range: Range<usize>, room: usize) -> Option<usize> {
    // Searches only near `room`; otherwise a long text would be scanned again for each of its parts.
    let near = room.saturating_sub(WORD_WINDOW).max(range.start);
    let near = (near..=room).find(|at| text.is_char_boundary(*at))?;
    words(&text[near..range.end]).into_iter().map(|at| near + at).rfind(|at| *at <= room && *at > range.start)
}

/// The last grapheme boundary after `start` and not beyond `room`; a code point boundary if a single grapheme is longer
/// than that.
pub(crate) fn last_grapheme(text: &str, start: usize, room: usize) -> Option<usize> {
    if room <= start {
        return None;
    }
    if is_between(text, room) {
        return Some(room);
    }
    let mut cursor = GraphemeCursor::new(room, text.len(), true);
    let before = cursor.prev_boundary(text, 0).ok().flatten();
    Some(before.filter(|at| *at > start).unwrap_or(room))
}

/// Whether an offset is a grapheme boundary.
pub(crate) fn is_between(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    // There is a boundary between any two ASCII characters except within `\r\n`.
    let ascii = |at: usize| bytes.get(at).is_none_or(|byte| byte.is_ascii() && *byte != b'\n');
    if at == 0 || at >= text.len() || (ascii(at - 1) && ascii(at)) {
        return true;
    }
    GraphemeCursor::new(at, text.len(), true).is_boundary(text, 0).unwrap_or(true)
}

/// The code point boundary before an offset.
pub(crate) fn before(text: &str, at: usize) -> usize {
    (0..at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The code point boundary after an offset.
pub(crate) fn after(text: &str, at: usize) -> usize {
    (at + 1..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentence_ends_are_found_in_both_scripts() {
        let text = "It costs 3.50 euros, e.g. here. Next one! 你好。再见！“好。”";
        let mut parts = Vec::new();
        let mut last = 0;
        for at in sentences(text).into_iter().chain([text.len()]) {
            parts.push(&text[last..at]);
            last = at;
        }
        assert_eq!(parts, ["It costs 3.50 euros, e.g. here. ", "Next one! ", "你好。", "再见！", "“好。”"]);
    }

    #[test]
    fn a_word_starts_with_a_letter() {
        assert_eq!(last_word("one two, three", 0..14, 14), Some(9));
        assert_eq!(last_word("one two, three", 0..14, 8), Some(4));
        assert_eq!(last_word("汉字，汉", 0..12, 9), Some(9));
        assert_eq!(last_word("oneword", 0..7, 5), None);
    }

    #[test]
    fn an_emoji_sequence_is_one_character() {
        let text = "ab👨‍👩‍👧cd";
        let family = "👨‍👩‍👧".len();
        assert_eq!(last_grapheme(text, 0, 2 + 4), Some(2));
        assert_eq!(last_grapheme(text, 2, 2 + 4), Some(6));
        assert_eq!(last_grapheme(text, 2, 2 + family), Some(2 + family));
        assert!(!is_between("a\r\nb", 2) && is_between("a\nb", 2));
    }
}
