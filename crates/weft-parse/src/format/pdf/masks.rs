//! Black and white masks through which pictures are drawn.
//!
//! A scan may be stored in layers: the paper as a picture, and over it the colours of the ink, drawn through a mask
//! that contains the letters. Without its mask the ink is just a few patches of colour.

use pdf_oxide::PdfImageHandle;
use pdf_oxide::extractors::{ColorSpace, ImageData, PdfImage, PixelFormat};

/// Brightness from which ink is taken for light letters on dark paper.
const LIGHT: u64 = 170;

/// Kind of a mask.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum MaskKind {
    /// The picture is drawn where the mask is black.
    Stencil,
    /// The picture is drawn where the mask is white.
    Soft,
}

/// A mask: where a picture is drawn.
pub(super) struct Mask {
    width: u32,
    height: u32,
    /// One byte for each pixel.
    samples: Vec<u8>,
    kind: MaskKind,
}

impl Mask {
    /// Creates a mask from a black and white picture.
    pub(super) fn new(mask: &PdfImage, kind: MaskKind) -> Option<Self> {
        let pixels = mask.to_dynamic_image().ok()?;
        let (width, height, samples) = (pixels.width(), pixels.height(), pixels.into_luma8().into_raw());
        (width > 0 && height > 0).then_some(Self { width, height, samples, kind })
    }

    /// Size of a picture drawn through this mask: the finer of the two resolutions.
    pub(super) fn size_of(&self, image: &PdfImageHandle<'_>) -> (u32, u32) {
        self.finer(image.width, image.height)
    }

    fn finer(&self, width: u32, height: u32) -> (u32, u32) {
        let pixels = |width: u32, height: u32| u64::from(width) * u64::from(height);
        if pixels(width, height) > pixels(self.width, self.height) {
            (width, height)
        } else {
            (self.width, self.height)
        }
    }

    /// Renders a picture through this mask in shades of grey, on paper that contrasts with it.
    pub(super) fn through(&self, image: &PdfImage) -> pdf_oxide::Result<PdfImage> {
        let ink = image.to_dynamic_image()?;
        let (ink_width, ink_height) = (ink.width(), ink.height());
        let ink = ink.into_luma8().into_raw();
        let (width, height) = self.finer(ink_width, ink_height);
        // Nearest-neighbour resampling.
        let nearest = |at: u32, of: u32, samples: u32| {
            u32::try_from(u64::from(at) * u64::from(samples) / u64::from(of)).unwrap_or_default()
        };
        let place = |x: u32, y: u32, size: (u32, u32)| {
            let (x, y) = (nearest(x, width, size.0), nearest(y, height, size.1));
            y as usize * size.0 as usize + x as usize
        };
        let drawn = |x: u32, y: u32| {
            let mask = self.samples.get(place(x, y, (self.width, self.height)))?;
            if (*mask < 128) != (self.kind == MaskKind::Stencil) {
                return None;
            }
            ink.get(place(x, y, (ink_width, ink_height))).copied()
        };
        let all = move || (0..height).flat_map(move |y| (0..width).map(move |x| (x, y)));
        let (sum, count) = all()
            .filter_map(|(x, y)| drawn(x, y))
            .fold((0_u64, 0_u64), |(sum, count), value| (sum + u64::from(value), count + 1));
        let paper = if sum > LIGHT * count { 0 } else { u8::MAX };
        let pixels = all().map(|(x, y)| drawn(x, y).unwrap_or(paper)).collect();
        let data = ImageData::Raw { pixels, format: PixelFormat::Grayscale };
        Ok(PdfImage::new(width, height, ColorSpace::DeviceGray, 8, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grey(width: u32, height: u32, pixels: &[u8]) -> PdfImage {
        let data = ImageData::Raw { pixels: pixels.to_vec(), format: PixelFormat::Grayscale };
        PdfImage::new(width, height, ColorSpace::DeviceGray, 8, data)
    }

    fn seen(mask: &PdfImage, kind: MaskKind, ink: &PdfImage) -> Vec<u8> {
        let through = Mask::new(mask, kind).unwrap().through(ink).unwrap();
        match through.data() {
            ImageData::Raw { pixels, .. } => pixels.clone(),
            ImageData::Jpeg(_) => Vec::new(),
        }
    }

    #[test]
    fn masks_keep_their_size_and_ink_colour() {
        let mask = grey(4, 2, &[0, 255, 255, 0, 255, 0, 255, 0]);
        let ink = grey(2, 1, &[10, 90]);
        assert_eq!(seen(&mask, MaskKind::Stencil, &ink), [10, 255, 255, 90, 255, 10, 255, 90]);
        assert_eq!(seen(&mask, MaskKind::Soft, &ink), [255, 10, 90, 255, 10, 255, 90, 255]);
        // A finer picture keeps its size.
        assert_eq!(seen(&grey(1, 1, &[0]), MaskKind::Stencil, &ink), [10, 90]);
    }

    #[test]
    fn light_text_is_rendered_on_a_dark_background() {
        let mask = grey(2, 1, &[0, 255]);
        assert_eq!(seen(&mask, MaskKind::Stencil, &grey(1, 1, &[250])), [250, 0]);
    }
}
