//! From what the library found to pieces of text that stand together.

use pdf_oxide::PdfDocument;
use pdf_oxide::layout::{TextChar, TextSpan};
use weft_core::seam::document_reader::Position;

use super::leftward;
use super::order::PROSE_CHARS_MIN;
use super::page::{PageFrame, PageLine};

/// Glyphs of one string that are farther apart, in sizes of the type, are pieces of their own: the cells of a table
/// may have been drawn as one string, and a number that is glued to its neighbour is another number.
const APART: f32 = 1.0;
/// Glyphs that are farther apart have a blank between them, whatever the library made of it.
const BLANK: f32 = 0.5;
/// Words on both sides of a line between cells are farther apart.
const WORD_GAP: f32 = 0.1;
/// The letters of a title may stand apart one and all, at least as far as this.
const SPACED: f32 = 0.3;

/// No glyph is wider, in sizes of the type.
const WIDE_MAX: f32 = 2.0;

/// Which way text runs on the page as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TextTurn {
    /// As people read it.
    Upright,
    /// From the bottom to the top.
    Up,
    /// Upside down.
    Over,
    /// From the top to the bottom.
    Down,
    /// At an angle.
    Slanted,
}

impl TextTurn {
    /// How a piece of text is turned, once the page is turned as its file says.
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

    /// Where something is when the page is turned so that this text is upright. What is measured is its distance to
    /// other text of the same turn, so nothing depends on the size of the page.
    pub(super) fn upright(self, place: Position) -> Position {
        let Position { page, left, right, top, bottom } = place;
        match self {
            Self::Upright | Self::Slanted => place,
            Self::Up => Position { page, left: -bottom, right: -top, top: left, bottom: right },
            Self::Over => Position { page, left: -right, right: -left, top: -bottom, bottom: -top },
            Self::Down => Position { page, left: top, right: bottom, top: -right, bottom: -left },
        }
    }

    /// The other way round.
    pub(super) fn back(self, place: Position) -> Position {
        match self {
            Self::Up => Self::Down.upright(place),
            Self::Down => Self::Up.upright(place),
            Self::Upright | Self::Over | Self::Slanted => self.upright(place),
        }
    }
}

/// The pieces of a string with their turn. Lines of a table that go down through it cut it at these places.
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
    // A word that is too long for its cell reaches over the line beside it, and is one all the same.
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

/// Whether a string is so much wider than its glyphs that its blanks do not account for it.
fn has_hidden_gaps(span: &TextSpan) -> bool {
    let glyphs = span.text.chars().count();
    if span.char_widths.len() != glyphs || glyphs < 2 {
        return false;
    }
    // A blank that was made by spacing out the glyph before it.
    if span.char_widths.iter().any(|width| *width > WIDE_MAX * type_size(span)) {
        return true;
    }
    let blanks = span.text.chars().filter(|glyph| glyph.is_whitespace()).count();
    let hidden = span.bbox.width - span.char_widths.iter().sum::<f32>();
    #[expect(clippy::cast_precision_loss, reason = "the length of a line")]
    let usual = (blanks as f32).mul_add(APART, 0.8) * type_size(span);
    hidden > usual
}

/// How wide the blanks are that a line of prose ends with: they would reach into the gutter beside its column.
fn blank_at_end(span: &TextSpan) -> f32 {
    let glyphs = span.text.chars().count();
    if glyphs < PROSE_CHARS_MIN || span.char_widths.len() != glyphs {
        return 0.0;
    }
    let from_the_end = span.text.chars().rev().zip(span.char_widths.iter().rev());
    from_the_end.take_while(|(glyph, _)| glyph.is_whitespace()).map(|(_, width)| *width).sum()
}

/// The size of the type of a string, in points.
fn type_size(span: &TextSpan) -> f32 {
    span.font_size.abs().max(1.0)
}

/// Whether all glyphs of a string stand apart, which is how a title is set and tells of no cells. That some do is seen
/// in the usual gap: two short cells with all of the page between them are as wide as such a title.
fn is_spaced(text: &str, size: f32, places: &[Option<GlyphPlace>]) -> bool {
    let there: Vec<&GlyphPlace> = places.iter().flatten().collect();
    let mut gaps: Vec<f32> = there.windows(2).map(|two| two[1].left - two[0].right).collect();
    gaps.sort_by(f32::total_cmp);
    let Some(usual) = gaps.get(gaps.len() / 2) else { return false };
    // Digits that are farther apart than this are cells.
    let most = if text.chars().all(char::is_alphabetic) { f32::MAX } else { size * APART };
    gaps.len() > 3 && (size * SPACED..=most).contains(usual)
}

/// Where a glyph is, from left to right.
#[derive(Clone, Copy, Debug)]
struct GlyphPlace {
    left: f32,
    right: f32,
}

/// The glyphs of a page one by one, which are looked for when a string may hide a gap.
pub(super) struct Glyphs<'a> {
    document: &'a PdfDocument,
    index: usize,
    /// From the top of the page to its foot.
    all: Option<Vec<TextChar>>,
}

impl<'a> Glyphs<'a> {
    /// Of a page.
    pub(super) fn of(document: &'a PdfDocument, index: usize) -> Self {
        Self { document, index, all: None }
    }

    /// The glyphs in the place of a string.
    fn near(&mut self, span: &TextSpan) -> Vec<&TextChar> {
        let (document, index) = (self.document, self.index);
        let all = self.all.get_or_insert_with(|| {
            let mut all = document.extract_chars(index).unwrap_or_default();
            all.sort_by(|one, other| other.origin_y.total_cmp(&one.origin_y));
            all
        });
        let size = type_size(span);
        // A page of very many strings is not gone through for each of them.
        let above = all.partition_point(|glyph| glyph.origin_y - span.bbox.y >= size * 0.3);
        let beside = all[above..].iter().take_while(|glyph| glyph.origin_y - span.bbox.y > size * -0.3);
        let is_near = |glyph: &&TextChar| {
            glyph.origin_x > span.bbox.x - 1.0 && glyph.origin_x < span.bbox.x + span.bbox.width + 1.0
        };
        beside.filter(is_near).collect()
    }

    /// What a string says when it is read from right to left; `None` when its glyphs cannot be told for sure.
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

    /// Where each glyph of a string is, and nothing for its blanks; `None` when they cannot be told for sure.
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
            // The library makes one string of cells that have others between them.
            let is_next = |there: &usize| near[*there].char == glyph && (*there == at || begins_cell(*there));
            let found = (at..near.len()).find(is_next)?;
            let left = near[found].origin_x;
            places.push(Some(GlyphPlace { left, right: left + near[found].advance_width }));
            at = found + 1;
        }
        // What is left over in the same cell belongs to something else that stands on top of it.
        (at == near.len() || begins_cell(at)).then_some(places)
    }
}
