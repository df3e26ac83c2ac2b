//! How single characters are treated, and how many make a word.

use super::fold;

/// Maximum number of letters of a word; longer ones are truncated, since they are not words.
pub(super) const LETTERS_MAX: usize = 64;

/// How a character is processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CharTreatment {
    /// A separator.
    Gap,
    /// Part of a word delimited by spaces.
    Word,
    /// Segmented by the dictionary.
    Han,
    /// Split into pairs.
    Pairs,
}

impl CharTreatment {
    /// The treatment of a character.
    pub(super) fn of(c: char) -> Self {
        // Most text is ASCII, and this is called for each character.
        if c.is_ascii() {
            return if c.is_ascii_alphanumeric() { Self::Word } else { Self::Gap };
        }
        match u32::from(c) {
            0x3005..=0x3007 | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x3134f => {
                Self::Han
            }
            // Thai and Lao, Myanmar, Khmer, kana, hangul, half-width kana and hangul.
            0x0e00..=0x0eff
            | 0x1000..=0x109f
            | 0x1100..=0x11ff
            | 0x1780..=0x17ff
            | 0x3040..=0x30ff
            | 0x3130..=0x318f
            | 0x31f0..=0x31ff
            | 0xac00..=0xd7af
            | 0xff66..=0xffdc
                if c.is_alphabetic() || fold::is_mark(c) =>
            {
                Self::Pairs
            }
            _ if c.is_alphanumeric() || fold::is_mark(c) => Self::Word,
            _ => Self::Gap,
        }
    }
}
