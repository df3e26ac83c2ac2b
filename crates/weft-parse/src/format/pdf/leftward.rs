//! Right-to-left text, ordered by the positions of its glyphs.
//!
//! Files store such text in reading order, in visual order, or with words in one order and their letters in the other.
//! The positions of the glyphs are the same in all cases.

use pdf_oxide::layout::TextChar;
use unicode_bidi::{BidiClass, bidi_class};

/// Minimum gap between glyphs that counts as a space, as a multiple of the type size.
const BLANK: f32 = 0.2;
/// The same for a line that contains space characters, since some letters leave a lot of room after them.
const BLANK_BESIDE_OTHERS: f32 = 0.6;

/// Positive for text that is read from left to right, negative for text that is read from right to left.
pub(super) fn direction(text: &str) -> i32 {
    text.chars().map(of).sum()
}

fn of(letter: char) -> i32 {
    match bidi_class(letter) {
        BidiClass::R | BidiClass::AL => -1,
        BidiClass::L | BidiClass::EN | BidiClass::AN => 1,
        _ => 0,
    }
}

/// Text of the glyphs of one line, read from right to left; numbers and words of other scripts within it are read from
/// left to right.
pub(super) fn text(glyphs: &[&TextChar], size: f32) -> String {
    let is_mark = |glyph: &&&TextChar| bidi_class(glyph.char) == BidiClass::NSM;
    let (marks, mut letters): (Vec<&TextChar>, Vec<&TextChar>) = glyphs.iter().partition(is_mark);
    letters.sort_by(|one, other| other.origin_x.total_cmp(&one.origin_x));
    let mut read: Vec<(char, Vec<char>)> = Vec::with_capacity(glyphs.len());
    let mut places = Vec::with_capacity(letters.len());
    let has_blanks = letters.iter().any(|letter| letter.char.is_whitespace());
    let apart = size * if has_blanks { BLANK_BESIDE_OTHERS } else { BLANK };
    for letter in letters {
        let right = letter.origin_x + letter.advance_width;
        let is_apart = places.last().is_some_and(|(_, left)| left - right > apart);
        let is_blank = read.last().is_some_and(|(last, _)| last.is_whitespace());
        if is_apart && !is_blank && !letter.char.is_whitespace() {
            read.push((' ', Vec::new()));
        }
        places.push((read.len(), letter.origin_x));
        read.push((letter.char, Vec::new()));
    }
    for mark in marks {
        // A mark belongs to the letter whose origin is nearest.
        let over = places
            .iter()
            .min_by(|one, other| (one.1 - mark.origin_x).abs().total_cmp(&(other.1 - mark.origin_x).abs()));
        if let Some((_, marks)) = over.and_then(|(at, _)| read.get_mut(*at)) {
            marks.push(mark.char);
        }
    }
    turn_runs(&mut read);
    read.into_iter().flat_map(|(letter, marks)| std::iter::once(letter).chain(marks)).collect()
}

/// Reverses the words of a line, for when only the position of each word is known.
pub(super) fn words_reversed(text: &str) -> String {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    words.reverse();
    let mut at = 0;
    while at < words.len() {
        // Words that are read from left to right keep their order.
        let run = words[at..].iter().take_while(|word| direction(word) > 0).count();
        words[at..at + run].reverse();
        at += run.max(1);
    }
    words.join(" ")
}

/// Reverses the left-to-right runs within the text.
fn turn_runs(read: &mut [(char, Vec<char>)]) {
    let mut at = 0;
    while at < read.len() {
        let length = read[at..].iter().take_while(|(letter, _)| of(*letter) >= 0).count();
        let run = &mut read[at..at + length];
        // Signs and spaces at the ends of a run belong to the text around it.
        let first = run.iter().position(|(letter, _)| of(*letter) > 0);
        let last = run.iter().rposition(|(letter, _)| of(*letter) > 0);
        if let (Some(first), Some(last)) = (first, last) {
            run[first..=last].reverse();
        }
        at += length.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::{direction, turn_runs, words_reversed};

    fn turned(text: &str) -> String {
        let mut read: Vec<(char, Vec<char>)> = text.chars().map(|letter| (letter, Vec::new())).collect();
        turn_runs(&mut read);
        read.into_iter().map(|(letter, _)| letter).collect()
    }

    #[test]
    fn numbers_and_other_scripts_are_read_left_to_right() {
        assert_eq!(turned("אב 543.21 גד"), "אב 12.345 גד");
        assert_eq!(turned("אב (ba dc) גד"), "אב (cd ab) גד");
        assert_eq!(turned("אב"), "אב");
        assert_eq!(words_reversed("ג 12 34 ב א"), "א ב 12 34 ג");
        assert!(direction("אב 1") < 0 && direction("a 1 ב") > 0);
    }
}
