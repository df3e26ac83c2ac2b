//! The RTF tokenizer: groups, control words and text.

/// Maximum number of letters in a control word.
const NAME_MAX: usize = 32;
/// Maximum number of digits in a number.
const DIGITS_MAX: usize = 10;

/// A token.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RtfToken<'a> {
    /// Start of a group.
    Open,
    /// End of a group.
    Close,
    /// A control word.
    Word { name: &'a str, number: Option<i32> },
    /// A control symbol: a backslash and one character.
    Symbol(u8),
    /// A byte in the encoding of the text, written as two hexadecimal digits.
    Byte(u8),
    /// Text in that encoding.
    Text(&'a [u8]),
}

/// Splits a file into tokens.
pub(super) struct RtfTokens<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for RtfTokens<'a> {
    type Item = RtfToken<'a>;

    fn next(&mut self) -> Option<RtfToken<'a>> {
        loop {
            let (&first, after) = self.0.split_first()?;
            match first {
                // Line ends of the file mean nothing.
                b'\r' | b'\n' | 0 => self.0 = after,
                b'{' | b'}' => {
                    self.0 = after;
                    return Some(if first == b'{' { RtfToken::Open } else { RtfToken::Close });
                }
                b'\\' => {
                    self.0 = after;
                    if let Some(token) = self.control() {
                        return Some(token);
                    }
                }
                _ => {
                    let is_end = |byte: &u8| matches!(byte, b'{' | b'}' | b'\\' | b'\r' | b'\n' | 0);
                    let end = self.0.iter().position(is_end).unwrap_or(self.0.len());
                    let (text, rest) = self.0.split_at(end);
                    self.0 = rest;
                    return Some(RtfToken::Text(text));
                }
            }
        }
    }
}

impl<'a> RtfTokens<'a> {
    /// The token after a backslash, if there is one.
    fn control(&mut self) -> Option<RtfToken<'a>> {
        let (&first, after) = self.0.split_first()?;
        if first == b'\'' {
            let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
            let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            self.0 = byte.and_then(|_| after.get(2..)).unwrap_or(after);
            return byte.map(RtfToken::Byte);
        }
        if !first.is_ascii_alphabetic() {
            self.0 = after;
            return Some(RtfToken::Symbol(first));
        }
        let length = self.0.iter().take(NAME_MAX).take_while(|byte| byte.is_ascii_alphabetic()).count();
        let (name, rest) = self.0.split_at(length);
        let sign = usize::from(rest.first() == Some(&b'-'));
        let digits = rest[sign..].iter().take(DIGITS_MAX).take_while(|byte| byte.is_ascii_digit()).count();
        let used = if digits > 0 { sign + digits } else { 0 };
        let (number, rest) = rest.split_at(used);
        let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
        // A space after a control word belongs to it.
        self.0 = rest.strip_prefix(b" ").unwrap_or(rest);
        // Raw bytes follow, which may look like anything.
        if name == b"bin" {
            let length = number.and_then(|length: i32| usize::try_from(length).ok()).unwrap_or_default();
            self.0 = self.0.get(length..).unwrap_or_default();
            return None;
        }
        Some(RtfToken::Word { name: std::str::from_utf8(name).ok()?, number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rtf_files_are_tokenised() {
        let word = |name, number| RtfToken::Word { name, number };
        let found: Vec<RtfToken<'_>> =
            RtfTokens(b"{\\rtf1 a\\'e4\\~\\u-10\\b  b\\bin3 }}}c\\x-}\r\nd\\").collect();
        let expected = [
            RtfToken::Open,
            word("rtf", Some(1)),
            RtfToken::Text(b"a"),
            RtfToken::Byte(0xe4),
            RtfToken::Symbol(b'~'),
            word("u", Some(-10)),
            word("b", None),
            RtfToken::Text(b" b"),
            RtfToken::Text(b"c"),
            word("x", None),
            RtfToken::Text(b"-"),
            RtfToken::Close,
            RtfToken::Text(b"d"),
        ];
        assert_eq!(found, expected);
        assert_eq!(RtfTokens(b"\\'zz\\bin999 x").collect::<Vec<_>>(), [RtfToken::Text(b"zz")]);
    }
}
