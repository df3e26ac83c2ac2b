//! Running heads and feet: what stands at the same place of most pages.

use std::collections::HashMap;

use super::page::{PageBlock, PageLine, PdfPage};

/// Pages that a document must have before anything counts as repeated.
const PAGES_MIN: usize = 3;
/// The part of a page, at its top and at its bottom, where heads and feet are.
const MARGIN: f32 = 0.12;

/// The pages without their running heads and feet.
pub(super) fn without(mut pages: Vec<PdfPage>) -> Vec<PdfPage> {
    let with_text = pages.iter().filter(|page| !page.is_empty()).count();
    if with_text < PAGES_MIN {
        return pages;
    }
    let mut counts: HashMap<(String, i32), usize> = HashMap::new();
    for page in &pages {
        let mut keys: Vec<_> = page.blocks.iter().filter_map(|block| key(block, page.height)).collect();
        // Once a page: a line that a page repeats by itself is not yet a running head.
        keys.sort();
        keys.dedup();
        for key in keys {
            *counts.entry(key).or_default() += 1;
        }
    }
    // Heads of left and right pages differ, so each is on half of them.
    let enough = (with_text * 2 / 5).max(PAGES_MIN);
    for page in &mut pages {
        let height = page.height;
        page.blocks.retain(|block| {
            key(block, height).is_none_or(|key| counts.get(&key).is_none_or(|count| *count < enough))
        });
    }
    pages
}

/// What a line says but for its numbers, and where, if it is in the margin.
fn key(block: &PageBlock, height: f32) -> Option<(String, i32)> {
    let PageBlock::Line(PageLine { text, place, .. }) = block else { return None };
    let in_margin = place.bottom < height * MARGIN || place.top > height * (1.0 - MARGIN);
    if !in_margin {
        return None;
    }
    let mut words: String = text.chars().filter(|c| !c.is_ascii_digit()).collect();
    // Numbers of the first pages are Roman.
    words.truncate(words.trim_end_matches([' ', 'i', 'v', 'x', 'l']).len());
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a height on a page; beyond it the cast stops at the limits"
    )]
    let row = (place.top / 4.0).round() as i32;
    Some((words, row))
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
    fn heads_and_numbers_of_pages_are_dropped() {
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
}
