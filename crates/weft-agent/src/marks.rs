//! Citation marks in a model's text: normalized to the form `[ID:n]`, each leading to a source.

mod code;
mod neutral;
mod scan;

use weft_core::citation::Citations;

pub use neutral::neutral;

use code::Code;
use neutral::restored;
use scan::{Ahead, Mark, Seen, recognise};

/// Corrects the citation marks of a text while it is being written.
///
/// Variants such as `(ID: 3)`, `【ID: 3】`, `[ref 3]`, `ref3`, `##3$$` and `[ID:0, 2]` become `[ID:3]` or
/// `[ID:0][ID:2]`; marks without a source are removed, together with one space before them. Code, fenced or inline,
/// is unchanged. So is everything else while there are no sources at all, except `[ID:n]` when sources were searched
/// for or the model has been [told to cite](MarkFilter::told_to_cite). Marks contained in a document ([`neutral`])
/// look as they were written, but are not citations.
///
/// The output does not depend on how the text is split into pieces. At most 80 characters are held back.
#[derive(Debug)]
pub struct MarkFilter {
    sources: Citations,
    held: String,
    code: Code,
    before: Option<char>,
    /// How much of `[ID:` and a number the output ends with: removing a mark must not form a new one from the text
    /// around it.
    begun: u8,
    told: bool,
}

impl MarkFilter {
    /// A filter for marks that lead to these sources, more of which may be added while the text grows.
    pub fn new(sources: Citations) -> Self {
        Self { sources, held: String::new(), code: Code::default(), before: None, begun: 0, told: false }
    }

    /// Marks that the model was asked for marks of the form `[ID:n]`: those are then removed even when no sources
    /// were found.
    #[must_use]
    pub fn told_to_cite(self) -> Self {
        Self { told: true, ..self }
    }

    /// Takes a piece of text and returns the text that is final by now.
    pub fn push(&mut self, text: &str) -> String {
        self.held.push_str(text);
        self.settle(Ahead::Unknown)
    }

    /// Ends the text and returns the rest of it.
    pub fn finish(mut self) -> String {
        self.settle(Ahead::Nothing)
    }

    fn settle(&mut self, ahead: Ahead) -> String {
        let held = std::mem::take(&mut self.held);
        let mut out = String::with_capacity(held.len());
        let mut rest = held.as_str();
        // Character by character, so that the output is the same however the text is split into pieces.
        while let Some(c) = rest.chars().next() {
            let seen = if self.code.is_prose() { recognise(rest, self.before, ahead) } else { Seen::Nothing };
            match seen {
                Seen::Perhaps => break,
                Seen::Mark(mark) => {
                    let (as_written, behind) = rest.split_at(mark.length);
                    let text = self.replacement(&mark, as_written).unwrap_or_else(|| as_written.to_owned());
                    self.emit(&text, &mut out);
                    rest = behind;
                }
                Seen::Nothing => {
                    let (character, behind) = rest.split_at(c.len_utf8());
                    self.emit(character, &mut out);
                    rest = behind;
                }
            }
        }
        self.held = rest.to_owned();
        out
    }

    /// The replacement of a mark; `None` when there are no sources that it could refer to or miss.
    fn replacement(&self, mark: &Mark, as_written: &str) -> Option<String> {
        let sources = self.sources.all();
        let expected = self.told || self.sources.was_searched();
        if sources.is_empty() && !(expected && as_written.trim_start().starts_with("[ID:")) {
            return None;
        }
        let known =
            mark.numbers.iter().filter(|number| sources.iter().any(|source| source.number == **number));
        let marks: String = known.map(|number| format!("[ID:{number}]")).collect();
        Some(match (marks.is_empty(), mark.after_blank) {
            // Something has to stand there, or the text before and behind it would join to a mark.
            (true, _) if self.begun > 0 => "…".to_owned(),
            (true, _) => String::new(),
            (false, true) => format!(" {marks}"),
            (false, false) => marks,
        })
    }

    fn emit(&mut self, text: &str, out: &mut String) {
        for c in text.chars() {
            self.code.step(c);
            self.begun = match (self.begun, c) {
                (_, '[') => 1,
                (1, 'I') => 2,
                (2, 'D') => 3,
                (3, ':') => 4,
                (4, _) if c.is_ascii_digit() || c.is_whitespace() || c == '+' => 4,
                _ => 0,
            };
        }
        // When a mark is removed, the character before it becomes the neighbour of what follows.
        self.before = text.chars().next_back().or(self.before);
        text.chars().for_each(|c| restored(c, out));
    }
}

/// Corrects the marks of a whole text, as [`MarkFilter`] does.
pub fn repair(text: &str, sources: &Citations) -> String {
    let mut filter = MarkFilter::new(sources.clone());
    let mut repaired = filter.push(text);
    repaired.push_str(&filter.finish());
    repaired
}

#[cfg(test)]
mod tests;
