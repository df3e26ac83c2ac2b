//! Converts between tables, texts and files.

use std::collections::{HashMap, HashSet};

use pulldown_cmark::{Event, Parser, Tag};
use weft_core::seam::document_writer::Sheet;
use weft_core::value::to_text;
use weft_core::{Json, Result};

use super::blocks::{TextBlock, TextRun, blocks, held_in, may_stand, options, text_of};
use super::unwritten::unwritten;
use crate::element::ElementBody;
use crate::format::parse_tables;
use crate::words::line;

/// Maximum length of a sheet name in Excel, in UTF-16 code units.
const NAME_MAX: usize = 31;

/// The tables of a text, each as a sheet named after the heading above it; the text itself if it has no tables.
pub(super) fn of_text(text: &str) -> Vec<Sheet> {
    let blocks = blocks(text);
    let mut sheets = Vec::new();
    let mut names = SheetNames::default();
    let mut above = String::new();
    for block in &blocks {
        match block {
            TextBlock::Table(rows) => {
                let name = names.next(&above);
                above.clear();
                sheets.push(Sheet {
                    name,
                    rows: rows.iter().map(|row| row.iter().map(|cell| cell_of(cell)).collect()).collect(),
                });
            }
            TextBlock::Heading(..) => above = text_of(block),
            block => {
                let text = text_of(block);
                // A line such as `Table 2` or `Prices:` names the table below it.
                let line = text.lines().last().unwrap_or_default().trim();
                let names_it = line.to_lowercase().starts_with("table") || line.ends_with([':', '\u{ff1a}']);
                if names_it {
                    above = line.trim_end_matches([':', '\u{ff1a}']).to_owned();
                }
            }
        }
    }
    if sheets.is_empty() {
        let rows = without_pictures(text).lines().map(|line| vec![Json::from(line)]).collect();
        sheets.push(Sheet { name: names.next("Text"), rows });
    }
    sheets
}

/// Replaces pictures embedded in a text by their descriptions, since their data is longer than a cell may be.
fn without_pictures(text: &str) -> String {
    let (mut kept, mut from) = (String::with_capacity(text.len()), 0);
    for (event, place) in Parser::new_ext(text, options()).into_offset_iter() {
        match event {
            Event::Start(Tag::Image { dest_url, .. })
                if place.start >= from && held_in(&dest_url).is_some() =>
            {
                kept.push_str(&text[from..place.start]);
                from = place.end;
            }
            // The description of a picture is the only text that comes after it but lies within it.
            Event::Text(words) | Event::Code(words) if place.end <= from => kept.push_str(&words),
            _ => {}
        }
    }
    kept.push_str(&text[from..]);
    kept
}

fn cell_of(cell: &[TextRun]) -> Json {
    value(cell.iter().map(|span| span.text.as_str()).collect::<String>().trim())
}

/// Parses a text as a number if it is one. A number with leading zeros is a code, so it stays text; thousands
/// separators are ignored.
pub(super) fn value(text: &str) -> Json {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (digits, None),
    };
    let is_digits = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    let begins_with_zero = whole.starts_with('0') && whole.len() > 1;
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or_default();
    let grouped = !whole.contains(',')
        || (first.len() <= 3 && groups.all(|group| group.len() == 3 && is_digits(group)));
    if begins_with_zero || !is_digits(first) || !grouped || !fraction.is_none_or(is_digits) {
        return text.into();
    }
    let bare = text.replace(',', "");
    match (bare.parse::<i64>(), bare.parse::<f64>()) {
        (Ok(whole), _) => whole.into(),
        // A float cannot represent more digits, so a longer number would change.
        (_, Ok(number)) if number.is_finite() && bare.len() <= 16 => number.into(),
        _ => text.into(),
    }
}

/// The value of a cell; null if it is empty.
fn typed(text: &str) -> Json {
    match text {
        "" => Json::Null,
        text if text.eq_ignore_ascii_case("true") => Json::Bool(true),
        text if text.eq_ignore_ascii_case("false") => Json::Bool(false),
        text => value(text),
    }
}

/// Reads the sheets of a file.
///
/// # Errors
/// As [`crate::parse`].
pub(super) fn of_file(name: &str, bytes: &[u8]) -> Result<Vec<Sheet>> {
    let parsed = parse_tables(name, bytes)?;
    let (mut sheets, mut names, mut above) = (Vec::new(), SheetNames::default(), String::new());
    for element in parsed.elements {
        match element.body {
            ElementBody::Break { name, .. } => above = name.unwrap_or_default(),
            ElementBody::Heading { text, .. } => above = text,
            ElementBody::Table(table) => {
                let width = table.rows.iter().map(Vec::len).max().unwrap_or_default();
                let row = |(place, row): (usize, Vec<String>)| {
                    let kept: fn(&String) -> Json = match place {
                        // A column name is one line, and never a boolean.
                        0 => |cell: &String| value(&line(cell)),
                        _ => |cell: &String| typed(cell),
                    };
                    let mut cells: Vec<Json> = row.iter().map(kept).collect();
                    cells.resize(width, Json::Null);
                    cells
                };
                let rows = table.rows.into_iter().enumerate().map(row).collect();
                sheets.push(Sheet { name: names.next(&above), rows });
            }
            _ => {}
        }
    }
    Ok(sheets)
}

/// Writes sheets as Markdown.
pub(super) fn markdown(sheets: &[Sheet]) -> String {
    let cell = |value: &Json| match value {
        Json::Null => String::new(),
        // A line break would end the row.
        value => to_text(value).split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|"),
    };
    let line = |row: &Vec<Json>| format!("| {} |\n", row.iter().map(cell).collect::<Vec<_>>().join(" | "));
    let mut text = String::new();
    for sheet in sheets {
        // A single table without a name needs no heading.
        if sheets.len() > 1 || !sheet.name.is_empty() {
            text.push_str(&format!("## {}\n\n", sheet.name));
        }
        for (place, row) in sheet.rows.iter().enumerate() {
            text.push_str(&line(row));
            if place == 0 {
                text.push_str(&format!("|{}\n", " --- |".repeat(row.len().max(1))));
            }
        }
        text.push('\n');
    }
    text
}

/// Writes the rows of a sheet as comma-separated values.
///
/// # Errors
/// `Invalid` for values that cannot be written.
pub(super) fn csv(sheet: &Sheet) -> Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    for row in &sheet.rows {
        let cells = row.iter().map(|value| match value {
            Json::Null => String::new(),
            Json::String(text) => harmless(text),
            value => to_text(value),
        });
        writer.write_record(cells).map_err(|cause| unwritten("CSV file", cause))?;
    }
    writer.into_inner().map_err(|cause| unwritten("CSV file", cause))
}

/// Escapes a text so that spreadsheets do not interpret it as a formula.
fn harmless(text: &str) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{text}") } else { text.to_owned() }
}

/// Generates sheet names that are valid in Excel and unique. Excel ignores case when it compares names.
#[derive(Default)]
pub(super) struct SheetNames {
    given: HashSet<String>,
    /// The next number for each name that was already requested.
    numbers: HashMap<String, usize>,
}

impl SheetNames {
    /// Returns a name based on `wanted`; if that is empty, a name with the number of the table.
    pub(super) fn next(&mut self, wanted: &str) -> String {
        let kept = |c: &char| !matches!(c, '[' | ']' | ':' | '*' | '?' | '/' | '\\' | '\n') && may_stand(*c);
        let clean: String = wanted.chars().filter(kept).collect();
        let clean = clean.trim().trim_matches('\'').trim();
        // Excel reserves this name.
        let base = if clean.is_empty() || clean.eq_ignore_ascii_case("history") {
            format!("Table_{}", self.given.len() + 1)
        } else {
            beginning(clean, NAME_MAX)
        };
        // Continues counting instead of starting over: a file may have thousands of tables under one heading.
        let number = self.numbers.entry(base.to_lowercase()).or_insert(1);
        loop {
            let ending = if *number == 1 { String::new() } else { format!("_{number}") };
            *number += 1;
            let name = beginning(&base, NAME_MAX.saturating_sub(ending.len())) + &ending;
            if self.given.insert(name.to_lowercase()) {
                return name;
            }
        }
    }
}

/// The beginning of a text, up to `units_max` UTF-16 code units.
fn beginning(text: &str, units_max: usize) -> String {
    let mut units = 0;
    let fits = |letter: &char| {
        units += letter.len_utf16();
        units <= units_max
    };
    text.chars().take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tables_are_named_after_the_text_above() {
        let text = "# Sales: 2024/25\n\n| a | b |\n|---|---|\n| 1 | x |\n\nTable 2: more\n\n| c |\n|---|\n| 007 |\n\n| d |\n|---|\n| 1,234.5 |\n\nAnd these:\n\n| e |\n|---|\n| -3 |\n";
        let sheets = of_text(text);
        let names: Vec<_> = sheets.iter().map(|sheet| sheet.name.as_str()).collect();
        assert_eq!(names, ["Sales 202425", "Table 2 more", "Table_3", "And these"]);
        assert_eq!(sheets[0].rows, [[json!("a"), json!("b")], [json!(1), json!("x")]]);
        assert_eq!(sheets[1].rows[1], [json!("007")]);
        assert_eq!(sheets[2].rows[1], [json!(1234.5)]);
        assert_eq!(of_text("no\ntable")[0].rows, [[json!("no")], [json!("table")]]);
        let picture = format!("a *b*\n![one *two*](data:image/png;base64,{}) c", "A".repeat(40_000));
        assert_eq!(of_text(&picture)[0].rows, [[json!("a *b*")], [json!("one two c")]]);
    }

    #[test]
    fn sheet_names_fit_the_excel_limit() {
        let mut names = SheetNames::default();
        let long = "\u{1f980}".repeat(20);
        assert_eq!(names.next(&long).encode_utf16().count(), 30);
        let second = names.next(&long);
        assert!(second.ends_with("_2") && second.encode_utf16().count() == 30, "{second}");
        assert_eq!(names.next("a\nb\u{ffff}"), "ab");
    }

    #[test]
    fn only_plain_numbers_become_numeric_cells() {
        for (text, expected) in [
            ("0", json!(0)),
            ("0.5", json!(0.5)),
            ("-12", json!(-12)),
            ("1,234", json!(1234)),
            ("1,23", json!("1,23")),
            ("1,234,567.89", json!(1_234_567.89)),
            ("1,234.5,678", json!("1,234.5,678")),
            ("1.234,567", json!("1.234,567")),
            ("1,", json!("1,")),
            ("1.", json!("1.")),
            ("00", json!("00")),
            ("1.2.3", json!("1.2.3")),
            ("12%", json!("12%")),
            (".5", json!(".5")),
            ("-", json!("-")),
            ("", json!("")),
            ("99999999999999999999", json!("99999999999999999999")),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
    }

    #[test]
    fn tables_round_trip_through_files() {
        let sheet = Sheet {
            name: "s".to_owned(),
            rows: vec![
                vec![json!("a"), json!("b")],
                vec![json!(1), json!("=x, \"y\"")],
                vec![Json::Null, json!(true)],
            ],
        };
        let bytes = csv(&sheet).unwrap();
        assert_eq!(String::from_utf8(bytes.clone()).unwrap(), "a,b\n1,\"'=x, \"\"y\"\"\"\n,true\n");
        let read = of_file("a.csv", &bytes).unwrap();
        assert_eq!(read[0].rows[1], [json!(1), json!("'=x, \"y\"")]);
        assert!(markdown(&[sheet]).contains("| 1 | =x, \"y\" |"));
    }

    #[test]
    fn cells_keep_types_and_line_breaks() {
        let text = "a,TRUE,c\r\n1,,\"x\r\ny\"\r\ntrue,False,3\r\n,2,\r\n";
        let read = of_file("a.csv", text.as_bytes()).unwrap();
        let rows = json!([["a", "TRUE", "c"], [1, null, "x\ny"], [true, false, 3], [null, 2, null]]);
        assert_eq!(json!(read[0].rows), rows);
    }

    #[test]
    fn a_header_with_one_name_is_no_title() {
        let check = |rows: Json| {
            let rows: Vec<Vec<Json>> = serde_json::from_value(rows).unwrap();
            let sheet = Sheet { name: "S".to_owned(), rows };
            let bytes = super::super::xlsx::write(std::slice::from_ref(&sheet)).unwrap();
            let read = of_file("a.xlsx", &bytes).unwrap();
            assert_eq!(json!(read[0].rows), json!(sheet.rows));
        };
        check(json!([["", "sales"], [0, 10], [1, 20], [2, 30]]));
        check(json!([["Name", null], ["a", 1], ["b", 2]]));
        check(json!([["Name", null], ["a", true], ["b", false]]));
        check(json!([["Name", null], ["a", "2024-01-02"], ["b", "2024-01-03"]]));
        check(json!([["Measured", null], [1, 2], [3, 4]]));
        check(json!([["a", "b", "c"], [null, true, "x\ny"], [1, null, "z"]]));
    }

    #[test]
    fn sheet_names_are_unique() {
        let mut names = SheetNames::default();
        let long = "x".repeat(40);
        let found: Vec<String> =
            ["a", "A", &long, &long, "", "History"].iter().map(|name| names.next(name)).collect();
        assert_eq!(found[..2], ["a", "A_2"]);
        assert_eq!((found[2].len(), found[3].len(), found[3].ends_with("_2")), (31, 31, true));
        assert_eq!(found[4..], ["Table_5", "Table_6"]);
        let began = std::time::Instant::now();
        let mut last = String::new();
        for _ in 0..20_000 {
            last = names.next("same");
        }
        assert_eq!(last, "same_20000");
        assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    }
}
