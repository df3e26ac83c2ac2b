//! Spreadsheets of Excel.

use rust_xlsxwriter::{Format, Workbook};
use weft_core::seam::document_writer::Sheet;
use weft_core::value::to_text;
use weft_core::{Error, Json, Result};

use super::tables::SheetNames;
use super::unwritten;

/// What Excel takes of one sheet.
const ROWS_MAX: usize = 1_048_576;
const COLUMNS_MAX: usize = 16_384;
/// Characters of a cell, at most.
const CELL_MAX: usize = 32_767;
/// Whole numbers beyond this are not kept exactly.
const WHOLE_MAX: i64 = 1 << 53;

/// Writes sheets. Texts are never read as formulas.
///
/// # Errors
/// `Invalid` for more rows, columns or characters than a sheet takes.
pub fn write(sheets: &[Sheet]) -> Result<Vec<u8>> {
    let mut book = Workbook::new();
    let header = Format::new().set_bold();
    let mut names = SheetNames::default();
    for sheet in sheets {
        let too_large = |what: &str, most: usize| {
            Err(Error::invalid(format!("the sheet `{}` has more than {most} {what}", sheet.name))
                .help("make a CSV file of it"))
        };
        if sheet.rows.len() > ROWS_MAX {
            return too_large("rows", ROWS_MAX);
        }
        let page = book.add_worksheet();
        page.set_name(names.next(&sheet.name)).map_err(|cause| unwritten("spreadsheet", cause))?;
        for (row, cells) in (0_u32..).zip(&sheet.rows) {
            if cells.len() > COLUMNS_MAX {
                return too_large("columns", COLUMNS_MAX);
            }
            for (column, value) in (0_u16..).zip(cells) {
                let written = match value {
                    Json::Null => continue,
                    Json::Bool(value) => page.write_boolean(row, column, *value),
                    Json::Number(number) if number.as_i64().is_none_or(|whole| whole.abs() <= WHOLE_MAX) => {
                        page.write_number(row, column, number.as_f64().unwrap_or_default())
                    }
                    value => {
                        let text = to_text(value);
                        if text.encode_utf16().count() > CELL_MAX {
                            return too_large("characters in a cell", CELL_MAX);
                        }
                        match row {
                            0 => page.write_string_with_format(row, column, text, &header),
                            _ => page.write_string(row, column, text),
                        }
                    }
                };
                written.map_err(|cause| unwritten("spreadsheet", cause))?;
            }
        }
        page.autofit();
    }
    // Excel opens no file without a sheet.
    if sheets.is_empty() {
        book.add_worksheet();
    }
    book.save_to_buffer().map_err(|cause| unwritten("spreadsheet", cause))
}

#[cfg(test)]
mod tests {
    use super::super::tables::of_file;
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_written_can_be_read() {
        let rows = vec![
            vec![json!("Name"), json!("n"), json!("ok")],
            vec![json!("=SUM(A1)"), json!(1.5), json!(true)],
            vec![json!("汉"), json!(i64::MAX), Json::Null],
        ];
        let sheets = [
            Sheet { name: "a/b".to_owned(), rows },
            Sheet { name: "a/b".to_owned(), rows: vec![vec![json!("x")]] },
        ];
        let bytes = write(&sheets).unwrap();
        let read = of_file("x.xlsx", &bytes).unwrap();
        assert_eq!(read[0].rows[1], [json!("=SUM(A1)"), json!(1.5), json!("true")]);
        assert_eq!(read[0].rows[2], [json!("汉"), json!(i64::MAX), Json::Null]);
        assert_eq!((read[0].name.as_str(), read[1].name.as_str()), ("ab", "ab_2"));
        write(&[]).unwrap();
        let long = [Sheet { name: String::new(), rows: vec![vec![json!("x".repeat(40_000))]] }];
        assert!(write(&long).unwrap_err().full().contains("32767"));
    }
}
