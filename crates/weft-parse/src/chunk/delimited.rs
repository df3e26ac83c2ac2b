//! Rows of a file: from its tables, or from lines of text with tabs or commas.

use super::flow::plain;
use super::source::ChunkSource;
use crate::element::ElementBody;

/// A row of a table, or of a text with a delimiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DelimitedRow {
    /// Index of the element that contains it.
    pub(crate) element: usize,
    /// Its non-empty cells; for a line of text, empty unless the line has the expected number of cells.
    pub(crate) cells: Vec<String>,
    /// The whole row as text.
    pub(crate) line: String,
}

/// The rows of all tables.
pub(crate) fn of_tables(source: &ChunkSource<'_>) -> Vec<DelimitedRow> {
    let mut rows = Vec::new();
    for (element, placed) in source.placed.iter().enumerate() {
        let ElementBody::Table(table) = &placed.element.body else { continue };
        for row in &table.rows {
            let cells = row.iter().map(|cell| cell.trim()).filter(|cell| !cell.is_empty());
            let cells: Vec<String> = cells.map(str::to_owned).collect();
            if !cells.is_empty() {
                rows.push(DelimitedRow { element, line: cells.join(", "), cells });
            }
        }
    }
    rows
}

/// Parses the lines of a text as rows of two cells, separated by a tab or a comma, whichever fits more lines.
pub(crate) fn of_lines(source: &ChunkSource<'_>) -> Vec<DelimitedRow> {
    let lines = lines(source);
    let parts = |line: &str, delimiter: char| match line.split(delimiter).map(str::trim).collect::<Vec<_>>()[..]
    {
        [first, second] if !first.is_empty() => vec![first.to_owned(), second.to_owned()],
        _ => Vec::new(),
    };
    let fitting =
        |delimiter: char| lines.iter().filter(|(_, line)| !parts(line, delimiter).is_empty()).count();
    // If both fit equally well it is the tab, since sentences contain commas.
    let delimiter = if fitting('\t') >= fitting(',') { '\t' } else { ',' };
    let row =
        |(element, line): (usize, String)| DelimitedRow { element, cells: parts(&line, delimiter), line };
    lines.into_iter().map(row).collect()
}

/// The non-blank lines of the text, each with the index of its element.
pub(crate) fn lines(source: &ChunkSource<'_>) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    for (element, placed) in source.placed.iter().enumerate() {
        let Some(text) = plain(&placed.element.body) else { continue };
        let filled = text.lines().filter(|line| !line.trim().is_empty());
        lines.extend(filled.map(|line| (element, line.trim_end().to_owned())));
    }
    lines
}
