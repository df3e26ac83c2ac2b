//! Ligatures of TeX fonts: `fi`, `ff`, `ffl` …
//!
//! Fonts of the Computer Modern family may come without any mapping from codes to characters. The library then drops
//! codes that are not ASCII, so that `file` becomes `le`. The codes are known, however (TeX's encoding OT1), so such a
//! page is read a second time with fonts that have the mapping.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use pdf_oxide::PdfDocument;
use pdf_oxide::fonts::{Encoding, FontInfo};
use pdf_oxide::layout::TextSpan;

use super::extractor::{self, font_name};

/// Names of fonts in the OT1 encoding, without their sizes.
const OF_TEXT: [&str; 8] = ["cmr", "cmbx", "cmb", "cmti", "cmsl", "cmss", "cmssbx", "cmu"];
/// Codes of ligatures. They are kept as one character at first, which shows where text was missing.
const AS_ONE: [(u8, char); 5] = [(11, 'ﬀ'), (12, 'ﬁ'), (13, 'ﬂ'), (14, 'ﬃ'), (15, 'ﬄ')];
/// Other codes that differ from ASCII.
const OTHERS: [(u8, char); 21] = [
    (16, 'ı'),
    (18, '`'),
    (19, '´'),
    (20, 'ˇ'),
    (21, '˘'),
    (22, '¯'),
    (23, '˚'),
    (24, '¸'),
    (25, 'ß'),
    (26, 'æ'),
    (27, 'œ'),
    (28, 'ø'),
    (29, 'Æ'),
    (30, 'Œ'),
    (31, 'Ø'),
    (34, '”'),
    (39, '’'),
    (92, '“'),
    (96, '‘'),
    (123, '–'),
    (124, '—'),
];
/// Maximum distance between two readings of the same text, in points.
const APART: f32 = 0.5;

/// Restores the ligatures that the library dropped from the text of a page.
pub(super) fn complete(document: &PdfDocument, index: usize, spans: &mut [TextSpan]) {
    if !spans.iter().any(|span| is_of_text(&span.font_name)) {
        return;
    }
    let Some(again) = read_again(document, index) else { return };
    // Indexed by position; otherwise each piece would be compared with all others.
    let mut places: HashMap<(i32, i32), Vec<&TextSpan>> = HashMap::new();
    for span in &again {
        if span.text.contains(|letter| AS_ONE.iter().any(|(_, one)| *one == letter)) {
            places.entry(cell(span)).or_default().push(span);
        }
    }
    for span in spans {
        let (x, y) = cell(span);
        // Neighbouring grid cells are searched as well, since two readings may lie on both sides of an edge.
        let around = (-1..=1).flat_map(|dx| (-1..=1).map(move |dy| (x + dx, y + dy)));
        let mut near = around.filter_map(|cell| places.get(&cell)).flatten();
        let same = near.find(|other| {
            (other.bbox.x - span.bbox.x).abs() < APART
                && (other.bbox.y - span.bbox.y).abs() < APART
                && without(&other.text) == span.text
        });
        if let Some(same) = same {
            span.text.clone_from(&same.text);
            // The offsets and widths are those of the reading without the ligatures.
            span.char_x_offsets.clear();
            span.char_widths.clear();
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "places on a page; beyond it the cast stops at the limits"
)]
fn cell(span: &TextSpan) -> (i32, i32) {
    (span.bbox.x as i32, span.bbox.y as i32)
}

fn without(text: &str) -> String {
    text.chars().filter(|letter| !AS_ONE.iter().any(|(_, one)| one == letter)).collect()
}

/// Reads the text of a page with the missing mappings added; `None` if all fonts have one.
fn read_again(document: &PdfDocument, index: usize) -> Option<Vec<TextSpan>> {
    let mut extractor = extractor::of_page(document, index)?;
    let silent: Vec<(String, FontInfo)> = extractor
        .get_font_set()
        .into_iter()
        .filter(|(_, font)| is_silent(font))
        .map(|(name, font)| (name, speaking(&font)))
        .collect();
    if silent.is_empty() {
        return None;
    }
    silent.into_iter().for_each(|(name, font)| extractor.add_font(name, font));
    extractor.extract_text_spans(&document.get_page_content_data(index).ok()?).ok()
}

fn is_silent(font: &FontInfo) -> bool {
    let has_encoding = !matches!(&font.encoding, Encoding::Standard(name) if name == "SymbolicBuiltIn");
    font.subtype == "Type1" && font.to_unicode.is_none() && !has_encoding && is_of_text(&font.base_font)
}

fn speaking(font: &FontInfo) -> FontInfo {
    let mut codes: HashMap<u8, char> = (33..=126).map(|code| (code, char::from(code))).collect();
    codes.extend(OTHERS);
    let as_one = AS_ONE.iter().map(|(code, letter)| (*code, letter.to_string()));
    let mut font = font.clone();
    font.encoding = Encoding::Custom(codes);
    font.multi_char_map.extend(as_one);
    // Discards what was derived from the previous encoding.
    font.byte_to_char_table = OnceLock::new();
    font.type0_unicode_memo = Arc::default();
    font
}

fn is_of_text(name: &str) -> bool {
    let name = font_name(name);
    // Some programs number the subsets of a font: `CMBX12~38`.
    let name = name.split_once('~').map_or(name.as_str(), |(name, _)| name);
    let family = name.trim_end_matches(|c: char| c.is_ascii_digit());
    family.len() < name.len() && OF_TEXT.contains(&family)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tex_text_fonts_are_recognised_by_name() {
        for name in ["LQJZEQ+CMR10", "CMBX12~38", "ABCDEF+CMSS9", "CMTI8"] {
            assert!(is_of_text(name), "{name}");
        }
        for name in ["CMMI10", "CMSY8", "CMTT10", "CMCSC10", "CMEX10", "Helvetica", "cmr"] {
            assert!(!is_of_text(name), "{name}");
        }
    }

    #[test]
    fn ligatures_can_be_removed() {
        assert_eq!(without("a ﬁle of diﬃculty"), "a le of diculty");
    }
}
