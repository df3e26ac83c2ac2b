//! JSON that models write: arguments of tool calls, lists of next steps. Read strictly, then leniently;
//! checked against the tool's schema.

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

/// Bytes of text that are looked at, at most.
// Far above any call that a model can write within its limit of tokens, and small enough that one reading
// takes well under a second.
pub const TEXT_MAX: usize = 4 << 20;

/// What a model's text means.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The value.
    pub value: Json,
    /// Whether the text as it stands was no JSON.
    pub repaired: bool,
}

/// The JSON in a text. Text that is JSON is taken as it is. Otherwise reasoning up to the last `</think>`,
/// prose and code fences around the value are left out, and what is wrong in it is mended as long as its
/// meaning is plain: other quotes, commas too many or missing, comments, bare keys and words, the words of
/// other languages for true, false and null, line breaks and quotes inside strings, brackets and strings
/// that are not closed. Several values after each other become a list. An integer with more digits than a number keeps
/// becomes a text of them.
///
/// Takes time in proportion to the text's length and knows a depth of 128 brackets at most.
///
/// # Errors
/// `Garbled`, with the place, when there is no value or its meaning would be a guess.
pub fn parse(text: &str) -> Result<Parsed> {
    // Before anything is read: the mender looks ahead at each quote, so its cost grows faster than that of
    // plain JSON.
    if text.len() > TEXT_MAX {
        let message = format!("the text has {} bytes, and {TEXT_MAX} are the most that is read", text.len());
        return Err(Error::new(ErrorKind::Garbled, message).help("write less at once"));
    }
    // The strict reader first: what is JSON means what it says, and no mending may change it.
    let strict = match serde_json::from_str(&exact::kept(text)) {
        Ok(value) => return Ok(Parsed { value, repaired: false }),
        Err(error) => error,
    };
    let answer = match text.rsplit_once("</think>") {
        // Without a bracket after it, the tag is part of a string.
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

/// The arguments of a call, and whether the text had to be repaired. Nothing and null mean no arguments.
///
/// # Errors
/// `Garbled`, when the text is no JSON object.
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

/// A list of objects, such as the next calls of a plan, and whether the text had to be repaired. A single
/// object is a list of one.
///
/// # Errors
/// `Garbled`, when the text is neither, naming the element that is no object.
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
