//! Chunking of pictures: the text that was read in them.

use weft_core::error::{Error, ErrorKind, Result};
use weft_core::seam::document_reader::PieceKind;

use super::one;
use crate::chunk::draft::Cutting;
use crate::chunk::source::ChunkSource;

/// Returns the text of a picture. A picture without text would have to be described by a vision model.
pub(crate) fn cut(source: &ChunkSource<'_>) -> Result<Cutting> {
    let mut cutting = one::cut(source)?;
    if cutting.drafts.is_empty() {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "the picture contains no text, and pictures are not described",
        )
        .help("add a file with its description, or a document that shows it with a caption"));
    }
    for draft in &mut cutting.drafts {
        draft.piece.kind = PieceKind::Image;
    }
    Ok(cutting)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_core::error::ErrorKind;
    use weft_core::seam::document_reader::{ChunkMethod, PieceKind};

    use crate::chunk::testing::{cut, request};
    use crate::element::{Element, ElementBody, Parsed};

    #[test]
    fn a_picture_without_text_is_refused() {
        let image = Element::new(ElementBody::Image { caption: String::new() }, Vec::new());
        let parsed = Parsed { elements: vec![image], ..Parsed::default() };
        let error =
            crate::chunk::cut(&parsed, &request("a.png", ChunkMethod::Picture, json!({}))).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported);
        let document = cut("A cat.", "a.png", ChunkMethod::Picture, json!({}));
        assert_eq!(document.pieces[0].kind, PieceKind::Image);
    }
}
