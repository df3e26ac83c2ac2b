//! Finds the pictures in a file that a picture reader (OCR) has to read. They are not decoded further than necessary.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use weft_core::seam::document_reader::{FoundPicture, FoundPictures, PictureReading};
use weft_core::seam::picture_reader::{PIXELS_MAX, Picture};

use crate::archive::Archive;
use crate::unreadable::Unreadable;

/// Maximum number of pictures that are read in one file.
pub(crate) const PICTURES_MAX: usize = 2_000;
/// Maximum size of one picture, in bytes.
const PICTURE_BYTES_MAX: usize = 64 << 20;
/// Maximum size of all pictures of a file, in bytes.
const ALL_BYTES_MAX: usize = 256 << 20;
/// Minimum width and height: a smaller picture is an ornament.
const SIDE_MIN: u32 = 32;

/// Collects the pictures of one file, within limits.
#[derive(Debug, Default)]
pub(crate) struct Pictures {
    found: FoundPictures,
    bytes: usize,
    full: bool,
}

impl Pictures {
    /// Returns the pictures found.
    pub(crate) fn finish(self) -> FoundPictures {
        self.found
    }

    /// Whether no further picture fits within the limits.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// Adds a warning about a picture that cannot be read, once.
    pub(crate) fn warn(&mut self, warning: String) {
        if !self.found.warnings.contains(&warning) {
            self.found.warnings.push(warning);
        }
    }

    /// Whether a picture of this size is worth reading and not too large; adds a warning if it is too large.
    pub(crate) fn takes(&mut self, width: u32, height: u32, where_: &str) -> bool {
        if u64::from(width) * u64::from(height) > PIXELS_MAX {
            self.warn(too_many_pixels(width, height, where_));
            return false;
        }
        width.min(height) >= SIDE_MIN && !self.full
    }

    /// Adds a picture with its place.
    pub(crate) fn push(&mut self, found: FoundPicture) {
        let (bytes, where_) = (found.picture.bytes.len(), whereabouts(found.place.page, &found.part));
        if bytes > PICTURE_BYTES_MAX {
            let mib = PICTURE_BYTES_MAX >> 20;
            self.warn(format!("a picture{where_} is larger than {mib} MiB and was not read"));
            return;
        }
        let bytes = self.bytes.saturating_add(bytes);
        if self.found.pictures.len() >= PICTURES_MAX || bytes > ALL_BYTES_MAX {
            self.full = true;
            let count = self.found.pictures.len();
            let read = weft_core::value::plural_with(count, "picture", ["is", "are"]);
            self.warn(format!("only {read} read, the next one{where_} is not"));
            return;
        }
        self.bytes = bytes;
        self.found.pictures.push(found);
    }
}

/// Separates the name of a nested file from the path within it.
const WITHIN: &str = " › ";

/// Name under which the pictures of an attachment are listed. It includes the number, as two attachments can share a
/// name.
pub(crate) fn attachment(number: usize, name: &str) -> String {
    format!("{}. {}", number + 1, name.replace(WITHIN, " "))
}

/// Selects the readings that belong to a nested file, with part names as that file uses them.
pub(crate) fn within(readings: &[PictureReading], file: &str) -> Vec<PictureReading> {
    let own = |reading: &PictureReading| {
        let rest = reading.part.strip_prefix(file)?;
        let part = if rest.is_empty() { rest } else { rest.strip_prefix(WITHIN)? };
        Some(PictureReading { part: part.to_owned(), ..reading.clone() })
    };
    readings.iter().filter_map(own).collect()
}

impl Pictures {
    /// Adds the pictures of a nested file.
    pub(crate) fn include(&mut self, file: &str, found: FoundPictures) {
        for one in found.pictures {
            let part =
                if one.part.is_empty() { file.to_owned() } else { format!("{file}{WITHIN}{}", one.part) };
            self.push(FoundPicture { part, ..one });
        }
        found.warnings.into_iter().for_each(|warning| self.warn(format!("in `{file}`: {warning}")));
    }
}

/// Describes where a picture is, for the end of a phrase: on a page, or in a file within the document.
pub(crate) fn whereabouts(page: u32, part: &str) -> String {
    match (page, part) {
        (0, "") => String::new(),
        (0, part) => format!(" in `{part}`"),
        (page, "") => format!(" on page {page}"),
        (page, part) => format!(" on page {page} of `{part}`"),
    }
}

/// Collects the pictures that a document stores as archive entries.
///
/// # Errors
/// If the document cannot be opened.
pub(crate) fn in_archive(bytes: &[u8], parts: Vec<String>) -> Result<FoundPictures, Unreadable> {
    let mut archive = Archive::open(bytes)?;
    let mut pictures = Pictures::default();
    let mut seen = HashSet::new();
    for part in parts {
        if pictures.is_full() {
            break;
        }
        // One picture may be shown in several places.
        if !seen.insert(part.clone()) {
            continue;
        }
        let bytes = match archive.read(&part) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => continue,
            Err(Unreadable(reason)) => {
                pictures.warn(format!("the picture `{part}` was not read: {reason}"));
                continue;
            }
        };
        let Some(mut picture) = of_file(&bytes) else {
            pictures.warn(format!("the picture `{part}` is of an unsupported type"));
            continue;
        };
        if pictures.takes(picture.width, picture.height, &whereabouts(0, &part)) {
            picture.bytes = bytes.into();
            pictures.push(FoundPicture { part, is_figure: true, picture, ..FoundPicture::default() });
        }
    }
    Ok(pictures.finish())
}

/// A text, and the picture that it was read in, if any; see [`PictureReading::picture`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PictureText {
    /// The text.
    pub text: String,
    /// The picture.
    pub picture: Option<u32>,
}

impl From<String> for PictureText {
    fn from(text: String) -> Self {
        Self { text, picture: None }
    }
}

/// Texts read in the pictures of an archive, by the path of each picture.
#[derive(Debug, Default)]
pub(crate) struct PictureTexts(HashMap<String, PictureText>);

impl PictureTexts {
    /// Indexes these readings by path.
    pub(crate) fn of(readings: &[PictureReading]) -> Self {
        let readings = readings.iter().filter(|reading| !reading.part.is_empty());
        let read = |reading: &PictureReading| PictureText { text: text(reading), picture: reading.picture };
        Self(readings.map(|reading| (reading.part.clone(), read(reading))).collect())
    }

    /// Removes and returns the text of a picture, so that a letterhead is not repeated on every page.
    pub(crate) fn take(&mut self, part: &str) -> Option<PictureText> {
        self.0.remove(part).filter(|read| !read.text.is_empty())
    }
}

fn text(reading: &PictureReading) -> String {
    let lines: Vec<&str> = reading.lines.iter().map(|line| line.text.as_str()).collect();
    lines.join("\n").trim().to_owned()
}

/// Warning about a picture that has too many pixels.
pub(crate) fn too_many_pixels(width: u32, height: u32, where_: &str) -> String {
    let most = PIXELS_MAX / 1_000_000;
    format!(
        "the picture{where_} has {width} × {height} pixels and was not read: the maximum is {most} million"
    )
}

/// Recognizes a picture by its first bytes and returns its type, width and height.
pub(crate) fn of_file(bytes: &[u8]) -> Option<Picture> {
    let (media_type, size) = match bytes {
        // The header chunk, which has the size, comes first (PNG specification, IHDR).
        [0x89, b'P', b'N', b'G', ..] => ("image/png", big(bytes, 16).zip(big(bytes, 20))),
        [0xff, 0xd8, 0xff, ..] => ("image/jpeg", jpeg(bytes)),
        [b'G', b'I', b'F', b'8', ..] => ("image/gif", pair(bytes, 6, 8)),
        // Texts can begin with these two letters, too.
        [b'B', b'M', _, _, _, _, 0, 0, 0, 0, ..]
            if little(bytes, 14).is_some_and(|size| (12..=124).contains(&size)) =>
        {
            ("image/bmp", little(bytes, 18).zip(little(bytes, 22).map(magnitude)))
        }
        [b'I', b'I', b'*', 0, ..] | [b'M', b'M', 0, b'*', ..] => ("image/tiff", tiff(bytes)),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => ("image/webp", webp(bytes)),
        _ => return None,
    };
    let (width, height) = size.unwrap_or_default();
    Some(Picture { media_type: media_type.to_owned(), width, height, bytes: Bytes::new() })
}

fn at<const N: usize>(bytes: &[u8], from: usize) -> Option<[u8; N]> {
    bytes.get(from..from.checked_add(N)?)?.try_into().ok()
}

/// Reads four bytes at this offset as a big-endian number.
pub(crate) fn big(bytes: &[u8], from: usize) -> Option<u32> {
    at(bytes, from).map(u32::from_be_bytes)
}

/// Reads two bytes at this offset as a big-endian number.
pub(crate) fn short_big(bytes: &[u8], from: usize) -> Option<u16> {
    at(bytes, from).map(u16::from_be_bytes)
}

fn little(bytes: &[u8], from: usize) -> Option<u32> {
    at(bytes, from).map(u32::from_le_bytes)
}

fn short(bytes: &[u8], from: usize) -> Option<u32> {
    at(bytes, from).map(u16::from_le_bytes).map(u32::from)
}

fn pair(bytes: &[u8], width: usize, height: usize) -> Option<(u32, u32)> {
    short(bytes, width).zip(short(bytes, height))
}

/// A bitmap stored top-down has a negative height.
fn magnitude(height: u32) -> u32 {
    height.cast_signed().unsigned_abs()
}

/// Size from the first frame header of a JPEG; segments before it are skipped.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let short = |from: usize| short_big(bytes, from);
    let mut from = 2;
    loop {
        let [0xff, marker] = at(bytes, from)? else { return None };
        match marker {
            0xff => from += 1,
            // The three excluded markers are tables and an extension, and contain no size.
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                // The height comes before the width.
                return Some((short(from + 7)?.into(), short(from + 5)?.into()));
            }
            // These markers have no length.
            0x01 | 0xd0..=0xd8 => from += 2,
            // A length includes its own two bytes; a smaller value is invalid and must not stall the loop.
            _ => from += 2 + usize::from(short(from + 2)?.max(2)),
        }
    }
}

/// Size from the first directory of a TIFF.
fn tiff(bytes: &[u8]) -> Option<(u32, u32)> {
    let is_little = bytes.starts_with(b"II");
    let word = |from: usize| {
        at(bytes, from).map(|two| if is_little { u16::from_le_bytes(two) } else { u16::from_be_bytes(two) })
    };
    let long = |from: usize| if is_little { little(bytes, from) } else { big(bytes, from) };
    let directory = usize::try_from(long(4)?).ok()?;
    let value = |tag: u16| {
        let entries = 0..usize::from(word(directory)?);
        let entry = entries.map(|entry| directory + 2 + entry * 12).find(|from| word(*from) == Some(tag))?;
        match word(entry + 2)? {
            // The value is left-aligned in a field of four bytes.
            3 => word(entry + 8).map(u32::from),
            _ => long(entry + 8),
        }
    };
    // The tags `ImageWidth` and `ImageLength`.
    value(256).zip(value(257))
}

/// Size of a WebP, in any of its three variants.
fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes.get(12..16)? {
        b"VP8X" => {
            // Stored minus one.
            let three = |from| at::<3>(bytes, from).map(|[a, b, c]| u32::from_le_bytes([a, b, c, 0]) + 1);
            three(24).zip(three(27))
        }
        b"VP8L" => little(bytes, 21).map(|bits| ((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1)),
        // The upper two bits of each are a scale, not a size.
        b"VP8 " => pair(bytes, 26, 28).map(|(width, height)| (width & 0x3fff, height & 0x3fff)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use weft_core::seam::document_reader::Position;

    use super::*;

    #[test]
    fn picture_sizes_are_read_from_headers() {
        let check = |bytes: &[u8], media_type: &str, size: (u32, u32)| {
            let picture = of_file(bytes).unwrap();
            assert_eq!((picture.media_type.as_str(), (picture.width, picture.height)), (media_type, size));
            for end in 0..bytes.len() {
                let _ = of_file(&bytes[..end]);
            }
        };
        check(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\0\0\0\0\x02", "image/png", (256, 2));
        check(b"GIF89a\x03\0\x04\0", "image/gif", (3, 4));
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc2\0\x11\x08\0\x05\0\x06";
        check(jpeg, "image/jpeg", (6, 5));
        let mut bitmap = b"BM".to_vec();
        bitmap.resize(14, 0);
        bitmap.extend([40, 0, 0, 0]);
        bitmap.extend([7, 0, 0, 0, 0xf8, 0xff, 0xff, 0xff]);
        check(&bitmap, "image/bmp", (7, 8));
        let tiff = b"II*\0\x08\0\0\0\x02\0\0\x01\x03\0\x01\0\0\0\x09\0\0\0\x01\x01\x04\0\x01\0\0\0\x0a\0\0\0";
        check(tiff, "image/tiff", (9, 10));
        check(b"RIFF0000WEBPVP8X0000\0\0\0\0\x0a\0\0\x0b\0\0", "image/webp", (11, 12));
        check(b"RIFF0000WEBPVP8L0000\x2f\x0b\x40\x03\0", "image/webp", (12, 14));
        check(b"RIFF0000WEBPVP8 0000000\x9d\x01\x2a\x0d\0\x0e\0", "image/webp", (13, 14));
        // A false header has no size, and is refused by its reader.
        check(b"\xff\xd8\xff", "image/jpeg", (0, 0));
        assert!(of_file(b"%PDF-1.7").is_none());
        assert!(of_file(b"BMW builds cars, and has done so for a long time.").is_none());
    }

    #[test]
    fn pictures_of_a_file_are_bounded() {
        let mut pictures = Pictures::default();
        assert!(!pictures.takes(8, 400, ""));
        assert!(!pictures.takes(60_000, 60_000, " on page 3"));
        let small = Picture { bytes: Bytes::from_static(b"x"), ..Picture::default() };
        for page in 0..3_000 {
            if pictures.takes(100, 100, "") {
                let place = Position { page, ..Position::default() };
                pictures.push(FoundPicture { place, picture: small.clone(), ..FoundPicture::default() });
            }
        }
        let found = pictures.finish();
        assert_eq!(found.pictures.len(), PICTURES_MAX);
        assert_eq!(found.warnings.len(), 2, "{:?}", found.warnings);
    }
}
