//! Reads the text of a document, paragraph by paragraph.

use std::collections::{HashMap, HashSet};

use super::super::math::Math;
use super::super::office::{OfficeRelation, end_link};
use super::Notes;
use super::styles::{DocxLists, ListPlace, Styles, outline_level};
use super::symbols::sign;
use crate::grid::{Grid, Header};
use crate::markup::{PassedOver, Tag, Xml, XmlNode};
use crate::parts::PartCollector;
use crate::pictures::PictureText;
use crate::unreadable::Unreadable;

/// An open paragraph. Text boxes contain paragraphs within paragraphs.
#[derive(Default)]
struct OpenParagraph {
    text: String,
    style: String,
    outline: Option<u8>,
    list: Option<ListPlace>,
    /// Texts to add below it: notes and picture descriptions.
    notes: Vec<PictureText>,
    pictures: Vec<String>,
    /// Whether its end mark was deleted, moved away or hidden.
    is_unmarked: bool,
}

/// An open table.
#[derive(Default)]
struct DocxTable {
    grid: Grid,
    cell: String,
    columns: usize,
    goes_on: bool,
    is_header: bool,
}

/// Converts the main part of a document to elements.
pub(super) struct BodyReader<'a> {
    styles: &'a Styles,
    lists: DocxLists,
    relations: &'a HashMap<String, OfficeRelation>,
    notes: &'a Notes,
    /// Notes that were already added. A note that is referenced repeatedly is not repeated.
    said: HashSet<(&'static str, String)>,
    parts: &'a mut PartCollector,
    paragraphs: Vec<OpenParagraph>,
    tables: Vec<DocxTable>,
    /// Addresses of the open links, and the offsets where their texts begin.
    links: Vec<(String, usize)>,
    math: Option<Math>,
    passed_over: PassedOver,
    is_text: bool,
    in_run: bool,
    /// Whether the properties of a paragraph are being read.
    in_properties: bool,
    /// Whether the next content is a table of contents.
    is_contents: bool,
    /// Number of open structured parts, counting from a table of contents.
    contents: usize,
    is_hidden: bool,
    /// Whether the current run is a superscript.
    is_raised: bool,
}

impl<'a> BodyReader<'a> {
    /// Creates a reader of a document with these styles, lists, relations and notes.
    pub(super) fn new(
        styles: &'a Styles,
        lists: DocxLists,
        relations: &'a HashMap<String, OfficeRelation>,
        notes: &'a Notes,
        parts: &'a mut PartCollector,
    ) -> Self {
        Self {
            styles,
            lists,
            relations,
            notes,
            said: HashSet::new(),
            parts,
            paragraphs: Vec::new(),
            tables: Vec::new(),
            links: Vec::new(),
            math: None,
            passed_over: PassedOver::default(),
            is_text: false,
            in_run: false,
            in_properties: false,
            is_contents: false,
            contents: 0,
            is_hidden: false,
            is_raised: false,
        }
    }

    /// Reads `document.xml`.
    pub(super) fn read(&mut self, text: &str) -> Result<(), Unreadable> {
        let mut xml = Xml::new(text);
        while let Some(node) = xml.next()? {
            if self.passed_over.covers(&node) {
                continue;
            }
            match node {
                XmlNode::Open(tag) => self.open(&tag),
                XmlNode::Close(name) => self.close(&name),
                XmlNode::Text(text) => self.text(&text),
            }
            if self.parts.is_full() {
                break;
            }
        }
        // A broken file may leave paragraphs open.
        while !self.paragraphs.is_empty() {
            self.end_paragraph();
        }
        while !self.tables.is_empty() {
            self.end_table();
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        if let Some(math) = &mut self.math {
            math.text(text);
        } else if self.is_text && !self.is_hidden {
            self.raise(text);
            self.write(text);
        }
    }

    /// Keeps a superscript digit, such as an exponent or the number of a note, apart from the number that it follows.
    fn raise(&mut self, text: &str) {
        let is_raised = std::mem::take(&mut self.is_raised) && text.starts_with(|c: char| c.is_ascii_digit());
        let before = self.paragraphs.last().and_then(|paragraph| paragraph.text.chars().next_back());
        if is_raised && before.is_some_and(|c| c.is_ascii_digit()) {
            self.write("^");
        }
    }

    fn write(&mut self, text: &str) {
        if let Some(paragraph) = self.paragraphs.last_mut() {
            paragraph.text.push_str(text);
        }
    }

    fn open(&mut self, tag: &Tag<'_>) {
        if let Some(math) = &mut self.math {
            math.open(tag);
            return;
        }
        if Math::begins(tag.name()) {
            let mut math = Math::default();
            math.open(tag);
            self.math = Some(math);
            return;
        }
        match tag.name() {
            "pPr" => self.in_properties = true,
            "del" | "moveFrom" | "vanish" if self.in_properties => {
                self.paragraphs.last_mut().into_iter().for_each(|one| one.is_unmarked |= is_on(tag));
            }
            // Properties as they were before a tracked change.
            name if name.ends_with("PrChange") => self.passed_over.begin(),
            // The fallback shows the same contents, deleted and moved text is no longer there, and a pronunciation
            // would appear in the middle of the word.
            "Fallback" | "del" | "moveFrom" | "instrText" | "rt" => self.passed_over.begin(),
            "p" => self.paragraphs.push(OpenParagraph::default()),
            "r" => (self.in_run, self.is_hidden, self.is_raised) = (true, false, false),
            // As a property of the paragraph mark it does not apply to the text.
            "vanish" if self.in_run => self.is_hidden = is_on(tag),
            "vertAlign" if self.in_run => {
                self.is_raised = tag.attribute("val").as_deref() == Some("superscript");
            }
            "t" => self.is_text = true,
            // Outside of a run a `tab` is the position of a tab stop.
            "tab" | "ptab" if self.in_run => self.write("\t"),
            "br" | "cr" if self.in_run => self.write("\n"),
            "noBreakHyphen" => self.write("-"),
            "sym" if !self.is_hidden => {
                if let Some(sign) = sign(tag) {
                    self.write(sign.encode_utf8(&mut [0; 4]));
                }
            }
            "hyperlink" => {
                let target = tag.prefixed("r:id").and_then(|id| self.relations.get(&id));
                let target =
                    target.filter(|relation| relation.is_outside).map(|relation| relation.target.clone());
                let start = self.paragraphs.last().map_or(0, |paragraph| paragraph.text.len());
                self.links.push((target.unwrap_or_default(), start));
            }
            "footnoteReference" => self.note("footnotes", tag),
            "endnoteReference" => self.note("endnotes", tag),
            "commentReference" => self.note("comments", tag),
            "docPr" => self.picture(tag),
            "blip" => self.picture_text(tag, "r:embed"),
            "imagedata" => self.picture_text(tag, "r:id"),
            "tbl" if self.tables.is_empty() => self.tables.push(DocxTable::default()),
            "tbl" => self.tables.push(DocxTable { grid: Grid::inner(), ..DocxTable::default() }),
            "docPartGallery" => {
                self.is_contents = tag.attribute("val").as_deref() == Some("Table of Contents");
            }
            "sdtContent" => {
                let begins = std::mem::take(&mut self.is_contents);
                self.contents += usize::from(begins || self.contents > 0);
            }
            "tr" | "tc" | "gridSpan" | "gridBefore" | "vMerge" | "tblHeader" => self.open_in_table(tag),
            _ => self.open_property(tag),
        }
    }

    fn open_property(&mut self, tag: &Tag<'_>) {
        let value = || tag.attribute("val").unwrap_or_default();
        let Some(paragraph) = self.paragraphs.last_mut() else { return };
        match tag.name() {
            "pStyle" => paragraph.style = value(),
            "outlineLvl" => paragraph.outline = value().parse().ok(),
            "numId" => paragraph.list.get_or_insert_default().list = value(),
            "ilvl" => paragraph.list.get_or_insert_default().level = value().parse().unwrap_or_default(),
            _ => {}
        }
    }

    fn open_in_table(&mut self, tag: &Tag<'_>) {
        let Some(table) = self.tables.last_mut() else { return };
        match tag.name() {
            "tr" => {
                table.grid.row();
                table.is_header = false;
            }
            "tc" => {
                table.cell.clear();
                (table.columns, table.goes_on) = (1, false);
            }
            "gridSpan" => {
                table.columns = tag.number("val").unwrap_or(1);
            }
            // The row begins after this many columns. They contain nothing, so the row may still be a header.
            "gridBefore" => {
                let columns = tag.number("val").unwrap_or(0);
                if columns > 0 {
                    table.grid.cell("", Header::Yes, columns, 1);
                }
            }
            // Without a value the cell continues the one above.
            "vMerge" => table.goes_on = tag.attribute("val").as_deref() != Some("restart"),
            _ => table.is_header = true,
        }
    }

    fn close(&mut self, name: &str) {
        if let Some(math) = &mut self.math {
            if let Some(formula) = math.close() {
                self.math = None;
                self.write(&formula);
            }
            return;
        }
        match name {
            "p" => self.end_paragraph(),
            "pPr" => self.in_properties = false,
            "sdtContent" => self.contents = self.contents.saturating_sub(1),
            "r" => (self.in_run, self.is_hidden) = (false, false),
            "t" => self.is_text = false,
            "hyperlink" => {
                if let (Some((address, start)), Some(paragraph)) =
                    (self.links.pop(), self.paragraphs.last_mut())
                {
                    end_link(&mut paragraph.text, start, &address);
                }
            }
            "tc" => self.end_cell(),
            "tbl" => self.end_table(),
            _ => {}
        }
    }

    fn note(&mut self, kind: &'static str, tag: &Tag<'_>) {
        let id = tag.attribute("id").unwrap_or_default();
        let (Some(text), Some(paragraph)) = (self.notes.get(&(kind, id.clone())), self.paragraphs.last_mut())
        else {
            return;
        };
        let mark = if kind == "comments" { String::new() } else { format!("[{id}]") };
        paragraph.text.push_str(&mark);
        if self.said.insert((kind, id)) {
            paragraph.notes.push(format!("{mark} {text}").trim_start().to_owned().into());
        }
    }

    fn picture(&mut self, tag: &Tag<'_>) {
        let described = tag.attribute("descr").or_else(|| tag.attribute("title")).unwrap_or_default();
        if let Some(paragraph) = self.paragraphs.last_mut() {
            paragraph.pictures.push(described);
        }
    }

    /// Adds the text read in a picture below the paragraph that shows it.
    fn picture_text(&mut self, tag: &Tag<'_>, attribute: &str) {
        let relation = tag.prefixed(attribute).and_then(|id| self.relations.get(&id));
        let read = relation.and_then(|relation| self.parts.picture_text(&relation.target));
        if let Some(paragraph) = self.paragraphs.last_mut() {
            paragraph.notes.extend(read);
        }
    }

    fn end_paragraph(&mut self) {
        let Some(mut paragraph) = self.paragraphs.pop() else { return };
        let place = self.place(&paragraph);
        let number = self.number(&paragraph, place.as_ref());
        if let Some(table) = self.tables.last_mut() {
            // A column may contain nothing but automatic numbers.
            if !number.is_empty() {
                paragraph.text = format!("{number} {}", paragraph.text);
            }
            let notes = paragraph.notes.iter().map(|note| &note.text);
            for text in std::iter::once(&paragraph.text).chain(&paragraph.pictures).chain(notes) {
                table.cell.push_str(text);
                table.cell.push(' ');
            }
            paragraph.notes.iter().for_each(|note| self.parts.shows(note.picture));
            return;
        }
        // A table of contents repeats the headings. Some programs write its lines in the style of normal text.
        let is_listed = self.contents > 0 && !self.styles.is_title(&paragraph.style);
        if !is_listed && !self.styles.is_contents(&paragraph.style) {
            self.add(&paragraph, place, &number);
        }
        for picture in &paragraph.pictures {
            self.parts.image(picture);
        }
        for note in &paragraph.notes {
            self.parts.read_paragraph(note);
        }
    }

    /// Number in front of a paragraph in a list. A paragraph without text is counted as well, unless it was deleted
    /// entirely.
    fn number(&mut self, paragraph: &OpenParagraph, place: Option<&ListPlace>) -> String {
        let is_gone = paragraph.is_unmarked && paragraph.text.trim().is_empty();
        place.filter(|_| !is_gone).map(|place| self.lists.next(place)).unwrap_or_default()
    }

    fn add(&mut self, paragraph: &OpenParagraph, place: Option<ListPlace>, number: &str) {
        let text = paragraph.text.trim();
        if text.is_empty() {
            return;
        }
        let text = if number.is_empty() { text.to_owned() } else { format!("{number} {text}") };
        let heading = match paragraph.outline {
            Some(outline) => outline_level(outline),
            None => self.styles.heading(&paragraph.style),
        };
        match (heading, place) {
            (Some(level), _) => self.parts.heading(level, &text),
            (None, Some(place)) => self.parts.item(u8::try_from(place.level).unwrap_or(u8::MAX), &text),
            (None, None) => self.parts.paragraph(&text),
        }
    }

    /// The list that a paragraph is in: its own properties, completed by those of its style.
    fn place(&self, paragraph: &OpenParagraph) -> Option<ListPlace> {
        let styled = self.styles.list(&paragraph.style);
        let place = match (&paragraph.list, styled) {
            (Some(own), Some(styled)) if own.list.is_empty() => {
                ListPlace { list: styled.list, level: own.level }
            }
            (Some(own), _) => own.clone(),
            (None, styled) => styled?,
        };
        // List 0 removes a paragraph from the list of its style.
        Some(place).filter(|place| !place.list.is_empty() && place.list != "0")
    }

    fn end_cell(&mut self) {
        let Some(table) = self.tables.last_mut() else { return };
        let text = if table.goes_on { table.grid.above() } else { std::mem::take(&mut table.cell) };
        let header = if table.is_header { Header::Yes } else { Header::No };
        // The rows of a span are marked cell by cell (`vMerge`).
        table.grid.cell(&text, header, table.columns, 1);
    }

    fn end_table(&mut self) {
        let Some(table) = self.tables.pop() else { return };
        let mut table = table.grid.finish(None);
        if let Some(outer) = self.tables.last_mut() {
            // A table within a cell is part of the cell's text.
            for row in table.rows {
                outer.cell.push_str(&row.join(" "));
                outer.cell.push(' ');
            }
            return;
        }
        if table.header_rows == 0 {
            table.header_rows = crate::grid::header_rows(&table.rows);
        }
        self.parts.table(table);
    }
}

/// Whether a property is switched on.
fn is_on(tag: &Tag<'_>) -> bool {
    !matches!(tag.attribute("val").as_deref(), Some("0" | "false" | "off"))
}
