//! Parses XML answers into small trees. Entities that a document declares itself are never expanded.

use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::reader::Reader;
use weft_core::Result;

use super::answer::garbled;

/// Maximum nesting depth of elements.
// Parsing is a loop, but collecting texts and dropping the tree recurse once per level.
const DEPTH_MAX: usize = 100;
/// Maximum number of elements in an answer.
// Each takes some hundred bytes of memory for the four that `<a/>` takes in the answer.
const ELEMENTS_MAX: usize = 300_000;

/// An element. Its names have no namespace prefixes.
#[derive(Clone, Debug, Default)]
pub(crate) struct XmlElement {
    name: String,
    attributes: Vec<(String, String)>,
    inner: Vec<XmlContent>,
}

#[derive(Clone, Debug)]
enum XmlContent {
    Element(XmlElement),
    Text(String),
}

impl XmlElement {
    /// Returns its children with this name.
    pub(crate) fn children<'e, 'n>(&'e self, name: &'n str) -> impl Iterator<Item = &'e Self> + use<'e, 'n> {
        self.inner.iter().filter_map(move |inner| match inner {
            XmlContent::Element(element) if element.name == name => Some(element),
            XmlContent::Element(_) | XmlContent::Text(_) => None,
        })
    }

    /// Returns the first element at a path such as `Article/Journal/Title`.
    pub(crate) fn at(&self, way: &str) -> Option<&Self> {
        way.split('/').try_fold(self, |element, name| element.children(name).next())
    }

    /// Returns the value of an attribute.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Returns all text in it, on one line.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        self.collect(&mut text);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Returns the text at a path; empty if there is none.
    pub(crate) fn text_at(&self, way: &str) -> String {
        self.at(way).map(Self::text).unwrap_or_default()
    }

    fn collect(&self, text: &mut String) {
        for inner in &self.inner {
            match inner {
                XmlContent::Element(element) => element.collect(text),
                XmlContent::Text(own) => text.push_str(own),
            }
        }
    }
}

/// Parses a document; returns the element that contains its root element.
///
/// # Errors
/// `Garbled` when it is malformed, nested too deeply, or not XML.
pub(crate) fn parse(text: &str) -> Result<XmlElement> {
    let mut reader = Reader::from_str(text);
    let config = reader.config_mut();
    // So that an empty element produces an end event like any other.
    config.expand_empty_elements = true;
    config.allow_dangling_amp = true;
    let mut open = vec![XmlElement::default()];
    let mut count = 0_usize;
    loop {
        let event = reader
            .read_event()
            .map_err(|cause| garbled("the XML of the answer is not well-formed").because(cause))?;
        let text = match event {
            Event::Start(start) | Event::Empty(start) => {
                count += 1;
                if open.len() > DEPTH_MAX || count > ELEMENTS_MAX {
                    return Err(garbled("the XML of the answer is nested too deeply or too long"));
                }
                open.push(element(&start));
                continue;
            }
            Event::End(_) => {
                if let Some(closed) = open.pop()
                    && let Some(around) = open.last_mut()
                {
                    around.inner.push(XmlContent::Element(closed));
                }
                continue;
            }
            Event::Text(text) => text.xml10_content().into_owned(),
            Event::CData(text) => text.xml10_content().into_owned(),
            Event::GeneralRef(reference) => entity(&reference),
            Event::Eof => break,
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => continue,
        };
        // Adjacent pieces are joined into one text: an answer that consists only of entities has a piece for every few
        // bytes, and each would take many times its own length.
        let Some(inner) = open.last_mut().map(|around| &mut around.inner) else { continue };
        match inner.last_mut() {
            Some(XmlContent::Text(before)) => before.push_str(&text),
            Some(XmlContent::Element(_)) | None => inner.push(XmlContent::Text(text)),
        }
    }
    match (open.pop(), open.is_empty()) {
        (Some(document), true) if count > 0 => Ok(document),
        _ => Err(garbled("the answer is not complete XML")),
    }
}

fn element(start: &BytesStart<'_>) -> XmlElement {
    let mut all = start.attributes();
    // The check compares each attribute with all before it.
    all.with_checks(false);
    let attributes = all.flatten().map(|one| {
        let value =
            quick_xml::escape::unescape(&one.value).map_or_else(|_| one.value.to_string(), Into::into);
        (local(one.key.0).to_owned(), value)
    });
    XmlElement { name: local(start.name().0).to_owned(), attributes: attributes.collect(), inner: Vec::new() }
}

fn local(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, local)| local)
}

fn entity(reference: &BytesRef<'_>) -> String {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        return character.to_string();
    }
    let name = reference.xml10_content();
    quick_xml::escape::resolve_xml_entity(&name).map_or_else(|| format!("&{name};"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::ErrorKind;

    #[test]
    fn valid_xml_is_parsed_and_invalid_refused() {
        let document =
            parse("<?xml version='1.0'?><a:f x='1&amp;2'><t>A <i>b</i> &lt; c</t><t/><u><t>d</t></u></a:f>")
                .unwrap();
        let feed = document.at("f").unwrap();
        assert_eq!((feed.attribute("x"), feed.text_at("t").as_str()), (Some("1&2"), "A b < c"));
        assert_eq!((feed.children("t").count(), feed.text_at("u/t").as_str()), (2, "d"));
        assert_eq!(feed.text_at("none"), "");
        let deep = "<a>".repeat(200);
        for broken in ["", "plain", "<a>", "<a></b>", "<a", deep.as_str(), "{\"a\": 1}"] {
            assert_eq!(parse(broken).unwrap_err().kind, ErrorKind::Garbled, "{broken}");
        }
    }

    #[test]
    fn an_answer_of_entities_is_one_text() {
        let document = parse(&format!("<t>{}<b/>c</t>", "&lt;a".repeat(1_000))).unwrap();
        let text = document.at("t").unwrap();
        assert_eq!((text.inner.len(), text.text().len()), (3, 2_001));
    }
}
