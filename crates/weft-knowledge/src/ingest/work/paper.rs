//! The title and the authors of a paper.

use weft_core::Result;
use weft_core::seam::document_reader::{ChunkMethod, ReadDocument};

use super::DocumentWork;

/// What the method for papers finds out about the document as a whole.
const FOUND: [&str; 2] = ["title", "author"];

impl DocumentWork<'_> {
    /// Stores what the method for papers has found out, except what the document has already. Other methods do
    /// not look for it, and the properties of a file alone often name its template.
    pub(super) async fn keep_title(&self, read: &mut ReadDocument) -> Result<()> {
        if self.taken.document.method != ChunkMethod::Paper {
            return Ok(());
        }
        let mut found = std::mem::take(&mut read.metadata);
        found.retain(|key, _| FOUND.contains(&key.as_str()));
        self.add_metadata(found).await
    }
}
