//! Parses malformed JSON.
//!
//! Why not a library: of the existing ones, `jsonrepair` 0.1 and `llm_json` 1.0 overflow the stack on deep nesting,
//! and `jsonrepair-rs` 0.2.6, otherwise the best, needs seconds for 50 kB of an unclosed string with quotes in it,
//! because it starts again at each quote. A model's arguments are untrusted input, and not calling a tool is better
//! than calling it with guessed arguments. So this parser reads the text once, keeps its own stack, and rejects what
//! has no clear meaning.

use serde_json::Map;
use weft_core::Json;

use super::cursor::{Cursor, Quote, StringEnd, StringRole, key_follows, start_of};
use super::word::{bare_key_length, bare_value_length, begun, blanks_then, literal};

/// Maximum nesting of brackets: the same as in serde_json.
const DEPTH_MAX: usize = 128;

/// Maximum number of brackets in prose that are examined to find the value.
// Prose before the value has a handful; a text with nothing but brackets would otherwise be examined once for each of
// them.
const BRACKETS_MAX: usize = 1_000;
/// Bytes after a bracket that are examined to decide whether it is meant as JSON.
// Enough for one long key; what comes after that says nothing about whether the bracket begins JSON.
const WINDOW: usize = 300;

/// What is wrong, and where.
pub(super) type RepairFault = String;

/// Parses the value in a text, or the list of consecutive values in it.
pub(super) fn read(text: &str) -> Result<Json, RepairFault> {
    let start = start(text)?;
    let unescaped;
    let text = match &start {
        // The whole object was written in escaped form, as inside a string: unescaped once, it is parsed like any
        // other.
        ValueStart::Bracket(rest) if escaped(rest) => {
            unescaped = serde_json::from_str::<String>(&format!("\"{}\"", rest.replace('\n', "\\n")))
                .map_err(|_| "its quotes are escaped, but not all of them".to_owned())?;
            unescaped.as_str()
        }
        ValueStart::Bracket(rest) | ValueStart::Members(rest) => rest,
        ValueStart::Scalar(value) => return Ok(value.clone()),
    };
    let mut reader = RepairReader { cursor: Cursor::new(text), stack: Vec::new(), done: Vec::new() };
    if matches!(start, ValueStart::Members(_)) {
        reader.stack.push(OpenBracket::Map { entries: Map::new(), key: None });
    }
    reader.read()?;
    let mut values = reader.done;
    match (values.pop(), values.is_empty()) {
        (None, _) => Err("there is no value in it".to_owned()),
        (Some(only), true) => Ok(only),
        (Some(last), false) => {
            values.push(last);
            Ok(Json::Array(values))
        }
    }
}

/// Where the value starts.
enum ValueStart<'a> {
    /// With this bracket.
    Bracket(&'a str),
    /// With a key: the bracket before it is missing.
    Members(&'a str),
    /// The whole text is a single word or number.
    Scalar(Json),
}

/// Finds the value after any introduction by the model. Brackets in prose, such as `[1]` or `{this}`, are skipped if
/// a better one follows.
fn start(text: &str) -> Result<ValueStart<'_>, RepairFault> {
    let mut cursor = Cursor::new(text);
    cursor.skip();
    let text = cursor.rest();
    if text.starts_with(['"', '\'', '“']) && key_follows(text) {
        return Ok(ValueStart::Members(text));
    }
    if let Some(value) = literal(text.trim_end()) {
        return Ok(ValueStart::Scalar(value));
    }
    let mut second = None;
    for (place, _) in text.match_indices(['{', '[']).take(BRACKETS_MAX) {
        let rest = text.get(place..).unwrap_or_default();
        match likelihood(rest, if place == 0 { ValuePlace::First } else { ValuePlace::Later }) {
            Likely::Yes => return Ok(ValueStart::Bracket(rest)),
            Likely::Perhaps => second = second.or(Some(rest)),
            Likely::No => {}
        }
    }
    second.map(ValueStart::Bracket).ok_or_else(|| "there is no object and no list in it".to_owned())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ValuePlace {
    /// Nothing precedes it.
    First,
    Later,
}

enum Likely {
    Yes,
    Perhaps,
    No,
}

/// Whether a text that starts with a bracket is meant as JSON. Examines a bounded part of it.
fn likelihood(text: &str, place: ValuePlace) -> Likely {
    let first = place == ValuePlace::First;
    let mut inside = Cursor::new(start_of(text.get(1..).unwrap_or_default(), WINDOW));
    inside.skip();
    let inside = inside.rest();
    let yes = if text.starts_with('{') {
        key_follows(inside) || escaped(text) || (first && inside.starts_with(['"', '\'', '}']))
    } else {
        let word = inside.split([',', ']', '\n']).next().unwrap_or_default().trim();
        inside.starts_with('{') && matches!(likelihood_of_object(inside), Likely::Yes)
            || (first && (inside.starts_with(['[', ']', '"', '\'']) || literal(word).is_some()))
    };
    match inside.chars().next() {
        _ if yes => Likely::Yes,
        // A bracket alone is the start of a value that was cut off.
        None => Likely::Perhaps,
        Some(c) if first || "}]{[\"'".contains(c) || c.is_ascii_digit() => Likely::Perhaps,
        Some(_) => Likely::No,
    }
}

/// [`likelihood`] for the first object of a list, one level deep.
fn likelihood_of_object(text: &str) -> Likely {
    let inside = text.get(1..).unwrap_or_default();
    if key_follows(inside) || escaped(text) { Likely::Yes } else { Likely::Perhaps }
}

/// Whether the first quote after the brackets at a text's start is escaped.
fn escaped(text: &str) -> bool {
    start_of(text, WINDOW).trim_start_matches(['{', '[', ' ', '\n']).starts_with("\\\"")
}

enum OpenBracket {
    List(Vec<Json>),
    Map { entries: Map<String, Json>, key: Option<String> },
}

impl OpenBracket {
    fn close(self) -> Json {
        match self {
            Self::List(items) => Json::Array(items),
            Self::Map { entries, .. } => Json::Object(entries),
        }
    }

    fn closer(&self) -> char {
        match self {
            Self::List(_) => ']',
            Self::Map { .. } => '}',
        }
    }
}

struct RepairReader<'a> {
    cursor: Cursor<'a>,
    stack: Vec<OpenBracket>,
    done: Vec<Json>,
}

impl RepairReader<'_> {
    fn read(&mut self) -> Result<(), RepairFault> {
        loop {
            self.cursor.skip();
            let rest = self.cursor.rest();
            let Some(c) = rest.chars().next() else { break };
            if self.stack.is_empty() {
                if self.between(c) {
                    continue;
                }
                break;
            }
            match c {
                '{' | '[' => self.open(c)?,
                '}' | ']' => self.close(c),
                ',' => self.comma(),
                _ => match Quote::opening(rest) {
                    Some((quote, length)) => {
                        self.cursor.advance(length);
                        self.string(quote)?;
                    }
                    None => self.word()?,
                },
            }
        }
        while let Some(open) = self.stack.pop() {
            self.put(open.close());
        }
        // Either alone is harmless. Together they suggest that the real end of a string was missed, and that the rest
        // of the value was taken for prose.
        if self.cursor.doubtful && !self.cursor.rest().is_empty() {
            return Err(format!(
                "text follows {}, and quotes in a string lack their backslash",
                self.cursor.here()
            ));
        }
        Ok(())
    }

    /// Continues at the outermost level, where `c` is the next character. Returns false at the end of all values.
    fn between(&mut self, c: char) -> bool {
        let rest = self.cursor.rest();
        match c {
            '{' | '['
                if self.done.is_empty() || matches!(likelihood(rest, ValuePlace::Later), Likely::Yes) =>
            {
                // What stands between two whole values (one call after another) needs no repair, and valid values
                // must not be changed.
                let mut strict = serde_json::Deserializer::from_str(rest).into_iter::<Json>();
                if let Some(Ok(value)) = strict.next() {
                    self.done.push(value);
                    self.cursor.advance(strict.byte_offset());
                } else {
                    self.push(c);
                }
                true
            }
            ',' | '}' | ']' => {
                self.cursor.advance(1);
                true
            }
            _ => false,
        }
    }

    fn push(&mut self, bracket: char) {
        self.cursor.advance(1);
        self.stack.push(match bracket {
            '{' => OpenBracket::Map { entries: Map::new(), key: None },
            _ => OpenBracket::List(Vec::new()),
        });
    }

    fn open(&mut self, bracket: char) -> Result<(), RepairFault> {
        if self.wants_key() {
            return Err(format!("a key is missing {}", self.cursor.here()));
        }
        // The stack here is on the heap and could grow further; the result goes to serde_json and to recursive code,
        // which could not handle it.
        if self.stack.len() >= DEPTH_MAX {
            return Err(format!("it has more than {DEPTH_MAX} brackets inside each other"));
        }
        self.push(bracket);
        Ok(())
    }

    /// Closes the innermost bracket of this kind and all unclosed ones inside it. A bracket that closes nothing is
    /// ignored.
    fn close(&mut self, bracket: char) {
        self.cursor.advance(1);
        self.comma_before_close();
        // Not simply the innermost of any kind: `[{"a": 1]` lacks a brace, and the end of the list must not close
        // only the object.
        let Some(index) = self.stack.iter().rposition(|open| open.closer() == bracket) else { return };
        while self.stack.len() > index {
            let Some(open) = self.stack.pop() else { return };
            self.put(open.close());
        }
    }

    fn comma(&mut self) {
        self.cursor.advance(1);
        self.comma_before_close();
    }

    /// A key without a value becomes null.
    fn comma_before_close(&mut self) {
        if matches!(self.stack.last(), Some(OpenBracket::Map { key: Some(_), .. })) {
            self.put(Json::Null);
        }
    }

    fn put(&mut self, value: Json) {
        match self.stack.last_mut() {
            None => self.done.push(value),
            Some(OpenBracket::List(items)) => items.push(value),
            Some(OpenBracket::Map { entries, key }) => {
                // A value without a key is dropped: there is no place for it, and validation tells the model what is
                // missing.
                if let Some(key) = key.take() {
                    entries.insert(key, value);
                }
            }
        }
    }

    fn wants_key(&self) -> bool {
        matches!(self.stack.last(), Some(OpenBracket::Map { key: None, .. }))
    }

    fn string(&mut self, quote: Quote) -> Result<(), RepairFault> {
        let depth = self.stack.len();
        let role = match self.stack.last() {
            Some(OpenBracket::Map { key: None, .. }) => StringRole::Key,
            Some(OpenBracket::Map { .. }) => StringRole::Member { depth },
            _ => StringRole::Element { depth },
        };
        let (text, end) = self.cursor.string(quote, role);
        match (role, end) {
            (_, StringEnd::Lost) => {
                Err("a string is not closed, or has quotes in it without a backslash before them".to_owned())
            }
            (StringRole::Key, StringEnd::Closed) => self.key(text),
            // The rest of a key that was cut off is unknown.
            (StringRole::Key, StringEnd::Cut) => Ok(()),
            (_, StringEnd::Closed) => {
                self.put(Json::String(text));
                Ok(())
            }
            (_, StringEnd::Cut) => {
                let text = self.without_closers(&text).map(str::to_owned).unwrap_or(text);
                self.put(Json::String(text));
                Ok(())
            }
        }
    }

    /// The text of an unclosed string without its trailing brackets, if these are exactly the open ones: then only
    /// its closing quote is missing.
    fn without_closers<'t>(&self, text: &'t str) -> Option<&'t str> {
        self.stack.iter().try_fold(text, |text, open| text.trim_end().strip_suffix(open.closer()))
    }

    fn key(&mut self, name: String) -> Result<(), RepairFault> {
        self.cursor.skip();
        match self.cursor.rest().chars().next() {
            Some(':') => self.cursor.advance(1),
            None => return Ok(()),
            Some(_) => return Err(format!("a key without a colon behind it {}", self.cursor.here())),
        }
        if let Some(OpenBracket::Map { key, .. }) = self.stack.last_mut() {
            *key = Some(name);
        }
        Ok(())
    }

    /// Reads an unquoted key or value.
    fn word(&mut self) -> Result<(), RepairFault> {
        let rest = self.cursor.rest();
        let is_key = self.wants_key();
        let length = if is_key { bare_key_length(rest) } else { bare_value_length(rest) };
        let word = rest.get(..length).unwrap_or_default().trim_end();
        if word.is_empty() {
            return Err(format!("something that is not a value {}", self.cursor.here()));
        }
        let here = self.cursor.here();
        self.cursor.advance(word.len());
        if is_key {
            return self.key(word.to_owned());
        }
        let behind = self.cursor.rest();
        let cut = behind.trim().is_empty().then(|| begun(word)).flatten();
        let value = if let Some(value) = literal(word).or(cut) {
            value
        } else if blanks_then(behind, &['"', '\'', '{', '[', ':'])
            // "..." in place of a value means that the model left something out: continuing with a part would be a
            // guess.
            || word.contains("...")
            || word.contains('…')
        {
            return Err(format!("a text without quotes {here}"));
        } else {
            Json::String(word.to_owned())
        };
        self.put(value);
        Ok(())
    }
}
