//! Counts tokens in the vocabulary `cl100k_base`.
//!
//! Models and embedders have vocabularies of their own, whose counts differ by a few percent; this one measures the
//! limits of chunks and the budgets of prompts.

use std::cell::RefCell;

use bpe_openai::appendable_encoder::AppendableEncoder;
use bpe_openai::{Tokenizer, cl100k_base};

/// Number of cached word lengths per thread; a power of two.
const REMEMBERED: usize = 1 << 14;
/// Maximum length of a cached word, in bytes.
const REMEMBERED_BYTES_MAX: usize = 15;

/// Number of tokens in a text. The vocabulary is loaded at the first call and stays in memory.
pub fn tokens(text: &str) -> u32 {
    let mut sum = 0_u32;
    for word in words(text) {
        sum = sum.saturating_add(word_tokens(word));
    }
    sum
}

/// Splits a text into the parts that are tokenized independently; concatenated, they are the text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    tokenizer().split(text)
}

/// Number of tokens in such a part.
pub(crate) fn word_tokens(word: &str) -> u32 {
    let bytes = word.as_bytes();
    match bytes.len() {
        0 => 0,
        // Every single byte is a token.
        1 => 1,
        2..=REMEMBERED_BYTES_MAX => MEMORY.with_borrow_mut(|memory| memory.count(bytes)),
        _ => counted(bytes),
    }
}

/// Length in bytes of the longest prefix of a word that has at most `tokens` tokens and ends at a character boundary.
pub(crate) fn fitting(word: &str, tokens: u32) -> usize {
    let mut encoder = AppendableEncoder::new(&tokenizer().bpe);
    let mut fits = 0;
    for (at, c) in word.char_indices() {
        let end = at + c.len_utf8();
        encoder.extend(word.as_bytes()[at..end].iter().copied());
        let count = u32::try_from(encoder.token_count()).unwrap_or(u32::MAX);
        if count > tokens {
            break;
        }
        fits = end;
    }
    fits
}

fn tokenizer() -> &'static Tokenizer {
    cl100k_base()
}

fn counted(bytes: &[u8]) -> u32 {
    u32::try_from(tokenizer().bpe.count(bytes)).unwrap_or(u32::MAX)
}

thread_local! {
    static MEMORY: RefCell<TokenCountCache> = RefCell::new(TokenCountCache::default());
}

/// A cache of token counts. Most words of a text have occurred before, and a lookup is ten times faster than counting.
struct TokenCountCache {
    known: Vec<(u128, u32)>,
}

impl Default for TokenCountCache {
    fn default() -> Self {
        Self { known: vec![(0, 0); REMEMBERED] }
    }
}

impl TokenCountCache {
    fn count(&mut self, bytes: &[u8]) -> u32 {
        let mut key = [0_u8; 16];
        key[..bytes.len()].copy_from_slice(bytes);
        // The length is part of the key, so no key is 0, and a word differs from the same word with trailing zero
        // bytes.
        key[REMEMBERED_BYTES_MAX] = bytes.len() as u8;
        let key = u128::from_le_bytes(key);
        let folded = (key as u64) ^ ((key >> 64) as u64).rotate_left(29);
        // Fibonacci hashing: the upper 14 bits of the product with the golden ratio.
        let place = (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize % REMEMBERED;
        let entry = &mut self.known[place];
        if entry.0 != key {
            *entry = (key, counted(bytes));
        }
        entry.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_match_the_vocabulary() {
        let check = |text: &str, expected: u32| {
            assert_eq!(tokens(text), expected, "{text:?}");
            assert_eq!(tokens(text), expected, "{text:?}, remembered");
        };
        check("", 0);
        check("hello world", 2);
        check("tiktoken is great!", 6);
        check("2 + 2 = 4", 7);
        check("お誕生日おめでとう", 9);
        check("antidisestablishmentarianism", 6);
    }

    #[test]
    fn counting_by_words_equals_counting_the_whole() {
        for text in [
            "don't  stop\n\n  now 12345",
            "日本語とEnglish、混ぜて。\r\n\r\n再び",
            "a\0b\u{200d}👩‍👩‍👧 ",
            "\t\t x",
        ] {
            assert_eq!(tokens(text) as usize, cl100k_base().count(text), "{text:?}");
            assert_eq!(words(text).collect::<String>(), text);
        }
    }

    #[test]
    fn a_word_is_split_at_token_boundaries() {
        let word = "汉字没有空格也没有标点符号".repeat(9);
        for room in 0..30 {
            let fits = fitting(&word, room);
            assert!(word.is_char_boundary(fits));
            assert!(tokens(&word[..fits]) <= room);
        }
        assert_eq!(fitting(&word, 10_000), word.len());
    }
}
