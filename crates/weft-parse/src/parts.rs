//! Collects the elements of a file as a reader finds them, within limits.

use weft_core::seam::document_reader::{PictureReading, Position};
use weft_core::value::Json;

use crate::element::{Element, ElementBody, Parsed, TableElement};
use crate::pictures::{PictureText, PictureTexts};
use crate::words::{cell_lines, line, lines, lines_with_tabs};

/// Maximum number of elements of one file.
const ELEMENTS_MAX: usize = 500_000;
/// Maximum text of one file, in bytes.
const TEXT_BYTES_MAX: usize = 128 << 20;
/// Maximum length of one metadata value, in characters.
const METADATA_CHARS_MAX: usize = 1_000;
/// Maximum number of warnings for one file.
const WARNINGS_MAX: usize = 50;

/// How the text of table cells is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CellText {
    /// Each on one line, as it is searched and displayed.
    #[default]
    OneLine,
    /// With line breaks preserved, for callers that need the exact value.
    Lines,
}

/// Collects the elements of a file. White space is normalized, and empty elements are dropped.
#[derive(Debug, Default)]
pub(crate) struct PartCollector {
    parsed: Parsed,
    /// The page, slide, sheet or chapter that is being read; 0 if the file has none.
    page: u32,
    text_bytes: usize,
    full: bool,
    pictures: PictureTexts,
    /// The picture in which some of the next element's text was read.
    shown: Option<u32>,
    cells: CellText,
}

impl PartCollector {
    /// Creates a collector that knows the texts read in the file's pictures.
    pub(crate) fn with_pictures(readings: &[PictureReading]) -> Self {
        Self { pictures: PictureTexts::of(readings), ..Self::default() }
    }

    /// Creates a collector that stores the cells of tables in this way.
    pub(crate) fn with_cells(cells: CellText) -> Self {
        Self { cells, ..Self::default() }
    }

    /// Returns the text read in the picture at this path of an archive. Each text is returned once, at the first place
    /// that shows the picture.
    pub(crate) fn picture_text(&mut self, part: &str) -> Option<PictureText> {
        self.pictures.take(part)
    }

    /// Records that some text of the next element was read in this picture. Of several pictures the first one counts.
    pub(crate) fn shows(&mut self, picture: Option<u32>) {
        self.shown = self.shown.or(picture);
    }

    /// Adds a paragraph whose text may have been read in a picture.
    pub(crate) fn read_paragraph(&mut self, read: &PictureText) {
        self.shows(read.picture);
        self.paragraph(&read.text);
    }

    /// Returns what was collected.
    pub(crate) fn finish(self) -> Parsed {
        self.parsed
    }

    /// Whether a limit was reached, so that the rest of the file need not be read.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// Adds a heading; its level is clamped to 1 to 9.
    pub(crate) fn heading(&mut self, level: u8, text: &str) {
        let text = line(text);
        if !text.is_empty() {
            self.push(ElementBody::Heading { level: level.clamp(1, 9), text });
        }
    }

    /// Adds a paragraph; its line breaks are kept.
    pub(crate) fn paragraph(&mut self, text: &str) {
        let text = lines(text);
        if !text.is_empty() {
            self.push(ElementBody::Paragraph(text));
        }
    }

    /// Adds a paragraph of plain text, in which tabs are significant.
    pub(crate) fn plain(&mut self, text: &str) {
        let text = if text.contains('\t') { lines_with_tabs(text) } else { lines(text) };
        if !text.is_empty() {
            self.push(ElementBody::Paragraph(text));
        }
    }

    /// Adds an item of a list.
    pub(crate) fn item(&mut self, depth: u8, text: &str) {
        let text = lines(text);
        if !text.is_empty() {
            self.push(ElementBody::Item { depth, text });
        }
    }

    /// Adds program text, in which white space is significant.
    pub(crate) fn code(&mut self, language: Option<String>, text: &str) {
        let text = text.trim_matches('\n').trim_end();
        if !text.trim().is_empty() {
            self.push(ElementBody::Code { language, text: text.replace('\0', "") });
        }
    }

    /// Adds a table. Empty rows, and empty cells at the end of rows, are dropped.
    pub(crate) fn table(&mut self, table: TableElement) {
        let header_rows = table.header_rows;
        let kept: fn(&str) -> String = match self.cells {
            CellText::OneLine => line,
            CellText::Lines => cell_lines,
        };
        let (mut kept_headers, mut is_cut) = (0, false);
        let mut left = TEXT_BYTES_MAX.saturating_sub(self.text_bytes);
        let mut rows = Vec::with_capacity(table.rows.len());
        for (number, cells) in table.rows.into_iter().enumerate() {
            let mut row: Vec<String> = cells.iter().map(|cell| kept(cell)).collect();
            row.truncate(row.iter().rposition(|cell| !cell.is_empty()).map_or(0, |last| last + 1));
            if !row.is_empty() {
                // The beginning of a large table is better than nothing.
                let Some(rest) = left.checked_sub(row_size(&row)) else {
                    is_cut = true;
                    break;
                };
                left = rest;
                kept_headers += usize::from(number < header_rows);
                rows.push(row);
            }
        }
        let caption = table.caption.map(|caption| line(&caption)).filter(|caption| !caption.is_empty());
        if !rows.is_empty() {
            self.push(ElementBody::Table(TableElement { caption, header_rows: kept_headers, rows }));
        }
        // After the table was added, so that its beginning is kept.
        if is_cut && !self.full {
            self.fill();
        }
    }

    /// Adds a picture, if the file gives a description of it.
    pub(crate) fn image(&mut self, caption: &str) {
        let caption = line(caption);
        if !caption.is_empty() {
            self.push(ElementBody::Image { caption });
        }
    }

    /// Starts the next page, slide, sheet or chapter; the elements that follow are on it.
    pub(crate) fn page(&mut self, name: Option<String>) {
        self.page += 1;
        self.parsed.pages = self.page;
        self.push_at(ElementBody::Break { number: self.page, name }, Vec::new());
    }

    /// Sets the number of pages of the file, where it differs from the number of pages read.
    pub(crate) fn pages(&mut self, count: u32) {
        self.parsed.pages = count;
    }

    /// Adds a warning about something that could not be read.
    pub(crate) fn warn(&mut self, warning: impl Into<String>) {
        if self.parsed.warnings.len() < WARNINGS_MAX {
            self.parsed.warnings.push(warning.into());
        }
    }

    /// Adds a metadata value; the first value of a key wins.
    pub(crate) fn say(&mut self, key: &str, value: &str) {
        let value: String = line(value).chars().take(METADATA_CHARS_MAX).collect();
        if !value.is_empty() && !self.parsed.metadata.contains_key(key) {
            self.parsed.metadata.insert(key.to_owned(), Json::String(value));
        }
    }

    /// Adds everything from another file that is part of this one, such as an attachment.
    pub(crate) fn include(&mut self, other: Parsed) {
        // Its page numbers mean nothing in this file: its elements are on the page that contains it.
        for element in other.elements.into_iter().filter(|one| !matches!(one.body, ElementBody::Break { .. }))
        {
            self.shows(element.picture);
            self.push(element.body);
        }
        for warning in other.warnings {
            self.warn(warning);
        }
    }

    fn push(&mut self, body: ElementBody) {
        let positions = match self.page {
            0 => Vec::new(),
            page => vec![Position { page, ..Position::default() }],
        };
        self.push_at(body, positions);
    }

    /// Adds an element whose position is known.
    pub(crate) fn push_at(&mut self, body: ElementBody, positions: Vec<Position>) {
        if self.full {
            return;
        }
        self.text_bytes = self.text_bytes.saturating_add(size(&body));
        if self.parsed.elements.len() >= ELEMENTS_MAX || self.text_bytes > TEXT_BYTES_MAX {
            self.fill();
            return;
        }
        // A page break can come between `shows` and the element that it refers to.
        let begins_page = matches!(body, ElementBody::Break { .. });
        let picture = if begins_page { None } else { self.shown.take() };
        self.parsed.elements.push(Element { picture, ..Element::new(body, positions) });
    }

    fn fill(&mut self) {
        self.full = true;
        self.warn("the file is too large: its rest was left out");
    }
}

/// Bytes of text in an element.
fn size(body: &ElementBody) -> usize {
    match body {
        ElementBody::Heading { text, .. }
        | ElementBody::Paragraph(text)
        | ElementBody::Item { text, .. }
        | ElementBody::Code { text, .. } => text.len(),
        ElementBody::Table(table) => table.rows.iter().map(|row| row_size(row)).sum(),
        ElementBody::Image { caption } => caption.len(),
        ElementBody::Break { name, .. } => name.as_ref().map_or(0, String::len),
    }
}

fn row_size(row: &[String]) -> usize {
    // Each cell costs its `String` as well as its text, so millions of short cells are large too.
    row.iter().map(|cell| cell.len() + size_of::<String>()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_parts_are_dropped_and_whitespace_normalised() {
        let mut parts = PartCollector::default();
        parts.heading(0, " A \n heading ");
        parts.paragraph(" \u{200b}\n ");
        parts.item(0, "one\u{a0}\u{a0}two\n\n three ");
        parts.table(TableElement {
            caption: Some(" ".to_owned()),
            header_rows: 2,
            rows: vec![vec![String::new(); 3], vec!["a\nb".into(), String::new()], vec!["c".into()]],
        });
        let bodies: Vec<ElementBody> =
            parts.finish().elements.into_iter().map(|element| element.body).collect();
        assert_eq!(
            bodies,
            [
                ElementBody::Heading { level: 1, text: "A heading".into() },
                ElementBody::Item { depth: 0, text: "one two\nthree".into() },
                ElementBody::Table(TableElement {
                    caption: None,
                    header_rows: 1,
                    rows: vec![vec!["a b".into()], vec!["c".into()]],
                }),
            ]
        );
    }

    #[test]
    fn excess_text_is_truncated_with_a_notice() {
        let mut parts = PartCollector::default();
        for _ in 0..=ELEMENTS_MAX {
            parts.paragraph("x");
        }
        parts.paragraph("x");
        assert!(parts.is_full());
        let parsed = parts.finish();
        assert_eq!(parsed.elements.len(), ELEMENTS_MAX);
        assert_eq!(parsed.warnings, ["the file is too large: its rest was left out"]);
    }

    #[test]
    fn an_oversized_table_keeps_its_beginning() {
        let rows = vec![vec!["cell".to_owned()]; 9];
        let mut parts = PartCollector {
            text_bytes: TEXT_BYTES_MAX - 2 * row_size(&rows[0]) - 1,
            ..PartCollector::default()
        };
        parts.table(TableElement { caption: None, header_rows: 0, rows });
        assert!(parts.is_full());
        let parsed = parts.finish();
        assert!(matches!(&parsed.elements[0].body, ElementBody::Table(table) if table.rows.len() == 2));
        assert_eq!(parsed.warnings, ["the file is too large: its rest was left out"]);
    }

    #[test]
    fn elements_after_a_page_mark_belong_to_that_page() {
        let mut parts = PartCollector::default();
        parts.page(Some("one".to_owned()));
        parts.paragraph("x");
        let parsed = parts.finish();
        assert_eq!((parsed.pages, parsed.elements[1].positions[0].page), (1, 1));
    }
}
