//! Splits the text that the library returns into pieces that belong together.

use pdf_oxide::PdfDocument;
use pdf_oxide::layout::{TextChar, TextSpan};
use weft_core::seam::document_reader::Position;

use super::frame::PageFrame;
use super::leftward;
use super::line::PageLine;
use super::order::PROSE_CHARS_MIN;

/// Glyphs of one string farther apart than this, as a multiple of the type size, become separate pieces: the cells of a
/// table may have been drawn as one string, and a number that is joined to its neighbour becomes another number.
const APART: f32 = 1.0;
/// Minimum gap between glyphs that always counts as a space, whatever the library returned.
const BLANK: f32 = 0.5;
/// Minimum gap between words on both sides of a line between cells.
const WORD_GAP: f32 = 0.1;
/// Minimum gap between all letters of a title that is set with wide spacing.
const SPACED: f32 = 0.3;

/// Maximum width of a glyph, as a multiple of the type size.
const WIDE_MAX: f32 = 2.0;

/// Direction in which text runs on the page as displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TextTurn {
    /// Normal reading direction.
    Upright,
    /// From bottom to top.
    Up,
    /// Upside down.
    Over,
    /// From top to bottom.
    Down,
    /// At an angle.
    Slanted,
}

impl TextTurn {
    /// Direction of a piece of text, after the page was rotated as the file says.
    fn of(span: &TextSpan) -> Self {
        let page = f32::from(i16::try_from(span.page_rotation_applied).unwrap_or_default());
        let degrees = (span.rotation_degrees - page).rem_euclid(360.0);
        let is = |right: f32| (degrees - right).abs() < 1.0;
        match () {
            () if is(0.0) || is(360.0) => Self::Upright,
            () if is(90.0) => Self::Up,
            () if is(180.0) => Self::Over,
            () if is(270.0) => Self::Down,
            () => Self::Slanted,
        }
    }

    /// Position after rotating the page so that this text is upright. Only distances to other text with the same turn
    /// matter, so the size of the page is irrelevant.
    pub(super) fn upright(self, place: Position) -> Position {
        let Position { page, left, right, top, bottom } = place;
        match self {
            Self::Upright | Self::Slanted => place,
            Self::Up => Position { page, left: -bottom, right: -top, top: left, bottom: right },
            Self::Over => Position { page, left: -right, right: -left, top: -bottom, bottom: -top },
            Self::Down => Position { page, left: top, right: bottom, top: -right, bottom: -left },
        }
    }

    /// The inverse rotation.
    pub(super) fn back(self, place: Position) -> Position {
        match self {
            Self::Up => Self::Down.upright(place),
            Self::Down => Self::Up.upright(place),
            Self::Upright | Self::Over | Self::Slanted => self.upright(place),
        }
    }
}

/// The pieces of a string, with their turn. Vertical lines of a table cut it at the positions `cuts`.
pub(super) fn pieces(
    span: &TextSpan,
    frame: PageFrame,
    page: &mut Glyphs<'_>,
    cuts: &[f32],
) -> Vec<(TextTurn, PageLine)> {
    let turn = TextTurn::of(span);
    let mut whole = PageLine::of(span, frame.place(span));
    if turn == TextTurn::Upright && leftward::direction(&span.text) < 0 {
        whole.text = match page.leftward(span) {
            Some(text) => text,
            None if span.rtl_draw_logical => whole.text,
            None => leftward::words_reversed(&whole.text),
        };
        return vec![(turn, whole)];
    }
    if turn == TextTurn::Upright {
        whole.place.right -= blank_at_end(span);
    }
    // Only horizontal text is split, since only the horizontal positions of glyphs are compared.
    if turn != TextTurn::Upright || cuts.is_empty() && !has_hidden_gaps(span) {
        return vec![(turn, whole)];
    }
    let Some(places) = page.places(span).filter(|places| !is_spaced(&span.text, type_size(span), places))
    else {
        return vec![(turn, whole)];
    };
    let x = |offset: f32| offset - span.bbox.x + whole.place.left;
    let size = type_size(span);
    let mut pieces: Vec<PageLine> = Vec::new();
    // A word that is too long for its cell crosses the line next to it but is still one word.
    let is_cut = |piece: &PageLine, gap: f32, left: f32| {
        (gap > size * WORD_GAP || piece.text.ends_with(char::is_whitespace))
            && cuts.iter().any(|cut| (piece.place.left + 1.0..=x(left) + 1.0).contains(cut))
    };
    let mut end = f32::MIN;
    for (glyph, place) in span.text.chars().zip(places) {
        let Some(GlyphPlace { left, right }) = place else {
            pieces.last_mut().into_iter().for_each(|piece| piece.text.push(glyph));
            continue;
        };
        match pieces.last_mut() {
            Some(piece) if left - end <= size * APART && !is_cut(piece, left - end, left) => {
                if left - end > size * BLANK && !piece.text.ends_with(char::is_whitespace) {
                    piece.text.push(' ');
                }
                piece.text.push(glyph);
                piece.place.right = x(right);
            }
            _ => {
                let place = Position { left: x(left), right: x(right), ..whole.place };
                pieces.push(PageLine { text: glyph.to_string(), place, ..whole.clone() });
            }
        }
        end = right;
    }
    pieces.into_iter().map(|piece| (turn, piece)).collect()
}

/// Whether a string is so much wider than its glyphs that its spaces do not explain it.
fn has_hidden_gaps(span: &TextSpan) -> bool {
    let glyphs = span.text.chars().count();
    if span.char_widths.len() != glyphs || glyphs < 2 {
        return false;
    }
    // A gap made by increasing the advance of the glyph before it.
    if span.char_widths.iter().any(|width| *width > WIDE_MAX * type_size(span)) {
        return true;
    }
    let blanks = span.text.chars().filter(|glyph| glyph.is_whitespace()).count();
    let hidden = span.bbox.width - span.char_widths.iter().sum::<f32>();
    #[expect(clippy::cast_precision_loss, reason = "the length of a line")]
    let usual = (blanks as f32).mul_add(APART, 0.8) * type_size(span);
    hidden > usual
}

/// Width of the spaces at the end of a line of prose, which would reach into the gutter next to its column.
fn blank_at_end(span: &TextSpan) -> f32 {
    let glyphs = span.text.chars().count();
    if glyphs < PROSE_CHARS_MIN || span.char_widths.len() != glyphs {
        return 0.0;
    }
    let from_the_end = span.text.chars().rev().zip(span.char_widths.iter().rev());
    from_the_end.take_while(|(glyph, _)| glyph.is_whitespace()).map(|(_, width)| *width).sum()
}

/// Type size of a string, in points.
fn type_size(span: &TextSpan) -> f32 {
    span.font_size.abs().max(1.0)
}

/// Whether all glyphs of a string are spaced apart, which is how titles are set and does not indicate cells. The median
/// gap decides: two short cells with the width of the page between them are as wide as such a title.
fn is_spaced(text: &str, size: f32, places: &[Option<GlyphPlace>]) -> bool {
    let there: Vec<&GlyphPlace> = places.iter().flatten().collect();
    let mut gaps: Vec<f32> = there.windows(2).map(|two| two[1].left - two[0].right).collect();
    gaps.sort_by(f32::total_cmp);
    let Some(usual) = gaps.get(gaps.len() / 2) else { return false };
    // Digits that are farther apart than this are cells.
    let most = if text.chars().all(char::is_alphabetic) { f32::MAX } else { size * APART };
    gaps.len() > 3 && (size * SPACED..=most).contains(usual)
}

/// Horizontal extent of a glyph.
#[derive(Clone, Copy, Debug)]
struct GlyphPlace {
    left: f32,
    right: f32,
}

/// The individual glyphs of a page, loaded when a string may hide a gap.
pub(super) struct Glyphs<'a> {
    document: &'a PdfDocument,
    index: usize,
    /// From the top of the page to the bottom.
    all: Option<Vec<TextChar>>,
}

impl<'a> Glyphs<'a> {
    /// Creates an empty cache for a page.
    pub(super) fn of(document: &'a PdfDocument, index: usize) -> Self {
        Self { document, index, all: None }
    }

    /// The glyphs at the position of a string.
    fn near(&mut self, span: &TextSpan) -> Vec<&TextChar> {
        let (document, index) = (self.document, self.index);
        let all = self.all.get_or_insert_with(|| {
            let mut all = document.extract_chars(index).unwrap_or_default();
            all.sort_by(|one, other| other.origin_y.total_cmp(&one.origin_y));
            all
        });
        let size = type_size(span);
        // Binary search, because a page can have very many strings.
        let above = all.partition_point(|glyph| glyph.origin_y - span.bbox.y >= size * 0.3);
        let beside = all[above..].iter().take_while(|glyph| glyph.origin_y - span.bbox.y > size * -0.3);
        let is_near = |glyph: &&TextChar| {
            glyph.origin_x > span.bbox.x - 1.0 && glyph.origin_x < span.bbox.x + span.bbox.width + 1.0
        };
        beside.filter(is_near).collect()
    }

    /// Text of a string read from right to left; `None` if its glyphs cannot be identified with certainty.
    fn leftward(&mut self, span: &TextSpan) -> Option<String> {
        let near = self.near(span);
        let mut there: Vec<char> = near.iter().map(|glyph| glyph.char).collect();
        let mut said: Vec<char> = span.text.chars().collect();
        for letters in [&mut there, &mut said] {
            letters.retain(|letter| !letter.is_whitespace());
            letters.sort_unstable();
        }
        (there == said).then(|| leftward::text(&near, type_size(span)))
    }

    /// Position of each glyph of a string, with `None` for its spaces; `None` altogether if they cannot be identified
    /// with certainty.
    fn places(&mut self, span: &TextSpan) -> Option<Vec<Option<GlyphPlace>>> {
        let size = type_size(span);
        let mut near = self.near(span);
        near.retain(|glyph| !glyph.char.is_whitespace());
        near.sort_by(|one, other| one.origin_x.total_cmp(&other.origin_x));
        let begins_cell = |at: usize| {
            at == 0 || near[at].origin_x - near[at - 1].origin_x - near[at - 1].advance_width > size * APART
        };
        let mut at = 0;
        let mut places = Vec::new();
        for glyph in span.text.chars() {
            if glyph.is_whitespace() {
                places.push(None);
                continue;
            }
            // The library may join cells that have others between them into one string.
            let is_next = |there: &usize| near[*there].char == glyph && (*there == at || begins_cell(*there));
            let found = (at..near.len()).find(is_next)?;
            let left = near[found].origin_x;
            places.push(Some(GlyphPlace { left, right: left + near[found].advance_width }));
            at = found + 1;
        }
        // A glyph left over in the same cell belongs to another text on top of it.
        (at == near.len() || begins_cell(at)).then_some(places)
    }
}
