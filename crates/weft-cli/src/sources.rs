//! The sources that an answer cites, as lines for people.

use std::fmt::Write as _;

use weft_core::citation::Cited;

/// How much of a source is shown, in characters.
const EXCERPT_CHARS: usize = 72;

/// A line for each source.
pub fn lines(cited: &[Cited]) -> String {
    let mut text = String::new();
    for Cited { number, chunk } in cited {
        let words = chunk.content.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut excerpt: String = words.chars().take(EXCERPT_CHARS).collect();
        if excerpt.len() < words.len() {
            excerpt.push('…');
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  [ID:{number}] {}: {excerpt}", chunk.document_name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use weft_core::citation::Chunk;

    #[test]
    fn a_source_is_one_line() {
        let chunk = |content: &str| {
            let chunk =
                Chunk { content: content.to_owned(), document_name: "a.md".to_owned(), ..Chunk::default() };
            Cited { number: 3, chunk: Arc::new(chunk) }
        };
        assert_eq!(lines(&[chunk("one\ntwo")]), "  [ID:3] a.md: one two\n");
        let long = lines(&[chunk(&"ü ".repeat(100))]);
        assert!(long.ends_with("ü…\n") || long.ends_with(" …\n"), "{long}");
    }
}
