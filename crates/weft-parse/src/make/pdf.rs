//! Writes PDFs: this module lays blocks out in lines and pages; a library encodes the result.
//!
//! A letter is set in the built-in font if that contains it, otherwise in the operator's font. Italic text and program
//! text use standard fonts of PDF readers, as far as these contain the letters. A letter that no font contains is
//! replaced, and the caller is told which letters were: nothing is dropped silently.

mod layout;
mod letters;
mod page;
mod standard;

use pdf_oxide::elements::{ContentElement, FontSpec, TextContent, TextStyle};
use pdf_oxide::geometry::Rect;
use pdf_oxide::layout::Color;
use pdf_oxide::writer::{
    DocumentBuilder, DocumentMetadata, EmbeddedFont, LineStyle, LinkAnnotation, PageSize,
};
use weft_core::seam::document_writer::{MadeDocument, PageSettings};
use weft_core::{Error, Result};

use super::blocks::{RunStyle, TextBlock};
use super::unwritten::unwritten;
use layout::Layout;
use letters::Unwritable;
use page::{Drawn, SetPage};

/// Names of the built-in fonts.
const REGULAR: &str = "Regular";
const BOLD: &str = "Bold";
/// Name of the operator's font.
const OTHER: &str = "Other";
/// Default text size, in points.
const TEXT_SIZE: u32 = 11;
/// Maximum text size, in points.
const TEXT_SIZE_MAX: u32 = 72;

/// A font file for letters that the built-in fonts lack.
pub(crate) type Font<'a> = &'a [u8];

/// Fonts of a document.
pub(super) struct Fonts {
    regular: EmbeddedFont,
    bold: EmbeddedFont,
    other: Option<EmbeddedFont>,
    unwritable: Unwritable,
}

impl Fonts {
    fn open(other: Font<'_>) -> Result<Self> {
        let built_in = |name: &str, bytes: &[u8]| {
            EmbeddedFont::from_data(Some(name.to_owned()), bytes.to_vec())
                .map_err(|cause| Error::internal(format!("the built-in font cannot be read: {cause}")))
        };
        let other = match other {
            [] => None,
            bytes => {
                Some(EmbeddedFont::from_data(Some(OTHER.to_owned()), bytes.to_vec()).map_err(|cause| {
                    Error::invalid(format!("the font of `documents.font` cannot be read: {cause}"))
                        .help("name a font file in TrueType format")
                })?)
            }
        };
        Ok(Self {
            regular: built_in(REGULAR, pdf_oxide::fonts::bundled::DEJAVU_SANS)?,
            bold: built_in(BOLD, pdf_oxide::fonts::bundled::DEJAVU_SANS_BOLD)?,
            other,
            unwritable: Unwritable::default(),
        })
    }

    /// Returns the letter, or a replacement if no font contains it, with its font and width as in [`Fonts::find`].
    fn set(&self, letter: char, style: RunStyle) -> (char, &'static str, u16) {
        let found = |letter| self.find(letter, style).map(|(font, width)| (letter, font, width));
        found(letter).or_else(|| found(letters::similar(letter)?)).unwrap_or_else(|| {
            self.unwritable.note(letter);
            letters::INSTEAD.into_iter().find_map(found).unwrap_or((letter, REGULAR, 0))
        })
    }

    /// Finds the font that contains a letter, and its width in thousandths of the font size.
    fn find(&self, letter: char, style: RunStyle) -> Option<(&'static str, u16)> {
        let own = if style.bold { (BOLD, &self.bold) } else { (REGULAR, &self.regular) };
        let known =
            [Some(own), Some((REGULAR, &self.regular)), self.other.as_ref().map(|font| (OTHER, font))];
        standard::find(letter, style).or_else(|| {
            known.into_iter().flatten().find_map(|(name, font)| {
                // Glyph 0 is the box shown for a missing letter.
                let glyph = font.glyph_id(letter.into()).filter(|glyph| *glyph != 0)?;
                Some((name, font.glyph_width(glyph)))
            })
        })
    }

    /// Width of a letter in one of the fonts, in thousandths of the font size.
    fn width(&self, font: &str, letter: char) -> u16 {
        let font = match font {
            REGULAR => Some(&self.regular),
            BOLD => Some(&self.bold),
            OTHER => self.other.as_ref(),
            other => return standard::width(other, letter).unwrap_or_default(),
        };
        font.and_then(|font| Some(font.glyph_width(font.glyph_id(letter.into())?))).unwrap_or_default()
    }
}

/// Writes blocks as a PDF.
///
/// # Errors
/// `Invalid` for an invalid font, and for more pages than a document may have.
pub(super) fn write(blocks: &[TextBlock], page: &PageSettings, font: Font<'_>) -> Result<MadeDocument> {
    let fonts = Fonts::open(font)?;
    let size = if page.font_size == 0 { TEXT_SIZE } else { page.font_size.min(TEXT_SIZE_MAX) };
    let pages = Layout::new(&fonts, size, page).set(blocks)?;
    let unwritable = fonts.unwritable.all();
    let size = if page.landscape { PageSize::Custom(842.0, 595.0) } else { PageSize::A4 };
    let mut document = DocumentBuilder::new()
        .compress_streams(true)
        .metadata(DocumentMetadata::new().title(&page.title).creator("weft"))
        .register_embedded_font(REGULAR, fonts.regular)
        .register_embedded_font(BOLD, fonts.bold);
    if let Some(other) = fonts.other {
        document = document.register_embedded_font(OTHER, other);
    }
    for page in &pages {
        draw(&mut document, page, size);
    }
    let bytes = document.build().map_err(|cause| unwritten("PDF", cause))?;
    Ok(MadeDocument { bytes: bytes.into(), unwritable })
}

fn draw(document: &mut DocumentBuilder, page: &SetPage, size: PageSize) {
    let mut builder = document.page(size);
    for drawn in &page.drawn {
        builder = match drawn {
            Drawn::Line { from, to, grey } => {
                builder.stroke_line(from.x, from.y, to.x, to.y, LineStyle::new(0.5, *grey, *grey, *grey))
            }
            Drawn::Link { at, width, size, to } => {
                // Starts below the baseline, to cover descenders.
                let place = Rect::new(at.x, at.y - size * 0.25, *width, size * 1.25);
                builder.add_annotation(LinkAnnotation::uri(place, &**to))
            }
            Drawn::Text { at, text, font, size, width, grey } => {
                let style =
                    TextStyle { color: Color { r: *grey, g: *grey, b: *grey }, ..TextStyle::default() };
                builder.element(ContentElement::Text(TextContent {
                    text: text.clone(),
                    bbox: Rect::new(at.x, at.y, *width, *size),
                    font: FontSpec { name: (*font).to_owned(), size: *size },
                    style,
                    reading_order: None,
                    artifact_type: None,
                    origin: None,
                    rotation_degrees: None,
                    matrix: None,
                }))
            }
        };
    }
    builder.done();
}

#[cfg(test)]
mod tests {
    use super::super::blocks::blocks;
    use super::*;

    fn read(bytes: &[u8]) -> String {
        let read = crate::parse("x.pdf", bytes, &serde_json::Map::new()).unwrap();
        format!("{:?}", read.elements)
    }

    #[test]
    fn generated_files_can_be_read() {
        let text = "# Größe & Maß\n\nOne **two** *three* `four` Ωμέγα.\n\n- first\n- second\n\n| h | i |\n|---|---|\n| 1 | zwei |\n\n```\nlet a = 1;\n```\n";
        let page = PageSettings {
            header: "top".to_owned(),
            footer: "foot".to_owned(),
            page_numbers: true,
            ..PageSettings::default()
        };
        let MadeDocument { bytes, unwritable } = write(&blocks(text), &page, &[]).unwrap();
        assert_eq!(unwritable, "");
        assert!(bytes.starts_with(b"%PDF-"));
        let shown = read(&bytes);
        for part in ["Größe & Maß", "two", "three", "four", "Ωμέγα", "second", "zwei", "let a = 1;"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }

    #[test]
    fn a_character_missing_in_all_fonts_is_reported_and_replaced() {
        let text = "a 汉字 b 汉\n\n| ok | \u{2705}\u{fe0f} |\n|---|---|\n| no | \u{274c} |\n";
        let made = write(&blocks(text), &PageSettings::default(), &[]).unwrap();
        assert_eq!(made.unwritable, "汉字");
        let shown = read(&made.bytes);
        for part in ["a", "b", "\u{2714}", "\u{2718}"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert_eq!(Fonts::open(&[]).unwrap().set('汉', RunStyle::default()).0, '\u{fffd}');
        let broken = write(&[], &PageSettings::default(), b"no font at all").unwrap_err();
        assert!(broken.full().contains("documents.font"));
    }

    #[test]
    fn links_and_strikethrough_are_rendered() {
        let text = "See [the *whole* report](https://e.example/ä?a=(b)), ~~never~~ always.";
        let page = PageSettings::default();
        let fonts = Fonts::open(&[]).unwrap();
        let pages = Layout::new(&fonts, 11, &page).set(&blocks(text)).unwrap();
        let drawn = &pages[0].drawn;
        let links: Vec<(&str, f32)> = drawn
            .iter()
            .filter_map(|drawn| match drawn {
                Drawn::Link { to, width, .. } => Some((&**to, *width)),
                _ => None,
            })
            .collect();
        // One for the letters of each font.
        assert!(links.iter().all(|(to, _)| *to == "https://e.example/%C3%A4?a=(b)"), "{links:?}");
        assert!(links.iter().map(|(_, width)| width).sum::<f32>() > 80.0, "{links:?}");
        assert_eq!(drawn.iter().filter(|drawn| matches!(drawn, Drawn::Line { .. })).count(), 1);
        let bytes = write(&blocks(text), &page, &[]).unwrap().bytes;
        let address = br"(https://e.example/%C3%A4?a=\(b\))";
        assert!(bytes.windows(address.len()).any(|part| part == address));
    }

    #[test]
    fn emphasis_and_code_have_their_own_fonts() {
        let text = "One *two three* **four *five*** `six` *Größe* *Ωμ*\n\n```\nlet a = 1;\n```\n";
        let (page, fonts) = (PageSettings::default(), Fonts::open(&[]).unwrap());
        let pages = Layout::new(&fonts, 11, &page).set(&blocks(text)).unwrap();
        let seen: Vec<(&str, &str)> = pages[0]
            .drawn
            .iter()
            .filter_map(|drawn| match drawn {
                Drawn::Text { text, font, .. } => Some((text.trim(), *font)),
                Drawn::Line { .. } | Drawn::Link { .. } => None,
            })
            .collect();
        for expected in [
            ("two three", "Helvetica-Oblique"),
            ("four", BOLD),
            ("five", "Helvetica-BoldOblique"),
            ("six", "Courier"),
            ("Größe", "Helvetica-Oblique"),
            // Only Western European letters have an italic font.
            ("Ωμ", REGULAR),
            ("let a = 1;", "Courier"),
        ] {
            assert!(seen.contains(&expected), "{expected:?}: {seen:?}");
        }
        let bytes = write(&blocks(text), &page, &[]).unwrap().bytes;
        let shown = read(&bytes);
        for part in ["two three", "five", "six", "Größe", "let a = 1;"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }

    #[test]
    fn no_line_starts_with_a_comma() {
        let page = PageSettings::default();
        let fonts = Fonts::open(&[]).unwrap();
        for letters in 5..12 {
            let text = ("\u{6c49}".repeat(letters) + "\u{ff0c}").repeat(100);
            let pages = Layout::new(&fonts, 11, &page).set(&blocks(&text)).unwrap();
            for drawn in pages.iter().flat_map(|page| &page.drawn) {
                if let Drawn::Text { at, text, .. } = drawn {
                    assert!(at.x > 65.0 || !text.starts_with([',', '\u{ff0c}']), "{letters}: {text}");
                }
            }
        }
    }

    #[test]
    fn right_to_left_text_is_right_aligned() {
        let page = PageSettings::default();
        let fonts = Fonts::open(&[]).unwrap();
        let pages = Layout::new(&fonts, 11, &page).set(&blocks("שלום (42) abc\n\nabc שלום")).unwrap();
        let seen: Vec<(String, bool)> = pages[0]
            .drawn
            .iter()
            .filter_map(|drawn| match drawn {
                Drawn::Text { at, text, .. } => Some((text.clone(), at.x > 200.0)),
                Drawn::Line { .. } | Drawn::Link { .. } => None,
            })
            .collect();
        assert_eq!(seen, [("abc (42) םולש".to_owned(), true), ("abc םולש".to_owned(), false)]);
    }

    #[test]
    fn long_texts_span_pages() {
        let text = "word ".repeat(4_000) + &"x".repeat(3_000);
        let MadeDocument { bytes, .. } = write(&blocks(&text), &PageSettings::default(), &[]).unwrap();
        let read = crate::parse("x.pdf", &bytes, &serde_json::Map::new()).unwrap();
        assert!(read.pages > 5, "{}", read.pages);
        write(
            &[],
            &PageSettings { watermark: "DRAFT".to_owned(), landscape: true, ..PageSettings::default() },
            &[],
        )
        .unwrap();
    }
}
