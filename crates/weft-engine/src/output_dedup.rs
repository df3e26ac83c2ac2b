//! Tracks the text that an activation streams, and which part of it was already streamed before: an activation that
//! resumes after a person has answered starts its text from the beginning, and readers must not see it twice.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weft_core::Piece;

/// The text that a node had streamed when its activation was suspended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaidSoFar {
    /// The visible text.
    pub text: String,
    /// The reasoning. It may be missing the second time, because models are not asked for it again.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub thinking: String,
}

impl SaidSoFar {
    /// Returns whether nothing was streamed.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.thinking.is_empty()
    }
}

/// The text that a run has streamed, by activation, in the order in which their texts began.
#[derive(Debug, Default)]
pub struct SaidTexts(Vec<(u32, String)>);

impl SaidTexts {
    /// Appends to the text of an activation.
    pub fn add(&mut self, activation: u32, text: &str) {
        // Searched from the end, because it nearly always belongs to the last activation.
        match self.0.iter_mut().rfind(|(of, _)| *of == activation) {
            Some((_, said)) => said.push_str(text),
            None => self.0.push((activation, text.to_owned())),
        }
    }

    /// Discards the text of an activation.
    pub fn take_back(&mut self, activation: u32) {
        self.0.retain(|(of, _)| *of != activation);
    }

    /// Returns the text of an activation.
    pub fn of(&self, activation: u32) -> &str {
        self.0.iter().rfind(|(of, _)| *of == activation).map_or("", |(_, said)| said)
    }

    /// Returns the activation whose text began last, among those that `meant` accepts.
    pub fn last_of(&self, meant: impl Fn(u32) -> bool) -> Option<u32> {
        self.0.iter().rev().map(|(of, _)| *of).find(|of| meant(*of))
    }

    /// Returns the total size of the texts, in bytes.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(_, said)| said.len()).sum()
    }

    /// Returns all texts, concatenated.
    pub fn whole(&self) -> String {
        self.0.iter().map(|(_, said)| said.as_str()).collect()
    }
}

/// The text and the reasoning of one activation.
#[derive(Debug)]
pub(crate) struct OutputDedup {
    text: SpokenText,
    thinking: SpokenText,
}

impl OutputDedup {
    /// Creates the tracker for a node that had streamed `before`.
    pub(crate) fn after(before: SaidSoFar) -> Self {
        Self { text: SpokenText::after(before.text), thinking: SpokenText::after(before.thinking) }
    }

    /// Adds a piece, and returns the part of it that is new.
    pub(crate) fn new_part(&mut self, piece: Piece) -> Option<Piece> {
        match piece {
            Piece::Text(text) => self.text.new_part(text).map(Piece::Text),
            Piece::Thinking(text) => self.thinking.new_part(text).map(Piece::Thinking),
        }
    }

    /// Returns whether the last piece was new.
    pub(crate) fn is_new(&self) -> bool {
        !self.text.repeats
    }

    /// Returns everything that was streamed, now and before.
    pub(crate) fn spoken(&self) -> SaidSoFar {
        SaidSoFar { text: self.text.whole().to_owned(), thinking: self.thinking.whole().to_owned() }
    }
}

#[derive(Debug)]
struct SpokenText {
    before: String,
    said: String,
    /// Whether all text so far repeats the earlier text.
    repeats: bool,
}

impl SpokenText {
    fn after(before: String) -> Self {
        Self { repeats: !before.is_empty(), before, said: String::new() }
    }

    fn new_part(&mut self, text: Arc<str>) -> Option<Arc<str>> {
        let known = if self.repeats { self.before.get(self.said.len()..).unwrap_or_default() } else { "" };
        let common = common_start(known, &text);
        // From the first difference on everything is new, even if later text matches again.
        self.repeats &= common == text.len() && common < known.len();
        self.said.push_str(&text);
        match text.get(common..) {
            Some("") if !text.is_empty() => None,
            Some(rest) if common > 0 => Some(rest.into()),
            Some(_) | None => Some(text),
        }
    }

    fn whole(&self) -> &str {
        // If it was suspended again before it repeated everything, readers have still seen the longer earlier text.
        if self.before.starts_with(&self.said) { &self.before } else { &self.said }
    }
}

/// Number of bytes in the common prefix of two texts, in whole characters.
fn common_start(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_shown_before_is_not_shown_again() {
        let check = |before: &str, pieces: &[&str], heard: &str, whole: &str| {
            let mut speech =
                OutputDedup::after(SaidSoFar { text: before.to_owned(), ..SaidSoFar::default() });
            let new = pieces.iter().filter_map(|&piece| speech.new_part(Piece::Text(piece.into())));
            let new: String = new
                .map(|piece| match piece {
                    Piece::Text(text) | Piece::Thinking(text) => text.to_string(),
                })
                .collect();
            assert_eq!(new, heard, "{before:?} {pieces:?}");
            assert_eq!(speech.spoken().text, whole, "{before:?} {pieces:?}");
        };
        check("", &["a", "b"], "ab", "ab");
        check("Let me see. ", &["Let me see. ", "Paris."], "Paris.", "Let me see. Paris.");
        check("Let me see. ", &["Let ", "me see. Par", "is."], "Paris.", "Let me see. Paris.");
        check("né", &["nö"], "ö", "nö");
        // It stops again before it has repeated what was shown before.
        check("abcd", &["ab"], "", "abcd");
        // Text that starts differently is new, and a later match with the old text is new too.
        check("abc", &["x", "abc"], "xabc", "xabc");
        check("ab", &["ab", "ab"], "ab", "abab");
    }

    #[test]
    fn reasoning_missing_on_replay_holds_nothing_back() {
        let before = SaidSoFar { text: "So: ".to_owned(), thinking: "hm".to_owned() };
        let mut speech = OutputDedup::after(before.clone());
        assert_eq!(speech.new_part(Piece::Text("So: ".into())), None);
        assert_eq!(speech.new_part(Piece::Text("yes".into())), Some(Piece::Text("yes".into())));
        let whole = SaidSoFar { text: "So: yes".to_owned(), ..before };
        assert_eq!(speech.spoken(), whole);
    }
}
