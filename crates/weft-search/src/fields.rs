//! The parts of a chunk, and how often each of them counts.
//!
//! All parts are one text, in which a part stands as many times as it counts. A word that is in several
//! parts is thus one word that is there more often, and is marked down for it as any other is; adding up
//! scores of parts would let a chunk win that says one word everywhere.

use weft_core::seam::index::IndexedChunk;

/// How often words of the title count.
pub(crate) const TITLE_COUNT: usize = 2;
/// How often keywords count.
pub(crate) const KEYWORDS_COUNT: usize = 3;
/// How often words of the questions count.
pub(crate) const QUESTIONS_COUNT: usize = 2;

/// Between parts; no text of a person holds it, and none is cut by it.
const BORDER: char = '\u{1e}';

/// All parts as one text, which [`each`] takes apart again.
pub(crate) fn joined(chunk: &IndexedChunk) -> String {
    // A border within a part would shift all parts behind it.
    let clean = |text: &str| text.replace(BORDER, " ");
    let parts = [clean(&chunk.title), clean(&chunk.keywords.join("\n")), clean(&chunk.questions.join("\n"))];
    let mut text = parts.join("\u{1e}");
    text.push(BORDER);
    text.push_str(&chunk.content);
    text
}

/// Hands over each part and how often it counts.
pub(crate) fn each<'a>(text: &'a str, mut found: impl FnMut(&'a str, usize)) {
    // At most four: what comes after the third border is the content, whatever it holds.
    let mut parts = text.splitn(4, BORDER);
    for count in [TITLE_COUNT, KEYWORDS_COUNT, QUESTIONS_COUNT, 1] {
        if let Some(part) = parts.next() {
            found(part, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_apart() {
        let chunk = IndexedChunk {
            title: "a\u{1e}b".to_owned(),
            content: "c\u{1e}d".to_owned(),
            keywords: vec!["k".to_owned(), "l".to_owned()],
            ..IndexedChunk::default()
        };
        let text = joined(&chunk);
        let mut found = Vec::new();
        each(&text, |part, count| found.push((part, count)));
        assert_eq!(
            found,
            [("a b", TITLE_COUNT), ("k\nl", KEYWORDS_COUNT), ("", QUESTIONS_COUNT), ("c\u{1e}d", 1)]
        );
    }
}
