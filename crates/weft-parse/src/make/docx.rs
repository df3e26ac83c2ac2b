//! Writes Word documents.

use std::io::Cursor;

use docx_rs::{
    AlignmentType, BreakType, Docx, Footer, Header, Hyperlink, HyperlinkType, LineSpacing, PageNum,
    PageOrientationType, Paragraph, Pic, Run, RunFonts, SpecialIndentType, Style as DocxStyle, StyleType,
    Table, TableCell, TableRow, WidthType,
};
use weft_core::Result;
use weft_core::seam::document_writer::PageSettings;

use super::blocks::{TextBlock, TextRun, may_stand};
use super::direction::Direction;
use super::unwritten::unwritten;
use crate::markup::escaped;
use crate::pictures::of_file;

/// Default text size, in points.
const TEXT_SIZE: u32 = 11;
/// Indentation for each level, in twentieths of a point.
const STEP: i32 = 360;
/// A4 in landscape orientation, in twentieths of a point.
const LANDSCAPE: (u32, u32) = (16_838, 11_906);
/// Width of a table that fills the page, in fiftieths of a percent.
const WHOLE_WIDTH: usize = 5_000;
/// Size of a pixel, and the space for a picture on a page, in EMU (914,400 to the inch).
const PIXEL: u64 = 9_525;
const ROOM: (u64, u64) = (5_486_400, 7_315_200);
/// Maximum width and height of a picture, in pixels.
const PIXELS_MAX: u32 = 50_000;
/// Font size of a watermark, in half points.
const WATERMARK_SIZE: usize = 72;

/// Writes blocks as a document.
///
/// # Errors
/// `Invalid` if it cannot be written.
pub(super) fn write(blocks: &[TextBlock], page: &PageSettings) -> Result<Vec<u8>> {
    let size = if page.font_size == 0 { TEXT_SIZE } else { page.font_size } as usize;
    // The library counts in half points.
    let mut document = Docx::new().default_size(size * 2);
    for level in 1..=6_usize {
        // Word recognizes headings by these names, whatever its language.
        let style = DocxStyle::new(format!("Heading{level}"), StyleType::Paragraph)
            .name(format!("heading {level}"))
            .outline_lvl(level - 1)
            .size(heading_size(size, level))
            .bold();
        document = document.add_style(style);
    }
    if page.landscape {
        document = document.page_size(LANDSCAPE.0, LANDSCAPE.1).page_orient(PageOrientationType::Landscape);
    }
    if let Some(header) = header(page) {
        document = document.header(header);
    }
    if let Some(footer) = footer(page) {
        document = document.footer(footer);
    }
    for block in blocks {
        document = match block {
            TextBlock::Heading(level, spans) => {
                document.add_paragraph(with(spaced(240, 120).style(&format!("Heading{level}")), spans))
            }
            TextBlock::Paragraph(quotes, spans) => {
                document.add_paragraph(with(indented(spaced(0, 120), *quotes), spans))
            }
            TextBlock::Item(depth, marker, spans) => {
                let left = STEP * i32::try_from(depth + 1).unwrap_or(1);
                let paragraph =
                    spaced(0, 40).indent(Some(left), Some(SpecialIndentType::Hanging(STEP)), None, None);
                let mark = Run::new().add_text(marker).add_tab();
                document.add_paragraph(with(paragraph.add_run(mark), spans))
            }
            TextBlock::Code(text) => {
                document.add_paragraph(spaced(80, 160).add_run(mono(lines(Run::new(), text))))
            }
            TextBlock::Picture(bytes, words) => {
                let run = match picture(bytes) {
                    Some(picture) => Run::new().add_image(picture),
                    None => Run::new().add_text(words),
                };
                document.add_paragraph(spaced(80, 160).add_run(run))
            }
            // Without a paragraph in between Word merges adjacent tables.
            TextBlock::Table(rows) => document.add_table(table(rows)).add_paragraph(Paragraph::new()),
            TextBlock::Rule => {
                document.add_paragraph(Paragraph::new().add_run(Run::new().add_text("\u{2500}".repeat(20))))
            }
        };
    }
    let mut bytes = Cursor::new(Vec::new());
    let mut document = document.build();
    document.styles = with_default(&document.styles);
    document.doc_props.core = titled(&document.doc_props.core, &page.title);
    document.pack(&mut bytes).map_err(|cause| unwritten("document", cause))?;
    Ok(bytes.into_inner())
}

/// Marks the default paragraph style, which other programs look for; the library does not mark one.
fn with_default(styles: &[u8]) -> Vec<u8> {
    const NORMAL: &str = "w:styleId=\"Normal\"";
    let marked = format!("w:default=\"1\" {NORMAL}");
    String::from_utf8_lossy(styles).replacen(NORMAL, &marked, 1).into_bytes()
}

/// A picture at its own size, scaled down to fit the page; `None` if its size cannot be read from its bytes.
fn picture(bytes: &[u8]) -> Option<Pic> {
    let (width, height) = of_file(bytes).map(|picture| (picture.width, picture.height))?;
    if [width, height].into_iter().any(|pixels| !(1..=PIXELS_MAX).contains(&pixels)) {
        return None;
    }
    let (mut wide, mut high) = (u64::from(width) * PIXEL, u64::from(height) * PIXEL);
    if wide > ROOM.0 {
        (wide, high) = (ROOM.0, high * ROOM.0 / wide);
    }
    if high > ROOM.1 {
        (wide, high) = (wide * ROOM.1 / high, ROOM.1);
    }
    let length = |length: u64| u32::try_from(length.max(PIXEL)).unwrap_or(u32::MAX);
    Some(Pic::new_with_dimensions(bytes.to_vec(), width, height).size(length(wide), length(high)))
}

/// Adds the title to the document properties; the library does not support it.
fn titled(core: &[u8], title: &str) -> Vec<u8> {
    const CREATOR: &str = "<dc:creator>";
    let title = format!("<dc:title>{}</dc:title>{CREATOR}", escaped(&allowed(title)));
    // The library names `unknown` as author and as last editor.
    String::from_utf8_lossy(core).replacen(CREATOR, &title, 1).replacen(">unknown<", ">weft<", 2).into_bytes()
}

/// Removes characters that a document must not contain from a page setting; blocks contain none already.
fn allowed(text: &str) -> String {
    text.chars().filter(|letter| may_stand(*letter)).collect()
}

/// A paragraph with space above and below, in twentieths of a point.
fn spaced(above: u32, below: u32) -> Paragraph {
    Paragraph::new().line_spacing(LineSpacing::new().before(above).after(below))
}

/// Size of a heading, in half points.
fn heading_size(size: usize, level: usize) -> usize {
    let more = [9, 6, 4, 2, 1, 0];
    2 * (size + more[level.clamp(1, more.len()) - 1])
}

fn header(page: &PageSettings) -> Option<Header> {
    let mut header = Header::new();
    let texts = [&page.header, &page.timestamp];
    for text in texts.into_iter().filter(|text| !text.is_empty()) {
        header = header.add_paragraph(Paragraph::new().add_run(Run::new().add_text(allowed(text))));
    }
    if !page.watermark.is_empty() {
        let run = Run::new().add_text(allowed(&page.watermark)).color("D0D0D0").size(WATERMARK_SIZE);
        header = header.add_paragraph(Paragraph::new().align(AlignmentType::Center).add_run(run));
    }
    (!header.children.is_empty()).then_some(header)
}

fn footer(page: &PageSettings) -> Option<Footer> {
    let mut footer = Footer::new();
    if !page.footer.is_empty() {
        footer = footer.add_paragraph(Paragraph::new().add_run(Run::new().add_text(allowed(&page.footer))));
    }
    if page.page_numbers {
        footer =
            footer.add_paragraph(Paragraph::new().align(AlignmentType::Center).add_page_num(PageNum::new()));
    }
    (!footer.children.is_empty()).then_some(footer)
}

fn indented(paragraph: Paragraph, depth: usize) -> Paragraph {
    match depth {
        0 => paragraph,
        depth => paragraph.indent(Some(STEP * i32::try_from(depth).unwrap_or(1)), None, None, None),
    }
}

fn with(mut paragraph: Paragraph, spans: &[TextRun]) -> Paragraph {
    let text: String = spans.iter().map(|span| span.text.as_str()).collect();
    if Direction::of(&text) == Direction::RightToLeft {
        paragraph.property = paragraph.property.bidi(true);
    }
    for span in spans {
        let run = run(span);
        paragraph = match &span.link {
            None => paragraph.add_run(run),
            Some(link) => {
                // The colour of links in Word.
                let run = run.color("0563C1").underline("single");
                paragraph.add_hyperlink(Hyperlink::new(allowed(link), HyperlinkType::External).add_run(run))
            }
        };
    }
    paragraph
}

fn run(span: &TextRun) -> Run {
    let mut run = lines(Run::new(), &span.text);
    if span.style.bold {
        run = run.bold();
    }
    if span.style.italic {
        run = run.italic();
    }
    if span.style.strike {
        run = run.strike();
    }
    if span.style.code { mono(run) } else { run }
}

fn mono(run: Run) -> Run {
    run.fonts(RunFonts::new().ascii("Courier New").hi_ansi("Courier New"))
}

fn lines(mut run: Run, text: &str) -> Run {
    for (place, line) in text.split('\n').enumerate() {
        if place > 0 {
            run = run.add_break(BreakType::TextWrapping);
        }
        run = run.add_text(line);
    }
    run
}

fn table(rows: &[Vec<Vec<TextRun>>]) -> Table {
    let width = rows.iter().map(Vec::len).max().unwrap_or(1).max(1);
    let row = |(place, cells): (usize, &Vec<Vec<TextRun>>)| {
        let cell = |column: usize| {
            let mut spans = cells.get(column).cloned().unwrap_or_default();
            if place == 0 {
                spans.iter_mut().for_each(|span| span.style.bold = true);
            }
            TableCell::new().add_paragraph(with(Paragraph::new(), &spans))
        };
        TableRow::new((0..width).map(cell).collect())
    };
    Table::new(rows.iter().enumerate().map(row).collect()).width(WHOLE_WIDTH, WidthType::Pct)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::super::blocks::blocks;
    use super::*;
    use crate::element::ElementBody;

    #[test]
    fn pictures_are_in_the_file_and_a_paragraph_has_a_style() {
        let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
        let text = format!("before\n\n![dot](data:image/png;base64,{png})\n\nafter");
        let bytes = write(&blocks(&text), &PageSettings::default()).unwrap();
        let mut archive = zip::ZipArchive::new(Cursor::new(&bytes)).unwrap();
        let names: Vec<String> = archive.file_names().map(|name| name.unwrap().into_owned()).collect();
        assert!(
            names.iter().any(|name| name.starts_with("word/media/") && name.ends_with(".png")),
            "{names:?}"
        );
        let mut styles = String::new();
        archive.by_name("word/styles.xml").unwrap().read_to_string(&mut styles).unwrap();
        assert_eq!(styles.matches("w:default=\"1\" w:styleId=\"Normal\"").count(), 1, "{styles}");
        assert!(picture(b"\x89PNG\r\n\x1a\n").is_none());
    }

    #[test]
    fn the_file_contains_no_invalid_xml_characters() {
        let text = "a\u{1}b [c](https://e.example/&#1;)\n\n```\n\u{1b}[0mcode\n```\n";
        let page = PageSettings {
            header: "head\u{2}".to_owned(),
            footer: "foot\u{3}".to_owned(),
            watermark: "mark\u{4}".to_owned(),
            title: "title\u{5}".to_owned(),
            ..PageSettings::default()
        };
        let bytes = write(&blocks(text), &page).unwrap();
        let mut archive = zip::ZipArchive::new(Cursor::new(&bytes)).unwrap();
        for place in 0..archive.len() {
            let mut part = String::new();
            archive.by_index(place).unwrap().read_to_string(&mut part).unwrap();
            assert!(part.chars().all(|c| matches!(c, '\n' | '\r' | '\t') || may_stand(c)), "{part:?}");
        }
    }

    #[test]
    fn generated_files_can_be_read() {
        let text = "# A & <b>\n\nOne **two** [three](https://e.example/?a=1&b=2)\n\n- x\n  - y\n\n| h | i |\n|---|---|\n| 1 | 汉 |\n\n```\nlet a = \"<\";\nb\n```\n";
        let page = PageSettings {
            header: "top & more".to_owned(),
            footer: "foot".to_owned(),
            watermark: "DRAFT".to_owned(),
            page_numbers: true,
            landscape: true,
            title: "Big & <small>".to_owned(),
            ..PageSettings::default()
        };
        let bytes = write(&blocks(text), &page).unwrap();
        let mut core = String::new();
        let mut archive = zip::ZipArchive::new(Cursor::new(&bytes)).unwrap();
        archive.by_name("docProps/core.xml").unwrap().read_to_string(&mut core).unwrap();
        assert!(core.contains("<dc:title>Big &amp; &lt;small&gt;</dc:title>"), "{core}");
        let read = crate::parse("x.docx", &bytes, &serde_json::Map::new()).unwrap();
        let bodies: Vec<&ElementBody> = read.elements.iter().map(|element| &element.body).collect();
        assert!(
            matches!(bodies[0], ElementBody::Heading { level: 1, text } if text == "A & <b>"),
            "{bodies:?}"
        );
        assert!(
            matches!(bodies[1], ElementBody::Paragraph(text) if text.starts_with("One two three")),
            "{bodies:?}"
        );
        let table = bodies.iter().find_map(|body| match body {
            ElementBody::Table(table) => Some(&table.rows),
            _ => None,
        });
        assert_eq!(table.unwrap(), &[["h", "i"], ["1", "汉"]]);
        assert!(
            bodies
                .iter()
                .any(|body| matches!(body, ElementBody::Paragraph(text) if text.contains("let a = \"<\";"))),
            "{bodies:?}"
        );
    }
}
