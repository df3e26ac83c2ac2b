//! A simplified XML event stream. Entities that a document declares itself are never expanded.

use std::str::FromStr;

use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

use crate::unreadable::Unreadable;
use crate::words::{beginning, decode, decode_as};

/// Maximum nesting depth of elements.
const DEPTH_MAX: usize = 2_000;

/// An event in a document.
#[derive(Debug)]
pub(crate) enum XmlNode<'a> {
    /// Start of an element.
    Open(Tag<'a>),
    /// End of an element: its name without prefix.
    Close(String),
    /// Text, unescaped.
    Text(String),
}

/// The start tag of an element.
#[derive(Debug)]
pub(crate) struct Tag<'a>(BytesStart<'a>);

impl Tag<'_> {
    /// Name of the element, without prefix.
    pub(crate) fn name(&self) -> &str {
        local(self.0.name().0)
    }

    /// Value of an attribute, given its name without prefix.
    pub(crate) fn attribute(&self, name: &str) -> Option<String> {
        self.attributes().find(|(key, _)| local(key) == name).map(|(_, value)| value)
    }

    /// Like [`Tag::attribute`], parsed as a number; `None` also if it does not parse.
    pub(crate) fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.attribute(name).and_then(|number| number.parse().ok())
    }

    /// Value of an attribute, given its name with prefix.
    pub(crate) fn prefixed(&self, name: &str) -> Option<String> {
        self.attributes().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// All attributes; names include their prefixes.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let mut all = self.0.attributes();
        // The check compares each attribute with all before it, and duplicates do no harm here.
        all.with_checks(false);
        all.flatten().map(|one| {
            let value =
                quick_xml::escape::unescape(&one.value).map_or_else(|_| one.value.to_string(), Into::into);
            (one.key.0.to_owned(), value)
        })
    }
}

fn local(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, local)| local)
}

/// Reads an XML document.
pub(crate) struct Xml<'a> {
    reader: Reader<&'a [u8]>,
    depth: usize,
}

impl<'a> Xml<'a> {
    /// Creates a reader of this text.
    pub(crate) fn new(text: &'a str) -> Self {
        let mut reader = Reader::from_str(text);
        let config = reader.config_mut();
        // Every start gets a matching end, for callers that count open elements.
        config.expand_empty_elements = true;
        // Many files are slightly malformed; they are read as far as they make sense.
        config.allow_dangling_amp = true;
        config.allow_unmatched_ends = true;
        config.check_end_names = false;
        Self { reader, depth: 0 }
    }

    /// Returns the next event; `None` at the end.
    ///
    /// # Errors
    /// If the document is broken or nested too deeply.
    pub(crate) fn next(&mut self) -> Result<Option<XmlNode<'a>>, Unreadable> {
        loop {
            let at = self.reader.buffer_position();
            let event = self
                .reader
                .read_event()
                .map_err(|cause| Unreadable::because(&format!("its XML is broken at byte {at}"), cause))?;
            return Ok(Some(match event {
                Event::Start(start) | Event::Empty(start) => {
                    self.depth += 1;
                    if self.depth > DEPTH_MAX {
                        return Err(Unreadable::new(format!("its XML is nested more than {DEPTH_MAX} deep")));
                    }
                    XmlNode::Open(Tag(start))
                }
                Event::End(end) => {
                    self.depth = self.depth.saturating_sub(1);
                    XmlNode::Close(local(end.name().0).to_owned())
                }
                Event::Text(text) => XmlNode::Text(text.xml10_content().into_owned()),
                Event::CData(text) => XmlNode::Text(text.xml10_content().into_owned()),
                Event::GeneralRef(reference) => XmlNode::Text(entity(&reference)),
                Event::Eof => return Ok(None),
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => continue,
            }));
        }
    }
}

/// Skips an element with everything in it.
#[derive(Debug, Default)]
pub(crate) struct PassedOver {
    /// Number of open elements, counting from the one that is skipped; 0 when nothing is skipped.
    open: usize,
}

impl PassedOver {
    /// Starts skipping at the element that has just begun, up to its end.
    pub(crate) fn begin(&mut self) {
        self.open = 1;
    }

    /// Whether this event is skipped.
    pub(crate) fn covers(&mut self, node: &XmlNode<'_>) -> bool {
        if self.open == 0 {
            return false;
        }
        // Elements are counted, so that a nested element of the same name does not end it.
        match node {
            XmlNode::Open(_) => self.open += 1,
            XmlNode::Close(_) => self.open -= 1,
            XmlNode::Text(_) => {}
        }
        true
    }
}

fn entity(reference: &quick_xml::events::BytesRef<'_>) -> String {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        return character.to_string();
    }
    let name = reference.xml10_content();
    // An entity that the document declares itself stays as it is written.
    quick_xml::escape::resolve_xml_entity(&name).map_or_else(|| format!("&{name};"), str::to_owned)
}

/// Decodes a document, whose declaration may name the encoding.
pub(crate) fn written(bytes: &[u8]) -> String {
    // The declaration is ASCII in all encodings but wide ones, which are recognized without it.
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]);
    let declaration = beginning(&start, 200).strip_prefix("<?xml").and_then(|rest| rest.split_once("?>"));
    let label =
        declaration.and_then(|(declaration, _)| declaration.split_once("encoding=")).map(|(_, rest)| {
            rest.trim_start_matches(['"', '\'']).split(['"', '\'']).next().unwrap_or_default().to_owned()
        });
    match label {
        Some(label) => decode_as(bytes, Some(&label)),
        None => decode(bytes),
    }
}

/// Escapes a text for use between elements and in quoted attributes.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(document: &str) -> String {
        let mut xml = Xml::new(document);
        let mut text = String::new();
        while let Some(node) = xml.next().unwrap() {
            if let XmlNode::Text(piece) = node {
                text.push_str(&piece);
            }
        }
        text
    }

    #[test]
    fn entities_are_decoded_once() {
        assert_eq!(text("<a>1 &lt; 2 &amp; &#x6570;<![CDATA[<b>]]> &nbsp;</a>"), "1 < 2 & 数<b> &nbsp;");
        let laughs = "<!DOCTYPE a [<!ENTITY b \"ha\"><!ENTITY c \"&b;&b;&b;\">]><a>&c;</a>";
        assert_eq!(text(laughs), "&c;");
    }

    #[test]
    fn a_nested_element_of_the_same_name_does_not_end_a_skipped_one() {
        let mut xml = Xml::new("<a>1<x>2<x>3</x>4</x>5<x/>6</a>");
        let (mut passed_over, mut text) = (PassedOver::default(), String::new());
        while let Some(node) = xml.next().unwrap() {
            if passed_over.covers(&node) {
                continue;
            }
            match node {
                XmlNode::Open(tag) if tag.name() == "x" => passed_over.begin(),
                XmlNode::Open(_) | XmlNode::Close(_) => {}
                XmlNode::Text(piece) => text.push_str(&piece),
            }
        }
        assert_eq!(text, "156");
    }

    #[test]
    fn depth_has_a_limit() {
        let deep = "<a>".repeat(DEPTH_MAX + 1);
        let mut xml = Xml::new(&deep);
        let error = loop {
            match xml.next() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("no limit"),
                Err(Unreadable(reason)) => break reason,
            }
        };
        assert!(error.contains("nested"), "{error}");
    }

    #[test]
    fn documents_declare_their_encoding() {
        assert_eq!(
            written(b"<?xml version='1.0' encoding='iso-8859-1'?><a>\xe9</a>").matches('\u{e9}').count(),
            1
        );
    }
}
