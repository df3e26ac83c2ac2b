//! Texts that PowerPoint 97 stores apart from the slides: outlines and speaker notes.
//!
//! The text of a slide is in its shapes or in the outline of the document. The library omits the outline of a slide
//! that also has text in some other shape, and it omits all notes.

use std::collections::HashMap;
use std::io::{Cursor, Read as _};

use cfb::CompoundFile;

/// Stream of the presentation; a file that PowerPoint 95 can read as well has it in a folder.
const STREAMS: [&str; 2] = ["/PP97_DUALSTORAGE/PowerPoint Document", "/PowerPoint Document"];
/// Maximum number of bytes that are read from the stream.
const STREAM_BYTES_MAX: u64 = 64 << 20;
/// Maximum nesting depth of records.
const DEPTH_MAX: u8 = 16;
/// Header of a text that is a note.
const NOTE: [u8; 4] = [2, 0, 0, 0];

/// Types of records.
pub(super) mod kind {
    pub(in super::super) const GROUP: u16 = 0xf003;
    pub(in super::super) const SHAPE: u16 = 0xf004;
    pub(in super::super) const SHAPE_KIND: u16 = 0xf00a;
    pub(in super::super) const TEXT_BOX: u16 = 0xf00d;
    pub(in super::super) const PLACE_IN_GROUP: u16 = 0xf00f;
    pub(in super::super) const MORE_PROPERTIES: u16 = 0xf122;
    pub(super) const DOCUMENT: u16 = 1000;
    pub(super) const NOTES: u16 = 1008;
    pub(super) const NOTES_OF: u16 = 1009;
    pub(super) const SLIDE: u16 = 1011;
    pub(super) const TEXT_KIND: u16 = 3999;
    pub(super) const WIDE_TEXT: u16 = 4000;
    pub(super) const NARROW_TEXT: u16 = 4008;
    pub(super) const LIST: u16 = 4080;
}

/// Texts of one slide, split into paragraphs.
#[derive(Debug, Default, PartialEq)]
pub(super) struct SlideTexts {
    /// Text of its placeholders, as far as it is stored in the outline.
    pub outline: Vec<String>,
    /// The speaker notes.
    pub notes: Vec<String>,
}

/// A record: a header of eight bytes and its contents.
#[derive(Clone, Copy)]
pub(super) struct SlideRecord<'a> {
    pub kind: u16,
    pub instance: u16,
    pub is_container: bool,
    pub body: &'a [u8],
}

impl SlideRecord<'_> {
    /// Text of the record, if it is a text record.
    pub(super) fn text(&self) -> Option<String> {
        match self.kind {
            kind::WIDE_TEXT => {
                Some(encoding_rs::UTF_16LE.decode_without_bom_handling(self.body).0.into_owned())
            }
            // The lower bytes of UTF-16 (`TextBytesAtom` in [MS-PPT]).
            kind::NARROW_TEXT => Some(self.body.iter().copied().map(char::from).collect()),
            _ => None,
        }
    }

    /// Number at an offset in the contents.
    fn number(&self, at: usize) -> Option<u32> {
        let (four, _) = self.body.get(at..)?.split_first_chunk::<4>()?;
        Some(u32::from_le_bytes(*four))
    }
}

/// Texts of the slides, in order; empty if the file has none or is broken.
pub(super) fn of(stream: &[u8]) -> Vec<SlideTexts> {
    let mut notes = notes(stream);
    let mut slides: Vec<SlideTexts> = Vec::new();
    // When a file is saved again, the new version is appended, so the last one is current.
    let document = records(stream).filter(|one| one.kind == kind::DOCUMENT).last();
    let list = document
        .and_then(|document| records(document.body).find(|one| one.kind == kind::LIST && one.instance == 0));
    for record in list.into_iter().flat_map(|list| records(list.body)) {
        if record.kind == kind::SLIDE {
            let notes = record.number(12).and_then(|id| notes.remove(&id)).unwrap_or_default();
            slides.push(SlideTexts { outline: Vec::new(), notes });
        } else if let (Some(slide), Some(text)) = (slides.last_mut(), record.text()) {
            slide.outline.extend(paragraphs(&text));
        }
    }
    slides
}

/// Reads the stream of the presentation.
pub(super) fn stream(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut file = CompoundFile::open(Cursor::new(bytes)).ok()?;
    let path = STREAMS.into_iter().find(|path| file.is_stream(path))?;
    let mut stream = Vec::new();
    file.open_stream(path).ok()?.take(STREAM_BYTES_MAX).read_to_end(&mut stream).ok()?;
    Some(stream)
}

/// The consecutive records in some bytes.
pub(super) fn records(mut bytes: &[u8]) -> impl Iterator<Item = SlideRecord<'_>> {
    std::iter::from_fn(move || {
        let (head, rest) = bytes.split_first_chunk::<8>()?;
        let [first, second, low, high, size @ ..] = *head;
        let size = usize::try_from(u32::from_le_bytes(size)).ok()?;
        // A record that claims more than there is ends with the data.
        let (body, rest) = rest.split_at_checked(size).unwrap_or((rest, &[]));
        bytes = rest;
        let version = u16::from_le_bytes([first, second]);
        Some(SlideRecord {
            kind: u16::from_le_bytes([low, high]),
            instance: version >> 4,
            // Version 15 marks a container ([MS-PPT], `RecordHeader`).
            is_container: version & 0xf == 0xf,
            body,
        })
    })
}

/// The notes, by the number of their slide.
fn notes(stream: &[u8]) -> HashMap<u32, Vec<String>> {
    let mut notes = HashMap::new();
    for record in records(stream).filter(|one| one.kind == kind::NOTES) {
        let slide = records(record.body).find(|one| one.kind == kind::NOTES_OF);
        if let Some(slide) = slide.and_then(|one| one.number(0)) {
            let mut texts = Vec::new();
            noted(record.body, 0, &mut texts);
            notes.insert(slide, texts);
        }
    }
    notes
}

/// Collects the notes from records and the records nested in them; headers and page numbers are not notes.
fn noted(bytes: &[u8], depth: u8, texts: &mut Vec<String>) {
    let mut is_note = false;
    for record in records(bytes) {
        if record.kind == kind::TEXT_KIND {
            is_note = record.body == NOTE;
        } else if let Some(text) = record.text().filter(|_| is_note) {
            texts.extend(paragraphs(&text));
        } else if record.is_container && depth < DEPTH_MAX {
            noted(record.body, depth + 1, texts);
        }
    }
}

/// The paragraphs of a text; line breaks within a paragraph become `\n`.
pub(super) fn paragraphs(text: &str) -> impl Iterator<Item = String> {
    let all = text.split(['\r', '\n']).filter(|one| !one.trim().is_empty());
    all.map(|one| one.replace('\u{b}', "\n"))
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use super::{SlideTexts, of, stream};

    fn record(version: u16, kind: u16, body: &[u8]) -> Vec<u8> {
        let size = u32::try_from(body.len()).unwrap();
        [&version.to_le_bytes()[..], &kind.to_le_bytes(), &size.to_le_bytes(), body].concat()
    }

    #[test]
    fn slides_have_outlines_and_notes() {
        let slide = |id: u8| record(0, 1011, &[&[0; 12][..], &[id, 1, 0, 0], &[0; 4]].concat());
        let wide: Vec<u8> = "Zweite – Folie".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let title = record(0, 3999, &[0; 4]);
        let list =
            [slide(1), title, record(0, 4008, b"first\rsecond\x0bline\r"), slide(2), record(0, 4000, &wide)];
        let old = record(0xf, 1000, &record(0xf, 4080, &[slide(1), record(0, 4008, b"old")].concat()));
        let document = record(0xf, 1000, &record(0xf, 4080, &list.concat()));
        let note = [record(0, 3999, &[2, 0, 0, 0]), record(0, 4008, b"Say hello")].concat();
        let number = [record(0, 3999, &[4, 0, 0, 0]), record(0, 4008, b"*")].concat();
        let page = [record(0, 1009, &[2, 1, 0, 0]), record(0xf, 1036, &[note, number].concat())].concat();
        let whole = [old, document, record(0xf, 1008, &page), vec![1, 2, 3]].concat();
        let mut file = cfb::CompoundFile::create(Cursor::new(Vec::new())).unwrap();
        file.create_stream("/PowerPoint Document").unwrap().write_all(&whole).unwrap();
        let first = SlideTexts { outline: vec!["first".into(), "second\nline".into()], notes: Vec::new() };
        let second = SlideTexts { outline: vec!["Zweite – Folie".into()], notes: vec!["Say hello".into()] };
        let file = file.into_inner().into_inner();
        assert_eq!(of(&stream(&file).unwrap()), [first, second]);
        assert!(stream(b"no such file").is_none() && of(b"no such file").is_empty());
    }
}
