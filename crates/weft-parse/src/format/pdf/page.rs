//! One page: its lines in reading order, and its ruled tables.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_oxide::extractors::text::ArtifactType;
use pdf_oxide::geometry::Rect;
use pdf_oxide::layout::{FontWeight, TextSpan};
use pdf_oxide::structure::spatial_table_detector::{TableDetectionConfig, TableStrategy};
use pdf_oxide::{PdfDocument, ReadingOrder};
use weft_core::seam::document_reader::Position;

use super::order;
use crate::words::{is_unspaced, line};

/// Pieces of text on one page, at most.
const SPANS_MAX: usize = 100_000;
/// Between pieces that are farther apart than this part of the size of the type there is a blank.
const BLANK: f32 = 0.15;

/// A line of text.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What it says.
    pub text: String,
    /// Where it is.
    pub place: Position,
    /// The size of its type in points.
    pub size: f32,
    /// Whether all of it is bold.
    pub is_bold: bool,
    /// Whether all of its letters are equally wide.
    pub is_mono: bool,
    /// Whether it is a row of a table or a form rather than a line of a text.
    pub has_cells: bool,
}

/// What a page is made of.
#[derive(Clone, Debug)]
pub enum Block {
    /// Text.
    Line(Line),
    /// A table, row by row.
    Table(Vec<Vec<String>>, Position),
}

/// A page.
#[derive(Clone, Debug)]
pub struct Page {
    /// From 1 on.
    pub number: usize,
    /// How high it is, in points.
    pub height: f32,
    /// Whether there is a picture on it.
    pub has_pictures: bool,
    /// What is on it, in reading order.
    pub blocks: Vec<Block>,
}

/// The part of the page that is shown: left edge, upper edge, height.
#[derive(Clone, Copy)]
struct Frame {
    page: u32,
    left: f32,
    top: f32,
    height: f32,
}

impl Frame {
    /// A rectangle as people measure it: from the upper left corner.
    fn place(&self, rect: Rect) -> Position {
        let finite = |number: f32| if number.is_finite() { number } else { 0.0 };
        Position {
            page: self.page,
            left: finite(rect.x - self.left),
            right: finite(rect.x + rect.width - self.left),
            top: finite(self.top - rect.y - rect.height),
            bottom: finite(self.top - rect.y),
        }
    }
}

impl Page {
    /// Reads a page.
    ///
    /// # Errors
    /// With the reason, when the page is damaged or beyond the library.
    pub fn read(document: &PdfDocument, number: usize) -> Result<Self, String> {
        // A defect of the library on one page leaves the others.
        catch_unwind(AssertUnwindSafe(|| Self::read_unguarded(document, number)))
            .unwrap_or_else(|_| Err("the library for PDFs failed on it".to_owned()))
    }

    /// Whether there is no text on it.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    fn read_unguarded(document: &PdfDocument, number: usize) -> Result<Self, String> {
        let index = number - 1;
        let (left, bottom, _, top) = document.get_page_visible_box(index).unwrap_or((0.0, 0.0, 612.0, 792.0));
        let page = u32::try_from(number).unwrap_or(u32::MAX);
        let frame = Frame { page, left, top, height: top - bottom };
        let mut spans = document
            .extract_spans_with_reading_order(index, ReadingOrder::TopToBottom)
            .map_err(|cause| cause.to_string().chars().take(200).collect::<String>())?;
        spans.truncate(SPANS_MAX);
        let has_pictures =
            spans.is_empty() && document.page_image_handles(index).is_ok_and(|all| !all.is_empty());
        let tables = if spans.is_empty() { Vec::new() } else { tables(document, index, frame) };
        Ok(Self { number, height: frame.height, has_pictures, blocks: blocks(&spans, tables, frame) })
    }
}

type RuledTable = (Vec<Vec<String>>, Position);

/// Tables with lines between their rows and columns. What is a table by its blanks alone stays text: a
/// wrong guess would do more harm than a right one is of use.
fn tables(document: &PdfDocument, index: usize, frame: Frame) -> Vec<RuledTable> {
    // To look for them the library takes the text apart into words, which takes longer than all the rest.
    let is_ruled =
        document.extract_paths(index).is_ok_and(|all| all.iter().any(|path| path.is_table_primitive()));
    if !is_ruled {
        return Vec::new();
    }
    let config = TableDetectionConfig {
        horizontal_strategy: TableStrategy::Lines,
        vertical_strategy: TableStrategy::Lines,
        text_fallback: false,
        ..TableDetectionConfig::default()
    };
    let found = document.extract_tables_with_config(index, config).unwrap_or_default();
    let tables = found.into_iter().filter_map(|table| {
        let place = frame.place(table.bbox?);
        let rows: Vec<Vec<String>> =
            table.rows.iter().map(|row| row.cells.iter().map(|cell| line(&cell.text)).collect()).collect();
        let columns = rows.iter().map(|row| row.iter().filter(|cell| !cell.is_empty()).count()).max();
        (rows.len() > 1 && columns > Some(1)).then_some((rows, place))
    });
    tables.collect()
}

/// The blocks of a page. A table stands in front of the first line that begins below its upper edge.
fn blocks(spans: &[TextSpan], tables: Vec<RuledTable>, frame: Frame) -> Vec<Block> {
    let (mut upright, mut turned) = (Vec::new(), Vec::new());
    for span in spans.iter().filter(|span| !span.text.trim().is_empty() && !is_artifact(span)) {
        let line = Line::of(span, frame.place(span.bbox));
        if tables.iter().any(|(_, table)| is_within(line.place, *table)) {
            continue;
        }
        let list = if span.rotation_degrees == 0.0 { &mut upright } else { &mut turned };
        list.push(line);
    }
    let mut lines = order::lines(upright);
    // Text that stands on its side is rare, and comes last.
    lines.append(&mut turned);
    let mut tables = tables.into_iter().peekable();
    let mut blocks = Vec::new();
    for mut line in lines {
        line.text = plain(&line.text);
        while let Some((rows, place)) = tables.next_if(|(_, place)| place.top < line.place.top) {
            blocks.push(Block::Table(rows, place));
        }
        if !line.text.is_empty() {
            blocks.push(Block::Line(line));
        }
    }
    blocks.extend(tables.map(|(rows, place)| Block::Table(rows, place)));
    blocks
}

/// Heads, feet and numbers of pages, where the file marks them.
fn is_artifact(span: &TextSpan) -> bool {
    matches!(span.artifact_type, Some(ArtifactType::Pagination(_)))
}

fn is_within(place: Position, table: Position) -> bool {
    let (x, y) = ((place.left + place.right) / 2.0, (place.top + place.bottom) / 2.0);
    (table.left..=table.right).contains(&x) && (table.top..=table.bottom).contains(&y)
}

impl Line {
    fn of(span: &TextSpan, place: Position) -> Self {
        Self {
            text: span.text.clone(),
            place,
            size: if span.font_size.is_finite() { span.font_size.abs() } else { 0.0 },
            is_bold: is_bold(span),
            is_mono: is_mono(span),
            has_cells: false,
        }
    }

    /// Puts a piece of text behind it, with a blank where there is one between them.
    pub fn add(&mut self, piece: &Self) {
        let gap = piece.place.left - self.place.right;
        let size = self.size.max(piece.size).max(1.0);
        let is_tight = matches!(
            (self.text.chars().next_back(), piece.text.chars().next()),
            (Some(last), Some(first)) if is_unspaced(last) && is_unspaced(first) && gap < size
        );
        if gap > size * BLANK && !is_tight {
            self.text.push(' ');
        }
        // The size of most of the line is the line's.
        if piece.text.chars().count() > self.text.chars().count() {
            self.size = piece.size;
        }
        self.text.push_str(&piece.text);
        self.place.left = self.place.left.min(piece.place.left);
        self.place.right = self.place.right.max(piece.place.right);
        self.place.top = self.place.top.min(piece.place.top);
        self.place.bottom = self.place.bottom.max(piece.place.bottom);
        self.is_bold &= piece.is_bold;
        self.is_mono &= piece.is_mono;
        self.has_cells |= piece.has_cells;
    }

    /// How many Latin letters fit into its place, about.
    pub fn width_in_letters(&self) -> usize {
        let letters = (self.place.right - self.place.left) / (self.size.max(1.0) * 0.5);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cast stops at the limits"
        )]
        let letters = letters.max(0.0) as usize;
        letters
    }
}

fn is_bold(span: &TextSpan) -> bool {
    span.font_weight != FontWeight::Normal && span.font_weight != FontWeight::Light
        || span.font_name.contains("Bold")
}

fn is_mono(span: &TextSpan) -> bool {
    span.is_monospace
        || ["Mono", "Courier", "Consolas", "Menlo"].iter().any(|name| span.font_name.contains(name))
}

/// Letters that are drawn as one are two again.
fn plain(text: &str) -> String {
    let mut plain = without_leaders(&line(text));
    for (drawn, letters) in
        [('ﬀ', "ff"), ('ﬁ', "fi"), ('ﬂ', "fl"), ('ﬃ', "ffi"), ('ﬄ', "ffl"), ('ﬅ', "ft"), ('ﬆ', "st")]
    {
        if plain.contains(drawn) {
            plain = plain.replace(drawn, letters);
        }
    }
    plain
}

/// Rows of dots between a title and its page are one sign.
fn without_leaders(text: &str) -> String {
    const DOTS_MIN: usize = 4;
    let mut short = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('.') {
        let run = rest[at..].len() - rest[at..].trim_start_matches(['.', ' ']).len();
        let dots = rest[at..at + run].matches('.').count();
        if dots >= DOTS_MIN {
            short.push_str(rest[..at].trim_end());
            short.push_str(" … ");
        } else {
            short.push_str(&rest[..at + run]);
        }
        rest = &rest[at + run..];
    }
    short.push_str(rest);
    short
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn text_is_made_plain() {
        assert_eq!(plain("oﬃce"), "office");
        assert_eq!(plain("1.1 Title . . . . . . . . 12"), "1.1 Title … 12");
        assert_eq!(plain("Wait... what? 3.5"), "Wait... what? 3.5");
    }
}
