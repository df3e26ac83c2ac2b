//! Chinese: one script, and words by a dictionary.

use std::ops::Range;
use std::sync::LazyLock;

use jieba_rs::Jieba;

use super::common_words::is_common;

/// Takes a tenth of a second and some ten megabytes, once for the program.
static DICTIONARY: LazyLock<Jieba> = LazyLock::new(Jieba::new);

const FIRST: u32 = 0x3400;
const LAST: u32 = 0x9fff;

/// For each character of the main blocks its simplified form.
static SIMPLIFIED: LazyLock<Vec<char>> = LazyLock::new(|| {
    let one = |c: char| fast2s::convert(c.encode_utf8(&mut [0; 4])).chars().next().unwrap_or(c);
    (FIRST..=LAST).filter_map(char::from_u32).map(one).collect()
});

/// Simplified characters take as many bytes as the traditional ones, so places stay what they are.
fn simplified(c: char) -> char {
    let place = u32::from(c).checked_sub(FIRST).and_then(|place| usize::try_from(place).ok());
    let simple = place.and_then(|place| SIMPLIFIED.get(place)).copied();
    simple.filter(|simple| simple.len_utf8() == c.len_utf8()).unwrap_or(c)
}

/// Pairs of the characters of a run in a Japanese text, in the form that Chinese has, too: the dictionary would cut them
/// as Chinese.
pub(super) fn pairs(run: &str, at: usize, found: &mut dyn FnMut(&str, Range<usize>, bool)) {
    let run: String = run.chars().map(simplified).collect();
    super::pairs::pairs(&run, at, &|_| false, found);
}

/// Cuts a run of Chinese characters that begins at a place of the text.
pub(super) fn cut(run: &str, at: usize, found: &mut dyn FnMut(&str, Range<usize>, bool)) {
    let run: String = run.chars().map(simplified).collect();
    // Names that only statistics would guess are cut the same way in questions and documents only
    // when nothing is guessed: what stands around them differs.
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
