//! Chunking by the articles of a law: each with the headings above it.

use weft_core::error::Result;

use crate::chunk::draft::Cutting;
use crate::chunk::flow::{Flow, TablePlacement};
use crate::chunk::lines::NumberedLines;
use crate::chunk::numbering::Levels;
use crate::chunk::sections::sections;
use crate::chunk::source::ChunkSource;
use crate::chunk::writer::PieceWriter;

/// Number of heading levels that are distinguished in a text without articles.
const DEPTH: usize = 2;

/// Cuts a law into chunks. The units are its articles, however deep they are; without any, the second level of
/// headings.
pub(crate) fn cut(source: &ChunkSource<'_>) -> Result<Cutting> {
    let lines = NumberedLines::new(&source.placed);
    let placed = lines.placed();
    let levels = Levels::find(&placed);
    let deepest = levels.article.or_else(|| levels.distinct().into_iter().take(DEPTH).next_back());
    let level = |at: usize| levels.of(at).filter(|level| Some(*level) <= deepest);
    let flow = Flow::with_levels(&placed, TablePlacement::Apart, level);
    let mut writer = PieceWriter::new(&flow, &source.settings);
    for section in sections(&flow) {
        writer.spans(section.spans, &section.above);
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
    fn each_article_is_below_its_chapter() {
        let text = "某某法\n\n第一章 总则\n\n第一条 为了规范，制定本法。\n\n第二条 本法所称：\n\n（一）甲；\n\n（二）乙。\n\n第二章 附则\n\n第三条 自公布之日起施行。";
        let document = cut(text, "a.docx", ChunkMethod::Laws, json!({}));
        assert_eq!(
            contents(&document),
            [
                "某某法",
                "第一章 总则\n\n第一条 为了规范，制定本法。",
                "第一章 总则\n第二条 本法所称：\n\n（一）甲；\n\n（二）乙。",
                "第二章 附则\n\n第三条 自公布之日起施行。"
            ]
        );
    }

    #[test]
    fn the_lines_of_a_plain_text_are_headings_too() {
        let text = "第一章 总则\n第一条 甲。\n甲续。\n第二条 乙。\n第二章 附则\n第三条 丙。";
        let document = cut(text, "a.txt", ChunkMethod::Laws, json!({}));
        assert_eq!(
            contents(&document),
            ["第一章 总则\n第一条 甲。\n甲续。", "第一章 总则\n第二条 乙。", "第二章 附则\n第三条 丙。"]
        );
    }

    #[test]
    fn without_articles_the_second_level_is_the_unit() {
        let text = "# Act\n\n## Scope\n\na\n\n### Detail\n\nb\n\n## Terms\n\nc";
        let document = cut(text, "a.md", ChunkMethod::Laws, json!({}));
        assert_eq!(contents(&document), ["Act\n\nScope\n\na\n\nDetail\n\nb", "Act\nTerms\n\nc"]);
        let document = cut("Only text.\n\nMore.", "a.md", ChunkMethod::Laws, json!({}));
        assert_eq!(contents(&document), ["Only text.\n\nMore."]);
    }
}
