//! Straight lines drawn on a page, which may separate the cells of a table.

use std::collections::BTreeMap;

use pdf_oxide::PdfDocument;
use pdf_oxide::elements::{PathContent, PathOperation};
use pdf_oxide::geometry::Rect;
use weft_core::seam::document_reader::Position;

use super::frame::PageFrame;
use super::pieces::TextTurn;

/// Maximum number of shapes on one page that are examined.
const SHAPES_MAX: usize = 50_000;
/// Maximum number of lines on one page: a page with more contains a drawing.
const RULES_MAX: usize = 4_000;
/// Shapes thinner than this, in points, are lines; thicker ones are boxes with four edges.
const THIN: f32 = 3.0;
/// Parallel lines closer than this are one line: cells have their own edges, and thick lines have two.
const NEAR: f32 = 3.0;
/// Lines shorter than this after joining do not separate anything.
const LENGTH_MIN: f32 = 5.0;

/// A horizontal or vertical line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RuledLine {
    /// Distance from the top of the page if it is horizontal, or from the left if it is vertical.
    pub at: f32,
    /// Start of the line.
    pub from: f32,
    /// End of the line.
    pub to: f32,
}

impl RuledLine {
    /// Whether the line covers more than half of an interval.
    pub(super) fn covers(&self, from: f32, to: f32) -> bool {
        self.to.min(to) - self.from.max(from) > (to - from) / 2.0
    }

    /// Whether it meets, or nearly meets, a line of the other direction.
    fn meets(&self, other: &Self) -> bool {
        let is_on = |rule: &Self, at: f32| (rule.from - NEAR..=rule.to + NEAR).contains(&at);
        is_on(self, other.at) && is_on(other, self.at)
    }
}

/// The horizontal and the vertical lines of a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rules {
    /// Horizontal lines, from top to bottom.
    pub across: Vec<RuledLine>,
    /// Vertical lines, from left to right.
    pub down: Vec<RuledLine>,
}

impl Rules {
    /// Reads the lines of a page as displayed.
    pub(super) fn of(document: &PdfDocument, index: usize, frame: PageFrame) -> Self {
        let turn = document.get_page_rotation(index).unwrap_or_default();
        let mut rules = Self::default();
        for shape in document.extract_paths(index).unwrap_or_default().iter().take(SHAPES_MAX) {
            for edge in edges(shape) {
                rules.add(frame.turned(frame.rectangle(edge), turn));
            }
        }
        rules.joined()
    }

    /// Adds a rectangle: a thin one as one line, any other as its four edges.
    fn add(&mut self, place: Position) {
        let Position { left, right, top, bottom, .. } = place;
        let (width, height) = (right - left, bottom - top);
        let across = |at| RuledLine { at, from: left, to: right };
        let down = |at| RuledLine { at, from: top, to: bottom };
        match (width <= THIN, height <= THIN) {
            // A dot.
            (true, true) if width == height => {}
            (true, true) if width > height => self.across.push(across((top + bottom) / 2.0)),
            (false, true) => self.across.push(across((top + bottom) / 2.0)),
            (true, _) => self.down.push(down((left + right) / 2.0)),
            (false, false) => {
                self.across.extend([top, bottom].map(across));
                self.down.extend([left, right].map(down));
            }
        }
    }

    /// Merges lines that are adjacent or continue each other.
    fn joined(self) -> Self {
        let (across, down) = (joined(self.across), joined(self.down));
        if across.len() + down.len() > RULES_MAX { Self::default() } else { Self { across, down } }
    }

    /// Groups of lines that meet, leaving out groups whose lines are all parallel.
    pub(super) fn groups(&self) -> Vec<Self> {
        // For each horizontal line, the group that it belongs to, identified by the group's first line.
        let mut first: Vec<usize> = (0..self.across.len()).collect();
        let met: Vec<Vec<usize>> = self
            .down
            .iter()
            .map(|down| {
                let met = self.across.iter().enumerate().filter(|(_, across)| across.meets(down));
                met.map(|(at, _)| at).collect()
            })
            .collect();
        for together in &met {
            for two in together.windows(2) {
                unite(&mut first, two[0], two[1]);
            }
        }
        let mut groups: BTreeMap<usize, Self> = BTreeMap::new();
        for (at, across) in self.across.iter().enumerate() {
            groups.entry(root(&mut first, at)).or_default().across.push(*across);
        }
        for (down, together) in self.down.iter().zip(&met) {
            if let Some(at) = together.first() {
                groups.entry(root(&mut first, *at)).or_default().down.push(*down);
            }
        }
        groups.into_values().filter(|group| !group.down.is_empty()).collect()
    }

    /// Bounding box of all lines, on a page.
    pub(super) fn place(&self, page: u32) -> Position {
        let ends = |rules: &[RuledLine], beside: &[RuledLine]| {
            let from = rules.iter().map(|rule| rule.from).chain(beside.iter().map(|rule| rule.at));
            let to = rules.iter().map(|rule| rule.to).chain(beside.iter().map(|rule| rule.at));
            (from.fold(f32::MAX, f32::min), to.fold(f32::MIN, f32::max))
        };
        let (left, right) = ends(&self.across, &self.down);
        let (top, bottom) = ends(&self.down, &self.across);
        Position { page, left, right, top, bottom }
    }

    /// The lines on the page rotated so that text of this turn is upright.
    pub(super) fn upright(&self, turn: TextTurn) -> Self {
        let line = |left, right, top, bottom| turn.upright(Position { page: 0, left, right, top, bottom });
        let across = self.across.iter().map(|rule| line(rule.from, rule.to, rule.at, rule.at));
        let down = self.down.iter().map(|rule| line(rule.at, rule.at, rule.from, rule.to));
        let mut turned = Self::default();
        for place in across.chain(down) {
            let Position { left, right, top, bottom, .. } = place;
            if right - left > bottom - top {
                turned.across.push(RuledLine { at: top, from: left, to: right });
            } else {
                turned.down.push(RuledLine { at: left, from: top, to: bottom });
            }
        }
        turned.across.sort_by(|one, other| one.at.total_cmp(&other.at));
        turned.down.sort_by(|one, other| one.at.total_cmp(&other.at));
        turned
    }

    /// Positions where vertical lines cut a piece of text, from left to right.
    pub(super) fn through(&self, piece: Position) -> Vec<f32> {
        let begin = self.down.partition_point(|rule| rule.at <= piece.left + 1.0);
        let inside = self.down[begin..].iter().take_while(|rule| rule.at < piece.right - 1.0);
        inside.filter(|rule| rule.covers(piece.top, piece.bottom)).map(|rule| rule.at).collect()
    }
}

/// Finds the representative of a group, with path compression.
pub(super) fn root(first: &mut [usize], mut at: usize) -> usize {
    while first[at] != at {
        first[at] = first[first[at]];
        at = first[at];
    }
    at
}

/// Merges two groups.
pub(super) fn unite(first: &mut [usize], one: usize, other: usize) {
    let (one, other) = (root(first, one), root(first, other));
    // The smaller one represents both, so that groups keep the order of their first lines.
    first[one.max(other)] = one.min(other);
}

/// The lines and boxes that a shape draws.
fn edges(shape: &PathContent) -> Vec<Rect> {
    if !shape.has_stroke() && !shape.has_fill() {
        return Vec::new();
    }
    // A short line as thick as a table is high is actually a vertical line.
    if shape.is_straight_line() {
        return vec![shape.rendered_bbox()];
    }
    let mut edges = Vec::new();
    let (mut start, mut last) = ((0.0, 0.0), (0.0, 0.0));
    for step in &shape.operations {
        let end = match *step {
            PathOperation::MoveTo(x, y) => {
                start = (x, y);
                last = start;
                continue;
            }
            PathOperation::Rectangle(x, y, width, height) => {
                edges.push(Rect::new(x, y, width, height));
                continue;
            }
            PathOperation::CurveTo(.., x, y) => {
                last = (x, y);
                continue;
            }
            PathOperation::LineTo(x, y) => (x, y),
            PathOperation::ClosePath => start,
        };
        let (width, height) = (end.0 - last.0, end.1 - last.1);
        if width.abs().min(height.abs()) < 0.5 {
            edges.push(Rect::new(last.0, last.1, width, height));
        }
        last = end;
    }
    edges
}

/// Merges lines of one direction that are adjacent or continue each other.
fn joined(mut rules: Vec<RuledLine>) -> Vec<RuledLine> {
    rules.retain(|rule| [rule.at, rule.from, rule.to].iter().all(|number| number.is_finite()));
    rules.sort_by(|one, other| one.at.total_cmp(&other.at));
    let mut joined: Vec<RuledLine> = Vec::new();
    let mut rest = rules.as_slice();
    while let Some(first) = rest.first() {
        let (near, others) = rest.split_at(rest.partition_point(|rule| rule.at - first.at < NEAR));
        join_near(near, &mut joined);
        rest = others;
    }
    joined.retain(|rule| rule.to - rule.from >= LENGTH_MIN);
    joined
}

/// Merges adjacent lines.
fn join_near(near: &[RuledLine], joined: &mut Vec<RuledLine>) {
    #[expect(clippy::cast_precision_loss, reason = "a number of lines")]
    let at = near.iter().map(|rule| rule.at).sum::<f32>() / near.len() as f32;
    let mut near = near.to_vec();
    near.sort_by(|one, other| one.from.total_cmp(&other.from));
    let before = joined.len();
    for rule in near {
        match joined[before..].last_mut() {
            Some(last) if rule.from <= last.to + NEAR => last.to = last.to.max(rule.to),
            _ => joined.push(RuledLine { at, ..rule }),
        }
    }
}
