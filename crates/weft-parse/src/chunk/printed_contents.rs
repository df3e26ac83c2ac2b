//! Finds the printed table of contents of a file, which only repeats the headings.

use std::collections::HashMap;
use std::ops::Range;

use super::flow::{Placed, plain};
use crate::element::{Element, ElementBody};

/// Minimum number of lines in a table of contents.
const LINES_MIN: usize = 2;
/// Titles of a table of contents.
const TITLES: [&str; 6] = ["contents", "table of contents", "目录", "目次", "目錄", "inhalt"];
/// Titles of other lists that can follow it.
const LIST_TITLES: [&str; 6] =
    ["list of tables", "list of figures", "list of illustrations", "图目录", "表目录", "插图目录"];

/// Warning about a table of contents that was left out.
pub(crate) fn left_out(lines: usize) -> String {
    format!("the table of contents of the file ({lines} lines) was left out")
}

/// Finds the table of contents: its title, and the lines below it that end in a page number or repeat later in the text
/// as headings.
pub(crate) fn find(placed: &[Placed<'_>]) -> Range<usize> {
    let text = |placed: &Placed<'_>| {
        plain(&placed.element.body).map(|text| without_spaces(&text)).unwrap_or_default()
    };
    let texts: Vec<String> = placed.iter().map(text).collect();
    let is_one = |titles: &[&str], text: &str| titles.iter().any(|title| without_spaces(title) == text);
    let Some(title) = texts.iter().position(|text| is_one(&TITLES, text)) else { return 0..0 };
    let mut lasts = HashMap::new();
    for (at, text) in texts.iter().enumerate() {
        lasts.insert(text.as_str(), at);
    }
    let is_entry = |at: usize| {
        let is_table = matches!(placed[at].element.body, ElementBody::Table(_));
        let comes_again = lasts.get(texts[at].as_str()).is_some_and(|last| *last > at);
        // The title may be repeated on each of its pages.
        let is_title = is_one(&TITLES, &texts[at]) || is_one(&LIST_TITLES, &texts[at]);
        !is_table && (comes_again || is_title || names_pages(placed[at].element))
    };
    let end = (title + 1..placed.len()).find(|at| !is_entry(*at)).unwrap_or(placed.len());
    let lines = |placed: &Placed<'_>| plain(&placed.element.body).map_or(0, |text| text.lines().count());
    let count: usize = placed[title + 1..end].iter().map(lines).sum();
    // A list that extended to the end would be the whole file.
    if count < LINES_MIN || end == placed.len() { 0..0 } else { title..end }
}

/// Whether all lines of an element end in a number, after dots or spaces. The number may be Roman, as page numbers
/// within a table of contents often are in headers and footers.
fn names_pages(element: &Element) -> bool {
    let Some(text) = plain(&element.body) else { return true };
    text.lines().filter(|line| !line.trim().is_empty()).all(|line| {
        let line = line.trim_end();
        let title = line.trim_end_matches(|c: char| c.is_ascii_digit());
        let title = match line.rsplit_once(' ') {
            Some((before, last)) if title.len() == line.len() && is_roman(last) => &line[..before.len() + 1],
            _ => title,
        };
        title.len() < line.len() && title.ends_with([' ', '.', '\t', '…', '·', '．', '\u{a0}', '-'])
    })
}

/// Whether a word is a lower-case Roman numeral below ninety.
fn is_roman(word: &str) -> bool {
    let ones = ["", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix"];
    let tens = ["", "x", "xx", "xxx", "xl", "l", "lx", "lxx", "lxxx"];
    !word.is_empty()
        && tens.iter().any(|tens| word.strip_prefix(tens).is_some_and(|rest| ones.contains(&rest)))
}

fn without_spaces(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_core::seam::document_reader::ChunkMethod;

    use crate::chunk::testing::{blocks, contents, cut, placed};

    #[test]
    fn contents_pages_may_have_their_own_numbering() {
        let text = "Preface\n\n# Contents\n\n1 First ..... 1\n\n1.1 Deeper … 2\n\nThe Manual v\n\n2 Second 9\n\nContents\n\nList of Tables\n\n1.1 Sizes … 3\n\nThe Manual vi\n\n# 1 First\n\nIt is ill.\n\n# 2 Second\n\nEnd.";
        let elements = blocks(text);
        assert_eq!(super::find(&placed(&elements)), 1..10);
        for (word, expected) in [("vi", true), ("xlix", true), ("ill", false), ("", false), ("iiii", false)] {
            assert_eq!(super::is_roman(word), expected, "{word}");
        }
    }

    #[test]
    fn every_method_omits_the_contents_on_request() {
        let text =
            "# Contents\n\n1 First ..... 1\n\n2 Second ..... 9\n\n# 1 First\n\none\n\n# 2 Second\n\ntwo";
        let document = cut(text, "a.pdf", ChunkMethod::Titles, json!({"remove_toc": true}));
        assert_eq!(contents(&document), ["1 First\n\none", "2 Second\n\ntwo"]);
        assert_eq!(document.warnings, ["the table of contents of the file (3 lines) was left out"]);
        let places: Vec<usize> = document.headings.iter().map(|heading| heading.piece).collect();
        assert_eq!(places, [0, 1]);
        let whole = cut(text, "a.pdf", ChunkMethod::Titles, json!({}));
        assert!(contents(&whole)[0].starts_with("Contents") && whole.warnings.is_empty());
        // A file without one is unchanged.
        let document = cut("# 1 First\n\none", "a.pdf", ChunkMethod::Titles, json!({"remove_toc": true}));
        assert!(document.pieces.len() == 1 && document.warnings.is_empty());
    }
}
