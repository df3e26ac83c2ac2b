//! JSON written by models, such as arguments of tool calls and lists of next steps. Parsed strictly first, then
//! leniently, and checked against the tool's schema.

mod coerce;
mod cost;
mod cursor;
mod repair;
mod schema;
mod word;

use serde_json::Map;
use weft_core::value::kind_of;
use weft_core::{Error, ErrorKind, Json, Result, exact};

pub(crate) use cost::affordable;
pub(crate) use schema::validator;
pub use schema::{ArgumentSchema, Problem};

/// Maximum number of bytes of text that are parsed.
// Far above any call that a model can write within its token limit, and small enough that parsing takes well under a
// second.
pub const TEXT_MAX: usize = 4 << 20;

/// The result of parsing a model's text.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The value.
    pub value: Json,
    /// Whether the text was not valid JSON as it stood.
    pub repaired: bool,
}

/// Parses the JSON in a text. Valid JSON is taken as it is. Otherwise reasoning up to the last `</think>`, and prose
/// and code fences around the value, are skipped, and errors in it are repaired as long as the meaning is clear:
/// other quotes, extra or missing commas, comments, unquoted keys and words, words of other languages for true, false
/// and null, line breaks and quotes inside strings, unclosed brackets and strings. Several values in a row become a
/// list. An integer with more digits than a number can hold becomes a string of its digits.
///
/// Takes time linear in the length of the text and supports at most 128 nested brackets.
///
/// # Errors
/// `Garbled`, with the position, when there is no value or its meaning would be a guess.
pub fn parse(text: &str) -> Result<Parsed> {
    // Checked before parsing: the repairing parser looks ahead at each quote, so its cost grows faster than that of
    // plain JSON.
    if text.len() > TEXT_MAX {
        let message = format!("the text has {} bytes, and {TEXT_MAX} are the most that is read", text.len());
        return Err(Error::new(ErrorKind::Garbled, message).help("write less at once"));
    }
    // The strict parser first: valid JSON means what it says, and no repair may change it.
    let strict = match serde_json::from_str(&exact::kept(text)) {
        Ok(value) => return Ok(Parsed { value, repaired: false }),
        Err(error) => error,
    };
    let answer = match text.rsplit_once("</think>") {
        // When no bracket follows, the tag is part of a string.
        Some((_, answer)) if answer.contains(['{', '[']) => answer,
        _ => text,
    };
    match repair::read(answer) {
        Ok(value) => Ok(Parsed { value, repaired: true }),
        Err(fault) => Err(Error::new(ErrorKind::Garbled, format!("the text is not JSON: {fault}"))
            .help("write one JSON value with double quotes, closed brackets and nothing around it")
            .because(strict)),
    }
}

/// Parses the arguments of a call, and tells whether the text had to be repaired. Empty text and null mean no
/// arguments.
///
/// # Errors
/// `Garbled` when the text is not a JSON object.
pub fn object(text: &str) -> Result<(Map<String, Json>, bool)> {
    if text.trim().is_empty() {
        return Ok((Map::new(), false));
    }
    let Parsed { mut value, mut repaired } = parse(text)?;
    // Some models encode the object twice.
    if let Json::String(inner) = &value {
        if inner.trim().is_empty() {
            return Ok((Map::new(), repaired));
        }
        if let Ok(inner) = parse(inner) {
            (value, repaired) = (inner.value, true);
        }
    }
    match value {
        Json::Object(map) => Ok((map, repaired)),
        Json::Null => Ok((Map::new(), repaired)),
        other => {
            let message = format!("the arguments must be one JSON object, not {}", kind_of(&other));
            Err(Error::new(ErrorKind::Garbled, message).help("write {\"name\": value, ...}"))
        }
    }
}

/// Parses a list of objects, such as the next calls of a plan, and tells whether the text had to be repaired. A
/// single object is a list of one.
///
/// # Errors
/// `Garbled` when the text is neither, naming the element that is not an object.
pub fn list(text: &str) -> Result<(Vec<Json>, bool)> {
    let Parsed { value, repaired } = parse(text)?;
    let fault = match value {
        Json::Object(_) => return Ok((vec![value], repaired)),
        Json::Array(items) => match items.iter().enumerate().find(|(_, item)| !item.is_object()) {
            None => return Ok((items, repaired)),
            Some((index, item)) => format!("element {index} of the list is {}", kind_of(item)),
        },
        other => format!("it is {}", kind_of(&other)),
    };
    let message = format!("the reply must be a JSON list of objects, and {fault}");
    Err(Error::new(ErrorKind::Garbled, message).help("write [{...}, {...}] and nothing else"))
}

#[cfg(test)]
mod tests;
