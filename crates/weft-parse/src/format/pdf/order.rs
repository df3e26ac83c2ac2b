//! The order in which a page is read: row by row, but column by column where there are columns of prose.

use super::page::Line;

/// Pieces of a row that are farther apart, in sizes of the type, may belong to different columns.
const GUTTER: f32 = 0.9;
/// Pieces of a row that are farther apart, in sizes of the type, are cells rather than words.
const CELL_GAP: f32 = 2.0;
/// Characters that a line of prose has, at least; what is shorter is a cell of a table or a form.
const PROSE_CHARS_MIN: usize = 20;
/// Rows side by side that make columns, at least.
const ROWS_MIN: usize = 5;
/// Columns side by side, at most, as a power of two.
const DEPTH_MAX: u8 = 2;
/// Places across a page at which a gutter is looked for.
const PLACES: usize = 120;

/// Pieces of text on the same height, from left to right.
#[derive(Clone, Debug)]
struct Row {
    pieces: Vec<Line>,
}

impl Row {
    fn left(&self) -> f32 {
        self.pieces.first().map_or(0.0, |piece| piece.place.left)
    }

    fn right(&self) -> f32 {
        self.pieces.last().map_or(0.0, |piece| piece.place.right)
    }
}

/// The lines of a page in reading order, from pieces in any order.
pub fn lines(mut pieces: Vec<Line>) -> Vec<Line> {
    pieces.sort_by(|one, other| {
        one.place.top.total_cmp(&other.place.top).then(one.place.left.total_cmp(&other.place.left))
    });
    let mut found = Vec::new();
    read(rows(pieces), DEPTH_MAX, &mut found);
    found
}

/// Pieces that overlap in their height are a row.
fn rows(pieces: Vec<Line>) -> Vec<Row> {
    let mut rows: Vec<(f32, f32, Row)> = Vec::new();
    for piece in pieces {
        let (top, bottom) = (piece.place.top, piece.place.bottom);
        // Rows come from above, so only the last ones can still be met.
        let met = rows.iter_mut().rev().take(8).find(|(row_top, row_bottom, _)| {
            let overlap = bottom.min(*row_bottom) - top.max(*row_top);
            overlap > 0.5 * (bottom - top).min(*row_bottom - *row_top)
        });
        match met {
            Some((.., row)) => row.pieces.push(piece),
            None => rows.push((top, bottom, Row { pieces: vec![piece] })),
        }
    }
    let sorted = rows.into_iter().map(|(.., mut row)| {
        row.pieces.sort_by(|one, other| one.place.left.total_cmp(&other.place.left));
        Row { pieces: joined(row.pieces, GUTTER) }
    });
    sorted.collect()
}

/// Pieces that are not farther apart than `gap` sizes of the type become one.
fn joined(pieces: Vec<Line>, gap: f32) -> Vec<Line> {
    let mut joined: Vec<Line> = Vec::new();
    for piece in pieces {
        match joined.last_mut() {
            Some(last) if piece.place.left - last.place.right < gap * last.size.max(piece.size) => {
                last.add(&piece);
            }
            _ => joined.push(piece),
        }
    }
    joined
}

fn read(rows: Vec<Row>, depth: u8, found: &mut Vec<Line>) {
    let gutter = if depth == 0 { None } else { gutter(&rows) };
    let Some(gutter) = gutter else {
        found.extend(rows.into_iter().filter_map(whole));
        return;
    };
    // What reaches over the gutter is read on its own and ends the columns above it.
    let mut band = Vec::new();
    for row in rows {
        if row.pieces.iter().any(|piece| crosses(piece, gutter)) {
            read_band(std::mem::take(&mut band), gutter, depth, found);
            found.extend(whole(row));
        } else {
            band.push(row);
        }
    }
    read_band(band, gutter, depth, found);
}

fn read_band(band: Vec<Row>, gutter: f32, depth: u8, found: &mut Vec<Line>) {
    if band.iter().filter(|row| is_prose_beside(row, gutter)).count() * 2 < band.len().min(ROWS_MIN) {
        found.extend(band.into_iter().filter_map(whole));
        return;
    }
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for row in band {
        let (before, after): (Vec<_>, Vec<_>) =
            row.pieces.into_iter().partition(|piece| piece.place.right <= gutter);
        left.extend(Some(Row { pieces: before }).filter(|row| !row.pieces.is_empty()));
        right.extend(Some(Row { pieces: after }).filter(|row| !row.pieces.is_empty()));
    }
    read(left, depth - 1, found);
    read(right, depth - 1, found);
}

fn crosses(piece: &Line, gutter: f32) -> bool {
    piece.place.left < gutter && piece.place.right > gutter
}

/// Whether there is prose on both sides of a gutter, so that the row is two lines.
fn is_prose_beside(row: &Row, gutter: f32) -> bool {
    let is_prose = |piece: &Line| {
        piece.text.chars().count() >= PROSE_CHARS_MIN / 2 && piece.width_in_letters() >= PROSE_CHARS_MIN
    };
    row.pieces.iter().any(|piece| piece.place.right <= gutter && is_prose(piece))
        && row.pieces.iter().any(|piece| piece.place.left >= gutter && is_prose(piece))
}

/// Where the blank between two columns is: the place that most rows of prose leave free.
fn gutter(rows: &[Row]) -> Option<f32> {
    let left = rows.iter().map(Row::left).fold(f32::MAX, f32::min);
    let right = rows.iter().map(Row::right).fold(f32::MIN, f32::max);
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
    let places = (PLACES / 6..PLACES * 5 / 6).map(place);
    let (place, (beside, across)) = places
        .map(|place| (place, score(&place)))
        .max_by_key(|(_, (beside, across))| (*beside, std::cmp::Reverse(*across)))?;
    (beside >= ROWS_MIN && beside > across).then_some(place)
}

/// A row as one line.
fn whole(row: Row) -> Option<Line> {
    let mut pieces = row.pieces.into_iter();
    let mut line = pieces.next()?;
    for piece in pieces {
        line.has_cells |= piece.place.left - line.place.right > CELL_GAP * line.size.max(piece.size);
        line.add(&piece);
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use weft_core::seam::document_reader::Position;

    use super::*;

    fn piece(text: &str, left: f32, row: usize) -> Line {
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let (top, length) = (row as f32 * 12.0, text.chars().count() as f32);
        let place = Position { page: 1, left, right: left + length * 5.0, top, bottom: top + 10.0 };
        Line { text: text.to_owned(), place, size: 10.0, is_bold: false, is_mono: false, has_cells: false }
    }

    fn read(pieces: Vec<Line>) -> Vec<String> {
        lines(pieces).into_iter().map(|line| line.text).collect()
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
