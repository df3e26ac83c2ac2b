//! The order in which a page is read: row by row, but column by column where there are columns of prose.

use weft_core::seam::document_reader::Position;

use super::leftward::direction;
use super::page::{PageBlock, PageLine};
use super::spaced_table;

/// Pieces of a row that are farther apart, in sizes of the type, may belong to different columns.
const GUTTER: f32 = 0.9;
/// Pieces of a row that are farther apart, in sizes of the type, are cells rather than words.
const CELL_GAP: f32 = 2.0;
/// Characters that a line of prose has, at least; what is shorter is a cell of a table or a form.
pub(super) const PROSE_CHARS_MIN: usize = 20;
/// Rows side by side that make columns, at least.
const ROWS_MIN: usize = 5;
/// Columns side by side, at most, as a power of two.
const DEPTH_MAX: u8 = 2;
/// Places across a page at which a gutter is looked for.
const PLACES: usize = 120;

/// Pieces of text on the same height, from left to right.
#[derive(Clone, Debug)]
pub(super) struct PageRow {
    /// There is one at least.
    pub pieces: Vec<PageLine>,
}

impl PageRow {
    fn left(&self) -> f32 {
        self.pieces.iter().map(|piece| piece.place.left).fold(f32::MAX, f32::min)
    }

    fn right(&self) -> f32 {
        self.pieces.iter().map(|piece| piece.place.right).fold(f32::MIN, f32::max)
    }
}

/// The lines and tables of a page in reading order, from pieces in any order.
pub(super) fn blocks(pieces: Vec<PageLine>) -> Vec<PageBlock> {
    let mut found = Vec::new();
    read(rows(pieces), DEPTH_MAX, &mut found);
    found
}

/// The lines of a cell, from pieces in any order: what is on the same height is one, however far apart it stands.
pub(super) fn lines(pieces: Vec<PageLine>) -> Vec<PageLine> {
    rows(pieces).into_iter().filter_map(whole).collect()
}

/// What stands together in a cell: pieces that are on the same height with no more than a blank between them are one.
pub(super) fn parts(pieces: Vec<PageLine>) -> Vec<PageLine> {
    rows(pieces).into_iter().flat_map(|row| row.pieces).collect()
}

/// Pieces that overlap in their height are a row.
fn rows(mut pieces: Vec<PageLine>) -> Vec<PageRow> {
    pieces.sort_by(|one, other| {
        one.place.top.total_cmp(&other.place.top).then(one.place.left.total_cmp(&other.place.left))
    });
    let mut rows: Vec<(f32, f32, PageRow)> = Vec::new();
    for piece in pieces {
        let (top, bottom) = (piece.place.top, piece.place.bottom);
        // Rows come from above, so only the last ones can still be met.
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

/// Pieces from left to right in the order in which they are read.
fn as_read(mut pieces: Vec<PageLine>) -> Vec<PageLine> {
    if !is_leftward(&pieces) {
        return pieces;
    }
    pieces.reverse();
    // Numbers and words of other scripts are read to the right in between.
    let mut at = 0;
    while at < pieces.len() {
        let run = pieces[at..].iter().take_while(|piece| direction(&piece.text) > 0).count();
        pieces[at..at + run].reverse();
        at += run.max(1);
    }
    pieces
}

/// Whether most letters of some text are of a script that is written from right to left.
fn is_leftward<'a>(pieces: impl IntoIterator<Item = &'a PageLine>) -> bool {
    pieces.into_iter().map(|piece| direction(&piece.text)).sum::<i32>() < 0
}

/// Pieces that are not farther apart than `gap` sizes of the type become one.
fn joined(pieces: Vec<PageLine>, gap_max: f32) -> Vec<PageLine> {
    let mut joined: Vec<PageLine> = Vec::new();
    // Where the last piece is by itself: what is read in another direction may lie in the middle of a line.
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

/// How much is between two pieces, whichever of them is on the left; below zero when they overlap.
fn gap(one: Position, other: Position) -> f32 {
    (other.left - one.right).max(one.left - other.right)
}

fn read(rows: Vec<PageRow>, depth: u8, found: &mut Vec<PageBlock>) {
    let gutter = if depth == 0 { None } else { gutter(&rows) };
    let Some(gutter) = gutter else {
        read_rows(&rows, found);
        return;
    };
    // What reaches over the gutter is read on its own and ends the columns above it.
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
    // In such scripts the column on the right is read first.
    if are_leftward(&left) && are_leftward(&right) {
        std::mem::swap(&mut left, &mut right);
    }
    read(left, depth - 1, found);
    read(right, depth - 1, found);
}

fn crosses(piece: &PageLine, gutter: f32) -> bool {
    piece.place.left < gutter && piece.place.right > gutter
}

/// Whether there is prose on both sides of a gutter, so that the row is two lines.
fn is_prose_beside(row: &PageRow, gutter: f32) -> bool {
    let is_prose = |piece: &PageLine| {
        piece.text.chars().count() >= PROSE_CHARS_MIN / 2 && piece.width_in_letters() >= PROSE_CHARS_MIN
    };
    row.pieces.iter().any(|piece| piece.place.right <= gutter && is_prose(piece))
        && row.pieces.iter().any(|piece| piece.place.left >= gutter && is_prose(piece))
}

/// Where the blank between two columns is: the place that most rows of prose leave free.
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
    // Towards the edges there are margins, and no gutter.
    let places = (PLACES / 6..PLACES * 5 / 6).map(place);
    let (place, (beside, across)) = places
        .map(|place| (place, score(&place)))
        .max_by_key(|(_, (beside, across))| (*beside, std::cmp::Reverse(*across)))?;
    (beside >= ROWS_MIN && beside > across).then_some(place)
}

/// Row by row, with what is a table.
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

/// A row as one line.
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
    fn words_from_right_to_left_are_read_so_and_numbers_among_them_are_not() {
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
