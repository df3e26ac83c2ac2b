//! The text of a document as one string, with the origin of each part of it.

use std::ops::Range;

use weft_core::seam::document_reader::Position;

use super::html;
use crate::element::{Element, ElementBody, TableElement};
use crate::tokens::tokens;

/// Maximum number of characters of a heading that paths keep.
const TITLE_CHARS_MAX: usize = 300;

/// An element and the page that it is on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed<'a> {
    /// The element.
    pub(crate) element: &'a Element,
    /// Number of the page, slide or sheet that it is on.
    pub(crate) page: Option<u32>,
    /// Name of the sheet.
    pub(crate) sheet: Option<&'a str>,
    /// How it is connected to the element before it.
    pub(crate) joint: Joint,
}

/// How an element is connected to the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joint {
    /// It is a separate block.
    Block,
    /// It is the next line of the same block.
    Line,
}

impl Placed<'_> {
    /// Its position: its rectangles, or the page alone.
    pub(crate) fn positions(&self) -> Vec<Position> {
        match self.page {
            Some(page) if self.element.positions.is_empty() => vec![Position { page, ..Position::default() }],
            _ => self.element.positions.clone(),
        }
    }
}

/// Where tables go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TablePlacement {
    /// Into chunks of their own; the text contains only an empty span at their place.
    Apart,
    /// Into the text, if they have at most this many tokens.
    Inside(u32),
}

/// What kind of text a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanRole {
    /// A heading, with the one that it is below.
    Heading,
    /// Running text.
    Text,
    /// Program text.
    Code,
    /// The place of a table that is a chunk of its own; empty.
    Table,
}

/// A part of the text that comes from one element.
#[derive(Clone, Debug)]
pub(crate) struct FlowSpan {
    /// Start offset in the text.
    pub(crate) start: usize,
    /// End offset in the text.
    pub(crate) end: usize,
    /// Index of its element.
    pub(crate) element: usize,
    /// The heading that it is below, or that it is.
    pub(crate) title: Option<usize>,
    /// What kind of text it is.
    pub(crate) role: SpanRole,
}

/// A heading, with the one that it is below.
#[derive(Clone, Debug)]
pub(crate) struct Title {
    /// Level, starting at 1 for the outermost.
    pub(crate) level: u8,
    /// Its text.
    pub(crate) text: String,
    /// Index of its element.
    pub(crate) element: usize,
    /// The heading that it is below.
    pub(crate) above: Option<usize>,
}

/// The text of a document.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flow<'a> {
    /// The whole text.
    pub(crate) text: String,
    /// Its parts, in order; white space between them belongs to none.
    pub(crate) spans: Vec<FlowSpan>,
    /// Its headings, in order.
    pub(crate) titles: Vec<Title>,
    /// The elements that it is built from.
    pub(crate) elements: &'a [Placed<'a>],
}

impl<'a> Flow<'a> {
    /// Builds the flow of some elements, with headings as the file marks them.
    pub(crate) fn new(elements: &'a [Placed<'a>], tables: TablePlacement) -> Self {
        let level = |at: usize| match &elements[at].element.body {
            ElementBody::Heading { level, .. } => Some((*level).max(1)),
            _ => None,
        };
        Self::with_levels(elements, tables, level)
    }

    /// Builds the flow of some elements; `level` decides which of them are headings.
    pub(crate) fn with_levels(
        elements: &'a [Placed<'a>],
        tables: TablePlacement,
        level: impl Fn(usize) -> Option<u8>,
    ) -> Self {
        Self::with_apart(elements, |at| is_apart(&elements[at].element.body, tables), level)
    }

    /// Builds the flow of some elements; `apart` decides which tables are chunks of their own.
    pub(crate) fn with_apart(
        elements: &'a [Placed<'a>],
        apart: impl Fn(usize) -> bool,
        level: impl Fn(usize) -> Option<u8>,
    ) -> Self {
        let mut flow = Self { elements, ..Self::default() };
        let mut was_item = false;
        for (at, placed) in elements.iter().enumerate() {
            let is_item = matches!(placed.element.body, ElementBody::Item { .. });
            let is_next = (is_item && was_item) || placed.joint == Joint::Line;
            let between = if is_next { "\n" } else { "\n\n" };
            if apart(at) {
                flow.separate("\n\n");
                flow.mark_table(at);
            } else if let Some(level) = level(at) {
                flow.title(at, level, between);
            } else if let Some(text) = plain(&placed.element.body) {
                let is_code = matches!(placed.element.body, ElementBody::Code { .. });
                flow.push(at, &text, between, if is_code { SpanRole::Code } else { SpanRole::Text });
            }
            was_item = is_item;
        }
        flow
    }

    /// Appends the text of an element.
    pub(crate) fn push(&mut self, element: usize, text: &str, between: &str, role: SpanRole) {
        // Leading spaces stay: they are the indentation of code and of list items.
        let text = text.trim_end().trim_start_matches(['\n', '\r']);
        if text.is_empty() {
            return;
        }
        self.separate(between);
        let start = self.text.len();
        self.text.push_str(text);
        self.spans.push(FlowSpan { start, end: self.text.len(), element, title: self.last_title(), role });
    }

    fn separate(&mut self, between: &str) {
        if !self.text.is_empty() {
            self.text.push_str(between);
        }
    }

    fn mark_table(&mut self, element: usize) {
        let at = self.text.len();
        self.spans.push(FlowSpan {
            start: at,
            end: at,
            element,
            title: self.last_title(),
            role: SpanRole::Table,
        });
    }

    fn title(&mut self, element: usize, level: u8, between: &str) {
        let Some(text) = plain(&self.elements[element].element.body) else { return };
        let line: Vec<&str> = text.split_whitespace().collect();
        if line.is_empty() {
            return;
        }
        let mut above = self.last_title();
        while let Some(title) = above.filter(|title| self.titles[*title].level >= level) {
            above = self.titles[title].above;
        }
        let line = line.join(" ").chars().take(TITLE_CHARS_MAX).collect();
        self.titles.push(Title { level, text: line, element, above });
        self.push(element, text.trim_start(), between, SpanRole::Heading);
    }

    fn last_title(&self) -> Option<usize> {
        self.titles.len().checked_sub(1)
    }

    /// The spans that overlap a range of the text, or that are empty and lie in it.
    pub(crate) fn spans_in(&self, range: &Range<usize>) -> Range<usize> {
        // An empty span at the start of the range is included, although it also ends there.
        let first = self.spans.partition_point(|span| span.end <= range.start && span.start < range.start);
        let last = self.spans.partition_point(|span| span.start < range.end);
        first..last.max(first)
    }

    /// The texts of a heading and those above it, outermost first.
    pub(crate) fn path(&self, title: Option<usize>) -> Vec<String> {
        let mut path: Vec<String> = self.ancestors(title).map(|at| self.titles[at].text.clone()).collect();
        path.reverse();
        path
    }

    /// A heading and those above it, innermost first.
    pub(crate) fn ancestors(&self, title: Option<usize>) -> impl Iterator<Item = usize> {
        std::iter::successors(title, |title| self.titles[*title].above)
    }

    /// The heading above the text at an offset.
    pub(crate) fn title_at(&self, at: usize) -> Option<usize> {
        let after = self.spans.partition_point(|span| span.start <= at);
        self.spans.get(after.checked_sub(1)?)?.title
    }

    /// Positions of an element.
    pub(crate) fn positions(&self, element: usize) -> Vec<Position> {
        self.elements.get(element).map(Placed::positions).unwrap_or_default()
    }

    /// The table at a span.
    pub(crate) fn table(&self, span: &FlowSpan) -> Option<&'a TableElement> {
        match &self.elements.get(span.element)?.element.body {
            ElementBody::Table(table) => Some(table),
            _ => None,
        }
    }
}

fn is_apart(body: &ElementBody, tables: TablePlacement) -> bool {
    match (body, tables) {
        (ElementBody::Table(table), TablePlacement::Apart) => html::has_text(table),
        (ElementBody::Table(table), TablePlacement::Inside(tokens_max)) => {
            tokens(&html::whole(table)) > tokens_max
        }
        _ => false,
    }
}

/// The text of an element as it appears in chunks; `None` if it has none.
pub(crate) fn plain(body: &ElementBody) -> Option<String> {
    let text = match body {
        ElementBody::Heading { text, .. } | ElementBody::Paragraph(text) | ElementBody::Code { text, .. } => {
            text.clone()
        }
        ElementBody::Item { depth, text } => {
            // Capped, because a file can claim any depth.
            let indent = "  ".repeat(usize::from(*depth).min(8));
            match text.trim() {
                "" => String::new(),
                text => format!("{indent}- {text}"),
            }
        }
        ElementBody::Image { caption } => caption.clone(),
        ElementBody::Table(table) if html::has_text(table) => html::whole(table),
        ElementBody::Table(_) => String::new(),
        ElementBody::Break { .. } => String::new(),
    };
    (!text.trim().is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{blocks, placed};
    use super::*;

    #[test]
    fn spans_know_their_headings() {
        let elements = blocks("# A\n\none\n\n## B\n\n- two\n- three\n\n# C\n\nfour");
        let placed = placed(&elements);
        let flow = Flow::new(&placed, TablePlacement::Apart);
        assert_eq!(flow.text, "A\n\none\n\nB\n\n- two\n- three\n\nC\n\nfour");
        let path = |text: &str| flow.path(flow.title_at(flow.text.find(text).unwrap()));
        assert_eq!(path("one"), ["A"]);
        assert_eq!(path("B"), ["A", "B"]);
        assert_eq!(path("three"), ["A", "B"]);
        assert_eq!(path("four"), ["C"]);
        assert_eq!(flow.spans_in(&(0..1)), 0..1);
        assert_eq!(flow.spans_in(&(3..7)), 1..2);
        assert_eq!(flow.spans_in(&(0..flow.text.len())), 0..flow.spans.len());
    }

    #[test]
    fn a_table_kept_apart_is_a_span() {
        let elements = blocks("above\n\n|a|b|\n|1|2|\n\nbelow");
        let placed = placed(&elements);
        let apart = Flow::new(&placed, TablePlacement::Apart);
        assert_eq!(
            apart.spans.iter().map(|span| span.role).filter(|role| *role == SpanRole::Table).count(),
            1
        );
        assert!(!apart.text.contains("table"));
        assert!(Flow::new(&placed, TablePlacement::Inside(100)).text.contains("<td>2</td>"));
    }
}
