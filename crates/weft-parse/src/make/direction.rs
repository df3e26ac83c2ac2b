//! Right-to-left text: reorders letters for display and shapes Arabic letters.

use std::borrow::Cow;

use unicode_bidi::{BidiInfo, Level, get_base_direction};

/// Arabic letters with their first presentation form and the number of forms. Two forms are the isolated and the final
/// one; letters with four, which join the next letter, also have an initial and a medial form.
const FORMS: [(char, char, u8); 41] = [
    ('\u{621}', '\u{fe80}', 1),
    ('\u{622}', '\u{fe81}', 2),
    ('\u{623}', '\u{fe83}', 2),
    ('\u{624}', '\u{fe85}', 2),
    ('\u{625}', '\u{fe87}', 2),
    ('\u{626}', '\u{fe89}', 4),
    ('\u{627}', '\u{fe8d}', 2),
    ('\u{628}', '\u{fe8f}', 4),
    ('\u{629}', '\u{fe93}', 2),
    ('\u{62a}', '\u{fe95}', 4),
    ('\u{62b}', '\u{fe99}', 4),
    ('\u{62c}', '\u{fe9d}', 4),
    ('\u{62d}', '\u{fea1}', 4),
    ('\u{62e}', '\u{fea5}', 4),
    ('\u{62f}', '\u{fea9}', 2),
    ('\u{630}', '\u{feab}', 2),
    ('\u{631}', '\u{fead}', 2),
    ('\u{632}', '\u{feaf}', 2),
    ('\u{633}', '\u{feb1}', 4),
    ('\u{634}', '\u{feb5}', 4),
    ('\u{635}', '\u{feb9}', 4),
    ('\u{636}', '\u{febd}', 4),
    ('\u{637}', '\u{fec1}', 4),
    ('\u{638}', '\u{fec5}', 4),
    ('\u{639}', '\u{fec9}', 4),
    ('\u{63a}', '\u{fecd}', 4),
    ('\u{641}', '\u{fed1}', 4),
    ('\u{642}', '\u{fed5}', 4),
    ('\u{643}', '\u{fed9}', 4),
    ('\u{644}', '\u{fedd}', 4),
    ('\u{645}', '\u{fee1}', 4),
    ('\u{646}', '\u{fee5}', 4),
    ('\u{647}', '\u{fee9}', 4),
    ('\u{648}', '\u{feed}', 2),
    ('\u{649}', '\u{feef}', 2),
    ('\u{64a}', '\u{fef1}', 4),
    // Persian and Urdu.
    ('\u{67e}', '\u{fb56}', 4),
    ('\u{686}', '\u{fb7a}', 4),
    ('\u{698}', '\u{fb8a}', 2),
    ('\u{6a9}', '\u{fb8e}', 4),
    ('\u{6af}', '\u{fb92}', 4),
];
/// A horizontal stroke that joins both of its neighbours.
const TATWEEL: char = '\u{640}';

/// The side at which a text begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Direction {
    /// At the left.
    #[default]
    LeftToRight,
    /// At the right.
    RightToLeft,
}

impl Direction {
    /// Direction of a text, by its first letter with a direction.
    pub(super) fn of(text: &str) -> Self {
        match get_base_direction(text) {
            unicode_bidi::Direction::Rtl => Self::RightToLeft,
            unicode_bidi::Direction::Ltr | unicode_bidi::Direction::Mixed => Self::LeftToRight,
        }
    }
}

/// Whether a character has no width and only affects how its neighbours are drawn.
pub(super) fn is_joiner(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

/// Whether a text contains letters of right-to-left scripts.
pub(super) fn has_right_to_left(text: &str) -> bool {
    text.chars()
        .any(|c| matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}'))
}

/// Indices of a line's letters in visual order, from left to right. A combining mark stays behind its base letter.
pub(super) fn visual(letters: &[char], direction: Direction) -> Vec<usize> {
    let text: String = letters.iter().collect();
    let level = match direction {
        Direction::LeftToRight => Level::ltr(),
        Direction::RightToLeft => Level::rtl(),
    };
    let info = BidiInfo::new(&text, Some(level));
    let Some(paragraph) = info.paragraphs.first() else { return Vec::new() };
    let (levels, runs) = info.visual_runs(paragraph, paragraph.range.clone());
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let mut order = Vec::with_capacity(letters.len());
    for run in runs {
        let inside = (0..letters.len()).filter(|place| run.contains(&places[*place]));
        if !levels.get(run.start).is_some_and(Level::is_rtl) {
            order.extend(inside);
            continue;
        }
        let mut clusters: Vec<Vec<usize>> = Vec::new();
        for place in inside {
            match clusters.last_mut().filter(|_| is_mark(letters[place])) {
                Some(cluster) => cluster.push(place),
                None => clusters.push(vec![place]),
            }
        }
        order.extend(clusters.into_iter().rev().flatten());
    }
    order
}

/// Mirrors a paired character for right-to-left text.
pub(super) fn mirrored(letter: char) -> char {
    match letter {
        '(' => ')',
        ')' => '(',
        '[' => ']',
        ']' => '[',
        '{' => '}',
        '}' => '{',
        '<' => '>',
        '>' => '<',
        '«' => '»',
        '»' => '«',
        other => other,
    }
}

/// Replaces Arabic letters by the joined forms, as far as `has` reports that these forms are available.
pub(super) fn joined(word: &str, has: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !word.chars().any(|c| forms(c).is_some()) {
        return Cow::Borrowed(word);
    }
    let letters: Vec<char> = word.chars().collect();
    let mut text = String::with_capacity(word.len());
    let mut place = 0;
    while let Some(&letter) = letters.get(place) {
        let before = letters[..place].iter().rev().find(|letter| !is_mark(**letter));
        let after = letters[place + 1..].iter().find(|letter| !is_mark(**letter));
        let joins_before =
            before.is_some_and(|before| joins_next(*before)) && forms(letter).is_some_and(|(_, n)| n > 1);
        let ligature = letters.get(place + 1).and_then(|next| lam_alef(letter, *next));
        if let Some(form) =
            ligature.and_then(|form| shifted(form, u32::from(joins_before))).filter(|c| has(*c))
        {
            text.push(form);
            place += 2;
            continue;
        }
        let joins_after = joins_next(letter) && after.is_some_and(|after| joins_previous(*after));
        let form = match (joins_before, joins_after) {
            (false, false) => 0,
            (true, false) => 1,
            (false, true) => 2,
            (true, true) => 3,
        };
        let form = forms(letter).and_then(|(first, _)| shifted(first, form)).filter(|c| has(*c));
        text.push(form.unwrap_or(letter));
        place += 1;
    }
    Cow::Owned(text)
}

fn shifted(first: char, by: u32) -> Option<char> {
    char::from_u32(u32::from(first) + by)
}

fn forms(letter: char) -> Option<(char, u8)> {
    FORMS.iter().find(|(known, ..)| *known == letter).map(|(_, first, count)| (*first, *count))
}

fn joins_next(letter: char) -> bool {
    letter == TATWEEL || forms(letter).is_some_and(|(_, count)| count == 4)
}

fn joins_previous(letter: char) -> bool {
    letter == TATWEEL || forms(letter).is_some_and(|(_, count)| count > 1)
}

/// The isolated ligature of two letters, if there is one.
fn lam_alef(letter: char, next: char) -> Option<char> {
    match (letter, next) {
        ('\u{644}', '\u{622}') => Some('\u{fef5}'),
        ('\u{644}', '\u{623}') => Some('\u{fef7}'),
        ('\u{644}', '\u{625}') => Some('\u{fef9}'),
        ('\u{644}', '\u{627}') => Some('\u{fefb}'),
        _ => None,
    }
}

/// Whether a character is a vowel mark, written above or below a letter.
fn is_mark(letter: char) -> bool {
    matches!(letter, '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}' | '\u{5c2}' | '\u{64b}'..='\u{65f}' | '\u{670}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let letters: Vec<char> = text.chars().collect();
        visual(&letters, Direction::of(text)).into_iter().map(|place| letters[place]).collect()
    }

    #[test]
    fn lines_are_ordered_for_display() {
        let check = |text: &str, expected: &str| assert_eq!(shown(text), expected);
        check("plain 12", "plain 12");
        check("אבג", "גבא");
        check("אבג 42 abc.", ".abc 42 גבא");
        check("see אבג now", "see גבא now");
        // A vowel stays with its letter.
        check("א\u{5b8}ב", "בא\u{5b8}");
        check("", "");
        for (text, direction) in [
            ("12 שלום", Direction::RightToLeft),
            ("a שלום", Direction::LeftToRight),
            ("12", Direction::LeftToRight),
        ] {
            assert_eq!(Direction::of(text), direction);
        }
    }

    #[test]
    fn arabic_letters_are_shaped() {
        let check = |word: &str, expected: &str| assert_eq!(joined(word, |_| true), expected);
        check("plain", "plain");
        // Alone, and two, three that join.
        check("\u{628}", "\u{fe8f}");
        check("\u{628}\u{628}", "\u{fe91}\u{fe90}");
        check("\u{628}\u{628}\u{628}", "\u{fe91}\u{fe92}\u{fe90}");
        // Alef does not join the next letter; a mark does not separate.
        check("\u{627}\u{628}", "\u{fe8d}\u{fe8f}");
        check("\u{628}\u{64e}\u{628}", "\u{fe91}\u{64e}\u{fe90}");
        // Lam and alef are one glyph.
        check("\u{644}\u{627}", "\u{fefb}");
        check("\u{628}\u{644}\u{627}", "\u{fe91}\u{fefc}");
        assert_eq!(joined("\u{628}\u{628}", |_| false), "\u{628}\u{628}");
    }
}
