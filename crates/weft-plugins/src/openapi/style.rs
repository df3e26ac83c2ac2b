//! How a parameter is written into a request: its place, and the `style` and `explode` of the document.

use std::fmt::Write as _;

use weft_core::{Error, Json, Result};

use super::media;

/// Where an argument goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentPlace {
    Path,
    Query,
    Header,
}

impl ArgumentPlace {
    /// Its name in documents.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
        }
    }
}

/// What parts the values of a list, or the members of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// `content` in place of a style: one text of JSON.
    Json,
    Simple,
    Label,
    Matrix,
    Form,
    /// With this between the values.
    Delimited(&'static str),
    Deep,
}

/// What becomes of a value that has parts (`explode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parts {
    Together,
    Apart,
}

/// What becomes of characters of a query that have a meaning in addresses (`allowReserved`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reserved {
    Encoded,
    Kept,
}

/// A parameter of an operation.
#[derive(Clone, Debug)]
pub(super) struct Parameter {
    /// What models call it.
    pub(super) argument: String,
    /// What the service calls it.
    pub(super) name: String,
    pub(super) place: ArgumentPlace,
    style: Style,
    parts: Parts,
    reserved: Reserved,
}

impl Parameter {
    /// Reads one that has references no more; or why it cannot be written.
    pub(super) fn read(name: &str, place: ArgumentPlace, said: &Json) -> std::result::Result<Self, String> {
        let style = match said.get("content") {
            Some(content) if content.as_object().and_then(media::json_of).is_some() => Style::Json,
            Some(_) => return Err(format!("its parameter `{name}` has a `content` that is not JSON")),
            None => style(name, place, said.get("style").and_then(Json::as_str))?,
        };
        let apart = said.get("explode").and_then(Json::as_bool).unwrap_or(style == Style::Form);
        let parts = if apart { Parts::Apart } else { Parts::Together };
        // It says something of a query alone, and nothing of a `content`.
        let is_kept = place == ArgumentPlace::Query
            && style != Style::Json
            && said.get("allowReserved") == Some(&Json::Bool(true));
        let reserved = if is_kept { Reserved::Kept } else { Reserved::Encoded };
        Ok(Self { argument: name.to_owned(), name: name.to_owned(), place, style, parts, reserved })
    }

    /// A value as a part of the path: it can neither end the part nor lead up in the path.
    ///
    /// # Errors
    /// `Invalid` for a value that would be no part.
    pub(super) fn in_path(&self, value: &Json) -> Result<String> {
        let written = match self.style {
            Style::Json => encoded(&value.to_string()),
            Style::Label => {
                let between = if self.parts == Parts::Apart { "." } else { "," };
                format!(".{}", self.joined(value, encoded, between))
            }
            Style::Matrix => self.matrix(value),
            Style::Simple | Style::Form | Style::Delimited(_) | Style::Deep => {
                self.joined(value, encoded, ",")
            }
        };
        // A part of nothing but dots leads up in the path, also when it is written in percent.
        if written.bytes().all(|byte| byte == b'.') {
            return Err(Error::invalid(format!(
                "the argument `{}` cannot be `{}`: it is a part of the path",
                self.argument,
                plain(value)
            )));
        }
        Ok(written)
    }

    fn matrix(&self, value: &Json) -> String {
        let one = |name: &str, value: &str| match value {
            "" => format!(";{}", encoded(name)),
            value => format!(";{}={value}", encoded(name)),
        };
        match (self.parts, value) {
            (Parts::Apart, Json::Array(items)) => {
                items.iter().map(|item| one(&self.name, &encoded(&plain(item)))).collect()
            }
            (Parts::Apart, Json::Object(members)) => {
                members.iter().map(|(name, value)| one(name, &encoded(&plain(value)))).collect()
            }
            (_, value) => one(&self.name, &self.joined(value, encoded, ",")),
        }
    }

    /// A value as a header.
    ///
    /// # Errors
    /// `Invalid` for a value that would begin another one.
    pub(super) fn in_header(&self, value: &Json) -> Result<String> {
        let written = match self.style {
            Style::Json => value.to_string(),
            _ => self.joined(value, str::to_owned, ","),
        };
        // A line break would begin a header that nobody has written.
        if written.chars().any(char::is_control) {
            return Err(Error::invalid(format!(
                "the argument `{}` is a header and cannot have control characters",
                self.argument
            )));
        }
        Ok(written)
    }

    /// A value as parts of the query, `name=value` each.
    pub(super) fn in_query(&self, value: &Json) -> Vec<String> {
        let pair = |name: &str, value: &str| format!("{}={value}", encoded(name));
        // Alone a value may have the comma that parts several.
        let (alone, beside): (Written, Written) = match self.reserved {
            Reserved::Encoded => (encoded, encoded),
            Reserved::Kept => (reserved, reserved_part),
        };
        match (self.style, self.parts, value) {
            (Style::Json, _, value) => vec![pair(&self.name, &encoded(&value.to_string()))],
            (Style::Deep, _, Json::Object(members)) => {
                let mut pairs = Vec::new();
                deep(&encoded(&self.name), members, alone, &mut pairs);
                pairs
            }
            (Style::Deep, _, Json::Array(items)) | (_, Parts::Apart, Json::Array(items)) => {
                items.iter().map(|item| pair(&self.name, &alone(&plain(item)))).collect()
            }
            (_, Parts::Apart, Json::Object(members)) => {
                members.iter().map(|(name, value)| pair(name, &alone(&plain(value)))).collect()
            }
            // Nothing is told of an empty list in the other way, either.
            (_, Parts::Together, Json::Array(items)) if items.is_empty() => Vec::new(),
            (_, Parts::Together, Json::Object(members)) if members.is_empty() => Vec::new(),
            (Style::Delimited(between), _, value) => {
                vec![pair(&self.name, &self.joined(value, beside, between))]
            }
            (_, _, Json::Array(_) | Json::Object(_)) => {
                vec![pair(&self.name, &self.joined(value, beside, ","))]
            }
            (_, _, value) => vec![pair(&self.name, &alone(&plain(value)))],
        }
    }

    /// All of a value as one text; `between` parts the values and is no part of them.
    fn joined(&self, value: &Json, written: Written, between: &str) -> String {
        let named = match self.parts {
            Parts::Apart => "=",
            Parts::Together => between,
        };
        let parts: Vec<String> = match value {
            Json::Array(items) => items.iter().map(|item| written(&plain(item))).collect(),
            Json::Object(members) => members
                .iter()
                .map(|(name, value)| format!("{}{named}{}", written(name), written(&plain(value))))
                .collect(),
            value => vec![written(&plain(value))],
        };
        parts.join(between)
    }
}

fn style(name: &str, place: ArgumentPlace, said: Option<&str>) -> std::result::Result<Style, String> {
    use ArgumentPlace::{Header, Path, Query};
    Ok(match (place, said) {
        (Path | Header, None | Some("simple")) => Style::Simple,
        (Path, Some("label")) => Style::Label,
        (Path, Some("matrix")) => Style::Matrix,
        (Query, None | Some("form")) => Style::Form,
        (Query, Some("spaceDelimited")) => Style::Delimited("%20"),
        (Query, Some("pipeDelimited")) => Style::Delimited("%7C"),
        (Query, Some("deepObject")) => Style::Deep,
        (_, Some(other)) => {
            return Err(format!(
                "its parameter `{name}` has the style `{other}`, which is not supported in the {}",
                place.name()
            ));
        }
    })
}

/// The members of an object, each with the names that lead to it: `name[a][b]=value`.
fn deep(name: &str, members: &serde_json::Map<String, Json>, written: Written, pairs: &mut Vec<String>) {
    for (member, value) in members {
        let name = format!("{name}[{}]", encoded(member));
        match value {
            Json::Object(members) => deep(&name, members, written, pairs),
            Json::Array(items) => {
                pairs.extend(items.iter().map(|item| format!("{name}={}", written(&plain(item)))));
            }
            value => pairs.push(format!("{name}={}", written(&plain(value)))),
        }
    }
}

/// A value as one text.
pub(super) fn plain(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// How a text becomes part of an address.
type Written = fn(&str) -> String;

/// As [`encoded`], but for what has a meaning in addresses (RFC 3986, section 2.2), and what is written in percent already. What
/// would end the query, begin another pair or mean a blank is not kept.
fn reserved(text: &str) -> String {
    let bytes = text.as_bytes();
    let is_hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    let mut written = String::with_capacity(text.len());
    for (at, byte) in bytes.iter().enumerate() {
        let is_kept = match byte {
            b':' | b'/' | b'?' | b'@' | b'!' | b'$' | b'\'' | b'(' | b')' | b'*' | b',' | b';' | b'=' => true,
            b'%' => is_hex(at + 1) && is_hex(at + 2),
            _ => false,
        };
        if is_kept {
            written.push(char::from(*byte));
        } else {
            put(&mut written, *byte);
        }
    }
    written
}

/// The same for one of several that commas part.
fn reserved_part(text: &str) -> String {
    reserved(text).replace(',', "%2C")
}

/// Only letters and digits and `-._~` stay as they are (RFC 3986, section 2.3), so that a value can bring in no further
/// `{name}` and end nothing.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        put(&mut encoded, byte);
    }
    encoded
}

fn put(written: &mut String, byte: u8) {
    if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
        written.push(char::from(byte));
    } else {
        let _ = write!(written, "%{byte:02X}");
    }
}
