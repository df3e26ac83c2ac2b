//! Text of shapes that are drawn over the cells of a spreadsheet.

use crate::markup::{PassedOver, Xml, XmlNode};
use crate::unreadable::Unreadable;

/// Texts of the shapes in one drawing.
pub(super) fn texts(drawing: &str) -> Result<Vec<String>, Unreadable> {
    let mut xml = Xml::new(drawing);
    let (mut texts, mut text, mut is_text) = (Vec::new(), String::new(), false);
    // Fallbacks for programs that do not support an alternative repeat its text.
    let mut passed_over = PassedOver::default();
    while let Some(node) = xml.next()? {
        if passed_over.covers(&node) {
            continue;
        }
        match node {
            XmlNode::Open(tag) => match tag.name() {
                "Fallback" => passed_over.begin(),
                "t" => is_text = true,
                "br" => text.push('\n'),
                _ => {}
            },
            XmlNode::Text(more) if is_text => text.push_str(&more),
            XmlNode::Text(_) => {}
            XmlNode::Close(name) => match name.as_str() {
                "t" => is_text = false,
                "p" => text.push('\n'),
                "txBody" => {
                    let said = std::mem::take(&mut text);
                    if !said.trim().is_empty() {
                        texts.push(said);
                    }
                }
                _ => {}
            },
        }
    }
    Ok(texts)
}
