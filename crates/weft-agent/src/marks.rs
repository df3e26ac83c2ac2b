//! Citation marks in the text of a model: all of one form, `[ID:n]`, and each leading to a source.

mod code;
mod neutral;
mod scan;

use weft_core::citation::Citations;

pub use neutral::neutral;

use code::Code;
use neutral::restored;
use scan::{Ahead, Mark, Seen, recognise};

/// Puts the marks of a text right while it is being written.
///
/// Variants such as `(ID: 3)`, `【ID: 3】`, `[ref 3]`, `ref3`, `##3$$` and `[ID:0, 2]` become `[ID:3]` or
/// `[ID:0][ID:2]`; marks that lead nowhere are left out, together with one blank before them. Code, in
/// fences or in line, stays as it is. So does everything as long as there are no sources at all; but `[ID:n]` leads
/// nowhere where sources were looked for, or the model has been [told to cite](MarkFilter::told_to_cite). Marks that a document holds ([`neutral`]) look as
/// they were written and are none.
///
/// The output does not depend on how the text is cut into pieces. Not more than 80 characters are held back.
#[derive(Debug)]
pub struct MarkFilter {
    sources: Citations,
    held: String,
    code: Code,
    before: Option<char>,
    /// How much of `[ID:` and a number stands at the end of what is written: a mark that is left out must
    /// not make a new one of what stands around it.
    begun: u8,
    told: bool,
}

impl MarkFilter {
    /// A filter for marks that lead to these sources, which may become more while the text grows.
    pub fn new(sources: Citations) -> Self {
        Self { sources, held: String::new(), code: Code::default(), before: None, begun: 0, told: false }
    }

    /// The model has been asked for marks of the form `[ID:n]`: those lead nowhere also when nothing was
    /// found that they could lead to.
    #[must_use]
    pub fn told_to_cite(self) -> Self {
        Self { told: true, ..self }
    }

    /// Takes a piece of text and returns what is certain by now.
    pub fn push(&mut self, text: &str) -> String {
        self.held.push_str(text);
        self.settle(Ahead::Unknown)
    }

    /// The text is over: the rest of it.
    pub fn finish(mut self) -> String {
        self.settle(Ahead::Nothing)
    }

    fn settle(&mut self, ahead: Ahead) -> String {
        let held = std::mem::take(&mut self.held);
        let mut out = String::with_capacity(held.len());
        let mut rest = held.as_str();
        // Character by character, so that the same text comes out however it was cut into pieces.
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

    /// What to write for a mark. Nothing when there are no sources that it could lead to or miss.
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
        // A mark that is left out leaves what stood before it as its neighbour.
        self.before = text.chars().next_back().or(self.before);
        text.chars().for_each(|c| restored(c, out));
    }
}

/// Puts the marks of a whole text right, as [`MarkFilter`] does.
pub fn repair(text: &str, sources: &Citations) -> String {
    let mut filter = MarkFilter::new(sources.clone());
    let mut repaired = filter.push(text);
    repaired.push_str(&filter.finish());
    repaired
}

#[cfg(test)]
mod tests;
