//! The fields of a chunk, and how often each of them counts.
//!
//! All fields form one text, in which each occurs as many times as it counts. A word in several fields is
//! thus a single word with a higher frequency, which saturates as for any other word; adding up the scores of
//! separate fields would favour a chunk that repeats one word everywhere.

use weft_core::seam::index::IndexedChunk;

/// How often words of the title count.
pub(crate) const TITLE_COUNT: usize = 2;
/// How often keywords count.
pub(crate) const KEYWORDS_COUNT: usize = 3;
/// How often words of the questions count.
pub(crate) const QUESTIONS_COUNT: usize = 2;

/// Separator of fields; it does not occur in ordinary text, and no text is split by it otherwise.
const BORDER: char = '\u{1e}';

/// Joins all fields into one text, which [`each`] splits again.
pub(crate) fn joined(chunk: &IndexedChunk) -> String {
    // A separator within a field would shift all the fields after it.
    let clean = |text: &str| text.replace(BORDER, " ");
    let parts = [clean(&chunk.title), clean(&chunk.keywords.join("\n")), clean(&chunk.questions.join("\n"))];
    let mut text = parts.join("\u{1e}");
    text.push(BORDER);
    text.push_str(&chunk.content);
    text
}

/// Calls `found` for each field, with how often it counts.
pub(crate) fn each<'a>(text: &'a str, mut found: impl FnMut(&'a str, usize)) {
    // At most four: everything after the third separator is the content, whatever it contains.
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
    fn parts_stay_separate() {
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
