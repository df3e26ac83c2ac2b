//! Chinese: conversion to simplified characters, and segmentation by a dictionary.

use std::ops::Range;
use std::sync::LazyLock;

use jieba_rs::Jieba;

use super::common_words::is_common;

/// Loading takes a tenth of a second and some ten megabytes, once per process.
static DICTIONARY: LazyLock<Jieba> = LazyLock::new(Jieba::new);

const FIRST: u32 = 0x3400;
const LAST: u32 = 0x9fff;

/// The simplified form of each character of the main blocks.
static SIMPLIFIED: LazyLock<Vec<char>> = LazyLock::new(|| {
    let one = |c: char| fast2s::convert(c.encode_utf8(&mut [0; 4])).chars().next().unwrap_or(c);
    (FIRST..=LAST).filter_map(char::from_u32).map(one).collect()
});

/// Returns the simplified form of a character, or the character itself if that form has another byte length,
/// so that positions stay valid.
fn simplified(c: char) -> char {
    let place = u32::from(c).checked_sub(FIRST).and_then(|place| usize::try_from(place).ok());
    let simple = place.and_then(|place| SIMPLIFIED.get(place)).copied();
    simple.filter(|simple| simple.len_utf8() == c.len_utf8()).unwrap_or(c)
}

/// Yields the character pairs of a run in a Japanese text, with characters simplified as in Chinese: the
/// dictionary would segment them as Chinese.
pub(super) fn pairs(run: &str, at: usize, found: &mut dyn FnMut(&str, Range<usize>, bool)) {
    let run: String = run.chars().map(simplified).collect();
    super::pairs::pairs(&run, at, &|_| false, found);
}

/// Segments a run of Chinese characters that begins at `at` in the text.
pub(super) fn cut(run: &str, at: usize, found: &mut dyn FnMut(&str, Range<usize>, bool)) {
    let run: String = run.chars().map(simplified).collect();
    // Names that are only guessed statistically would be segmented differently in questions and in documents,
    // because their surroundings differ; so nothing is guessed.
    let mut alone: Option<Range<usize>> = None;
    for token in DICTIONARY.cut_for_search(&run, false) {
        let range = token.byte_start..token.byte_end;
        found(token.word, at + range.start..at + range.end, is_common(token.word));
        let is_alone = token.end - token.start == 1;
        if let Some(before) = alone.take().filter(|before| is_alone && before.end == range.start) {
            let pair = before.start..range.end;
            found(&run[pair.clone()], at + pair.start..at + pair.end, false);
        }
        alone = is_alone.then_some(range);
    }
}
