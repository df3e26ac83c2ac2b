//! Delimiters: where a text may be cut, and where it must be.

/// Delimiters as the settings give them: each character is one, and so is each text between backticks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Delimiters {
    /// Characters after which a text may be cut.
    plain: Vec<char>,
    /// Texts after which it is always cut.
    always: Vec<String>,
}

impl Delimiters {
    /// Parses delimiters; escape sequences (`\n`, `\t`, `\u3002` …) are decoded first.
    pub(crate) fn parse(raw: &str) -> Self {
        let decoded = decode(raw);
        let mut delimiters = Self::default();
        let mut rest = decoded.as_str();
        while let Some(c) = rest.chars().next() {
            let quoted = rest.strip_prefix('`').and_then(|rest| rest.split_once('`'));
            if let Some((inside, after)) = quoted {
                if !inside.is_empty() {
                    delimiters.always.push(inside.to_owned());
                }
                rest = after;
            } else {
                delimiters.plain.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
        // Sorted for the binary searches below.
        delimiters.plain.sort_unstable();
        delimiters.plain.dedup();
        // The longest of those that match at an offset wins.
        delimiters.always.sort_by_key(|text| std::cmp::Reverse(text.len()));
        delimiters.always.dedup();
        delimiters
    }

    /// Whether there are no delimiters.
    pub(crate) fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.always.is_empty()
    }

    /// End of the last delimiter in `text` that ends after offset `after`.
    pub(crate) fn last_end(&self, text: &str, after: usize) -> Option<usize> {
        let at = text.rfind(|c: char| self.plain.binary_search(&c).is_ok())?;
        let end = at + text[at..].chars().next().map_or(0, char::len_utf8);
        (end > after).then_some(end)
    }

    /// Ends of the delimiters at which the text must be cut, in order.
    pub(crate) fn always_ends(&self, text: &str) -> Vec<usize> {
        let mut found: Vec<(usize, usize)> = Vec::new();
        for delimiter in &self.always {
            found.extend(text.match_indices(delimiter.as_str()).map(|(at, _)| (at, at + delimiter.len())));
        }
        // Of those that begin at the same offset the longest comes first; the others, which overlap it, are ignored.
        found.sort_unstable_by_key(|(start, end)| (*start, std::cmp::Reverse(*end)));
        let mut ends: Vec<usize> = Vec::new();
        for (start, end) in found {
            if ends.last().is_none_or(|last| start >= *last) {
                ends.push(end);
            }
        }
        ends
    }

    /// Cuts a text after every delimiter; the delimiter stays at the end of its part.
    pub(crate) fn parts<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let mut ends = self.always_ends(text);
        let plain = text.char_indices().filter(|(_, c)| self.plain.binary_search(c).is_ok());
        ends.extend(plain.map(|(at, c)| at + c.len_utf8()));
        ends.push(text.len());
        ends.sort_unstable();
        ends.dedup();
        let mut start = 0;
        let cut = |end: usize| {
            let part = &text[start..end];
            start = end;
            part
        };
        ends.into_iter().map(cut).collect()
    }

    /// Whether a text consists of delimiters and white space only.
    pub(crate) fn are_all_of(&self, text: &str) -> bool {
        let mut rest = text.trim_start();
        while let Some(c) = rest.chars().next() {
            let always = self.always.iter().find(|delimiter| rest.starts_with(delimiter.as_str()));
            let length = match always {
                Some(delimiter) => delimiter.len(),
                None if self.plain.binary_search(&c).is_ok() => c.len_utf8(),
                None => return false,
            };
            rest = rest[length..].trim_start();
        }
        true
    }
}

/// Decodes escape sequences; invalid ones stay as they are.
fn decode(raw: &str) -> String {
    let mut decoded = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        decoded.push_str(&rest[..at]);
        rest = &rest[at..];
        let (c, length) = escape(rest).unwrap_or(('\\', 1));
        decoded.push(c);
        rest = &rest[length..];
    }
    decoded.push_str(rest);
    decoded
}

/// The character that an escape sequence stands for, and the length of the sequence.
fn escape(text: &str) -> Option<(char, usize)> {
    let hex = |digits: usize| {
        let code = u32::from_str_radix(text.get(2..2 + digits)?, 16).ok()?;
        Some((char::from_u32(code)?, 2 + digits))
    };
    match text.as_bytes().get(1)? {
        b'n' => Some(('\n', 2)),
        b't' => Some(('\t', 2)),
        b'r' => Some(('\r', 2)),
        b'f' => Some(('\u{c}', 2)),
        b'v' => Some(('\u{b}', 2)),
        b'\\' => Some(('\\', 2)),
        b'x' => hex(2),
        b'u' => hex(4),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_and_texts_in_backticks_are_delimiters() {
        let check = |raw: &str, plain: &[char], always: &[&str]| {
            let delimiters = Delimiters::parse(raw);
            assert_eq!(delimiters.plain, plain, "{raw}");
            assert_eq!(delimiters.always, always, "{raw}");
        };
        check("\\n", &['\n'], &[]);
        check("\n。；", &['\n', '。', '；'], &[]);
        check("`##`!`---\\n`", &['!'], &["---\n", "##"]);
        check("`", &['`'], &[]);
        check("``\\u3002\\q", &['\\', 'q', '。'], &[]);
        check("\\u12", &['1', '2', '\\', 'u'], &[]);
        assert!(Delimiters::parse("``").is_empty());
    }

    #[test]
    fn a_delimiter_stays_at_the_end_of_its_chunk() {
        assert_eq!(Delimiters::parse("。`--`").parts("甲。乙--丙---"), ["甲。", "乙--", "丙--", "-"]);
        assert_eq!(Delimiters::parse(".").parts("no delimiter"), ["no delimiter"]);
        assert_eq!(Delimiters::parse("`a``aa`").parts("xaaay"), ["xaa", "a", "y"]);
        assert!(Delimiters::parse("`--`.").are_all_of(" --. --"));
        assert!(!Delimiters::parse("`--`").are_all_of("- --"));
        assert_eq!(Delimiters::parse(".;").last_end("a.b;c", 0), Some(4));
        assert_eq!(Delimiters::parse(".;").last_end("a.b;c", 4), None);
    }
}
