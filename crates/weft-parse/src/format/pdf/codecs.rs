//! Pictures compressed with JBIG2 or JPEG 2000, as in scans.
//!
//! The declared size is checked before decoding. Anything else that a hostile file does to a decoder is bounded by the
//! memory and time limits of the worker process.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_oxide::extractors::{ColorSpace, ImageData, PdfImage, PixelFormat};
use weft_core::seam::picture_reader::PIXELS_MAX;

use crate::pictures::{big, short_big};

/// Maximum number of samples of a JPEG 2000 picture that has lower resolutions to choose from. An A4 page in colour at
/// 300 dots per inch has 26 million samples, and each takes at least four bytes during decoding.
const SAMPLES_WANTED: u64 = 32 << 20;
/// Maximum number of samples of a picture that has no lower resolution.
const SAMPLES_MAX: u64 = 96 << 20;

/// Maximum amount of white space after a stream, which writers add and which does not belong to it.
const TRAILING_MAX: usize = 10;

/// Decodes a JBIG2 picture, whose segments are in the document without a file header. `globals` is the data shared with
/// other pictures, and `black` the value of black pixels: 0, or 255 if the document inverts them.
///
/// # Errors
/// If it is damaged, or larger than pictures may be.
pub(super) fn jbig2(bytes: &[u8], globals: Option<&[u8]>, black: u8) -> Result<PdfImage, String> {
    guarded(|| {
        let settings = hayro_jbig2::DecodeSettings::default();
        let globals = globals.map(|bytes| hayro_jbig2::Globals::new(bytes, &settings)).transpose();
        let globals = globals.map_err(|cause| cause.to_string())?;
        let page = hayro_jbig2::Page::new_embedded(bytes, globals.as_ref(), &settings);
        let page = page.map_err(|cause| cause.to_string())?;
        let (width, height) = (page.width(), page.height());
        let mut rows = BlackWhitePixels { samples: room(pixels(width, height)?)?, values: [!black, black] };
        page.decode(&mut rows).map_err(|cause| cause.to_string())?;
        image(width, height, Channels { count: 1, kept: 1 }, rows.samples)
    })
}

/// Describes what is missing in a JBIG2 picture that was decoded leniently: the decoder treats a truncated stream as
/// complete and skips what it does not understand. The picture is decoded again to find the reason only if nothing at
/// all is visible.
pub(super) fn jbig2_lack(bytes: &[u8], globals: Option<&[u8]>, image: &PdfImage) -> Option<String> {
    let strict = hayro_jbig2::DecodeSettings { strict: true };
    let is_cut = |bytes: &[u8]| {
        let eof = hayro_jbig2::DecodeError::Parse(hayro_jbig2::ParseError::UnexpectedEof);
        hayro_jbig2::Page::new_embedded(bytes, None, &strict).is_err_and(|cause| cause == eof)
    };
    let is_blank = || match image.data() {
        ImageData::Raw { pixels, .. } => pixels.iter().all(|pixel| Some(pixel) == pixels.first()),
        ImageData::Jpeg(_) => false,
    };
    let whole = || -> hayro_jbig2::Result<()> {
        let usual = hayro_jbig2::DecodeSettings::default();
        let globals = globals.map(|bytes| hayro_jbig2::Globals::new(bytes, &usual)).transpose()?;
        let page = hayro_jbig2::Page::new_embedded(bytes, globals.as_ref(), &strict)?;
        page.decode(&mut DiscardedPixels)
    };
    let blanks =
        bytes.iter().rev().take(TRAILING_MAX).take_while(|byte| matches!(byte, 0 | b'\r' | b'\n' | b' '));
    let lack = || {
        if (0..=blanks.count()).all(|blanks| is_cut(&bytes[..bytes.len() - blanks])) {
            return Ok(Some("it ends early".to_owned()));
        }
        Ok(if is_blank() { whole().err().map(|cause| cause.to_string()) } else { None })
    };
    guarded(lack).unwrap_or_else(Some)
}

/// Decodes a JPEG 2000 picture, with or without its file format; at a lower resolution if it is too large.
///
/// # Errors
/// As [`jbig2`].
pub(super) fn jpeg2000(bytes: &[u8]) -> Result<PdfImage, String> {
    jpeg2000_within(bytes, SAMPLES_WANTED)
}

fn jpeg2000_within(bytes: &[u8], wanted: u64) -> Result<PdfImage, String> {
    guarded(|| {
        let declared = DeclaredSize::of(bytes).ok_or("its header is damaged")?;
        pixels(declared.width, declared.height)?;
        let settings = hayro_jpeg2000::DecodeSettings {
            target_resolution: declared.target(wanted),
            ..hayro_jpeg2000::DecodeSettings::default()
        };
        let packed = hayro_jpeg2000::Image::new(bytes, &settings).map_err(|cause| cause.to_string())?;
        let (width, height) = (packed.width(), packed.height());
        let count = pixels(width, height)?;
        if (count as u64).saturating_mul(declared.components.into()) > SAMPLES_MAX {
            let components = declared.components;
            return Err(format!("it has {width} × {height} pixels of {components} values in one resolution"));
        }
        let mut context = hayro_jpeg2000::DecoderContext::default();
        let decoded = packed.decode(&mut context).map_err(|cause| cause.to_string())?;
        let planes = decoded.components();
        if planes.is_empty() || planes.iter().any(|plane| plane.samples().len() != count) {
            return Err("its parts are of different sizes".to_owned());
        }
        let planes = planes.len();
        let colours = planes - usize::from(packed.has_alpha() && planes > 1);
        // Unknown colour spaces are read as shades of grey, and so are pictures with an alpha channel.
        let kept = if matches!(colours, 3 | 4) { colours } else { 1 };
        image(width, height, Channels { count: planes, kept }, decoded.data_u8())
    })
}

/// Turns a panic of a decoder into an error.
fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err("its decoder crashes on it".to_owned()))
}

/// Number of pixels of a picture of this size, if that is within the limit for pictures.
fn pixels(width: u32, height: u32) -> Result<usize, String> {
    let count = u64::from(width) * u64::from(height);
    match usize::try_from(count) {
        Ok(pixels) if count > 0 && count <= PIXELS_MAX => Ok(pixels),
        _ => Err(format!("it has {width} × {height} pixels")),
    }
}

/// Allocates a buffer with this capacity.
fn room(count: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(count).map_err(|_| "there is not enough memory for it".to_owned())?;
    Ok(bytes)
}

/// Number of values of a pixel, and how many of them, from the first on, are its colour.
#[derive(Clone, Copy)]
struct Channels {
    count: usize,
    kept: usize,
}

fn image(width: u32, height: u32, channels: Channels, samples: Vec<u8>) -> Result<PdfImage, String> {
    let Channels { count, kept } = channels;
    let pixels = if kept == count {
        samples
    } else {
        let mut colours = room(samples.len() / count * kept)?;
        samples.chunks_exact(count).for_each(|pixel| colours.extend_from_slice(&pixel[..kept]));
        colours
    };
    if pixels.len() as u64 != u64::from(width) * u64::from(height) * kept as u64 {
        return Err("it has fewer pixels than it says".to_owned());
    }
    let (space, format) = match kept {
        4 => (ColorSpace::DeviceCMYK, PixelFormat::CMYK),
        3 => (ColorSpace::DeviceRGB, PixelFormat::RGB),
        _ => (ColorSpace::DeviceGray, PixelFormat::Grayscale),
    };
    Ok(PdfImage::new(width, height, space, 8, ImageData::Raw { pixels, format }))
}

/// Collects the pixels of a black and white picture, one byte for each.
struct BlackWhitePixels {
    samples: Vec<u8>,
    /// Values of white and of black pixels.
    values: [u8; 2],
}

impl hayro_jbig2::Decoder for BlackWhitePixels {
    fn push_pixel(&mut self, black: bool) {
        self.samples.push(self.values[usize::from(black)]);
    }

    fn push_pixel_chunk(&mut self, black: bool, chunk_count: u32) {
        let value = self.values[usize::from(black)];
        self.samples.extend(std::iter::repeat_n(value, chunk_count as usize * 8));
    }

    fn next_line(&mut self) {}
}

/// Discards the pixels.
struct DiscardedPixels;

impl hayro_jbig2::Decoder for DiscardedPixels {
    fn push_pixel(&mut self, _: bool) {}

    fn push_pixel_chunk(&mut self, _: bool, _: u32) {}

    fn next_line(&mut self) {}
}

/// The size that a JPEG 2000 picture declares.
#[derive(Debug, PartialEq, Eq)]
struct DeclaredSize {
    width: u32,
    height: u32,
    components: u16,
}

impl DeclaredSize {
    /// Reads the size marker, which comes first.
    fn of(bytes: &[u8]) -> Option<Self> {
        let stream = codestream(bytes)?;
        // The image is the reference grid without the offset of the image (Xsiz − XOsiz).
        let side = |end: usize, start: usize| big(stream, end)?.checked_sub(big(stream, start)?);
        stream.starts_with(b"\xff\x4f\xff\x51").then_some(())?;
        Some(Self { width: side(8, 16)?, height: side(12, 20)?, components: short_big(stream, 40)? })
    }

    /// Size to request if the picture has more samples than wanted: a half, a quarter … of the width and height.
    fn target(&self, wanted: u64) -> Option<(u32, u32)> {
        let samples = u64::from(self.width)
            .saturating_mul(u64::from(self.height))
            .saturating_mul(u64::from(self.components));
        let halvings = (0..16).find(|halvings| samples >> (2 * halvings) <= wanted).unwrap_or(16);
        let side = |whole: u32| (whole >> halvings).max(1);
        (halvings > 0).then(|| (side(self.width), side(self.height)))
    }
}

/// The codestream of a JPEG 2000 file, which is a sequence of boxes; the last one if there are several.
fn codestream(bytes: &[u8]) -> Option<&[u8]> {
    if bytes.starts_with(b"\xff\x4f\xff\x51") {
        return Some(bytes);
    }
    let (mut rest, mut found) = (bytes, None);
    while let Some(kind) = rest.get(4..8) {
        // 0: the box extends to the end of the file; 1: its length follows in eight bytes.
        let (head, length) = match big(rest, 0)? {
            0 => (8, rest.len()),
            1 => (16, usize::try_from(u64::from(big(rest, 8)?) << 32 | u64::from(big(rest, 12)?)).ok()?),
            length => (8, usize::try_from(length).ok()?),
        };
        // A box that claims to extend beyond the end of the file ends with it.
        let end = length.min(rest.len());
        let body = rest.get(head..end)?;
        if kind == b"jp2c" {
            found = Some(body);
        }
        rest = rest.get(end..)?;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &[u8] = include_bytes!("../../../tests/it/files/scans/symbols.jb2");
    const PAGE: &[u8] = include_bytes!("../../../tests/it/files/scans/page.jb2");
    const GRAY: &[u8] = include_bytes!("../../../tests/it/files/scans/gray.jp2");
    const COLOUR: &[u8] = include_bytes!("../../../tests/it/files/scans/colour.j2k");
    /// Where the regions of the page declare how they combine with the content below.
    const REGIONS: [usize; 2] = [58, 99];
    /// Each symbol stands for four by four pixels.
    const DRAWN: [&str; 8] = [
        ".............",
        ".#...###.#...",
        ".#....#..#...",
        ".#....#..#...",
        ".###..#..###.",
        ".............",
        ".###########.",
        ".............",
    ];

    fn samples(image: &PdfImage) -> &[u8] {
        match image.data() {
            ImageData::Raw { pixels, .. } => pixels,
            ImageData::Jpeg(_) => panic!("not unpacked"),
        }
    }

    /// The content of a greyscale picture, as drawn above.
    fn drawn(image: &PdfImage, scale: usize) -> Vec<String> {
        let rows = samples(image).chunks(image.width() as usize);
        let sign = |sample: &u8| if *sample < 128 { '#' } else { '.' };
        rows.skip(scale / 2)
            .step_by(scale)
            .map(|row| row.iter().skip(scale / 2).step_by(scale).map(sign).collect())
            .collect()
    }

    #[test]
    fn jbig2_is_decoded_with_and_without_globals() {
        let image = jbig2(PAGE, Some(SYMBOLS), 0).unwrap();
        assert_eq!((image.width(), image.height()), (52, 32));
        assert_eq!(drawn(&image, 4), DRAWN);
        let black = samples(&image).iter().filter(|sample| **sample == 0).count();
        assert_eq!(black, DRAWN.concat().matches('#').count() * 16);
        let turned: Vec<u8> =
            samples(&jbig2(PAGE, Some(SYMBOLS), 255).unwrap()).iter().map(|sample| !sample).collect();
        assert_eq!(turned, samples(&image));
        // Without its symbols there is the line below them.
        let bare = jbig2(PAGE, None, 0).unwrap();
        assert_eq!(drawn(&bare, 4)[6], DRAWN[6]);
    }

    #[test]
    fn incomplete_jbig2_is_recognised() {
        let lack = |bytes: &[u8]| {
            let image = jbig2(bytes, Some(SYMBOLS), 0).unwrap();
            jbig2_lack(bytes, Some(SYMBOLS), &image)
        };
        assert_eq!(lack(PAGE), None);
        // Writers leave line ends after streams.
        assert_eq!(lack(&[PAGE, b"\r\n"].concat()), None);
        for end in [PAGE.len() - 1, PAGE.len() - 30, 60] {
            assert_eq!(lack(&PAGE[..end]).as_deref(), Some("it ends early"), "{end}");
        }
        // A blank page that declares itself blank is complete.
        assert_eq!(lack(&PAGE[..30]), None);
        // Both regions combine with the content below in an undefined way.
        let mut damaged = PAGE.to_vec();
        (damaged[REGIONS[0]], damaged[REGIONS[1]]) = (7, 7);
        assert!(lack(&damaged).is_some());
    }

    #[test]
    fn jpeg_2000_is_decoded_in_grey_and_colour() {
        let image = jpeg2000(GRAY).unwrap();
        assert_eq!((image.width(), image.height()), (52, 32));
        assert_eq!(drawn(&image, 4), DRAWN);
        let image = jpeg2000(COLOUR).unwrap();
        assert_eq!((image.width(), image.height(), *image.color_space()), (40, 32, ColorSpace::DeviceRGB));
        let pixel = |column: usize| samples(&image)[column * 3..column * 3 + 3].to_vec();
        assert_eq!(
            (pixel(0), pixel(19), pixel(20)),
            (vec![200, 30, 10], vec![200, 30, 10], vec![10, 60, 220])
        );
    }

    #[test]
    fn oversized_pictures_are_decoded_at_reduced_size() {
        let image = jpeg2000_within(GRAY, 500).unwrap();
        assert_eq!((image.width(), image.height()), (26, 16));
        let declared = DeclaredSize { width: 4_960, height: 7_016, components: 3 };
        assert_eq!(declared.target(SAMPLES_WANTED), Some((2_480, 3_508)));
        assert_eq!(DeclaredSize { components: 1, width: 2_480, ..declared }.target(SAMPLES_WANTED), None);
        let most = DeclaredSize { width: u32::MAX, height: u32::MAX, components: u16::MAX };
        assert!(most.target(SAMPLES_WANTED).is_some());
    }

    #[test]
    fn sizes_are_checked_before_decoding() {
        assert_eq!(DeclaredSize::of(GRAY), Some(DeclaredSize { width: 52, height: 32, components: 1 }));
        assert_eq!(DeclaredSize::of(COLOUR), Some(DeclaredSize { width: 40, height: 32, components: 3 }));
        let huge = 60_000_u32.to_be_bytes();
        let mut stream = COLOUR.to_vec();
        stream[8..12].copy_from_slice(&huge);
        stream[12..16].copy_from_slice(&huge);
        assert_eq!(jpeg2000(&stream).unwrap_err(), "it has 60000 × 60000 pixels");
        // After the header of the page information segment.
        let mut page = PAGE.to_vec();
        page[11..15].copy_from_slice(&huge);
        page[15..19].copy_from_slice(&huge);
        assert_eq!(jbig2(&page, Some(SYMBOLS), 0).unwrap_err(), "it has 60000 × 60000 pixels");
        let many = [&COLOUR[..40], &[0x40, 0], &COLOUR[42..]].concat();
        assert!(jpeg2000(&many).is_err());
    }

    #[test]
    fn damaged_pictures_are_refused_or_partly_read() {
        for whole in [GRAY, COLOUR, PAGE] {
            for end in 0..whole.len() {
                drop(jpeg2000(&whole[..end]));
                drop(jbig2(&whole[..end], Some(SYMBOLS), 0));
            }
            // The data after the headers.
            for at in whole.len() / 2..whole.len() {
                let mut damaged = whole.to_vec();
                damaged[at] ^= 0x55;
                drop(jpeg2000(&damaged));
                drop(jbig2(&damaged, Some(SYMBOLS), 0));
            }
        }
        for end in 0..SYMBOLS.len() {
            drop(jbig2(PAGE, Some(&SYMBOLS[..end]), 0));
        }
        assert!(jpeg2000(b"").is_err() && jbig2(b"", None, 0).is_err());
    }
}
