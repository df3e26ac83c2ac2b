//! Chunking by the headings of a book: the text of each section with the headings above it.

use weft_core::error::Result;

use crate::chunk::draft::Cutting;
use crate::chunk::flow::{Flow, TablePlacement};
use crate::chunk::lines::NumberedLines;
use crate::chunk::numbering::Levels;
use crate::chunk::printed_contents;
use crate::chunk::sections::{pack_siblings, sections};
use crate::chunk::source::ChunkSource;
use crate::chunk::writer::PieceWriter;

/// Maximum number of distinct heading levels.
const LEVELS_MAX: usize = 5;
/// Size, in tokens, up to which sections below the same heading are packed into one chunk.
const PACKED_TOKENS_MAX: u32 = 218;
/// Maximum chunk size, in tokens, for a book without headings.
const WITHOUT_HEADINGS_MAX: u32 = 256;

/// Cuts a book into chunks.
pub(crate) fn cut(source: &ChunkSource<'_>) -> Result<Cutting> {
    let mut lines = NumberedLines::new(&source.placed);
    let contents = printed_contents::find(&lines.placed());
    let removed = contents.len();
    lines.remove(contents);
    let placed = lines.placed();
    let levels = Levels::find(&placed);
    let mut cutting = Cutting::default();
    if removed > 0 {
        cutting.warnings.push(printed_contents::left_out(removed));
    }
    let settings = &source.settings;
    if levels.distinct().is_empty() {
        let flow = Flow::new(&placed, TablePlacement::Apart);
        let limit = settings.limit.min(WITHOUT_HEADINGS_MAX);
        let mut writer = PieceWriter::new(&flow, settings).limit(limit, settings);
        writer.all();
        cutting.drafts = writer.drafts;
    } else {
        let deepest = levels.distinct().into_iter().take(LEVELS_MAX).next_back();
        let flow = Flow::with_levels(&placed, TablePlacement::Apart, |at| {
            levels.of(at).filter(|level| Some(*level) <= deepest)
        });
        let mut writer = PieceWriter::new(&flow, settings);
        // The headings above a section take up to a quarter of its chunk.
        for section in pack_siblings(sections(&flow), PACKED_TOKENS_MAX.min(settings.limit / 4 * 3)) {
            writer.spans(section.spans, &section.above);
        }
        cutting.drafts = writer.drafts;
    }
    lines.restore(&mut cutting.drafts);
    Ok(cutting)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_core::seam::document_reader::ChunkMethod;

    use crate::chunk::testing::{contents, cut};

    const BOOK: ChunkMethod = ChunkMethod::Book;

    #[test]
    fn sections_follow_their_headings() {
        let long = "A sentence of some words is written here. ".repeat(12);
        let text = format!(
            "第一章 开始\n\n第一节 甲\n\n{long}\n\n第二节 乙\n\n{long}\n\n第三节 丙\n\n短。\n\n第四节 丁\n\n也短。\n\n第二章 结束\n\n完。"
        );
        let document = cut(&text, "a.txt", BOOK, json!({ "chunk_token_num": 130 }));
        let contents = contents(&document);
        assert_eq!(contents.len(), 4, "{contents:?}");
        assert!(contents[0].starts_with("第一章 开始\n\n第一节 甲\n\nA sentence"));
        assert!(contents[1].starts_with("第一章 开始\n第二节 乙\n\nA sentence"));
        assert_eq!(contents[2], "第一章 开始\n第三节 丙\n\n短。\n\n第四节 丁\n\n也短。");
        assert_eq!(contents[3], "第二章 结束\n\n完。");
        assert_eq!(document.pieces[1].headings, ["第一章 开始", "第二节 乙"]);
        assert!(document.pieces.iter().all(|piece| piece.tokens <= 130));
    }

    #[test]
    fn a_long_section_repeats_its_headings() {
        let long = "A sentence of some words is written here. ".repeat(30);
        let text = format!("# One\n\nintro\n\n## Two\n\n{long}");
        let document = cut(&text, "a.docx", BOOK, json!({ "chunk_token_num": 100 }));
        assert!(document.pieces.len() > 3);
        assert!(contents(&document)[1..].iter().all(|content| content.starts_with("One\n")));
        assert!(document.pieces.iter().all(|piece| piece.tokens <= 100));
    }

    #[test]
    fn the_table_of_contents_is_left_out() {
        let text = "# Preface\n\nHello.\n\n# Contents\n\n1. First ..... 3\n2. Second ..... 9\n\n# First\n\nThe text of one.\n\n# Second\n\nThe text of two.";
        let document = cut(text, "a.docx", BOOK, json!({}));
        assert_eq!(
            contents(&document),
            ["Preface\n\nHello.", "First\n\nThe text of one.", "Second\n\nThe text of two."]
        );
        assert!(document.warnings[0].contains("table of contents"), "{:?}", document.warnings);
        let places: Vec<usize> = document.headings.iter().map(|heading| heading.piece).collect();
        assert_eq!(places, [0, 1, 1, 2]);
        // The word alone is no table of contents.
        let document =
            cut("# Contents\n\nThis box contains 3 pens of 4\n\nand more", "a.docx", BOOK, json!({}));
        assert_eq!(contents(&document)[0], "Contents\n\nThis box contains 3 pens of 4\n\nand more");
    }

    #[test]
    fn without_headings_a_book_is_plain_text() {
        let document = cut(&"Nothing but text is here. ".repeat(200), "a.txt", BOOK, json!({}));
        assert!(document.pieces.len() > 3 && document.pieces.iter().all(|piece| piece.tokens <= 256));
    }
}
