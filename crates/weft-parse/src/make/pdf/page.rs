//! A page as it is set: what is drawn, and where.

/// Something on a page.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Drawn {
    /// Letters of one font.
    Text { at: Point, text: String, font: &'static str, size: f32, width: f32, grey: f32 },
    /// A thin line.
    Line { from: Point, to: Point, grey: f32 },
}

/// A place on a page, in points from its lower left corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub x: f32,
    pub y: f32,
}

/// A page.
#[derive(Clone, Debug, Default)]
pub(super) struct SetPage {
    pub drawn: Vec<Drawn>,
}
