//! Estimates the number of tokens of a text that has not been tokenized.

/// Minimum number of letters of a Latin word per token: fewer than in any common vocabulary, so that the
/// estimate errs on the high side.
const LETTERS_A_TOKEN: usize = 3;

/// Returns an upper estimate of a text's tokens: one per three ASCII characters, and one per other character.
pub fn at_most(text: &str) -> usize {
    let narrow = text.bytes().filter(u8::is_ascii).count();
    let wide = text.chars().count() - narrow;
    wide + narrow.div_ceil(LETTERS_A_TOKEN)
}

#[cfg(test)]
mod tests {
    use super::at_most;

    #[test]
    fn wide_characters_count_as_one_token_each() {
        assert_eq!(at_most(""), 0);
        assert_eq!(at_most("abcd"), 2);
        assert_eq!(at_most("全文检索 x"), 5);
    }
}
