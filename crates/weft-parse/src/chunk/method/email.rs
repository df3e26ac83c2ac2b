//! Chunking of mails: headers, body and attachments as text.

use weft_core::error::Result;

use super::naive;
use crate::chunk::draft::Cutting;
use crate::chunk::source::ChunkSource;

/// Cuts a mail into chunks.
pub(crate) fn cut(source: &ChunkSource<'_>) -> Result<Cutting> {
    naive::cut(source)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_core::seam::document_reader::ChunkMethod;

    use crate::chunk::testing::{contents, cut};

    #[test]
    fn a_mail_is_chunked_as_text() {
        let document = cut(
            "From: a@example.org\nSubject: Hello\n\nHow are you?",
            "a.eml",
            ChunkMethod::Email,
            json!({}),
        );
        assert_eq!(contents(&document), ["From: a@example.org\nSubject: Hello\n\nHow are you?"]);
    }
}
