//! The pictures that the text of a document was read in.

use std::collections::BTreeSet;

use weft_core::Result;
use weft_core::seam::document_reader::{ReadDocument, ReadRequest};

use super::DocumentWork;
use crate::ingest::ids::PictureNames;
use crate::pictures;

impl DocumentWork<'_> {
    /// Keeps the pictures that pieces name beside the document. What each is called; the document goes on without those that
    /// cannot be had.
    pub(super) async fn keep_pictures(
        &self,
        request: &ReadRequest,
        read: &ReadDocument,
    ) -> Result<PictureNames> {
        let (parts, document) = (&self.library.parts, &self.taken.document);
        let pieces = read.pieces.iter().chain(&read.parents);
        let wanted: BTreeSet<u32> = pieces.filter_map(|piece| piece.picture).collect();
        if wanted.is_empty() {
            return Ok(PictureNames::new());
        }
        let tenant = &document.key.dataset.tenant;
        let bytes = parts.blobs.get(tenant, &document.blob).await?;
        // It is there already, as the file.
        if pictures::image_id(&document.key, &document.name).is_some()
            && pictures::media_type(&bytes).is_some()
        {
            return Ok(PictureNames::new());
        }
        let wanted: Vec<u32> = wanted.into_iter().collect();
        // For their bytes alone, and after the text: while somebody reads pictures none is held for longer than that takes.
        let mut kept = match parts.reader.kept_pictures(tenant, request, bytes, &wanted).await {
            Ok(kept) => kept,
            Err(error) => {
                self.warn(format!("Its pictures are not shown: {}", error.full()));
                return Ok(PictureNames::new());
            }
        };
        // Whoever reads has handled a file from anywhere, so the limits are kept here as well.
        kept.keep(&wanted);
        for warning in std::mem::take(&mut kept.warnings) {
            self.warn(warning);
        }
        // Whoever has lost the right to it must not leave anything beside it.
        self.tell().await?;
        let (names, left_out) = self.library.put_pictures(self.taken, &kept).await?;
        if left_out > 0 {
            let most = self.library.limits.tenant_bytes_max;
            self.warn(format!(
                "{left_out} pictures are read but not kept to be shown: documents and their pictures may take {most} \
                 bytes (remove some, or let an operator raise limits.tenant_document_bytes)"
            ));
        }
        Ok(names)
    }
}
