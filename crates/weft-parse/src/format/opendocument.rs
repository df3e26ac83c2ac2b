//! ODT and ODP: texts and presentations of OpenDocument.
//!
//! Both are one XML file of the same elements; in a presentation each `draw:page` is a slide.

use super::{Contents, File, Format, Read, Unreadable, office};
use crate::archive::{Archive, Container};
use crate::grid::{Grid, Header};
use crate::markup::{Node, Tag, Xml};
use crate::parts::Parts;

/// Texts and presentations of OpenDocument. Its spreadsheets are read as those of Excel.
pub const FORMAT: Format = Format {
    name: "OpenDocument",
    endings: &["odt", "ott", "odp", "otp"],
    is_binary: true,
    looks: |contents: &Contents<'_>| contents.container == Some(Container::OpenDocument),
    read,
};

/// Blanks that one element may stand for, at most.
const BLANKS_MAX: usize = 100;

fn read(file: &File<'_>) -> Read {
    let mut archive = Archive::open(file.bytes)?;
    let mut parts = Parts::default();
    if let Some(meta) = office::xml(&mut archive, "meta.xml")? {
        properties(&meta, &mut parts)?;
    }
    let content = crate::markup::written(&archive.need("content.xml")?);
    let mut walk = Walk::new(&mut parts);
    let mut xml = Xml::new(&content);
    while let Some(node) = xml.next()? {
        match node {
            Node::Open(_) if walk.passed_over > 0 => walk.passed_over += 1,
            Node::Close(_) if walk.passed_over > 0 => walk.passed_over -= 1,
            Node::Text(_) if walk.passed_over > 0 => {}
            Node::Open(tag) => walk.open(&tag),
            Node::Text(text) => walk.text(&text),
            Node::Close(name) => walk.close(&name),
        }
        if walk.parts.is_full() {
            break;
        }
    }
    Ok(parts.finish())
}

fn properties(meta: &str, parts: &mut Parts) -> Result<(), Unreadable> {
    office::each_said(meta, |name, said| match name {
        "title" => parts.say("title", said),
        "creator" | "initial-creator" => parts.say("author", said),
        "date" | "creation-date" => parts.say("date", said),
        _ => {}
    })
}

/// What text is being collected for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Heading(u8),
    Paragraph,
    /// A footnote or an endnote.
    Note,
    Comment,
    /// Who wrote a comment.
    Author,
    /// What a picture shows.
    Caption,
}

/// A table that has begun.
#[derive(Default)]
struct Table {
    grid: Grid,
    cell: String,
    columns: usize,
    rows: usize,
    in_header: bool,
}

/// Where the reader is in the file.
struct Walk<'a> {
    parts: &'a mut Parts,
    /// Texts that have begun, one within another.
    open: Vec<(Kind, String)>,
    tables: Vec<Table>,
    /// How many lists are open.
    lists: u8,
    /// Where links lead, and where in the text they begin.
    links: Vec<(String, usize)>,
    /// Notes and comments of the paragraph that is being read.
    notes: Vec<String>,
    /// Whether this is the title of a slide.
    is_title: bool,
    /// What the speaker is to say.
    speaker: Option<String>,
    /// How many elements are open within one that is passed over.
    passed_over: usize,
}

impl<'a> Walk<'a> {
    fn new(parts: &'a mut Parts) -> Self {
        Self {
            parts,
            open: Vec::new(),
            tables: Vec::new(),
            lists: 0,
            links: Vec::new(),
            notes: Vec::new(),
            is_title: false,
            speaker: None,
            passed_over: 0,
        }
    }

    fn open(&mut self, tag: &Tag<'_>) {
        let count = |name: &str| tag.attribute(name).and_then(|count| count.parse::<usize>().ok());
        match tag.name() {
            // Styles, what was deleted, what a program made of an object, and cells that others reach over.
            "automatic-styles" | "font-face-decls" | "scripts" | "tracked-changes" | "sequence-decls"
            | "forms" | "object" | "note-citation" | "covered-table-cell" => self.passed_over = 1,
            "page" => self.parts.page(None),
            "frame" => self.is_title = tag.attribute("class").as_deref() == Some("title"),
            "notes" => self.speaker = Some(String::new()),
            "h" => {
                let level = count("outline-level").and_then(|level| u8::try_from(level).ok());
                self.open.push((Kind::Heading(level.unwrap_or(1)), String::new()));
            }
            "p" => self.open.push((Kind::Paragraph, String::new())),
            "note-body" => self.open.push((Kind::Note, String::new())),
            "annotation" => self.open.push((Kind::Comment, String::new())),
            "creator" => self.open.push((Kind::Author, String::new())),
            "title" | "desc" => self.open.push((Kind::Caption, String::new())),
            "s" => self.text(&" ".repeat(count("c").unwrap_or(1).clamp(1, BLANKS_MAX))),
            "tab" => self.text("\t"),
            "line-break" => self.text("\n"),
            "list" => self.lists = self.lists.saturating_add(1),
            "a" => {
                let start = self.open.last().map_or(0, |(_, text)| text.len());
                self.links.push((tag.attribute("href").unwrap_or_default(), start));
            }
            "table" if self.tables.is_empty() => self.tables.push(Table::default()),
            "table" => self.tables.push(Table { grid: Grid::inner(), ..Table::default() }),
            "table-header-rows" => {
                self.tables.last_mut().into_iter().for_each(|table| table.in_header = true);
            }
            "table-row" => self.tables.last_mut().into_iter().for_each(|table| table.grid.row()),
            "table-cell" => {
                let Some(table) = self.tables.last_mut() else { return };
                table.cell.clear();
                table.columns = count("number-columns-spanned").unwrap_or(1);
                table.rows = count("number-rows-spanned").unwrap_or(1);
            }
            _ => {}
        }
    }

    /// Text counts where some is collected; blanks between elements are none.
    fn text(&mut self, text: &str) {
        if let Some((kind, so_far)) = self.open.last_mut()
            && !matches!(kind, Kind::Note | Kind::Comment)
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
            "list" => self.lists = self.lists.saturating_sub(1),
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
            }
            "table" => self.end_table(),
            _ => {}
        }
    }

    fn end_text(&mut self) {
        let Some((kind, text)) = self.open.pop() else { return };
        match kind {
            Kind::Author => {
                if let Some((Kind::Comment, comment)) = self.open.last_mut() {
                    *comment = format!("Comment ({}): ", text.trim());
                }
            }
            Kind::Caption if self.open.is_empty() && self.tables.is_empty() => self.parts.image(&text),
            Kind::Caption => {}
            Kind::Note => self.notes.push(text),
            Kind::Comment if text.starts_with("Comment") => self.notes.push(text),
            Kind::Comment => self.notes.push(format!("Comment: {text}")),
            Kind::Heading(_) | Kind::Paragraph => self.end_paragraph(kind, &text),
        }
    }

    fn end_paragraph(&mut self, kind: Kind, text: &str) {
        // Within a note, a box or a cell it is a part of that.
        let around = self.open.last_mut().map(|(_, around)| around);
        let around = around.or_else(|| self.tables.last_mut().map(|table| &mut table.cell));
        if let Some(around) = around.or(self.speaker.as_mut()) {
            around.push_str(text);
            around.push(' ');
            return;
        }
        match kind {
            Kind::Heading(level) => self.parts.heading(level, text),
            _ if self.is_title => self.parts.heading(1, text),
            _ if self.lists > 0 => self.parts.item(self.lists - 1, text),
            _ => self.parts.paragraph(text),
        }
        for note in std::mem::take(&mut self.notes) {
            self.parts.paragraph(&note);
        }
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
    }
}
