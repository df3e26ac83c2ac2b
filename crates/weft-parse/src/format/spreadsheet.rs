//! Spreadsheets: one table for each sheet.

mod opendocument;
mod text_boxes;
mod values;

use std::io::Cursor;

use calamine::{
    Data, DataRef, Reader as _, SheetType, SheetVisible, Sheets, Xlsb, Xlsx, XlsxError, XlsxFormulaMetadata,
};

use super::chart::{self, ChartTitles};
use super::{FileContents, FileFormat, FileInput, ReadResult, office};
use crate::archive::{Archive, ArchiveKind};
use crate::element::TableElement;
use crate::grid::{header_rows, once_more};
use crate::markup::{Xml, XmlNode};
use crate::parts::PartCollector;
use crate::sheets::{apart, has_groups, titled};
use crate::unreadable::Unreadable;

use values::shown;

pub(super) use opendocument::add_sheets;

/// Spreadsheets of Excel, in old and new formats, and of OpenDocument.
pub(super) const FORMAT: FileFormat = FileFormat {
    name: "a spreadsheet",
    endings: &["xlsx", "xlsm", "xltx", "xls", "xlsb", "ods"],
    is_binary: true,
    looks: |contents: &FileContents<'_>| contents.container == Some(ArchiveKind::Spreadsheet),
    read,
};

/// Maximum number of non-empty cells in one file.
const CELLS_MAX: usize = 5_000_000;
/// Maximum text of one file, in bytes. A string stored once can be used by every cell.
const TEXT_BYTES_MAX: usize = 128 << 20;
/// Maximum number of columns in one sheet.
const COLUMNS_MAX: u32 = 2_000;
/// Maximum number of comments on one sheet.
const COMMENTS_MAX: usize = 10_000;
/// Number of bytes whose repetition costs as much as visiting one cell.
const TEXT_BYTES_OF_VISIT: usize = 64;
/// Maximum number of empty cells that come before non-empty ones, in total.
const EMPTY_MAX: usize = 20_000_000;

fn read(file: &FileInput<'_>) -> ReadResult {
    let mut parts = PartCollector::with_cells(file.cells);
    if file.bytes.starts_with(b"PK") {
        let mut archive = Archive::open(file.bytes)?;
        if let Some(content) = office::xml(&mut archive, "content.xml")? {
            opendocument::read(&content, &mut archive, &mut parts)?;
            return Ok(parts.finish());
        }
        // The library unpacks without limits.
        archive.check()?;
        // Opened again, because the check has used up the unpacking budget.
        office::properties(&mut Archive::open(file.bytes)?, &mut parts)?;
    }
    let mut book = open(file.bytes)?;
    let sheets = book.sheets_metadata().to_vec();
    let (mut cells_left, mut bytes_left) = (CELLS_MAX, TEXT_BYTES_MAX);
    for sheet in sheets {
        // Sheets hidden by users are read, since users can show them again; very hidden ones can only be shown by a
        // program.
        if sheet.typ != SheetType::WorkSheet || sheet.visible == SheetVisible::VeryHidden {
            continue;
        }
        parts.page(Some(sheet.name.clone()));
        let mut cells = Cells { left: cells_left, bytes_left, ..Cells::default() };
        if let Err(cause) = read_sheet(&mut book, &sheet.name, &mut cells) {
            parts.warn(format!("the sheet `{}` was not read completely: {}", sheet.name, cause.0));
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
            "the formulas of the sheet `{name}` were not read completely, only the values of its cells: {reason}"
        ));
    }
    for rows in apart(cells.rows) {
        let (caption, rows) = titled(trimmed(rows));
        let has_groups = cells.has_groups && has_groups(&rows);
        let header_rows = if has_groups { 2 } else { header_rows(&rows) };
        parts.table(TableElement { caption, header_rows, rows });
    }
}

/// Adds the text of shapes, which is in no cell: at the end, as one table for each drawing, because a spreadsheet
/// consists of tables only.
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

/// Adds the titles of charts, and the charts whose values are in no cell.
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

/// Paths of numbered parts that begin with `start`.
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

/// Adds the titles of charts whose values are in cells.
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

/// Adds comments on cells: at the end, as one table of cells and comments for each sheet.
fn comments(archive: &mut Archive<'_>, parts: &mut PartCollector) -> Result<(), Unreadable> {
    let is_remarks = |name: &str, folder: &str| name.starts_with(folder) && name.ends_with(".xml");
    let mut names: Vec<String> = archive.names().map(String::from).collect();
    names.sort();
    let threaded: Vec<String> =
        names.iter().filter(|name| is_remarks(name, "xl/threadedComments/")).cloned().collect();
    // If there are threaded comments, the older format repeats them, with a note for older programs.
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

/// Reads cells and the comments on them.
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

/// Opens a spreadsheet in the format that its contents have.
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

/// Collects the cells of a sheet, row by row.
struct Cells {
    rows: Vec<Vec<String>>,
    left: usize,
    bytes_left: usize,
    empty: usize,
    is_cut: bool,
    /// Number of cells with a formula but no value.
    formulas: usize,
    /// Why formulas could not be read, although the values could.
    unread_formulas: Option<String>,
    /// Whether a cell in the first row of a table spans several columns.
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
    /// Adds the text of a cell and returns false once a limit is reached.
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

    /// Repeats the text of merged areas, given by first row and column and last row and column. A cell that spans rows
    /// is repeated in each of them, so that every row can be understood alone; a name of a group of columns is repeated
    /// above each of them.
    fn merge(&mut self, areas: impl IntoIterator<Item = [u32; 4]>) {
        // A broken file may have any number of areas over the same cells.
        let (mut repeated, mut visits) = (0, CELLS_MAX);
        let header = self.rows.iter().position(|row| row.iter().filter(|cell| !cell.is_empty()).count() > 1);
        for [top, left, bottom, right] in areas {
            let text = self.text(top, left);
            if text.is_empty() || (top, left) == (bottom, right) {
                continue;
            }
            // Any number of areas may repeat one long text.
            visits = visits.saturating_sub(text.len() / TEXT_BYTES_OF_VISIT);
            if visits == 0 {
                return;
            }
            let text = text.to_owned();
            // Areas may extend to the end of the sheet, far below its contents.
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

    /// Text of a cell; empty if there is none.
    fn text(&self, row: u32, column: u32) -> &str {
        let cell = self.rows.get(row as usize).and_then(|row| row.get(column as usize));
        cell.map_or("", String::as_str)
    }

    /// Repeats the text of a merged area in a cell, unless that has a text of its own.
    fn put_below(&mut self, row: u32, column: u32, text: &str, repeated: &mut usize) -> bool {
        !self.text(row, column).is_empty() || self.put(row, column, once_more(text, repeated))
    }
}

/// Removes empty rows, and the empty columns on the left.
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

/// Reads cell by cell, since a sheet can declare a range of billions of cells.
fn read_xlsx(book: &mut Xlsx<Cursor<&[u8]>>, name: &str, cells: &mut Cells) -> Result<(), Unreadable> {
    // Without the merged areas their text appears once, which is better than losing the sheet.
    let merged = book.merge_cells_by_sheet_name(name).unwrap_or_default();
    let read: Result<bool, XlsxError> = read_with_formulas(book, name, cells).or_else(|cause| {
        // Formulas may be broken although the values are not.
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

/// Reads values, and the formulas of cells without a value. Returns false once a limit is reached.
fn read_with_formulas(
    book: &mut Xlsx<Cursor<&[u8]>>,
    name: &str,
    cells: &mut Cells,
) -> Result<bool, XlsxError> {
    let mut reader = book.worksheet_cells_reader(name)?;
    // Does not expand shared formulas: the library would allocate as much as the counts in the file say.
    while let Some(cell) = reader.next_cell_with_formula_metadata()? {
        let (row, column) = cell.pos;
        let text = match (cell.value, cell.formula) {
            (DataRef::SharedString(text), _) => text.to_owned(),
            // The program that wrote the file may not have calculated its formulas.
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

/// Reads the values of cells of which nothing was read yet. Returns false once a limit is reached.
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

/// Reads the cells of a sheet in the binary format.
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

/// Formula as users write it; empty if the file only refers to a shared formula of another cell.
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
