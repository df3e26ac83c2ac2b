//! Joins a table that continues on the next page, so that each part of it can be read with its header.

use weft_core::seam::document_reader::Position;

use crate::element::{ElementBody, TableElement};
use crate::grid::header_rows;
use crate::parts::PartCollector;

/// Maximum difference between the edges of two parts of a table, as a fraction of its width.
const SLACK: f32 = 0.08;
/// Maximum number of rows in one table.
const ROWS_MAX: usize = 100_000;

/// A table and the position of each of its parts.
pub(super) struct PagedTable {
    /// Rows of the table.
    pub rows: Vec<Vec<String>>,
    /// One rectangle for each page.
    pub places: Vec<Position>,
}

impl PagedTable {
    /// Appends a table on the next page if it continues this one, and returns whether it does.
    pub(super) fn takes(&mut self, rows: &[Vec<String>], place: Position) -> bool {
        let Some(last) = self.places.last() else { return false };
        let width = (last.right - last.left).max(1.0);
        let is_alike = (last.left - place.left).abs() < width * SLACK
            && (last.right - place.right).abs() < width * SLACK;
        let columns = |rows: &[Vec<String>]| rows.iter().map(Vec::len).max();
        if place.page != last.page + 1
            || !is_alike
            || columns(rows) != columns(&self.rows)
            || self.rows.len() + rows.len() > ROWS_MAX
        {
            return false;
        }
        // A header that is repeated on every page is kept once.
        let again = rows.iter().zip(&self.rows).take_while(|(row, first)| row == first).count();
        let headers = header_rows(&self.rows).max(1);
        self.rows.extend(rows.iter().skip(again.min(headers)).cloned());
        self.places.push(place);
        true
    }

    /// Adds the table to the elements of the file.
    pub(super) fn add(mut self, parts: &mut PartCollector) {
        self.rows.retain(|row| row.iter().any(|cell| !cell.is_empty()));
        if !self.rows.is_empty() {
            let table = TableElement { caption: None, header_rows: header_rows(&self.rows), rows: self.rows };
            parts.push_at(ElementBody::Table(table), self.places);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(texts: &[[&str; 2]]) -> Vec<Vec<String>> {
        texts.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect()
    }

    fn place(page: u32, right: f32) -> Position {
        Position { page, left: 50.0, right, top: 10.0, bottom: 700.0 }
    }

    #[test]
    fn a_table_continues_on_the_next_page() {
        let table =
            || PagedTable { rows: rows(&[["name", "sum"], ["a", "1"]]), places: vec![place(1, 550.0)] };
        let mut whole = table();
        assert!(whole.takes(&rows(&[["name", "sum"], ["b", "2"]]), place(2, 548.0)));
        assert!(whole.takes(&rows(&[["c", "3"]]), place(3, 550.0)));
        assert_eq!(whole.rows, rows(&[["name", "sum"], ["a", "1"], ["b", "2"], ["c", "3"]]));
        assert_eq!(whole.places.len(), 3);
        // Another width, another number of columns, another page.
        assert!(!table().takes(&rows(&[["b", "2"]]), place(2, 400.0)));
        assert!(!table().takes(&[vec!["b".to_owned()]], place(2, 550.0)));
        assert!(!table().takes(&rows(&[["b", "2"]]), place(4, 550.0)));
    }
}
