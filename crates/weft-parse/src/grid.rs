//! Flattens tables whose cells span several rows and columns.

use crate::element::TableElement;

/// Maximum number of cells of one table.
const CELLS_MAX: usize = 2_000_000;
/// Maximum number of columns or rows that one cell may span.
const SPAN_MAX: usize = 1_000;
/// Maximum number of bytes of text repeated in one table because cells span several rows.
const REPEATED_BYTES_MAX: usize = 16 << 20;

/// Builds a table from its cells in order. A cell that spans rows is repeated in each of them, so that every row can be
/// understood alone; a cell that spans columns appears once.
#[derive(Debug, Default)]
pub(crate) struct Grid {
    rows: Vec<Vec<String>>,
    /// For each column, the text that continues from above, and for how many rows.
    hanging: Vec<Option<(usize, String)>>,
    headers: usize,
    /// Whether the current row has only header cells so far.
    row_is_header: bool,
    cells: usize,
    /// Bytes of repeated text.
    repeated: usize,
}

impl Grid {
    /// Creates a grid for a table within a cell of another one. It becomes text of that cell, so nothing in it is
    /// repeated: otherwise every level of nesting would multiply its contents.
    pub(crate) fn inner() -> Self {
        Self { repeated: REPEATED_BYTES_MAX, ..Self::default() }
    }

    /// Starts the next row.
    pub(crate) fn row(&mut self) {
        self.end_row();
        self.rows.push(Vec::new());
        self.row_is_header = true;
    }

    /// Adds the next cell of the row.
    pub(crate) fn cell(&mut self, text: &str, header: Header, columns: usize, rows: usize) {
        // Malformed tables have cells before their first row.
        if self.rows.is_empty() {
            self.row();
        }
        self.fill();
        self.row_is_header &= header == Header::Yes;
        let text = crate::words::line(text);
        let (columns, rows) = (columns.clamp(1, SPAN_MAX), rows.clamp(1, SPAN_MAX));
        for column in 0..columns {
            let shown = if column == 0 { text.clone() } else { String::new() };
            let place = self.width();
            if rows > 1 {
                if self.hanging.len() <= place {
                    self.hanging.resize(place + 1, None);
                }
                self.hanging[place] = Some((rows - 1, shown.clone()));
            }
            self.put(shown);
        }
    }

    /// Whether the current row is the first one.
    pub(crate) fn is_first_row(&self) -> bool {
        self.rows.len() <= 1
    }

    /// Returns the text above the next cell of the row, for formats that mark the continuation cells of a span.
    pub(crate) fn above(&mut self) -> String {
        let [.., above, row] = self.rows.as_slice() else { return String::new() };
        above.get(row.len()).map(|text| once_more(text, &mut self.repeated)).unwrap_or_default()
    }

    /// Returns the finished table.
    pub(crate) fn finish(mut self, caption: Option<String>) -> TableElement {
        self.end_row();
        TableElement { caption, header_rows: self.headers, rows: self.rows }
    }

    fn width(&self) -> usize {
        self.rows.last().map_or(0, Vec::len)
    }

    fn put(&mut self, text: String) {
        self.cells += 1;
        if self.cells <= CELLS_MAX
            && let Some(row) = self.rows.last_mut()
        {
            row.push(text);
        }
    }

    /// Adds the cells that continue from above.
    fn fill(&mut self) {
        while let Some(Some((rows, text))) = self.hanging.get_mut(self.rows.last().map_or(0, Vec::len)) {
            let text = once_more(text, &mut self.repeated);
            *rows -= 1;
            if *rows == 0 {
                let place = self.width();
                self.hanging[place] = None;
            }
            let before = self.width();
            self.put(text);
            // When the limit refuses the cell, the width does not grow and the loop would never end.
            if self.width() == before {
                return;
            }
        }
    }

    fn end_row(&mut self) {
        let Some(row) = self.rows.last() else { return };
        let begun = !row.is_empty();
        self.fill();
        // Only the rows at the top are headers.
        if begun && self.row_is_header && self.headers + 1 == self.rows.len() {
            self.headers += 1;
        }
    }
}

/// Returns a copy of a text that the table already contains; empty once the limit on repeated bytes is reached.
pub(crate) fn once_more(text: &str, repeated: &mut usize) -> String {
    let all = repeated.saturating_add(text.len());
    if all > REPEATED_BYTES_MAX {
        return String::new();
    }
    *repeated = all;
    text.to_owned()
}

/// Guesses the number of header rows where the file does not say: the first row is a header if it has a name for every
/// column and none of them is a number.
pub(crate) fn header_rows(rows: &[Vec<String>]) -> usize {
    let [first, rest @ ..] = rows else { return 0 };
    let columns = rest.iter().take(100).map(|row| row.iter().rposition(|cell| !cell.trim().is_empty()));
    let columns = columns.max().flatten().map_or(0, |last| last + 1);
    let named = first.iter().take(columns).filter(|cell| !cell.trim().is_empty()).count();
    usize::from(columns > 0 && named == columns && names_columns(rows, columns))
}

/// Whether the first row has names, and no numbers, in these columns.
pub(crate) fn names_columns(rows: &[Vec<String>], columns: usize) -> bool {
    let [first, rest @ ..] = rows else { return false };
    let is_name = |cell: &String| cell.trim().parse::<f64>().is_err();
    // A year can name a column of numbers, but not a column of years.
    let is_year =
        |cell: &String| cell.trim().parse::<u16>().is_ok_and(|year| (1_900..=2_100).contains(&year));
    let below = |column: usize| rest.first().and_then(|row| row.get(column));
    let names_years = |(column, cell): (usize, &String)| {
        is_name(cell) || is_year(cell) && below(column).is_some_and(|below| !is_year(below))
    };
    let filled = || first.iter().take(columns).enumerate().filter(|(_, cell)| !cell.trim().is_empty());
    filled().all(names_years) && filled().any(|(_, cell)| is_name(cell))
}

/// Whether a cell is a header of the column below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// It does.
    Yes,
    /// It does not.
    No,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_spanning_cells_appear_in_each_row() {
        let mut grid = Grid::default();
        grid.row();
        grid.cell("Year", Header::Yes, 1, 1);
        grid.cell("Sales", Header::Yes, 2, 1);
        grid.row();
        grid.cell("2023", Header::No, 1, 2);
        grid.cell("a", Header::No, 1, 1);
        grid.cell("b", Header::No, 1, 1);
        grid.row();
        grid.cell("c", Header::No, 1, 1);
        grid.cell("d", Header::No, 1, 1);
        let table = grid.finish(None);
        assert_eq!(table.header_rows, 1);
        assert_eq!(table.rows, [["Year", "Sales", ""], ["2023", "a", "b"], ["2023", "c", "d"]]);
    }

    #[test]
    fn headers_are_guessed() {
        let check = |rows: &[&[&str]], expected: usize| {
            let rows: Vec<Vec<String>> =
                rows.iter().map(|row| row.iter().map(|&cell| cell.to_owned()).collect()).collect();
            assert_eq!(header_rows(&rows), expected, "{rows:?}");
        };
        check(&[&["name", "age"], &["Ada", "36"]], 1);
        check(&[&["name", "7"], &["Ada", "36"]], 0);
        check(&[&["name", "2023"], &["Ada", "36"]], 1);
        check(&[&["name", "2023"], &["Ada", "2024"]], 0);
        check(&[&["2022", "2023"], &["35", "36"]], 0);
        check(&[&["A title"], &["name", "age"], &["Ada", "36"]], 0);
        check(&[&["only"]], 0);
        check(&[], 0);
    }

    #[test]
    fn long_texts_are_not_repeated_without_limit() {
        let long = "x".repeat(REPEATED_BYTES_MAX / 4);
        let bytes = |mut grid: Grid| {
            grid.row();
            grid.cell(&long, Header::No, 1, usize::MAX);
            for _ in 0..SPAN_MAX {
                grid.row();
                grid.cell("y", Header::No, 1, 1);
            }
            grid.finish(None).rows.iter().flatten().map(String::len).sum::<usize>()
        };
        assert_eq!(bytes(Grid::default()), long.len() * 5 + SPAN_MAX);
        assert_eq!(bytes(Grid::inner()), long.len() + SPAN_MAX);
    }

    #[test]
    fn huge_spans_are_cut() {
        let mut grid = Grid::default();
        for _ in 0..5_000 {
            grid.row();
            grid.cell("x", Header::No, usize::MAX, usize::MAX);
        }
        let cells: usize = grid.finish(None).rows.iter().map(Vec::len).sum();
        assert!(cells <= CELLS_MAX, "{cells}");
    }
}
