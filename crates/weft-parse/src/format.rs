//! The supported file formats: one module and one line in [`ALL`] for each.

mod chart;
mod code;
mod delimited;
mod diagram;
mod docx;
mod epub;
mod html;
mod json;
mod mail;
mod markdown;
mod math;
mod notebook;
mod numeral;
mod office;
mod office97;
mod opendocument;
mod outlook;
mod pdf;
mod picture;
mod pptx;
mod rtf;
mod spreadsheet;
mod text;
mod xml;

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use weft_core::seam::document_reader::{FoundPictures, PictureReading};
use weft_core::value::Json;
use weft_core::{Error, Result};

use crate::archive::ArchiveKind;
use crate::element::Parsed;
use crate::parts::CellText;
use crate::unreadable::Unreadable;
use crate::words::{decode, is_text};

/// Settings for reading and chunking a document, with the names of the compatible API.
pub type DocumentSettings = serde_json::Map<String, Json>;

/// Every supported format, the more specific ones first.
static ALL: &[&FileFormat] = &[
    &pdf::FORMAT,
    &picture::FORMAT,
    &docx::FORMAT,
    &pptx::FORMAT,
    &spreadsheet::FORMAT,
    &office97::WORD,
    &rtf::FORMAT,
    &office97::POWERPOINT,
    &opendocument::FORMAT,
    &epub::FORMAT,
    &outlook::FORMAT,
    &html::FORMAT,
    &opendocument::FLAT,
    &xml::FORMAT,
    &notebook::FORMAT,
    &json::FORMAT,
    &mail::FORMAT,
    &markdown::FORMAT,
    &delimited::FORMAT,
    &code::FORMAT,
    &text::FORMAT,
];

/// Number of bytes that are examined as text to detect the format.
const LOOKED_AT: usize = 64 << 10;
/// Maximum nesting depth of files within files.
const DEPTH_MAX: u8 = 3;

/// A file format.
pub(crate) struct FileFormat {
    /// Name for messages.
    pub name: &'static str,
    /// File name extensions, in lower case.
    pub endings: &'static [&'static str],
    /// Whether [`FileFormat::looks`] identifies it by its bytes alone, whatever the file name.
    pub is_binary: bool,
    /// Whether the contents are in this format.
    pub looks: fn(&FileContents<'_>) -> bool,
    /// Reads a file of this format.
    pub read: fn(&FileInput<'_>) -> ReadResult,
}

/// What is known about a file before it is parsed.
pub(crate) struct FileContents<'a> {
    /// Bytes of the file.
    pub bytes: &'a [u8],
    /// The kind of archive, if the file is one.
    pub container: Option<ArchiveKind>,
}

impl<'a> FileContents<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, container: ArchiveKind::of(bytes) }
    }

    /// The beginning of the file as text.
    pub(crate) fn text(&self) -> Cow<'a, str> {
        let start = &self.bytes[..self.bytes.len().min(LOOKED_AT)];
        Cow::Owned(decode(start))
    }
}

/// A file to read, and the context it is read in.
pub(crate) struct FileInput<'a> {
    /// Name of the file.
    pub name: &'a str,
    /// Bytes of the file.
    pub bytes: &'a [u8],
    /// Settings to read it with.
    pub settings: &'a DocumentSettings,
    /// Texts that a picture reader has found in the pictures of the file.
    pub readings: &'a [PictureReading],
    /// Number of files that it is nested in.
    pub depth: u8,
    /// How the text of its table cells is stored.
    pub cells: CellText,
}

/// The outcome of reading a file.
pub(crate) type ReadResult = std::result::Result<Parsed, Unreadable>;

/// Detects the format of a file and parses it.
///
/// The format follows from the contents where they are unambiguous, otherwise from the extension of the name, and
/// otherwise from what the text looks like.
///
/// # Errors
/// `Invalid` with a human-readable reason, for an unknown format or a file that is broken, contains no text, or is too
/// large.
pub fn parse(name: &str, bytes: &[u8], settings: &DocumentSettings) -> Result<Parsed> {
    parse_with(name, bytes, settings, &[])
}

/// Like [`parse`], for a file some of whose pictures have been read already.
///
/// # Errors
/// As [`parse`].
pub(crate) fn parse_with(
    name: &str,
    bytes: &[u8],
    settings: &DocumentSettings,
    readings: &[PictureReading],
) -> Result<Parsed> {
    let file = FileInput { name, bytes, settings, readings, depth: 0, cells: CellText::OneLine };
    file.read().map_err(|reason| unreadable(name, reason))
}

/// Like [`parse`], for callers that need the exact values in the tables.
///
/// # Errors
/// As [`parse`].
pub(crate) fn parse_tables(name: &str, bytes: &[u8]) -> Result<Parsed> {
    let settings = DocumentSettings::new();
    let file =
        FileInput { name, bytes, settings: &settings, readings: &[], depth: 0, cells: CellText::Lines };
    file.read().map_err(|reason| unreadable(name, reason))
}

/// Extracts the pictures that have to be read to get the whole text of a file.
///
/// # Errors
/// `Invalid` for a broken file.
pub(crate) fn pictures(name: &str, bytes: &[u8], settings: &DocumentSettings) -> Result<FoundPictures> {
    let file = FileInput { name, bytes, settings, readings: &[], depth: 0, cells: CellText::OneLine };
    file.pictures().map_err(|reason| unreadable(name, reason))
}

fn unreadable(name: &str, Unreadable(reason): Unreadable) -> Error {
    Error::invalid(format!("cannot read `{name}`: {reason}"))
}

impl<'a> FileInput<'a> {
    /// Describes a file nested in this one.
    pub(crate) fn inner<'b>(
        &self,
        name: &'b str,
        bytes: &'b [u8],
        readings: &'b [PictureReading],
    ) -> FileInput<'b>
    where
        'a: 'b,
    {
        let depth = self.depth.saturating_add(1);
        FileInput { name, bytes, settings: self.settings, readings, depth, cells: self.cells }
    }

    /// Extracts the pictures that have to be read to get the whole text of the file.
    pub(crate) fn pictures(&self) -> std::result::Result<FoundPictures, Unreadable> {
        // Excessive nesting is reported when the file is read.
        if self.depth > DEPTH_MAX {
            return Ok(FoundPictures::default());
        }
        let contents = FileContents::of(self.bytes);
        if (pdf::FORMAT.looks)(&contents) && !is_about_pdfs(self.name, self.bytes) {
            return pdf::pictures(self);
        }
        let parts = match contents.container {
            Some(ArchiveKind::Docx) => docx::picture_parts(self.bytes)?,
            Some(ArchiveKind::Pptx) => pptx::picture_parts(self.bytes)?,
            Some(ArchiveKind::Epub) => epub::picture_parts(self.bytes)?,
            Some(ArchiveKind::OpenDocument) => opendocument::picture_parts(self.bytes)?,
            Some(ArchiveKind::Outlook) => return outlook::pictures(self),
            _ if crate::pictures::of_file(self.bytes).is_some() => return Ok(picture::pictures(self.bytes)),
            _ => return self.pictures_of_text(),
        };
        crate::pictures::in_archive(self.bytes, parts)
    }

    /// The same for a text file.
    fn pictures_of_text(&self) -> std::result::Result<FoundPictures, Unreadable> {
        // An unreadable file is reported when it is read.
        match choose(self.name, self.bytes) {
            Ok(format) if format.name == html::FORMAT.name => Ok(html::pictures(self.bytes)),
            Ok(format) if format.name == mail::FORMAT.name => mail::pictures(self),
            _ => Ok(FoundPictures::default()),
        }
    }

    /// Reads the file in the format that it is detected to have.
    pub(crate) fn read(&self) -> ReadResult {
        if self.depth > DEPTH_MAX {
            return Err(Unreadable::new("it is nested too deeply in other files"));
        }
        if self.bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(Unreadable::new("it is empty"));
        }
        let format = choose(self.name, self.bytes)?;
        // A panic in a library is handled like any other error, so a mail remains readable when one of its attachments
        // causes it.
        let parsed = catch_unwind(AssertUnwindSafe(|| (format.read)(self)))
            .unwrap_or_else(|_| Err(Unreadable::new("the library for files of this kind failed on it")))?;
        let has_text = parsed
            .elements
            .iter()
            .any(|element| !matches!(element.body, crate::element::ElementBody::Break { .. }));
        if has_text { Ok(parsed) } else { Err(Unreadable::new("there is no text in it")) }
    }

    /// Extension of the file name, in lower case.
    pub(crate) fn ending(&self) -> String {
        ending(self.name)
    }
}

fn ending(name: &str) -> String {
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    name.rsplit_once('.').map(|(_, ending)| ending.to_lowercase()).unwrap_or_default()
}

/// Whether a name has an extension of a supported format.
pub(crate) fn is_known(name: &str) -> bool {
    let ending = ending(name);
    ALL.iter().any(|format| format.endings.contains(&ending.as_str()))
}

fn choose(name: &str, bytes: &[u8]) -> std::result::Result<&'static FileFormat, Unreadable> {
    let contents = FileContents::of(bytes);
    let told = ALL.iter().find(|format| format.is_binary && (format.looks)(&contents));
    if let Some(format) = told.filter(|told| told.name != pdf::FORMAT.name || !is_about_pdfs(name, bytes)) {
        return Ok(format);
    }
    // Before the name decides about text files, because PostScript is text as well.
    if let Some(reason) = not_read(&contents) {
        return Err(Unreadable::new(reason));
    }
    let ending = ending(name);
    let named = ALL.iter().find(|format| format.endings.contains(&ending.as_str()));
    if !is_text(bytes) {
        return Err(Unreadable::new(match named {
            Some(format) if format.is_binary => not_such(format),
            Some(_) => "it is not text".to_owned(),
            None => format!("this kind of file is not known; known are {}", names()),
        }));
    }
    match named {
        Some(format) if format.is_binary => return in_place_of(format, &contents),
        Some(format) => return Ok(format),
        None => {}
    }
    let looks = ALL.iter().find(|format| !format.is_binary && (format.looks)(&contents));
    Ok(looks.unwrap_or(&&text::FORMAT))
}

/// Whether this is a text file, by its name and bytes, that merely quotes the start of a PDF. The check is needed
/// because a PDF, too, may have other bytes before its header.
fn is_about_pdfs(name: &str, bytes: &[u8]) -> bool {
    let ending = ending(name);
    let named = ALL.iter().find(|format| format.endings.contains(&ending.as_str()));
    named.is_some_and(|format| !format.is_binary) && !bytes.starts_with(b"%PDF-") && is_text(bytes)
}

/// Format of a text file whose extension is that of a binary format: some programs export web pages and tables this
/// way. Any other text is the remains of a broken file or a saved error page, and not a document.
fn in_place_of(
    named: &FileFormat,
    contents: &FileContents<'_>,
) -> std::result::Result<&'static FileFormat, Unreadable> {
    let exported = [&html::FORMAT, &xml::FORMAT, &mail::FORMAT].into_iter().find(|one| (one.looks)(contents));
    let is_table = named.name == spreadsheet::FORMAT.name
        && contents.text().lines().next().is_some_and(|line| line.contains('\t'));
    exported
        .or_else(|| is_table.then_some(&delimited::FORMAT))
        .ok_or_else(|| Unreadable::new(not_such(named)))
}

fn not_such(format: &FileFormat) -> String {
    let name = format.name.trim_start_matches("a ");
    // By how the names are spoken.
    let article = match name {
        "EPUB" | "MSG" | "OpenDocument" | "RTF" => "an",
        _ => "a",
    };
    format!("it is not {article} {name}, or its beginning is missing")
}

fn names() -> String {
    let names: Vec<&str> = ALL.iter().map(|format| format.name).collect();
    names.join(", ")
}

/// Recognizes formats that are not supported, and says so.
fn not_read(contents: &FileContents<'_>) -> Option<&'static str> {
    const ARCHIVE: &str = "it is an archive; unpack it and add the files in it";
    const SOUND: &str = "it is a recording; a model that writes down speech is needed to read it (setting `models.default_speech`, or `transcription.engine` for a program)";
    match contents.container {
        Some(ArchiveKind::Locked) => return Some("it is locked with a password; save it without one"),
        Some(ArchiveKind::Zip) => return Some(ARCHIVE),
        Some(ArchiveKind::OtherDocument) => {
            return Some("it is a document in an old or unknown format; save it in a newer one");
        }
        Some(ArchiveKind::Broken) => {
            return Some("it is a damaged container: its list of files cannot be read");
        }
        _ => {}
    }
    const SIGNATURES: &[(&[u8], &str)] = &[
        (b"RIFF", SOUND),
        (b"\x1f\x8b", ARCHIVE),
        (b"7z\xbc\xaf\x27\x1c", ARCHIVE),
        (b"Rar!", ARCHIVE),
        (b"BZh", ARCHIVE),
        (b"\xfd7zXZ", ARCHIVE),
        (b"ID3", SOUND),
        (b"OggS", SOUND),
        (b"fLaC", SOUND),
        (b"%!PS", "it is a PostScript file; turn it into a PDF"),
        (b"\x7fELF", "it is a program"),
        (b"MZ\x90", "it is a program"),
    ];
    SIGNATURES.iter().find(|(start, _)| contents.bytes.starts_with(start)).map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_and_ending_is_described() {
        let described = include_str!("../../../docs/documents.md");
        for format in ALL {
            assert!(described.contains(&format!("\n| {} |", format.name)), "{}", format.name);
            for ending in format.endings {
                assert!(described.contains(&format!("`{ending}`")), "{}: {ending}", format.name);
            }
        }
    }
}
