//! Writes Excel spreadsheets: a zip archive of a few XML files.
//!
//! This is implemented here because the available library starts a thread for each sheet, and a worker that processes
//! untrusted files must not start any.

use std::fmt::Write as _;
use std::io::{Cursor, Write as _};

use weft_core::seam::document_writer::Sheet;
use weft_core::value::to_text;
use weft_core::{Error, Json, Result};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::tables::SheetNames;
use super::unwritten::unwritten;
use crate::markup::escaped;

/// Maximum numbers of rows and columns of a sheet in Excel.
const ROWS_MAX: usize = 1_048_576;
const COLUMNS_MAX: usize = 16_384;
/// Maximum number of characters in a cell.
const CELL_MAX: usize = 32_767;
/// Integers beyond this are not represented exactly.
const WHOLE_MAX: u64 = 1 << 53;
/// Minimum and maximum width of an automatically sized column, in digits.
const WIDTHS: (usize, usize) = (8, 100);

const DECLARED: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n";
const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
const PACKAGE: &str = "http://schemas.openxmlformats.org/package/2006";
const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
const SHEET_TYPE: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml";
/// Styles of the file. The second cell format is that of column names.
const STYLES: &str = "<fonts count=\"2\"><font><sz val=\"11\"/><name val=\"Calibri\"/></font><font><b/><sz val=\"11\"/>\
    <name val=\"Calibri\"/></font></fonts><fills count=\"2\"><fill><patternFill patternType=\"none\"/></fill><fill>\
    <patternFill patternType=\"gray125\"/></fill></fills><borders count=\"1\"><border><left/><right/><top/><bottom/>\
    <diagonal/></border></borders><cellStyleXfs count=\"1\"><xf numFmtId=\"0\" fontId=\"0\" fillId=\"0\" borderId=\"0\"/>\
    </cellStyleXfs><cellXfs count=\"2\"><xf numFmtId=\"0\" fontId=\"0\" fillId=\"0\" borderId=\"0\" xfId=\"0\"/><xf numFmtId=\"0\" \
    fontId=\"1\" fillId=\"0\" borderId=\"0\" xfId=\"0\" applyFont=\"1\"/></cellXfs><cellStyles count=\"1\"><cellStyle \
    name=\"Normal\" xfId=\"0\" builtinId=\"0\"/></cellStyles>";

/// Writes sheets as a spreadsheet. Texts are never interpreted as formulas.
///
/// # Errors
/// `Invalid` for more rows, columns or characters than Excel allows.
pub(super) fn write(sheets: &[Sheet]) -> Result<Vec<u8>> {
    // Excel refuses a file without sheets.
    let nothing = [Sheet { name: "Sheet1".to_owned(), rows: Vec::new() }];
    let sheets = if sheets.is_empty() { &nothing[..] } else { sheets };
    let (mut types, mut listed, mut relations) = (String::new(), String::new(), String::new());
    let mut files = Vec::new();
    let mut names = SheetNames::default();
    for (sheet, number) in sheets.iter().zip(1..) {
        let name = escaped(&names.next(&sheet.name));
        // Writing to a String cannot fail.
        let _ = write!(
            types,
            "<Override PartName=\"/xl/worksheets/sheet{number}.xml\" ContentType=\"{SHEET_TYPE}.worksheet+xml\"/>"
        );
        let _ = write!(listed, "<sheet name=\"{name}\" sheetId=\"{number}\" r:id=\"rId{number}\"/>");
        let _ = write!(
            relations,
            "<Relationship Id=\"rId{number}\" Type=\"{OFFICE}/worksheet\" Target=\"worksheets/sheet{number}.xml\"/>"
        );
        files.push((format!("xl/worksheets/sheet{number}.xml"), page(sheet)?));
    }
    // The styles take the number after those of the sheets.
    let last = sheets.len() + 1;
    let around = [
        (
            "[Content_Types].xml",
            format!(
                "<Types xmlns=\"{PACKAGE}/content-types\"><Default Extension=\"rels\" \
             ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/><Default Extension=\"xml\" \
             ContentType=\"application/xml\"/><Override PartName=\"/xl/workbook.xml\" \
             ContentType=\"{SHEET_TYPE}.sheet.main+xml\"/><Override PartName=\"/xl/styles.xml\" \
             ContentType=\"{SHEET_TYPE}.styles+xml\"/>{types}</Types>"
            ),
        ),
        (
            "_rels/.rels",
            format!(
                "<Relationships xmlns=\"{PACKAGE}/relationships\"><Relationship Id=\"rId1\" \
             Type=\"{OFFICE}/officeDocument\" Target=\"xl/workbook.xml\"/></Relationships>"
            ),
        ),
        (
            "xl/workbook.xml",
            format!("<workbook xmlns=\"{MAIN}\" xmlns:r=\"{OFFICE}\"><sheets>{listed}</sheets></workbook>"),
        ),
        (
            "xl/_rels/workbook.xml.rels",
            format!(
                "<Relationships xmlns=\"{PACKAGE}/relationships\">{relations}<Relationship Id=\"rId{last}\" \
             Type=\"{OFFICE}/styles\" Target=\"styles.xml\"/></Relationships>"
            ),
        ),
        ("xl/styles.xml", format!("<styleSheet xmlns=\"{MAIN}\">{STYLES}</styleSheet>")),
    ];
    files.splice(0..0, around.map(|(name, text)| (name.to_owned(), text)));
    archive(files)
}

fn archive(files: Vec<(String, String)>) -> Result<Vec<u8>> {
    let failed = |cause: &dyn std::fmt::Display| unwritten("spreadsheet", cause);
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    // A fixed timestamp, so that the same sheets always produce the same file.
    let options = SimpleFileOptions::default().last_modified_time(zip::DateTime::default());
    for (name, text) in files {
        archive.start_file(name, options).map_err(|cause| failed(&cause))?;
        let written =
            archive.write_all(DECLARED.as_bytes()).and_then(|()| archive.write_all(text.as_bytes()));
        written.map_err(|cause| failed(&cause))?;
    }
    archive.finish().map(Cursor::into_inner).map_err(|cause| failed(&cause))
}

/// Writes one sheet as XML.
fn page(sheet: &Sheet) -> Result<String> {
    let too_large = |what: &str, most: usize| {
        Error::invalid(format!("the sheet `{}` has more than {most} {what}", sheet.name))
            .help("create a CSV file instead")
    };
    if sheet.rows.len() > ROWS_MAX {
        return Err(too_large("rows", ROWS_MAX));
    }
    let mut widths: Vec<usize> = Vec::new();
    let mut data = String::new();
    for (cells, row) in sheet.rows.iter().zip(1..) {
        if cells.len() > COLUMNS_MAX {
            return Err(too_large("columns", COLUMNS_MAX));
        }
        if widths.len() < cells.len() {
            widths.resize(cells.len(), 0);
        }
        let _ = write!(data, "<row r=\"{row}\">");
        for (value, (column, width)) in cells.iter().zip(widths.iter_mut().enumerate()) {
            let place = format!("{}{row}", letters(column));
            let shown =
                cell(&mut data, &place, value).ok_or_else(|| too_large("characters in a cell", CELL_MAX))?;
            *width = shown.max(*width);
        }
        data.push_str("</row>");
    }
    let mut columns = String::new();
    for (width, number) in widths.into_iter().zip(1..) {
        let width = width.clamp(WIDTHS.0, WIDTHS.1) + 1;
        let _ =
            write!(columns, "<col min=\"{number}\" max=\"{number}\" width=\"{width}\" customWidth=\"1\"/>");
    }
    if !columns.is_empty() {
        columns = format!("<cols>{columns}</cols>");
    }
    Ok(format!("<worksheet xmlns=\"{MAIN}\">{columns}<sheetData>{data}</sheetData></worksheet>"))
}

/// Writes a cell and returns its width in digits; `None` if its text is too long.
fn cell(data: &mut String, place: &str, value: &Json) -> Option<usize> {
    let text = match value {
        Json::Null => return Some(0),
        Json::Bool(is) => {
            let _ = write!(data, "<c r=\"{place}\" t=\"b\"><v>{}</v></c>", u8::from(*is));
            return Some("FALSE".len());
        }
        Json::Number(number) if number.is_f64() || number.as_i64().is_some_and(is_exact) => {
            let text = number.to_string();
            let _ = write!(data, "<c r=\"{place}\"><v>{text}</v></c>");
            return Some(text.len());
        }
        // Text, and integers whose last digits would change.
        value => to_text(value),
    };
    if text.encode_utf16().count() > CELL_MAX {
        return None;
    }
    // The first row contains the column names.
    let style = if place.trim_start_matches(char::is_alphabetic) == "1" { " s=\"1\"" } else { "" };
    let written = escaped(&without_control(&text));
    let _ = write!(
        data,
        "<c r=\"{place}\"{style} t=\"inlineStr\"><is><t xml:space=\"preserve\">{written}</t></is></c>"
    );
    // East Asian letters are twice as wide.
    let line = |line: &str| line.chars().map(|letter| if letter < '\u{1100}' { 1 } else { 2 }).sum();
    Some(text.lines().map(line).max().unwrap_or_default())
}

/// Whether Excel represents an integer exactly.
fn is_exact(whole: i64) -> bool {
    whole.unsigned_abs() <= WHOLE_MAX
}

/// Column letters of a zero-based column index.
fn letters(mut column: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(char::from(b'A' + u8::try_from(column % 26).unwrap_or_default()));
        match column / 26 {
            0 => return letters.into_iter().rev().collect(),
            rest => column = rest - 1,
        }
    }
}

/// Escapes characters that XML does not allow in the way Excel does: `_x0001_`.
fn without_control(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for (at, letter) in text.char_indices() {
        match letter {
            '\t' | '\n' => written.push(letter),
            // Text that looks like such an escape must be escaped itself.
            '_' if is_written_character(&text[at..]) => written.push_str("_x005F_"),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {
                let _ = write!(written, "_x{:04X}_", u32::from(letter));
            }
            _ => written.push(letter),
        }
    }
    written
}

fn is_written_character(text: &str) -> bool {
    let code = text.strip_prefix("_x").and_then(|rest| rest.get(..5)).and_then(|rest| rest.strip_suffix('_'));
    code.is_some_and(|code| code.chars().all(|digit| digit.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::super::tables::of_file;
    use super::*;
    use serde_json::json;

    #[test]
    fn generated_files_can_be_read() {
        let rows = vec![
            vec![json!("Name"), json!("n"), json!("ok")],
            vec![json!("=SUM(A1)"), json!(1.5), json!(true)],
            vec![json!("汉"), json!(i64::MAX), Json::Null],
            vec![json!(i64::MIN), json!(u64::MAX), json!(-(1_i64 << 53))],
        ];
        let sheets = [
            Sheet { name: "a/b".to_owned(), rows },
            Sheet { name: "a/b".to_owned(), rows: vec![vec![json!("x")]] },
        ];
        let bytes = write(&sheets).unwrap();
        let read = of_file("x.xlsx", &bytes).unwrap();
        assert_eq!(read[0].rows[1], [json!("=SUM(A1)"), json!(1.5), json!(true)]);
        assert_eq!(read[0].rows[2], [json!("汉"), json!(i64::MAX), Json::Null]);
        let whole = [json!(i64::MIN), json!(u64::MAX), json!(-(1_i64 << 53))];
        assert_eq!(
            read[0].rows[3].iter().map(to_text).collect::<Vec<_>>(),
            whole.iter().map(to_text).collect::<Vec<_>>()
        );
        assert_eq!((read[0].name.as_str(), read[1].name.as_str()), ("ab", "ab_2"));
        write(&[]).unwrap();
        let long = [Sheet { name: String::new(), rows: vec![vec![json!("x".repeat(40_000))]] }];
        assert!(write(&long).unwrap_err().full().contains("32767"));
    }

    #[test]
    fn invalid_xml_texts_and_wide_sheets_round_trip() {
        let wide: Vec<Json> = (0..800).map(|column| json!(format!("c{column}"))).collect();
        let text = " <b> & \"q\" _x0041_ \u{1}\n ";
        let rows = vec![wide.clone(), vec![json!(text), json!(-0.25), json!(1.5e10)]];
        let bytes = write(&[Sheet { name: "a & \"b\"".to_owned(), rows }]).unwrap();
        let read = of_file("x.xlsx", &bytes).unwrap();
        assert_eq!(read[0].name, "a & \"b\"");
        assert_eq!(read[0].rows[0], wide, "the columns are unchanged");
        assert_eq!(read[0].rows[1][1..3], [json!(-0.25), json!(15_000_000_000_i64)]);
        assert!(bytes.windows(2).any(|two| two == b"PK"));
        assert_eq!(without_control(text), " <b> & \"q\" _x005F_x0041_ _x0001_\n ");
        assert_eq!([0, 25, 26, 701, 702, 16_383].map(letters), ["A", "Z", "AA", "ZZ", "AAA", "XFD"]);
    }
}
