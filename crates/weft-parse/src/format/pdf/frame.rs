//! Where things are on a page: from the coordinates of the file to those from the upper left corner.

use pdf_oxide::PdfDocument;
use pdf_oxide::geometry::Rect;
use pdf_oxide::layout::TextSpan;
use weft_core::seam::document_reader::Position;

/// The visible part of a page: its left and upper edges, and its size.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageFrame {
    /// Page number, starting at 1.
    pub page: u32,
    left: f32,
    top: f32,
    width: f32,
    /// Height, in points.
    pub height: f32,
}

impl PageFrame {
    /// Frame of a page; the size is Letter if the document gives none.
    pub(super) fn of(document: &PdfDocument, number: usize) -> Self {
        let (left, bottom, right, top) =
            document.get_page_visible_box(number - 1).unwrap_or((0.0, 0.0, 612.0, 792.0));
        let page = u32::try_from(number).unwrap_or(u32::MAX);
        Self { page, left, top, width: right - left, height: top - bottom }
    }

    /// Area in square points.
    pub(super) fn area(&self) -> f32 {
        self.width * self.height
    }

    /// Position of a piece of text. The library has rotated some pieces with their page, and others not.
    pub(super) fn place(&self, span: &TextSpan) -> Position {
        match span.page_rotation_applied {
            // These are in the coordinates of the turned page, whose sides are exchanged.
            90 | 270 => {
                Self { top: self.top - self.height + self.width, ..*self }.rectangle(span.page_bbox())
            }
            _ => self.rectangle(span.page_bbox()),
        }
    }

    /// Position of a rectangle when the page is rotated clockwise for display.
    pub(super) fn turned(&self, place: Position, degrees: i32) -> Position {
        let (left, right, top, bottom) = (place.left, place.right, place.top, place.bottom);
        let (width, height) = (self.width, self.height);
        let [left, right, top, bottom] = match degrees {
            90 => [height - bottom, height - top, left, right],
            180 => [width - right, width - left, height - bottom, height - top],
            270 => [top, bottom, width - right, width - left],
            _ => return place,
        };
        Position { left, right, top, bottom, ..place }
    }

    /// Converts a rectangle to coordinates from the upper left corner.
    pub(super) fn rectangle(&self, rect: Rect) -> Position {
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
