//! Picture files: their text is what a picture reader has found in them.

use weft_core::seam::document_reader::{FoundPicture, FoundPictures, Position};
use weft_core::seam::picture_reader::PIXELS_MAX;

use super::pdf::read_lines;
use super::{FileContents, FileFormat, FileInput, ReadResult};
use crate::parts::PartCollector;
use crate::pictures::{Pictures, of_file, too_many_pixels};
use crate::unreadable::Unreadable;

/// Common picture formats.
pub(super) const FORMAT: FileFormat = FileFormat {
    name: "picture",
    endings: &["png", "jpg", "jpeg", "gif", "bmp", "tif", "tiff", "webp"],
    is_binary: true,
    looks: |contents: &FileContents<'_>| of_file(contents.bytes).is_some(),
    read,
};

fn read(file: &FileInput<'_>) -> ReadResult {
    let size = of_file(file.bytes).unwrap_or_default();
    if u64::from(size.width) * u64::from(size.height) > PIXELS_MAX {
        return Err(Unreadable::new(too_many_pixels(size.width, size.height, "")));
    }
    let Some(reading) = file.readings.first() else {
        return Err(Unreadable::new("it is a picture; OCR is needed to read it (setting `documents.ocr`)"));
    };
    if reading.lines.iter().all(|line| line.text.trim().is_empty()) {
        return Err(Unreadable::new("no text was found in the picture"));
    }
    let mut parts = PartCollector::default();
    read_lines(reading, &mut parts);
    parts.pages(1);
    Ok(parts.finish())
}

/// The file as its only picture.
pub(super) fn pictures(bytes: &[u8]) -> FoundPictures {
    let mut pictures = Pictures::default();
    if let Some(mut picture) = of_file(bytes)
        && pictures.takes(picture.width, picture.height, "")
    {
        #[expect(clippy::cast_precision_loss, reason = "pixels of a picture need no more than 24 bits")]
        let (right, bottom) = (picture.width as f32, picture.height as f32);
        picture.bytes = bytes::Bytes::copy_from_slice(bytes);
        let place = Position { page: 1, left: 0.0, right, top: 0.0, bottom };
        pictures.push(FoundPicture { place, picture, ..FoundPicture::default() });
    }
    pictures.finish()
}
