//! PPTX: slide by slide, with tables, charts, diagrams, speaker notes and comments.

mod slide;

use std::collections::HashSet;

use super::office::{self, main_part, relations};
use super::{FileContents, FileFormat, FileInput, ReadResult, chart, diagram};
use crate::archive::{Archive, ArchiveKind};
use crate::markup::{Xml, XmlNode};
use crate::parts::PartCollector;
use crate::unreadable::Unreadable;

/// PowerPoint presentations.
pub(super) const FORMAT: FileFormat = FileFormat {
    name: "PPTX",
    endings: &["pptx", "pptm", "ppsx", "potx"],
    is_binary: true,
    looks: |contents: &FileContents<'_>| contents.container == Some(ArchiveKind::Pptx),
    read,
};

/// Maximum number of slides in one presentation.
const SLIDES_MAX: usize = 5_000;

fn read(file: &FileInput<'_>) -> ReadResult {
    let mut archive = Archive::open(file.bytes)?;
    let mut parts = PartCollector::with_pictures(file.readings);
    office::properties(&mut archive, &mut parts)?;
    for slide in slides(&mut archive)? {
        parts.page(None);
        // A broken slide does not affect the others.
        if let Err(Unreadable(reason)) = read_slide(&mut archive, &slide, &mut parts) {
            parts.warn(format!("a slide was left out: {reason}"));
        }
        if parts.is_full() {
            break;
        }
    }
    Ok(parts.finish())
}

/// Paths of the pictures on the slides, slide by slide. Pictures of the design are not content.
pub(super) fn picture_parts(bytes: &[u8]) -> Result<Vec<String>, Unreadable> {
    let mut archive = Archive::open(bytes)?;
    let mut parts = Vec::new();
    for slide in slides(&mut archive)? {
        parts.extend(office::pictures(relations(&mut archive, &slide)?));
    }
    Ok(parts)
}

/// Paths of the slides, in order.
fn slides(archive: &mut Archive<'_>) -> Result<Vec<String>, Unreadable> {
    let main = main_part(archive, "ppt/presentation.xml")?;
    let text = crate::markup::written(&archive.need(&main)?);
    let mut known = relations(archive, &main)?;
    // The list of slides can name the same file any number of times.
    let mut seen = HashSet::new();
    let of_id = |id: &String| known.remove(id).filter(|relation| relation.kind == "slide");
    let slides =
        slide_ids(&text)?.iter().filter_map(of_id).map(|relation| relation.target).collect::<Vec<_>>();
    Ok(slides.into_iter().filter(|slide| seen.insert(slide.clone())).collect())
}

/// Ids of the slides, in order.
fn slide_ids(text: &str) -> Result<Vec<String>, Unreadable> {
    let mut ids = Vec::new();
    let mut xml = Xml::new(text);
    while let Some(node) = xml.next()? {
        if let XmlNode::Open(tag) = node
            && tag.name() == "sldId"
            && let Some(id) = tag.prefixed("r:id")
            && ids.len() < SLIDES_MAX
        {
            ids.push(id);
        }
    }
    Ok(ids)
}

fn read_slide(archive: &mut Archive<'_>, path: &str, parts: &mut PartCollector) -> Result<(), Unreadable> {
    let text = crate::markup::written(&archive.need(path)?);
    let known = relations(archive, path)?;
    let charts = slide::read(&text, &known, parts)?;
    for id in charts {
        let Some(relation) = known.get(&id) else { continue };
        if let Some(text) = office::xml(archive, &relation.target)? {
            match relation.kind.as_str() {
                "diagramData" => diagram::read(&text, parts)?,
                _ => chart::read(&text, parts)?,
            }
        }
    }
    if let Some(notes) = office::of_kind(&known, "notesSlide").first()
        && let Some(text) = office::xml(archive, notes)?
    {
        slide::read_notes(&text, parts)?;
    }
    // The same part may be named more than once.
    let mut comments = office::of_kind(&known, "comments");
    comments.dedup();
    for comments in comments {
        if let Some(text) = office::xml(archive, &comments)? {
            read_comments(&text, parts)?;
        }
    }
    Ok(())
}

/// Adds the comments on a slide. Older and newer versions of PowerPoint write them differently; in newer files the
/// replies precede the comment that they answer.
fn read_comments(text: &str, parts: &mut PartCollector) -> Result<(), Unreadable> {
    let mut xml = Xml::new(text);
    let (mut said, mut is_text, mut answers) = (String::new(), false, Vec::new());
    while let Some(node) = xml.next()? {
        match node {
            XmlNode::Open(tag) => is_text = matches!(tag.name(), "text" | "t"),
            XmlNode::Text(text) if is_text => said.push_str(&text),
            XmlNode::Text(_) => {}
            XmlNode::Close(name) => {
                is_text = false;
                if name == "p" {
                    said.push(' ');
                }
                match name.as_str() {
                    "reply" => answers.push(std::mem::take(&mut said)),
                    "cm" => {
                        let all = std::iter::once(std::mem::take(&mut said)).chain(answers.drain(..));
                        for said in all.filter(|said| !said.trim().is_empty()) {
                            parts.paragraph(&format!("Comment: {}", said.trim()));
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    Ok(())
}
