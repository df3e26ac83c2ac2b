//! The library's reading of a page, set up by hand where something has to be told to it before it begins.

use pdf_oxide::PdfDocument;
use pdf_oxide::extractors::TextExtractor;

/// What reads a page, with the page's fonts; `None` when the page has none.
pub(super) fn of_page(document: &PdfDocument, index: usize) -> Option<TextExtractor<'_>> {
    let page = document.get_page(index).ok()?;
    let resources = page.as_dict()?.get("Resources")?;
    let mut extractor = TextExtractor::new();
    extractor.set_page_index(u32::try_from(index).ok()?);
    extractor.set_resources(resources.clone());
    extractor.set_document(document);
    document.load_fonts_public(resources, &mut extractor).ok()?;
    Some(extractor)
}

/// The name of a font in small letters, without the sign of the part of it that a file holds.
pub(super) fn font_name(name: &str) -> String {
    name.split_once('+').map_or(name, |(_, name)| name).to_ascii_lowercase()
}
