//! Detects running headers and footers: text at the same place on most pages.

use std::collections::HashMap;
use std::ops::Range;

use super::line::{PageBlock, PageLine};
use super::page::PdfPage;

/// Minimum number of pages of a document in which text can count as repeated.
const PAGES_MIN: usize = 3;
/// Height of the margins at the top and the bottom of a page, as a fraction of its height, where headers and footers
/// are.
const MARGIN: f32 = 0.12;
/// Maximum number of numbers in one line that are considered as page numbers.
const NUMBERS_MAX: usize = 8;

/// A text in the margin, and its position.
type MarginKey = (String, i32);
type MarginCounts = HashMap<MarginKey, usize>;

/// Removes running headers and footers.
pub(super) fn without(mut pages: Vec<PdfPage>) -> Vec<PdfPage> {
    let with_text = pages.iter().filter(|page| !page.is_empty()).count();
    if with_text < PAGES_MIN {
        return pages;
    }
    let (mut alike, mut same) = (MarginCounts::new(), MarginCounts::new());
    for page in &pages {
        count(page.blocks.iter().filter_map(|block| key(block, page.height)).collect(), &mut alike);
        let keys = page.blocks.iter().flat_map(|block| exact_keys(block, page.height, page.number));
        count(keys.collect(), &mut same);
    }
    // The headers of left and right pages differ, so each is on half of the pages.
    let enough = (with_text * 2 / 5).max(PAGES_MIN);
    for page in &mut pages {
        let (height, number) = (page.height, page.number);
        page.blocks.retain(|block| {
            let is_alike =
                key(block, height).is_some_and(|key| alike.get(&key).is_some_and(|count| *count >= enough));
            // An invoice number or a table row is on every page as well, but differs each time.
            let is_same = || {
                let keys = exact_keys(block, height, number);
                keys.iter().any(|key| same.get(key).is_some_and(|count| *count >= PAGES_MIN))
            };
            !(is_alike && is_same())
        });
    }
    pages
}

/// Counted once per page: a line repeated within one page is not a running header.
fn count(mut keys: Vec<MarginKey>, counts: &mut MarginCounts) {
    keys.sort();
    keys.dedup();
    for key in keys {
        *counts.entry(key).or_default() += 1;
    }
}

/// Text of a line in the margin without its numbers, and its position; `None` for any other block.
fn key(block: &PageBlock, height: f32) -> Option<MarginKey> {
    let PageBlock::Line(PageLine { text, place, .. }) = block else { return None };
    let in_margin = place.bottom < height * MARGIN || place.top > height * (1.0 - MARGIN);
    if !in_margin {
        return None;
    }
    let mut words: String = text.chars().filter(|c| !c.is_ascii_digit()).collect();
    // Front matter has Roman page numbers.
    words.truncate(words.trim_end_matches([' ', 'i', 'v', 'x', 'l']).len());
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a height on a page; beyond it the cast stops at the limits"
    )]
    // Rounded to four points, because a header is not at exactly the same height everywhere.
    let row = (place.top / 4.0).round() as i32;
    Some((words, row))
}

/// Text of a line in the margin with its numbers: unchanged, and with one of them relative to the page number.
fn exact_keys(block: &PageBlock, height: f32, page: usize) -> Vec<MarginKey> {
    let (Some((words, row)), PageBlock::Line(PageLine { text, .. })) = (key(block, height), block) else {
        return Vec::new();
    };
    let numbers = numbers(text);
    let is_number_of_page = numbers.len() <= 2 && words.chars().all(is_beside_numbers);
    // A page number may count in any way, such as anew in each chapter.
    if numbers.is_empty() || is_number_of_page {
        return vec![(words, row)];
    }
    let page = i64::try_from(page).unwrap_or_default();
    let counted = numbers.into_iter().take(NUMBERS_MAX).filter_map(|number| {
        let value: i64 = text[number.clone()].parse().ok()?;
        let offset = value - page;
        Some((format!("{}\u{1}{offset}\u{1}{}", &text[..number.start], &text[number.end..]), row))
    });
    counted.chain([(text.clone(), row)]).collect()
}

/// Whether a character may be next to a page number: `- 12 -`, `3–12`, `12/20`.
fn is_beside_numbers(sign: char) -> bool {
    matches!(sign, ' ' | '-' | '–' | '—' | '/' | '|')
}

/// Positions of the numbers in a text.
fn numbers(text: &str) -> Vec<Range<usize>> {
    let mut numbers: Vec<Range<usize>> = Vec::new();
    for (at, digit) in text.match_indices(|sign: char| sign.is_ascii_digit()) {
        let end = at + digit.len();
        match numbers.last_mut() {
            Some(last) if last.end == at => last.end = end,
            _ => numbers.push(at..end),
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use weft_core::seam::document_reader::Position;

    use super::*;

    fn line(text: &str, top: f32) -> PageBlock {
        let place = Position { page: 1, left: 10.0, right: 90.0, top, bottom: top + 10.0 };
        PageBlock::Line(PageLine {
            text: text.to_owned(),
            place,
            size: 10.0,
            is_bold: false,
            is_mono: false,
            has_cells: false,
        })
    }

    fn texts(pages: &[PdfPage]) -> Vec<Vec<&str>> {
        pages
            .iter()
            .map(|page| {
                page.blocks
                    .iter()
                    .filter_map(|block| match block {
                        PageBlock::Line(line) => Some(line.text.as_str()),
                        PageBlock::Table(..) => None,
                    })
                    .collect()
            })
            .collect()
    }

    #[test]
    fn page_headers_and_numbers_are_dropped() {
        let page = |number: usize| PdfPage {
            number,
            height: 800.0,
            has_pictures: false,
            blocks: vec![
                line("A report", 20.0),
                line(&format!("text {number}"), 400.0),
                line("said again", 500.0),
                line(&format!("page {number} of 4"), 780.0),
            ],
            fields: Vec::new(),
        };
        let pages = without((1..=4).map(page).collect());
        assert_eq!(texts(&pages)[3], ["text 4", "said again"]);
        let pages = without((1..=2).map(page).collect());
        assert_eq!(texts(&pages)[0].len(), 4);
    }

    #[test]
    fn varying_page_headers_stay() {
        let page = |number: usize| PdfPage {
            number,
            height: 800.0,
            has_pictures: false,
            blocks: vec![
                line(&format!("Invoice no. {}", 10_000 + number * 37), 20.0),
                line(&format!("{}.5 {}.25", number * 7, number * 3), 40.0),
                line(&format!("Chapter {}", number / 4), 60.0),
                line(&format!("{number} text"), 400.0),
                line(&format!("Total {}.00", number * number), 720.0),
                line(&format!("Page {}-{}", number / 4, number % 4 + 1), 760.0),
                line(&format!("- {} -", number * 2), 780.0),
            ],
            fields: Vec::new(),
        };
        let pages = without((1..=7).map(page).collect());
        assert_eq!(texts(&pages)[1], ["Invoice no. 10074", "14.5 6.25", "2 text", "Total 4.00"]);
    }
}
