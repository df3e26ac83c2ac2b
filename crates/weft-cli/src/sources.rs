//! The sources that an answer cites, as lines for people.

use std::fmt::Write as _;

use weft_core::citation::{Chunk, Cited};
use weft_core::value::shortened;

/// Maximum number of characters of a source that are shown.
const EXCERPT_CHARS: usize = 72;

/// Returns a line per source.
pub(crate) fn lines(cited: &[Cited]) -> String {
    let mut text = String::new();
    for Cited { number, chunk } in cited {
        let words = chunk.content.split_whitespace().collect::<Vec<_>>().join(" ");
        let excerpt = shortened(&words, EXCERPT_CHARS);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  [ID:{number}] {}: {excerpt}", place(chunk));
    }
    text
}

/// Returns a chunk's document and its pages: `manual.pdf, page 2`.
pub(crate) fn place(chunk: &Chunk) -> String {
    let numbers = chunk.positions.iter().filter_map(|position| position.get(0)?.as_u64());
    let pages = pages(numbers).map(|pages| format!(", {pages}")).unwrap_or_default();
    format!("{}{pages}", chunk.document_name)
}

/// Formats pages as `page 3` or `pages 3–5`; `None` for a chunk without pages.
pub(crate) fn pages(numbers: impl Iterator<Item = u64>) -> Option<String> {
    let (first, last) = numbers.filter(|number| *number > 0).fold(None, |known, number| {
        let (first, last) = known.unwrap_or((number, number));
        Some((number.min(first), number.max(last)))
    })?;
    Some(if first == last { format!("page {first}") } else { format!("pages {first}–{last}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use weft_core::Json;

    #[test]
    fn a_source_is_shown_on_one_line() {
        let chunk = |content: &str| {
            let chunk =
                Chunk { content: content.to_owned(), document_name: "a.md".to_owned(), ..Chunk::default() };
            Cited { number: 3, chunk: Arc::new(chunk) }
        };
        assert_eq!(lines(&[chunk("one\ntwo")]), "  [ID:3] a.md: one two\n");
        let long = lines(&[chunk(&"ü ".repeat(100))]);
        assert!(long.ends_with("ü…\n") || long.ends_with(" …\n"), "{long}");
    }

    #[test]
    fn page_numbers_are_shortened_to_ranges() {
        let check = |numbers: &[u32], expected: &str| {
            let positions = numbers.iter().map(|page| Json::from(vec![*page, 1, 2, 3, 4])).collect();
            let chunk = Chunk { document_name: "a.pdf".to_owned(), positions, ..Chunk::default() };
            assert_eq!(place(&chunk), expected);
        };
        check(&[], "a.pdf");
        check(&[0], "a.pdf");
        check(&[2, 2], "a.pdf, page 2");
        check(&[4, 2, 3], "a.pdf, pages 2–4");
    }
}
