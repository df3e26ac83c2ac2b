//! ODT and ODP: OpenDocument texts and presentations.
//!
//! Both are one XML file with the same elements; in a presentation each `draw:page` is a slide.

mod lists;

use std::collections::HashMap;

use super::chart::{self, InlineObject, ObjectContent};
use super::{FileContents, FileFormat, FileInput, ReadResult, office, spreadsheet};
use crate::archive::{Archive, ArchiveKind};
use crate::element::TableElement;
use crate::grid::{Grid, Header};
use crate::markup::{PassedOver, Tag, Xml, XmlNode};
use crate::parts::PartCollector;
use crate::pictures::PictureText;
use crate::unreadable::Unreadable;
use lists::OpenDocumentLists;

/// OpenDocument texts and presentations. Spreadsheets are read by the same code as those of Excel.
pub(super) const FORMAT: FileFormat = FileFormat {
    name: "OpenDocument",
    endings: &["odt", "ott", "odp", "otp"],
    is_binary: true,
    looks: |contents: &FileContents<'_>| contents.container == Some(ArchiveKind::OpenDocument),
    read,
};

/// The same as a single XML file, including spreadsheets.
pub(super) const FLAT: FileFormat = FileFormat {
    name: "flat OpenDocument",
    endings: &["fodt", "fodp", "fods"],
    is_binary: false,
    looks: |contents: &FileContents<'_>| {
        let text = contents.text();
        text.contains("urn:oasis:names:tc:opendocument:xmlns:office:1.0") && text.contains("office:mimetype=")
    },
    read: read_flat,
};

/// Maximum number of spaces that one element stands for.
const BLANKS_MAX: usize = 100;
/// Maximum number of characters of an object's name in a warning.
const NAME_CHARS_MAX: usize = 100;
/// Maximum number of cells of a row that one repeated cell stands for.
const REPEATED_MAX: usize = 1_000;

fn read(file: &FileInput<'_>) -> ReadResult {
    let mut archive = Archive::open(file.bytes)?;
    let mut parts = PartCollector::with_pictures(file.readings);
    if let Some(meta) = office::xml(&mut archive, "meta.xml")? {
        properties(&meta, &mut parts)?;
    }
    let content = crate::markup::written(&archive.need("content.xml")?);
    let objects = chart::objects(&mut archive);
    let mut lists = OpenDocumentLists::default();
    let styles =
        office::xml(&mut archive, "styles.xml").and_then(|styles| lists.read(&styles.unwrap_or_default()));
    if let Err(Unreadable(reason)) = styles {
        parts.warn(format!("its styles, and with them numbers, were not read: {reason}"));
    }
    // List styles can also precede the body.
    lists.read(content.split_once("<office:body").map_or("", |(head, _)| head))?;
    add(&content, lists, objects, &mut parts)?;
    Ok(parts.finish())
}

fn read_flat(file: &FileInput<'_>) -> ReadResult {
    let content = crate::markup::written(file.bytes);
    // Properties and styles precede the body, and nothing follows it.
    let Some((head, body)) = content.split_once("<office:body") else {
        return Err(Unreadable::new("it has no body"));
    };
    let mut parts = PartCollector::with_cells(file.cells);
    let (meta, _) = head.split_once("</office:meta>").unwrap_or_default();
    properties(meta, &mut parts)?;
    // The rest of the body's start tag is parsed as text, and ignored.
    let place = |kind: &str| body.find(kind).unwrap_or(usize::MAX);
    // A spreadsheet within a text is an embedded object.
    if place("<office:spreadsheet") < place("<office:text").min(place("<office:presentation")) {
        spreadsheet::add_sheets(body, HashMap::new(), &mut parts)?;
    } else {
        let mut lists = OpenDocumentLists::default();
        lists.read(head)?;
        add(body, lists, HashMap::new(), &mut parts)?;
    }
    Ok(parts.finish())
}

/// Adds the contents of the body of a text or a presentation.
fn add(
    content: &str,
    numbers: OpenDocumentLists,
    objects: HashMap<String, ObjectContent>,
    parts: &mut PartCollector,
) -> Result<(), Unreadable> {
    let mut walk = OpenDocumentWalk::new(parts, numbers, objects);
    let mut xml = Xml::new(content);
    while let Some(node) = xml.next()? {
        if walk.passed_over.covers(&node) {
            continue;
        }
        if let Some(object) = &mut walk.inline {
            if let Some(content) = object.next(&node) {
                walk.inline = None;
                walk.show(content, "");
            }
            continue;
        }
        match node {
            XmlNode::Open(tag) => walk.open(&tag),
            XmlNode::Text(text) => walk.text(&text),
            XmlNode::Close(name) => walk.close(&name),
        }
        if walk.parts.is_full() {
            break;
        }
    }
    walk.put_tables();
    Ok(())
}

/// Paths of the pictures in a file.
pub(super) fn picture_parts(bytes: &[u8]) -> Result<Vec<String>, Unreadable> {
    let archive = Archive::open(bytes)?;
    let names = archive.names().filter(|name| name.starts_with("Pictures/") && !name.ends_with('/'));
    let mut paths: Vec<String> = names.map(std::borrow::Cow::into_owned).collect();
    office::in_order(&mut paths);
    Ok(paths)
}

/// Adds the metadata of a file.
pub(super) fn properties(meta: &str, parts: &mut PartCollector) -> Result<(), Unreadable> {
    office::each_said(meta, |name, said| match name {
        "title" => parts.say("title", said),
        "creator" | "initial-creator" => parts.say("author", said),
        "date" | "creation-date" => parts.say("date", said),
        _ => {}
    })
}

/// Characters that an element `s`, `tab` or `line-break` stands for.
pub(super) fn white_space(tag: &Tag<'_>) -> String {
    match tag.name() {
        "tab" => "\t".to_owned(),
        "line-break" => "\n".to_owned(),
        // The count comes from the file and may be any number.
        _ => " ".repeat(tag.number("c").unwrap_or(1_usize).clamp(1, BLANKS_MAX)),
    }
}

/// Purpose of a text that is being collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CollectedKind {
    Heading(u8),
    Paragraph,
    /// A footnote or an endnote.
    Note,
    Comment,
    /// The author of a comment.
    Author,
    /// The description of a picture.
    Caption,
}

/// A table whose end has not been read yet.
#[derive(Default)]
struct OpenDocumentTable {
    grid: Grid,
    cell: String,
    columns: usize,
    rows: usize,
    /// Number of consecutive identical cells.
    times: usize,
    in_header: bool,
}

/// State of reading a file.
struct OpenDocumentWalk<'a> {
    parts: &'a mut PartCollector,
    /// Open texts, from the outermost to the innermost.
    open: Vec<(CollectedKind, String)>,
    tables: Vec<OpenDocumentTable>,
    /// Number of open lists.
    lists: u8,
    /// Numbers of lists and headings.
    numbers: OpenDocumentLists,
    /// Whether the current heading has no number.
    is_unnumbered: bool,
    /// Addresses of the open links, and the offsets where their texts begin.
    links: Vec<(String, usize)>,
    /// Notes and comments of the current paragraph.
    notes: Vec<PictureText>,
    /// Whether this is the title of a slide.
    is_title: bool,
    /// Speaker notes of the slide.
    speaker: Option<String>,
    passed_over: PassedOver,
    /// Embedded objects that have not been shown yet, by path.
    objects: HashMap<String, ObjectContent>,
    /// The object that is being read, if it is inline in this file.
    inline: Option<InlineObject>,
    /// Tables of objects that are added after the current element.
    behind: Vec<TableElement>,
}

impl<'a> OpenDocumentWalk<'a> {
    fn new(
        parts: &'a mut PartCollector,
        numbers: OpenDocumentLists,
        objects: HashMap<String, ObjectContent>,
    ) -> Self {
        Self {
            parts,
            open: Vec::new(),
            tables: Vec::new(),
            lists: 0,
            numbers,
            is_unnumbered: false,
            links: Vec::new(),
            notes: Vec::new(),
            is_title: false,
            speaker: None,
            passed_over: PassedOver::default(),
            objects,
            inline: None,
            behind: Vec::new(),
        }
    }

    fn open(&mut self, tag: &Tag<'_>) {
        match tag.name() {
            // Styles, deleted text, picture data, cells covered by others, and the table of contents, which repeats the
            // headings.
            "table-of-content" | "binary-data" | "automatic-styles" | "font-face-decls" | "scripts"
            | "tracked-changes" | "sequence-decls" | "forms" | "note-citation" | "covered-table-cell" => {
                self.passed_over.begin();
            }
            "object" => self.object(&tag.attribute("href").unwrap_or_default()),
            // On a notes page this is the number of the slide, or a placeholder for it.
            "page-number" if self.speaker.is_some() => self.passed_over.begin(),
            "page" => self.parts.page(None),
            "frame" => self.is_title = tag.attribute("class").as_deref() == Some("title"),
            "image" => {
                let read = tag
                    .attribute("href")
                    .and_then(|path| self.parts.picture_text(path.trim_start_matches("./")));
                read.into_iter().for_each(|read| self.shown(read));
            }
            "notes" => self.speaker = Some(String::new()),
            "h" => {
                let level = tag.number("outline-level").unwrap_or(1);
                self.is_unnumbered = tag.attribute("is-list-header").as_deref() == Some("true");
                self.open.push((CollectedKind::Heading(level), String::new()));
            }
            "p" => self.open.push((CollectedKind::Paragraph, String::new())),
            "note-body" => self.open.push((CollectedKind::Note, String::new())),
            "annotation" => self.open.push((CollectedKind::Comment, String::new())),
            "creator" => self.open.push((CollectedKind::Author, String::new())),
            "title" | "desc" => self.open.push((CollectedKind::Caption, String::new())),
            "s" | "tab" | "line-break" => self.text(&white_space(tag)),
            "list" => {
                self.lists = self.lists.saturating_add(1);
                self.numbers.begin_list(tag);
            }
            "list-item" => self.numbers.begin_item(tag),
            "a" => {
                let start = self.open.last().map_or(0, |(_, text)| text.len());
                self.links.push((tag.attribute("href").unwrap_or_default(), start));
            }
            "table" if self.tables.is_empty() => self.tables.push(OpenDocumentTable::default()),
            "table" => {
                self.tables.push(OpenDocumentTable { grid: Grid::inner(), ..OpenDocumentTable::default() });
            }
            "table-header-rows" => {
                self.tables.last_mut().into_iter().for_each(|table| table.in_header = true);
            }
            "table-row" => self.tables.last_mut().into_iter().for_each(|table| table.grid.row()),
            "table-cell" => {
                let Some(table) = self.tables.last_mut() else { return };
                table.cell.clear();
                table.columns = tag.number("number-columns-spanned").unwrap_or(1);
                table.rows = tag.number("number-rows-spanned").unwrap_or(1);
                table.times = tag.number("number-columns-repeated").unwrap_or(1).min(REPEATED_MAX);
            }
            _ => {}
        }
    }

    /// Shows an object, unless it was shown before.
    fn object(&mut self, path: &str) {
        if path.is_empty() {
            self.inline = Some(InlineObject::begin());
            return;
        }
        let path = path.trim_start_matches("./");
        if let Some(content) = self.objects.remove(path) {
            self.show(content, path);
        }
        self.put_tables();
        // A rendering of the object by the program that wrote the file.
        self.passed_over.begin();
    }

    fn show(&mut self, content: ObjectContent, name: &str) {
        match content {
            ObjectContent::Chart(titles, table) => self.behind.push(titles.above(table)),
            ObjectContent::Sheet(table) => self.behind.push(table),
            ObjectContent::Formula(formula) if self.open.is_empty() => self.parts.paragraph(&formula),
            ObjectContent::Formula(formula) => self.text(&formula),
            ObjectContent::Other if name.is_empty() => self.parts.warn("an object in it was not read"),
            ObjectContent::Other => {
                let name: String = name.chars().take(NAME_CHARS_MAX).collect();
                self.parts.warn(format!("the object `{name}` was not read"));
            }
        }
        self.put_tables();
    }

    /// Adds the tables of objects, unless an element is still open.
    fn put_tables(&mut self) {
        if self.open.is_empty() && self.tables.is_empty() {
            for table in std::mem::take(&mut self.behind) {
                self.parts.table(table);
            }
        }
    }

    /// Adds text where some is collected; white space between elements is ignored.
    fn text(&mut self, text: &str) {
        if let Some((kind, so_far)) = self.open.last_mut()
            && !matches!(kind, CollectedKind::Note | CollectedKind::Comment)
        {
            so_far.push_str(text);
        }
    }

    fn close(&mut self, name: &str) {
        match name {
            "p" | "h" | "note-body" | "annotation" | "creator" | "title" | "desc" => self.end_text(),
            "frame" => self.is_title = false,
            "notes" => {
                let said = self.speaker.take().unwrap_or_default();
                if !said.trim().is_empty() {
                    self.parts.paragraph(&format!("Notes: {}", said.trim()));
                }
            }
            "list" => {
                self.lists = self.lists.saturating_sub(1);
                self.numbers.end_list();
            }
            "a" => {
                if let (Some((address, start)), Some((_, text))) = (self.links.pop(), self.open.last_mut()) {
                    office::end_link(text, start, &address);
                }
            }
            "table-header-rows" => {
                self.tables.last_mut().into_iter().for_each(|table| table.in_header = false);
            }
            "table-cell" => {
                let Some(table) = self.tables.last_mut() else { return };
                let header = if table.in_header { Header::Yes } else { Header::No };
                let cell = std::mem::take(&mut table.cell);
                table.grid.cell(&cell, header, table.columns, table.rows);
                // Repeated cells are nearly always empty; what matters is that they keep later cells in their columns.
                for _ in 1..table.times {
                    table.grid.cell("", header, 1, 1);
                }
            }
            "table" => self.end_table(),
            _ => {}
        }
    }

    fn end_text(&mut self) {
        let Some((kind, text)) = self.open.pop() else { return };
        match kind {
            CollectedKind::Author => {
                if let Some((CollectedKind::Comment, comment)) = self.open.last_mut() {
                    *comment = format!("Comment ({}): ", text.trim());
                }
            }
            CollectedKind::Caption if self.open.is_empty() && self.tables.is_empty() => {
                self.parts.image(&text);
            }
            CollectedKind::Caption => self.shown(text.into()),
            CollectedKind::Note => self.notes.push(text.into()),
            // The author comes before the words and has already started the text.
            CollectedKind::Comment if text.starts_with("Comment") => self.notes.push(text.into()),
            CollectedKind::Comment => self.notes.push(format!("Comment: {text}").into()),
            CollectedKind::Heading(_) | CollectedKind::Paragraph => self.end_paragraph(kind, &text),
        }
    }

    /// Adds the text or description of a picture: below the paragraph that contains the picture, or in its table cell.
    fn shown(&mut self, read: PictureText) {
        match self.tables.last_mut() {
            Some(table) => {
                table.cell.push_str(&read.text);
                table.cell.push(' ');
                self.parts.shows(read.picture);
            }
            None if self.open.is_empty() => self.parts.read_paragraph(&read),
            None => self.notes.push(read),
        }
    }

    /// Number in front of a paragraph. Paragraphs without text are counted as well.
    fn number(&mut self, kind: CollectedKind) -> String {
        // A note, or a text next to a picture, does not advance the list around it.
        if !self.open.is_empty() {
            return String::new();
        }
        let number = self.numbers.next();
        match kind {
            CollectedKind::Heading(level) if number.is_empty() && !self.is_unnumbered => {
                self.numbers.next_heading(level)
            }
            _ => number,
        }
    }

    fn end_paragraph(&mut self, kind: CollectedKind, text: &str) {
        let number = self.number(kind);
        let shows_number = !number.is_empty() && (!text.trim().is_empty() || !self.tables.is_empty());
        let numbered = if shows_number { format!("{number} {text}") } else { String::new() };
        let text = if shows_number { numbered.as_str() } else { text };
        // Within a note, a box or a cell, a paragraph is part of that.
        let around = self.open.last_mut().map(|(_, around)| around);
        let around = around.or_else(|| self.tables.last_mut().map(|table| &mut table.cell));
        if let Some(around) = around.or(self.speaker.as_mut()) {
            around.push_str(text);
            around.push(' ');
            return;
        }
        match kind {
            CollectedKind::Heading(level) => self.parts.heading(level, text),
            _ if self.is_title => self.parts.heading(1, text),
            _ if self.lists > 0 => self.parts.item(self.lists - 1, text),
            _ => self.parts.paragraph(text),
        }
        for note in std::mem::take(&mut self.notes) {
            self.parts.read_paragraph(&note);
        }
        self.put_tables();
    }

    fn end_table(&mut self) {
        let Some(table) = self.tables.pop() else { return };
        let table = table.grid.finish(None);
        match self.tables.last_mut() {
            Some(outer) => {
                let text: Vec<String> = table.rows.iter().map(|row| row.join(" ")).collect();
                outer.cell.push_str(&text.join(" "));
                outer.cell.push(' ');
            }
            None => self.parts.table(table),
        }
        self.put_tables();
    }
}
