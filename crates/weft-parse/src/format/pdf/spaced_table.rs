//! Tables without lines: what stands in the same columns of several rows.
//!
//! A wrong guess does more harm than a right one is of use, so there have to be three columns at least, most of
//! their cells have to be filled, and what stands in them has to be short.

use weft_core::seam::document_reader::Position;

use super::order::PageRow;
use super::page::{PageLine, PlacedTable};

/// Columns and rows of a table, at least.
const COLUMNS_MIN: usize = 3;
const ROWS_MIN: usize = 3;
/// Rows of a table on one page, at most: the search for one begins anew at every row.
const ROWS_MAX: usize = 1_000;
/// Columns of a table, at most: more are letters that stand apart.
const COLUMNS_MAX: usize = 40;
/// Between columns there is a blank that is wider, in sizes of the type.
const GAP: f32 = 0.6;
/// The next row of a table begins within so many sizes of the type below the last one.
const LEADING_MAX: f32 = 2.5;
/// The part of the cells that are filled, at least.
const FILLED_MIN: f32 = 0.6;
/// Characters of most cells, at most.
const CELL_CHARS: usize = 32;

/// The table that begins with the first of some rows, and how many of them it takes.
pub(super) fn at_start(rows: &[PageRow]) -> Option<(PlacedTable, usize)> {
    let length = reach(rows);
    // Its end may be something else that stands in two pieces: then it ends earlier.
    (ROWS_MIN..=length).rev().take(3).find_map(|length| Some((table(&rows[..length])?, length)))
}

/// How many rows may belong to one table: they follow closely, and none is a single piece unless it is a part of
/// one cell.
fn reach(rows: &[PageRow]) -> usize {
    let Some(first) = rows.first().filter(|row| row.pieces.len() > 1) else { return 0 };
    let (mut bottom, mut size) = (first.bottom(), first.size());
    let mut length = 1;
    for row in rows[1..].iter().take(ROWS_MAX - 1) {
        let is_near = row.top() - bottom < LEADING_MAX * size;
        let is_like = (row.size() - size).abs() < size * 0.35;
        if !is_near || !is_like || row.pieces.len() < 2 && row.letters() > CELL_CHARS {
            break;
        }
        (bottom, size) = (row.bottom(), row.size().max(1.0));
        length += 1;
    }
    // What ends in single pieces is followed by text.
    while length > 0 && rows[length - 1].pieces.len() < 2 {
        length -= 1;
    }
    length
}

fn table(rows: &[PageRow]) -> Option<PlacedTable> {
    let columns = columns(rows);
    if !(COLUMNS_MIN..=COLUMNS_MAX).contains(&columns.len()) {
        return None;
    }
    let mut cells: Vec<Vec<String>> = Vec::with_capacity(rows.len());
    let mut place = rows.first()?.pieces.first()?.place;
    for row in rows {
        let filled = filled(row, &columns)?;
        row.pieces.iter().for_each(|piece| place = around(place, piece.place));
        match cells.last_mut() {
            Some(last) if goes_on(&filled, last) => continue_row(last, filled),
            _ => cells.push(filled),
        }
    }
    is_table(&cells, columns.len()).then_some((cells, place))
}

/// The parts of the width in which something stands, with blanks between them.
fn columns(rows: &[PageRow]) -> Vec<(f32, f32)> {
    // A heading over several columns would make one of them.
    let most = rows.iter().map(|row| row.pieces.len()).max().unwrap_or_default();
    let mut parts: Vec<(f32, f32)> = rows
        .iter()
        .filter(|row| row.pieces.len() * 2 > most)
        .flat_map(|row| row.pieces.iter().map(|piece| (piece.place.left, piece.place.right)))
        .collect();
    parts.sort_by(|one, other| one.0.total_cmp(&other.0));
    let size = rows.first().map_or(10.0, PageRow::size);
    let mut columns: Vec<(f32, f32)> = Vec::new();
    for (left, right) in parts {
        match columns.last_mut() {
            Some(last) if left < last.1 + GAP * size => last.1 = last.1.max(right),
            _ => columns.push((left, right)),
        }
    }
    columns
}

/// A row by columns; `None` when pieces of it do not fit into them.
fn filled(row: &PageRow, columns: &[(f32, f32)]) -> Option<Vec<String>> {
    let mut cells = vec![String::new(); columns.len()];
    for piece in &row.pieces {
        let mut over = columns
            .iter()
            .enumerate()
            .filter(|(_, (left, right))| piece.place.left < *right && piece.place.right > *left)
            .map(|(at, _)| at);
        let first = over.next()?;
        // Over all columns it is a line of text, or a title within the table.
        if over.count() + 1 == columns.len() {
            return None;
        }
        let cell = &mut cells[first];
        if !cell.is_empty() {
            cell.push(' ');
        }
        cell.push_str(piece.text.trim());
    }
    Some(cells)
}

/// Whether a row is the rest of the cells above it: it has no beginning and less than half of the cells.
fn goes_on(row: &[String], last: &[String]) -> bool {
    let count = |row: &[String]| row.iter().filter(|cell| !cell.is_empty()).count();
    // A cell that begins with a number is a value, and not the rest of a text.
    row[0].is_empty()
        && !last[0].is_empty()
        && count(row) * 2 <= count(last)
        && row.iter().zip(last).all(|(cell, above)| cell.is_empty() || !above.is_empty())
        && row.iter().all(|cell| !cell.starts_with(|c: char| c.is_ascii_digit()))
}

fn continue_row(last: &mut [String], row: Vec<String>) {
    for (cell, rest) in last.iter_mut().zip(row) {
        if !rest.is_empty() {
            *cell = crate::words::join(std::mem::take(cell), &rest);
        }
    }
}

fn is_table(cells: &[Vec<String>], columns: usize) -> bool {
    let filled: Vec<&String> = cells.iter().flatten().filter(|cell| !cell.is_empty()).collect();
    let short = filled.iter().filter(|cell| cell.chars().count() <= CELL_CHARS).count();
    // Letters or signs that stand apart, as in a formula or a drawing, are none.
    let words = filled.iter().filter(|cell| cell.chars().count() > 1).count();
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let share = filled.len() as f32 / (cells.len() * columns).max(1) as f32;
    cells.len() >= ROWS_MIN
        && share >= FILLED_MIN
        && short * 10 >= filled.len() * 8
        && words * 2 >= filled.len()
}

/// The rectangle around two others.
pub(super) fn around(one: Position, other: Position) -> Position {
    Position {
        left: one.left.min(other.left),
        right: one.right.max(other.right),
        top: one.top.min(other.top),
        bottom: one.bottom.max(other.bottom),
        ..one
    }
}

impl PageRow {
    fn top(&self) -> f32 {
        self.pieces.iter().map(|piece| piece.place.top).fold(f32::MAX, f32::min)
    }

    fn bottom(&self) -> f32 {
        self.pieces.iter().map(|piece| piece.place.bottom).fold(f32::MIN, f32::max)
    }

    fn size(&self) -> f32 {
        self.pieces.iter().map(|piece| piece.size).fold(1.0, f32::max)
    }

    fn letters(&self) -> usize {
        self.pieces.iter().map(|piece: &PageLine| piece.text.chars().count()).sum()
    }
}
