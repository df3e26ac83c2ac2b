//! Chunking of a whole file as one chunk.

use weft_core::error::Result;

use crate::chunk::delimiter::Delimiters;
use crate::chunk::draft::Cutting;
use crate::chunk::flow::{Flow, Placed, TablePlacement};
use crate::chunk::sheet;
use crate::chunk::source::{ChunkSource, WHOLE_TOKENS_MAX};
use crate::chunk::writer::PieceWriter;

/// Keeps a document whole, or cuts it into as few parts as possible.
pub(crate) fn cut(source: &ChunkSource<'_>) -> Result<Cutting> {
    // Only their names distinguish the sheets of a file.
    let captioned = sheet::is_sheet(source).then(|| sheet::captioned(source));
    let placed: Vec<Placed<'_>> = match &captioned {
        Some(elements) => {
            let parts = source.placed.iter().zip(elements);
            parts.map(|(placed, element)| Placed { element, ..*placed }).collect()
        }
        None => source.placed.clone(),
    };
    let flow = Flow::new(&placed, TablePlacement::Inside(WHOLE_TOKENS_MAX));
    let none = Delimiters::default();
    let mut writer =
        PieceWriter::new(&flow, &source.settings).limit(WHOLE_TOKENS_MAX, &source.settings).uncut(&none);
    writer.all();
    let mut cutting = Cutting { drafts: writer.drafts, ..Cutting::default() };
    let count = cutting.drafts.len();
    if count > 1 {
        cutting.warnings.push(format!(
            "the file is too long for one piece of {WHOLE_TOKENS_MAX} tokens and was split into {count}"
        ));
    }
    Ok(cutting)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_core::seam::document_reader::ChunkMethod;

    use crate::chunk::testing::{contents, cut};

    #[test]
    fn a_file_is_one_chunk_whatever_the_limit_is() {
        let settings = json!({ "chunk_token_num": 5, "delimiter": "`x`" });
        let document = cut("# A x\n\none\n\n|a|\n|1|\n\ntwo", "a.md", ChunkMethod::One, settings);
        assert_eq!(
            contents(&document),
            ["A x\n\none\n\n<table>\n<tr><th>a</th></tr>\n<tr><td>1</td></tr>\n</table>\n\ntwo"]
        );
        assert!(document.warnings.is_empty());
    }

    #[test]
    fn sheets_have_their_names() {
        let text = "=== 1 Sheet1\n\n|a|\n|1|\n\n=== 2 Orders\n\n|b|\n|2|";
        let document = cut(text, "a.xlsx", ChunkMethod::One, json!({}));
        assert_eq!(
            contents(&document),
            [
                "<table>\n<tr><th>a</th></tr>\n<tr><td>1</td></tr>\n</table>\n\n<table><caption>Orders</caption>\n<tr><th>b</th></tr>\n<tr><td>2</td></tr>\n</table>"
            ]
        );
    }

    #[test]
    fn a_huge_file_is_truncated_with_a_notice() {
        let document = cut(&"word ".repeat(80_000), "a.txt", ChunkMethod::One, json!({}));
        assert_eq!(document.pieces.len(), 3);
        assert!(document.warnings[0].contains("split into 3"));
    }
}
