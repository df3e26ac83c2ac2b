//! Character pairs for scripts without a dictionary here: kana, hangul, Thai and others, and the Chinese
//! characters of Japanese.

use std::ops::Range;

use super::fold;

type PairVisitor<'a> = dyn FnMut(&str, Range<usize>, bool) + 'a;

/// Particles attached to Korean words, longer ones first.
const PARTICLES: [&str; 28] = [
    "에서는",
    "으로는",
    "에게서",
    "까지",
    "부터",
    "에서",
    "에게",
    "으로",
    "이나",
    "처럼",
    "보다",
    "하고",
    "은",
    "는",
    "이",
    "가",
    "을",
    "를",
    "의",
    "에",
    "와",
    "과",
    "로",
    "도",
    "만",
    "나",
    "께",
    "요",
];

/// How a character of such a script is processed.
#[derive(Clone, Copy, PartialEq)]
enum PairKind {
    Hiragana,
    Katakana,
    Hangul,
    Other,
}

fn kind(c: char) -> PairKind {
    match u32::from(c) {
        0x3040..=0x309f => PairKind::Hiragana,
        0x30a0..=0x30ff | 0x31f0..=0x31ff | 0xff66..=0xff9f => PairKind::Katakana,
        0x1100..=0x11ff | 0x3130..=0x318f | 0xac00..=0xd7af | 0xffa0..=0xffdc => PairKind::Hangul,
        _ => PairKind::Other,
    }
}

/// Whether a line is Japanese: it contains kana, which Chinese does not have.
pub(super) fn is_japanese(line: &str) -> bool {
    line.chars().any(|c| matches!(kind(c), PairKind::Hiragana | PairKind::Katakana))
}

/// Splits a run of characters that begins at `at` in the text, each kind separately.
pub(super) fn cut(run: &str, at: usize, found: &mut PairVisitor<'_>) {
    let mut rest = run;
    while let Some(first) = rest.chars().next().map(kind) {
        let end = rest.char_indices().find(|(_, c)| kind(*c) != first).map_or(rest.len(), |(end, _)| end);
        let (stretch, after) = rest.split_at(end);
        let from = at + run.len() - rest.len();
        match first {
            // Text in hiragana alone is mostly grammar.
            PairKind::Hiragana => pairs(stretch, from, &|_| true, found),
            PairKind::Hangul => korean(stretch, from, found),
            PairKind::Katakana | PairKind::Other => pairs(stretch, from, &|_| false, found),
        }
        rest = after;
    }
}

/// Yields every pair of neighbours; a single character yields itself. `is_common` receives the start of each pair.
pub(super) fn pairs(run: &str, at: usize, is_common: &dyn Fn(usize) -> bool, found: &mut PairVisitor<'_>) {
    let mut folded = String::new();
    let mut borders: Vec<usize> = run.char_indices().map(|(from, _)| from).collect();
    borders.push(run.len());
    let mut give = |from: usize, to: usize| {
        folded.clear();
        fold::fold(&run[from..to], &mut folded);
        found(&folded, at + from..at + to, is_common(from));
    };
    match borders[..] {
        [from, to] => give(from, to),
        // Three boundaries delimit two characters; the last pair ends at the last boundary.
        _ => borders.windows(3).for_each(|pair| give(pair[0], pair[2])),
    }
}

/// Yields the pairs of a Korean word. Pairs that include a part of its particle say nothing about the topic;
/// a word of one syllable with a particle also yields that syllable.
fn korean(word: &str, at: usize, found: &mut PairVisitor<'_>) {
    let stem =
        PARTICLES.iter().find_map(|particle| word.strip_suffix(particle)).filter(|stem| !stem.is_empty());
    let Some(stem) = stem else { return pairs(word, at, &|_| false, found) };
    let last = stem.char_indices().next_back().map_or(0, |(last, _)| last);
    let is_alone = last == 0;
    if is_alone {
        // A single syllable has no neighbour to pair with, and its pair with the particle is not a word.
        pairs(stem, at, &|_| false, found);
    }
    // In a word of two syllables, the second may just as well not be a particle.
    pairs(word, at, &|from| from >= last && !is_alone, found);
}
