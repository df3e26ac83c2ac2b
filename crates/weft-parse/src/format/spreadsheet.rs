//! Spreadsheets: a table for every sheet.

mod opendocument;
mod text_boxes;
mod values;

use std::io::Cursor;

use calamine::{
    Data, DataRef, Reader as _, SheetType, SheetVisible, Sheets, Xlsb, Xlsx, XlsxError, XlsxFormulaMetadata,
};

use super::chart::{self, ChartTitles};
use super::{FileContents, FileFormat, FileInput, ReadResult, Unreadable, office};
use crate::archive::{Archive, ArchiveKind};
use crate::element::TableElement;
use crate::grid::{header_rows, once_more};
use crate::markup::{Xml, XmlNode};
use crate::parts::PartCollector;
use crate::sheets::{apart, has_groups, titled};

use values::shown;

pub(super) use opendocument::add_sheets;

/// Spreadsheets of Excel, old and new, and of OpenDocument.
pub(super) const FORMAT: FileFormat = FileFormat {
    name: "a spreadsheet",
    endings: &["xlsx", "xlsm", "xltx", "xls", "xlsb", "ods"],
    is_binary: true,
    looks: |contents: &FileContents<'_>| contents.container == Some(ArchiveKind::Spreadsheet),
    read,
};

/// Cells of one file that hold something, at most.
const CELLS_MAX: usize = 5_000_000;
/// Bytes of text of one file, at most. A text that is kept once may stand in every cell.
const TEXT_BYTES_MAX: usize = 128 << 20;
/// Columns of one sheet, at most.
const COLUMNS_MAX: u32 = 2_000;
/// Comments of one sheet, at most.
const COMMENTS_MAX: usize = 10_000;
/// Bytes of text that are as much work to repeat as a cell is to look at.
const TEXT_BYTES_OF_VISIT: usize = 64;
/// Empty cells in front of those that hold something, at most, as a multiple of those.
const EMPTY_MAX: usize = 20_000_000;

fn read(file: &FileInput<'_>) -> ReadResult {
    let mut parts = PartCollector::with_cells(file.cells);
    if file.bytes.starts_with(b"PK") {
        let mut archive = Archive::open(file.bytes)?;
        if let Some(content) = office::xml(&mut archive, "content.xml")? {
            opendocument::read(&content, &mut archive, &mut parts)?;
            return Ok(parts.finish());
        }
        // The library unpacks whatever is there.
        archive.check()?;
        // Opened again, because the check has used up what may be unpacked.
        office::properties(&mut Archive::open(file.bytes)?, &mut parts)?;
    }
    let mut book = open(file.bytes)?;
    let sheets = book.sheets_metadata().to_vec();
    let (mut cells_left, mut bytes_left) = (CELLS_MAX, TEXT_BYTES_MAX);
    for sheet in sheets {
        // What people have hidden they can show again, and it is read; this kind only a program can.
        if sheet.typ != SheetType::WorkSheet || sheet.visible == SheetVisible::VeryHidden {
            continue;
        }
        parts.page(Some(sheet.name.clone()));
        let mut cells = Cells { left: cells_left, bytes_left, ..Cells::default() };
        if let Err(cause) = read_sheet(&mut book, &sheet.name, &mut cells) {
            parts.warn(format!("the sheet `{}` was not read to its end: {}", sheet.name, cause.0));
        }
        (cells_left, bytes_left) = (cells.left, cells.bytes_left);
        add_sheet(&sheet.name, cells, &mut parts);
    }
    if file.bytes.starts_with(b"PK") {
        let mut archive = Archive::open(file.bytes)?;
        shapes(&mut archive, &mut parts)?;
        charts(&mut archive, &mut parts)?;
        comments(&mut archive, &mut parts)?;
    }
    Ok(parts.finish())
}

/// Adds the tables of a sheet.
fn add_sheet(name: &str, cells: Cells, parts: &mut PartCollector) {
    if cells.is_cut {
        parts.warn(format!("the sheet `{name}` is too large: its rest was left out"));
    }
    if cells.formulas > 0 {
        let count = cells.formulas;
        parts.warn(format!(
            "the sheet `{name}` has formulas whose values are not in the file ({count}): save it once with a spreadsheet program"
        ));
    }
    if let Some(reason) = cells.unread_formulas {
        parts.warn(format!(
            "the formulas of the sheet `{name}` were not read to their end, only the values of its cells: {reason}"
        ));
    }
    for rows in apart(cells.rows) {
        let (caption, rows) = titled(trimmed(rows));
        let has_groups = cells.has_groups && has_groups(&rows);
        let header_rows = if has_groups { 2 } else { header_rows(&rows) };
        parts.table(TableElement { caption, header_rows, rows });
    }
}

/// What stands in shapes, which no cell has: at the end, as one table for each drawing. A spreadsheet is tables and nothing else.
fn shapes(archive: &mut Archive<'_>, parts: &mut PartCollector) -> Result<(), Unreadable> {
    for name in numbered(archive, "xl/drawings/drawing") {
        let Some(drawing) = office::xml(archive, &name)? else { continue };
        match text_boxes::texts(&drawing) {
            Ok(texts) => add_shapes(texts, parts),
            Err(cause) => parts.warn(format!("text in shapes was not read: {}", cause.0)),
        }
    }
    Ok(())
}

/// What is written around charts, and those whose values stand in no cell.
fn charts(archive: &mut Archive<'_>, parts: &mut PartCollector) -> Result<(), Unreadable> {
    let mut titles = Vec::new();
    let names = ["xl/charts/chart", "xl/charts/chartEx"].map(|start| numbered(archive, start));
    for name in names.into_iter().flatten() {
        let Some(chart) = office::xml(archive, &name)? else { continue };
        match chart::read_of_sheet(&chart, parts) {
            Ok(title) => titles.push(title),
            Err(cause) => parts.warn(format!("a chart was not read: {}", cause.0)),
        }
    }
    add_charts(titles, parts);
    Ok(())
}

/// The parts of a kind, which are numbered behind the beginning of their path.
fn numbered(archive: &Archive<'_>, start: &str) -> Vec<String> {
    let is_one = |name: &str| {
        let number = name.strip_prefix(start).and_then(|rest| rest.strip_suffix(".xml"));
        number.is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()))
    };
    let mut names: Vec<String> = archive.names().filter(|name| is_one(name)).map(String::from).collect();
    office::in_order(&mut names);
    names
}

fn add_shapes(texts: Vec<String>, parts: &mut PartCollector) {
    if !texts.is_empty() {
        let rows = std::iter::once("Text".to_owned()).chain(texts).map(|text| vec![text]).collect();
        parts.table(TableElement { caption: Some("Shapes".to_owned()), header_rows: 1, rows });
    }
}

/// The titles of charts, whose values stand in the cells.
fn add_charts(titles: Vec<ChartTitles>, parts: &mut PartCollector) {
    let titles = titles.into_iter().filter(|titles| !titles.is_empty());
    let rows: Vec<Vec<String>> =
        titles.map(|titles| vec![titles.chart, titles.labels, titles.values]).collect();
    if !rows.is_empty() {
        let header = ["Chart", "Labels", "Values"].map(str::to_owned).to_vec();
        let rows = std::iter::once(header).chain(rows).collect();
        parts.table(TableElement { caption: Some("Charts".to_owned()), header_rows: 1, rows });
    }
}

/// What people have remarked on cells: at the end, as one table of cells and remarks for each sheet.
fn comments(archive: &mut Archive<'_>, parts: &mut PartCollector) -> Result<(), Unreadable> {
    let is_remarks = |name: &str, folder: &str| name.starts_with(folder) && name.ends_with(".xml");
    let mut names: Vec<String> = archive.names().map(String::from).collect();
    names.sort();
    let threaded: Vec<String> =
        names.iter().filter(|name| is_remarks(name, "xl/threadedComments/")).cloned().collect();
    // Where there are threads the older form repeats them, with a note for older programs.
    let files = if threaded.is_empty() {
        names.into_iter().filter(|name| is_remarks(name, "xl/comments")).collect()
    } else {
        threaded
    };
    for name in files {
        let Some(text) = office::xml(archive, &name)? else { continue };
        add_remarks(remarks(&text)?, parts);
    }
    Ok(())
}

fn add_remarks(rows: Vec<Vec<String>>, parts: &mut PartCollector) {
    if !rows.is_empty() {
        let header = vec!["Cell".to_owned(), "Comment".to_owned()];
        let rows = std::iter::once(header).chain(rows).collect();
        parts.table(TableElement { caption: Some("Comments".to_owned()), header_rows: 1, rows });
    }
}

/// Cells and what is remarked on them.
fn remarks(text: &str) -> Result<Vec<Vec<String>>, Unreadable> {
    let mut xml = Xml::new(text);
    let (mut rows, mut cell, mut said, mut is_text) = (Vec::new(), String::new(), String::new(), false);
    while let Some(node) = xml.next()? {
        match node {
            XmlNode::Open(tag) => match tag.name() {
                "comment" | "threadedComment" => cell = tag.attribute("ref").unwrap_or_default(),
                "t" | "text" => is_text = true,
                _ => {}
            },
            XmlNode::Text(text) if is_text => said.push_str(&text),
            XmlNode::Text(_) => {}
            XmlNode::Close(name) => match name.as_str() {
                "comment" | "threadedComment" => {
                    rows.push(vec![std::mem::take(&mut cell), std::mem::take(&mut said)]);
                }
                "t" | "text" => is_text = false,
                _ => {}
            },
        }
        if rows.len() >= COMMENTS_MAX {
            break;
        }
    }
    Ok(rows)
}

/// Opens it as what its content says it is.
fn open(bytes: &[u8]) -> Result<Book<'_>, Unreadable> {
    let unopened = |cause: String| Unreadable::because("the spreadsheet cannot be opened", cause);
    let cursor = Cursor::new(bytes);
    if !bytes.starts_with(b"PK") {
        return calamine::Xls::new(cursor).map(Sheets::Xls).map_err(|cause| unopened(cause.to_string()));
    }
    let archive = Archive::open(bytes)?;
    let has = |name: &str| archive.names().any(|one| one.eq_ignore_ascii_case(name));
    if has("xl/workbook.bin") {
        calamine::Xlsb::new(cursor).map(Sheets::Xlsb).map_err(|cause| unopened(cause.to_string()))
    } else {
        Xlsx::new(cursor).map(Sheets::Xlsx).map_err(|cause| unopened(cause.to_string()))
    }
}

/// The cells of a sheet as they come, row by row.
struct Cells {
    rows: Vec<Vec<String>>,
    left: usize,
    bytes_left: usize,
    empty: usize,
    is_cut: bool,
    /// How many of them have a formula and no value.
    formulas: usize,
    /// Why some were not read, while their values were.
    unread_formulas: Option<String>,
    /// Whether a cell of the first row of a table reaches over several columns.
    has_groups: bool,
}

impl Default for Cells {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            left: CELLS_MAX,
            bytes_left: TEXT_BYTES_MAX,
            empty: EMPTY_MAX,
            is_cut: false,
            formulas: 0,
            unread_formulas: None,
            has_groups: false,
        }
    }
}

impl Cells {
    /// False when no more is taken.
    fn put(&mut self, row: u32, column: u32, text: String) -> bool {
        if text.trim().is_empty() || column >= COLUMNS_MAX {
            self.is_cut |= column >= COLUMNS_MAX && !text.trim().is_empty();
            return true;
        }
        let (row, column) = (row as usize, column as usize);
        let gap = (row + 1).saturating_sub(self.rows.len())
            + (column + 1).saturating_sub(self.rows.get(row).map_or(0, Vec::len));
        if self.left == 0 || gap > self.empty || text.len() > self.bytes_left {
            self.is_cut = true;
            return false;
        }
        self.left -= 1;
        self.bytes_left -= text.len();
        self.empty -= gap;
        if self.rows.len() <= row {
            self.rows.resize_with(row + 1, Vec::new);
        }
        let cells = &mut self.rows[row];
        if cells.len() <= column {
            cells.resize(column + 1, String::new());
        }
        cells[column] = text;
        true
    }

    /// Repeats the text of areas that are one cell each: their first row and column, and their last. One that reaches down
    /// stands in each of its rows, so that every row can be understood alone, and one that names a group of columns above
    /// each of these.
    fn merge(&mut self, areas: impl IntoIterator<Item = [u32; 4]>) {
        // A broken file may have any number of areas over the same cells.
        let (mut repeated, mut visits) = (0, CELLS_MAX);
        let header = self.rows.iter().position(|row| row.iter().filter(|cell| !cell.is_empty()).count() > 1);
        for [top, left, bottom, right] in areas {
            let text = self.text(top, left);
            if text.is_empty() || (top, left) == (bottom, right) {
                continue;
            }
            // Any number of them may be over one long text.
            visits = visits.saturating_sub(text.len() / TEXT_BYTES_OF_VISIT);
            if visits == 0 {
                return;
            }
            let text = text.to_owned();
            // Areas may reach to the end of the sheet, far below all that it holds.
            let last = bottom.min(u32::try_from(self.rows.len()).unwrap_or(u32::MAX).saturating_sub(1));
            for row in top.saturating_add(1)..=last {
                visits = visits.saturating_sub(1);
                if visits == 0 || !self.put_below(row, left, &text, &mut repeated) {
                    return;
                }
            }
            if top == bottom && left < right && header == Some(top as usize) {
                self.has_groups = true;
                let columns = self.rows.get(top as usize + 1).map_or(0, Vec::len);
                let last = right.min(u32::try_from(columns).unwrap_or(u32::MAX).saturating_sub(1));
                for column in left.saturating_add(1)..=last {
                    if !self.put_below(top, column, &text, &mut repeated) {
                        return;
                    }
                }
            }
        }
    }

    /// The text of a cell; nothing where there is none.
    fn text(&self, row: u32, column: u32) -> &str {
        let cell = self.rows.get(row as usize).and_then(|row| row.get(column as usize));
        cell.map_or("", String::as_str)
    }

    /// The text of a merged area once more, unless the cell behind it has one of its own.
    fn put_below(&mut self, row: u32, column: u32, text: &str, repeated: &mut usize) -> bool {
        !self.text(row, column).is_empty() || self.put(row, column, once_more(text, repeated))
    }
}

/// Without empty rows and the empty columns in front.
fn trimmed(mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    rows.retain(|row| !row.is_empty());
    let first = |row: &Vec<String>| row.iter().position(|cell| !cell.is_empty());
    let left = rows.iter().filter_map(first).min().unwrap_or_default();
    for row in &mut rows {
        row.drain(..left.min(row.len()));
    }
    rows
}

type Book<'a> = Sheets<Cursor<&'a [u8]>>;

fn read_sheet(book: &mut Book<'_>, name: &str, cells: &mut Cells) -> Result<(), Unreadable> {
    match book {
        Sheets::Xlsx(book) => read_xlsx(book, name, cells),
        Sheets::Xlsb(book) => read_xlsb(book, name, cells),
        book => {
            let range =
                book.worksheet_range(name).map_err(|cause| Unreadable::because("it is broken", cause))?;
            let (top, left) = range.start().unwrap_or_default();
            for (row, column, data) in range.used_cells() {
                // `used_cells` counts from the corner of the range.
                let place = |start: u32, offset: usize| {
                    start.saturating_add(u32::try_from(offset).unwrap_or(u32::MAX))
                };
                if !cells.put(place(top, row), place(left, column), shown(data)) {
                    break;
                }
            }
            Ok(())
        }
    }
}

/// Cell by cell, since the range of a sheet may say that it has billions.
fn read_xlsx(book: &mut Xlsx<Cursor<&[u8]>>, name: &str, cells: &mut Cells) -> Result<(), Unreadable> {
    // Without them a cell stands once, which is better than no sheet.
    let merged = book.merge_cells_by_sheet_name(name).unwrap_or_default();
    let read: Result<bool, XlsxError> = read_with_formulas(book, name, cells).or_else(|cause| {
        // What is said of formulas may be broken where the values are not.
        let read = read_values(book, name, cells)?;
        cells.unread_formulas = Some(Unreadable::because("they are broken", cause).0);
        Ok(read)
    });
    if read.map_err(|cause| Unreadable::because("it is broken", cause))? {
        cells.merge(merged.into_iter().map(|area| {
            let ((top, left), (bottom, right)) = (area.start, area.end);
            [top, left, bottom, right]
        }));
    }
    Ok(())
}

/// Takes values, and formulas that have none. False when no more is taken.
fn read_with_formulas(
    book: &mut Xlsx<Cursor<&[u8]>>,
    name: &str,
    cells: &mut Cells,
) -> Result<bool, XlsxError> {
    let mut reader = book.worksheet_cells_reader(name)?;
    // Without what formulas of a group are in full: for that the library makes as much room as their numbers say.
    while let Some(cell) = reader.next_cell_with_formula_metadata()? {
        let (row, column) = cell.pos;
        let text = match (cell.value, cell.formula) {
            (DataRef::SharedString(text), _) => text.to_owned(),
            // A program that writes a file does not calculate.
            (DataRef::Empty, Some(formula)) => {
                cells.formulas += 1;
                told(&formula)
            }
            (value, _) => shown(&Data::from(value)),
        };
        if !cells.put(row, column, text) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Takes the values of cells that nothing was taken of. False when no more is taken.
fn read_values(book: &mut Xlsx<Cursor<&[u8]>>, name: &str, cells: &mut Cells) -> Result<bool, XlsxError> {
    let mut reader = book.worksheet_cells_reader(name)?;
    while let Some(cell) = reader.next_cell()? {
        let (row, column) = cell.get_position();
        let is_known = !cells.text(row, column).is_empty();
        if !is_known && !cells.put(row, column, shown(&Data::from(cell.get_value().clone()))) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The same of the binary form.
fn read_xlsb(book: &mut Xlsb<Cursor<&[u8]>>, name: &str, cells: &mut Cells) -> Result<(), Unreadable> {
    let broken = |cause| Unreadable::because("it is broken", cause);
    let mut reader = book.worksheet_cells_reader(name).map_err(broken)?;
    while let Some(cell) = reader.next_cell().map_err(broken)? {
        let (row, column) = cell.get_position();
        if !cells.put(row, column, shown(&Data::from(cell.get_value().clone()))) {
            break;
        }
    }
    Ok(())
}

/// A formula as people write it; nothing where it is only told that it is that of another cell, moved to here.
fn told(formula: &XlsxFormulaMetadata) -> String {
    match formula {
        XlsxFormulaMetadata::Normal { formula } | XlsxFormulaMetadata::Shared { formula, .. }
            if !formula.trim().is_empty() =>
        {
            format!("={}", formula.trim())
        }
        _ => String::new(),
    }
}
