//! Ranks texts by the words of a question, with Okapi BM25.

use std::collections::{HashMap, HashSet};

/// How strongly repeated words count, and how strongly long texts are penalized: the usual values of Okapi BM25
/// (Robertson and Zaragoza, 2009).
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// How often each word occurs in a text.
pub type Counts = HashMap<String, usize>;

/// Scores how well each text matches a question; 0 when it contains none of its words.
pub fn scores(query: &str, texts: &[Counts]) -> Vec<f64> {
    let texts: Vec<(&Counts, usize)> = texts.iter().map(|text| (text, text.values().sum())).collect();
    weighed(&words(query).collect::<HashSet<_>>(), &texts)
}

/// Same as [`scores`], for texts whose words have not been counted yet.
pub(crate) fn scores_of<'t>(query: &str, texts: impl Iterator<Item = &'t str>) -> Vec<f64> {
    let asked: HashSet<String> = words(query).collect();
    // Only the words of the question are counted: all words of all texts would take gigabytes.
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

/// Scores texts that are each given with their number of words.
#[expect(clippy::cast_precision_loss, reason = "no text has so many words")]
fn weighed(asked: &HashSet<String>, texts: &[(&Counts, usize)]) -> Vec<f64> {
    let all: usize = texts.iter().map(|(_, length)| *length).sum();
    // At least 1: without a single word, the division below would make every score NaN.
    let average = (all as f64 / texts.len().max(1) as f64).max(1.0);
    let rarity = |word: &str| {
        let with = texts.iter().filter(|(text, _)| text.contains_key(word)).count() as f64;
        // Because of the 1 inside, a word that occurs in most texts still counts a little; without it such words
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

/// The positions of the scores above 0, best first; equal scores keep their order.
pub fn best(scores: &[f64]) -> Vec<usize> {
    let mut best: Vec<usize> = (0..scores.len()).filter(|place| scores[*place] > 0.0).collect();
    // `total_cmp` orders all numbers, NaN included, and the position breaks ties, so the order is deterministic.
    best.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
    best
}

/// Counts the first `words_max` words of a text.
pub fn counted(text: &str, words_max: usize) -> Counts {
    let mut counts = Counts::new();
    for word in words(text).take(words_max) {
        *counts.entry(word).or_default() += 1;
    }
    counts
}

/// The words of a text in lower case: split at everything that is neither letter nor digit and within `camelCase`,
/// without the `s` of a plural. In scripts that do not separate words, each character is a word.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    let mut found = Vec::new();
    let mut word = String::new();
    let mut small = false;
    let mut end = |word: &mut String| {
        let stem = match word.strip_suffix('s') {
            // "this", "gas" and "class" are not plurals.
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
            // Kana, Han and Hangul are written without spaces: a whole sentence would be a single word.
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
    fn words_are_tokenised_as_people_read_them() {
        let check = |text: &str, expected: &[&str]| assert_eq!(words(text).collect::<Vec<_>>(), expected);
        check("getWeatherForecasts", &["get", "weather", "forecast"]);
        check("list_files-v2 (class)", &["list", "file", "v2", "class"]);
        check("查天气 now", &["查", "天", "气", "now"]);
        check("  ", &[]);
    }

    #[test]
    fn rare_words_score_high_and_long_texts_low() {
        let texts =
            ["the cat sleeps", "the dog sleeps", "the cat sleeps and sleeps and runs and eats", "dogs"];
        let counts = texts.map(|text| counted(text, 100));
        let found = |query: &str| best(&scores(query, &counts));
        assert_eq!(found("a cat"), [0, 2]);
        assert_eq!(found("Dog!"), [3, 1]);
        assert_eq!(found("zebra"), [0; 0]);
        assert_eq!(found(""), [0; 0]);
        assert_eq!(best(&scores("x", &[])), [0; 0]);
        // Counting in advance makes no difference.
        for query in ["a cat", "Dog!", "zebra", ""] {
            assert_eq!(best(&scores_of(query, texts.iter().copied())), found(query), "{query}");
        }
    }
}
