//! Chunking by the sections of a manual.

use weft_core::error::Result;

use crate::chunk::draft::Cutting;
use crate::chunk::flow::{Flow, TablePlacement};
use crate::chunk::lines::NumberedLines;
use crate::chunk::numbering::Levels;
use crate::chunk::sections::{pack_small, sections};
use crate::chunk::source::ChunkSource;
use crate::chunk::writer::PieceWriter;

/// Maximum size of a section's chunk, in tokens; the settings may set a lower limit.
const SECTION_TOKENS_MAX: u32 = 1_024;
/// Sections smaller than this are merged with the next one.
const SECTION_TOKENS_MIN: u32 = 32;

/// Cuts a manual into chunks.
pub(crate) fn cut(source: &ChunkSource<'_>) -> Result<Cutting> {
    let settings = &source.settings;
    let limit = settings.limit.min(SECTION_TOKENS_MAX);
    let lines = NumberedLines::new(&source.placed);
    let placed = lines.placed();
    let levels = Levels::find(&placed);
    let flow = Flow::with_levels(&placed, TablePlacement::Apart, |at| levels.of(at));
    let mut writer = PieceWriter::new(&flow, settings).limit(limit, settings);
    for section in pack_small(sections(&flow), SECTION_TOKENS_MIN, limit) {
        writer.spans(section.spans, &[]);
    }
    lines.restore(&mut writer.drafts);
    Ok(Cutting { drafts: writer.drafts, ..Cutting::default() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_core::seam::document_reader::ChunkMethod;

    use crate::chunk::testing::{contents, cut};

    #[test]
    fn sections_are_chunks_and_small_ones_are_merged() {
        let long = "Press the button and wait for the light. ".repeat(5);
        let text = format!(
            "# 1. Start\n\nShort.\n\n# 2. Use\n\n{long}\n\n## 2.1 More\n\n{long}\n\n# 3. End\n\nBye."
        );
        let document = cut(&text, "a.pdf", ChunkMethod::Manual, json!({}));
        let contents = contents(&document);
        assert_eq!(contents.len(), 2, "{contents:?}");
        assert!(contents[0].starts_with("1. Start\n\nShort.\n\n2. Use\n\nPress"));
        assert!(contents[1].starts_with("2.1 More") && contents[1].ends_with("3. End\n\nBye."));
        assert_eq!(document.pieces[1].headings, ["2. Use", "2.1 More"]);
    }
}
