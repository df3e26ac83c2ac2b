//! Folds letters that are meant to be the same into one form.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::compose;

/// Whether the character is a diacritic that is dropped. Those of Indic scripts are vowels and are kept.
fn is_diacritic(c: char) -> bool {
    matches!(u32::from(c), 0x0300..=0x036f | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff | 0x20d0..=0x20ff | 0xfe20..=0xfe2f)
}

/// Whether the character combines with the letter before it.
pub(super) fn is_mark(c: char) -> bool {
    unicode_normalization::char::is_combining_mark(c)
}

/// Appends a text in lower case, in normal width and without diacritics.
pub(super) fn fold(text: &str, folded: &mut String) {
    // Most words are ASCII and need none of the tables.
    if text.is_ascii() {
        folded.extend(text.chars().map(|c| c.to_ascii_lowercase()));
        return;
    }
    let begin = folded.len();
    // Decomposed first, so that a diacritic becomes a separate character that can be dropped.
    for c in text.nfkd().filter(|c| !is_diacritic(*c)).flat_map(char::to_lowercase) {
        match c {
            'ß' => folded.push_str("ss"),
            'æ' => folded.push_str("ae"),
            'œ' => folded.push_str("oe"),
            'ø' => folded.push('o'),
            'ł' => folded.push('l'),
            'đ' | 'ð' => folded.push('d'),
            'ı' => folded.push('i'),
            'þ' => folded.push_str("th"),
            // The form of the letter at the end of a word.
            'ς' => folded.push('σ'),
            _ => push_composed(folded, begin, c),
        }
    }
}

/// Recomposes hangul and kana; where a diacritic was dropped, a single letter is left anyway.
fn push_composed(folded: &mut String, begin: usize, c: char) {
    let last = folded[begin..].chars().next_back();
    match last.and_then(|last| compose(last, c)) {
        Some(whole) => {
            folded.pop();
            folded.push(whole);
        }
        None => folded.push(c),
    }
}
