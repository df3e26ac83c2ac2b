//! Decodes bytes to text, and normalizes text.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, ISO_2022_JP, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// Number of bytes that are examined to guess an encoding.
const GUESSED_BYTES_MAX: usize = 1 << 20;

/// Decodes bytes of unknown encoding: by their byte order mark, as UTF-8 if they are valid, by the zero bytes of
/// UTF-16, or else by a guess.
pub(crate) fn decode(bytes: &[u8]) -> String {
    // First, because the byte order mark of UTF-32 begins with that of UTF-16.
    if let Some(text) = utf32(bytes) {
        return text;
    }
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        return encoding.decode_without_bom_handling(&bytes[mark..]).0.into_owned();
    }
    if let Some(text) = iso_2022_jp(bytes) {
        return text;
    }
    match std::str::from_utf8(bytes) {
        // Latin letters in UTF-16 are valid UTF-8 as well, with zero bytes between them.
        Ok(text) if wide(bytes).is_none() => text.to_owned(),
        _ => guess(bytes).decode_without_bom_handling(bytes).0.into_owned(),
    }
}

/// Decodes bytes with the encoding that they declare, unless it is plainly wrong.
pub(crate) fn decode_as(bytes: &[u8], label: Option<&str>) -> String {
    let said = label.and_then(|label| Encoding::for_label(label.trim().as_bytes()));
    let has_mark = Encoding::for_bom(bytes).is_some();
    match said {
        // Bytes beyond ASCII that are valid UTF-8 are UTF-8, whatever they declare.
        Some(encoding)
            if encoding != UTF_8
                && !has_mark
                && (bytes.is_ascii() || std::str::from_utf8(bytes).is_err()) =>
        {
            let (text, wrong) = encoding.decode_without_bom_handling(bytes);
            if wrong { decode(bytes) } else { text.into_owned() }
        }
        _ => decode(bytes),
    }
}

/// Decodes UTF-32, which is recognized by its byte order mark: in practice it always has one.
fn utf32(bytes: &[u8]) -> Option<String> {
    let number: fn([u8; 4]) -> u32 = match bytes {
        [0xff, 0xfe, 0, 0, ..] => u32::from_le_bytes,
        [0, 0, 0xfe, 0xff, ..] => u32::from_be_bytes,
        _ => return None,
    };
    // UTF-16 that begins with a zero would yield numbers beyond all characters.
    let (letters, rest) = bytes[4..].as_chunks::<4>();
    let text: Option<String> = letters.iter().map(|four| char::from_u32(number(*four))).collect();
    text.filter(|_| rest.is_empty())
}

/// Decodes ISO-2022-JP. It is valid UTF-8 as well, but has an escape sequence before two-byte characters.
fn iso_2022_jp(bytes: &[u8]) -> Option<String> {
    let begins = |three: &[u8]| matches!(three, b"\x1b$B" | b"\x1b$@");
    if !bytes.is_ascii() || !bytes.windows(3).any(begins) {
        return None;
    }
    let (text, wrong) = ISO_2022_JP.decode_without_bom_handling(bytes);
    (!wrong).then(|| text.into_owned())
}

/// Whether the text is encoded in units of two or four bytes.
pub(crate) fn is_wide(bytes: &[u8]) -> bool {
    let marked = Encoding::for_bom(bytes).is_some_and(|(encoding, _)| encoding != UTF_8);
    marked || wide(bytes).is_some() || utf32(bytes).is_some()
}

fn guess(bytes: &[u8]) -> &'static Encoding {
    if let Some(encoding) = wide(bytes) {
        return encoding;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    let shown = &bytes[..bytes.len().min(GUESSED_BYTES_MAX)];
    detector.feed(shown, shown.len() == bytes.len());
    let guessed = detector.guess(None, Utf8Detection::Deny);
    // An invalid byte in a text that is otherwise UTF-8 is more likely than a text of accented letters.
    if is_mostly_utf8(shown) {
        UTF_8
    } else if guessed == UTF_8 {
        WINDOWS_1252
    } else {
        guessed
    }
}

fn is_mostly_utf8(bytes: &[u8]) -> bool {
    let (mut good, mut bad) = (0_usize, 0_usize);
    for chunk in bytes.utf8_chunks() {
        good += chunk.valid().chars().filter(|character| !character.is_ascii()).count();
        bad += usize::from(!chunk.invalid().is_empty());
    }
    good > 20 * bad
}

/// Detects UTF-16 without a byte order mark: its zero bytes are all on one side, or it decodes to text in one script.
fn wide(bytes: &[u8]) -> Option<&'static Encoding> {
    let shown = &bytes[..bytes.len().min(4_096)];
    if bytes.len() < 8 || !bytes.len().is_multiple_of(2) {
        return None;
    }
    latin_wide(shown).or_else(|| scripted_wide(shown))
}

/// Detects UTF-16 in a non-Latin script, by the zero bytes of its spaces and line ends: no other text contains zero
/// bytes.
fn scripted_wide(shown: &[u8]) -> Option<&'static Encoding> {
    // `latin_wide` has already judged text of ASCII letters alone.
    let is_latin = |byte: &u8| matches!(byte, 0 | b'\t'..=b'\r' | b' '..=b'~');
    if !shown.contains(&0) || shown.iter().all(is_latin) {
        return None;
    }
    let (pairs, _) = shown.as_chunks::<2>();
    let is_text = |number: fn([u8; 2]) -> u16| is_in_one_script(pairs.iter().map(|pair| number(*pair)));
    if is_text(u16::from_le_bytes) {
        return Some(UTF_16LE);
    }
    is_text(u16::from_be_bytes).then_some(UTF_16BE)
}

/// Whether UTF-16 code units are letters of one script and what may stand between them. In the wrong byte order they
/// contain no spaces.
fn is_in_one_script(units: impl Iterator<Item = u16>) -> bool {
    let (mut blanks, mut latin, mut letters, mut signs) = (0_usize, 0_usize, 0_usize, 0_usize);
    let mut scripts = [0_usize; 256];
    let mut units = char::decode_utf16(units).peekable();
    while let Some(unit) = units.next() {
        let Ok(letter) = unit else {
            // The examined prefix may end in the middle of a character.
            if units.peek().is_some() {
                return false;
            }
            break;
        };
        match letter {
            ' ' | '\t'..='\r' => blanks += 1,
            '!'..='~' => latin += usize::from(letter.is_ascii_alphabetic()),
            letter if letter.is_control() || is_no_text(letter) => return false,
            letter if letter.is_alphabetic() => {
                letters += 1;
                scripts[script(letter)] += 1;
            }
            _ => signs += 1,
        }
    }
    let most = scripts.into_iter().max().unwrap_or_default();
    let all = letters + latin;
    blanks > 0 && all >= 4 && most * 4 >= letters * 3 && signs <= all
}

/// Whether a character does not occur in text for interchange: private-use characters, specials and noncharacters.
fn is_no_text(letter: char) -> bool {
    matches!(letter, '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}' | '\u{f0000}'..='\u{10ffff}')
}

/// A number for the script of a letter beyond ASCII. Most scripts lie within one block of 256 code points.
fn script(letter: char) -> usize {
    match u32::from(letter) {
        // Chinese, Japanese and Korean count as one script.
        0x2e80..=0xa4cf | 0xac00..=0xd7ff | 0xf900..=0xfaff => 0x4e,
        // Latin with diacritics.
        0..=0x24f | 0x1e00..=0x1eff => 0,
        number => (number >> 8) as usize & 0xff,
    }
}

/// Detects UTF-16 of Latin letters, whose zero bytes are all on one side.
fn latin_wide(shown: &[u8]) -> Option<&'static Encoding> {
    let is_strange = |byte: &u8| matches!(byte, 1..=8 | 14..=31);
    if shown.iter().filter(|byte| is_strange(byte)).count() * 50 > shown.len() {
        return None;
    }
    let zeros = |first: usize| shown.iter().skip(first).step_by(2).filter(|byte| **byte == 0).count();
    let half = shown.len() / 2;
    match (zeros(0), zeros(1)) {
        (0, odd) if odd * 4 > half => Some(UTF_16LE),
        (even, 0) if even * 4 > half => Some(UTF_16BE),
        _ => None,
    }
}

/// Whether bytes are some kind of text, and not a picture, a program or an archive.
pub(crate) fn is_text(bytes: &[u8]) -> bool {
    let shown = &bytes[..bytes.len().min(64 << 10)];
    if Encoding::for_bom(bytes).is_some() || is_wide(bytes) {
        return true;
    }
    // Escape (27) is left out: it occurs in ISO-2022-JP and in the colours of logs.
    let strange = shown.iter().filter(|byte| matches!(byte, 0..=8 | 14..=26 | 28..=31 | 127)).count();
    !shown.contains(&0) && strange * 100 <= shown.len()
}

/// Joins a text into one line: any run of white space becomes one space.
pub(crate) fn line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        let before = line.len();
        if before > 0 && !word.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().filter(|c| !is_invisible(*c)));
        // A word of nothing but invisible characters leaves no space behind.
        if line.len() == before + 1 && before > 0 {
            line.truncate(before);
        }
    }
    line
}

/// Normalizes each line and drops the empty ones.
pub(crate) fn lines(text: &str) -> String {
    let lines: Vec<String> = text
        .split(['\n', '\r', '\u{b}', '\u{c}', '\u{2028}', '\u{2029}'])
        .map(line)
        .filter(|line| !line.is_empty())
        .collect();
    lines.join("\n")
}

/// Normalizes the text of a table cell and keeps its line breaks, including empty lines between others.
pub(crate) fn cell_lines(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let lines: Vec<String> = text.split(['\n', '\r']).map(line).collect();
    lines.join("\n").trim().to_owned()
}

/// Normalizes lines but keeps the tabs between words: in plain text they separate columns.
pub(crate) fn lines_with_tabs(text: &str) -> String {
    let columns = |line: &str| {
        let cells: Vec<String> = line.split('\t').map(self::line).collect();
        cells.join("\t").trim_end_matches('\t').to_owned()
    };
    let lines: Vec<String> = text.lines().map(columns).filter(|line| !line.trim().is_empty()).collect();
    lines.join("\n")
}

/// Appends a line to a text that continues in it: with a space between words, and without one between characters of
/// languages that use none.
pub(crate) fn join(mut text: String, line: &str) -> String {
    let line = line.trim();
    let (Some(last), Some(first)) = (text.chars().next_back(), line.chars().next()) else {
        text.push_str(line);
        return text;
    };
    let is_tight = is_unspaced(last) && is_unspaced(first);
    if !last.is_whitespace() && !is_tight {
        text.push(' ');
    }
    text.push_str(line);
    text
}

/// Whether a character belongs to a script written without spaces: Chinese, Japanese, and their punctuation.
pub(crate) fn is_unspaced(character: char) -> bool {
    matches!(character, '\u{2e80}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}' | '\u{20000}'..='\u{323af}')
}

/// Characters that readers do not see and that prevent words from being found.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// Returns the first `count` characters.
pub(crate) fn beginning(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).map_or(text, |(at, _)| &text[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_decoded_to_text() {
        let check = |bytes: &[u8], expected: &str| assert_eq!(decode(bytes), expected);
        check(b"plain", "plain");
        check("größer 数据".as_bytes(), "größer 数据");
        check(b"\xef\xbb\xbfmark", "mark");
        check(b"\xff\xfeh\0i\0", "hi");
        check(b"h\0i\0 \0y\0o\0u\0", "hi you");
        check(b"\0h\0i\0 \0y\0o\0u", "hi you");
        for text in ["Привет, мир!\r\nКак дела?", "数据库 的 备份\n二〇二四年", "שלום עולם ועוד", "Ārē ūdens"]
        {
            check(&text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>(), text);
            check(&text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<_>>(), text);
        }
        check(b"Caf\xe9 au lait, gar\xe7on", "Café au lait, garçon");
        let (japanese, ..) = encoding_rs::SHIFT_JIS.encode("名前,年齢,住所\n佐藤太郎,30,東京\n");
        check(&japanese, "名前,年齢,住所\n佐藤太郎,30,東京\n");
        let (chinese, ..) = encoding_rs::GB18030.encode("中华人民共和国宪法，第一章总纲。");
        check(&chinese, "中华人民共和国宪法，第一章总纲。");
        let seven_bits = b"\x1b$BL>A0\x1b(B, \x1b$BG/Np\x1b(B\n";
        check(seven_bits, "名前, 年齢\n");
        check(b"a \x1b$B price", "a \x1b$B price");
        let mut broken = "数据库".repeat(20).into_bytes();
        broken.push(0xff);
        check(&broken, &("数据库".repeat(20) + "\u{fffd}"));
    }

    #[test]
    fn a_wrong_charset_label_is_harmless() {
        assert_eq!(decode_as("é".as_bytes(), Some("utf-8")), "é");
        assert_eq!(decode_as(b"\xe9", Some("iso-8859-1")), "é");
        assert_eq!(decode_as("数据".as_bytes(), Some("shift_jis")), "数据");
        assert_eq!(decode_as("é".as_bytes(), Some("no such thing")), "é");
    }

    #[test]
    fn text_is_distinguished_from_binary() {
        let check = |bytes: &[u8], expected: bool| assert_eq!(is_text(bytes), expected, "{bytes:?}");
        check(b"", true);
        check(b"a\tb\r\n", true);
        check(b"h\0i\0 \0y\0o\0u\0", true);
        check(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", false);
        check(&[1, 2, 3, 4, 5, 6], false);
        check(b"\x10\x04\x20\0\x11\x04\x12\x04\x13\x04\x14\x04", true);
        check(b"\x10\x04\x20\0\x11\x04\x12\x04\x13\x04\x01\0", false);
        check(b"\x10\x04\x20\0\x11\x4e\x12\x09\x13\x0e\x14\x3f", false);
    }

    #[test]
    fn lines_are_joined_with_the_next() {
        let check =
            |text: &str, next: &str, expected: &str| assert_eq!(join(text.to_owned(), next), expected);
        check("one", " two", "one two");
        check("数据", "库", "数据库");
        check("数据", "base", "数据 base");
        check("one ", "two", "one two");
        check("", "two", "two");
    }

    #[test]
    fn lines_are_normalised() {
        assert_eq!(line("  a \n\t b\u{a0}c\u{3000}d\u{ad}e \u{200b} "), "a b c de");
        assert_eq!(lines("a  b\r\n\r\n c \u{c}d"), "a b\nc\nd");
        assert_eq!(cell_lines("\na  b\r\n\r\n c\rd\n"), "a b\n\nc\nd");
        assert_eq!(cell_lines(" a \u{200b} "), "a");
        assert_eq!(beginning("数据库", 2), "数据");
    }
}
