//! Characters of symbol fonts, such as the boxes of forms.

use crate::markup::Tag;

/// The Greek letters of the font Symbol, in the positions of the Latin ones.
const CAPITALS: &str = "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ";
const SMALL: &str = "αβχδεφγηιϕκλμνοπθρστυϖωξψζ";

/// Character that an element `sym` shows; `None` if it is unknown.
pub(super) fn sign(tag: &Tag<'_>) -> Option<char> {
    let font = tag.attribute("font").unwrap_or_default();
    let code = u32::from_str_radix(&tag.attribute("char")?, 16).ok()?;
    of_font(&font, code)
}

fn of_font(font: &str, code: u32) -> Option<char> {
    // Symbol fonts map their characters to a private use area.
    let place = if (0xf000..0xf100).contains(&code) { code - 0xf000 } else { code };
    let letter = |letters: &str, first: u32| letters.chars().nth(usize::try_from(place - first).ok()?);
    match (font, place) {
        ("Wingdings", 0x6f | 0x71 | 0x72 | 0xa8) | ("Wingdings 2", 0xa3) => Some('☐'),
        ("Wingdings", 0xfe) | ("Wingdings 2", 0x52) => Some('☑'),
        ("Wingdings", 0xfd) | ("Wingdings 2", 0x54) => Some('☒'),
        ("Wingdings", 0xfc) | ("Wingdings 2", 0x50) => Some('✓'),
        ("Wingdings", 0xfb) | ("Wingdings 2", 0x4f) => Some('✗'),
        ("Wingdings", 0xe0) | ("Symbol", 0xae) => Some('→'),
        ("Wingdings", 0xdf) | ("Symbol", 0xac) => Some('←'),
        ("Symbol", 0x41..=0x5a) => letter(CAPITALS, 0x41),
        ("Symbol", 0x61..=0x7a) => letter(SMALL, 0x61),
        ("Symbol", 0xa3) => Some('≤'),
        ("Symbol", 0xb3) => Some('≥'),
        ("Symbol", 0xb9) => Some('≠'),
        ("Symbol", 0xbb) => Some('≈'),
        ("Symbol", 0xa5) => Some('∞'),
        ("Symbol", 0xd6) => Some('√'),
        ("Symbol", 0xe5) => Some('∑'),
        ("Symbol", 0xb4) => Some('×'),
        // In these positions the font agrees with Latin-1.
        ("Symbol", 0xb0 | 0xb1) => char::from_u32(place),
        ("Symbol", 0xb7) => Some('•'),
        ("Wingdings" | "Wingdings 2" | "Wingdings 3" | "Webdings" | "Symbol", _) => None,
        _ => char::from_u32(code)
            .filter(|sign| !sign.is_control() && !('\u{e000}'..='\u{f8ff}').contains(sign)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_mapped_by_their_font() {
        let check = |font: &str, code: u32, expected: Option<char>| {
            assert_eq!(of_font(font, code), expected, "{font} {code:x}");
        };
        check("Wingdings", 0xf0fe, Some('☑'));
        check("Wingdings", 0xf06f, Some('☐'));
        check("Wingdings", 0xf001, None);
        check("Symbol", 0xf061, Some('α'));
        check("Symbol", 0x5a, Some('Ζ'));
        check("Symbol", 0xf0b1, Some('±'));
        check("Segoe UI Symbol", 0x2610, Some('☐'));
        check("Own", 0xf041, None);
        check("Own", 0x110000, None);
    }
}
