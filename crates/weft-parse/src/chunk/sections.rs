//! Divides a document into sections: each heading with the text below it.

use std::ops::Range;

use super::flow::{Flow, SpanRole};
use crate::tokens::tokens;

/// A section of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FlowSection {
    /// Its spans; headings without text of their own are part of the section below them.
    pub(crate) spans: Range<usize>,
    /// The headings above it, outermost first, excluding those within it.
    pub(crate) above: Vec<usize>,
    /// Number of tokens in it.
    pub(crate) tokens: u32,
}

impl FlowSection {
    /// Merges this section with the one after it.
    fn join(&mut self, next: &Self) {
        self.spans.end = next.spans.end;
        self.tokens += next.tokens;
    }
}

/// The sections of a flow, in order; together they cover all of it.
pub(crate) fn sections(flow: &Flow<'_>) -> Vec<FlowSection> {
    let mut sections: Vec<FlowSection> = Vec::new();
    let mut start = 0;
    for at in 0..flow.spans.len() {
        let next = flow.spans.get(at + 1);
        if next.is_some_and(|next| next.role != SpanRole::Heading) {
            continue;
        }
        // A heading directly above one of a lower level has no text of its own.
        let is_above_next = next.and_then(|next| next.title).is_some_and(|next| {
            flow.titles[next].above.is_some() && flow.titles[next].above == flow.spans[at].title
        });
        if flow.spans[at].role == SpanRole::Heading && is_above_next {
            continue;
        }
        sections.push(section(flow, start..at + 1));
        start = at + 1;
    }
    sections
}

fn section(flow: &Flow<'_>, spans: Range<usize>) -> FlowSection {
    let (first, last) = (&flow.spans[spans.start], &flow.spans[spans.end - 1]);
    // Its own heading is not above it.
    let own = usize::from(first.role == SpanRole::Heading);
    let mut above: Vec<usize> = flow.ancestors(first.title).skip(own).collect();
    above.reverse();
    FlowSection { tokens: tokens(&flow.text[first.start..last.end]), spans, above }
}

/// Merges adjacent sections below the same heading while the result has at most `tokens_max` tokens.
pub(crate) fn pack_siblings(sections: Vec<FlowSection>, tokens_max: u32) -> Vec<FlowSection> {
    let fits = |last: &FlowSection, next: &FlowSection| {
        // Sections without a heading above them have none in common.
        last.above == next.above && !next.above.is_empty() && last.tokens + next.tokens <= tokens_max
    };
    fold(sections, fits)
}

/// Merges each section of less than `tokens_min` tokens with the next one, and the last with the one before, while the
/// result has at most `tokens_max` tokens.
pub(crate) fn pack_small(sections: Vec<FlowSection>, tokens_min: u32, tokens_max: u32) -> Vec<FlowSection> {
    let count = sections.len();
    let mut left = count;
    let fits = |last: &FlowSection, next: &FlowSection| {
        // `fold` calls this once for each section but the first.
        left -= 1;
        let is_small = last.tokens < tokens_min || (left == 1 && next.tokens < tokens_min);
        is_small && last.tokens + next.tokens <= tokens_max
    };
    fold(sections, fits)
}

fn fold(
    sections: Vec<FlowSection>,
    mut fits: impl FnMut(&FlowSection, &FlowSection) -> bool,
) -> Vec<FlowSection> {
    let mut packed: Vec<FlowSection> = Vec::with_capacity(sections.len());
    for section in sections {
        match packed.last_mut() {
            Some(last) if fits(last, &section) => last.join(&section),
            _ => packed.push(section),
        }
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::super::flow::TablePlacement;
    use super::super::testing::{blocks, placed};
    use super::*;

    #[test]
    fn headings_without_text_start_the_next_section() {
        let elements = blocks("intro\n\n# A\n\n## B\n\none\n\n## C\n\ntwo\n\n# D\n\n# E\n\nthree");
        let placed = placed(&elements);
        let flow = Flow::new(&placed, TablePlacement::Apart);
        let texts = |sections: &[FlowSection]| {
            let text = |section: &FlowSection| {
                let (first, last) = (section.spans.start, section.spans.end - 1);
                let above: Vec<&str> =
                    section.above.iter().map(|at| flow.titles[*at].text.as_str()).collect();
                let text = &flow.text[flow.spans[first].start..flow.spans[last].end];
                format!("{}>{}", above.join("/"), text.replace("\n\n", " "))
            };
            sections.iter().map(text).collect::<Vec<_>>()
        };
        let found = sections(&flow);
        assert_eq!(texts(&found), [">intro", ">A B one", "A>C two", ">D", ">E three"]);
        assert_eq!(texts(&pack_small(found.clone(), 2, 100)), [">intro A B one", "A>C two", ">D E three"]);
        assert_eq!(texts(&pack_small(found, 100, 100)), [">intro A B one C two D E three"]);
    }
}
