//! Chunking by slides or pages: one chunk for each.

use weft_core::error::Result;

use crate::chunk::delimiter::Delimiters;
use crate::chunk::draft::Cutting;
use crate::chunk::flow::{Flow, TablePlacement};
use crate::chunk::source::ChunkSource;
use crate::chunk::writer::PieceWriter;

/// Cuts slides into chunks. A slide that exceeds the limit is cut like any text.
pub(crate) fn cut(source: &ChunkSource<'_>) -> Result<Cutting> {
    let settings = &source.settings;
    let mut flow = Flow::new(&source.placed, TablePlacement::Inside(settings.limit / 2));
    // The sections of a PDF span several pages, so they keep their headings.
    if source.ending != "pdf" {
        own_titles(&mut flow);
    }
    // A slide that fits is one chunk, so delimiters do not cut it.
    let none = Delimiters::default();
    let mut writer = PieceWriter::new(&flow, settings).uncut(&none);
    let page = |span: usize| source.placed[flow.spans[span].element].page;
    let mut start = 0;
    for at in 0..flow.spans.len() {
        if at + 1 == flow.spans.len() || page(at) != page(at + 1) {
            writer.spans(start..at + 1, &[]);
            start = at + 1;
        }
    }
    let mut cutting = Cutting { drafts: writer.drafts, ..Cutting::default() };
    if source.placed.iter().all(|placed| placed.page.is_none()) {
        cutting.warnings.push("the file has no slides or pages and was cut like any text".to_owned());
    }
    Ok(cutting)
}

/// Detaches the headings of each slide from those of the slides before it.
fn own_titles(flow: &mut Flow<'_>) {
    let page = |element: usize| flow.elements[element].page;
    for at in 0..flow.titles.len() {
        let is_own = |above: &usize| page(flow.titles[*above].element) == page(flow.titles[at].element);
        flow.titles[at].above = flow.titles[at].above.filter(is_own);
    }
    for span in &mut flow.spans {
        span.title = span.title.filter(|title| page(flow.titles[*title].element) == page(span.element));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_core::seam::document_reader::ChunkMethod;

    use crate::chunk::testing::{contents, cut};

    #[test]
    fn a_slide_is_a_chunk() {
        let text = "=== 1\n\n# Hello\n\n- a\n- b\n\n=== 2\n\n=== 3\n\n# Numbers\n\n|a|\n|1|";
        let document = cut(text, "a.pptx", ChunkMethod::Presentation, json!({}));
        assert_eq!(
            contents(&document),
            ["Hello\n\n- a\n- b", "Numbers\n\n<table>\n<tr><th>a</th></tr>\n<tr><td>1</td></tr>\n</table>"]
        );
        let pages: Vec<u32> = document.pieces.iter().map(|piece| piece.positions[0].page).collect();
        assert_eq!(pages, [1, 3]);
        let headings: Vec<usize> = document.pieces.iter().map(|piece| piece.headings.len()).collect();
        assert_eq!(headings, [1, 1]);
        assert!(document.warnings.is_empty());
        let document = cut("just text", "a.txt", ChunkMethod::Presentation, json!({}));
        assert_eq!((document.pieces.len(), document.warnings.len()), (1, 1));
    }
}
