//! Reading order of a page: row by row, but column by column where there are columns of prose.

use weft_core::seam::document_reader::Position;

use super::leftward::direction;
use super::line::{PageBlock, PageLine, PageRow};
use super::spaced_table;

/// Minimum gap, as a multiple of the type size, between pieces of a row that may belong to different columns.
const GUTTER: f32 = 0.9;
/// Minimum gap, as a multiple of the type size, between pieces of a row that are cells rather than words.
const CELL_GAP: f32 = 2.0;
/// Minimum number of characters in a line of prose; anything shorter is a cell of a table or a form.
pub(super) const PROSE_CHARS_MIN: usize = 20;
/// Minimum number of rows side by side that form columns.
const ROWS_MIN: usize = 5;
/// Maximum number of columns side by side, as a power of two.
const DEPTH_MAX: u8 = 2;
/// Number of positions across a page where a gutter is looked for.
const PLACES: usize = 120;

impl PageRow {
    fn left(&self) -> f32 {
        self.pieces.iter().map(|piece| piece.place.left).fold(f32::MAX, f32::min)
    }

    fn right(&self) -> f32 {
        self.pieces.iter().map(|piece| piece.place.right).fold(f32::MIN, f32::max)
    }
}

/// Arranges pieces into the lines and tables of a page, in reading order.
pub(super) fn blocks(pieces: Vec<PageLine>) -> Vec<PageBlock> {
    let mut found = Vec::new();
    read(rows(pieces), DEPTH_MAX, &mut found);
    found
}

/// Arranges pieces into the lines of a cell: all pieces at the same height are one line, whatever their distance.
pub(super) fn lines(pieces: Vec<PageLine>) -> Vec<PageLine> {
    rows(pieces).into_iter().filter_map(whole).collect()
}

/// Joins pieces of a cell that are at the same height and at most a space apart.
pub(super) fn parts(pieces: Vec<PageLine>) -> Vec<PageLine> {
    rows(pieces).into_iter().flat_map(|row| row.pieces).collect()
}

/// Groups pieces whose heights overlap into rows.
fn rows(mut pieces: Vec<PageLine>) -> Vec<PageRow> {
    pieces.sort_by(|one, other| {
        one.place.top.total_cmp(&other.place.top).then(one.place.left.total_cmp(&other.place.left))
    });
    let mut rows: Vec<(f32, f32, PageRow)> = Vec::new();
    for piece in pieces {
        let (top, bottom) = (piece.place.top, piece.place.bottom);
        // Pieces come from top to bottom, so only the last few rows can overlap.
        let met = rows.iter_mut().rev().take(8).find(|(row_top, row_bottom, _)| {
            let overlap = bottom.min(*row_bottom) - top.max(*row_top);
            overlap > 0.5 * (bottom - top).min(*row_bottom - *row_top)
        });
        match met {
            Some((.., row)) => row.pieces.push(piece),
            None => rows.push((top, bottom, PageRow { pieces: vec![piece] })),
        }
    }
    let sorted = rows.into_iter().map(|(.., mut row)| {
        row.pieces.sort_by(|one, other| one.place.left.total_cmp(&other.place.left));
        PageRow { pieces: joined(as_read(row.pieces), GUTTER) }
    });
    sorted.collect()
}

/// Puts pieces from left to right into reading order.
fn as_read(mut pieces: Vec<PageLine>) -> Vec<PageLine> {
    if !is_leftward(&pieces) {
        return pieces;
    }
    pieces.reverse();
    // Numbers and words of other scripts within right-to-left text are read from left to right.
    let mut at = 0;
    while at < pieces.len() {
        let run = pieces[at..].iter().take_while(|piece| direction(&piece.text) > 0).count();
        pieces[at..at + run].reverse();
        at += run.max(1);
    }
    pieces
}

/// Whether most letters of the text belong to right-to-left scripts.
fn is_leftward<'a>(pieces: impl IntoIterator<Item = &'a PageLine>) -> bool {
    pieces.into_iter().map(|piece| direction(&piece.text)).sum::<i32>() < 0
}

/// Joins pieces that are at most `gap_max` type sizes apart.
fn joined(pieces: Vec<PageLine>, gap_max: f32) -> Vec<PageLine> {
    let mut joined: Vec<PageLine> = Vec::new();
    // Position of the last piece alone: a piece read in the other direction may be in the middle of the line.
    let mut last_place = None;
    for piece in pieces {
        let gap = last_place.map(|last| gap(last, piece.place));
        last_place = Some(piece.place);
        match (joined.last_mut(), gap) {
            (Some(last), Some(gap)) if gap < gap_max * last.size.max(piece.size) => last.add(&piece, gap),
            _ => joined.push(piece),
        }
    }
    joined
}

/// Distance between two pieces, whichever is on the left; negative if they overlap.
fn gap(one: Position, other: Position) -> f32 {
    (other.left - one.right).max(one.left - other.right)
}

fn read(rows: Vec<PageRow>, depth: u8, found: &mut Vec<PageBlock>) {
    let gutter = if depth == 0 { None } else { gutter(&rows) };
    let Some(gutter) = gutter else {
        read_rows(&rows, found);
        return;
    };
    // A piece that crosses the gutter is read separately and ends the columns above it.
    let mut band = Vec::new();
    for row in rows {
        if row.pieces.iter().any(|piece| crosses(piece, gutter)) {
            read_band(std::mem::take(&mut band), gutter, depth, found);
            found.extend(whole(row).map(PageBlock::Line));
        } else {
            band.push(row);
        }
    }
    read_band(band, gutter, depth, found);
}

fn read_band(band: Vec<PageRow>, gutter: f32, depth: u8, found: &mut Vec<PageBlock>) {
    // Without prose on both sides the pieces are cells, which have to stay in their rows.
    if band.iter().filter(|row| is_prose_beside(row, gutter)).count() * 2 < band.len().min(ROWS_MIN) {
        read_rows(&band, found);
        return;
    }
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for row in band {
        let (before, after): (Vec<_>, Vec<_>) =
            row.pieces.into_iter().partition(|piece| piece.place.right <= gutter);
        left.extend(Some(PageRow { pieces: before }).filter(|row| !row.pieces.is_empty()));
        right.extend(Some(PageRow { pieces: after }).filter(|row| !row.pieces.is_empty()));
    }
    let are_leftward = |rows: &[PageRow]| is_leftward(rows.iter().flat_map(|row| &row.pieces));
    // In right-to-left scripts the right column is read first.
    if are_leftward(&left) && are_leftward(&right) {
        std::mem::swap(&mut left, &mut right);
    }
    read(left, depth - 1, found);
    read(right, depth - 1, found);
}

fn crosses(piece: &PageLine, gutter: f32) -> bool {
    piece.place.left < gutter && piece.place.right > gutter
}

/// Whether there is prose on both sides of a gutter, so that the row consists of two lines.
fn is_prose_beside(row: &PageRow, gutter: f32) -> bool {
    let is_prose = |piece: &PageLine| {
        // Half as many Chinese characters fill the same width.
        piece.text.chars().count() >= PROSE_CHARS_MIN / 2 && piece.width_in_letters() >= PROSE_CHARS_MIN
    };
    row.pieces.iter().any(|piece| piece.place.right <= gutter && is_prose(piece))
        && row.pieces.iter().any(|piece| piece.place.left >= gutter && is_prose(piece))
}

/// Position of the gap between two columns: the one that the most rows of prose leave free.
fn gutter(rows: &[PageRow]) -> Option<f32> {
    let left = rows.iter().map(PageRow::left).fold(f32::MAX, f32::min);
    let right = rows.iter().map(PageRow::right).fold(f32::MIN, f32::max);
    let place = |number: usize| {
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let share = number as f32 / PLACES as f32;
        left + (right - left) * share
    };
    let score = |place: &f32| {
        let beside = rows.iter().filter(|row| is_prose_beside(row, *place)).count();
        let across = rows.iter().filter(|row| row.pieces.iter().any(|piece| crosses(piece, *place))).count();
        (beside, across)
    };
    // Positions near the edges are margins.
    let places = (PLACES / 6..PLACES * 5 / 6).map(place);
    let (place, (beside, across)) = places
        .map(|place| (place, score(&place)))
        .max_by_key(|(_, (beside, across))| (*beside, std::cmp::Reverse(*across)))?;
    (beside >= ROWS_MIN && beside > across).then_some(place)
}

/// Reads row by row, and detects tables.
fn read_rows(rows: &[PageRow], found: &mut Vec<PageBlock>) {
    let mut at = 0;
    while let Some(row) = rows.get(at) {
        if let Some(((cells, place), length)) = spaced_table::at_start(&rows[at..]) {
            found.push(PageBlock::Table(cells, place));
            at += length;
        } else {
            found.extend(whole(row.clone()).map(PageBlock::Line));
            at += 1;
        }
    }
}

/// Joins a row into one line.
fn whole(row: PageRow) -> Option<PageLine> {
    let mut pieces = row.pieces.into_iter();
    let mut line = pieces.next()?;
    let mut last_place = line.place;
    for piece in pieces {
        let gap = gap(last_place, piece.place);
        last_place = piece.place;
        line.has_cells |= gap > CELL_GAP * line.size.max(piece.size);
        line.add(&piece, gap);
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(text: &str, left: f32, row: usize) -> PageLine {
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let (top, length) = (row as f32 * 12.0, text.chars().count() as f32);
        let place = Position { page: 1, left, right: left + length * 5.0, top, bottom: top + 10.0 };
        PageLine {
            text: text.to_owned(),
            place,
            size: 10.0,
            is_bold: false,
            is_mono: false,
            has_cells: false,
        }
    }

    fn read(pieces: Vec<PageLine>) -> Vec<String> {
        let told = |block: PageBlock| match block {
            PageBlock::Line(line) => line.text,
            PageBlock::Table(rows, _) => rows.iter().map(|row| row.join("|")).collect::<Vec<_>>().join("/"),
        };
        blocks(pieces).into_iter().map(told).collect()
    }

    #[test]
    fn columns_of_prose_are_read_one_after_another() {
        let mut pieces =
            vec![piece("A title that reaches over both of the columns of the page, as it does", 0.0, 0)];
        for row in 1..=6 {
            pieces.push(piece(&format!("this is line {row} of the left column"), 0.0, row));
            pieces.push(piece(&format!("this is line {row} of the right column"), 220.0, row));
        }
        let read = read(pieces);
        assert_eq!(read.len(), 13);
        assert_eq!(read[1], "this is line 1 of the left column");
        assert_eq!(read[6], "this is line 6 of the left column");
        assert_eq!(read[7], "this is line 1 of the right column");
    }

    #[test]
    fn right_to_left_words_are_reversed_but_numbers_are_not() {
        let words = ["ثالث", "12", "345", "ثان", "أول"];
        let pieces = words.iter().zip([0.0, 60.0, 90.0, 130.0, 180.0]);
        let read = read(pieces.map(|(word, left)| piece(word, left, 0)).collect());
        assert_eq!(read, ["أول ثان 12 345 ثالث"]);
    }

    #[test]
    fn forms_and_tables_are_read_row_by_row() {
        let mut pieces = Vec::new();
        for row in 0..8 {
            pieces.push(piece(&format!("Label {row}:"), 0.0, row));
            pieces.push(piece(&format!("value {row}"), 220.0, row));
        }
        let read = read(pieces);
        assert_eq!(read[..2], ["Label 0: value 0", "Label 1: value 1"]);
    }
}
