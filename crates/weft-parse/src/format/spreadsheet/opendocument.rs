//! OpenDocument spreadsheets: all sheets are in one XML file, with the comments on cells and the shapes over them.

use std::collections::HashMap;

use calamine::Data;

use super::{COLUMNS_MAX, COMMENTS_MAX, Cells, add_charts, add_remarks, add_shapes, shown};
use crate::archive::Archive;
use crate::element::TableElement;
use crate::format::chart::{self, ChartTitles, InlineObject, ObjectContent};
use crate::format::office;
use crate::format::opendocument::{properties, white_space};
use crate::markup::{PassedOver, Tag, Xml, XmlNode};
use crate::parts::PartCollector;
use crate::unreadable::Unreadable;

/// Maximum number of rows in one sheet, as in spreadsheet programs.
const ROWS_MAX: u32 = 1 << 20;

/// Adds the sheets, followed by shapes and comments.
pub(super) fn read(
    content: &str,
    archive: &mut Archive<'_>,
    parts: &mut PartCollector,
) -> Result<(), Unreadable> {
    if let Some(meta) = office::xml(archive, "meta.xml")? {
        properties(&meta, parts)?;
    }
    let objects = chart::objects(archive);
    add_sheets(content, objects, parts)
}

/// Like `read`, for the body of a file.
pub(in crate::format) fn add_sheets(
    content: &str,
    objects: HashMap<String, ObjectContent>,
    parts: &mut PartCollector,
) -> Result<(), Unreadable> {
    let mut walk = SheetWalk { objects, ..SheetWalk::default() };
    let mut xml = Xml::new(content);
    while let Some(node) = xml.next()? {
        if walk.passed_over.covers(&node) {
            continue;
        }
        if let Some(object) = &mut walk.inline {
            if let Some(content) = object.next(&node) {
                walk.inline = None;
                walk.show(content);
            }
            continue;
        }
        match node {
            XmlNode::Open(tag) => walk.open(&tag, parts),
            XmlNode::Text(text) => walk.text(&text),
            XmlNode::Close(name) => walk.close(&name, parts),
        }
        if parts.is_full() {
            return Ok(());
        }
    }
    add_shapes(walk.shapes, parts);
    for table in walk.tables {
        parts.table(table);
    }
    add_charts(walk.charts, parts);
    for remarks in walk.remarks {
        add_remarks(remarks, parts);
    }
    Ok(())
}

/// A cell that is being read.
struct OpenCell {
    /// Number of consecutive identical cells that it represents.
    times: u32,
    /// Number of columns and rows that it spans.
    columns: u32,
    rows: u32,
    /// Its value, if that is not a text.
    value: Option<Data>,
    /// Whether its value type is given, as it is for every cell with a value.
    has_value: bool,
    formula: Option<String>,
    /// Text of its paragraphs.
    text: String,
    paragraphs: usize,
}

/// Position of the reader in the file.
#[derive(Default)]
struct SheetWalk {
    /// Embedded objects that have not been shown yet, by path.
    objects: HashMap<String, ObjectContent>,
    /// The object that is being read, if it is inline in this file.
    inline: Option<InlineObject>,
    /// Cells of the current sheet, and the comments on them.
    cells: Option<Cells>,
    name: String,
    on_cells: Vec<Vec<String>>,
    /// Merged areas: first row and column, last row and column.
    merged: Vec<[u32; 4]>,
    /// Position of the next cell, number of rows that are like this one, and the contents of the row: column, number of
    /// columns, and text of each cell.
    row: u32,
    column: u32,
    rows: u32,
    filled: Vec<(u32, u32, String)>,
    cell: Option<OpenCell>,
    remark: Option<String>,
    /// Number of open elements of a shape, and its text.
    drawn: usize,
    shape: String,
    /// Number of open paragraphs, which may be nested.
    open_paragraphs: usize,
    passed_over: PassedOver,
    /// Number of cells and bytes left for other sheets.
    left: Option<(usize, usize)>,
    shapes: Vec<String>,
    tables: Vec<TableElement>,
    charts: Vec<ChartTitles>,
    remarks: Vec<Vec<Vec<String>>>,
}

impl SheetWalk {
    fn open(&mut self, tag: &Tag<'_>, parts: &mut PartCollector) {
        match tag.name() {
            "tracked-changes" | "content-validations" | "dde-links" => self.passed_over.begin(),
            "table" if self.cells.is_some() => self.passed_over.begin(),
            "table" => self.begin_sheet(tag, parts),
            "annotation" => self.remark = Some(String::new()),
            "object" => self.object(&tag.attribute("href").unwrap_or_default()),
            "p" => self.begin_paragraph(),
            "s" | "tab" | "line-break" => self.text(&white_space(tag)),
            _ if self.drawn > 0 => self.drawn += 1,
            "table-row" => {
                self.column = 0;
                self.rows = tag.number("number-rows-repeated").unwrap_or(1);
                self.filled.clear();
            }
            "table-cell" | "covered-table-cell" => self.cell = Some(OpenCell::new(tag)),
            "frame" | "custom-shape" | "rect" | "ellipse" | "circle" | "line" | "polyline" | "polygon"
            | "regular-polygon" | "path" | "caption" | "connector" | "measure" | "g"
                if self.open_paragraphs == 0 =>
            {
                self.drawn = 1;
            }
            _ => {}
        }
    }

    fn begin_sheet(&mut self, tag: &Tag<'_>, parts: &mut PartCollector) {
        self.name = tag.attribute("name").unwrap_or_default();
        self.row = 0;
        parts.page(Some(self.name.clone()));
        let mut cells = Cells::default();
        if let Some((left, bytes_left)) = self.left {
            (cells.left, cells.bytes_left) = (left, bytes_left);
        }
        self.cells = Some(cells);
    }

    fn object(&mut self, path: &str) {
        if path.is_empty() {
            self.inline = Some(InlineObject::begin());
            return;
        }
        if let Some(content) = self.objects.remove(path.trim_start_matches("./")) {
            self.show(content);
        }
        self.passed_over.begin();
    }

    fn show(&mut self, content: ObjectContent) {
        match content {
            // The values of a chart are in cells.
            ObjectContent::Chart(titles, _) => self.charts.push(titles),
            ObjectContent::Sheet(table) => self.tables.push(table),
            ObjectContent::Formula(formula) => self.shapes.push(formula),
            ObjectContent::Other => {}
        }
    }

    fn begin_paragraph(&mut self) {
        self.open_paragraphs += 1;
        if let Some(remark) = &mut self.remark {
            remark.push(' ');
        } else if self.drawn > 0 {
            self.shape.push('\n');
        } else if let Some(cell) = &mut self.cell {
            if cell.paragraphs > 0 {
                cell.text.push('\n');
            }
            cell.paragraphs += 1;
        }
    }

    /// Adds text within paragraphs; white space between elements is ignored.
    fn text(&mut self, text: &str) {
        if self.open_paragraphs == 0 {
            return;
        }
        if let Some(remark) = &mut self.remark {
            remark.push_str(text);
        } else if self.drawn > 0 {
            self.shape.push_str(text);
        } else if let Some(cell) = &mut self.cell {
            cell.text.push_str(text);
        }
    }

    fn close(&mut self, name: &str, parts: &mut PartCollector) {
        match name {
            "p" => self.open_paragraphs = self.open_paragraphs.saturating_sub(1),
            "annotation" => self.end_remark(),
            "s" | "tab" | "line-break" => {}
            _ if self.drawn > 0 => {
                self.drawn -= 1;
                if self.drawn == 0 && !self.shape.trim().is_empty() {
                    self.shapes.push(std::mem::take(&mut self.shape));
                }
            }
            "table-cell" | "covered-table-cell" => self.end_cell(),
            "table-row" => self.end_row(),
            "table" => self.end_sheet(parts),
            _ => {}
        }
    }

    fn end_remark(&mut self) {
        let said = self.remark.take().unwrap_or_default();
        if !said.trim().is_empty() && self.on_cells.len() < COMMENTS_MAX {
            self.on_cells.push(vec![cell_name(self.row, self.column), said]);
        }
    }

    fn end_cell(&mut self) {
        let Some(cell) = self.cell.take() else { return };
        let (column, times) = (self.column, cell.times);
        self.column = column.saturating_add(times);
        if cell.rows > 1 || cell.columns > 1 {
            let bottom = self.row.saturating_add(cell.rows.saturating_sub(1));
            let right = column.saturating_add(cell.columns.saturating_sub(1));
            self.merged.push([self.row, column, bottom, right]);
        }
        let mut text = cell.value.map_or(cell.text, |value| shown(&value));
        if let Some(formula) = cell.formula.filter(|_| !cell.has_value && text.trim().is_empty()) {
            // A program that writes a file may not have calculated its formulas.
            text = formula;
            self.cells.iter_mut().for_each(|cells| cells.formulas += 1);
        }
        if text.trim().is_empty() {
            return;
        }
        let times = times.min(COLUMNS_MAX.saturating_sub(column));
        if times == 0 {
            if let Some(cells) = &mut self.cells {
                cells.is_cut = true;
            }
        } else {
            self.filled.push((column, times, text));
        }
    }

    fn end_row(&mut self) {
        let (first, filled) = (self.row, std::mem::take(&mut self.filled));
        // The last row is often repeated to the end of the sheet.
        self.row = first.saturating_add(self.rows).min(ROWS_MAX);
        let Some(cells) = &mut self.cells else { return };
        if filled.is_empty() {
            return;
        }
        for row in first..self.row {
            for (column, times, text) in &filled {
                for column in *column..column + times {
                    if !cells.put(row, column, text.clone()) {
                        return;
                    }
                }
            }
        }
    }

    fn end_sheet(&mut self, parts: &mut PartCollector) {
        let Some(mut cells) = self.cells.take() else { return };
        cells.merge(std::mem::take(&mut self.merged));
        self.left = Some((cells.left, cells.bytes_left));
        super::add_sheet(&self.name, cells, parts);
        let remarks = std::mem::take(&mut self.on_cells);
        if !remarks.is_empty() {
            self.remarks.push(remarks);
        }
    }
}

impl OpenCell {
    fn new(tag: &Tag<'_>) -> Self {
        let mut cell = Self {
            times: 1,
            columns: 1,
            rows: 1,
            value: None,
            has_value: false,
            formula: None,
            text: String::new(),
            paragraphs: 0,
        };
        for (key, value) in tag.attributes() {
            let count = || value.parse::<u32>().unwrap_or(1).max(1);
            match key.as_str() {
                "table:number-columns-repeated" => cell.times = count(),
                "table:number-columns-spanned" => cell.columns = count(),
                "table:number-rows-spanned" => cell.rows = count(),
                "office:value-type" => cell.has_value = true,
                // The formula is prefixed with its syntax.
                "table:formula" => {
                    let formula = value.split_once(":=").map_or(&*value, |(_, formula)| formula);
                    cell.formula = Some(format!("={}", formula.trim_start_matches('=')));
                }
                "office:value" => cell.value = value.parse().ok().map(Data::Float),
                "office:date-value" => cell.value = Some(Data::DateTimeIso(value)),
                "office:time-value" => cell.value = Some(Data::DurationIso(value)),
                "office:boolean-value" => {
                    cell.value = Some(Data::Bool(value.eq_ignore_ascii_case("true")));
                }
                // An error value has an empty string here, and its text in the paragraph.
                "office:string-value" if !value.is_empty() => cell.value = Some(Data::String(value)),
                _ => {}
            }
        }
        cell
    }
}

/// Name of a cell, such as `B3`.
fn cell_name(row: u32, mut column: u32) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(char::from(b'A' + u8::try_from(column % 26).unwrap_or_default()));
        if column < 26 {
            break;
        }
        // There is no zero: after Z comes AA.
        column = column / 26 - 1;
    }
    let letters: String = letters.into_iter().rev().collect();
    format!("{letters}{}", u64::from(row) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_names() {
        let names = [cell_name(0, 0), cell_name(9, 25), cell_name(0, 702)];
        assert_eq!(names, ["A1", "Z10", "AAA1"]);
    }
}
