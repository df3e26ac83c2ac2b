//! The pictures from which the text of a document was recognised.

use std::collections::BTreeSet;

use weft_core::Result;
use weft_core::seam::document_reader::{ReadDocument, ReadRequest};

use super::DocumentWork;
use crate::ingest::ids::PictureNames;
use crate::pictures;

impl DocumentWork<'_> {
    /// Stores the pictures that pieces refer to beside the document. Returns their names; the document is
    /// completed without those that cannot be obtained.
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
        // The picture is stored already, as the file itself.
        if pictures::image_id(&document.key, &document.name).is_some()
            && pictures::media_type(&bytes).is_some()
        {
            return Ok(PictureNames::new());
        }
        let wanted: Vec<u32> = wanted.into_iter().collect();
        // A separate call, after the text was read, so that pictures are held in memory only for as long as
        // they are needed.
        let mut kept = match parts.reader.kept_pictures(tenant, request, bytes, &wanted).await {
            Ok(kept) => kept,
            Err(error) => {
                self.warn(format!("Its pictures are not shown: {}", error.full()));
                return Ok(PictureNames::new());
            }
        };
        // The reader has handled a file from an unknown source, so the limits are enforced here as well.
        kept.keep(&wanted);
        for warning in std::mem::take(&mut kept.warnings) {
            self.warn(warning);
        }
        // A worker that has lost the lease must not leave anything beside the document.
        self.tell().await?;
        let (names, left_out) = self.library.put_pictures(self.taken, &kept).await?;
        if left_out > 0 {
            let most = self.library.limits.tenant_bytes_max;
            self.warn(format!(
                "{} analysed but not stored: documents and their pictures may take {most} bytes (remove some, or \
                 have an operator raise limits.tenant_document_bytes)",
                weft_core::value::plural_with(left_out, "picture", ["was", "were"])
            ));
        }
        Ok(names)
    }
}
