//! Turns Markdown text or tables into the bytes of a file.
//!
//! The text is parsed into blocks once; each format is a way to write these blocks.

mod blocks;
mod direction;
mod docx;
mod html;
mod pdf;
mod plain;
mod tables;
mod unwritten;
mod xlsx;

use weft_core::Result;
use weft_core::seam::document_writer::{DocumentContent, DocumentFormat, MadeDocument, Sheet, WriteRequest};

use blocks::blocks;
use pdf::Font;

/// Makes a file. `font` supplies the letters of a PDF for which the built-in font has no glyph; empty if there is no
/// such font.
///
/// # Errors
/// `Invalid` for content that the format cannot represent.
pub fn make(request: &WriteRequest, font: Font<'_>) -> Result<MadeDocument> {
    let page = &request.page;
    let bytes = match (&request.content, request.format) {
        (DocumentContent::Markdown(text), DocumentFormat::Markdown) => Ok(text.clone().into_bytes()),
        (DocumentContent::Markdown(text), DocumentFormat::Xlsx) => xlsx::write(&tables::of_text(text)),
        (DocumentContent::Markdown(text), DocumentFormat::Csv) => {
            let sheets = tables::of_text(text);
            tables::csv(sheets.first().unwrap_or(&Sheet::default()))
        }
        (DocumentContent::Markdown(text), DocumentFormat::Html) => Ok(html::write(text, page).into_bytes()),
        (DocumentContent::Markdown(text), DocumentFormat::Txt) => {
            Ok(plain::write(&blocks(text), page).into_bytes())
        }
        (DocumentContent::Markdown(text), DocumentFormat::Docx) => docx::write(&blocks(text), page),
        (DocumentContent::Markdown(text), DocumentFormat::Pdf) => {
            return pdf::write(&blocks(text), page, font);
        }
        (DocumentContent::Sheets(sheets), DocumentFormat::Xlsx) => xlsx::write(sheets),
        (DocumentContent::Sheets(sheets), DocumentFormat::Csv) => {
            tables::csv(sheets.first().unwrap_or(&Sheet::default()))
        }
        (DocumentContent::Sheets(sheets), format) => {
            let text = DocumentContent::Markdown(tables::markdown(sheets));
            return make(&WriteRequest { format, content: text, page: page.clone() }, font);
        }
    };
    bytes.map(MadeDocument::from)
}

/// Reads the sheets of a spreadsheet or of a delimiter-separated file.
///
/// # Errors
/// As [`crate::parse`].
pub(crate) fn sheets(name: &str, bytes: &[u8]) -> Result<Vec<Sheet>> {
    tables::of_file(name, bytes)
}
