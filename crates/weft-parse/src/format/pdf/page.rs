//! Reads one page: its lines in reading order, and its ruled tables.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_oxide::extractors::text::ArtifactType;
use pdf_oxide::layout::TextSpan;
use pdf_oxide::{PdfDocument, ReadingOrder};
use weft_core::seam::document_reader::Position;

use super::frame::PageFrame;
use super::line::{PageBlock, PageLine, PlacedTable};
use super::pieces::{Glyphs, TextTurn, pieces};
use super::ruled_table::RuledArea;
use super::rules::Rules;
use super::{fields, order, placed, ruled_table, tex_fonts};
use crate::words::line;

/// Maximum number of text pieces on one page.
const SPANS_MAX: usize = 100_000;

/// A page that has been read.
#[derive(Clone, Debug)]
pub(super) struct PdfPage {
    /// Page number, starting at 1.
    pub number: usize,
    /// Height of the page, in points.
    pub height: f32,
    /// Whether it has no text and contains a picture.
    pub has_pictures: bool,
    /// Its contents, in reading order.
    pub blocks: Vec<PageBlock>,
    /// Values of the form fields on a page that is a picture, to be added once the picture has been read.
    pub fields: Vec<PageLine>,
}

impl PdfPage {
    /// Reads a page.
    ///
    /// # Errors
    /// The reason, if the page is damaged or the library cannot read it.
    pub(super) fn read(document: &PdfDocument, number: usize) -> Result<Self, String> {
        // A panic in the library on one page does not affect the others.
        catch_unwind(AssertUnwindSafe(|| Self::read_unguarded(document, number)))
            .unwrap_or_else(|_| Err("the library for PDFs failed on it".to_owned()))
    }

    /// Whether there is no text on the page.
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    fn read_unguarded(document: &PdfDocument, number: usize) -> Result<Self, String> {
        let index = number - 1;
        let frame = PageFrame::of(document, number);
        let reason = |cause: pdf_oxide::Error| cause.to_string().chars().take(200).collect::<String>();
        let mut spans = match placed::spans(document, index) {
            Some(spans) => spans,
            None => {
                document.extract_spans_with_reading_order(index, ReadingOrder::TopToBottom).map_err(reason)?
            }
        };
        spans.truncate(SPANS_MAX);
        tex_fonts::complete(document, index, &mut spans);
        // Pictures matter only on pages without text.
        let has_pictures =
            spans.is_empty() && document.page_image_handles(index).is_ok_and(|all| !all.is_empty());
        let areas = if spans.is_empty() {
            Vec::new()
        } else {
            ruled_table::areas(&Rules::of(document, index, frame), frame)
        };
        let mut fields = fields::lines(document, index, frame, usual_size(&spans));
        // On a page with text its form fields are lines like any others.
        let shown = if has_pictures { Vec::new() } else { std::mem::take(&mut fields) };
        let blocks = blocks(&spans, &areas, shown, frame, &mut Glyphs::of(document, index));
        Ok(Self { number, height: frame.height, has_pictures, blocks, fields })
    }
}

/// Type size of most text pieces, in points.
fn usual_size(spans: &[TextSpan]) -> f32 {
    /// Type size of form fields on a page without text.
    const SIZE: f32 = 10.0;
    let sizes = spans.iter().map(|span| span.font_size.abs());
    let mut sizes: Vec<f32> = sizes.filter(|size| size.is_finite() && *size > 1.0).collect();
    sizes.sort_by(f32::total_cmp);
    sizes.get(sizes.len() / 2).copied().unwrap_or(SIZE)
}

/// Minimum number of lines next to a table, between the last line above it and the first one below, that form a column.
const COLUMN_LINES_MIN: usize = 5;

/// Arranges the contents of a page, separately for each turn of the text: first the most common one, with its tables.
fn blocks(
    spans: &[TextSpan],
    areas: &[RuledArea],
    fields: Vec<PageLine>,
    frame: PageFrame,
    glyphs: &mut Glyphs<'_>,
) -> Vec<PageBlock> {
    let mut all: Vec<(TextTurn, PageLine)> = Vec::new();
    for span in spans.iter().filter(|span| !span.text.trim().is_empty() && !is_artifact(span)) {
        let place = frame.place(span);
        let area = areas.iter().find(|area| area.holds(place));
        let cuts = area.map(|area| area.through(place)).unwrap_or_default();
        all.extend(pieces(span, frame, glyphs, &cuts));
    }
    all.extend(fields.into_iter().map(|field| (TextTurn::Upright, field)));
    let mut tables: Vec<PlacedTable> = Vec::new();
    for area in areas {
        let (within, beside) = all.into_iter().partition(|(_, piece)| area.holds(piece.place));
        all = beside;
        match area.table(&within) {
            Some(table) => tables.push(table),
            // Rules that enclose no cells, such as a frame around text.
            None => all.extend(within),
        }
    }
    let mut turns: BTreeMap<TextTurn, Vec<PageLine>> = BTreeMap::new();
    for (turn, piece) in all {
        turns.entry(turn).or_default().push(piece);
    }
    let mut turns: Vec<_> = turns.into_iter().collect();
    let letters = |pieces: &[PageLine]| pieces.iter().map(|piece| piece.text.len()).sum::<usize>();
    turns.sort_by_key(|(_, pieces)| std::cmp::Reverse(letters(pieces)));
    let mut turns = turns.into_iter().map(|(turn, pieces)| in_order(turn, pieces));
    let mut blocks = turns.next().unwrap_or_default();
    let placed = tables.into_iter().map(|(rows, place)| (place_among(&blocks, place), rows, place));
    let mut placed: Vec<(usize, Vec<Vec<String>>, Position)> = placed.collect();
    placed.sort_by(|(one, _, above), (other, _, below)| one.cmp(other).then(above.top.total_cmp(&below.top)));
    // From the last to the first, so that the other indices remain valid.
    for (at, rows, place) in placed.into_iter().rev() {
        blocks.insert(at, PageBlock::Table(told_rows(&rows), place));
    }
    blocks.extend(turns.flatten());
    blocks
}

/// Index in reading order at which a table belongs: before the first block that begins below its upper edge, within its
/// own column if there are columns.
fn place_among(blocks: &[PageBlock], table: Position) -> usize {
    let is_below = |block: &PageBlock| block.place().top > table.top;
    let is_beside = |block: &PageBlock| {
        let place = block.place();
        place.right <= table.left || place.left >= table.right
    };
    let first = blocks.iter().position(is_below).unwrap_or(blocks.len());
    let above = blocks.iter().rposition(|block| !is_below(block) && !is_beside(block));
    let behind = above.map_or(0, |above| above + 1);
    if behind > first {
        // A block that begins below the table but is read before a block above it is in another column.
        let next = blocks[behind..].iter().position(is_below);
        return next.map_or(blocks.len(), |next| behind + next);
    }
    let beside = blocks[behind..first].iter().filter(|block| is_beside(block)).count();
    // The next column is read from its top.
    if above.is_some() && beside >= COLUMN_LINES_MIN { behind } else { first }
}

/// The lines and tables of the text with one turn, in reading order.
fn in_order(turn: TextTurn, mut pieces: Vec<PageLine>) -> Vec<PageBlock> {
    if turn == TextTurn::Slanted {
        return pieces.into_iter().filter_map(told).map(PageBlock::Line).collect();
    }
    pieces.iter_mut().for_each(|piece| piece.place = turn.upright(piece.place));
    let back = |block: PageBlock| match block {
        PageBlock::Line(mut line) => {
            line.place = turn.back(line.place);
            told(line).map(PageBlock::Line)
        }
        PageBlock::Table(rows, place) => Some(PageBlock::Table(told_rows(&rows), turn.back(place))),
    };
    order::blocks(pieces).into_iter().filter_map(back).collect()
}

/// Cleans up the text of table rows.
fn told_rows(rows: &[Vec<String>]) -> Vec<Vec<String>> {
    rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect()).collect()
}

/// Cleans up the text of a line; `None` if nothing is left.
fn told(mut line: PageLine) -> Option<PageLine> {
    line.text = plain(&line.text);
    (!line.text.is_empty()).then_some(line)
}

/// Whether the file marks a text as a header, a footer or a page number.
fn is_artifact(span: &TextSpan) -> bool {
    matches!(span.artifact_type, Some(ArtifactType::Pagination(_)))
}

/// Replaces ligatures by their letters.
fn plain(text: &str) -> String {
    let mut plain = without_leaders(&line(text));
    for (drawn, letters) in
        [('ﬀ', "ff"), ('ﬁ', "fi"), ('ﬂ', "fl"), ('ﬃ', "ffi"), ('ﬄ', "ffl"), ('ﬅ', "ft"), ('ﬆ', "st")]
    {
        if plain.contains(drawn) {
            plain = plain.replace(drawn, letters);
        }
    }
    plain
}

/// Replaces the dots between a title and its page number by a single character.
fn without_leaders(text: &str) -> String {
    const DOTS_MIN: usize = 4;
    let mut short = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('.') {
        let run = rest[at..].len() - rest[at..].trim_start_matches(['.', ' ']).len();
        let dots = rest[at..at + run].matches('.').count();
        if dots >= DOTS_MIN {
            short.push_str(rest[..at].trim_end());
            short.push_str(" … ");
        } else {
            short.push_str(&rest[..at + run]);
        }
        rest = &rest[at + run..];
    }
    short.push_str(rest);
    short
}

#[cfg(test)]
mod tests {
    use weft_core::seam::document_reader::Position;

    use super::{PageBlock, place_among, plain};
    use crate::format::pdf::line::PageLine;

    #[test]
    fn tables_keep_their_columns() {
        let place =
            |left: f32, right: f32, top: f32| Position { page: 1, left, right, top, bottom: top + 8.0 };
        let lines = |left: f32, right: f32, count: u16| {
            (0..count).map(move |number| {
                let place = place(left, right, f32::from(number) * 10.0);
                let (text, size) = ("line".to_owned(), 8.0);
                PageBlock::Line(PageLine {
                    text,
                    place,
                    size,
                    is_bold: false,
                    is_mono: false,
                    has_cells: false,
                })
            })
        };
        let columns: Vec<PageBlock> = lines(0.0, 100.0, 6).chain(lines(120.0, 220.0, 10)).collect();
        // In the middle and at the end of the second column, in the middle and at the end of the first.
        for (table, expected) in [
            (place(130.0, 200.0, 25.0), 9),
            (place(130.0, 200.0, 95.0), 16),
            (place(10.0, 90.0, 25.0), 3),
            (place(10.0, 90.0, 55.0), 6),
        ] {
            assert_eq!(place_among(&columns, table), expected, "{table:?}");
        }
        let page: Vec<PageBlock> = lines(0.0, 220.0, 3).chain(lines(0.0, 40.0, 5).skip(3)).collect();
        assert_eq!(place_among(&page, place(60.0, 90.0, 25.0)), 3);
        assert_eq!(place_among(&[], place(60.0, 90.0, 25.0)), 0);
    }

    #[test]
    fn text_is_normalised() {
        assert_eq!(plain("oﬃce"), "office");
        assert_eq!(plain("1.1 Title . . . . . . . . 12"), "1.1 Title … 12");
        assert_eq!(plain("Wait... what? 3.5"), "Wait... what? 3.5");
    }
}
