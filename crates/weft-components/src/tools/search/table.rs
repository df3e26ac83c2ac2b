//! Formats rows as a Markdown table, within limits.

use indexmap::IndexSet;
use weft_core::Json;
use weft_core::value::to_text;

/// Maximum number of rows in a table.
pub(crate) const ROWS_MAX: usize = 500;
/// Maximum number of columns in a table.
// If each row had its own columns, the table would grow with the square of their number.
const COLUMNS_MAX: usize = 40;
/// Maximum number of characters in a cell.
// A cell with a whole document would take the space of all other rows.
const CELL_MAX: usize = 1_000;

/// Formats objects as a table: their members are the columns, in the order of their first occurrence. Empty if there
/// are none.
pub(crate) fn table(rows: &[Json]) -> String {
    let rows = || rows.iter().filter_map(Json::as_object).take(ROWS_MAX);
    let columns: IndexSet<&String> = rows().flat_map(|row| row.keys()).collect();
    let columns: Vec<&String> = columns.into_iter().take(COLUMNS_MAX).collect();
    if columns.is_empty() {
        return String::new();
    }
    let mut table = String::new();
    line(&mut table, columns.iter().map(|column| cell(column)));
    line(&mut table, columns.iter().map(|_| "---".to_owned()));
    for row in rows() {
        line(
            &mut table,
            columns.iter().map(|column| cell(&row.get(*column).map(to_text).unwrap_or_default())),
        );
    }
    table.truncate(table.trim_end().len());
    table
}

fn line(table: &mut String, cells: impl Iterator<Item = String>) {
    for cell in cells {
        table.push_str("| ");
        table.push_str(&cell);
        table.push(' ');
    }
    table.push_str("|\n");
}

fn cell(text: &str) -> String {
    // A line break would end the row, and a bar the cell.
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    line.chars().take(CELL_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::table;
    use serde_json::json;

    #[test]
    fn rows_with_different_members_share_a_table() {
        let rows = [json!({"a": 1, "b": "x|y\nz"}), json!({"c": null, "a": 2}), json!("noise")];
        assert_eq!(table(&rows), "| a | b | c |\n| --- | --- | --- |\n| 1 | x\\|y z |  |\n| 2 |  |  |");
        assert_eq!(table(&[]), "");
    }
}
