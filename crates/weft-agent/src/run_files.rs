//! Files created by runs.

use std::borrow::Cow;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use weft_core::id::FileId;
use weft_core::seam::file_store::{StoredFile, plain_name};
use weft_core::{NodeContext, Result};

/// Bytes of a file id that is derived from a run's work.
// Enough that no two ids in a store collide by chance; the id is not a secret.
const ID_BYTES: usize = 16;

/// Stores a file with the conversation of a run. To be called within an effect.
///
/// # Errors
/// The errors of the file store.
pub async fn keep(ctx: &NodeContext, name: &str, mime_type: &str, bytes: Bytes) -> Result<StoredFile> {
    let name = plain_name(name);
    // Files are stored and read by others, so secrets in text are masked.
    let bytes = match std::str::from_utf8(&bytes).map(|text| ctx.run.masks.text(text)) {
        Ok(Cow::Owned(masked)) => Bytes::from(masked),
        Ok(Cow::Borrowed(_)) | Err(_) => bytes,
    };
    // Derived from the work, so that repeating the work stores one file only.
    let mut hash = Sha256::new();
    for part in [ctx.call_key().as_bytes(), name.as_bytes()] {
        // With the length before each part, different pairs of key and name never give the same bytes.
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let file = StoredFile {
        id: FileId::from(weft_core::hex(&hash.finalize()[..ID_BYTES])),
        name,
        mime_type: mime_type.to_owned(),
        size: bytes.len() as u64,
        session: Some(ctx.run.session.clone()),
        user: None,
        created_ms: ctx.run.seams.clock.now_ms(),
    };
    ctx.run.seams.files.put(&ctx.run.tenant, &file, bytes).await?;
    Ok(file)
}
