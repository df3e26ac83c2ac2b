//! What is said and shown in pictures (OCR, descriptions).

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::id::TenantId;
use crate::usage::Counted;

/// Pixels of a picture that is read, at most: a page of A3 at 600 dots per inch has 70 million.
pub const PIXELS_MAX: u64 = 100_000_000;

/// Characters that are read in one picture, at most; what follows is left out.
pub const TEXT_CHARS_MAX: usize = 200_000;

/// A picture to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// `image/png`, `image/jpeg`, `image/gif`, `image/tiff`, `image/bmp` or `image/webp`.
    pub media_type: String,
    /// Pixels from left to right, as the file says.
    pub width: u32,
    /// Pixels from top to bottom, as the file says.
    pub height: u32,
    /// The bytes of a file of that type.
    #[serde(skip)]
    pub bytes: Bytes,
}

/// Where something is in a picture, as shares of its width and height, from the upper left corner.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PicturePlace {
    /// Left edge.
    pub left: f32,
    /// Right edge.
    pub right: f32,
    /// Upper edge.
    pub top: f32,
    /// Lower edge.
    pub bottom: f32,
}

/// A line that was read in a picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PictureLine {
    /// What it says; empty between two paragraphs.
    pub text: String,
    /// Where it is; absent when the reader does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<PicturePlace>,
}

/// Reads pictures: writes down their text, and may describe what else they show.
///
/// An implementation gives lines in reading order, with places inside the picture if it knows any. A picture without
/// text has no lines. It stays within limits of time and memory whatever the bytes are. Where it reads only a few pictures at the
/// same time, tenants take turns.
#[async_trait]
pub trait PictureReader: Send + Sync {
    /// Its name in the configuration.
    fn name(&self) -> &str;

    /// The lines of a picture.
    ///
    /// # Errors
    /// `Invalid` for bytes that are no picture of a kind that it reads, or one that is too large; `Timeout`;
    /// otherwise what keeps it from reading any picture now, by kind.
    async fn read(&self, tenant: &TenantId, picture: &Picture) -> Result<Vec<PictureLine>>;

    /// The same, with what that has used, where the reader is a model that tells.
    ///
    /// # Errors
    /// As [`PictureReader::read`].
    async fn read_counted(&self, tenant: &TenantId, picture: &Picture) -> Result<Counted<Vec<PictureLine>>> {
        self.read(tenant, picture).await.map(Counted::untold)
    }
}
