//! How much room texts take, and texts made shorter.

/// A rough count of tokens: one for every four characters, one for every character of Chinese,
/// Japanese or Korean. It needs no vocabulary, and errs on the high side for English prose.
pub fn tokens(text: &str) -> usize {
    // Most texts, and without a look at each character.
    if text.is_ascii() {
        return text.len().div_ceil(4);
    }
    let wide = text.chars().filter(|c| is_cjk(*c)).count();
    let narrow = text.chars().count() - wide;
    wide + narrow.div_ceil(4)
}

fn is_cjk(c: char) -> bool {
    matches!(u32::from(c), 0x1100..=0x11ff | 0x2e80..=0x9fff | 0xac00..=0xd7af | 0xf900..=0xfaff | 0x20000..=0x3134f)
}

/// The first part of a text that costs at most `max` tokens.
pub fn cut(text: &str, max: usize) -> &str {
    // A window may be given any number, by whoever means that there is no limit.
    let mut quarters = 0_usize;
    for (place, c) in text.char_indices() {
        quarters += if is_cjk(c) { 4 } else { 1 };
        if quarters > max.saturating_mul(4) {
            return &text[..place];
        }
    }
    text
}

/// The beginning and the end of a text, together about `max` tokens, with a mark between them.
pub fn head_and_tail(text: &str, max: usize) -> String {
    const MARK: &str = "\n[… left out …]\n";
    let left = max.saturating_sub(tokens(MARK));
    // More of the beginning than of the end: there it says what it is.
    let of_head = left.saturating_mul(2) / 3;
    let head = cut(text, of_head);
    let mut quarters = 0_usize;
    let tail_from = text[head.len()..]
        .char_indices()
        .rev()
        .take_while(|(_, c)| {
            quarters += if is_cjk(*c) { 4 } else { 1 };
            quarters <= (left - of_head).saturating_mul(4)
        })
        .last()
        .map_or(text.len(), |(place, _)| head.len() + place);
    if tail_from <= head.len() {
        return text.to_owned();
    }
    format!("{head}{MARK}{}", &text[tail_from..])
}
