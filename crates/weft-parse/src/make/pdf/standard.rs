//! Standard fonts, which every PDF reader provides, so they need not be embedded: italic and monospaced. The built-in
//! fonts have neither style.

use super::super::blocks::RunStyle;

/// Width of the letters of Courier, in thousandths of the font size.
const COURIER_WIDTH: u16 = 600;
/// Western European letters grouped by their width in Helvetica Oblique, in thousandths of the font size. All other
/// letters are set upright, in a font that contains them.
const SLANTED: &[(u16, &str)] = &[
    (191, "'"),
    (222, "ijl‘’"),
    (260, "|"),
    (278, " !,./:;I[\\]ftÌÍÎÏìíîï"),
    (333, "()-`r“”"),
    (334, "{}"),
    (355, "\""),
    (389, "*"),
    (469, "^"),
    (500, "Jcksvxyzçýÿ"),
    (556, "#$0123456789?L_abdeghnopquàáâãäåèéêëðñòóôõöùúûüþ–"),
    (584, "+<=>~×÷"),
    (611, "FTZßø"),
    (667, "&ABEKPSVXYÀÁÂÃÄÅÈÉÊËÝÞ"),
    (722, "CDHNRUwÇÐÑÙÚÛÜ"),
    (778, "GOQÒÓÔÕÖØ"),
    (833, "Mm"),
    (889, "%æ"),
    (944, "W"),
    (1000, "Æ—…"),
    (1015, "@"),
];
/// The same for bold letters.
const SLANTED_BOLD: &[(u16, &str)] = &[
    (238, "'"),
    (278, " ,./I\\ijlÌÍÎÏìíîï‘’"),
    (280, "|"),
    (333, "!()-:;[]`ft"),
    (389, "*r{}"),
    (474, "\""),
    (500, "z“”"),
    (556, "#$0123456789J_aceksvxyàáâãäåçèéêëýÿ–"),
    (584, "+<=>^~×÷"),
    (611, "?FLTZbdghnopqußðñòóôõöøùúûüþ"),
    (667, "EPSVXYÈÉÊËÝÞ"),
    (722, "&ABCDHKNRUÀÁÂÃÄÅÇÐÑÙÚÛÜ"),
    (778, "GOQwÒÓÔÕÖØ"),
    (833, "M"),
    (889, "%mæ"),
    (944, "W"),
    (975, "@"),
    (1000, "Æ—…"),
];

/// Finds the standard font for a letter in a style that the built-in fonts lack, and the letter's width.
pub(super) fn find(letter: char, style: RunStyle) -> Option<(&'static str, u16)> {
    let of = |plain, bold| if style.bold { bold } else { plain };
    let font = match () {
        () if style.code && style.italic => of("Courier-Oblique", "Courier-BoldOblique"),
        () if style.code => of("Courier", "Courier-Bold"),
        () if style.italic => of("Helvetica-Oblique", "Helvetica-BoldOblique"),
        () => return None,
    };
    Some((font, width(font, letter)?))
}

/// Width of a letter in one of these fonts, in thousandths of the font size; `None` if it is set in another font.
pub(super) fn width(font: &str, letter: char) -> Option<u16> {
    let letters = if font == "Helvetica-BoldOblique" { SLANTED_BOLD } else { SLANTED };
    let (width, _) = letters.iter().find(|(_, letters)| letters.contains(letter))?;
    Some(if font.starts_with("Courier") { COURIER_WIDTH } else { *width })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_letter_has_one_width_in_both_weights() {
        let all = |letters: &[(u16, &str)]| {
            let mut all: Vec<char> = letters.iter().flat_map(|(_, letters)| letters.chars()).collect();
            all.sort_unstable();
            all
        };
        let plain = all(SLANTED);
        assert_eq!(plain, all(SLANTED_BOLD));
        assert!(plain.windows(2).all(|two| two[0] != two[1]), "{plain:?}");
        assert!((' '..='~').chain('À'..='ÿ').all(|letter| plain.contains(&letter)), "{plain:?}");
    }

    #[test]
    fn characters_outside_a_font_use_another_font() {
        let italic = RunStyle { italic: true, ..RunStyle::default() };
        assert_eq!(find('a', italic), Some(("Helvetica-Oblique", 556)));
        assert_eq!(
            find('a', RunStyle { code: true, bold: true, ..italic }),
            Some(("Courier-BoldOblique", 600))
        );
        assert_eq!(find('Ω', italic), None);
        assert_eq!(find('a', RunStyle { bold: true, ..RunStyle::default() }), None);
    }
}
