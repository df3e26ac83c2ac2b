//! How a parameter is written into a request: its place, and the `style` and `explode` of the document.

use std::fmt::Write as _;

use weft_core::{Error, Json, Result};

use super::media;

/// Where an argument is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentPlace {
    Path,
    Query,
    Header,
}

impl ArgumentPlace {
    /// Returns its name in documents.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
        }
    }
}

/// How the values of a list, or the members of an object, are separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueStyle {
    /// `content` instead of a style: one JSON text.
    Json,
    Simple,
    Label,
    Matrix,
    Form,
    /// With this delimiter between the values.
    Delimited(&'static str),
    Deep,
}

/// How a value that has parts is written (`explode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExplodedParts {
    Together,
    Apart,
}

/// How reserved characters in a query are written (`allowReserved`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reserved {
    Encoded,
    Kept,
}

/// A parameter of an operation.
#[derive(Clone, Debug)]
pub(super) struct Parameter {
    /// Its name for models.
    pub(super) argument: String,
    /// Its name for the service.
    pub(super) name: String,
    pub(super) place: ArgumentPlace,
    style: ValueStyle,
    parts: ExplodedParts,
    reserved: Reserved,
}

impl Parameter {
    /// Reads a parameter whose references are resolved; an error if it cannot be written.
    pub(super) fn read(name: &str, place: ArgumentPlace, said: &Json) -> std::result::Result<Self, String> {
        let style = match said.get("content") {
            Some(content) if content.as_object().and_then(media::json_of).is_some() => ValueStyle::Json,
            Some(_) => return Err(format!("its parameter `{name}` has a `content` that is not JSON")),
            None => style(name, place, said.get("style").and_then(Json::as_str))?,
        };
        // The default depends on the style (`explode` in the specification).
        let apart = said.get("explode").and_then(Json::as_bool).unwrap_or(style == ValueStyle::Form);
        let parts = if apart { ExplodedParts::Apart } else { ExplodedParts::Together };
        // It only applies to a query, and not to a `content`.
        let is_kept = place == ArgumentPlace::Query
            && style != ValueStyle::Json
            && said.get("allowReserved") == Some(&Json::Bool(true));
        let reserved = if is_kept { Reserved::Kept } else { Reserved::Encoded };
        Ok(Self { argument: name.to_owned(), name: name.to_owned(), place, style, parts, reserved })
    }

    /// Formats a value as a path segment: it can neither end the segment nor lead up in the path.
    ///
    /// # Errors
    /// `Invalid` for a value that is not a valid segment.
    pub(super) fn in_path(&self, value: &Json) -> Result<String> {
        let written = match self.style {
            ValueStyle::Json => encoded(&value.to_string()),
            ValueStyle::Label => {
                let between = if self.parts == ExplodedParts::Apart { "." } else { "," };
                format!(".{}", self.joined(value, encoded, between))
            }
            ValueStyle::Matrix => self.matrix(value),
            ValueStyle::Simple | ValueStyle::Form | ValueStyle::Delimited(_) | ValueStyle::Deep => {
                self.joined(value, encoded, ",")
            }
        };
        // A segment of only dots leads up in the path, even if it is percent-encoded.
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
            // Without an equals sign (RFC 6570, section 3.2.7).
            "" => format!(";{}", encoded(name)),
            value => format!(";{}={value}", encoded(name)),
        };
        match (self.parts, value) {
            (ExplodedParts::Apart, Json::Array(items)) => {
                items.iter().map(|item| one(&self.name, &encoded(&plain(item)))).collect()
            }
            (ExplodedParts::Apart, Json::Object(members)) => {
                members.iter().map(|(name, value)| one(name, &encoded(&plain(value)))).collect()
            }
            (_, value) => one(&self.name, &self.joined(value, encoded, ",")),
        }
    }

    /// Formats a value as a header.
    ///
    /// # Errors
    /// `Invalid` for a value that would begin another header.
    pub(super) fn in_header(&self, value: &Json) -> Result<String> {
        let written = match self.style {
            ValueStyle::Json => value.to_string(),
            _ => self.joined(value, str::to_owned, ","),
        };
        // A line break would begin another header.
        if written.chars().any(char::is_control) {
            return Err(Error::invalid(format!(
                "the argument `{}` is a header and cannot have control characters",
                self.argument
            )));
        }
        Ok(written)
    }

    /// Formats a value as parts of the query, `name=value` each.
    pub(super) fn in_query(&self, value: &Json) -> Vec<String> {
        let pair = |name: &str, value: &str| format!("{}={value}", encoded(name));
        // A single value may contain the comma that separates several.
        let (alone, beside): (Written, Written) = match self.reserved {
            Reserved::Encoded => (encoded, encoded),
            Reserved::Kept => (reserved, reserved_part),
        };
        match (self.style, self.parts, value) {
            (ValueStyle::Json, _, value) => vec![pair(&self.name, &encoded(&value.to_string()))],
            (ValueStyle::Deep, _, Json::Object(members)) => {
                let mut pairs = Vec::new();
                deep(&encoded(&self.name), members, alone, &mut pairs);
                pairs
            }
            (ValueStyle::Deep, _, Json::Array(items)) | (_, ExplodedParts::Apart, Json::Array(items)) => {
                items.iter().map(|item| pair(&self.name, &alone(&plain(item)))).collect()
            }
            (_, ExplodedParts::Apart, Json::Object(members)) => {
                members.iter().map(|(name, value)| pair(name, &alone(&plain(value)))).collect()
            }
            // As in the other form, an empty list is left out.
            (_, ExplodedParts::Together, Json::Array(items)) if items.is_empty() => Vec::new(),
            (_, ExplodedParts::Together, Json::Object(members)) if members.is_empty() => Vec::new(),
            (ValueStyle::Delimited(between), _, value) => {
                vec![pair(&self.name, &self.joined(value, beside, between))]
            }
            (_, _, Json::Array(_) | Json::Object(_)) => {
                vec![pair(&self.name, &self.joined(value, beside, ","))]
            }
            (_, _, value) => vec![pair(&self.name, &alone(&plain(value)))],
        }
    }

    /// Joins a value into one text, with the unencoded `between` as separator.
    fn joined(&self, value: &Json, written: Written, between: &str) -> String {
        let named = match self.parts {
            ExplodedParts::Apart => "=",
            ExplodedParts::Together => between,
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

fn style(name: &str, place: ArgumentPlace, said: Option<&str>) -> std::result::Result<ValueStyle, String> {
    use ArgumentPlace::{Header, Path, Query};
    Ok(match (place, said) {
        (Path | Header, None | Some("simple")) => ValueStyle::Simple,
        (Path, Some("label")) => ValueStyle::Label,
        (Path, Some("matrix")) => ValueStyle::Matrix,
        (Query, None | Some("form")) => ValueStyle::Form,
        // Encoded, because neither delimiter may appear in a URL as it is (RFC 3986).
        (Query, Some("spaceDelimited")) => ValueStyle::Delimited("%20"),
        (Query, Some("pipeDelimited")) => ValueStyle::Delimited("%7C"),
        (Query, Some("deepObject")) => ValueStyle::Deep,
        (_, Some(other)) => {
            return Err(format!(
                "its parameter `{name}` has the style `{other}`, which is not supported in the {}",
                place.name()
            ));
        }
    })
}

/// Collects the members of an object, each with its path: `name[a][b]=value`.
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

/// Returns a value as one text.
pub(super) fn plain(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// How a text is encoded as part of a URL.
type Written = fn(&str) -> String;

/// Like [`encoded`], but keeps reserved characters (RFC 3986, section 2.2), and what is already percent-encoded.
/// Characters that would end the query, begin another pair or mean a space are encoded.
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

/// Encodes one of several values that are separated by commas.
fn reserved_part(text: &str) -> String {
    reserved(text).replace(',', "%2C")
}

/// Encodes everything except letters, digits and `-._~` (RFC 3986, section 2.3), so that a value cannot introduce
/// another `{name}` or end anything.
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
