//! PDF: reassembles lines of text into paragraphs, headings and tables.
//!
//! A PDF contains only glyphs and their positions. What belongs together is inferred from the positions ([`layout`]),
//! headings from the outline of the document or the size of the type, and anything at the same place on most pages is
//! not part of the text.

mod codecs;
mod extractor;
mod fields;
mod frame;
mod layout;
mod leftward;
mod line;
mod masks;
mod order;
mod outline;
mod packed;
mod page;
mod page_tree;
mod paged_table;
mod pieces;
mod placed;
mod repeated;
mod revision_5;
mod ruled_table;
mod rules;
mod scanned;
mod spaced_table;
mod tex_fonts;

use pdf_oxide::PdfDocument;
use pdf_oxide::object::Object;
use weft_core::seam::document_reader::{FoundPictures, PAGE_RANGES_MAX};
use weft_core::value::Json;

use super::{DocumentSettings, FileContents, FileFormat, FileInput, ReadResult};
use crate::parts::PartCollector;
use crate::unreadable::Unreadable;
use line::PageBlock;
use page::PdfPage;

pub(super) use scanned::read_lines;

/// Portable documents.
pub(super) const FORMAT: FileFormat = FileFormat {
    name: "PDF",
    endings: &["pdf"],
    is_binary: true,
    looks: |contents: &FileContents<'_>| {
        // Other bytes may precede the signature; PDF readers search for it in the first 1,024 bytes.
        let start = &contents.bytes[..contents.bytes.len().min(1_024)];
        start.windows(5).any(|bytes| bytes == b"%PDF-")
    },
    read,
};

/// Maximum number of pages that are read in one document.
const PAGES_MAX: usize = 10_000;
/// Number of bytes at the end of a file in which PDF readers search for the end marker.
const END_BYTES: usize = 1_024;
/// The reason for a file without an end marker in which nothing is found.
const CUT_OFF: &str = "the PDF is damaged or incomplete: its end is missing; download or copy it again";

/// Opens a document and counts its pages.
fn open(bytes: &[u8]) -> Result<(PdfDocument, usize), Unreadable> {
    let document = PdfDocument::from_bytes(bytes.to_vec())
        .map_err(|cause| Unreadable::because("the PDF is damaged", cause))?;
    let document = unlocked(document, bytes)?;
    page_tree::check(&document)?;
    let count = document.page_count().map_err(|cause| Unreadable::because("the PDF is damaged", cause))?;
    if count == 0 {
        return Err(Unreadable::new(if is_cut_off(bytes) { CUT_OFF } else { "the PDF has no pages" }));
    }
    Ok((document, count))
}

/// Returns whether the end marker is missing, as in a file whose transfer was interrupted.
fn is_cut_off(bytes: &[u8]) -> bool {
    let end = &bytes[bytes.len().saturating_sub(END_BYTES)..];
    !end.windows(5).any(|five| five == b"%%EOF")
}

/// Returns a document that is not encrypted, or that is encrypted with the empty password, which means that anyone may
/// read it.
fn unlocked(document: PdfDocument, bytes: &[u8]) -> Result<PdfDocument, Unreadable> {
    if !document.is_encrypted() {
        return Ok(document);
    }
    match document.authenticate(b"") {
        Ok(true) => {}
        Ok(false) => return Err(Unreadable::new("it is locked with a password; save it without one")),
        Err(_) => {
            let reason =
                "its encryption is not supported (such as by certificate); save it without encryption";
            return Err(Unreadable::new(reason));
        }
    }
    let again = revision_5::as_revision_6(&document, bytes);
    Ok(again.and_then(|bytes| PdfDocument::from_bytes(bytes).ok()).unwrap_or(document))
}

/// Extracts the pictures of the selected pages.
pub(super) fn pictures(file: &FileInput<'_>) -> Result<FoundPictures, Unreadable> {
    let (document, count) = open(file.bytes)?;
    let wanted = wanted(file.settings);
    let numbers = (1..=count.min(PAGES_MAX)).filter(|number| is_wanted(&wanted, *number));
    Ok(scanned::pictures(&document, numbers))
}

fn read(file: &FileInput<'_>) -> ReadResult {
    let (document, count) = open(file.bytes)?;
    let mut parts = PartCollector::default();
    properties(&document, &mut parts);
    let (mut pages, unread) = pages(&document, count, file.settings, &mut parts);
    scanned::fill(&mut pages, file.readings);
    if pages.iter().all(|page| page.is_empty() && page.fields.is_empty()) {
        return Err(Unreadable::new(match unread.first() {
            Some((_, reason)) => format!("no page of the PDF can be read ({reason})"),
            // The contents of its pages were in the missing part. A picture that was found can still be read by OCR.
            None if is_cut_off(file.bytes) && !pages.iter().any(|page| page.has_pictures) => {
                CUT_OFF.to_owned()
            }
            None if !wanted(file.settings).is_empty() => {
                "the selected pages do not exist or have no text".to_owned()
            }
            None if !file.readings.is_empty() => "no text was found in the pictures of its pages".to_owned(),
            // With a wrong key its pages appear empty.
            None if document.is_encrypted() => {
                "its encryption is not supported, or it has no text layer; save it without a password"
                    .to_owned()
            }
            None => "it has no text layer, like a scan; OCR is needed to read it (setting `documents.ocr`)"
                .to_owned(),
        }));
    }
    warn(&pages, &unread, &mut parts);
    for page in &mut pages {
        page.blocks.extend(std::mem::take(&mut page.fields).into_iter().map(PageBlock::Line));
    }
    let pages = repeated::without(pages);
    let outline = outline::read(&document);
    layout::add(&pages, &outline, &mut parts);
    parts.pages(u32::try_from(count).unwrap_or(u32::MAX));
    let mut parsed = parts.finish();
    // After the layout, because figures go between the elements that it finds.
    scanned::place(&mut parsed.elements, file.readings);
    Ok(parsed)
}

/// Reads the selected pages, and reports why others could not be read.
fn pages(
    document: &PdfDocument,
    count: usize,
    settings: &DocumentSettings,
    parts: &mut PartCollector,
) -> (Vec<PdfPage>, Vec<(usize, String)>) {
    let wanted = wanted(settings);
    if count > PAGES_MAX {
        parts.warn(format!("the PDF has {count} pages: only the first {PAGES_MAX} were read"));
    }
    let (mut pages, mut unread) = (Vec::new(), Vec::new());
    for number in 1..=count.min(PAGES_MAX) {
        if !is_wanted(&wanted, number) {
            continue;
        }
        match PdfPage::read(document, number) {
            Ok(page) => pages.push(page),
            Err(reason) => unread.push((number, reason)),
        }
    }
    (pages, unread)
}

/// The setting `pages`: pairs of a first and a last page. An empty list selects all pages.
fn wanted(settings: &DocumentSettings) -> Vec<(usize, usize)> {
    let number = |value: &Json| value.as_u64().and_then(|number| usize::try_from(number).ok());
    let ranges = settings.get("pages").and_then(Json::as_array);
    let pair = |range: &Json| Some((number(range.get(0)?)?, number(range.get(1)?)?));
    // The chunking rejects more ranges; here they must not slow down the check of every page before that happens.
    ranges.into_iter().flatten().filter_map(pair).take(PAGE_RANGES_MAX).collect()
}

fn is_wanted(wanted: &[(usize, usize)], number: usize) -> bool {
    wanted.is_empty() || wanted.iter().any(|(first, last)| (*first..=*last).contains(&number))
}

fn warn(pages: &[PdfPage], unread: &[(usize, String)], parts: &mut PartCollector) {
    let empty: Vec<String> = pages
        .iter()
        .filter(|page| page.is_empty() && page.has_pictures)
        .map(|page| page.number.to_string())
        .collect();
    if !empty.is_empty() {
        parts.warn(format!(
            "no text layer on the pages {}; OCR is needed to read them (setting `documents.ocr`)",
            empty.join(", ")
        ));
    }
    for (number, reason) in unread {
        parts.warn(format!("page {number} cannot be read ({reason})"));
    }
}

/// Adds title, author and date from the document information.
fn properties(document: &PdfDocument, parts: &mut PartCollector) {
    let info = document.trailer().as_dict().and_then(|trailer| trailer.get("Info")).cloned();
    let Some(info) = info.and_then(|info| document.resolve_object(&info).ok()) else { return };
    let Some(info) = info.as_dict() else { return };
    let text = |key: &str| match info.get(key).and_then(|value| document.resolve_object(value).ok()) {
        Some(Object::String(bytes)) => outline::text_string(&bytes),
        _ => String::new(),
    };
    parts.say("title", &text("Title"));
    parts.say("author", &text("Author"));
    let date = [text("ModDate"), text("CreationDate")].into_iter().find_map(|date| iso(&date));
    parts.say("date", &date.unwrap_or_default());
}

/// Converts a date such as `D:20240131123456+01'00'`.
fn iso(date: &str) -> Option<String> {
    let digits: String = date.trim_start_matches("D:").chars().take_while(char::is_ascii_digit).collect();
    let part = |from: usize, to: usize| digits.get(from..to);
    let day = format!("{}-{}-{}", part(0, 4)?, part(4, 6).unwrap_or("01"), part(6, 8).unwrap_or("01"));
    Some(match (part(8, 10), part(10, 12), part(12, 14)) {
        (Some(hour), Some(minute), second) => format!("{day}T{hour}:{minute}:{}", second.unwrap_or("00")),
        _ => day,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_parsed() {
        assert_eq!(iso("D:20240131123456+01'00'").as_deref(), Some("2024-01-31T12:34:56"));
        assert_eq!(iso("D:2024").as_deref(), Some("2024-01-01"));
        assert_eq!(iso("yesterday"), None);
    }
}
