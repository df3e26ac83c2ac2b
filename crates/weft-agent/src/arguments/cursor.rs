//! Finds the boundaries of tokens in malformed JSON.

use super::word::{bare_key, begun, literal};

/// Maximum number of characters that are examined to recognize a key.
// Longer than any argument name; without a limit, a text full of quotes would be read to its end once for each of
// them.
const KEY_MAX: usize = 200;
/// Bytes after a quote that are examined to decide whether it ends its string.
// A closing bracket or the next key is nearer than that, even in deeply indented text.
const AHEAD_MAX: usize = 1_000;

/// What ends a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quote {
    /// Any one of these characters.
    One(&'static [char]),
    /// Three of the same, as in Python.
    Three(&'static str),
}

impl Quote {
    /// The quote at the start of a text and its length in bytes.
    pub(super) fn opening(text: &str) -> Option<(Self, usize)> {
        // Before the single quotes, which would read the first two of three as an empty string.
        for three in ["\"\"\"", "'''"] {
            if text.starts_with(three) {
                return Some((Self::Three(three), 3));
            }
        }
        let first = text.chars().next()?;
        let closing: &[char] = match first {
            '"' => &['"'],
            '\'' => &['\''],
            // Languages pair them differently („…“, “…”, ”…”), and models close with a plain quote what they opened
            // with a curved one.
            '“' | '”' | '„' => &['”', '“', '"'],
            '‘' | '’' => &['’', '‘', '\''],
            _ => return None,
        };
        Some((Self::One(closing), first.len_utf8()))
    }

    /// The length of the closing quote, if the text starts with it.
    fn closing(self, text: &str) -> Option<usize> {
        match self {
            Self::One(any) => text.chars().next().filter(|c| any.contains(c)).map(char::len_utf8),
            Self::Three(three) => text.starts_with(three).then_some(3),
        }
    }
}

/// The role of a string, which decides where it may end.
#[derive(Clone, Copy, Debug)]
pub(super) enum StringRole {
    Key,
    Element { depth: usize },
    Member { depth: usize },
}

/// How a string ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StringEnd {
    Closed,
    /// The text ended first.
    Cut,
    /// The text ended first, and the string contains quotes that might have ended it.
    Lost,
}

/// A position in a text.
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// Whether some string contains a quote that might be its end.
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

    /// Describes the current position for a message.
    pub(super) fn here(&self) -> String {
        let near: String = self.rest().chars().take(30).collect();
        if near.is_empty() { "at its end".to_owned() } else { format!("at `{near}`") }
    }

    /// Skips whitespace, comments and code fences.
    pub(super) fn skip(&mut self) {
        self.at = self.text.len() - skipped(self.rest()).len();
    }

    /// Reads a string, starting after its opening quote.
    pub(super) fn string(&mut self, quote: Quote, role: StringRole) -> (String, StringEnd) {
        let mut value = String::new();
        let mut kept_quotes = false;
        loop {
            let rest = self.rest();
            let Some(c) = rest.chars().next() else {
                return (value, if kept_quotes { StringEnd::Lost } else { StringEnd::Cut });
            };
            if let Some(length) = quote.closing(rest) {
                let behind = rest.get(length..).unwrap_or_default();
                if matches!(quote, Quote::Three(_)) || ends(behind, role) {
                    self.advance(length);
                    return (value, StringEnd::Closed);
                }
                // Kept as text: the model forgot its backslash. If the string never ends, it is unclear which quote
                // was meant as its end.
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

    /// Reads an escape sequence. A backslash that does not start one stands for itself, as in a path or a regular
    /// expression.
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
            // A single quote and a backtick need no backslash in JSON; code models write one anyway.
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

/// The character encoded by `uXXXX`, or by a surrogate pair of them with a backslash between, and the length of the
/// sequence.
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

/// The text after leading whitespace, comments and code fences.
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

/// The first bytes of a text, up to this number.
pub(super) fn start_of(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}

fn blanks(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '\u{feff}' | '\u{200b}'))
}

/// Whether a quote ends its string, judged by what follows. Other quotes are taken as part of the string: models
/// forget to escape them.
fn ends(behind: &str, role: StringRole) -> bool {
    let (depth, in_list) = match role {
        // A key contains no quotes; reading on would swallow the value after a key with a forgotten colon.
        StringRole::Key => return true,
        StringRole::Element { depth } => (depth, true),
        StringRole::Member { depth } => (depth, false),
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
        // A comment may follow a value; a single slash is part of the text.
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
        // Prose may follow the whole value.
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

/// The text after the key at the start of a text.
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

/// The text after a quoted key; empty if the text ends within it.
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
    // The text was cut off within the key: accepted as a key, because nothing contradicts it. A text longer than the
    // limit is not a key.
    text.chars().nth(KEY_MAX).is_none().then_some("")
}

fn value_follows(text: &str) -> bool {
    let word: String = text.chars().take(10).take_while(|c| c.is_alphanumeric()).collect();
    let cut = || word.len() == text.len() && begun(&word).is_some();
    text.starts_with(['{', '[', '-']) || Quote::opening(text).is_some() || literal(&word).is_some() || cut()
}
