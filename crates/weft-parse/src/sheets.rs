//! Finds titles, headers and tables in sheets, where only the contents of the cells tell them apart.

use crate::grid::names_columns;

/// Maximum number of lines in the title of a table.
const TITLE_LINES_MAX: usize = 5;
/// Number of rows that are examined to find out what a column contains.
const ROWS_LOOKED_AT: usize = 100;

fn filled(row: &[String]) -> usize {
    row.iter().filter(|cell| !cell.trim().is_empty()).count()
}

/// Splits off the title of a table: the lines above it in which one cell each is filled.
pub(crate) fn titled(mut rows: Vec<Vec<String>>) -> (Option<String>, Vec<Vec<String>>) {
    let lines = rows.iter().take(TITLE_LINES_MAX).take_while(|row| filled(row) == 1).count();
    // Rows of one column are a list, not a title. A row of data is preceded by a header, even if that has a single name
    // only: the header of an index column is empty.
    let below = rows.get(lines..).unwrap_or_default();
    let is_title = lines > 0
        && below.first().is_some_and(|row| filled(row) >= 2)
        && names_columns(below, usize::MAX)
        && !has_dates_or_truths(below);
    if !is_title {
        return (None, rows);
    }
    let title: Vec<String> = rows.drain(..lines).flatten().filter(|cell| !cell.is_empty()).collect();
    (Some(title.join("\n")), rows)
}

/// Whether a column has a date or a truth value in both of its first two rows, which no header has.
fn has_dates_or_truths(rows: &[Vec<String>]) -> bool {
    let is_day = |cell: &str| {
        let day: String = cell.chars().take(10).map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        day == "0000-00-00"
    };
    let is_datum = |cell: &String| is_day(cell) || matches!(cell.as_str(), "true" | "false");
    let [first, second, ..] = rows else { return false };
    first.iter().zip(second).any(|(one, below)| is_datum(one) && is_datum(below))
}

/// Splits a sheet with empty rows into its tables. After an empty row a new table begins if the row, or the one below a
/// title, names columns of numbers; anything else continues the table above.
pub(crate) fn apart(mut rows: Vec<Vec<String>>) -> Vec<Vec<Vec<String>>> {
    let (mut begins, mut has_table, mut title) = (Vec::new(), false, None);
    let mut at = 0;
    while at < rows.len() {
        let Some(first) = rows[at..].iter().position(|row| !row.is_empty()) else { break };
        at += first;
        let end = rows[at..].iter().position(Vec::is_empty).map_or(rows.len(), |length| at + length);
        let body = rows[at..end].iter().position(|row| filled(row) > 1).map(|lines| at + lines);
        match body {
            // Its table may follow after another empty row.
            None => title = title.or(Some(at)),
            Some(body) => {
                if has_table && names_numbers(&rows[body..end]) {
                    let is_short = |from: &usize| {
                        rows[*from..body].iter().filter(|row| !row.is_empty()).count() <= TITLE_LINES_MAX
                    };
                    begins.push([title.unwrap_or(at), at].into_iter().find(is_short).unwrap_or(body));
                }
                (has_table, title) = (true, None);
            }
        }
        at = end;
    }
    let mut tables: Vec<Vec<Vec<String>>> =
        begins.into_iter().rev().map(|begin| rows.split_off(begin)).collect();
    tables.push(rows);
    tables.reverse();
    tables
}

/// Whether the first of these rows certainly names its columns: it contains names only, and at least one column below
/// it contains numbers only.
fn names_numbers(rows: &[Vec<String>]) -> bool {
    let [first, rest @ ..] = rows else { return false };
    let is_filled = |cell: &&String| !cell.trim().is_empty();
    let has_numbers = |column: usize| {
        let below = rest.iter().take(ROWS_LOOKED_AT).filter_map(|row| row.get(column));
        let mut below = below.filter(is_filled).peekable();
        below.peek().is_some() && below.all(|cell| cell.trim().parse::<f64>().is_ok())
    };
    names_columns(rows, usize::MAX)
        && first.iter().enumerate().any(|(column, cell)| is_filled(&cell) && has_numbers(column))
}

/// Whether the first row names groups of the columns that the second one names: some of its names are repeated side by
/// side, because their cells span the whole group.
pub(crate) fn has_groups(rows: &[Vec<String>]) -> bool {
    let [first, columns @ ..] = rows else { return false };
    let is_group = |pair: &[String]| !pair[0].trim().is_empty() && pair[0] == pair[1];
    first.windows(2).any(is_group) && names_columns(rows, usize::MAX) && names_numbers(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<Vec<String>> {
        let row = |line: &str| match line {
            "" => Vec::new(),
            line => line.split(',').map(str::to_owned).collect(),
        };
        text.split(' ').map(row).collect()
    }

    #[test]
    fn stacked_tables_are_separated_by_their_headers() {
        let check = |text: &str, expected: &[&str]| {
            let found: Vec<String> = apart(rows(text))
                .iter()
                .map(|table| table.iter().map(|row| row.join(",")).collect::<Vec<_>>().join(" "))
                .collect();
            assert_eq!(found, expected, "{text}");
        };
        check("n,age Ada,36  city,pop Rome,3", &["n,age Ada,36 ", "city,pop Rome,3"]);
        check("n,age Ada,36  Cities  city,pop Rome,3", &["n,age Ada,36 ", "Cities  city,pop Rome,3"]);
        check("n,age Ada,36  Cities city,pop Rome,3", &["n,age Ada,36 ", "Cities city,pop Rome,3"]);
        // Rows of the same table, with a visual gap.
        check("n,age Ada,36  Bob,5 Eve,7", &["n,age Ada,36  Bob,5 Eve,7"]);
        check("n,city Ada,Rome  Bob,Oslo Eve,Bonn", &["n,city Ada,Rome  Bob,Oslo Eve,Bonn"]);
        check("Title  n,age Ada,36", &["Title  n,age Ada,36"]);
        check(
            "n,age Ada,36  notes a b c d e  city,pop Rome,3",
            &["n,age Ada,36  notes a b c d e ", "city,pop Rome,3"],
        );
        check("", &[""]);
    }

    #[test]
    fn column_groups_are_recognised_by_numbers_below_their_names() {
        let check = |text: &str, expected: bool| assert_eq!(has_groups(&rows(text)), expected, "{text}");
        check(",Q1,Q1 Item,Plan,Real Pens,1,2", true);
        check("Name,Name,City Ada,Lovelace,London", false);
        check("a,b 1,2", false);
        check("Name,Name Ada,1", false);
    }
}
