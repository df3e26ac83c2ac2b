//! Finds headings in the lines of a text: in plain text, chapters and articles begin on lines within a paragraph.

use std::ops::Range;

use super::draft::PieceDraft;
use super::flow::{Joint, Placed};
use super::numbering::{NumberMarker, line_marker};
use crate::element::{Element, ElementBody};

/// Elements, in which numbered lines of a paragraph are elements of their own.
#[derive(Debug, Default)]
pub(crate) struct NumberedLines<'a> {
    lines: Vec<TextLine<'a>>,
}

#[derive(Debug)]
struct TextLine<'a> {
    placed: Placed<'a>,
    /// The line, if it is only a part of its element.
    own: Option<Element>,
    /// Index of its element.
    origin: usize,
}

impl TextLine<'_> {
    fn placed(&self) -> Placed<'_> {
        Placed { element: self.own.as_ref().unwrap_or(self.placed.element), ..self.placed }
    }
}

impl<'a> NumberedLines<'a> {
    /// Splits paragraphs before and after numbered lines.
    pub(crate) fn new(placed: &[Placed<'a>]) -> Self {
        let mut lines = Self::default();
        for (origin, placed) in placed.iter().enumerate() {
            let parts = match &placed.element.body {
                ElementBody::Paragraph(text) => parts(text),
                _ => Vec::new(),
            };
            if parts.len() < 2 {
                lines.lines.push(TextLine { placed: *placed, own: None, origin });
                continue;
            }
            for (number, text) in parts.into_iter().enumerate() {
                let joint = if number == 0 { placed.joint } else { Joint::Line };
                let body = ElementBody::Paragraph(text);
                let own = Element::new(body, placed.element.positions.clone());
                lines.lines.push(TextLine { placed: Placed { joint, ..*placed }, own: Some(own), origin });
            }
        }
        lines
    }

    /// Returns the elements, one for each line.
    pub(crate) fn placed(&self) -> Vec<Placed<'_>> {
        self.lines.iter().map(TextLine::placed).collect()
    }

    /// Removes elements.
    pub(crate) fn remove(&mut self, range: Range<usize>) {
        self.lines.drain(range);
    }

    /// Replaces the element indices of chunks with those of the original elements.
    pub(crate) fn restore(&self, drafts: &mut [PieceDraft]) {
        let origin = |at: usize| self.lines.get(at).map(|line| line.origin);
        for draft in drafts {
            let last = draft.elements.end.checked_sub(1).and_then(origin).map_or(0, |at| at + 1);
            draft.elements = origin(draft.elements.start).unwrap_or(0)..last;
        }
    }
}

/// Cuts a text before each numbered line, and also after it if the line is only a title.
fn parts(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut is_closed = true;
    for line in text.lines() {
        let marker = line_marker(line);
        match parts.last_mut() {
            Some(last) if marker.is_none() && !is_closed => {
                last.push('\n');
                last.push_str(line);
            }
            _ => parts.push(line.to_owned()),
        }
        // The text of an article continues below its number.
        is_closed = marker.is_some_and(|marker| marker != NumberMarker::Article);
    }
    parts
}
