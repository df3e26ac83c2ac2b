//! Input of a request: a JSON object, or query parameters. Every error is reported in an envelope.

mod encoding;

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use serde_json::Value as Json;
use weft_app::spending::USAGE_DAYS_MAX;
use weft_dsl::{Problem, unseen_in_member, unseen_in_text};

pub(crate) use self::encoding::check_encoding;

use crate::audit::AuditSlot;
use crate::error::ApiError;
use crate::upload_memory::counted;

/// Time limit for the body of a request to arrive.
const BODY_TIME: Duration = Duration::from_secs(120);

/// Maximum length of an id that the caller chooses.
const ID_MAX: usize = 128;

/// Maximum length of a description or of a picture as a data URI, in characters. Lists contain them for every entry.
pub(crate) const ABOUT_CHARS_MAX: usize = 65_535;

/// The query parameter with words that entries of a list must contain.
const KEYWORDS: &str = "keywords";

/// Maximum length of [`KEYWORDS`], in characters. Databases refuse patterns of some ten thousand.
const KEYWORDS_CHARS_MAX: usize = 1_000;

/// Number of characters of an invalid value that an error repeats.
const VALUE_SHOWN_MAX: usize = 128;

/// Maximum number of values in the JSON of a body, counting members and items at all depths. One value takes up to a
/// kilobyte in memory, but only three bytes in a request.
pub(crate) const VALUES_MAX: usize = 200_000;

/// Default page size.
// The default of the compatible API.
const PAGE_SIZE: u64 = 30;

/// Default number of days in a report.
const DAYS: u32 = 30;

/// Fields with a name or a question, in which a NUL character is refused. PostgreSQL cannot store it: a stored name
/// would differ from the one that the answer to the request has.
const WITHOUT_NUL: [&str; 6] = ["name", "new_name", "title", "nickname", "question", "query"];

/// The JSON object of a request; an absent body counts as an empty object.
#[derive(Clone, Debug, Default)]
pub struct Body(pub serde_json::Map<String, Json>);

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        read(request, state).await?.map_or_else(|| Ok(Self::default()), Self::of)
    }
}

/// The value of `limits.body_bytes`, in the extensions of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyMax(pub usize);

/// Message for a text that is not JSON.
const MALFORMED: &str = "Malformed JSON syntax: Missing commas/brackets or invalid encoding";

/// What to do about a text that is not accepted although its commas and brackets are right, by the beginning of the
/// parser's message.
const REMEDIES: [(&str, &str); 4] = [
    ("recursion limit exceeded", "nest objects and lists at most 127 levels deep"),
    ("number out of range", "send a number beyond the range of 64-bit floating point as a string"),
    ("lone leading surrogate", "write both halves of a surrogate pair, or the character itself"),
    ("unexpected end of hex escape", "write both halves of a surrogate pair, or the character itself"),
];

/// Reads the JSON of a request; `None` if its body is empty.
async fn read<S: Send + Sync>(request: Request, state: &S) -> Result<Option<Json>, ApiError> {
    let slot = request.extensions().get::<AuditSlot>().cloned();
    let json = text(request, state).await?.map(|bytes| parsed(&bytes)).transpose()?;
    if let (Some(slot), Some(json)) = (slot, &json) {
        slot.name_ids(json);
    }
    Ok(json)
}

fn parsed(bytes: &[u8]) -> Result<Json, ApiError> {
    serde_json::from_slice(bytes).map_err(|error| ApiError::argument(unreadable(&error)))
}

fn unreadable(error: &serde_json::Error) -> String {
    let reason = error.to_string();
    match REMEDIES.iter().find(|(start, _)| reason.starts_with(*start)) {
        Some((_, remedy)) => format!("Malformed JSON syntax: {reason} ({remedy})"),
        // Clients compare the whole message.
        None => MALFORMED.to_owned(),
    }
}

/// Reads the body of a request if its type and number of values allow parsing; `None` if it is empty.
async fn text<S: Send + Sync>(request: Request, state: &S) -> Result<Option<Bytes>, ApiError> {
    let kind = request.headers().get(header::CONTENT_TYPE);
    let kind = kind.map_or("nothing", |kind| kind.to_str().unwrap_or("nothing readable")).to_owned();
    // Reported below, because it does not matter for an empty body; by then the request is consumed.
    let encoding = check_encoding(request.headers());
    let (parts, body) = request.into_parts();
    let max = parts.extensions.get::<BodyMax>().map(|max| max.0);
    let (body, memory) = counted(&parts.extensions, body);
    let request = Request::from_parts(parts, body);
    let reading = tokio::time::timeout(BODY_TIME, Bytes::from_request(request, state));
    let read =
        reading.await.map_err(|_| ApiError::argument("the body of the request did not arrive in time"))?;
    let bytes = read.map_err(|rejection| match rejection.into_response().status() {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::too_large(max),
        _ => memory.error().unwrap_or_else(|| ApiError::argument("the body of the request cannot be read")),
    })?;
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    encoding?;
    // Web pages of any origin can make a browser send other content types without a preflight request.
    if !is_json(&kind) {
        let message = format!("Unsupported content type: Expected application/json, got {kind}");
        return Err(ApiError::argument(message));
    }
    // Counted in the bytes, because parsing would already allocate the memory for the values.
    if values_of(&bytes) > VALUES_MAX {
        let message =
            format!("the body has more than {VALUES_MAX} values; send large data as a text or a file");
        return Err(ApiError::argument(message));
    }
    Ok(Some(bytes))
}

/// The JSON object of a request that may contain a canvas as its `dsl`, with the problems found in the text of the
/// canvas that the parsed object does not show.
#[derive(Debug, Default)]
pub(crate) struct WithCanvas(pub Body, pub Vec<Problem>);

impl<S: Send + Sync> FromRequest<S> for WithCanvas {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let JsonWithText(read) = JsonWithText::from_request(request, state).await?;
        let Some((json, text)) = read else { return Ok(Self::default()) };
        let body = Body::of(json)?;
        let unseen = unseen(body.0.get("dsl"), &text, "dsl");
        Ok(Self(body, unseen))
    }
}

/// What is said in a canvas and lost once it is parsed: in a text, or where it stands in this text of a message.
pub(crate) fn unseen(canvas: Option<&Json>, message: &[u8], place: &str) -> Vec<Problem> {
    match canvas {
        Some(Json::String(canvas)) => unseen_in_text(canvas),
        _ => unseen_in_member(std::str::from_utf8(message).unwrap_or_default(), place),
    }
}

/// The JSON of a request and the text that it was; `None` if its body is empty.
#[derive(Debug)]
pub(crate) struct JsonWithText(pub Option<(Json, Bytes)>);

impl<S: Send + Sync> FromRequest<S> for JsonWithText {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let Some(bytes) = text(request, state).await? else { return Ok(Self(None)) };
        Ok(Self(Some((parsed(&bytes)?, bytes))))
    }
}

/// The JSON object of a request, for routes where an absent body is an error.
#[derive(Debug)]
pub(crate) struct RequiredBody(pub Body);

impl<S: Send + Sync> FromRequest<S> for RequiredBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        match read(request, state).await? {
            Some(json) => Body::of(json).map(Self),
            None => Err(ApiError::argument(MALFORMED)),
        }
    }
}

/// The JSON of a request, whatever its type, for routes that have their own message for a value that is not an
/// object.
#[derive(Debug)]
pub(crate) struct AnyJson(pub Json);

impl<S: Send + Sync> FromRequest<S> for AnyJson {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        Ok(Self(read(request, state).await?.unwrap_or_default()))
    }
}

/// Upper bound of the number of values in a JSON text: each value but the first follows the start of a list or an
/// object, or a comma.
pub(crate) fn values_of(json: &[u8]) -> usize {
    let (mut values, mut in_text, mut escaped) = (1, false, false);
    for byte in json {
        match byte {
            // A character after a backslash is always part of the string.
            _ if escaped => escaped = false,
            b'\\' => escaped = in_text,
            b'"' => in_text = !in_text,
            b',' | b'[' | b'{' if !in_text => values += 1,
            _ => {}
        }
    }
    values
}

fn is_json(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

fn type_name(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "bool",
        Json::Number(_) => "number",
        Json::String(_) => "str",
        Json::Array(_) => "list",
        Json::Object(_) => "object",
    }
}

/// Excerpt of a value for an error message; the sender knows the rest.
pub(crate) fn excerpt(value: &str) -> String {
    value.chars().take(VALUE_SHOWN_MAX).collect()
}

/// Returns a boolean, in any of the forms in which clients write it: `true`, `"True"`, `1`, `"1"`.
pub(crate) fn flag_of(value: &Json) -> Option<bool> {
    match value.as_str() {
        Some("1") => Some(true),
        Some("0") => Some(false),
        _ => weft_core::value::truth(value),
    }
}

fn wrong(key: &str, expected: &str, value: &Json) -> ApiError {
    let value = excerpt(&weft_core::value::to_text(value));
    ApiError::argument(format!(
        "Field: <{key}> - Message: <Input should be a valid {expected}> - Value: <{value}>"
    ))
}

impl Body {
    /// Converts an object; null counts as an empty object.
    ///
    /// # Errors
    /// 101 when the value is of another type, or a name or a question in it contains a NUL character.
    pub fn of(json: Json) -> Result<Self, ApiError> {
        match json {
            Json::Object(map) => {
                let has_nul =
                    |key: &str| map.get(key).and_then(Json::as_str).is_some_and(|text| text.contains('\0'));
                match WITHOUT_NUL.iter().find(|key| has_nul(key)) {
                    Some(key) => {
                        Err(ApiError::argument(format!("`{key}` contains a NUL character (U+0000)")))
                    }
                    None => Ok(Self(map)),
                }
            }
            Json::Null => Ok(Self::default()),
            other => {
                let message = format!("Invalid request payload: expected object, got {}", type_name(&other));
                Err(ApiError::argument(message))
            }
        }
    }

    /// Returns a field; null counts as absent.
    pub fn get(&self, key: &str) -> Option<&Json> {
        // The SDK sends null for arguments that were not given.
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// Returns a string field.
    ///
    /// # Errors
    /// 101 when the value is of another type.
    pub fn text(&self, key: &str) -> Result<Option<String>, ApiError> {
        match self.get(key) {
            None => Ok(None),
            Some(Json::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(wrong(key, "string", other)),
        }
    }

    /// Returns a string field of limited length.
    ///
    /// # Errors
    /// 101 when the value is of another type or has too many characters.
    pub fn text_within(&self, key: &str, chars_max: usize) -> Result<Option<String>, ApiError> {
        match self.text(key)? {
            Some(text) if text.chars().count() > chars_max => {
                Err(ApiError::argument(format!("`{key}` has more than {chars_max} characters")))
            }
            text => Ok(text),
        }
    }

    /// Returns a string field that identifies something; an empty string counts as absent.
    ///
    /// # Errors
    /// 101 when the value is of another type, too long, or contains control characters.
    pub fn id(&self, key: &str) -> Result<Option<String>, ApiError> {
        let id = self.text(key)?.filter(|id| !id.is_empty());
        match &id {
            Some(text) if text.len() > ID_MAX || text.chars().any(char::is_control) => {
                Err(wrong(key, "id of at most 128 characters", &Json::String(text.clone())))
            }
            _ => Ok(id),
        }
    }

    /// Returns a boolean field, which may also be written as a string, or as 0 or 1.
    ///
    /// # Errors
    /// 101 when the value is of another type.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, ApiError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        flag_of(value).map(Some).ok_or_else(|| wrong(key, "boolean", value))
    }

    /// Returns a list field.
    ///
    /// # Errors
    /// 101 when the value is of another type.
    pub fn list(&self, key: &str) -> Result<Option<Vec<Json>>, ApiError> {
        match self.get(key) {
            None => Ok(None),
            Some(Json::Array(list)) => Ok(Some(list.clone())),
            Some(other) => Err(wrong(key, "list", other)),
        }
    }

    /// Returns a field with a list of strings.
    ///
    /// # Errors
    /// 101 when the value or one of its items is of another type.
    pub fn texts(&self, key: &str) -> Result<Option<Vec<String>>, ApiError> {
        let Some(list) = self.list(key)? else { return Ok(None) };
        let text = |value: &Json| match value {
            Json::String(text) => Ok(text.clone()),
            other => Err(wrong(key, "string", other)),
        };
        list.iter().map(text).collect::<Result<_, _>>().map(Some)
    }

    /// Returns an object field.
    ///
    /// # Errors
    /// 101 when the value is of another type.
    pub fn object(&self, key: &str) -> Result<Option<serde_json::Map<String, Json>>, ApiError> {
        match self.get(key) {
            None => Ok(None),
            Some(Json::Object(map)) => Ok(Some(map.clone())),
            Some(other) => Err(wrong(key, "dictionary", other)),
        }
    }

    /// Checks that all of these fields are present.
    ///
    /// # Errors
    /// 101 naming all that are missing.
    pub fn require(&self, keys: &[&str]) -> Result<(), ApiError> {
        let missing: Vec<_> = keys.iter().copied().filter(|key| self.get(key).is_none()).collect();
        if missing.is_empty() {
            Ok(())
        } else {
            // Clients match on this text, including the space at the end.
            Err(ApiError::argument(format!("required argument are missing: {}; ", missing.join(","))))
        }
    }
}

/// Query parameters. Of several with the same name the last counts, unless a list is requested.
#[derive(Debug, Default)]
pub struct Params(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let params = Query::try_from_uri(&parts.uri)
            .map(|Query(params)| Self(params))
            .map_err(|_| ApiError::argument("the query parameters cannot be read"))?;
        if params.get(KEYWORDS).is_some_and(|words| words.chars().count() > KEYWORDS_CHARS_MAX) {
            let message = format!("`{KEYWORDS}` has more than {KEYWORDS_CHARS_MAX} characters");
            return Err(ApiError::argument(message));
        }
        Ok(params)
    }
}

/// A range of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Number of entries to skip.
    pub offset: u64,
    /// Maximum number of entries.
    pub limit: u64,
}

impl Params {
    /// Returns a parameter that is not empty.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.given(key).filter(|value| !value.is_empty())
    }

    /// Returns a parameter as it was given; it may be empty.
    pub fn given(&self, key: &str) -> Option<&str> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns all non-empty values of a parameter: given several times, or separated by commas.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(move |(name, _)| name == key);
        named.flat_map(|(_, value)| value.split(',')).map(str::trim).filter(|value| !value.is_empty())
    }

    /// Returns the parameters whose names are not in `known`.
    pub fn others<'a>(&'a self, known: &'a [&str]) -> impl Iterator<Item = (&'a str, &'a str)> {
        let pairs = self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        pairs.filter(|(name, _)| !known.contains(name))
    }

    /// Parses the query string of a URL.
    #[cfg(test)]
    pub fn parse(text: &str) -> Self {
        Query::try_from_uri(&format!("/?{text}").parse().unwrap()).map(|Query(params)| Self(params)).unwrap()
    }

    /// Returns a boolean parameter; an unknown value counts as absent.
    pub fn flag(&self, key: &str) -> Option<bool> {
        match self.get(key)? {
            // Python clients capitalize it.
            value if value.eq_ignore_ascii_case("true") || value == "1" => Some(true),
            value if value.eq_ignore_ascii_case("false") || value == "0" => Some(false),
            _ => None,
        }
    }

    /// Reads `page` and `page_size`. An invalid value counts as absent, and no page is larger than `size_max`.
    pub fn page(&self, size_max: u64) -> Page {
        let number =
            |key| self.get(key).and_then(|text| text.parse::<u64>().ok()).filter(|number| *number > 0);
        // Capped rather than rejected: one generation of clients asks for more than the other allows.
        let limit = number("page_size").unwrap_or(PAGE_SIZE).min(size_max);
        Page { offset: (number("page").unwrap_or(1) - 1).saturating_mul(limit), limit }
    }

    /// Like [`Self::page`], for lists that are paged only on request: without the parameters the page holds
    /// everything, up to `size_max`.
    pub fn page_if_asked(&self, size_max: u64) -> Page {
        let number =
            |key| self.get(key).and_then(|text| text.parse::<u64>().ok()).filter(|number| *number > 0);
        match (number("page"), number("page_size")) {
            (Some(_), Some(_)) => self.page(size_max),
            _ => Page { offset: 0, limit: size_max },
        }
    }

    /// Reads `days`: the number of days that a report covers, up to and including today.
    ///
    /// # Errors
    /// 101 for a value that is not a number from 1 to [`USAGE_DAYS_MAX`].
    pub fn days(&self) -> Result<u32, ApiError> {
        let Some(text) = self.get("days") else { return Ok(DAYS) };
        text.parse().ok().filter(|days| (1..=USAGE_DAYS_MAX).contains(days)).ok_or_else(|| {
            ApiError::argument(format!("`days` must be a number between 1 and {USAGE_DAYS_MAX}"))
        })
    }

    /// Returns whether the oldest entries come first.
    pub fn ascending(&self) -> bool {
        // Clients expect the newest first by default.
        self.flag("desc") == Some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn wrong_types_are_named() {
        let body = Body(json!({"a": 1, "b": null, "c": "True", "d": ["x", 2]}).as_object().unwrap().clone());
        let message = |error: ApiError| format!("{error:?}");
        assert!(
            message(body.text("a").unwrap_err())
                .contains("Field: <a> - Message: <Input should be a valid string> - Value: <1>")
        );
        assert_eq!(body.text("b").unwrap(), None);
        assert_eq!(body.flag("c").unwrap(), Some(true));
        assert!(body.texts("d").is_err());
        assert!(message(body.flag("d").unwrap_err()).contains("Input should be a valid boolean"));
        assert!(message(body.require(&["a", "b", "e"]).unwrap_err()).contains("missing: b,e; "));
    }

    #[test]
    fn names_and_questions_have_no_nul_character() {
        for key in WITHOUT_NUL {
            let told = Body::of(json!({key: "a\0b"})).unwrap_err();
            assert_eq!(told.message(), format!("`{key}` contains a NUL character (U+0000)"));
        }
        // Text that programs extract from files often contains some.
        assert!(Body::of(json!({"content": "a\0b", "name": "ab", "query": 1})).is_ok());
    }

    #[test]
    fn a_boolean_may_be_written_in_several_ways() {
        for (value, expected) in [
            (json!(true), Some(true)),
            (json!("TRUE"), Some(true)),
            (json!(1), Some(true)),
            (json!("1"), Some(true)),
            (json!(false), Some(false)),
            (json!("False"), Some(false)),
            (json!(0), Some(false)),
            (json!("0"), Some(false)),
            (json!(2), None),
            (json!("2"), None),
            (json!("yes"), None),
            (json!([true]), None),
        ] {
            assert_eq!(flag_of(&value), expected, "{value}");
        }
    }

    #[test]
    fn the_reason_is_given_where_commas_and_brackets_are_right() {
        let told = |json: &str| parsed(json.as_bytes()).unwrap_err().message().to_owned();
        for json in ["{", "not json", "[1 2]", "[1,]", "\"\0\""] {
            assert_eq!(told(json), MALFORMED, "{json}");
        }
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(parsed(deep(127).as_bytes()).is_ok());
        for (json, reason) in [
            (deep(128).as_str(), "recursion limit exceeded at line 1 column 128 (nest objects"),
            ("{\"a\": 1e999}", "number out of range at line 1"),
            (r#"["\ud83d"]"#, "unexpected end of hex escape at line 1"),
            (r#"["\udc00"]"#, "lone leading surrogate in hex escape at line 1"),
        ] {
            let told = told(json);
            assert!(told.starts_with(&format!("Malformed JSON syntax: {reason}")), "{told}");
        }
    }

    #[test]
    fn json_values_are_counted_outside_of_strings() {
        let check = |json: &str, count: usize| assert_eq!(values_of(json.as_bytes()), count, "{json}");
        check("1", 1);
        check(r#"{"a": [1, 2], "b": {}}"#, 6);
        check(r#"{"a": ",[{\",{", "b\\": "[\\\","}"#, 3);
        let many = format!("[{}]", "{},".repeat(VALUES_MAX));
        assert!(values_of(many.as_bytes()) > VALUES_MAX);
    }

    #[tokio::test]
    async fn a_body_of_many_small_values_is_refused_before_it_is_read() {
        let send = async |items: usize| {
            let json = format!(r#"{{"inputs": [{}0]}}"#, "{},".repeat(items));
            let request = Request::builder().header(header::CONTENT_TYPE, "application/json");
            Body::from_request(request.body(json.into()).unwrap(), &()).await
        };
        assert!(send(1_000).await.is_ok());
        let error = format!("{:?}", send(VALUES_MAX).await.unwrap_err());
        assert!(error.contains("more than 200000 values"), "{error}");
    }

    #[test]
    fn some_lists_are_paged_only_on_request() {
        let page = |text: &str| {
            let page = Params::parse(text).page_if_asked(100);
            (page.offset, page.limit)
        };
        for all in
            ["", "page_size=2", "page=0&page_size=2", "page=a&page_size=2", "page=2&page_size=0", "page=1"]
        {
            assert_eq!(page(all), (0, 100), "{all}");
        }
        assert_eq!((page("page=3&page_size=2"), page("page=1&page_size=500")), ((4, 2), (0, 100)));
    }

    #[test]
    fn parameters_may_be_given_once_or_several_times() {
        let params = Params::parse("a=1&a=2&b=x,y&b=&b=%20z&c=");
        assert_eq!((params.get("a"), params.get("c"), params.get("d")), (Some("2"), None, None));
        assert_eq!(params.all("b").collect::<Vec<_>>(), ["x", "y", "z"]);
        assert_eq!(params.others(&["a", "b"]).collect::<Vec<_>>(), [("c", "")]);
    }

    #[test]
    fn pages() {
        let page = |page: &str, size: &str| {
            let pairs = [("page".to_owned(), page.to_owned()), ("page_size".to_owned(), size.to_owned())];
            let Page { offset, limit } = Params(pairs.to_vec()).page(100);
            (offset, limit)
        };
        assert_eq!(page("", ""), (0, 30));
        assert_eq!(page("3", "20"), (40, 20));
        assert_eq!(page("x", "-1"), (0, 30));
        assert_eq!(page("2", "5000"), (100, 100));
        assert_eq!(page("18446744073709551615", "100").0, u64::MAX);
    }
}
