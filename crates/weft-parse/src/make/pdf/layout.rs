//! Lays out blocks in lines and pages. Pure code: it knows the widths of letters and does no I/O.

use weft_core::seam::document_writer::PageSettings;
use weft_core::{Error, Result};

use super::super::blocks::{RunStyle, TextBlock, TextRun};
use super::super::direction::{Direction, has_right_to_left, is_joiner, joined, mirrored, visual};
use super::Fonts;
use super::letters::may_part;
use super::page::{Drawn, Ink, PagePoint, SetPage};

/// Size of an A4 page, in points.
const SHORT_SIDE: f32 = 595.0;
const LONG_SIDE: f32 = 842.0;
/// Margin around the text.
const MARGIN: f32 = 64.0;
/// Distance of header and footer from the edge of the page.
const EDGE: f32 = 32.0;
/// Line height, as a multiple of the text size.
const LEADING: f32 = 1.4;
/// Indentation for each level.
const STEP: f32 = 18.0;
/// Padding within a table cell.
const PADDING: f32 = 4.0;
/// Sizes of headings, as multiples of the text size.
const HEADINGS: [f32; 6] = [1.8, 1.45, 1.25, 1.1, 1.0, 1.0];
/// Size of header, footer and page numbers, as a multiple of the text size.
const SMALL: f32 = 0.8;
/// Height of the strike-through line above the baseline, as a multiple of the letters' size.
const STRIKE: f32 = 0.27;
/// Size of a watermark.
const WATERMARK: f32 = 56.0;
/// Maximum number of pages in a document.
const PAGES_MAX: usize = 2_000;

/// Text size and maximum line width.
#[derive(Clone, Copy)]
struct Measure {
    size: f32,
    room: f32,
}

/// A fragment of a line: letters of one font and style.
#[derive(Clone, Debug)]
struct SetPiece {
    text: String,
    font: &'static str,
    width: f32,
    ink: Ink,
}

/// How the letters of a run are set.
struct SetStyle {
    style: RunStyle,
    ink: Ink,
}

/// A laid-out line.
#[derive(Clone, Debug, Default)]
struct SetLine {
    pieces: Vec<SetPiece>,
    width: f32,
    /// Direction of its text.
    direction: Direction,
}

/// Layout in progress.
pub(super) struct Layout<'a> {
    fonts: &'a Fonts,
    settings: &'a PageSettings,
    size: f32,
    width: f32,
    height: f32,
    pages: Vec<SetPage>,
    /// Position of the last line.
    y: f32,
}

impl<'a> Layout<'a> {
    /// Creates a layout with text of this size, in points.
    pub(super) fn new(fonts: &'a Fonts, size: u32, settings: &'a PageSettings) -> Self {
        let (width, height) =
            if settings.landscape { (LONG_SIDE, SHORT_SIDE) } else { (SHORT_SIDE, LONG_SIDE) };
        #[expect(clippy::cast_precision_loss, reason = "a size of letters is small")]
        let size = size as f32;
        Self { fonts, settings, size, width, height, pages: vec![SetPage::default()], y: height - MARGIN }
    }

    /// Lays out blocks on pages.
    ///
    /// # Errors
    /// `Invalid` for more pages than a document may have.
    pub(super) fn set(mut self, blocks: &[TextBlock]) -> Result<Vec<SetPage>> {
        if !self.settings.timestamp.is_empty() {
            let stamp = [span(&self.settings.timestamp)];
            self.paragraph(&stamp, 0.0, self.size * SMALL, self.size)?;
        }
        for (place, block) in blocks.iter().enumerate() {
            self.block(block, blocks.get(place + 1))?;
        }
        // Last, because the page numbers include the total.
        self.around();
        Ok(self.pages)
    }

    fn block(&mut self, block: &TextBlock, next: Option<&TextBlock>) -> Result<()> {
        let (size, gap) = (self.size, self.size * 0.6);
        match block {
            TextBlock::Heading(level, spans) => {
                let size = size * HEADINGS[usize::from(*level).clamp(1, HEADINGS.len()) - 1];
                let mut spans = spans.clone();
                spans.iter_mut().for_each(|span| span.style.bold = true);
                self.gap(gap);
                // A heading stays on the same page as the text below it.
                self.room(size * LEADING + self.size * LEADING * 2.0)?;
                self.paragraph(&spans, 0.0, size, gap)
            }
            TextBlock::Paragraph(quotes, spans) => self.paragraph(spans, steps(*quotes), size, gap),
            TextBlock::Item(depth, marker, spans) => {
                let left = steps(depth + 1);
                // The marker is drawn before the text, so the first line must be on the same page.
                self.room(size * LEADING)?;
                let y = self.y - size * LEADING;
                let mark = self.lines(&[span(marker)], size, f32::MAX);
                self.draw(mark.first(), MARGIN + left - STEP, y, size);
                let more = matches!(next, Some(TextBlock::Item(..)));
                self.paragraph(spans, left, size, if more { 0.0 } else { gap })
            }
            TextBlock::Code(text) => {
                for line in text.lines() {
                    let style = RunStyle { code: true, ..RunStyle::default() };
                    let line = TextRun { style, ..span(&line.replace('\t', "    ")) };
                    self.paragraph(&[line], STEP / 2.0, size * 0.9, 0.0)?;
                }
                self.gap(gap);
                Ok(())
            }
            TextBlock::Table(rows) => self.table(rows),
            TextBlock::Picture(_, words) => self.paragraph(&[span(words)], 0.0, size, gap),
            TextBlock::Rule => {
                self.room(gap * 2.0)?;
                self.y -= gap;
                self.line(
                    PagePoint { x: MARGIN, y: self.y },
                    PagePoint { x: self.width - MARGIN, y: self.y },
                );
                self.gap(gap);
                Ok(())
            }
        }
    }

    /// Lays out a paragraph, indented by `left`, in letters of a size, with the gap below it.
    fn paragraph(&mut self, spans: &[TextRun], left: f32, size: f32, gap: f32) -> Result<()> {
        // However deep the nesting, half of the page is left for the text.
        let left = left.min(self.width / 2.0 - MARGIN);
        let room = self.width - 2.0 * MARGIN - left;
        for line in self.lines(spans, size, room) {
            self.room(size * LEADING)?;
            self.y -= size * LEADING;
            let inside = match line.direction {
                Direction::LeftToRight => 0.0,
                Direction::RightToLeft => (room - line.width).max(0.0),
            };
            self.draw(Some(&line), MARGIN + left + inside, self.y, size);
        }
        self.gap(gap);
        Ok(())
    }

    fn table(&mut self, rows: &[Vec<Vec<TextRun>>]) -> Result<()> {
        let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
        if columns == 0 {
            return Ok(());
        }
        let size = self.size * 0.9;
        let widths = self.widths(rows, columns, size);
        let mut header: Option<Vec<Vec<SetLine>>> = None;
        for (place, row) in rows.iter().enumerate() {
            let row = self.row(row, place, &widths, size);
            let height = row_height(&row, size);
            // A row that is higher than a page begins at the top of one.
            if self.y - height < MARGIN && self.y < self.height - MARGIN {
                self.new_page()?;
                if let Some(header) = header.as_ref().filter(|_| place > 0) {
                    self.draw_row(header, &widths, size)?;
                }
            }
            self.draw_row(&row, &widths, size)?;
            if place == 0 {
                header = Some(row);
            }
        }
        self.gap(self.size);
        Ok(())
    }

    /// Computes column widths: each column gets the width of its longest cell; if space is short, the wide ones share
    /// what is left equally.
    fn widths(&self, rows: &[Vec<Vec<TextRun>>], columns: usize, size: f32) -> Vec<f32> {
        // Every column has room for at least one letter.
        let mut wanted = vec![size + 2.0 * PADDING; columns];
        for (place, row) in rows.iter().enumerate() {
            for (column, cell) in row.iter().enumerate() {
                let lines = self.lines(&cell_spans(cell, place), size, f32::MAX);
                // A little more, so that rounding does not break the longest line.
                let widest = lines.iter().map(|line| line.width).fold(0.0, f32::max) + 2.0 * PADDING + 1.0;
                wanted[column] = wanted[column].max(widest);
            }
        }
        let room = self.width - 2.0 * MARGIN;
        // Narrowest first: the space that they leave is shared among the wider ones.
        let mut order: Vec<usize> = (0..columns).collect();
        order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
        let (mut left, mut widths) = (room, vec![0.0; columns]);
        for (place, column) in order.into_iter().enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "a table has few columns")]
            let share = left / (columns - place) as f32;
            widths[column] = wanted[column].min(share);
            left -= widths[column];
        }
        widths
    }

    fn row(&self, row: &[Vec<TextRun>], place: usize, widths: &[f32], size: f32) -> Vec<Vec<SetLine>> {
        let cell = |(column, width): (usize, &f32)| {
            let spans = row.get(column).map(|cell| cell_spans(cell, place)).unwrap_or_default();
            self.lines(&spans, size, (width - 2.0 * PADDING).max(size))
        };
        widths.iter().enumerate().map(cell).collect()
    }

    /// Draws a row; a row higher than a page continues on the next one.
    fn draw_row(&mut self, row: &[Vec<SetLine>], widths: &[f32], size: f32) -> Result<()> {
        let count = row.iter().map(Vec::len).max().unwrap_or_default().max(1);
        let right = MARGIN + widths.iter().sum::<f32>();
        let mut top = self.y;
        self.line(PagePoint { x: MARGIN, y: top }, PagePoint { x: right, y: top });
        for number in 0..count {
            if self.y - size * LEADING - PADDING < MARGIN {
                self.sides(top, self.y - PADDING, widths);
                self.new_page()?;
                top = self.y;
            }
            self.y -= size * LEADING;
            let mut x = MARGIN;
            for (cell, width) in row.iter().zip(widths) {
                self.draw(cell.get(number), x + PADDING, self.y, size);
                x += width;
            }
        }
        self.y -= PADDING;
        self.sides(top, self.y, widths);
        Ok(())
    }

    /// Draws the lines beside the cells of a row and below it.
    fn sides(&mut self, top: f32, bottom: f32, widths: &[f32]) {
        let mut x = MARGIN;
        self.line(PagePoint { x, y: top }, PagePoint { x, y: bottom });
        for width in widths {
            x += width;
            self.line(PagePoint { x, y: top }, PagePoint { x, y: bottom });
        }
        self.line(PagePoint { x: MARGIN, y: bottom }, PagePoint { x, y: bottom });
    }

    /// Adds header, footer, page numbers and watermark to every page.
    fn around(&mut self) {
        let size = self.size * SMALL;
        let count = self.pages.len();
        let whole = |text: &str, size: f32| -> Option<SetLine> {
            self.lines(&[span(text)], size, f32::MAX).into_iter().next().filter(|_| !text.is_empty())
        };
        let header = whole(&self.settings.header, size);
        let footer = whole(&self.settings.footer, size);
        let watermark = whole(&self.settings.watermark, WATERMARK);
        let numbers: Vec<Option<SetLine>> = if self.settings.page_numbers {
            (1..=count).map(|number| whole(&format!("{number} / {count}"), size)).collect()
        } else {
            vec![None; count]
        };
        for (page, number) in self.pages.iter_mut().zip(&numbers) {
            for (line, y) in [(&header, self.height - EDGE - size), (&footer, EDGE)] {
                put(page, line.as_ref(), MARGIN, y, size);
            }
            if let Some(number) = number {
                put(page, Some(number), self.width - MARGIN - number.width, EDGE, size);
            }
            if let Some(line) = &watermark {
                let mut under = SetPage::default();
                put(&mut under, Some(line), (self.width - line.width) / 2.0, self.height / 2.0, WATERMARK);
                for drawn in &mut under.drawn {
                    if let Drawn::Text { grey, .. } = drawn {
                        *grey = 0.87;
                    }
                }
                // First in the list, so that everything else is drawn over it.
                page.drawn.splice(0..0, under.drawn);
            }
        }
    }

    /// Breaks runs into lines of up to a width.
    fn lines(&self, spans: &[TextRun], size: f32, room: f32) -> Vec<SetLine> {
        let mut lines = vec![SetLine::default()];
        for span in spans {
            let how = SetStyle { style: span.style, ink: Ink::of(span) };
            for (place, part) in span.text.split('\n').enumerate() {
                if place > 0 {
                    lines.push(SetLine::default());
                }
                for word in words(part) {
                    let word = joined(word, |letter| self.fonts.find(letter, span.style).is_some());
                    self.word(&mut lines, &word, &how, Measure { size, room });
                }
            }
        }
        if spans.iter().any(|span| has_right_to_left(&span.text)) {
            let text: String = spans.iter().map(|span| span.text.as_str()).collect();
            let direction = Direction::of(&text);
            return lines.into_iter().map(|line| self.turned(&line, direction, size)).collect();
        }
        lines
    }

    /// Reorders the letters of a line into visual order.
    fn turned(&self, line: &SetLine, direction: Direction, size: f32) -> SetLine {
        let pieces = line.pieces.iter();
        let mut letters: Vec<(char, &SetPiece)> =
            pieces.flat_map(|piece| piece.text.chars().map(move |letter| (letter, piece))).collect();
        // A space at the end of a line would be displayed at its beginning.
        letters.truncate(letters.iter().rposition(|(letter, _)| *letter != ' ').map_or(0, |at| at + 1));
        let order = visual(&letters.iter().map(|(letter, _)| *letter).collect::<Vec<_>>(), direction);
        let mut turned = vec![SetLine { direction, ..SetLine::default() }];
        for (nth, place) in order.iter().enumerate() {
            let (letter, of) = letters[*place];
            // A letter is part of right-to-left text if it comes before its left neighbour.
            let backwards = order.get(nth + 1).is_some_and(|next| next < place)
                || nth.checked_sub(1).is_some_and(|before| order[before] > *place);
            let letter = if backwards { mirrored(letter) } else { letter };
            let width = f32::from(self.fonts.width(of.font, letter)) * size / 1_000.0;
            let piece = SetPiece { text: letter.to_string(), font: of.font, width, ink: of.ink.clone() };
            add(&mut turned, vec![piece]);
        }
        turned.swap_remove(0)
    }

    /// Adds a word, on a new line if it does not fit; a word wider than a line is split.
    fn word(&self, lines: &mut Vec<SetLine>, word: &str, how: &SetStyle, Measure { size, room }: Measure) {
        let set = self.pieces(word, how, size);
        let width: f32 = set.iter().map(|piece| piece.width).sum();
        let used = lines.last().map_or(0.0, |line| line.width);
        if used > 0.0 && used + width > room {
            lines.push(SetLine::default());
            // The space at the end of a line is dropped.
            if word.trim().is_empty() {
                return;
            }
        }
        if width <= room {
            add(lines, set);
            return;
        }
        for letter in word.chars() {
            let set = self.pieces(letter.encode_utf8(&mut [0; 4]), how, size);
            let width: f32 = set.iter().map(|piece| piece.width).sum();
            if lines.last().is_some_and(|line| line.width > 0.0 && line.width + width > room) {
                lines.push(SetLine::default());
            }
            add(lines, set);
        }
    }

    /// Splits a word into fragments of one font each.
    fn pieces(&self, word: &str, how: &SetStyle, size: f32) -> Vec<SetPiece> {
        let mut pieces: Vec<SetPiece> = Vec::new();
        for letter in word.chars() {
            // Fonts lack some of the spaces.
            let letter = if letter.is_whitespace() { ' ' } else { letter };
            if is_joiner(letter) {
                continue;
            }
            let (letter, font, width) = self.fonts.set(letter, how.style);
            let width = f32::from(width) * size / 1_000.0;
            match pieces.last_mut() {
                Some(last) if last.font == font => {
                    last.text.push(letter);
                    last.width += width;
                }
                _ => pieces.push(SetPiece { text: letter.to_string(), font, width, ink: how.ink.clone() }),
            }
        }
        pieces
    }

    fn draw(&mut self, line: Option<&SetLine>, x: f32, y: f32, size: f32) {
        if let Some(page) = self.pages.last_mut() {
            put(page, line, x, y, size);
        }
    }

    fn line(&mut self, from: PagePoint, to: PagePoint) {
        if let Some(page) = self.pages.last_mut() {
            page.drawn.push(Drawn::Line { from, to, grey: 0.6 });
        }
    }

    fn gap(&mut self, height: f32) {
        // No gap at the top of a page.
        if self.y < self.height - MARGIN {
            self.y -= height;
        }
    }

    /// Starts a new page if there is less space than this.
    fn room(&mut self, height: f32) -> Result<()> {
        // At the top of a page, a new one would have no more space.
        if self.y - height < MARGIN && self.y < self.height - MARGIN { self.new_page() } else { Ok(()) }
    }

    fn new_page(&mut self) -> Result<()> {
        if self.pages.len() == PAGES_MAX {
            return Err(
                Error::invalid(format!("the document has more than {PAGES_MAX} pages")).help("divide it")
            );
        }
        self.pages.push(SetPage::default());
        self.y = self.height - MARGIN;
        Ok(())
    }
}

fn span(text: &str) -> TextRun {
    TextRun { text: text.to_owned(), ..TextRun::default() }
}

/// The runs of a cell; bold in the first row.
fn cell_spans(cell: &[TextRun], row: usize) -> Vec<TextRun> {
    let mut spans = cell.to_vec();
    if row == 0 {
        spans.iter_mut().for_each(|span| span.style.bold = true);
    }
    spans
}

fn steps(count: usize) -> f32 {
    STEP * f32::from(u8::try_from(count).unwrap_or(u8::MAX))
}

fn row_height(row: &[Vec<SetLine>], size: f32) -> f32 {
    let lines = row.iter().map(Vec::len).max().unwrap_or_default();
    f32::from(u16::try_from(lines).unwrap_or(u16::MAX)) * size * LEADING + PADDING
}

/// Splits a text into words and the spaces between them. In scripts without spaces each letter is a word.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut from, mut before) = (0, None);
    for (at, letter) in text.char_indices() {
        if before.is_some_and(|before| may_part(before, letter)) {
            words.push(&text[from..at]);
            from = at;
        }
        before = Some(letter);
    }
    if from < text.len() {
        words.push(&text[from..]);
    }
    words
}

fn add(lines: &mut [SetLine], set: Vec<SetPiece>) {
    let Some(line) = lines.last_mut() else { return };
    for piece in set {
        line.width += piece.width;
        match line.pieces.last_mut() {
            Some(last) if last.font == piece.font && last.ink == piece.ink => {
                last.text.push_str(&piece.text);
                last.width += piece.width;
            }
            _ => line.pieces.push(piece),
        }
    }
}

fn put(page: &mut SetPage, line: Option<&SetLine>, mut x: f32, y: f32, size: f32) {
    for piece in line.into_iter().flat_map(|line| &line.pieces) {
        let SetPiece { text, font, width, ink: Ink { grey, strike, link } } = piece.clone();
        let at = PagePoint { x, y };
        page.drawn.push(Drawn::Text { at, text, font, size, width, grey });
        if strike {
            let through = y + size * STRIKE;
            let (from, to) = (PagePoint { x, y: through }, PagePoint { x: x + width, y: through });
            page.drawn.push(Drawn::Line { from, to, grey });
        }
        page.drawn.extend(link.map(|to| Drawn::Link { at, width, size, to }));
        x += width;
    }
}
