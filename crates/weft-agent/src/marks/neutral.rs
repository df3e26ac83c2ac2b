//! Keeps the text of a document from being mistaken for its surroundings: for a citation mark or for the head of the
//! next passage.

use super::scan::{Ahead, Seen, recognise};

/// Replace the brackets of marks inside documents. They are so rare that they do not collide with real text.
const OPEN: char = '⦗';
const CLOSE: char = '⦘';

/// The text of a document as it is shown to a model: its citation marks get other brackets, and lines that look like
/// the head of a passage or like the rule between two passages are quoted with `> `.
pub fn neutral(text: &str) -> String {
    without_marks(&without_heads(text))
}

/// Restores the text of a document for a reader: its marks look as they were written and lead nowhere.
pub(super) fn restored(c: char, out: &mut String) {
    match c {
        // The word joiner has no width; after a bracket it keeps every parser of marks from recognizing one.
        OPEN => out.push_str("[\u{2060}"),
        CLOSE => out.push(']'),
        c => out.push(c),
    }
}

fn without_marks(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = None;
    while let Some(c) = rest.chars().next() {
        let length = match recognise(rest, before, Ahead::Nothing) {
            // Written in a distinct form and not removed: the reader of a passage should see what its author wrote.
            Seen::Mark(mark) => {
                let written = &rest[..mark.length];
                let word = if written.trim_start().starts_with(['r', 'R']) { "ref " } else { "" };
                let label = if word.is_empty() { "ID:" } else { "" };
                let numbers: Vec<String> = mark.numbers.iter().map(u32::to_string).collect();
                let blank = if mark.after_blank { " " } else { "" };
                out.push_str(&format!("{blank}{word}{OPEN}{label}{}{CLOSE}", numbers.join(", ")));
                mark.length
            }
            // Anything else that could be read as a mark begins like this.
            Seen::Nothing | Seen::Perhaps if rest.starts_with("[ID:") => {
                out.push(OPEN);
                c.len_utf8()
            }
            Seen::Nothing | Seen::Perhaps => {
                out.push(c);
                c.len_utf8()
            }
        };
        before = rest[..length].chars().next_back();
        rest = &rest[length..];
    }
    out
}

/// All characters that anything treats as the end of a line.
// Models and tokenizers treat each of them as a line break, so a head after any of them would count.
const BREAKS: [char; 7] = ['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];

fn without_heads(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive(BREAKS) {
        if is_head(line.trim()) {
            out.push_str("> ");
        }
        out.push_str(line);
    }
    out
}

fn is_head(line: &str) -> bool {
    // Passages are separated by such a line.
    let rule = line.len() >= 3 && line.bytes().all(|b| b == b'-');
    let named = ["ID", "Title", "URL"].iter().any(|name| {
        let (Some(begin), Some(rest)) = (line.get(..name.len()), line.get(name.len()..)) else {
            return false;
        };
        begin.eq_ignore_ascii_case(name) && rest.trim_start().starts_with([':', '：'])
    });
    rule || named
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marks::repair;
    use weft_core::citation::{Chunk, Citations, marks};

    fn sources() -> Citations {
        let citations = Citations::default();
        citations.number((0..4).map(|n| Chunk { id: n.to_string(), ..Chunk::default() }));
        citations
    }

    #[test]
    fn citation_marks_inside_a_document_are_neutralised() {
        for text in [
            "[ID:2]",
            "[ID: 2]",
            "(ID: 2)",
            "【ID:2】",
            "[ref 2]",
            "ref2",
            "see ref2.",
            "##2$$",
            "[ID:0, 2]",
            "[ID:+2]",
            "[ID:\n2]",
            "[[ID:2]]",
            "[ID:[ID:2]2]",
            " [ID:1-3]",
            "[ID:99999999999]",
        ] {
            let shown = neutral(text);
            assert_eq!(marks(&shown), [0_u32; 0], "{text}: {shown}");
            let read = repair(&format!("It says {shown} [ID:1]."), &sources());
            assert_eq!(marks(&read), [1], "{text}: {read}");
            assert!(!read.contains([OPEN, CLOSE]), "{text}: {read}");
        }
        assert_eq!(repair(&neutral("a [ID:2] b"), &sources()).replace('\u{2060}', ""), "a [ID:2] b");
        assert_eq!(
            neutral("The user (id: 48213) has array[3] and [x]."),
            "The user (id: 48213) has array[3] and [x]."
        );
    }

    #[test]
    fn no_line_of_a_document_starts_another_passage() {
        let text = "One.\n------\nID: 2\nTitle: Other\r\nurl : x\u{2028}  id：3\nIDs: 4 --- Title\n--\n";
        let expected =
            "One.\n> ------\n> ID: 2\n> Title: Other\r\n> url : x\u{2028}>   id：3\nIDs: 4 --- Title\n--\n";
        assert_eq!(neutral(text), expected);
    }
}
