//! Joins tables by a column.

use std::collections::{HashMap, HashSet};

use indexmap::IndexMap;
use serde_json::Map;
use weft_core::value::to_text;
use weft_core::{Error, Json, Result};

use super::{CELLS_MAX, ROWS_MAX, Tables};

/// What the rows of a table are matched by.
#[derive(PartialEq, Eq, Hash)]
enum Match {
    /// The value in the column, as a text.
    Value(String),
    /// An empty cell in the row with this number. It matches no other: that two rows lack a value does not mean that
    /// they belong together.
    Empty(usize),
}

/// Returns the value that a row is matched by; `None` for an empty cell.
fn value(row: &Map<String, Json>, column: &str) -> Option<String> {
    row.get(column).map(to_text).filter(|text| !text.is_empty())
}

/// Joins rows that have the same value in a column; rows without a counterpart are kept as they are. A column that both
/// tables have is kept under a name with `_2`.
pub(super) fn join(tables: Tables, column: &str) -> Result<Vec<Map<String, Json>>> {
    let mut joined: Option<Vec<Map<String, Json>>> = None;
    for (name, rows) in tables {
        // A table without rows has no columns to check, and joins nothing.
        if !rows.is_empty() && !rows.iter().any(|row| row.contains_key(column)) {
            return Err(Error::invalid(format!("`{name}` has no column `{column}`"))
                .help("`join_on` names a column that all tables have"));
        }
        let Some(left) = joined.take() else {
            joined = Some(rows);
            continue;
        };
        // In the order of the rows, so that rows without a counterpart keep their place.
        let mut by_value: IndexMap<Match, Vec<Map<String, Json>>> = IndexMap::new();
        for (number, row) in rows.into_iter().enumerate() {
            let by = value(&row, column).map_or(Match::Empty(number), Match::Value);
            by_value.entry(by).or_default().push(row);
        }
        has_room(&left, &by_value, column)?;
        let mut result = Vec::new();
        let mut met: HashSet<Match> = HashSet::new();
        for row in left {
            let by = value(&row, column).map(Match::Value);
            match by.as_ref().and_then(|by| by_value.get(by)) {
                None => result.push(row),
                Some(others) => {
                    result.extend(others.iter().map(|other| beside(&row, other, column)));
                    met.extend(by);
                }
            }
        }
        result.extend(by_value.into_iter().filter(|(by, _)| !met.contains(by)).flat_map(|(_, rows)| rows));
        joined = Some(result);
    }
    Ok(joined.unwrap_or_default())
}

/// Checks that a joined table keeps to the limits. Counted before it is built: a value that is frequent on both sides
/// multiplies the rows, and the columns add up.
fn has_room(
    left: &[Map<String, Json>],
    right: &IndexMap<Match, Vec<Map<String, Json>>>,
    column: &str,
) -> Result<()> {
    let sum = |rows: &Vec<Map<String, Json>>| rows.iter().map(Map::len).sum::<usize>();
    let sums = right.iter().filter_map(|(by, rows)| match by {
        Match::Value(value) => Some((value.as_str(), (rows.len(), sum(rows)))),
        Match::Empty(_) => None,
    });
    let sums: HashMap<&str, (usize, usize)> = sums.collect();
    let (mut rows, mut cells) = (0_usize, 0_usize);
    for row in left {
        let found = value(row, column).and_then(|value| sums.get(value.as_str()).copied());
        let (others, in_others) = found.unwrap_or((1, 0));
        rows = rows.saturating_add(others);
        cells = cells.saturating_add(others.saturating_mul(row.len()).saturating_add(in_others));
    }
    let (what, max) = match (rows > ROWS_MAX, cells > CELLS_MAX) {
        (true, _) => ("rows", ROWS_MAX),
        (false, true) => ("cells", CELLS_MAX),
        (false, false) => return Ok(()),
    };
    Err(Error::invalid(format!("the joined table has more than {max} {what}"))
        .help("join by a column with distinct values"))
}

fn beside(row: &Map<String, Json>, other: &Map<String, Json>, column: &str) -> Map<String, Json> {
    let mut both = row.clone();
    for (name, value) in other.iter().filter(|(name, _)| *name != column) {
        // With several tables there may already be a column `x_2`, which must not be lost.
        let free = std::iter::once(name.clone()).chain((2..).map(|number| format!("{name}_{number}")));
        if let Some(name) = free.into_iter().find(|name| !both.contains_key(name)) {
            both.insert(name, value.clone());
        }
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_table_with_the_same_column_loses_nothing() {
        let row = |json: serde_json::Value| json.as_object().unwrap().clone();
        let both = beside(
            &row(serde_json::json!({"id": 1, "x": 1})),
            &row(serde_json::json!({"id": 1, "x": 2})),
            "id",
        );
        let all = beside(&both, &row(serde_json::json!({"id": 1, "x": 3})), "id");
        assert_eq!(serde_json::Value::from(all), serde_json::json!({"id": 1, "x": 1, "x_2": 2, "x_3": 3}));
    }

    #[test]
    fn rows_without_a_value_are_not_joined_with_each_other() {
        let table = |name: &str, rows: Json| {
            let rows = rows.as_array().unwrap().iter().map(|row| row.as_object().unwrap().clone());
            (name.to_owned(), rows.collect::<Vec<_>>())
        };
        let a = table("a", serde_json::json!([{"id": null, "x": 1}, {"id": 7, "x": 2}, {"id": "", "x": 3}]));
        let b =
            table("b", serde_json::json!([{"id": "", "y": 4}, {"id": 7, "y": 5}, {"y": 6}, {"id": null}]));
        let expected = serde_json::json!([{"id": null, "x": 1}, {"id": 7, "x": 2, "y": 5}, {"id": "", "x": 3},
            {"id": "", "y": 4}, {"y": 6}, {"id": null}]);
        assert_eq!(serde_json::json!(join(Tables::from_iter([a, b]), "id").unwrap()), expected);
    }

    #[test]
    fn tables_of_many_columns_are_joined_within_the_limit() {
        let wide = |names: &str| -> Map<String, Json> {
            let cell = |number: usize| (format!("{names}{number}"), Json::Null);
            std::iter::once(("id".to_owned(), Json::from(1))).chain((0..300).map(cell)).collect()
        };
        let table = |name: &str, count: usize| (name.to_owned(), vec![wide(name); count]);
        let joined = |count: usize| join(Tables::from_iter([table("a", count), table("b", count)]), "id");
        assert_eq!(joined(10).unwrap().len(), 100);
        let error = joined(100).unwrap_err();
        assert!(error.message.contains("5000000 cells"), "{error:?}");
    }
}
