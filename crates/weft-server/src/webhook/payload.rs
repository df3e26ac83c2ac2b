//! The part of a call that a canvas receives: the declared values, with their declared types.

use axum::http::HeaderMap;
use axum::http::request::Parts;
use serde_json::{Map, Value as Json, json};
use sha2::{Digest as _, Sha256};
use weft_core::webhook::{ItemType, PayloadType, Section, Webhook, WebhookAuth};

use super::Refusal;
use crate::wire::python;

/// Headers with credentials, which a canvas does not need.
const CREDENTIALS: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "x-api-key"];

/// A call, parsed by its media type.
#[derive(Debug, Default)]
pub(crate) struct WebhookCall {
    /// Query parameters.
    pub query: Map<String, Json>,
    /// Headers, with names in lower case.
    pub headers: Map<String, Json>,
    /// Its body.
    pub body: Json,
    /// Its media type.
    pub content_type: Option<String>,
}

/// Returns the headers of a call without credentials.
pub(crate) fn headers(of: &HeaderMap, auth: &WebhookAuth) -> Map<String, Json> {
    // The secret is not a value for the canvas, which could show it, and its journal would store it.
    let secret = match auth {
        WebhookAuth::Token { header, .. } | WebhookAuth::Signature { header, .. } => {
            header.to_ascii_lowercase()
        }
        _ => String::new(),
    };
    let told = of.iter().filter(|(name, _)| !CREDENTIALS.contains(&name.as_str()) && name.as_str() != secret);
    told.filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.into()))).collect()
}

/// Returns a fingerprint of what a call says: its method, its query and its body. Headers may differ when a call is
/// repeated, and so may the bytes of a multipart form, whose parts are separated by a random text.
pub(crate) fn fingerprint(parts: &Parts, media: Option<&str>, body: &[u8]) -> String {
    let query = parts.uri.query().unwrap_or_default();
    let body: &[u8] = if media == Some("multipart/form-data") { &[] } else { body };
    let mut hash = Sha256::new();
    for part in [parts.method.as_str().as_bytes(), query.as_bytes(), body] {
        // The length separates each part from the next.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    weft_core::hex(&hash.finalize()[..16])
}

/// Parses the fields of a form, each with its last value; `None` if they are not valid text.
pub(crate) fn form(body: &[u8]) -> Option<Map<String, Json>> {
    let pairs = body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    let mut fields = Map::new();
    for pair in pairs {
        let (name, value) = match pair.iter().position(|byte| *byte == b'=') {
            Some(place) => (&pair[..place], &pair[place + 1..]),
            None => (pair, &[][..]),
        };
        fields.insert(decoded(name)?, decoded(value)?.into());
    }
    Some(fields)
}

/// Decodes a text of a form. An invalid escape stays as it is.
pub(crate) fn decoded(text: &[u8]) -> Option<String> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match (first, after) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, beyond @ ..]) => match digit(high).zip(digit(low)) {
                Some((high, low)) => {
                    bytes.push(high << 4 | low);
                    rest = beyond;
                }
                None => bytes.push(b'%'),
            },
            _ => bytes.push(*first),
        }
    }
    String::from_utf8(bytes).ok()
}

/// Returns the input of a canvas from a call.
///
/// # Errors
/// A message that callers of the compatible API know, for a value that is missing or of another type.
pub(crate) fn given(webhook: &Webhook, call: WebhookCall) -> Result<Json, Refusal> {
    let WebhookCall { query, headers, body, content_type } = call;
    let empty = Map::new();
    let members = body.as_object().unwrap_or(&empty);
    // The whole call is passed in addition to the declared values, so that a canvas only needs to declare what it
    // checks.
    let declared = json!({
        "query": section("query", &webhook.query, |name| query.get(name))?,
        "headers": section("headers", &webhook.headers, |name| headers.get(&name.to_ascii_lowercase()))?,
        "body": section("body", &webhook.body, |name| members.get(name))?,
    });
    let mut payload = declared;
    payload["request"] =
        json!({"query": query, "headers": headers, "body": body, "content_type": content_type});
    Ok(payload)
}

fn section<'a>(
    name: &str,
    section: &Section,
    find: impl Fn(&str) -> Option<&'a Json>,
) -> Result<Map<String, Json>, Refusal> {
    let mut values = Map::new();
    for (field, declared) in &section.fields {
        let value = match find(field) {
            None if declared.required => return Err(format!("{name} missing required field: {field}")),
            None => declared.kind.missing(),
            Some(value) => cast(value, declared.kind).map_err(|what| format!("{name}.{field} {what}"))?,
        };
        values.insert(field.clone(), value);
    }
    Ok(values)
}

/// Converts a value to its declared type; a string is parsed.
fn cast(value: &Json, kind: PayloadType) -> Result<Json, String> {
    let read = match value {
        Json::String(text) => from_text(text, kind)?,
        other => other.clone(),
    };
    if fits(&read, kind) {
        return Ok(read);
    }
    Err(format!("type mismatch: expected {}, got {}", kind.name(), python::type_name(&read)))
}

fn from_text(text: &str, kind: PayloadType) -> Result<Json, String> {
    let failed = |what: &str| Err(format!("auto-cast failed: {what}"));
    let trimmed = text.trim();
    match kind {
        PayloadType::Any | PayloadType::Text | PayloadType::Files => Ok(text.into()),
        PayloadType::Flag => match trimmed.to_ascii_lowercase().as_str() {
            "true" | "1" => Ok(true.into()),
            "false" | "0" => Ok(false.into()),
            _ => failed("it is neither true nor false"),
        },
        // Integers stay integers; `+1` or `.5` is not JSON but still a number.
        PayloadType::Number => match serde_json::from_str::<Json>(trimmed) {
            Ok(number @ Json::Number(_)) => Ok(number),
            _ => match trimmed.parse::<f64>().ok().and_then(serde_json::Number::from_f64) {
                Some(number) => Ok(number.into()),
                None => failed("it is not a number"),
            },
        },
        PayloadType::Object | PayloadType::List(_) => {
            serde_json::from_str(trimmed).or_else(|_| failed("it is not JSON"))
        }
    }
}

fn fits(value: &Json, kind: PayloadType) -> bool {
    let is = |value: &Json, of: ItemType| match of {
        ItemType::Text => value.is_string(),
        ItemType::Number => value.is_number(),
        ItemType::Flag => value.is_boolean(),
        ItemType::Object => value.is_object(),
    };
    match kind {
        PayloadType::Any => true,
        PayloadType::Text => is(value, ItemType::Text),
        PayloadType::Number => is(value, ItemType::Number),
        PayloadType::Flag => is(value, ItemType::Flag),
        PayloadType::Object => is(value, ItemType::Object),
        PayloadType::List(None) => value.is_array(),
        PayloadType::List(Some(of)) => {
            value.as_array().is_some_and(|items| items.iter().all(|item| is(item, of)))
        }
        PayloadType::Files => {
            let file = |item: &Json| item.get("id").is_some_and(Json::is_string);
            value.as_array().is_some_and(|files| files.iter().all(file))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_fields_take_their_last_value() {
        let read = |text: &str| form(text.as_bytes()).map(Json::Object);
        assert_eq!(
            read("a=1&b=x+y%20z&a=2&c&&d=%e6%b1%89"),
            Some(json!({"a": "2", "b": "x y z", "c": "", "d": "汉"}))
        );
        assert_eq!(read("a=%&b=%zz&c=1=2"), Some(json!({"a": "%", "b": "%zz", "c": "1=2"})));
        assert_eq!((read(""), read("a=%ff")), (Some(json!({})), None));
    }

    #[test]
    fn values_are_cast_to_the_declared_type() {
        let check = |kind: &str, value: Json, expected: Result<Json, &str>| {
            let kind = PayloadType::parse(kind).unwrap();
            match (cast(&value, kind), expected) {
                (Ok(got), Ok(expected)) => assert_eq!(got, expected, "{value}"),
                (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
                (got, _) => panic!("{value}: {got:?}"),
            }
        };
        check("boolean", json!("TRUE"), Ok(json!(true)));
        check("boolean", json!("0"), Ok(json!(false)));
        check("boolean", json!("maybe"), Err("auto-cast failed"));
        check("boolean", json!(1), Err("expected boolean, got int"));
        check("number", json!("7"), Ok(json!(7)));
        check("number", json!(" 1.5 "), Ok(json!(1.5)));
        check("number", json!("1e3"), Ok(json!(1000.0)));
        check("number", json!("NaN"), Err("auto-cast failed"));
        check("number", json!(true), Err("expected number, got bool"));
        check("string", json!("7"), Ok(json!("7")));
        check("string", json!(7), Err("expected string, got int"));
        check("object", json!("{\"a\": 1}"), Ok(json!({"a": 1})));
        check("object", json!("[1]"), Err("expected object, got list"));
        check("object", json!("{"), Err("auto-cast failed"));
        check("array<number>", json!("[1, 2]"), Ok(json!([1, 2])));
        check("array<number>", json!([1, "2"]), Err("expected array<number>, got list"));
        check("array", json!([1, "2"]), Ok(json!([1, "2"])));
        check("file", json!([{"id": "f"}]), Ok(json!([{"id": "f"}])));
        check("file", json!("x"), Err("expected file, got str"));
        check("any", Json::Null, Ok(Json::Null));
    }
}
