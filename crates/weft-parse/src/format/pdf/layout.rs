//! Groups lines into paragraphs, headings, list items and program text.

use std::collections::BTreeMap;

use weft_core::seam::document_reader::Position;

use super::line::{PageBlock, PageLine};
use super::outline::{self, OutlineLevels};
use super::page::PdfPage;
use super::paged_table::PagedTable;
use crate::element::ElementBody;
use crate::parts::PartCollector;
use crate::words::{is_unspaced, join};

/// Maximum number of lines in one heading.
const HEADING_LINES_MAX: usize = 4;
/// Maximum number of characters in one heading.
const HEADING_CHARS_MAX: usize = 200;
/// Maximum number of characters in a heading that is recognized only by its bold type.
const TITLE_CHARS_MAX: usize = 100;
/// Minimum size of heading type, as a multiple of the size of body text.
const LARGER: f32 = 1.15;
/// Maximum number of lines in one paragraph, so that a page without any structure does not become one huge paragraph.
const LINES_MAX: usize = 400;

/// Measurements of the whole document.
struct Measures {
    /// Size of the body text.
    body: f32,
    /// Sizes of headings, largest first, in tenths of a point.
    headings: Vec<i32>,
    /// Maximum gap between lines of a paragraph, as a multiple of the type size.
    gap: f32,
    /// Whether monospaced type indicates program text, because not everything is set in it.
    has_code: bool,
    /// Whether most of the text is not bold.
    is_plain: bool,
}

/// Lines that belong together.
#[derive(Clone, Debug)]
struct PdfParagraph {
    lines: Vec<PageLine>,
    /// Distance to the text above it on its page, as a multiple of the type size.
    above: Option<f32>,
}

/// Adds the contents of the pages.
pub(super) fn add(pages: &[PdfPage], outline: &OutlineLevels, parts: &mut PartCollector) {
    let measures = measure(pages);
    let mut open: Option<OpenBlock> = None;
    let mut above: Option<Position> = None;
    // Pages whose break is delayed until the paragraph or table that continues on them has ended.
    for page in pages {
        let mut is_announced = false;
        for block in &page.blocks {
            let before = above.replace(block.place());
            if open.as_mut().is_some_and(|open| open.goes_on(block, &measures)) {
                continue;
            }
            if let Some(open) = open.take() {
                open.add(outline, &measures, parts);
            }
            announce(page, &mut is_announced, parts);
            open = Some(match block {
                PageBlock::Line(line) => {
                    let above = before.filter(|before| before.page == line.place.page);
                    let above = above.map(|above| (line.place.top - above.bottom) / line.size.max(1.0));
                    // A line that precedes this one in reading order but is not above it on the page is in another
                    // column.
                    OpenBlock::Paragraph(PdfParagraph {
                        lines: vec![line.clone()],
                        above: above.filter(|gap| *gap > -0.6),
                    })
                }
                PageBlock::Table(rows, place) => {
                    OpenBlock::Table(PagedTable { rows: rows.clone(), places: vec![*place] })
                }
            });
        }
        if !is_announced && open.is_none() {
            announce(page, &mut is_announced, parts);
        }
    }
    if let Some(open) = open {
        open.add(outline, &measures, parts);
    }
}

/// An element that may continue in the next block.
enum OpenBlock {
    Paragraph(PdfParagraph),
    Table(PagedTable),
}

impl OpenBlock {
    /// Appends a block if it continues this element, and returns whether it does.
    fn goes_on(&mut self, block: &PageBlock, measures: &Measures) -> bool {
        match (self, block) {
            (Self::Paragraph(paragraph), PageBlock::Line(line)) if paragraph.takes(line, measures) => {
                paragraph.lines.push(line.clone());
                true
            }
            (Self::Table(table), PageBlock::Table(rows, place)) => table.takes(rows, *place),
            _ => false,
        }
    }

    fn add(self, outline: &OutlineLevels, measures: &Measures, parts: &mut PartCollector) {
        match self {
            Self::Paragraph(paragraph) => paragraph.add(outline, measures, parts),
            Self::Table(table) => table.add(parts),
        }
    }
}

fn announce(page: &PdfPage, is_announced: &mut bool, parts: &mut PartCollector) {
    if !std::mem::replace(is_announced, true) {
        let number = u32::try_from(page.number).unwrap_or(u32::MAX);
        parts.push_at(ElementBody::Break { number, name: None }, Vec::new());
    }
}

fn lines(pages: &[PdfPage]) -> impl Iterator<Item = &PageLine> {
    pages.iter().flat_map(|page| &page.blocks).filter_map(|block| match block {
        PageBlock::Line(line) => Some(line),
        PageBlock::Table(..) => None,
    })
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "sizes of type; beyond them the cast stops at the limits"
)]
fn tenths(size: f32) -> i32 {
    (size * 10.0).round() as i32
}

fn measure(pages: &[PdfPage]) -> Measures {
    let mut sizes: BTreeMap<i32, usize> = BTreeMap::new();
    let (mut mono, mut bold, mut all) = (0, 0, 0);
    for line in lines(pages) {
        let count = line.text.chars().count();
        *sizes.entry(tenths(line.size)).or_default() += count;
        mono += if line.is_mono { count } else { 0 };
        bold += if line.is_bold { count } else { 0 };
        all += count;
    }
    // Ten points if there are no lines.
    let body = sizes.iter().max_by_key(|(_, count)| **count).map_or(100, |(size, _)| *size);
    #[expect(clippy::cast_precision_loss, reason = "sizes of type are small numbers")]
    let headings =
        sizes.keys().rev().copied().filter(|size| *size as f32 > body as f32 * LARGER).take(6).collect();
    let mut gaps: Vec<f32> = Vec::new();
    let all_lines: Vec<&PageLine> = lines(pages).collect();
    // Counts only consecutive lines of continuous text: what remains is mostly the gap within paragraphs.
    for pair in all_lines.windows(2) {
        let gap = (pair[1].place.top - pair[0].place.bottom) / pair[0].size.max(1.0);
        if pair[0].place.page == pair[1].place.page
            && tenths(pair[0].size) == body
            && goes_on(pair[0], pair[1])
            && (-0.5..1.5).contains(&gap)
        {
            gaps.push(gap);
        }
    }
    gaps.sort_unstable_by(f32::total_cmp);
    let usual = gaps.get(gaps.len() / 2).copied().unwrap_or(0.3);
    #[expect(clippy::cast_precision_loss, reason = "sizes of type are small numbers")]
    let body = body as f32 / 10.0;
    Measures {
        body,
        headings,
        gap: (usual + 0.35).clamp(0.3, 1.2),
        has_code: mono * 2 < all,
        is_plain: bold * 3 < all,
    }
}

/// Whether a line seems to continue in the next one: it does not end a sentence or an entry, and is about as long.
fn goes_on(line: &PageLine, next: &PageLine) -> bool {
    !ends_sentence(&line.text)
        && !ends_entry(&line.text)
        && line.place.right + line.size * 3.0 > next.place.right
        && (line.place.left - next.place.left).abs() < line.size * 3.0
}

impl PdfParagraph {
    fn last(&self) -> &PageLine {
        &self.lines[self.lines.len() - 1]
    }

    /// Whether a line continues this paragraph.
    fn takes(&self, line: &PageLine, measures: &Measures) -> bool {
        let last = self.last();
        let is_alike = (last.size - line.size).abs() <= last.size * 0.08
            && (last.is_mono == line.is_mono || !measures.has_code)
            && (last.is_bold == line.is_bold
                || self.lines.len() > 1
                || last.size <= measures.body * LARGER && !last.is_bold);
        if !is_alike
            || self.lines.len() >= LINES_MAX
            || marker(&line.text).is_some()
            || ends_entry(&last.text)
        {
            return false;
        }
        let size = last.size.max(1.0);
        let gap = (line.place.top - last.place.bottom) / size;
        let is_below = last.place.page == line.place.page && gap > -0.6;
        if measures.has_code && last.is_mono {
            return is_below && gap <= measures.gap * 2.0;
        }
        let is_heading = last.size > measures.body * LARGER;
        if is_below {
            let overlaps = line.place.left < last.place.right && line.place.right > last.place.left;
            return gap <= measures.gap
                && overlaps
                && !self.ends_here(line, size)
                && !(is_heading && gap > 0.9);
        }
        // In the next column or on the next page: the sentence must continue there.
        !is_heading
            && !self.is_short(size)
            && !ends_sentence(&last.text)
            && begins_within_sentence(&line.text)
    }

    /// Whether the next line begins a paragraph, judging by its indentation or by the end of the last line.
    fn ends_here(&self, next: &PageLine, size: f32) -> bool {
        // The first line may itself be indented.
        let left = self.lines.iter().skip(1).map(|line| line.place.left).fold(f32::MAX, f32::min);
        let is_indented =
            self.lines.len() > 1 && next.place.left > left + size && next.place.left < left + size * 6.0;
        is_indented || self.is_short(size) && ends_sentence(&self.last().text)
    }

    /// Whether the last line is shorter than the others.
    fn is_short(&self, size: f32) -> bool {
        let right = self.lines.iter().map(|line| line.place.right).fold(0.0, f32::max);
        self.lines.len() > 1 && self.last().place.right < right - size * 3.0
    }

    fn add(&self, outline: &OutlineLevels, measures: &Measures, parts: &mut PartCollector) {
        let positions = self.positions();
        let first = &self.lines[0];
        if measures.has_code
            && self.lines.iter().all(|line| line.is_mono)
            && (self.lines.len() > 1 || is_alone(first))
        {
            let text = self.lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
            parts.push_at(ElementBody::Code { language: None, text }, positions);
            return;
        }
        let mut text = String::new();
        let mut was_row = false;
        for line in &self.lines {
            // Rows of a form stay on separate lines: joined, they would lose the relation between labels and values.
            text = if (was_row || line.has_cells) && !text.is_empty() {
                text + "\n" + &line.text
            } else {
                flow(text, &line.text)
            };
            was_row = line.has_cells;
        }
        if text.is_empty() {
            return;
        }
        let body = if let Some(level) = self.heading(&text, outline, measures) {
            ElementBody::Heading { level, text }
        } else {
            match marker(&text) {
                Some(ItemMarker::Bullet(length)) => {
                    ElementBody::Item { depth: 0, text: text[length..].trim().to_owned() }
                }
                Some(ItemMarker::Number) => ElementBody::Item { depth: 0, text },
                None => ElementBody::Paragraph(text),
            }
        };
        parts.push_at(body, positions);
    }

    fn heading(&self, text: &str, outline: &OutlineLevels, measures: &Measures) -> Option<u8> {
        let length = text.chars().count();
        if self.lines.len() > HEADING_LINES_MAX
            || length > HEADING_CHARS_MAX
            || !text.chars().any(char::is_alphabetic)
        {
            return None;
        }
        let line = &self.lines[0];
        if self.lines.iter().any(|line| line.has_cells) {
            return None;
        }
        if let Some(level) = outline.get(&outline::key(text)) {
            // Text that merely equals a title is set in the size of body text.
            let stands_out = line.is_bold || line.size > measures.body * 1.05;
            return stands_out.then_some(*level);
        }
        let size = tenths(line.size);
        let by_size = measures.headings.iter().position(|one| (*one - size).abs() <= 1);
        if let Some(rank) = by_size {
            return is_title(text).then(|| u8::try_from(rank + 1).ok())?;
        }
        let depth = match numbered_depth(text) {
            depth if depth > 0 && line.is_bold && self.lines.len() == 1 && length < 100 => depth,
            _ if self.is_bold_title(text, measures) => 1,
            _ => return None,
        };
        // Such headings are below those that are recognized by their size.
        Some(u8::try_from(measures.headings.len() + depth).unwrap_or(6).min(6))
    }

    /// Whether it consists of one or two separate bold lines in a text that is not bold.
    fn is_bold_title(&self, text: &str, measures: &Measures) -> bool {
        let stands_apart = self.above.is_none_or(|above| above > measures.gap);
        measures.is_plain
            && stands_apart
            && self.lines.len() <= 2
            && self.lines.iter().all(|line| line.is_bold && !line.is_mono)
            && text.chars().count() <= TITLE_CHARS_MAX
            && is_title(text)
            && text.chars().next().is_some_and(|first| first.is_alphanumeric() && !first.is_lowercase())
    }

    /// One rectangle for each column or page that it is on.
    fn positions(&self) -> Vec<Position> {
        let mut positions: Vec<Position> = Vec::new();
        for PageLine { place, .. } in &self.lines {
            match positions.last_mut() {
                Some(last)
                    if last.page == place.page && place.top >= last.top - 1.0 && place.left < last.right =>
                {
                    last.left = last.left.min(place.left);
                    last.right = last.right.max(place.right);
                    last.bottom = last.bottom.max(place.bottom);
                }
                _ => positions.push(*place),
            }
        }
        positions
    }
}

/// Whether a text can be a title: it contains words, and does not end like a sentence or a label.
fn is_title(text: &str) -> bool {
    text.chars().filter(|c| c.is_alphabetic()).count() >= 2
        && !text.ends_with(['.', ',', ';', ':', '。', '，', '；', '：'])
}

/// Whether a single line of monospaced type looks like program text.
fn is_alone(line: &PageLine) -> bool {
    line.text.contains(['$', '#', '=', '(', '{', '/', ';', '_'])
}

/// Appends a line to a text and rejoins a word that was hyphenated at the line end.
fn flow(mut text: String, line: &str) -> String {
    let divided = text.ends_with('-')
        && text.chars().rev().nth(1).is_some_and(char::is_lowercase)
        && line.starts_with(char::is_lowercase);
    if divided {
        text.pop();
        text.push_str(line);
        return text;
    }
    join(text, line)
}

fn ends_sentence(text: &str) -> bool {
    text.trim_end_matches(['"', '\'', ')', '”', '’', '」', '）'])
        .ends_with(['.', '!', '?', ':', ';', '。', '！', '？', '：', '；', '…'])
}

/// Whether a line ends with a page number after dots, as an entry of a table of contents does.
fn ends_entry(text: &str) -> bool {
    text.rsplit_once("… ").is_some_and(|(_, page)| {
        !page.is_empty() && page.len() <= 6 && page.chars().all(|c| c.is_ascii_alphanumeric())
    })
}

fn begins_within_sentence(text: &str) -> bool {
    text.chars().next().is_some_and(|c| c.is_lowercase() || is_unspaced(c))
}

enum ItemMarker {
    /// Length in bytes of the bullet and the spaces after it.
    Bullet(usize),
    Number,
}

/// Marker at the beginning of a list item.
fn marker(text: &str) -> Option<ItemMarker> {
    let mut characters = text.chars();
    let first = characters.next()?;
    if matches!(first, '•' | '◦' | '▪' | '■' | '●' | '○' | '◆' | '‣' | '∙' | '·' | '➢' | '✓' | '❑')
    {
        return Some(ItemMarker::Bullet(first.len_utf8()));
    }
    if matches!(first, '-' | '–' | '*') && characters.next() == Some(' ') {
        return Some(ItemMarker::Bullet(first.len_utf8()));
    }
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let rest = &text[digits..];
    let is_number = (1..=3).contains(&digits)
        && (rest.starts_with(". ") || rest.starts_with(") ") || rest.starts_with('、'));
    let in_brackets =
        text.strip_prefix('(').and_then(|rest| rest.split_once(") ")).is_some_and(|(number, _)| {
            let is_numeral = |letter: char| matches!(letter, 'i' | 'v' | 'x');
            match number.len() {
                1 => number.chars().all(|c| c.is_ascii_alphanumeric()),
                2 => number.chars().all(|c| c.is_ascii_digit() || is_numeral(c)),
                length => length <= 4 && number.chars().all(is_numeral) && !number.is_empty(),
            }
        });
    (is_number || in_brackets).then_some(ItemMarker::Number)
}

/// Number of components in the number that a title begins with: `1.2 Title` has two.
fn numbered_depth(text: &str) -> usize {
    let Some((number, rest)) = text.split_once(' ') else { return 0 };
    let number = number.trim_end_matches('.');
    let parts: Vec<&str> = number.split('.').collect();
    let is_number =
        parts.iter().all(|part| (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit()));
    if is_number && rest.starts_with(char::is_alphabetic) { parts.len() } else { 0 }
}
