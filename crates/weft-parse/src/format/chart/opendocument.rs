//! Embedded objects in OpenDocument files: charts, formulas and sheets in folders of their own.

use std::collections::HashMap;

use super::{ChartTitles, TitleKind};
use crate::archive::Archive;
use crate::element::TableElement;
use crate::format::office;
use crate::grid::header_rows;
use crate::markup::{Tag, Xml, XmlNode};
use crate::unreadable::Unreadable;

/// Maximum number of objects that are read in one file.
const OBJECTS_MAX: usize = 1_000;
/// Maximum number of cells in the table of one object.
const CELLS_MAX: usize = 100_000;
/// Maximum number of cells that one repeated cell stands for.
const REPEATED_MAX: usize = 200;

/// Contents of an embedded object.
#[derive(Debug)]
pub(in crate::format) enum ObjectContent {
    /// A chart: its titles, and the table that it displays.
    Chart(ChartTitles, TableElement),
    /// A sheet.
    Sheet(TableElement),
    /// A formula, in the notation of the program that wrote it.
    Formula(String),
    /// Any other object, or a broken one.
    Other,
}

/// Reads the objects of a file, by the paths of their folders.
pub(in crate::format) fn objects(archive: &mut Archive<'_>) -> HashMap<String, ObjectContent> {
    let folders = archive.names().filter_map(|name| Some(name.strip_suffix("/content.xml")?.to_owned()));
    let folders: Vec<String> = folders.take(OBJECTS_MAX).collect();
    let mut objects = HashMap::with_capacity(folders.len());
    for folder in folders {
        // A broken object does not affect the others.
        let content = office::xml(archive, &format!("{folder}/content.xml"));
        let object = content.and_then(|content| ObjectWalk::read(&content.unwrap_or_default()));
        objects.insert(folder, object.unwrap_or(ObjectContent::Other));
    }
    objects
}

/// An object embedded inline in an XML file, from after its start tag on.
#[derive(Debug)]
pub(in crate::format) struct InlineObject {
    walk: ObjectWalk,
    /// Number of open elements, including the one that contains it.
    open: usize,
}

impl InlineObject {
    /// Starts an object.
    pub(in crate::format) fn begin() -> Self {
        Self { walk: ObjectWalk::default(), open: 1 }
    }

    /// Handles the next event of the file; returns the contents once the object has ended.
    pub(in crate::format) fn next(&mut self, node: &XmlNode<'_>) -> Option<ObjectContent> {
        match node {
            XmlNode::Open(tag) => {
                self.open += 1;
                self.walk.open(tag);
            }
            XmlNode::Text(text) if self.walk.is_text => self.walk.text(text),
            XmlNode::Text(_) => {}
            XmlNode::Close(name) => {
                self.open = self.open.saturating_sub(1);
                if self.open == 0 {
                    return Some(std::mem::take(&mut self.walk).finish());
                }
                self.walk.close(name);
            }
        }
        None
    }
}

/// The kind of object, once it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObjectKind {
    Chart,
    Sheet,
    Formula,
}

/// State of reading an object.
#[derive(Debug, Default)]
struct ObjectWalk {
    kind: Option<ObjectKind>,
    titles: ChartTitles,
    title: Option<TitleKind>,
    axis: Option<TitleKind>,
    rows: Vec<Vec<String>>,
    header_rows: usize,
    cells: usize,
    /// The text of a cell or a formula.
    said: String,
    /// Number of consecutive identical cells.
    times: usize,
    is_text: bool,
}

impl ObjectWalk {
    fn read(content: &str) -> Result<ObjectContent, Unreadable> {
        let mut xml = Xml::new(content);
        let mut walk = Self::default();
        while let Some(node) = xml.next()? {
            match node {
                XmlNode::Open(tag) => walk.open(&tag),
                XmlNode::Text(text) if walk.is_text => walk.text(&text),
                XmlNode::Text(_) => {}
                XmlNode::Close(name) => walk.close(&name),
            }
        }
        Ok(walk.finish())
    }

    fn finish(self) -> ObjectContent {
        let Self { kind, titles, rows, header_rows: headers, said, .. } = self;
        match kind {
            Some(ObjectKind::Chart) => ObjectContent::Chart(titles, table(rows, headers)),
            Some(ObjectKind::Sheet) => {
                let headers = header_rows(&rows);
                ObjectContent::Sheet(table(rows, headers))
            }
            Some(ObjectKind::Formula) if !said.trim().is_empty() => ObjectContent::Formula(said),
            Some(ObjectKind::Formula) | None => ObjectContent::Other,
        }
    }

    fn open(&mut self, tag: &Tag<'_>) {
        match tag.name() {
            "chart" => self.kind = Some(ObjectKind::Chart),
            "spreadsheet" => self.kind = Some(ObjectKind::Sheet),
            "math" => self.kind = Some(ObjectKind::Formula),
            "annotation" => self.is_text = self.kind == Some(ObjectKind::Formula),
            "axis" => {
                let is_of_labels = tag.attribute("dimension").is_some_and(|dimension| dimension == "x");
                self.axis = Some(if is_of_labels { TitleKind::Labels } else { TitleKind::Values });
            }
            "title" | "subtitle" => self.title = Some(self.axis.unwrap_or(TitleKind::Chart)),
            "table-row" if self.cells < CELLS_MAX => self.rows.push(Vec::new()),
            "table-cell" | "covered-table-cell" => {
                self.said.clear();
                self.times = tag.number("number-columns-repeated").unwrap_or(1).min(REPEATED_MAX);
            }
            // Besides its text, a cell contains the source that it was made from.
            "p" => self.is_text = self.kind.is_some(),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        match self.title {
            Some(kind) => self.titles.place(kind).push_str(text),
            None => self.said.push_str(text),
        }
    }

    fn close(&mut self, name: &str) {
        match name {
            "annotation" => self.is_text = false,
            "p" => {
                // Another paragraph follows.
                self.text(" ");
                self.is_text = false;
            }
            "axis" => self.axis = None,
            "title" | "subtitle" => self.title = None,
            "table-header-rows" => self.header_rows = self.rows.len(),
            "table-cell" | "covered-table-cell" => self.end_cell(),
            _ => {}
        }
    }

    fn end_cell(&mut self) {
        let times = self.times.min(CELLS_MAX.saturating_sub(self.cells));
        self.cells += times;
        // In the table of a chart, `NaN` stands for a missing value.
        let cell = Some(self.said.trim()).filter(|cell| *cell != "NaN").unwrap_or_default();
        if let Some(row) = self.rows.last_mut() {
            row.extend(std::iter::repeat_n(cell, times).map(str::to_owned));
        }
    }
}

fn table(rows: Vec<Vec<String>>, header_rows: usize) -> TableElement {
    TableElement { caption: None, header_rows, rows }
}
