//! DOCX: the text of a document with its headings, lists, tables, notes and comments, followed by its charts and
//! diagrams.

mod body;
mod styles;
mod symbols;

use std::collections::HashMap;

use super::office::{self, main_part, relations};
use super::{FileContents, FileFormat, FileInput, ReadResult, chart, diagram};
use crate::archive::{Archive, ArchiveKind};
use crate::markup::{Xml, XmlNode};
use crate::parts::PartCollector;
use crate::unreadable::Unreadable;
use body::BodyReader;
use styles::{DocxLists, Styles};

/// Word documents.
pub(super) const FORMAT: FileFormat = FileFormat {
    name: "DOCX",
    endings: &["docx", "docm", "dotx", "dotm"],
    is_binary: true,
    looks: |contents: &FileContents<'_>| contents.container == Some(ArchiveKind::Docx),
    read,
};

fn read(file: &FileInput<'_>) -> ReadResult {
    let mut archive = Archive::open(file.bytes)?;
    let mut parts = PartCollector::with_pictures(file.readings);
    let main = main_part(&mut archive, "word/document.xml")?;
    let text = crate::markup::written(&archive.need(&main)?);
    let relations = relations(&mut archive, &main)?;
    let mut related = |kind: &str| match office::of_kind(&relations, kind).first() {
        Some(target) => office::xml(&mut archive, target),
        None => Ok(None),
    };
    let styles = related("styles")?.map_or_else(|| Ok(Styles::default()), |text| Styles::read(&text))?;
    let lists =
        related("numbering")?.map_or_else(|| Ok(DocxLists::default()), |text| DocxLists::read(&text))?;
    let mut notes = HashMap::new();
    for kind in ["footnotes", "endnotes", "comments"] {
        if let Some(text) = related(kind)? {
            read_notes(kind, &text, &mut notes)?;
        }
    }
    office::properties(&mut archive, &mut parts)?;
    let mut body = BodyReader::new(&styles, lists, &relations, &notes, &mut parts);
    body.read(&text)?;
    // One file for each chart, numbered in order.
    let mut charts = office::of_kind(&relations, "chart");
    charts.extend(office::of_kind(&relations, "chartEx"));
    charts.dedup();
    for target in charts {
        if let Some(text) = office::xml(&mut archive, &target)? {
            chart::read(&text, &mut parts)?;
        }
    }
    let mut diagrams = office::of_kind(&relations, "diagramData");
    diagrams.dedup();
    for target in diagrams {
        if let Some(text) = office::xml(&mut archive, &target)? {
            diagram::read(&text, &mut parts)?;
        }
    }
    Ok(parts.finish())
}

/// Paths of the pictures that the text shows, sorted by name.
pub(super) fn picture_parts(bytes: &[u8]) -> Result<Vec<String>, Unreadable> {
    let mut archive = Archive::open(bytes)?;
    let main = main_part(&mut archive, "word/document.xml")?;
    Ok(office::pictures(relations(&mut archive, &main)?))
}

/// Notes of a document by what references contain: the kind of the note and its id.
type Notes = HashMap<(&'static str, String), String>;

fn read_notes(kind: &'static str, text: &str, notes: &mut Notes) -> Result<(), Unreadable> {
    let (element, prefix): (&str, &str) = match kind {
        "footnotes" => ("footnote", ""),
        "endnotes" => ("endnote", ""),
        // Only comments have authors, and only they have to be told apart from the text.
        _ => ("comment", "Comment"),
    };
    let mut xml = Xml::new(text);
    let (mut id, mut said, mut author) = (String::new(), String::new(), String::new());
    let mut is_text = false;
    while let Some(node) = xml.next()? {
        match node {
            XmlNode::Open(tag) => {
                is_text = tag.name() == "t";
                match tag.name() {
                    // The words on both sides must not become one.
                    "br" | "cr" | "tab" | "ptab" if !said.ends_with(' ') => said.push(' '),
                    "noBreakHyphen" => said.push('-'),
                    name if name == element => {
                        id = tag.attribute("id").unwrap_or_default();
                        author = tag.attribute("author").unwrap_or_default();
                        said.clear();
                    }
                    _ => {}
                }
            }
            XmlNode::Text(text) if is_text => said.push_str(&text),
            XmlNode::Text(_) => {}
            XmlNode::Close(name) => {
                is_text = false;
                // The paragraphs of a note are put on one line.
                if name == "p" {
                    said.push(' ');
                }
                if name == element && !said.trim().is_empty() {
                    let head = match (prefix, author.as_str()) {
                        ("", _) => String::new(),
                        (prefix, "") => format!("{prefix}: "),
                        (prefix, author) => format!("{prefix} ({author}): "),
                    };
                    notes.insert((kind, std::mem::take(&mut id)), format!("{head}{}", said.trim()));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_and_tabs_in_a_note_separate_words() {
        let text = "<w:footnotes><w:footnote w:id='2'><w:p><w:pPr><w:tabs><w:tab w:val='left'/></w:tabs></w:pPr>
             <w:r><w:t>one</w:t><w:br/><w:t>two</w:t><w:tab/><w:t>three</w:t><w:noBreakHyphen/><w:t>four</w:t></w:r>
             </w:p><w:p><w:r><w:t>five</w:t></w:r></w:p></w:footnote></w:footnotes>";
        let mut notes = HashMap::new();
        assert!(read_notes("footnotes", text, &mut notes).is_ok());
        let said = notes.get(&("footnotes", "2".to_owned())).map(String::as_str);
        assert_eq!(said, Some("one two three-four five"));
    }
}
