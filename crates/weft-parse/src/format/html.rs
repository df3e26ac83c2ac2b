//! HTML: what a reader of the page sees, preferring the main part of the page.

mod data_uri;
mod dom;
mod formula;
mod walk;

use std::collections::HashSet;

use dom::{Dom, DomNodeKind, Id};
use weft_core::seam::document_reader::{FoundPicture, FoundPictures};

use super::{FileContents, FileFormat, FileInput, ReadResult};
use crate::parts::PartCollector;
use crate::pictures::{Pictures, of_file, whereabouts};
use crate::words::{beginning, decode_as};

/// Web pages.
pub(super) const FORMAT: FileFormat = FileFormat {
    name: "HTML",
    endings: &["html", "htm", "xhtml", "shtml"],
    is_binary: false,
    looks: |contents: &FileContents<'_>| is_html(&contents.text()),
    read,
};

/// Number of characters at the beginning of a file that determine its format and encoding.
const LOOKED_AT: usize = 2_000;

fn is_html(text: &str) -> bool {
    let start = beginning(text.trim_start(), LOOKED_AT).to_ascii_lowercase();
    // XHTML begins with an XML declaration, possibly followed by comments.
    let start =
        start.strip_prefix("<?xml").and_then(|rest| rest.split_once("?>")).map_or(&*start, |rest| rest.1);
    let mut start = start.trim_start();
    while let Some((_, rest)) = start.strip_prefix("<!--").and_then(|rest| rest.split_once("-->")) {
        start = rest.trim_start();
    }
    ["<!doctype html", "<html", "<head", "<body", "<table", "<div", "<p>", "<h1"]
        .iter()
        .any(|tag| start.starts_with(tag))
}

fn read(file: &FileInput<'_>) -> ReadResult {
    let mut parts = PartCollector::with_pictures(file.readings);
    page(&written(file.bytes), &mut parts);
    Ok(parts.finish())
}

/// Decodes a page with the encoding that it declares.
pub(super) fn written(bytes: &[u8]) -> String {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(LOOKED_AT)]).to_ascii_lowercase();
    let label = start.split_once("charset=").map(|(_, rest)| {
        let rest = rest.trim_start_matches(['"', '\'', ' ']);
        rest.split(|c: char| !c.is_ascii_alphanumeric() && !"-_:".contains(c))
            .next()
            .unwrap_or_default()
            .to_owned()
    });
    match label {
        Some(label) => decode_as(bytes, Some(&label)),
        // XHTML may name its encoding in the XML declaration only.
        None => crate::markup::written(bytes),
    }
}

/// Adds a whole page: its metadata and its main part.
pub(super) fn page(text: &str, parts: &mut PartCollector) {
    let dom = parsed(text, parts);
    for id in dom.below(Dom::ROOT) {
        match dom.name(id) {
            "title" => parts.say("title", &dom.text(id)),
            "meta" => {
                let name = dom.attribute(id, "name").or(dom.attribute(id, "property")).unwrap_or_default();
                let content = dom.attribute(id, "content").unwrap_or_default();
                match name.to_ascii_lowercase().as_str() {
                    "author" | "article:author" | "dc.creator" => parts.say("author", content),
                    "date" | "article:published_time" | "dc.date" => parts.say("date", content),
                    _ => {}
                }
            }
            // The metadata is in the head; drawings in the body can have titles, too.
            "body" => break,
            _ => {}
        }
    }
    walk::walk(&dom, main_part(&dom), parts);
}

/// Adds a fragment of HTML, such as the body of a mail.
pub(super) fn fragment(text: &str, parts: &mut PartCollector) {
    let dom = parsed(text, parts);
    walk::walk(&dom, Dom::ROOT, parts);
}

/// Extracts the visible pictures that a page embeds as data URIs.
pub(super) fn pictures(bytes: &[u8]) -> FoundPictures {
    let mut found = Pictures::default();
    let dom = Dom::parse(&written(bytes));
    pictures_below(&dom, main_part(&dom), &mut found);
    found.finish()
}

/// Extracts the embedded pictures of an HTML fragment.
pub(super) fn pictures_of_fragment(text: &str, found: &mut Pictures) {
    pictures_below(&Dom::parse(text), Dom::ROOT, found);
}

fn pictures_below(dom: &Dom, root: Id, found: &mut Pictures) {
    let mut seen = HashSet::new();
    let mut open = vec![root];
    while let Some(id) = open.pop() {
        if walk::is_passed_over(dom, id) {
            continue;
        }
        open.extend(dom.children(id).iter().rev());
        let Some(source) = dom.attribute(id, "src").filter(|_| dom.name(id) == "img") else { continue };
        let Some(part) = data_uri::part(source) else { continue };
        // One picture may be shown in several places.
        if found.is_full() || !seen.insert(part.clone()) {
            continue;
        }
        let Some(bytes) = data_uri::decoded(source) else {
            found.warn(format!("the {part} is damaged or too large and was not read"));
            continue;
        };
        match of_file(&bytes) {
            Some(mut picture) if found.takes(picture.width, picture.height, &whereabouts(0, &part)) => {
                picture.bytes = bytes.into();
                found.push(FoundPicture { part, is_figure: true, picture, ..FoundPicture::default() });
            }
            Some(_) => {}
            // SVG drawings contain their text, and most of them are icons.
            None if source.get(..14).is_some_and(|start| start.eq_ignore_ascii_case("data:image/svg")) => {}
            None => found.warn(format!("the {part} is of an unsupported type")),
        }
    }
}

/// Adds a chapter of a book. The paths of its pictures are relative to `path`, the path of the chapter itself.
pub(super) fn chapter(text: &str, path: &str, parts: &mut PartCollector) {
    let dom = parsed(text, parts);
    walk::walk_chapter(&dom, path, parts);
}

fn parsed(text: &str, parts: &mut PartCollector) -> Dom {
    let dom = Dom::parse(text);
    if dom.is_cut {
        parts.warn("the page is nested too deeply or too large: its rest was left out");
    } else if dom.is_divided {
        parts.warn(
            "the page is nested too deeply: from there on only its text and the innermost elements are read",
        );
    }
    dom
}

/// Finds the element that the page marks as its main part, unless it is nearly empty.
fn main_part(dom: &Dom) -> Id {
    // Contents of the main element may be in another part.
    if dom.is_divided {
        return Dom::ROOT;
    }
    let is_main = |id: &Id| dom.name(*id) == "main" || dom.attribute(*id, "role") == Some("main");
    let candidates = [
        dom.below(Dom::ROOT).find(is_main),
        // Several articles are a list, and each of them is only a part of the page.
        only(dom.below(Dom::ROOT).filter(|id| dom.name(*id) == "article")),
    ];
    let whole = visible_length(dom, Dom::ROOT);
    candidates.into_iter().flatten().find(|id| visible_length(dom, *id) * 4 >= whole).unwrap_or(Dom::ROOT)
}

fn only(mut ids: impl Iterator<Item = Id>) -> Option<Id> {
    ids.next().filter(|_| ids.next().is_none())
}

fn visible_length(dom: &Dom, id: Id) -> usize {
    let mut open = vec![id];
    let mut length = 0;
    while let Some(id) = open.pop() {
        if let DomNodeKind::Text(text) = dom.kind(id) {
            length += text.trim().len();
        }
        if !walk::is_passed_over(dom, id) {
            open.extend(dom.children(id));
        }
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoding_may_be_in_the_xml_declaration() {
        let page = b"<?xml version='1.0' encoding='macintosh'?><html><body><p>caf\x8e</p></body></html>";
        assert!(written(page).contains("<p>caf\u{e9}</p>"));
        assert_eq!(written(b"<meta charset=macintosh>caf\x8e"), "<meta charset=macintosh>caf\u{e9}");
    }
}
