//! Turns a question into the words that are looked up.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use weft_core::seam::index::TextQuery;

use crate::analysis::{analyze, each_form};

/// Maximum number of different words looked up for one question.
// Each word scans its own list of occurrences, so the work grows with their number.
const WORDS_MAX: usize = 256;
/// Maximum number of bytes of a question that are read.
const QUESTION_MAX: usize = 64 * 1024;

/// A word that is looked up.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Word {
    /// The word in the form used for look-ups.
    pub term: String,
    /// Its weight: how often it occurs in the question.
    pub weight: f32,
    /// The word of the question that this is a form of: a word has one form per language.
    pub number: usize,
}

/// The highest score of a chunk that contains each word of a question once, in one of its forms.
#[derive(Debug, Default)]
pub(crate) struct Scale(HashMap<usize, f32>);

impl Scale {
    /// Adds a form that was found, with its worth.
    pub(crate) fn add(&mut self, word: &Word, worth: f32) {
        // Each word counts as its rarest form, however many of its forms exist.
        let most = self.0.entry(word.number).or_default();
        *most = most.max(worth);
    }

    /// Returns the sum of the words' worths.
    pub(crate) fn sum(&self) -> f32 {
        let mut worths: Vec<f32> = self.0.values().copied().collect();
        // Sorted, so that the sum is always the same.
        worths.sort_by(f32::total_cmp);
        worths.iter().sum()
    }
}

/// Returns the different words of a question. The most common ones are left out unless there are no others.
pub(crate) fn words(query: &TextQuery) -> Vec<Word> {
    let mut words = QuestionWords::default();
    words.read(&query.text, 1.0);
    for (keyword, weight) in query.keywords.iter().filter(|(_, weight)| weight.is_finite() && *weight > 0.0) {
        words.read(keyword, *weight);
    }
    let chosen = if words.telling.words.is_empty() { words.common } else { words.telling };
    let mut numbers = HashSet::new();
    // Counted by words and not by forms, of which each word has more than a dozen.
    let fits = |word: &Word| {
        numbers.contains(&word.number) || numbers.len() < WORDS_MAX && numbers.insert(word.number)
    };
    chosen.words.into_iter().filter(fits).collect()
}

#[derive(Default)]
struct QuestionWords {
    telling: WordList,
    common: WordList,
    /// Number of words read so far.
    count: usize,
}

/// Different words, with their positions in the list. A form may be in both lists: `will` says nothing, but
/// the stem of `wills` does.
#[derive(Default)]
struct WordList {
    words: Vec<Word>,
    places: HashMap<String, usize>,
}

impl WordList {
    fn add(&mut self, term: &str, weight: f32, number: usize) {
        match self.places.get(term) {
            Some(place) => self.words[*place].weight += weight,
            None => {
                self.places.insert(term.to_owned(), self.words.len());
                self.words.push(Word { term: term.to_owned(), weight, number });
            }
        }
    }
}

impl QuestionWords {
    fn read(&mut self, text: &str, weight: f32) {
        // Cut at a character boundary, searched from the end: there is always one close by.
        let end = (0..=text.len().min(QUESTION_MAX)).rev().find(|end| text.is_char_boundary(*end));
        let before = self.count;
        each_form(&text[..end.unwrap_or(0)], &mut |number, term, common| {
            self.count = before + number;
            let list = if common { &mut self.common } else { &mut self.telling };
            list.add(term, weight, self.count);
        });
    }
}

/// Returns the ranges of the question's words in a text, in order and without overlaps.
pub(crate) fn marks(text: &str, query: &TextQuery) -> Vec<Range<usize>> {
    let wanted: HashSet<String> = words(query).into_iter().map(|word| word.term).collect();
    let mut found: Vec<Range<usize>> = analyze(text)
        .into_iter()
        .filter(|token| wanted.contains(&token.term))
        .map(|token| token.range)
        .collect();
    // From left to right, the longest first, so that one pass merges all overlaps.
    found.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    let mut marks: Vec<Range<usize>> = Vec::new();
    for range in found {
        match marks.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => marks.push(range),
        }
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Vec<(String, f32)> {
        let query = TextQuery { text: text.to_owned(), keywords: Vec::new() };
        english(&query)
    }

    /// The words without their forms in other languages.
    fn english(query: &TextQuery) -> Vec<(String, f32)> {
        let words = words(query).into_iter().filter(|word| !word.term.starts_with('\u{1}'));
        words.map(|word| (word.term, word.weight)).collect()
    }

    #[test]
    fn common_words_are_searched_only_alone() {
        let check = |text: &str, expected: &[(&str, f32)]| {
            let found = asked(text);
            let found: Vec<(&str, f32)> =
                found.iter().map(|(term, weight)| (term.as_str(), *weight)).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("What is the deadline?", &[("deadlin", 1.0)]);
        check("to be or not to be", &[("to", 2.0), ("be", 2.0), ("or", 1.0), ("not", 1.0)]);
        check("退货的期限是什么", &[("退货", 1.0), ("期限", 1.0)]);
        check("是什么", &[("是", 1.0), ("什么", 1.0)]);
        check("", &[]);
        // A stop word, and the same letters as the stem of another word.
        check("who will read wills", &[("read", 1.0), ("will", 1.0)]);
    }

    #[test]
    fn keywords_have_their_weight() {
        let keywords =
            vec![("return policy".to_owned(), 0.5), ("x".to_owned(), f32::NAN), ("y".to_owned(), -1.0)];
        let query = TextQuery { text: "returns".to_owned(), keywords };
        let found = english(&query);
        assert_eq!(found, [("return".to_owned(), 1.5), ("polici".to_owned(), 0.5)]);
    }

    #[test]
    fn highlights_follow_the_search_rules() {
        let marked = |text: &str, question: &str| -> Vec<String> {
            let query = TextQuery { text: question.to_owned(), keywords: Vec::new() };
            marks(text, &query).into_iter().map(|mark| text[mark].to_owned()).collect()
        };
        assert_eq!(marked("The Searches of the KX-200.", "search kx-200"), ["Searches", "KX-200"]);
        assert_eq!(marked("中华人民共和国成立", "共和国"), ["共和国"]);
        assert_eq!(marked("退貨期限", "退货"), ["退貨"]);
        assert!(marked("", "x").is_empty());
    }

    #[test]
    fn a_word_has_a_form_in_each_language() {
        let query = TextQuery { text: "Wo sind die Häuser der Stadt?".to_owned(), keywords: Vec::new() };
        let words = words(&query);
        let numbers: HashSet<usize> = words.iter().map(|word| word.number).collect();
        assert_eq!(numbers.len(), 2, "German stop words are left out: {words:?}");
        let forms = |number: usize| words.iter().filter(|word| word.number == number).count();
        assert!(numbers.into_iter().all(|number| forms(number) > 2), "{words:?}");
        let mut scale = Scale::default();
        words.iter().for_each(|word| scale.add(word, word.weight));
        assert_eq!(scale.sum(), 2.0, "another form is not another word");
    }

    #[test]
    fn a_question_is_bounded() {
        let long: String = (0..100_000).map(|number| format!("word{number} ")).collect();
        assert_eq!(asked(&long).len(), WORDS_MAX);
        assert_eq!(asked(&"汉".repeat(50_000)).len(), 2);
    }
}
