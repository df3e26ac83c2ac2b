//! Text that the library skips on purpose.
//!
//! Page layout programs mark a PDF that was placed on a page as `/PlacedPDF`. The library assumes that such content is
//! a picture of text that is also present as text, but some programs build whole pages this way.

use pdf_oxide::PdfDocument;
use pdf_oxide::layout::TextSpan;

use super::extractor;

/// The mark, and a replacement without meaning.
const MARK: &[u8] = b"/PlacedPDF";
const OTHER: &[u8] = b"/PlacedText";

/// Text of a page including placed content; `None` if it has none.
pub(super) fn spans(document: &PdfDocument, index: usize) -> Option<Vec<TextSpan>> {
    let content = document.get_page_content_data(index).ok()?;
    if !content.windows(MARK.len()).any(|bytes| bytes == MARK) {
        return None;
    }
    let spans = extractor::of_page(document, index)?.extract_text_spans(&renamed(&content)).ok()?;
    (!spans.is_empty()).then_some(spans)
}

/// Content of a page without the mark.
fn renamed(content: &[u8]) -> Vec<u8> {
    let mut renamed = Vec::with_capacity(content.len());
    let mut rest = content;
    while let Some(at) = rest.windows(MARK.len()).position(|bytes| bytes == MARK) {
        renamed.extend_from_slice(&rest[..at]);
        renamed.extend_from_slice(OTHER);
        rest = &rest[at + MARK.len()..];
    }
    renamed.extend_from_slice(rest);
    renamed
}

#[cfg(test)]
mod tests {
    use super::renamed;

    #[test]
    fn the_mark_is_renamed_everywhere() {
        assert_eq!(renamed(b"/PlacedPDF BMC EMC/PlacedPDF"), b"/PlacedText BMC EMC/PlacedText");
        assert_eq!(renamed(b"BT ET"), b"BT ET");
    }
}
