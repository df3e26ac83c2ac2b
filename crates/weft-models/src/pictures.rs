//! Reads pictures, with a service or a vision model.

mod service;
mod vision;

pub(crate) use service::HttpPictureReader;
pub(crate) use vision::VisionPictureReader;

use weft_core::seam::picture_reader::{PIXELS_MAX, Picture};
use weft_core::{Error, Result};

/// Maximum size of a picture in bytes: it is sent as base64 in one request.
const SENT_BYTES_MAX: usize = 24 << 20;

/// Rejects pictures that are too large to be sent.
fn check(picture: &Picture) -> Result<()> {
    let (width, height) = (picture.width, picture.height);
    if u64::from(width) * u64::from(height) > PIXELS_MAX {
        let most = PIXELS_MAX / 1_000_000;
        let message =
            format!("the picture has {width} × {height} pixels; at most {most} million are allowed");
        return Err(Error::invalid(message).help("make it smaller"));
    }
    if picture.bytes.len() > SENT_BYTES_MAX {
        let (size, most) = (picture.bytes.len() >> 20, SENT_BYTES_MAX >> 20);
        let message = format!("the picture has {size} MiB; at most {most} MiB can be sent");
        return Err(Error::invalid(message).help("make it smaller, or save it as JPEG"));
    }
    Ok(())
}
