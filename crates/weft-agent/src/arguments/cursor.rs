//! Where the words of damaged JSON begin and end.

use super::word::{bare_key, begun, literal};

/// Characters of a key that are looked at to tell that it is one.
// Longer than any name of an argument; without a limit a text full of quotes would be read to its end once
// for each of them.
const KEY_MAX: usize = 200;
/// Bytes behind a quote that are looked at to tell whether it ends its string.
// A closing bracket or the next key stands nearer than that even in text that is indented deeply.
const AHEAD_MAX: usize = 1_000;

/// What ends a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quote {
    /// Any of these characters.
    One(&'static [char]),
    /// Three of a kind, as in Python.
    Three(&'static str),
}

impl Quote {
    /// The quote at the start of a text and its length in bytes.
    pub(super) fn opening(text: &str) -> Option<(Self, usize)> {
        // Before the single quote, which would read the first two of three as an empty string.
        for three in ["\"\"\"", "'''"] {
            if text.starts_with(three) {
                return Some((Self::Three(three), 3));
            }
        }
        let first = text.chars().next()?;
        let closing: &[char] = match first {
            '"' => &['"'],
            '\'' => &['\''],
            // Languages pair them differently („…“, “…”, ”…”), and models close with a plain one what they
            // opened with a curved one.
            '“' | '”' | '„' => &['”', '“', '"'],
            '‘' | '’' => &['’', '‘', '\''],
            _ => return None,
        };
        Some((Self::One(closing), first.len_utf8()))
    }

    /// The length of this quote's end at the start of a text.
    fn closing(self, text: &str) -> Option<usize> {
        match self {
            Self::One(any) => text.chars().next().filter(|c| any.contains(c)).map(char::len_utf8),
            Self::Three(three) => text.starts_with(three).then_some(3),
        }
    }
}

/// What a string is, which decides where it may end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    Key,
    Element { depth: usize },
    Member { depth: usize },
}

/// How a string ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Closed,
    /// The text was over first.
    Cut,
    /// The text was over first, and there were quotes in it that might have ended it.
    Lost,
}

/// A place in a text.
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// Whether some string has a quote in it that might as well be its end.
    pub doubtful: bool,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, doubtful: false }
    }

    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(super) fn advance(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// What is here, for a message.
    pub(super) fn here(&self) -> String {
        let near: String = self.rest().chars().take(30).collect();
        if near.is_empty() { "at its end".to_owned() } else { format!("at `{near}`") }
    }

    /// Skips blanks, comments and the marks of code fences.
    pub(super) fn skip(&mut self) {
        self.at = self.text.len() - skipped(self.rest()).len();
    }

    /// Reads a string, from the first character behind its opening quote on.
    pub(super) fn string(&mut self, quote: Quote, role: Role) -> (String, End) {
        let mut value = String::new();
        let mut kept_quotes = false;
        loop {
            let rest = self.rest();
            let Some(c) = rest.chars().next() else {
                return (value, if kept_quotes { End::Lost } else { End::Cut });
            };
            if let Some(length) = quote.closing(rest) {
                let behind = rest.get(length..).unwrap_or_default();
                if matches!(quote, Quote::Three(_)) || ends(behind, role) {
                    self.advance(length);
                    return (value, End::Closed);
                }
                // Kept as text: the model forgot its backslash. If the string never ends, nobody can tell
                // which quote was meant.
                kept_quotes = true;
                self.doubtful = true;
            } else if c == '\\' {
                self.escape(&mut value);
                continue;
            }
            value.push(c);
            self.advance(c.len_utf8());
        }
    }

    /// Reads what a backslash introduces. One that introduces nothing stands for itself, as in a path or
    /// a regular expression.
    fn escape(&mut self, value: &mut String) {
        let rest = self.rest().get(1..).unwrap_or_default();
        self.advance(1);
        let Some(c) = rest.chars().next() else { return value.push('\\') };
        let plain = match c {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            // A single quote and a backtick need no backslash in JSON; models of code put one all the same.
            '"' | '\'' | '\\' | '/' | '`' => c,
            'u' => {
                let Some((c, length)) = unicode(rest) else { return value.push('\\') };
                self.advance(length);
                return value.push(c);
            }
            _ => return value.push('\\'),
        };
        value.push(plain);
        self.advance(c.len_utf8());
    }
}

/// The character that `uXXXX`, or a pair of them with a backslash between, stands for, and its length.
fn unicode(text: &str) -> Option<(char, usize)> {
    let unit = |text: &str| u16::from_str_radix(text.get(1..5).filter(|hex| hex.is_ascii())?, 16).ok();
    let first = unit(text)?;
    if let Some(c) = char::from_u32(u32::from(first)) {
        return Some((c, 5));
    }
    let second = text.get(5..).filter(|rest| rest.starts_with("\\u")).and_then(|rest| unit(rest.get(1..)?));
    let pair = second.and_then(|second| char::decode_utf16([first, second]).next()?.ok());
    Some(pair.map_or((char::REPLACEMENT_CHARACTER, 5), |c| (c, 11)))
}

/// A text without the blanks, comments and fence marks at its start.
fn skipped(mut text: &str) -> &str {
    loop {
        text = blanks(text);
        text = if text.starts_with("//") || text.starts_with('#') {
            text.find('\n').and_then(|end| text.get(end..)).unwrap_or_default()
        } else if let Some(comment) = text.strip_prefix("/*") {
            comment.split_once("*/").map_or("", |(_, rest)| rest)
        } else if let Some(fence) = text.strip_prefix("```") {
            fence.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '`')
        } else {
            return text;
        };
    }
}

/// At most so many bytes of a text.
pub(super) fn start_of(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}

fn blanks(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '\u{feff}' | '\u{200b}'))
}

/// Whether a quote ends its string, judged by what stands behind it. Quotes that do not are taken as part
/// of the string: models forget to escape them.
fn ends(behind: &str, role: Role) -> bool {
    let (depth, in_list) = match role {
        // A key has no quotes inside; reading on would swallow the value behind a key with a forgotten colon.
        Role::Key => return true,
        Role::Element { depth } => (depth, true),
        Role::Member { depth } => (depth, false),
    };
    let mut rest = blanks(start_of(behind, AHEAD_MAX));
    let mut closed = 0;
    while let Some(after) = rest.strip_prefix(['}', ']']) {
        closed += 1;
        rest = blanks(after);
    }
    let Some(next) = rest.chars().next() else { return true };
    // Fewer brackets than are open: what follows must still belong to this value.
    let inside = closed < depth;
    match next {
        ',' if closed > 0 => true,
        ',' => {
            let after = skipped(rest.get(1..).unwrap_or_default());
            after.is_empty()
                || after.starts_with(['}', ']'])
                || if in_list { value_follows(after) } else { key_follows(after) || key_is_cut(after) }
        }
        // A comment may follow a value, a bare slash goes on within the text.
        '/' | '#' => skipped(rest).len() < rest.len(),
        '`' => rest.starts_with("```"),
        '{' | '[' => closed > 0 || in_list,
        _ if Quote::opening(rest).is_some() => {
            if closed == 0 && in_list {
                true
            } else {
                inside && key_follows(rest)
            }
        }
        // Prose follows the whole value.
        _ => closed > 0 && (!inside || key_follows(rest)),
    }
}

/// Whether a text starts with a key and its colon.
pub(super) fn key_follows(text: &str) -> bool {
    behind_key(blanks(text)).is_some_and(|behind| behind.starts_with(':'))
}

/// Whether a text ends with or within a quoted key.
fn key_is_cut(text: &str) -> bool {
    Quote::opening(text).is_some() && behind_key(text).is_some_and(str::is_empty)
}

/// What stands behind the key at a text's start.
fn behind_key(text: &str) -> Option<&str> {
    let behind = match Quote::opening(text) {
        Some((quote @ Quote::One(_), length)) => quoted_key(text.get(length..)?, quote),
        Some(_) => None,
        None => {
            let length = text.chars().take(KEY_MAX).take_while(|&c| bare_key(c)).map(char::len_utf8).sum();
            text.get(length..).filter(|_| length > 0)
        }
    };
    behind.map(blanks)
}

/// What stands behind a quoted key: nothing, if the text ends within it.
fn quoted_key(text: &str, quote: Quote) -> Option<&str> {
    let mut escaped = false;
    for (place, c) in text.char_indices().take(KEY_MAX) {
        let rest = text.get(place..)?;
        match quote.closing(rest) {
            Some(length) if !escaped => return rest.get(length..),
            _ if c == '\n' => return None,
            _ => escaped = c == '\\' && !escaped,
        }
    }
    // The text was cut off within the key: it is one, as nothing says otherwise. A key longer than the limit
    // is none.
    text.chars().nth(KEY_MAX).is_none().then_some("")
}

fn value_follows(text: &str) -> bool {
    let word: String = text.chars().take(10).take_while(|c| c.is_alphanumeric()).collect();
    let cut = || word.len() == text.len() && begun(&word).is_some();
    text.starts_with(['{', '[', '-']) || Quote::opening(text).is_some() || literal(&word).is_some() || cut()
}
