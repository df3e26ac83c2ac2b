//! Masks in black and white that pictures are drawn through.
//!
//! A scan may be kept in layers: the paper as a picture, and on it the colours of the ink, drawn through a mask that has the
//! letters. Without its mask the ink is a few patches of colour.

use pdf_oxide::PdfImageHandle;
use pdf_oxide::extractors::{ColorSpace, ImageData, PdfImage, PixelFormat};

/// From how bright on ink is taken for light letters on dark paper.
const LIGHT: u64 = 170;

/// The two kinds of masks.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum MaskKind {
    /// A picture is drawn where its mask is black.
    Stencil,
    /// Where it is white.
    Soft,
}

/// Where a picture is drawn.
pub(super) struct Mask {
    width: u32,
    height: u32,
    /// One value for each pixel.
    samples: Vec<u8>,
    kind: MaskKind,
}

impl Mask {
    /// That of a picture in black and white.
    pub(super) fn new(mask: &PdfImage, kind: MaskKind) -> Option<Self> {
        let pixels = mask.to_dynamic_image().ok()?;
        let (width, height, samples) = (pixels.width(), pixels.height(), pixels.into_luma8().into_raw());
        (width > 0 && height > 0).then_some(Self { width, height, samples, kind })
    }

    /// The size of a picture that was drawn through this: the finer of both.
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

    /// A picture as it is seen through this on paper that it stands out from, in shades of grey.
    pub(super) fn through(&self, image: &PdfImage) -> pdf_oxide::Result<PdfImage> {
        let ink = image.to_dynamic_image()?;
        let (ink_width, ink_height) = (ink.width(), ink.height());
        let ink = ink.into_luma8().into_raw();
        let (width, height) = self.finer(ink_width, ink_height);
        // The nearest of so many samples to one of others.
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
    fn letters_have_the_size_of_the_mask_and_the_colour_of_the_ink() {
        let mask = grey(4, 2, &[0, 255, 255, 0, 255, 0, 255, 0]);
        let ink = grey(2, 1, &[10, 90]);
        assert_eq!(seen(&mask, MaskKind::Stencil, &ink), [10, 255, 255, 90, 255, 10, 255, 90]);
        assert_eq!(seen(&mask, MaskKind::Soft, &ink), [255, 10, 90, 255, 10, 255, 90, 255]);
        // A finer picture keeps its size.
        assert_eq!(seen(&grey(1, 1, &[0]), MaskKind::Stencil, &ink), [10, 90]);
    }

    #[test]
    fn light_letters_stand_on_dark_paper() {
        let mask = grey(2, 1, &[0, 255]);
        assert_eq!(seen(&mask, MaskKind::Stencil, &grey(1, 1, &[250])), [250, 0]);
    }
}
