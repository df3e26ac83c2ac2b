//! The whole file is one piece.

use weft_core::error::Result;

use crate::chunk::delimiter::Delimiters;
use crate::chunk::draft::Cutting;
use crate::chunk::flow::{Flow, TablePlacement};
use crate::chunk::writer::PieceWriter;
use crate::chunk::{ChunkSource, WHOLE_TOKENS_MAX};

/// Keeps a document whole, or in as few parts as it can.
pub(crate) fn cut(source: &ChunkSource<'_>) -> Result<Cutting> {
    let flow = Flow::new(&source.placed, TablePlacement::Inside(WHOLE_TOKENS_MAX));
    let none = Delimiters::default();
    let mut writer =
        PieceWriter::new(&flow, &source.settings).limit(WHOLE_TOKENS_MAX, &source.settings).uncut(&none);
    writer.all();
    let mut cutting = Cutting { drafts: writer.drafts, ..Cutting::default() };
    let count = cutting.drafts.len();
    if count > 1 {
        cutting.warnings.push(format!(
            "the file is too long for one piece of {WHOLE_TOKENS_MAX} tokens and was cut into {count}"
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
    fn a_file_is_one_piece_whatever_the_limit_is() {
        let settings = json!({ "chunk_token_num": 5, "delimiter": "`x`" });
        let document = cut("# A x\n\none\n\n|a|\n|1|\n\ntwo", "a.md", ChunkMethod::One, settings);
        assert_eq!(
            contents(&document),
            ["A x\n\none\n\n<table>\n<tr><th>a</th></tr>\n<tr><td>1</td></tr>\n</table>\n\ntwo"]
        );
        assert!(document.warnings.is_empty());
    }

    #[test]
    fn a_huge_file_is_cut_and_says_so() {
        let document = cut(&"word ".repeat(80_000), "a.txt", ChunkMethod::One, json!({}));
        assert_eq!(document.pieces.len(), 3);
        assert!(document.warnings[0].contains("cut into 3"));
    }
}
