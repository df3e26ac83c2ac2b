//! How similar two texts are, and where they differ. Pure.

use std::collections::HashMap;

use weft_core::value::shortened;

/// Number of characters that are shown around the place where two texts differ.
const AROUND: usize = 30;
/// Maximum number of characters of a text that are shown.
pub(crate) const SHOWN_MAX: usize = 300;

/// Returns the similarity of two texts, 0 to 1: the share of words, and of pairs of adjacent words, that both have
/// (Dice). Case and punctuation are ignored; each ideograph is a word.
pub(crate) fn similarity(one: &str, two: &str) -> f64 {
    let (one, two) = (words(one), words(two));
    // Their share would be zero divided by zero.
    if one.is_empty() && two.is_empty() {
        return 1.0;
    }
    let (first, second) = (counts(&one), counts(&two));
    let common: usize =
        first.iter().map(|(part, count)| (*count).min(second.get(part).copied().unwrap_or(0))).sum();
    let total: usize = first.values().chain(second.values()).sum();
    #[expect(clippy::cast_precision_loss, reason = "texts are far shorter than 2^52 words")]
    let share = 2.0 * common as f64 / total as f64;
    share
}

fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    for c in text.chars() {
        if c.is_alphanumeric() && !is_ideograph(c) {
            word.extend(c.to_lowercase());
            continue;
        }
        if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if is_ideograph(c) {
            words.push(c.to_string());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

fn counts(words: &[String]) -> HashMap<(&str, &str), usize> {
    let mut counts = HashMap::new();
    let singles = words.iter().map(|word| (word.as_str(), ""));
    let pairs = words.windows(2).filter_map(|pair| Some((pair.first()?.as_str(), pair.get(1)?.as_str())));
    singles.chain(pairs).for_each(|part| *counts.entry(part).or_insert(0) += 1);
    counts
}

/// Returns both texts from shortly before the place where they differ, cut to a readable length. Common text before and
/// after it is replaced by `…`.
pub(crate) fn differing(one: &str, two: &str) -> (String, String) {
    let (one, two): (Vec<char>, Vec<char>) = (one.chars().collect(), two.chars().collect());
    let same = one.iter().zip(&two).take_while(|(a, b)| a == b).count();
    // The common beginning must not be counted again from the end: `aa` and `aaa` have two letters in common.
    let most = one.len().min(two.len()) - same;
    let tail = one.iter().rev().zip(two.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(AROUND);
    let part = |text: &[char]| {
        let to = (text.len() - tail + AROUND).min(text.len());
        let middle: String = text.get(from..to).unwrap_or_default().iter().collect();
        let (before, after) = (if from > 0 { "…" } else { "" }, if to < text.len() { "…" } else { "" });
        format!("{before}{}{after}", short(&middle))
    };
    (part(&one), part(&two))
}

/// Cuts a text to a readable length.
pub(crate) fn short(text: &str) -> String {
    shortened(text, SHOWN_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn likeness() {
        let alike = |one, two| (similarity(one, two) * 100.0).round();
        assert_eq!(alike("The cat sat.", "the CAT sat"), 100.0);
        assert_eq!(alike("the cat sat", "a dog ran"), 0.0);
        assert!(alike("the cat sat on the mat", "the cat sat on a mat") > 70.0);
        assert!(alike("cat sat the on mat the", "the cat sat on the mat") < 80.0, "order counts");
        assert!(alike("今天天气很好", "今天天气不好") > 50.0);
        assert_eq!(alike("", "…"), 100.0);
    }

    #[test]
    fn only_the_differing_part_is_shown() {
        let long = "x".repeat(100);
        let (one, two) = differing(&format!("{long}A{long}"), &format!("{long}BC{long}"));
        let around = "x".repeat(AROUND);
        assert_eq!((one, two), (format!("…{around}A{around}…"), format!("…{around}BC{around}…")));
        assert_eq!(differing("ab", "ab"), ("ab".to_owned(), "ab".to_owned()));
        assert_eq!(differing("", "a"), (String::new(), "a".to_owned()));
        assert_eq!(differing("aa", "aaa"), ("aa".to_owned(), "aaa".to_owned()));
    }

    proptest! {
        #[test]
        fn similarity_is_symmetric_and_between_zero_and_one(one in "\\PC{0,40}", two in "\\PC{0,40}") {
            let share = similarity(&one, &two);
            prop_assert!((0.0..=1.0).contains(&share));
            prop_assert_eq!(share, similarity(&two, &one));
            prop_assert_eq!(similarity(&one, &one), 1.0);
        }

        #[test]
        fn a_difference_is_short_for_any_texts(one in "\\PC{0,900}", two in "\\PC{0,900}") {
            let (a, b) = differing(&one, &two);
            prop_assert!(a.chars().count() <= SHOWN_MAX + 3 && b.chars().count() <= SHOWN_MAX + 3);
        }
    }
}
