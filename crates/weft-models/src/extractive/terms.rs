//! Finds what texts have in common: words of alphabets, pairs of ideographs.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::estimate::is_ideograph;

/// Words that carry no topic.
const STOP_WORDS: &[&str] = &[
    "a", "about", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can", "could", "did",
    "do", "does", "for", "from", "had", "has", "have", "how", "i", "if", "in", "into", "is", "it", "its",
    "many", "may", "me", "much", "my", "no", "not", "of", "on", "or", "our", "please", "should", "so",
    "tell", "than", "that", "the", "their", "them", "there", "these", "they", "this", "those", "to", "was",
    "we", "were", "what", "when", "where", "which", "who", "why", "will", "with", "would", "you", "your",
];
/// Ideographs of questions and grammar, which separate words rather than being part of them.
const STOP_IDEOGRAPHS: &str = "的了吗呢么是在和与或有我你他她它们这那哪谁吧啊请";

/// The distinct terms of a text.
#[derive(Debug, Default)]
pub(super) struct DistinctTerms(HashSet<String>);

impl DistinctTerms {
    pub(super) fn of(text: &str) -> Self {
        let mut terms = HashSet::new();
        let mut word = String::new();
        let mut run: Vec<char> = Vec::new();
        // One more character, to close the last word and the last run.
        for c in text.chars().chain([' ']) {
            let ideograph = is_ideograph(c);
            if c.is_alphanumeric() && !ideograph {
                word.extend(c.to_lowercase());
            } else if !word.is_empty() {
                terms.extend(stem(&std::mem::take(&mut word)));
            }
            if ideograph && !STOP_IDEOGRAPHS.contains(c) {
                run.push(c);
            } else if !run.is_empty() {
                terms.extend(pairs(&std::mem::take(&mut run)));
            }
        }
        Self(terms)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of common terms.
    pub(super) fn shared(&self, other: &Self) -> usize {
        self.0.intersection(&other.0).count()
    }
}

/// Whether a text is in a script of ideographs.
pub(super) fn has_ideographs(text: &str) -> bool {
    text.chars().any(is_ideograph)
}

fn pairs(run: &[char]) -> Vec<String> {
    if run.len() == 1 {
        return vec![run.iter().collect()];
    }
    run.windows(2).map(|pair| pair.iter().collect()).collect()
}

/// Removes the most common English endings, so that `costs` matches `cost`.
fn stem(word: &str) -> Option<String> {
    if STOP_WORDS.contains(&word) {
        return None;
    }
    // A short word would become a different one, and other scripts have other endings.
    if word.len() > 4 && word.is_ascii() {
        for (ending, instead) in [("ies", "y"), ("ing", ""), ("ed", ""), ("es", ""), ("s", ""), ("e", "")] {
            if let Some(start) =
                word.strip_suffix(ending).filter(|start| start.len() > 2 && !word.ends_with("ss"))
            {
                return Some(format!("{start}{instead}"));
            }
        }
    }
    Some(word.to_owned())
}

/// The weight of each term of a question. Ordered: floating-point sums depend on the order, and an answer must not
/// change from run to run.
pub(super) struct TermWeights(BTreeMap<String, f64>);

/// A term has more weight the fewer texts contain it.
pub(super) fn weigh(question: &DistinctTerms, texts: &[DistinctTerms]) -> TermWeights {
    // Iterates over the terms of the texts: a question may be as long as a prompt, and each of its terms would be
    // looked up in each text.
    let mut having: HashMap<&str, usize> = HashMap::new();
    for term in texts.iter().flat_map(|text| &text.0).filter(|term| question.0.contains(*term)) {
        *having.entry(term.as_str()).or_default() += 1;
    }
    let weight = |term: &String| {
        let having = having.get(term.as_str()).copied().unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "counts of sentences are far below 2^52")]
        let rarity = (texts.len() as f64 + 1.0) / (having as f64 + 0.5);
        (term.clone(), rarity.ln().max(0.05))
    };
    TermWeights(question.0.iter().map(weight).collect())
}

impl TermWeights {
    /// The weight of the terms that a text shares with the question, adjusted so that long texts do not win by length
    /// alone.
    pub(super) fn overlap(&self, text: &DistinctTerms) -> f64 {
        // Iterates over the terms of the text, as above; sorted for a deterministic sum.
        let mut shared: Vec<(&String, &f64)> =
            text.0.iter().filter_map(|term| self.0.get_key_value(term)).collect();
        shared.sort_unstable_by_key(|(term, _)| *term);
        let shared: f64 = shared.into_iter().map(|(_, weight)| weight).sum();
        #[expect(clippy::cast_precision_loss, reason = "counts of terms are far below 2^52")]
        let length = 1.0 + (text.0.len() as f64 / 40.0);
        shared / length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_stemmed_and_ideographs_paired() {
        let check = |text: &str, expected: &[&str]| {
            let mut found: Vec<String> = DistinctTerms::of(text).0.into_iter().collect();
            found.sort();
            assert_eq!(found, expected, "{text}");
        };
        check("What do the hotels cost?", &["cost", "hotel"]);
        check("Costs, policies and glass; GPT-4", &["4", "cost", "glass", "gpt", "policy"]);
        check("北京的天气", &["北京", "天气"]);
        check("雨", &["雨"]);
        check("", &[]);
    }

    #[test]
    fn a_long_question_is_compared_with_many_texts_quickly() {
        let words = |from: usize| (from..from + 30_000).map(|number| format!("word{number:07}x "));
        let question = DistinctTerms::of(&words(0).collect::<String>());
        let texts: Vec<DistinctTerms> = words(29_000).map(|word| DistinctTerms::of(&word)).collect();
        let begun = std::time::Instant::now();
        let weights = weigh(&question, &texts);
        let shared = texts.iter().filter(|text| weights.overlap(text) > 0.0).count();
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
        assert_eq!(shared, 1_000);
    }
}
