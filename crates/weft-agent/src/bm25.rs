//! Which texts have the words of a question, by Okapi BM25.

use std::collections::{HashMap, HashSet};

/// How much a word that comes again and again adds, and how much long texts are held back: the usual values of Okapi BM25
/// (Robertson and Zaragoza, 2009).
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// How often each word stands in a text.
pub type Counts = HashMap<String, usize>;

/// How well each text fits a question; 0 where none of its words stands.
pub fn scores(query: &str, texts: &[Counts]) -> Vec<f64> {
    let texts: Vec<(&Counts, usize)> = texts.iter().map(|text| (text, text.values().sum())).collect();
    weighed(&words(query).collect::<HashSet<_>>(), &texts)
}

/// The same for texts that nothing was counted in before.
pub(crate) fn scores_of<'t>(query: &str, texts: impl Iterator<Item = &'t str>) -> Vec<f64> {
    let asked: HashSet<String> = words(query).collect();
    // Only the words of the question are kept of each: all words of all texts would take gigabytes.
    let of_question = |text: &str| {
        let (mut counts, mut length) = (Counts::new(), 0);
        for word in words(text) {
            length += 1;
            if asked.contains(&word) {
                *counts.entry(word).or_default() += 1;
            }
        }
        (counts, length)
    };
    let texts: Vec<(Counts, usize)> = texts.map(of_question).collect();
    weighed(&asked, &texts.iter().map(|(counts, length)| (counts, *length)).collect::<Vec<_>>())
}

/// The scores of texts, each with the number of its words.
#[expect(clippy::cast_precision_loss, reason = "no text has so many words")]
fn weighed(asked: &HashSet<String>, texts: &[(&Counts, usize)]) -> Vec<f64> {
    let all: usize = texts.iter().map(|(_, length)| *length).sum();
    // At least 1: without a single word the division below would make every score not a number.
    let average = (all as f64 / texts.len().max(1) as f64).max(1.0);
    let rarity = |word: &str| {
        let with = texts.iter().filter(|(text, _)| text.contains_key(word)).count() as f64;
        // With the 1 inside, a word that stands in most texts still counts a little; without it such words
        // would lower a score.
        (1.0 + (texts.len() as f64 - with + 0.5) / (with + 0.5)).ln()
    };
    let mut scores = vec![0.0; texts.len()];
    for word in asked {
        let rarity = rarity(word);
        for (score, (text, length)) in scores.iter_mut().zip(texts) {
            let often = text.get(word).copied().unwrap_or(0) as f64;
            let held = K1 * (1.0 - B + B * *length as f64 / average);
            *score += rarity * often * (K1 + 1.0) / (often + held);
        }
    }
    scores
}

/// The places of the scores above 0, best first; of equal ones the first.
pub fn best(scores: &[f64]) -> Vec<usize> {
    let mut best: Vec<usize> = (0..scores.len()).filter(|place| scores[*place] > 0.0).collect();
    // `total_cmp`, so that the order is one order whatever the numbers, and the place after it, so that it is
    // always the same one.
    best.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
    best
}

/// The first `words_max` words of a text, counted.
pub fn counted(text: &str, words_max: usize) -> Counts {
    let mut counts = Counts::new();
    for word in words(text).take(words_max) {
        *counts.entry(word).or_default() += 1;
    }
    counts
}

/// The words of a text in small letters: cut where neither letters nor digits are and within `camelCase`, without a
/// plural's `s`. Where words are not set apart each sign is one.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    let mut found = Vec::new();
    let mut word = String::new();
    let mut small = false;
    let mut end = |word: &mut String| {
        let stem = match word.strip_suffix('s') {
            // "this" and "gas" are no plurals, and neither is "class".
            Some(stem) if stem.len() > 2 && !stem.ends_with('s') => stem.to_owned(),
            _ => word.clone(),
        };
        word.clear();
        if !stem.is_empty() {
            found.push(stem);
        }
    };
    for letter in text.chars() {
        let alone =
            // Kana, Han and Hangul: written without blanks, a sentence would be a single word.
            matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}');
        if alone || !letter.is_alphanumeric() || (small && letter.is_uppercase()) {
            end(&mut word);
        }
        if letter.is_alphanumeric() {
            word.extend(letter.to_lowercase());
        }
        if alone {
            end(&mut word);
        }
        small = letter.is_lowercase() || letter.is_ascii_digit();
    }
    end(&mut word);
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_as_people_read_them() {
        let check = |text: &str, expected: &[&str]| assert_eq!(words(text).collect::<Vec<_>>(), expected);
        check("getWeatherForecasts", &["get", "weather", "forecast"]);
        check("list_files-v2 (class)", &["list", "file", "v2", "class"]);
        check("查天气 now", &["查", "天", "气", "now"]);
        check("  ", &[]);
    }

    #[test]
    fn rare_words_count_most_and_long_texts_less() {
        let texts =
            ["the cat sleeps", "the dog sleeps", "the cat sleeps and sleeps and runs and eats", "dogs"];
        let counts = texts.map(|text| counted(text, 100));
        let found = |query: &str| best(&scores(query, &counts));
        assert_eq!(found("a cat"), [0, 2]);
        assert_eq!(found("Dog!"), [3, 1]);
        assert_eq!(found("zebra"), [0; 0]);
        assert_eq!(found(""), [0; 0]);
        assert_eq!(best(&scores("x", &[])), [0; 0]);
        // Counted beforehand or not makes no difference.
        for query in ["a cat", "Dog!", "zebra", ""] {
            assert_eq!(best(&scores_of(query, texts.iter().copied())), found(query), "{query}");
        }
    }
}
