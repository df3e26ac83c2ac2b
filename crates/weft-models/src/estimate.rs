//! How many tokens a text has, roughly, for providers that do not say.

use weft_core::seam::chat_model::{ChatMessage, Usage};

/// What a provider adds around every message: the author and the borders.
const TOKENS_PER_MESSAGE: u64 = 4;
/// Letters of an alphabet that make one token, on average.
const LETTERS_PER_TOKEN: u64 = 4;

/// About how many tokens `text` has: four letters of an alphabet, one ideograph or one sign make a
/// token. Within a quarter of what the common vocabularies give for prose in English and Chinese.
pub fn tokens(text: &str) -> u64 {
    let mut tokens = 0;
    let mut letters = 0;
    for c in text.chars() {
        if c.is_alphanumeric() && !is_ideograph(c) {
            letters += 1;
            continue;
        }
        tokens += word(letters);
        letters = 0;
        if !c.is_whitespace() {
            tokens += 1;
        }
    }
    tokens + word(letters)
}

/// What a call used, when only its texts are known.
pub fn usage(messages: &[ChatMessage], answer: &str) -> Usage {
    let prompt_tokens = messages.iter().map(|m| tokens(&m.text) + TOKENS_PER_MESSAGE).sum();
    Usage { prompt_tokens, completion_tokens: tokens(answer), calls: 1 }
}

fn word(letters: u64) -> u64 {
    letters.div_ceil(LETTERS_PER_TOKEN)
}

/// Whether a character is a word by itself, or nearly: Han, kana, hangul.
pub(crate) fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c), 0x2e80..=0x2fdf | 0x3005..=0x3007 | 0x3040..=0x30ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff
        | 0xac00..=0xd7af | 0xf900..=0xfaff | 0x2_0000..=0x3_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_ideographs_and_signs_count() {
        let check = |text: &str, expected: u64| assert_eq!(tokens(text), expected, "{text}");
        check("", 0);
        check("the cat sat.", 4);
        check("internationalisation", 5);
        check("今天天气不错。", 7);
        check("北京 is a city", 5);
    }
}
