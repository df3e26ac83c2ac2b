//! A laid-out page: what is drawn, and where.

use std::fmt::Write as _;
use std::sync::Arc;

use super::super::blocks::TextRun;

/// How letters are drawn, apart from their font.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ink {
    pub grey: f32,
    /// Whether they are struck through.
    pub strike: bool,
    /// The address they link to, in ASCII.
    pub link: Option<Arc<str>>,
}

impl Ink {
    pub(super) fn of(run: &TextRun) -> Self {
        // Links and program text are distinguished by their colour.
        let grey = if run.link.is_some() || run.style.code { 0.3 } else { 0.0 };
        Self { grey, strike: run.style.strike, link: run.link.as_deref().map(|to| in_ascii(to).into()) }
    }
}

/// Percent-encodes an address for a PDF.
fn in_ascii(address: &str) -> String {
    let mut ascii = String::with_capacity(address.len());
    for byte in address.trim().bytes() {
        if byte.is_ascii_graphic() {
            ascii.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(ascii, "%{byte:02X}");
        }
    }
    ascii
}

/// Something drawn on a page.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Drawn {
    /// Letters of one font.
    Text { at: PagePoint, text: String, font: &'static str, size: f32, width: f32, grey: f32 },
    /// A thin line.
    Line { from: PagePoint, to: PagePoint, grey: f32 },
    /// The area of a link.
    Link { at: PagePoint, width: f32, size: f32, to: Arc<str> },
}

/// A position on a page, in points from its lower left corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PagePoint {
    pub x: f32,
    pub y: f32,
}

/// A page whose content has been placed.
#[derive(Clone, Debug, Default)]
pub(super) struct SetPage {
    pub drawn: Vec<Drawn>,
}
