//! Documents for tests, written in a small subset of Markdown.

use serde_json::Value;
use weft_core::seam::document_reader::{ChunkMethod, Position, ReadDocument, ReadRequest};

use super::flow::{Joint, Placed};
use crate::element::{Element, ElementBody, Parsed, TableElement};

/// Blocks between blank lines: `# heading`, `- item`, `|cell|cell|` (the first row is the header), code in
/// fences without blank lines, `=== 2 name` for a new page, and paragraphs.
pub(crate) fn blocks(text: &str) -> Vec<Element> {
    text.split("\n\n").filter(|block| !block.trim().is_empty()).flat_map(block).collect()
}

fn block(block: &str) -> Vec<Element> {
    let element = |body: ElementBody| Element::new(body, Vec::new());
    let hashes = block.bytes().take_while(|byte| *byte == b'#').count();
    if let Some(rest) = block.strip_prefix("=== ") {
        let (number, name) = rest.split_once(' ').unwrap_or((rest, ""));
        let name = (!name.is_empty()).then(|| name.to_owned());
        return vec![element(ElementBody::Break { number: number.parse().unwrap(), name })];
    }
    if (1..=6).contains(&hashes) {
        let text = block[hashes..].trim().to_owned();
        return vec![element(ElementBody::Heading { level: hashes as u8, text })];
    }
    if let Some(code) = block.strip_prefix("```\n").and_then(|rest| rest.strip_suffix("\n```")) {
        return vec![element(ElementBody::Code { language: None, text: code.to_owned() })];
    }
    if block.starts_with("- ") {
        let item =
            |line: &str| ElementBody::Item { depth: 0, text: line.trim_start_matches("- ").to_owned() };
        return block.lines().map(item).map(element).collect();
    }
    if block.starts_with('|') {
        let cells = |line: &str| line.trim_matches('|').split('|').map(str::to_owned).collect();
        let rows = block.lines().map(cells).collect();
        return vec![element(ElementBody::Table(TableElement { caption: None, header_rows: 1, rows }))];
    }
    vec![element(ElementBody::Paragraph(block.to_owned()))]
}

pub(crate) fn placed(elements: &[Element]) -> Vec<Placed<'_>> {
    elements.iter().map(|element| Placed { element, page: None, sheet: None, joint: Joint::Block }).collect()
}

pub(crate) fn parsed(text: &str) -> Parsed {
    let elements = blocks(text);
    let pages = elements.iter().filter(|element| matches!(element.body, ElementBody::Break { .. })).count();
    Parsed { elements, pages: pages as u32, ..Parsed::default() }
}

/// A paragraph with a rectangle.
pub(crate) fn at(text: &str, page: u32, top: f32) -> Element {
    let position = Position { page, left: 10.0, right: 100.0, top, bottom: top + 10.0 };
    Element::new(ElementBody::Paragraph(text.to_owned()), vec![position])
}

pub(crate) fn request(name: &str, method: ChunkMethod, settings: Value) -> ReadRequest {
    let Value::Object(settings) = settings else { panic!("settings are an object") };
    ReadRequest { name: name.to_owned(), method, settings }
}

/// Cuts a text.
pub(crate) fn cut(text: &str, name: &str, method: ChunkMethod, settings: Value) -> ReadDocument {
    super::cut(&parsed(text), &request(name, method, settings)).unwrap()
}

/// The contents of the chunks.
pub(crate) fn contents(document: &ReadDocument) -> Vec<&str> {
    document.pieces.iter().map(|piece| piece.content.as_str()).collect()
}
