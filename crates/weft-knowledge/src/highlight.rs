//! Extracts the sentences of a chunk that contain words of the question, with those words marked.

use std::ops::Range;

/// Placed between sentences that are not adjacent.
const ELLIPSIS: &str = " … ";

/// Marks ranges of a text with `<em>`, and keeps only the sentences that contain one; omitted text becomes an
/// ellipsis. Nothing is escaped. The ranges are in order and do not overlap, as returned by
/// [`Index::marks`](weft_core::seam::Index::marks); `None` when there are none.
pub fn highlight(text: &str, marks: &[Range<usize>]) -> Option<String> {
    let mut marks =
        marks.iter().filter(|mark| text.get((*mark).clone()).is_some_and(|it| !it.is_empty())).peekable();
    marks.peek()?;
    let mut shown = String::new();
    let mut shown_to = 0;
    for sentence in sentences(text) {
        let mut piece = String::new();
        let mut at = sentence.start;
        while let Some(mark) = marks.next_if(|mark| mark.start < sentence.end) {
            if mark.start < at {
                continue;
            }
            // A mark that crosses the end of a sentence ends there.
            let end = mark.end.min(sentence.end);
            piece.push_str(&text[at..mark.start]);
            piece.push_str("<em>");
            piece.push_str(&text[mark.start..end]);
            piece.push_str("</em>");
            at = end;
        }
        if at == sentence.start {
            continue;
        }
        piece.push_str(&text[at..sentence.end]);
        if shown_to == sentence.start {
            shown.push_str(&piece);
        } else {
            shown.truncate(shown.trim_end().len());
            shown.push_str(if shown.is_empty() { "… " } else { ELLIPSIS });
            shown.push_str(piece.trim_start());
        }
        shown_to = sentence.end;
    }
    if shown_to < text.trim_end().len() {
        shown.truncate(shown.trim_end().len());
        shown.push_str(" …");
    }
    Some(shown.trim().to_owned())
}

/// Returns the sentences of a text; together they cover the whole text.
fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut sentences = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        let ends = match c {
            '\n' | '。' | '！' | '？' | '；' => true,
            '.' | '!' | '?' => next.is_some_and(char::is_whitespace),
            _ => false,
        };
        if ends {
            let end = at + c.len_utf8();
            sentences.push(start..end);
            start = end;
        }
    }
    sentences.push(start..text.len());
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(text: &str, words: &[&str]) -> Option<String> {
        let mut marks: Vec<Range<usize>> = words
            .iter()
            .flat_map(|word| text.match_indices(word).map(|(at, found)| at..at + found.len()))
            .collect();
        marks.sort_by_key(|mark| mark.start);
        highlight(text, &marks)
    }

    #[test]
    fn sentences_with_a_hit_are_kept() {
        let check = |text: &str, words: &[&str], expected: Option<&str>| {
            assert_eq!(marked(text, words).as_deref(), expected, "{text}");
        };
        check("Nothing here.", &["absent"], None);
        check("One cat. One dog. One cat.", &["cat"], Some("One <em>cat</em>. … One <em>cat</em>."));
        check("One dog. One cat. One dog.", &["cat"], Some("… One <em>cat</em>. …"));
        check("A cat. A cat!", &["cat"], Some("A <em>cat</em>. A <em>cat</em>!"));
        check(
            "版本 4.2.1 已发布。没有别的。退货期限是三十天。",
            &["4.2.1", "退货"],
            Some("版本 <em>4.2.1</em> 已发布。 … <em>退货</em>期限是三十天。"),
        );
        check("<b> & cat", &["cat"], Some("<b> & <em>cat</em>"));
        check("", &["x"], None);
    }

    #[test]
    fn invalid_highlight_ranges_are_ignored() {
        let (before, one, across) = (0..2, 1..3, 3..99);
        assert_eq!(highlight("é?x", &[one, before, across]).as_deref(), Some("<em>é</em>?x"));
        let two = [0..1, 9..99];
        assert_eq!(highlight("ab", &two).as_deref(), Some("<em>a</em>b"));
    }
}
