//! Parses values written as text: JSON, and Python spellings (`True`, `None`, single quotes, tuples).

use crate::exact::{is_lost, kept};
use crate::value::{Json, to_text};

/// Maximum nesting depth of a literal.
// The parser recurses once per level, on a stack shared with other work.
const DEPTH_MAX: usize = 64;

/// Returns the value of a text that looks like a literal, such as `{'a': True}`; `None` if it is not one. An integer
/// with more digits than a number can hold is returned as a text.
pub fn literal(text: &str) -> Option<Json> {
    let text = text.trim();
    // Python keywords are accepted in any case, because models vary the spelling.
    if let Some(word) = word(text) {
        return Some(word);
    }
    let first = text.chars().next()?;
    let number = first.is_ascii_digit() || (first == '-' && text.len() > 1);
    if !number && !matches!(first, '{' | '[' | '(' | '\'' | '"') {
        return None;
    }
    // Most inputs are JSON; its parser is faster and supports all of its escapes.
    if let Ok(value) = serde_json::from_str(&kept(text)) {
        return Some(value);
    }
    let mut reader = LiteralReader { rest: text, depth: 0 };
    let value = reader.value()?;
    reader.rest.trim().is_empty().then_some(value)
}

fn word(text: &str) -> Option<Json> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Some(true.into()),
        "false" => Some(false.into()),
        "none" | "null" => Some(Json::Null),
        _ => None,
    }
}

struct LiteralReader<'a> {
    rest: &'a str,
    depth: usize,
}

impl LiteralReader<'_> {
    fn take(&mut self, c: char) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(c)?;
        Some(())
    }

    fn value(&mut self) -> Option<Json> {
        self.depth += 1;
        // A text consisting only of brackets would otherwise recurse once per bracket.
        if self.depth > DEPTH_MAX {
            return None;
        }
        self.rest = self.rest.trim_start();
        let value = match self.rest.chars().next()? {
            '[' => self.items('[', ']').map(Json::Array),
            '(' => self.group(),
            '{' => self.members(),
            quote @ ('\'' | '"') => self.text(quote).map(Json::String),
            _ => self.atom(),
        };
        self.depth -= 1;
        value
    }

    fn items(&mut self, open: char, close: char) -> Option<Vec<Json>> {
        self.take(open)?;
        let mut items = Vec::new();
        loop {
            if self.take(close).is_some() {
                return Some(items);
            }
            items.push(self.value()?);
            if self.take(',').is_none() {
                self.take(close)?;
                return Some(items);
            }
        }
    }

    /// Reads what is in parentheses: a tuple, or a single value, which only a comma makes a tuple.
    fn group(&mut self) -> Option<Json> {
        let from = self.rest;
        let mut items = self.items('(', ')')?;
        let written = &from[..from.len() - self.rest.len()];
        let has_comma = written.strip_suffix(')').is_some_and(|inside| inside.trim_end().ends_with(','));
        if items.len() == 1 && !has_comma { items.pop() } else { Some(Json::Array(items)) }
    }

    fn members(&mut self) -> Option<Json> {
        self.take('{')?;
        let mut members = serde_json::Map::new();
        loop {
            if self.take('}').is_some() {
                return Some(Json::Object(members));
            }
            // Keys may be numbers in Python; those of an object are texts.
            let key = to_text(&self.value()?);
            self.take(':')?;
            members.insert(key, self.value()?);
            if self.take(',').is_none() {
                self.take('}')?;
                return Some(Json::Object(members));
            }
        }
    }

    fn text(&mut self, quote: char) -> Option<String> {
        let mut text = String::new();
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((place, c)) = characters.next() {
            if c == quote {
                self.rest = &self.rest[place + 1..];
                return Some(text);
            }
            if c != '\\' {
                text.push(c);
                continue;
            }
            match characters.next()?.1 {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                c @ ('\\' | '\'' | '"' | '/') => text.push(c),
                'x' => text.push(code(&mut characters, 2)?),
                'u' => text.push(code(&mut characters, 4)?),
                'U' => text.push(code(&mut characters, 8)?),
                // Keeps unknown escapes, as Python does.
                other => text.extend(['\\', other]),
            }
        }
        None
    }

    fn atom(&mut self) -> Option<Json> {
        let end = self.rest.find([',', ']', ')', '}', ':']).unwrap_or(self.rest.len());
        let (atom, rest) = self.rest.split_at(end);
        self.rest = rest;
        let atom = atom.trim();
        // With more digits than a number can hold, it stays the text that it is.
        if is_lost(atom) {
            return Some(Json::from(atom));
        }
        word(atom).or_else(|| serde_json::from_str::<serde_json::Number>(atom).ok().map(Json::Number))
    }
}

/// Reads the character that an escape names by its code in hexadecimal digits; `None` if there is none.
fn code(characters: &mut impl Iterator<Item = (usize, char)>, digits: usize) -> Option<char> {
    let mut code = 0;
    for _ in 0..digits {
        code = code * 16 + characters.next()?.1.to_digit(16)?;
    }
    char::from_u32(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_and_python_spellings() {
        let check = |text: &str, expected: Option<Json>| assert_eq!(literal(text), expected, "{text}");
        check("True", Some(json!(true)));
        check("false", Some(json!(false)));
        check("None", Some(Json::Null));
        check("12", Some(json!(12)));
        check("1.5", Some(json!(1.5)));
        check("1.2.3", None);
        check("-3", Some(json!(-3)));
        check("plain", None);
        check("{'a': True, \"b\": (1, 2,), 3: None}", Some(json!({"a": true, "b": [1, 2], "3": null})));
        check("['it\\'s', 'a\\nb']", Some(json!(["it's", "a\nb"])));
        let id = "12345678901234567890123";
        check(id, Some(json!(id)));
        check(&format!("[{id}, \"{id}\", 1]"), Some(json!([id, id, 1])));
        check(&format!("{{'a': -{id}}}"), Some(json!({"a": format!("-{id}")})));
        check("(5)", Some(json!(5)));
        check("('a,')", Some(json!("a,")));
        check("(5 , )", Some(json!([5])));
        check("()", Some(json!([])));
        check("((1, 2))", Some(json!([1, 2])));
        check(r"['\xa0', '\u00e9\U0001F600', '\d']", Some(json!(["\u{a0}", "é😀", "\\d"])));
        check(r"'C:\users'", None);
        check(r"'\ud800'", None);
        check("[1, 2", None);
        check("__import__('os')", None);
        check("[open('x')]", None);
        check(&"[".repeat(100_000), None);
        check("", None);
    }
}
