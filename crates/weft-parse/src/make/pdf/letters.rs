//! Replacements for letters that no font contains, and line breaking rules.

use std::cell::RefCell;

/// Maximum number of missing letters that are reported.
const NAMED_MAX: usize = 20;
/// Replacements for a missing letter; the first one that a font contains is used.
pub(super) const INSTEAD: [char; 2] = ['\u{fffd}', '?'];

/// The letters of a document that were replaced, each once.
#[derive(Debug, Default)]
pub(super) struct Unwritable(RefCell<String>);

impl Unwritable {
    /// Records a letter.
    pub(super) fn note(&self, letter: char) {
        let mut all = self.0.borrow_mut();
        if !all.contains(letter) && all.chars().count() < NAMED_MAX {
            all.push(letter);
        }
    }

    /// Returns the recorded letters.
    pub(super) fn all(&self) -> String {
        self.0.borrow().clone()
    }
}

/// A character of the same meaning that more fonts contain.
pub(super) fn similar(letter: char) -> Option<char> {
    Some(match letter {
        '\u{2705}' => '\u{2714}',
        '\u{274c}' | '\u{274e}' | '\u{1f6ab}' => '\u{2718}',
        '\u{2b50}' | '\u{1f31f}' => '\u{2605}',
        '\u{2753}' | '\u{2754}' => '?',
        '\u{2755}' | '\u{2757}' => '!',
        '\u{2795}' => '+',
        '\u{2796}' => '\u{2212}',
        '\u{2797}' => '\u{f7}',
        '\u{27a1}' => '\u{2192}',
        '\u{2b05}' => '\u{2190}',
        '\u{2b06}' => '\u{2191}',
        '\u{2b07}' => '\u{2193}',
        '\u{1f534}'..='\u{1f535}' | '\u{1f7e0}'..='\u{1f7e4}' => '\u{25cf}',
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(letter) - 0xfee0)?,
        '\u{3001}' => ',',
        '\u{3002}' => '.',
        '\u{3000}' => ' ',
        _ => return None,
    })
}

/// Characters that must not begin a line.
const CLOSING: &str = "\u{ff0c}\u{3002}\u{3001}\u{ff1b}\u{ff1a}\u{ff01}\u{ff1f}\u{ff09}\u{300d}\u{300f}\u{3011}\u{3009}\u{300b}\u{3015}\
    \u{201d}\u{2019}\u{2026}\u{ff05}\u{30fb}\u{30fc}\u{3005}ぁぃぅぇぉっゃゅょァィゥェォッャュョ,.;:!?)]}%";
/// Characters that must not end a line.
const OPENING: &str = "\u{ff08}\u{300c}\u{300e}\u{3010}\u{3008}\u{300a}\u{3014}\u{201c}\u{2018}([{";

/// Whether a line may break between two letters.
pub(super) fn may_part(before: char, next: char) -> bool {
    if before.is_whitespace() != next.is_whitespace() {
        return true;
    }
    let may_end = is_ideograph(before) || is_ideograph(next);
    may_end && !CLOSING.contains(next) && !OPENING.contains(before)
}

/// Whether a letter belongs to a script without spaces between words.
fn is_ideograph(letter: char) -> bool {
    matches!(letter, '\u{3041}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_expected_places() {
        for (before, next, may) in [
            ('\u{6c49}', '\u{5b57}', true),
            ('\u{6c49}', '\u{ff0c}', false),
            ('\u{6c49}', '.', false),
            ('\u{ff0c}', '\u{6c49}', true),
            ('\u{300a}', '\u{6c49}', false),
            ('\u{6c49}', '\u{300a}', true),
            ('\u{30ab}', '\u{30fc}', false),
            ('\u{6c49}', 'a', true),
            ('a', 'b', false),
            ('a', ' ', true),
            (' ', ' ', false),
        ] {
            assert_eq!(may_part(before, next), may, "{before:?} {next:?}");
        }
    }
}
