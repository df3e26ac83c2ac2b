//! Reads arbitrary XML in document order: values labelled with the names of their elements, and mixed content as
//! running text.

use crate::markup::{Tag, Xml, XmlNode};
use crate::parts::PartCollector;
use crate::unreadable::Unreadable;
use crate::words::line;

/// Maximum size, in bytes, of an element within the text of another one. A longer one is read separately.
const INLINE_BYTES_MAX: usize = 2_000;

/// Maximum number of lines of an element that are passed up to its parent; otherwise nested elements would accumulate
/// lines without limit.
const LINES_MAX: usize = 20;

/// A paragraph, with the number of the element that it begins with.
type Numbered = (usize, String);

/// An element whose end has not been read yet.
struct OpenElement {
    /// Number of elements that began before it.
    number: usize,
    name: String,
    /// Text of its attributes.
    attributes: Vec<String>,
    pieces: Vec<XmlPiece>,
    /// Whether it contains text of its own that is not blank.
    has_text: bool,
    /// Whether a descendant has mixed content, so that this element is read in document order.
    is_prose: bool,
}

/// A part of an element's content.
enum XmlPiece {
    Text(String),
    Child(Child),
    /// An element that has been read separately.
    Apart,
}

/// A closed element whose parent is not yet closed.
struct Child {
    number: usize,
    /// Its text as part of the parent's text, unless it is too long for that.
    text: Option<String>,
    attributes: Vec<String>,
    /// Its text otherwise.
    lines: Vec<String>,
    /// Whether that is one line among others.
    is_line: bool,
    is_prose: bool,
}

/// Adds the contents of a document. Children that contain only text become lines of one paragraph.
pub(super) fn add(text: &str, parts: &mut PartCollector) -> Result<(), Unreadable> {
    let mut xml = Xml::new(text);
    let mut open: Vec<OpenElement> = Vec::new();
    let (mut count, mut found) = (0, Vec::new());
    while let Some(node) = xml.next()? {
        match node {
            XmlNode::Open(tag) => {
                open.push(OpenElement::new(&tag, count));
                count += 1;
            }
            XmlNode::Text(text) => {
                if let Some(element) = open.last_mut() {
                    element.text(&text);
                }
            }
            XmlNode::Close(_) => {
                let Some(element) = open.pop() else { continue };
                close(element, open.last_mut(), &mut found);
            }
        }
    }
    // A broken file may leave elements open.
    while let Some(element) = open.pop() {
        close(element, open.last_mut(), &mut found);
    }
    found.sort_by_key(|(number, _)| *number);
    for (_, paragraph) in found {
        parts.paragraph(&paragraph);
    }
    Ok(())
}

impl OpenElement {
    fn new(tag: &Tag<'_>, number: usize) -> Self {
        let attributes = tag
            .attributes()
            .filter(|(key, _)| !key.starts_with("xmlns") && !key.starts_with("xsi:"))
            .map(|(key, value)| format!("{key}: {}", line(&value)))
            .collect();
        let name = tag.name().to_owned();
        Self { number, name, attributes, pieces: Vec::new(), has_text: false, is_prose: false }
    }

    fn text(&mut self, text: &str) {
        let is_blank = text.trim().is_empty();
        self.has_text |= !is_blank;
        let text = if is_blank { " " } else { text };
        match self.pieces.last_mut() {
            Some(XmlPiece::Text(before)) => before.push_str(text),
            _ => self.pieces.push(XmlPiece::Text(text.to_owned())),
        }
    }
}

fn close(element: OpenElement, parent: Option<&mut OpenElement>, found: &mut Vec<Numbered>) {
    let is_leaf = element.pieces.iter().all(|piece| matches!(piece, XmlPiece::Text(_)));
    let is_prose = element.is_prose;
    let child = if is_leaf {
        Some(leaf(element))
    } else if element.has_text {
        Some(mixed(element, found))
    } else {
        wrapper(element, found)
    };
    let Some(parent) = parent else {
        found.extend(child.map(|child| (child.number, child.lines.join("\n"))));
        return;
    };
    match child {
        // An empty element may be a line or page break.
        Some(child) if child.lines.is_empty() => parent.text(" "),
        Some(child) => {
            parent.is_prose |= child.is_prose;
            parent.pieces.push(XmlPiece::Child(child));
        }
        None => {
            parent.is_prose |= is_prose;
            parent.pieces.push(XmlPiece::Apart);
        }
    }
}

fn short(text: String) -> Option<String> {
    (text.len() <= INLINE_BYTES_MAX).then_some(text)
}

/// Closes an element that contains only text.
fn leaf(element: OpenElement) -> Child {
    let OpenElement { number, name, attributes, pieces, .. } = element;
    let texts = pieces.into_iter().filter_map(|piece| match piece {
        XmlPiece::Text(text) => Some(text),
        XmlPiece::Child(_) | XmlPiece::Apart => None,
    });
    let text: String = texts.collect();
    let is_line = attributes.is_empty();
    let mut lines = Vec::new();
    if !is_picture(&name, &attributes) {
        lines.clone_from(&attributes);
        lines.extend(Some(line(&text)).filter(|said| !said.is_empty()).map(|said| format!("{name}: {said}")));
        // A boolean in a property list is an element without text.
        if lines.is_empty() && matches!(name.as_str(), "true" | "false") {
            lines.push(name);
        }
    }
    Child { number, text: short(text), attributes, lines, is_line, is_prose: false }
}

/// Whether an element of a book contains the bytes of a picture instead of text.
fn is_picture(name: &str, attributes: &[String]) -> bool {
    name == "binary" && attributes.iter().any(|one| one.starts_with("content-type: image/"))
}

/// Closes an element with mixed content.
fn mixed(element: OpenElement, found: &mut Vec<Numbered>) -> Child {
    let OpenElement { number, mut attributes, pieces, .. } = element;
    let mut text = String::new();
    for piece in pieces {
        match piece {
            XmlPiece::Text(more) => text.push_str(&more),
            XmlPiece::Child(Child { text: Some(more), attributes: others, .. })
                if others.len() < LINES_MAX =>
            {
                text.push_str(&more);
                attributes.extend(others);
            }
            XmlPiece::Child(child) => {
                text.push(' ');
                found.push((child.number, child.lines.join("\n")));
            }
            XmlPiece::Apart => text.push(' '),
        }
    }
    let lines = std::iter::once(line(&text)).chain(attributes.iter().cloned()).collect();
    Child { number, text: short(text), attributes, lines, is_line: false, is_prose: true }
}

/// Closes an element that contains one other element and no text. Any other element is added to `found` completely, and
/// the result is `None`.
fn wrapper(mut element: OpenElement, found: &mut Vec<Numbered>) -> Option<Child> {
    let children = element.pieces.iter().filter(|piece| !matches!(piece, XmlPiece::Text(_))).count();
    let is_short =
        |piece: &XmlPiece| matches!(piece, XmlPiece::Child(child) if child.lines.len() < LINES_MAX);
    let place = element.pieces.iter().position(is_short);
    let Some(place) = place.filter(|_| children == 1) else {
        add_lines(element, found);
        return None;
    };
    let XmlPiece::Child(child) = element.pieces.swap_remove(place) else { return None };
    let with =
        |lines: Vec<String>| -> Vec<String> { element.attributes.iter().cloned().chain(lines).collect() };
    Some(Child {
        number: element.number,
        text: child.text,
        attributes: with(child.attributes),
        lines: with(child.lines),
        is_line: false,
        is_prose: child.is_prose,
    })
}

/// Closes an element that has no text of its own.
fn add_lines(element: OpenElement, found: &mut Vec<Numbered>) {
    let (mut number, mut lines) = (element.number, element.attributes);
    for piece in element.pieces {
        match piece {
            XmlPiece::Text(_) => continue,
            XmlPiece::Child(child) if child.is_line => {
                if lines.is_empty() {
                    number = child.number;
                }
                lines.extend(child.lines);
                continue;
            }
            XmlPiece::Child(child) => found.push((child.number, child.lines.join("\n"))),
            XmlPiece::Apart => {}
        }
        // A record stays together whatever lies between its values; an element read in document order does not.
        if element.is_prose && !lines.is_empty() {
            found.push((number, std::mem::take(&mut lines).join("\n")));
        }
    }
    if !lines.is_empty() {
        found.push((number, lines.join("\n")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::ElementBody;

    fn paragraphs(text: &str) -> Vec<String> {
        let mut parts = PartCollector::default();
        add(text, &mut parts).unwrap();
        let bodies = parts.finish().elements.into_iter().map(|element| match element.body {
            ElementBody::Paragraph(text) => text,
            other => panic!("{other:?}"),
        });
        bodies.collect()
    }

    #[test]
    fn mixed_content_is_one_text() {
        let text = "<article><title>Guide</title><section><title>Begin</title><para>Run <command>make</command> in \
            <a href='x'><b>this</b></a> folder.<br/>Then<note><p>wait.</p><p>Long.</p></note></para><para>Plain.</para>\
            <para>H<sub>2</sub>O</para></section><section><para>Last</para></section></article>";
        let expected = [
            "title: Guide",
            "title: Begin",
            "Run make in this folder. Then\nhref: x",
            "p: wait.\np: Long.",
            "para: Plain.",
            "H2O",
            "para: Last",
        ];
        assert_eq!(paragraphs(text), expected);
    }

    #[test]
    fn records_stay_together_in_the_order_of_the_file() {
        let text = "<list><outline text='Root'><outline text='Leaf'/></outline>\
            <person><name>Ada</name><home><city>London</city><no>3</no></home><age>36</age></person></list>";
        assert_eq!(paragraphs(text), ["text: Root\ntext: Leaf", "name: Ada\nage: 36", "city: London\nno: 3"]);
    }

    #[test]
    fn property_lists_have_booleans() {
        let text = "<plist version='1.0'><dict><key>Shown</key><true/><key>Locked</key><false/>\
            <key>Name</key><string>Ada</string></dict></plist>";
        assert_eq!(
            paragraphs(text),
            ["version: 1.0", "key: Shown\ntrue\nkey: Locked\nfalse\nkey: Name\nstring: Ada"]
        );
    }

    #[test]
    fn embedded_book_pictures_are_not_text() {
        let text = "<FictionBook><body><p>One.</p><p>Two.</p></body>\
            <binary id='a.jpg' content-type='image/jpeg'>/9j/4AAQ</binary></FictionBook>";
        assert_eq!(paragraphs(text), ["p: One.\np: Two."]);
    }

    #[test]
    fn a_long_element_is_read_separately() {
        let long = "word ".repeat(INLINE_BYTES_MAX / 4);
        let read = paragraphs(&format!("<a>before <b>{long}</b> after</a>"));
        assert_eq!(read, ["before after".to_owned(), format!("b: {}", long.trim())]);
    }
}
