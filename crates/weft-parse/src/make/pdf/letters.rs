//! Letters that no font here has.

use std::cell::RefCell;

/// Letters that are named, at most.
const NAMED_MAX: usize = 20;
/// What is set for a letter: the first that a font has.
pub(super) const INSTEAD: [char; 2] = ['\u{fffd}', '?'];

/// The letters of a document for which another sign was set, each of them once.
#[derive(Debug, Default)]
pub(super) struct Unwritable(RefCell<String>);

impl Unwritable {
    /// Takes note of one.
    pub(super) fn note(&self, letter: char) {
        let mut all = self.0.borrow_mut();
        if !all.contains(letter) && all.chars().count() < NAMED_MAX {
            all.push(letter);
        }
    }

    /// All of them.
    pub(super) fn all(&self) -> String {
        self.0.borrow().clone()
    }
}

/// A sign that says the same and that more fonts have.
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
