//! Reads text in pictures (OCR) and describes what they show.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weft_macros::async_trait;

use crate::error::Result;
use crate::id::TenantId;
use crate::usage::Counted;

/// Maximum number of pixels in a picture: an A3 page at 600 dots per inch has 70 million.
// Decoded, a picture takes several bytes for each pixel, however small its file is.
pub const PIXELS_MAX: u64 = 100_000_000;

/// Maximum number of characters read from one picture; the rest is left out.
pub const TEXT_CHARS_MAX: usize = 200_000;

/// A picture to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// `image/png`, `image/jpeg`, `image/gif`, `image/tiff`, `image/bmp` or `image/webp`.
    pub media_type: String,
    /// Width in pixels, as stated in the file.
    pub width: u32,
    /// Height in pixels, as stated in the file.
    pub height: u32,
    /// The bytes of a file of that type.
    #[serde(skip)]
    pub bytes: Bytes,
}

/// A rectangle in a picture, as fractions of its width and height, from the upper left corner.
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

/// A line of text read from a picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PictureLine {
    /// Its text; empty between two paragraphs.
    pub text: String,
    /// Its position; absent if the reader does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<PicturePlace>,
}

/// Reads pictures: extracts their text, and may describe what else they show.
///
/// An implementation returns lines in reading order, with positions within the picture if known. A picture without
/// text has no lines. It stays within limits of time and memory, whatever the bytes are. If it reads only a few
/// pictures at a time, tenants take turns.
#[async_trait]
pub trait PictureReader: Send + Sync {
    /// Its name in the configuration.
    fn name(&self) -> &str;

    /// Returns the lines of a picture.
    ///
    /// # Errors
    /// `Invalid` for bytes that are not a picture of a supported type, or for a picture that is too large; `Timeout`;
    /// otherwise, by kind, whatever prevents it from reading any picture at the moment.
    async fn read(&self, tenant: &TenantId, picture: &Picture) -> Result<Vec<PictureLine>>;

    /// Like [`PictureReader::read`], with the usage if the reader is a model that reports it.
    ///
    /// # Errors
    /// As [`PictureReader::read`].
    async fn read_counted(&self, tenant: &TenantId, picture: &Picture) -> Result<Counted<Vec<PictureLine>>> {
        self.read(tenant, picture).await.map(Counted::untold)
    }
}
