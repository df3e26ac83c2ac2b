//! The parts of a page: lines of text, rows of them, and tables.

use pdf_oxide::layout::{FontWeight, TextSpan};
use weft_core::seam::document_reader::Position;

use super::extractor::font_name;
use crate::words::is_unspaced;

/// Minimum gap between pieces that counts as a space, as a fraction of the type size.
const BLANK: f32 = 0.15;

/// A line of text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PageLine {
    /// The text.
    pub text: String,
    /// Position of the line.
    pub place: Position,
    /// Type size, in points.
    pub size: f32,
    /// Whether it is bold throughout.
    pub is_bold: bool,
    /// Whether it is monospaced throughout.
    pub is_mono: bool,
    /// Whether it is a row of a table or a form instead of a line of running text.
    pub has_cells: bool,
}

/// Pieces of text at the same height, from left to right.
#[derive(Clone, Debug)]
pub(super) struct PageRow {
    /// Never empty.
    pub pieces: Vec<PageLine>,
}

/// Rows and position of a table.
pub(super) type PlacedTable = (Vec<Vec<String>>, Position);

/// An element of a page.
#[derive(Clone, Debug)]
pub(super) enum PageBlock {
    /// Text.
    Line(PageLine),
    /// A table, row by row.
    Table(Vec<Vec<String>>, Position),
}

impl PageBlock {
    /// Position of the block.
    pub(super) fn place(&self) -> Position {
        let (Self::Line(PageLine { place, .. }) | Self::Table(_, place)) = self;
        *place
    }
}

impl PageLine {
    /// Creates a line from a string of the library and its position.
    pub(super) fn of(span: &TextSpan, place: Position) -> Self {
        Self {
            text: span.text.clone(),
            place,
            // Sizes come from the file: they can be negative or not finite.
            size: if span.font_size.is_finite() { span.font_size.abs() } else { 0.0 },
            is_bold: is_bold(span),
            is_mono: is_mono(span),
            has_cells: false,
        }
    }

    /// Appends a piece of text, with a space if the gap is as wide as one.
    pub(super) fn add(&mut self, piece: &Self, gap: f32) {
        let size = self.size.max(piece.size).max(1.0);
        // Chinese has no spaces between words, whatever the gaps between glyphs.
        let is_tight = matches!(
            (self.text.chars().next_back(), piece.text.chars().next()),
            (Some(last), Some(first)) if is_unspaced(last) && is_unspaced(first) && gap < size
        );
        if gap > size * BLANK && !is_tight {
            self.text.push(' ');
        }
        // The size of the longest part is used for the whole line.
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

    /// Approximate number of Latin letters that fit into its width.
    pub(super) fn width_in_letters(&self) -> usize {
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
        || is_bold_name(&span.font_name)
}

/// Whether the name of a font says that it is bold. TeX fonts use abbreviations, and declare no weight.
fn is_bold_name(name: &str) -> bool {
    const WORDS: [&str; 6] = ["bold", "black", "heavy", "demi", "-medi", "extrabd"];
    // Computer Modern and the fonts derived from it, whose names end in a size.
    const OF_TEX: [&str; 9] = ["cmbx", "cmssbx", "cmb1", "sfbx", "sfsx", "ecbx", "ecsx", "tcbx", "cmcscb"];
    let name = font_name(name);
    WORDS.iter().any(|word| name.contains(word)) || OF_TEX.iter().any(|start| name.starts_with(start))
}

fn is_mono(span: &TextSpan) -> bool {
    span.is_monospace
        || ["Mono", "Courier", "Consolas", "Menlo"].iter().any(|name| span.font_name.contains(name))
}

#[cfg(test)]
mod tests {
    use super::is_bold_name;

    #[test]
    fn bold_fonts_are_recognised_by_name() {
        for name in [
            "ABCDEF+CMBX12",
            "Helvetica-Bold",
            "NimbusRomNo9L-Medi",
            "SFBX1000",
            "Arial,Bold",
            "Inter-ExtraBold",
        ] {
            assert!(is_bold_name(name), "{name}");
        }
        for name in ["ABCDEF+CMR10", "NimbusRomNo9L-Regu", "Helvetica", "CMBSY10"] {
            assert!(!is_bold_name(name), "{name}");
        }
    }
}
