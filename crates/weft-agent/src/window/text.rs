//! Estimates the size of texts in tokens, and shortens them.

use weft_core::Json;

/// A string inside a shortened object is not cut to fewer than this many tokens.
const INNER_TEXT_MIN: usize = 24;

/// A rough token count: one per four characters, and one per character of Chinese, Japanese or Korean. It needs no
/// vocabulary and tends to overestimate English prose.
pub fn tokens(text: &str) -> usize {
    // The common case, without examining each character.
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

/// The beginning of a text, up to `max` tokens.
pub fn cut(text: &str, max: usize) -> &str {
    // Callers may pass any number to mean that there is no limit.
    let mut quarters = 0_usize;
    for (place, c) in text.char_indices() {
        quarters += if is_cjk(c) { 4 } else { 1 };
        if quarters > max.saturating_mul(4) {
            return &text[..place];
        }
    }
    text
}

/// A JSON object of at most about `max` tokens: the object in the text, with its long strings shortened; if that is
/// not enough, or the text is not an object, one that contains the beginning and the end of the text.
pub(super) fn shorter_object(text: &str, max: usize) -> String {
    if let Ok(mut object @ Json::Object(_)) = serde_json::from_str(text) {
        // An eighth is left for the names and the brackets around the texts.
        let mut most = max.saturating_sub(max / 8);
        while most >= INNER_TEXT_MIN {
            shorten_texts(&mut object, most);
            let shorter = object.to_string();
            if tokens(&shorter) <= max {
                return shorter;
            }
            most /= 2;
        }
    }
    // Quotes and line breaks take twice their size inside a string.
    Json::from_iter([("shortened", head_and_tail(text, max / 2))]).to_string()
}

fn shorten_texts(value: &mut Json, most: usize) {
    match value {
        Json::String(text) if tokens(text) > most => *text = head_and_tail(text, most),
        Json::Array(items) => items.iter_mut().for_each(|item| shorten_texts(item, most)),
        Json::Object(members) => members.values_mut().for_each(|member| shorten_texts(member, most)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

/// The beginning and the end of a text, together about `max` tokens, with a mark between them.
pub fn head_and_tail(text: &str, max: usize) -> String {
    const MARK: &str = "\n[… left out …]\n";
    let left = max.saturating_sub(tokens(MARK));
    // More of the beginning than of the end, because it says what the text is about.
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
