//! Writes tables as HTML.

use crate::element::TableElement;
use crate::markup::escaped;

/// Writes a whole table.
pub(crate) fn whole(table: &TableElement) -> String {
    let header = table.header_rows.min(table.rows.len());
    let mut html = open(table);
    for row in &table.rows[..header] {
        html.push_str(&line(row, Cell::Header));
    }
    for row in &table.rows[header..] {
        html.push_str(&line(row, Cell::Data));
    }
    html.push_str(CLOSE);
    html
}

/// Whether a table contains any text.
pub(crate) fn has_text(table: &TableElement) -> bool {
    let caption = table.caption.as_deref().unwrap_or_default();
    std::iter::once(caption)
        .chain(table.rows.iter().flatten().map(String::as_str))
        .any(|text| !text.trim().is_empty())
}

/// End tag of a table.
pub(crate) const CLOSE: &str = "</table>";

/// Kind of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// Name of a column or a row.
    Header,
    /// A value.
    Data,
}

/// Start of a table, with its caption.
pub(crate) fn open(table: &TableElement) -> String {
    match table.caption.as_deref().map(str::trim) {
        Some(caption) if !caption.is_empty() => format!("<table><caption>{}</caption>\n", escaped(caption)),
        _ => "<table>\n".to_owned(),
    }
}

/// Writes a row.
pub(crate) fn line(row: &[String], cell: Cell) -> String {
    let name = match cell {
        Cell::Header => "th",
        Cell::Data => "td",
    };
    let mut html = String::from("<tr>");
    for text in row {
        html.push('<');
        html.push_str(name);
        html.push('>');
        html.push_str(&escaped(text.trim()));
        html.push_str("</");
        html.push_str(name);
        html.push('>');
    }
    html.push_str("</tr>\n");
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_escaped() {
        let table = TableElement {
            caption: Some("A & B".to_owned()),
            header_rows: 1,
            rows: vec![vec!["x".to_owned(), "y".to_owned()], vec!["<script>".to_owned()]],
        };
        assert_eq!(
            whole(&table),
            "<table><caption>A &amp; B</caption>\n<tr><th>x</th><th>y</th></tr>\n<tr><td>&lt;script&gt;</td></tr>\n</table>"
        );
    }
}
