//! Tables without lines: text that is aligned in columns over several rows.
//!
//! A wrong guess does more harm than a right one helps, so a table must have at least three columns, most of its cells
//! must be filled, and their text must be short.

use weft_core::seam::document_reader::Position;

use super::line::{PageLine, PageRow, PlacedTable};

/// Minimum numbers of columns and rows.
const COLUMNS_MIN: usize = 3;
const ROWS_MIN: usize = 3;
/// Maximum number of rows of a table on one page, because the search for a table starts again at every row.
const ROWS_MAX: usize = 1_000;
/// Maximum number of columns: more than this are widely spaced letters.
const COLUMNS_MAX: usize = 40;
/// Minimum gap between columns, as a multiple of the type size.
const GAP: f32 = 0.6;
/// Maximum distance from one row of a table to the next, as a multiple of the type size.
const LEADING_MAX: f32 = 2.5;
/// Minimum proportion of filled cells.
const FILLED_MIN: f32 = 0.6;
/// Maximum number of characters in most of the cells.
const CELL_CHARS: usize = 32;

/// The table that begins with the first of these rows, and the number of rows that it takes.
pub(super) fn at_start(rows: &[PageRow]) -> Option<(PlacedTable, usize)> {
    let length = reach(rows);
    // The last rows may be other text that also happens to be in two pieces; then the table ends earlier.
    (ROWS_MIN..=length).rev().take(3).find_map(|length| Some((table(&rows[..length])?, length)))
}

/// Maximum number of rows that can belong to one table: they follow each other closely, and none is a single piece,
/// unless that continues a cell.
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
    // Single pieces at the end belong to the text after the table.
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

/// Horizontal ranges that contain text, separated by gaps.
fn columns(rows: &[PageRow]) -> Vec<(f32, f32)> {
    // A heading that spans several columns would merge them, so rows with few pieces are ignored.
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

/// Assigns the pieces of a row to columns; `None` if they do not fit.
fn filled(row: &PageRow, columns: &[(f32, f32)]) -> Option<Vec<String>> {
    let mut cells = vec![String::new(); columns.len()];
    for piece in &row.pieces {
        let mut over = columns
            .iter()
            .enumerate()
            .filter(|(_, (left, right))| piece.place.left < *right && piece.place.right > *left)
            .map(|(at, _)| at);
        let first = over.next()?;
        // A piece across all columns is a line of text, or a title within the table.
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

/// Whether a row continues the cells above it: its first cell is empty, and at most half as many cells are filled.
fn goes_on(row: &[String], last: &[String]) -> bool {
    let count = |row: &[String]| row.iter().filter(|cell| !cell.is_empty()).count();
    // A cell that begins with a number is a value, not a continuation of text.
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
    // Widely spaced letters or symbols, as in a formula or a drawing, are not a table.
    let words = filled.iter().filter(|cell| cell.chars().count() > 1).count();
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let share = filled.len() as f32 / (cells.len() * columns).max(1) as f32;
    cells.len() >= ROWS_MIN
        && share >= FILLED_MIN
        && short * 10 >= filled.len() * 8
        && words * 2 >= filled.len()
}

/// The bounding box of two rectangles.
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
