//! Tables of an RTF, built row by row.

use crate::element::TableElement;
use crate::grid::{header_rows, once_more};
use crate::parts::PartCollector;

/// The table that is being read.
#[derive(Default)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
    pub(super) row: Vec<String>,
    headers: usize,
    pub(super) is_header: bool,
    /// Which cells of the row continue the cell above them.
    pub(super) hangs: Vec<bool>,
    pub(super) is_hanging: bool,
    repeated: usize,
}

impl Table {
    /// Ends the current row.
    pub(super) fn end_row(&mut self) {
        let mut row = std::mem::take(&mut self.row);
        for (place, cell) in row.iter_mut().enumerate() {
            // A cell that spans rows is repeated in each of them, so that every row can be understood alone.
            if cell.trim().is_empty()
                && self.hangs.get(place) == Some(&true)
                && let Some(above) = self.rows.last().and_then(|above| above.get(place))
            {
                *cell = once_more(above, &mut self.repeated);
            }
        }
        if self.is_header && self.headers == self.rows.len() {
            self.headers += 1;
        }
        self.rows.push(row);
    }

    /// Adds the table, if there is one, before the element that follows it.
    pub(super) fn add(&mut self, parts: &mut PartCollector) {
        if !self.row.is_empty() {
            self.end_row();
        }
        let Self { rows, headers, .. } = std::mem::take(self);
        if !rows.is_empty() {
            let header_rows = if headers > 0 { headers } else { header_rows(&rows) };
            parts.table(TableElement { caption: None, header_rows, rows });
        }
    }
}
