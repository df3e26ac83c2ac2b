//! RTF compressed by Outlook (MS-OXRTFCP).

/// The initial contents of the dictionary, so that a reference to text in it takes two bytes.
const BEFORE: &[u8] =
    b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript \
    \\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\
    \\par \\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx";
/// Size of the dictionary, in bytes.
const WINDOW: usize = 4_096;
/// Size of the header in bytes: two sizes, the compression type, and a checksum.
const HEADER: usize = 16;
/// Maximum size of one text, in bytes.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// Decompresses a text; `None` if it is damaged from the start.
pub(in crate::format) fn unpacked(bytes: &[u8]) -> Option<Vec<u8>> {
    let (kind, packed) = (bytes.get(8..12)?, bytes.get(HEADER..)?);
    match kind {
        // `MELA`: the text is not compressed.
        b"MELA" => return Some(packed.to_vec()),
        b"LZFu" => {}
        _ => return None,
    }
    let mut text = BEFORE.to_vec();
    let mut packed = packed.iter().copied();
    // Eight tokens, each a literal byte or a reference with offset and length; the lowest bit of the control byte
    // belongs to the first.
    'text: while let Some(signs) = packed.next() {
        for sign in 0..8 {
            let Some(first) = packed.next() else { break 'text };
            if signs & 1 << sign == 0 {
                text.push(first);
                continue;
            }
            let Some(second) = packed.next() else { break 'text };
            let place = usize::from(first) << 4 | usize::from(second) >> 4;
            // The dictionary is a ring buffer: a reference to the current position marks the end of the text.
            let back = (text.len() + WINDOW - place) % WINDOW;
            if back == 0 || back > text.len() || text.len() > TEXT_BYTES_MAX {
                break 'text;
            }
            // A reference to fewer than two bytes would save nothing, so lengths start at two.
            for _ in 0..usize::from(second & 0xf) + 2 {
                text.push(text[text.len() - back]);
            }
        }
    }
    text.drain(..BEFORE.len());
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_unpacked() {
        // Made by another program.
        let packed = b"\x2d\0\0\0\x2b\0\0\0LZFu\xf1\xc5\xc7\xa7\x03\0\x0a\0rcpg125B2\x0a\xf3 hel\x09\0 bw\x05\xb0ld}\x0a\x80\x0f\xa0";
        assert_eq!(
            unpacked(packed).as_deref(),
            Some(&b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"[..])
        );
        assert_eq!(unpacked(b"\0\0\0\0\0\0\0\0MELA\0\0\0\0{\\rtf1 a}").as_deref(), Some(&b"{\\rtf1 a}"[..]));
        assert_eq!(unpacked(b"short"), None);
        assert_eq!(unpacked(b"\0\0\0\0\0\0\0\0other\0\0\0text"), None);
        for end in 0..packed.len() {
            let _ = unpacked(&packed[..end]);
        }
    }
}
