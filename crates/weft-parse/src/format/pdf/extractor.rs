//! Sets up the library's text extractor by hand, for pages where it needs to be configured first.

use pdf_oxide::PdfDocument;
use pdf_oxide::extractors::TextExtractor;

/// Extractor for a page, with the fonts of the page; `None` if the page has none.
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

/// Name of a font in lower case, without the prefix that marks a subset.
pub(super) fn font_name(name: &str) -> String {
    name.split_once('+').map_or(name, |(_, name)| name).to_ascii_lowercase()
}
