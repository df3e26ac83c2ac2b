//! Delimiter-separated values: CSV and its relatives.

use super::{FileContents, FileFormat, FileInput, ReadResult};
use crate::element::TableElement;
use crate::grid::header_rows;
use crate::parts::PartCollector;
use crate::sheets::titled;
use crate::unreadable::Unreadable;
use crate::words::decode;

/// CSV and TSV.
pub(super) const FORMAT: FileFormat = FileFormat {
    name: "CSV",
    endings: &["csv", "tsv", "tab", "psv"],
    is_binary: false,
    looks: |_: &FileContents<'_>| false,
    read,
};

/// Number of lines that are examined to detect the delimiter.
const LINES_LOOKED_AT: usize = 200;
/// Possible delimiters, in order of preference.
const DELIMITERS: [u8; 4] = [b',', b'\t', b';', b'|'];
/// Maximum number of values in one file.
const CELLS_MAX: usize = 5_000_000;
/// Maximum number of rows that are parsed again because of an unbalanced quotation mark.
const TORN_MAX: usize = 50;

fn read(file: &FileInput<'_>) -> ReadResult {
    let mut parts = PartCollector::with_cells(file.cells);
    let text = decode(file.bytes);
    let (delimiter, text) = told(&text).unwrap_or_else(|| (delimiter(&text), text.as_str()));
    let mut found = FoundRows { delimiter, rows: Vec::new(), cells: 0 };
    let (mut rest, mut torn) = (text, 0);
    // An unbalanced quotation mark would make everything after it one value.
    while let Some(row) = found.add(rest, if torn < TORN_MAX { Quotes::Enclose } else { Quotes::Letters })? {
        let (line, below) = row.split_once('\n').unwrap_or((row, ""));
        found.add(line, Quotes::Letters)?;
        (rest, torn) = (below, torn + 1);
    }
    if torn > 0 {
        parts.warn(format!("unclosed quotation marks were read as text ({torn})"));
    }
    let FoundRows { rows, cells, .. } = found;
    if cells > CELLS_MAX {
        parts.warn(format!("the table has more than {CELLS_MAX} values: its rest was left out"));
    }
    // Among rows of two values, a single name is more likely the header of one column than a title.
    let may_be_title = rows.first().is_some_and(|row| row.len() != 2);
    let (caption, rows) = if may_be_title { titled(rows) } else { (None, rows) };
    parts.table(TableElement { caption, header_rows: header_rows(&rows), rows });
    Ok(parts.finish())
}

/// Meaning of quotation marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quotes {
    /// They enclose values.
    Enclose,
    /// They are ordinary characters.
    Letters,
}

/// The rows of a file read so far.
struct FoundRows {
    delimiter: u8,
    rows: Vec<Vec<String>>,
    cells: usize,
}

impl FoundRows {
    /// Adds the rows of a text up to one with an unbalanced quotation mark, which is returned with everything after it.
    fn add<'a>(&mut self, text: &'a str, quotes: Quotes) -> Result<Option<&'a str>, Unreadable> {
        let mut reader = reader(text, self.delimiter, quotes);
        // One record is reused for all rows: an iterator would clone it, which takes as long as its longest row.
        let mut record = csv::StringRecord::new();
        let unread = |cause| Unreadable::because("its rows cannot be separated", cause);
        while reader.read_record(&mut record).map_err(unread)? {
            if quotes == Quotes::Enclose && record.iter().any(|value| value.contains('\n')) {
                let start = record.position().and_then(|position| usize::try_from(position.byte()).ok());
                let row = start.and_then(|start| text.get(start..)).unwrap_or_default();
                let row = row.trim_start_matches(['\r', '\n']);
                if is_torn(row, self.delimiter) {
                    return Ok(Some(row));
                }
            }
            self.cells += record.len();
            if self.cells > CELLS_MAX {
                break;
            }
            self.rows.push(record.iter().map(str::to_owned).collect());
        }
        Ok(None)
    }
}

/// Whether a row has a quoted value that is not closed, or that is closed in the middle of a value.
fn is_torn(row: &str, delimiter: u8) -> bool {
    let (mut is_quoted, mut begins) = (false, true);
    let mut bytes = row.bytes().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            // Two quotation marks in a row are an escaped one.
            b'"' if is_quoted && bytes.next_if_eq(&b'"').is_none() => {
                is_quoted = false;
                let is_end = |next: &u8| *next == delimiter || matches!(next, b'\r' | b'\n' | b' ');
                let ends = bytes.peek().is_none_or(is_end);
                if !ends {
                    return true;
                }
            }
            _ if is_quoted => {}
            b'\n' => return false,
            b'"' if begins => (is_quoted, begins) = (true, false),
            byte => begins = byte == delimiter,
        }
    }
    is_quoted
}

/// The delimiter if the first line declares it, as Excel does, and the text below that line.
fn told(text: &str) -> Option<(u8, &str)> {
    let (line, below) = text.split_once('\n')?;
    let line = line.trim_end_matches('\r').trim_matches('"');
    let (name, value) = line.split_at_checked(4)?;
    match value.as_bytes() {
        [delimiter] if name.eq_ignore_ascii_case("sep=") && delimiter.is_ascii() => Some((*delimiter, below)),
        _ => None,
    }
}

fn reader(text: &str, delimiter: u8, quotes: Quotes) -> csv::Reader<&[u8]> {
    // Raw rows: headers are detected later, and rows may differ in length.
    csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(false)
        .flexible(true)
        .quoting(quotes == Quotes::Enclose)
        .from_reader(text.as_bytes())
}

/// Detects the delimiter: the one with which the most rows have the same number of values, and many of them.
fn delimiter(text: &str) -> u8 {
    let score = |delimiter: &u8| {
        let lengths: Vec<usize> = reader(text, *delimiter, Quotes::Enclose)
            .into_records()
            .take(LINES_LOOKED_AT)
            .map(|record| record.map_or(0, |record| record.len()))
            .collect();
        let mut counts = std::collections::BTreeMap::new();
        for length in lengths.iter().filter(|length| **length > 1) {
            *counts.entry(*length).or_insert(0_usize) += 1;
        }
        let (columns, rows) = counts.into_iter().max_by_key(|(_, rows)| *rows).unwrap_or_default();
        (rows * 100 / lengths.len().max(1), columns)
    };
    // Reversed, because `max_by_key` returns the last of equal elements.
    DELIMITERS.into_iter().rev().max_by_key(score).unwrap_or(b',')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_with_an_unbalanced_quote_are_split() {
        let check = |row: &str, expected: bool| assert_eq!(is_torn(row, b','), expected, "{row}");
        check("a,\"b\nc\"\nd,\"e\n", false);
        check("\"a \"\"b\"\"\n\",c", false);
        check("5\" pipe,\"x\ny\" ,z", false);
        check("a,\"b\nc", true);
        check("a,\"b\nc,\"d\"\n", true);
    }

    #[test]
    fn delimiters_are_guessed() {
        let check = |text: &str, expected: u8| {
            assert_eq!(char::from(delimiter(text)), char::from(expected), "{text}");
        };
        check("a,b\n1,2\n", b',');
        check("a;b\n1,5;2,5\n3,5;4\n", b';');
        check("a\tb\nx, y\tz\n", b'\t');
        check("a|b|c\n1|2|3\n", b'|');
        check("\"a;b\",c\n\"d;e\",f\n", b',');
        check("one column\nno delimiter\n", b',');
    }
}
