//! Rows of a data set, and texts that are filled with their values. Pure.

use serde_json::Map;
use weft_core::Json;
use weft_core::value::to_text;

use crate::file::{Invalid, Turn};

/// One row: column → value. Values from CSV are texts.
pub type Row = Map<String, Json>;

/// Maximum number of rows in a data set.
const ROWS_MAX: usize = 100_000;
const OPEN: &str = "{{row.";
const CLOSE: &str = "}}";

/// The format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values with a header.
    Csv,
    /// One JSON object per line.
    Jsonl,
}

impl Format {
    /// Returns the format by the name of the file.
    pub fn of(name: &str) -> Option<Self> {
        let ending = name.rsplit_once('.')?.1.to_ascii_lowercase();
        match &*ending {
            "csv" => Some(Self::Csv),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            _ => None,
        }
    }
}

/// Parses the rows of a data set.
///
/// # Errors
/// What is wrong, with its line.
pub fn rows(text: &str, format: Format) -> Result<Vec<Row>, Invalid> {
    let rows = match format {
        Format::Csv => csv_rows(text)?,
        Format::Jsonl => jsonl_rows(text)?,
    };
    match rows.len() {
        0 => Err(Invalid::new("it has no rows")),
        count if count > ROWS_MAX => {
            Err(Invalid::new(format!("it has {count} rows; at most {ROWS_MAX} are allowed")).help("split it"))
        }
        _ => Ok(rows),
    }
}

fn csv_rows(text: &str) -> Result<Vec<Row>, Invalid> {
    // Some programs begin a file with a byte order mark.
    let text = text.trim_start_matches('\u{feff}');
    // Only names are trimmed: people align columns, but a space may belong to a value.
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::Headers).from_reader(text.as_bytes());
    let wrong = |error: csv::Error| Invalid::new(error.to_string());
    let names = reader.headers().map_err(wrong)?.clone();
    let row = |record: csv::StringRecord| {
        names.iter().zip(&record).map(|(name, value)| (name.to_owned(), Json::from(value))).collect()
    };
    reader.records().map(|record| record.map(row).map_err(wrong)).collect()
}

fn jsonl_rows(text: &str) -> Result<Vec<Row>, Invalid> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| {
            serde_json::from_str(line).map_err(|error| {
                Invalid::new(format!("line {}: {error}", at + 1)).help("write one JSON object on each line")
            })
        })
        .collect()
}

/// Replaces `{{row.COLUMN}}` in turns by the values of a row.
///
/// # Errors
/// When the row has no such column, or its value is not valid in its place.
pub fn fill(turns: &[Turn], row: &Row) -> Result<Vec<Turn>, String> {
    // Via JSON, so that each text is filled, whatever field it is in.
    let whole = serde_json::to_value(turns).map_err(|error| error.to_string())?;
    let filled = fill_json(&whole, row)?;
    serde_json::from_value(filled).map_err(|error| format!("a value does not fit its place: {error}"))
}

fn fill_json(json: &Json, row: &Row) -> Result<Json, String> {
    match json {
        Json::String(text) => fill_text(text, row),
        Json::Array(items) => items.iter().map(|item| fill_json(item, row)).collect(),
        Json::Object(members) => members
            .iter()
            .map(|(key, value)| Ok((key.clone(), fill_json(value, row)?)))
            .collect::<Result<Map<_, _>, _>>()
            .map(Json::Object),
        other => Ok(other.clone()),
    }
}

/// Fills a text. If it consists of a single reference, it keeps the type of the value. The content of a value is never
/// parsed as a reference.
fn fill_text(text: &str, row: &Row) -> Result<Json, String> {
    let value = |name: &str| {
        let known = || row.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        row.get(name.trim())
            .ok_or_else(|| format!("there is no column `{}`; the columns are: {}", name.trim(), known()))
    };
    let alone = text.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE));
    if let Some(name) = alone.filter(|name| !name.contains(CLOSE)) {
        return value(name).cloned();
    }
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(OPEN) {
        let Some((name, after)) = after.split_once(CLOSE) else {
            return Err(format!("`{OPEN}` has no `{CLOSE}`"));
        };
        filled.push_str(before);
        filled.push_str(&to_text(value(name)?));
        rest = after;
    }
    filled.push_str(rest);
    Ok(Json::String(filled))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn row(json: Json) -> Row {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn rows_are_read_from_both_formats() {
        let csv = rows("\u{feff}id, text\n1,\"a, \"\"b\"\"\nc\"\n2,\n", Format::Csv).unwrap();
        assert_eq!(
            csv,
            [row(json!({"id": "1", "text": "a, \"b\"\nc"})), row(json!({"id": "2", "text": ""}))]
        );
        let jsonl = rows("{\"n\": 1}\n\n{\"n\": [2]}\n", Format::Jsonl).unwrap();
        assert_eq!(jsonl, [row(json!({"n": 1})), row(json!({"n": [2]}))]);
        assert!(rows("a,b\n1\n", Format::Csv).unwrap_err().message.contains("line: 2"));
        assert!(rows("{}\n[1]\n", Format::Jsonl).unwrap_err().message.contains("line 2"));
        assert!(rows("a,b\n", Format::Csv).is_err());
        assert_eq!(
            [Format::of("x.CSV"), Format::of("x.jsonl"), Format::of("x")],
            [Some(Format::Csv), Some(Format::Jsonl), None]
        );
    }

    #[test]
    fn a_value_on_its_own_keeps_its_type() {
        let row = row(json!({"n": 2, "s": "{{row.n}}"}));
        let check = |text: &str, expected: Json| assert_eq!(fill_text(text, &row).unwrap(), expected);
        check("{{row.n}}", json!(2));
        check("{{row.n}} {{ row.n }}", json!("2 {{ row.n }}"));
        check("a {{row.n}}{{row.n}}", json!("a 22"));
        check("{{row.n}}{{row.n}}", json!("22"));
        check("{{row.s}}!", json!("{{row.n}}!"));
        assert!(fill_text("{{row.x}}", &row).unwrap_err().contains("the columns are: n, s"));
        assert!(fill_text("{{row.n", &row).is_err());
    }

    proptest! {
        #[test]
        fn a_text_without_references_is_unchanged(text in "[^{]*") {
            prop_assert_eq!(fill_text(&text, &Row::new()), Ok(Json::String(text)));
        }

        #[test]
        fn csv_round_trips(cells in prop::collection::vec(("\\PC+", "\\PC*"), 1..5)) {
            let mut writer = csv::Writer::from_writer(Vec::new());
            writer.write_record(["a", "b"]).unwrap();
            cells.iter().for_each(|(a, b)| writer.write_record([a, b]).unwrap());
            let text = String::from_utf8(writer.into_inner().unwrap()).unwrap();
            let read: Vec<_> = rows(&text, Format::Csv).unwrap().into_iter().map(|row| (row["a"].clone(), row["b"].clone())).collect();
            let written: Vec<_> = cells.into_iter().map(|(a, b)| (Json::from(a), Json::from(b))).collect();
            prop_assert_eq!(read, written);
        }
    }
}
