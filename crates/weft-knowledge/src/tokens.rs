//! How much room a text takes for a model, where nobody has counted.

/// Letters of Latin words that are one token at least: fewer than in any common vocabulary, so that the
/// count errs on the high side.
const LETTERS_A_TOKEN: usize = 3;

/// Tokens of a text, rather too many than too few: one for every three ASCII characters, one for every
/// other character.
pub fn at_most(text: &str) -> usize {
    let narrow = text.bytes().filter(u8::is_ascii).count();
    let wide = text.chars().count() - narrow;
    wide + narrow.div_ceil(LETTERS_A_TOKEN)
}

#[cfg(test)]
mod tests {
    use super::at_most;

    #[test]
    fn wide_characters_count_one_each() {
        assert_eq!(at_most(""), 0);
        assert_eq!(at_most("abcd"), 2);
        assert_eq!(at_most("全文检索 x"), 5);
    }
}
