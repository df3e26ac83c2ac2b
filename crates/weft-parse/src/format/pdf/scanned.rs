//! Pages and figures that are pictures: finds them, and adds the text that was read in them.

use pdf_oxide::extractors::{ColorSpace, ImageData, PdfImage, PixelFormat};
use pdf_oxide::{PdfDocument, PdfFilter, PdfImageHandle};
use weft_core::seam::document_reader::{FoundPicture, FoundPictures, PictureReading, Position};
use weft_core::seam::picture_reader::Picture;

use super::frame::PageFrame;
use super::layout;
use super::line::{PageBlock, PageLine};
use super::masks::Mask;
use super::outline::OutlineLevels;
use super::packed::{PackedImages, Unpacked};
use super::page::PdfPage;
use crate::element::{Element, ElementBody};
use crate::parts::PartCollector;
use crate::pictures::Pictures;
use crate::words::lines;

/// The height of a line's box depends on which letters occur in it, and most lines contain tall ones: only a line that
/// is higher than most by the first factor, or lower by the second, is in another type size.
const HIGHER: f32 = 1.2;
const LOWER: f32 = 0.4;
/// Type size as a fraction of the height of a line's box.
const TYPE_SHARE: f32 = 0.8;

/// Extracts the pictures of pages.
pub(super) fn pictures(document: &PdfDocument, numbers: impl Iterator<Item = usize>) -> FoundPictures {
    let mut pictures = Pictures::default();
    for number in numbers {
        if pictures.is_full() {
            break;
        }
        let index = number - 1;
        let Ok(images) = document.page_image_handles(index) else { continue };
        if images.is_empty() {
            continue;
        }
        let frame = PageFrame::of(document, number);
        let page_turn = document.get_page_rotation(index).unwrap_or_default();
        // On a page with text a picture is a figure; on one without it is the page itself.
        let is_figure = PdfPage::read(document, number).is_ok_and(|page| !page.is_empty());
        let mut packed = PackedImages::new(document, index);
        for image in images {
            let place = frame.turned(frame.rectangle(image.bbox), page_turn);
            // The mask of a figure cuts out its edges, but the mask of a page contains its letters.
            let mask = if is_figure { None } else { packed.mask(&image) };
            let (width, height) =
                mask.as_ref().map_or((image.width, image.height), |mask| mask.size_of(&image));
            if !pictures.takes(width, height, &format!(" on page {number}")) {
                continue;
            }
            let turn = turn_of(page_turn, image.rotation_degrees);
            match file_of(&image, turn, mask.as_ref(), &mut packed) {
                Ok((picture, lack)) => {
                    pictures.push(FoundPicture { place, is_figure, picture, ..FoundPicture::default() });
                    if let Some(reason) = lack {
                        let said = "is damaged, and its missing part was not read";
                        pictures.warn(format!("a picture on page {number} {said} ({reason})"));
                    }
                }
                Err(reason) => pictures
                    .warn(format!("a picture on page {number} has an unsupported encoding ({reason})")),
            }
        }
    }
    pictures.finish()
}

/// Clockwise rotation that makes a picture upright: its page is rotated clockwise, and the picture is drawn on it
/// counterclockwise.
#[expect(clippy::cast_possible_truncation, reason = "a number of degrees below 360")]
fn turn_of(page: i32, drawn: f32) -> i32 {
    let turn = (page - drawn.round() as i32).rem_euclid(360);
    // Other angles are left to the picture reader.
    if turn % 90 == 0 { turn } else { 0 }
}

/// Rotates a picture clockwise.
fn turned(image: &PdfImage, turn: i32) -> pdf_oxide::Result<PdfImage> {
    let pixels = image.to_dynamic_image()?;
    let pixels = match turn {
        90 => pixels.rotate90(),
        180 => pixels.rotate180(),
        _ => pixels.rotate270(),
    };
    let (width, height, is_coloured) = (pixels.width(), pixels.height(), pixels.color().has_color());
    let (space, format, pixels) = if is_coloured {
        (ColorSpace::DeviceRGB, PixelFormat::RGB, pixels.into_rgb8().into_raw())
    } else {
        (ColorSpace::DeviceGray, PixelFormat::Grayscale, pixels.into_luma8().into_raw())
    };
    Ok(PdfImage::new(width, height, space, 8, ImageData::Raw { pixels, format }))
}

/// Writes a picture to a file, drawn through its mask and rotated clockwise, and reports what is missing in it. A file
/// that the document contains is used as it is if it is upright; anything else becomes a PNG.
fn file_of(
    image: &PdfImageHandle<'_>,
    turn: i32,
    mask: Option<&Mask>,
    packed: &mut PackedImages<'_>,
) -> Result<(Picture, Option<String>), String> {
    let reason = |cause: pdf_oxide::Error| cause.to_string().chars().take(200).collect::<String>();
    // Programs interpret four colour components differently.
    if turn == 0
        && mask.is_none()
        && image.filter_chain == [PdfFilter::DCTDecode]
        && image.color_space != ColorSpace::DeviceCMYK
    {
        let bytes = image.raw_compressed_bytes().map_err(reason)?;
        if bytes.starts_with(b"\xff\xd8\xff") {
            let (width, height) = (image.width, image.height);
            let media_type = "image/jpeg".to_owned();
            return Ok((Picture { media_type, width, height, bytes: bytes.into() }, None));
        }
    }
    let Unpacked { image: mut decoded, lack } = packed.unpacked(image)?;
    if let Some(mask) = mask {
        decoded = mask.through(&decoded).map_err(reason)?;
    }
    if turn != 0 {
        decoded = turned(&decoded, turn).map_err(reason)?;
    }
    let bytes = decoded.to_png_bytes().map_err(reason)?;
    let (width, height) = (decoded.width(), decoded.height());
    Ok((Picture { media_type: "image/png".to_owned(), width, height, bytes: bytes.into() }, lack))
}

/// Adds the text that was read on pages without text, as ordinary lines.
pub(super) fn fill(pages: &mut [PdfPage], readings: &[PictureReading]) {
    for reading in readings.iter().filter(|reading| !reading.is_figure) {
        let number = usize::try_from(reading.place.page).unwrap_or_default();
        if let Some(page) = pages.iter_mut().find(|page| page.number == number) {
            page.blocks.extend(blocks(reading));
            // Its picture has been read, so nothing is missing on the page.
            page.has_pictures = false;
        }
    }
}

/// The lines of a picture as lines of a page. Lines of unknown position are placed one below the other.
fn blocks(reading: &PictureReading) -> Vec<PageBlock> {
    let place = reading.place;
    #[expect(clippy::cast_precision_loss, reason = "lines of a page are few")]
    let height = (place.bottom - place.top) / reading.lines.len().max(1) as f32;
    let mut top = place.top;
    let mut blocks = Vec::new();
    for line in &reading.lines {
        let slice = Position { top, bottom: top + height, ..place };
        top += height;
        let text = crate::words::line(&line.text);
        if !text.is_empty() {
            let place = line.place.unwrap_or(slice);
            let size = ((place.bottom - place.top) * TYPE_SHARE).max(1.0);
            let line = PageLine { text, place, size, is_bold: false, is_mono: false, has_cells: false };
            blocks.push(line);
        }
    }
    let mut sizes: Vec<f32> = blocks.iter().map(|line| line.size).collect();
    sizes.sort_by(f32::total_cmp);
    let usual = sizes.get(sizes.len() / 2).copied().unwrap_or(1.0);
    for line in &mut blocks {
        if line.size < usual * HIGHER && line.size > usual * LOWER {
            line.size = usual;
        }
    }
    blocks.into_iter().map(PageBlock::Line).collect()
}

/// Adds the text that was read in a picture file.
pub(crate) fn read_lines(reading: &PictureReading, parts: &mut PartCollector) {
    let height = reading.place.bottom - reading.place.top;
    let page =
        PdfPage { number: 1, height, has_pictures: false, blocks: blocks(reading), fields: Vec::new() };
    let mut read = PartCollector::default();
    layout::add(&[page], &OutlineLevels::new(), &mut read);
    let mut elements = read.finish().elements;
    place(&mut elements, std::slice::from_ref(reading));
    for element in elements {
        parts.shows(element.picture);
        parts.push_at(element.body, element.positions);
    }
}

/// Records which picture elements were read in, uses the picture's position for elements whose own is unknown, and
/// inserts figures between the elements of their pages.
pub(super) fn place(elements: &mut Vec<Element>, readings: &[PictureReading]) {
    for reading in readings {
        let page = reading.place.page;
        if reading.is_figure {
            let text: Vec<&str> = reading.lines.iter().map(|line| line.text.as_str()).collect();
            let caption = lines(&text.join("\n"));
            if !caption.is_empty() {
                let at = below(elements, reading.place);
                let figure = Element::new(ElementBody::Image { caption }, vec![reading.place]);
                elements.insert(at, Element { picture: reading.picture, ..figure });
            }
            continue;
        }
        let is_placed = reading.lines.iter().any(|line| line.place.is_some());
        for element in elements.iter_mut().filter(|element| !element.positions.is_empty()) {
            let inside = |position: &Position| {
                position.page == page
                    && position.top >= reading.place.top - 0.5
                    && position.bottom <= reading.place.bottom + 0.5
            };
            // A paragraph that continues on the next page belongs to the picture in which it begins.
            if element.positions.first().is_some_and(inside) {
                element.picture = element.picture.or(reading.picture);
            }
            if !is_placed && element.positions.iter().all(inside) {
                element.positions = vec![reading.place];
            }
        }
    }
}

/// Index at which an element at this position is inserted: after the last element of its page that begins above it, or
/// after the start of the page.
fn below(elements: &[Element], place: Position) -> usize {
    let begins = |element: &Element| match &element.body {
        ElementBody::Break { number, .. } => *number == place.page,
        _ => element.positions.first().is_some_and(|own| own.page == place.page && own.top <= place.top),
    };
    let earlier = |element: &Element| match &element.body {
        ElementBody::Break { number, .. } => *number < place.page,
        _ => element.positions.last().is_some_and(|own| own.page < place.page),
    };
    let last = elements.iter().rposition(begins).or_else(|| elements.iter().rposition(earlier));
    last.map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use weft_core::seam::document_reader::ReadingLine;

    use super::*;

    fn at(page: u32, top: f32, bottom: f32) -> Position {
        Position { page, left: 0.0, right: 100.0, top, bottom }
    }

    #[test]
    fn lines_without_positions_get_that_of_their_picture() {
        let line = |text: &str| ReadingLine { text: text.to_owned(), place: None };
        let lines = vec![line("First line"), line("goes on."), line(""), line("Second paragraph.")];
        let reading = PictureReading { place: at(1, 0.0, 400.0), lines, ..PictureReading::default() };
        let mut parts = PartCollector::default();
        read_lines(&reading, &mut parts);
        let elements = parts.finish().elements;
        let texts: Vec<String> = elements
            .iter()
            .filter_map(|element| match &element.body {
                ElementBody::Paragraph(text) => Some(text.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(texts, ["First line goes on.", "Second paragraph."]);
        assert!(elements.iter().all(|one| one.positions.is_empty() || one.positions == [reading.place]));
    }

    #[test]
    fn pictures_are_rotated_as_displayed() {
        let pixels = vec![1, 2, 3, 4, 5, 6];
        let image = ImageData::Raw { pixels, format: PixelFormat::Grayscale };
        let image = PdfImage::new(3, 2, ColorSpace::DeviceGray, 8, image);
        let check = |turn: i32, size: (u32, u32), expected: &[u8]| {
            let turned = turned(&image, turn).unwrap();
            assert_eq!((turned.width(), turned.height()), size);
            assert!(
                matches!(turned.data(), ImageData::Raw { pixels, .. } if pixels == expected),
                "{turn}: {turned:?}"
            );
        };
        check(90, (2, 3), &[4, 1, 5, 2, 6, 3]);
        check(180, (3, 2), &[6, 5, 4, 3, 2, 1]);
        check(270, (2, 3), &[3, 6, 2, 5, 1, 4]);
        // A rotated page whose content is rotated back is upright.
        assert_eq!([turn_of(90, 90.0), turn_of(90, 0.0), turn_of(0, 90.0), turn_of(0, 7.0)], [0, 90, 270, 0]);
        assert_eq!(
            (turn_of(270, -90.0), turn_of(0, f32::NAN), turn_of(0, f32::MAX)),
            (0, 0, turn_of(0, f32::MAX))
        );
    }

    #[test]
    fn figures_are_placed_at_their_position() {
        let paragraph = |page, top| {
            let body = ElementBody::Paragraph(format!("{page} {top}"));
            Element::new(body, vec![at(page, top, top + 10.0)])
        };
        let mut elements = vec![paragraph(1, 10.0), paragraph(1, 200.0), paragraph(3, 10.0)];
        let figure = |page, top: f32, text: &str| PictureReading {
            place: at(page, top, top + 50.0),
            part: String::new(),
            is_figure: true,
            picture: None,
            lines: vec![ReadingLine { text: text.to_owned(), place: None }],
        };
        place(
            &mut elements,
            &[figure(1, 100.0, "middle"), figure(2, 0.0, "between"), figure(9, 0.0, "last")],
        );
        let texts: Vec<&str> = elements
            .iter()
            .map(|element| match &element.body {
                ElementBody::Image { caption } => caption.as_str(),
                ElementBody::Paragraph(text) => text.as_str(),
                _ => "",
            })
            .collect();
        assert_eq!(texts, ["1 10", "middle", "1 200", "between", "3 10", "last"]);
    }
}
