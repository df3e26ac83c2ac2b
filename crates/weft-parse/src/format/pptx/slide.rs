//! Reads one slide: its shapes, in the order of the file.

use std::collections::HashMap;

use super::super::math::Math;
use super::super::numeral::numeral;
use super::super::office::{OfficeRelation, end_link};
use crate::grid::{Grid, Header, header_rows};
use crate::markup::{PassedOver, Tag, Xml, XmlNode};
use crate::parts::PartCollector;
use crate::unreadable::Unreadable;

/// Purpose of a shape.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum ShapeRole {
    /// A text box.
    #[default]
    Box,
    Title,
    /// Body text of the slide, as a bullet list.
    Points,
    /// Date, slide number or footer.
    Frame,
}

/// Number of list levels.
const LEVELS: usize = 10;

/// Numbering of a paragraph.
#[derive(Clone, Copy)]
struct AutoNumber {
    /// Name of the number format, as in Word.
    format: &'static str,
    /// Text before and after the number.
    around: [&'static str; 2],
    start: u32,
}

impl AutoNumber {
    fn read(tag: &Tag<'_>) -> Self {
        const FORMATS: [(&str, &str); 5] = [
            ("alphaLc", "lowerLetter"),
            ("alphaUc", "upperLetter"),
            ("romanLc", "lowerRoman"),
            ("romanUc", "upperRoman"),
            ("ea1", "chineseCounting"),
        ];
        let kind = tag.attribute("type").unwrap_or_default();
        let format = FORMATS.iter().find(|(start, _)| kind.starts_with(start));
        let around = match kind.as_str() {
            kind if kind.ends_with("ParenBoth") => ["(", ")"],
            kind if kind.ends_with("ParenR") => ["", ")"],
            kind if kind.ends_with("Period") => ["", "."],
            _ => ["", ""],
        };
        let format = format.map_or("decimal", |(_, format)| *format);
        Self { format, around, start: tag.number("startAt").unwrap_or(1) }
    }
}

#[derive(Default)]
struct Slide<'a> {
    relations: Option<&'a HashMap<String, OfficeRelation>>,
    role: ShapeRole,
    text: String,
    level: u8,
    /// Whether the paragraph is a list item, if it says so itself.
    bullet: Option<bool>,
    auto_number: Option<AutoNumber>,
    /// The last number on each level of this shape's lists.
    counts: [Option<u32>; LEVELS],
    link: Option<(String, usize)>,
    table: Option<(Grid, String, CellSpan)>,
    math: Option<Math>,
    passed_over: PassedOver,
    is_text: bool,
    is_picture: bool,
    charts: Vec<String>,
}

/// Span of a cell, or that it is covered by another one.
#[derive(Clone, Copy, Default)]
struct CellSpan {
    columns: usize,
    rows: usize,
    is_covered: bool,
}

/// Adds the contents of a slide and returns the ids of its charts and diagrams.
pub(super) fn read(
    text: &str,
    relations: &HashMap<String, OfficeRelation>,
    parts: &mut PartCollector,
) -> Result<Vec<String>, Unreadable> {
    let mut slide = Slide { relations: Some(relations), ..Slide::default() };
    let mut xml = Xml::new(text);
    while let Some(node) = xml.next()? {
        if slide.passed_over.covers(&node) {
            continue;
        }
        match node {
            XmlNode::Open(tag) => slide.open(&tag, parts),
            XmlNode::Close(name) => slide.close(&name, parts),
            XmlNode::Text(text) => match &mut slide.math {
                Some(math) => math.text(&text),
                None if slide.is_text => slide.text.push_str(&text),
                None => {}
            },
        }
    }
    Ok(slide.charts)
}

/// Adds the speaker notes.
pub(super) fn read_notes(text: &str, parts: &mut PartCollector) -> Result<(), Unreadable> {
    let mut xml = Xml::new(text);
    let (mut said, mut is_text, mut is_body) = (String::new(), false, false);
    while let Some(node) = xml.next()? {
        match node {
            XmlNode::Open(tag) => match tag.name() {
                "sp" => is_body = false,
                // A notes page also contains an image of its slide and a number.
                "ph" => is_body = tag.attribute("type").as_deref() == Some("body"),
                "t" => is_text = is_body,
                "br" => said.push('\n'),
                _ => {}
            },
            XmlNode::Text(text) if is_text => said.push_str(&text),
            XmlNode::Text(_) => {}
            XmlNode::Close(name) => {
                is_text = false;
                if name == "p" {
                    said.push('\n');
                }
            }
        }
    }
    if !said.trim().is_empty() {
        parts.paragraph(&format!("Notes: {}", said.trim()));
    }
    Ok(())
}

impl Slide<'_> {
    fn open(&mut self, tag: &Tag<'_>, parts: &mut PartCollector) {
        if let Some(math) = &mut self.math {
            math.open(tag);
            return;
        }
        match tag.name() {
            name if Math::begins(name) => {
                let mut math = Math::default();
                math.open(tag);
                self.math = Some(math);
            }
            // The fallback shows the same contents.
            "Fallback" => self.passed_over.begin(),
            "sp" => {
                (self.role, self.is_picture) = (ShapeRole::Box, false);
                // Each shape has lists of its own.
                self.counts = [None; LEVELS];
            }
            "pic" | "graphicFrame" => (self.role, self.is_picture) = (ShapeRole::Box, true),
            "cNvPr" if self.is_picture => parts.image(&tag.attribute("descr").unwrap_or_default()),
            "blip" if self.is_picture => {
                let picture = tag.prefixed("r:embed").and_then(|id| self.relations?.get(&id));
                if let Some(read) = picture.and_then(|picture| parts.picture_text(&picture.target)) {
                    parts.read_paragraph(&read);
                }
            }
            "ph" => {
                self.role = match tag.attribute("type").as_deref() {
                    Some("title" | "ctrTitle") => ShapeRole::Title,
                    Some("dt" | "ftr" | "sldNum" | "hdr") => ShapeRole::Frame,
                    Some("subTitle") => ShapeRole::Box,
                    // A placeholder without a type is for body text.
                    _ => ShapeRole::Points,
                }
            }
            "p" => {
                self.text.clear();
                (self.level, self.bullet, self.auto_number, self.link) = (0, None, None, None);
            }
            "pPr" => {
                self.level = tag.number("lvl").unwrap_or_default();
            }
            "buNone" => self.bullet = Some(false),
            "buChar" | "buBlip" => self.bullet = Some(true),
            "buAutoNum" => (self.bullet, self.auto_number) = (Some(true), Some(AutoNumber::read(tag))),
            "t" => self.is_text = true,
            "br" => self.text.push('\n'),
            // One of the properties of a run, so the run's text is still to come.
            "hlinkClick" => {
                let known = tag.prefixed("r:id").and_then(|id| self.relations?.get(&id).cloned());
                self.link = known.filter(|one| one.is_outside).map(|one| (one.target, self.text.len()));
            }
            "chart" => self.charts.extend(tag.prefixed("r:id")),
            // A diagram, referenced by the part with its text.
            "relIds" => self.charts.extend(tag.prefixed("r:dm")),
            "tbl" => self.table = Some((Grid::default(), String::new(), CellSpan::default())),
            "tr" | "tc" => {
                self.counts = [None; LEVELS];
                self.open_in_table(tag);
            }
            _ => {}
        }
    }

    fn open_in_table(&mut self, tag: &Tag<'_>) {
        let Some((grid, cell, span)) = &mut self.table else { return };
        if tag.name() == "tr" {
            grid.row();
            return;
        }
        let count = |name: &str| tag.number(name).unwrap_or(1);
        let flag = |name: &str| matches!(tag.attribute(name).as_deref(), Some("1" | "true"));
        cell.clear();
        *span = CellSpan {
            columns: count("gridSpan"),
            rows: count("rowSpan"),
            is_covered: flag("hMerge") || flag("vMerge"),
        };
    }

    fn close(&mut self, name: &str, parts: &mut PartCollector) {
        if let Some(math) = &mut self.math {
            if let Some(formula) = math.close() {
                self.math = None;
                self.text.push_str(&formula);
            }
            return;
        }
        match name {
            "t" => self.is_text = false,
            "r" => {
                if let Some((address, start)) = self.link.take() {
                    end_link(&mut self.text, start, &address);
                }
            }
            "p" => self.end_paragraph(parts),
            "tc" => {
                // A covered cell is added by the grid, from the cell that spans it.
                if let Some((grid, cell, span)) = &mut self.table
                    && !span.is_covered
                {
                    grid.cell(cell, Header::No, span.columns, span.rows);
                }
            }
            "tbl" => {
                if let Some((grid, ..)) = self.table.take() {
                    let mut table = grid.finish(None);
                    table.header_rows = header_rows(&table.rows);
                    parts.table(table);
                }
            }
            _ => {}
        }
    }

    /// Number in front of a paragraph. Paragraphs without text are not counted.
    fn number(&mut self, text: &str) -> String {
        if text.trim().is_empty() {
            return String::new();
        }
        let at = usize::from(self.level).min(LEVELS - 1);
        self.counts[at + 1..].fill(None);
        let count =
            self.auto_number.map(|auto| self.counts[at].map_or(auto.start, |count| count.saturating_add(1)));
        // A paragraph without a number ends the numbering on its level.
        self.counts[at] = count;
        let (Some(auto), Some(count)) = (self.auto_number, count) else { return String::new() };
        let [before, behind] = auto.around;
        format!("{before}{}{behind}", numeral(count, auto.format))
    }

    fn end_paragraph(&mut self, parts: &mut PartCollector) {
        let mut text = std::mem::take(&mut self.text);
        let number = self.number(&text);
        if !number.is_empty() {
            text = format!("{number} {text}");
        }
        if let Some((_, cell, _)) = &mut self.table {
            cell.push_str(&text);
            cell.push(' ');
            return;
        }
        match self.role {
            ShapeRole::Title => parts.heading(1, &text),
            ShapeRole::Frame => {}
            ShapeRole::Points if self.bullet != Some(false) => parts.item(self.level, &text),
            ShapeRole::Box if self.bullet == Some(true) => parts.item(self.level, &text),
            ShapeRole::Points | ShapeRole::Box => parts.paragraph(&text),
        }
    }
}
