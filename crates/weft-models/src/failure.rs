//! Classifies failures of providers: by HTTP status and structured code first, by message text last. No text that
//! leaves this module contains a key.

use std::time::{Duration, SystemTime};

use serde_json::Value as Json;
use weft_core::{Error, ErrorKind};

use crate::secret::Secret;

/// Maximum number of characters of a provider's message that are kept.
// Some respond with a whole page, and the message goes into events and logs.
const WORDS_MAX: usize = 500;
/// Shorter keys are not searched for in texts; they would match by chance.
const KEY_LENGTH_MIN: usize = 6;

/// A response with an error status.
pub(crate) struct ProviderRefusal<'a> {
    pub status: u16,
    pub body: &'a str,
    pub retry_after: Option<Duration>,
}

/// The error for a response with an error status.
pub(crate) fn refused(model: &str, refusal: &ProviderRefusal<'_>, key: &Secret) -> Error {
    let reported = serde_json::from_str::<Json>(refusal.body).ok();
    let (code, words) = reported.as_ref().map(reported_parts).unwrap_or_default();
    let kind = kind(refusal.status, &code);
    let words = if words.is_empty() { refusal.body } else { &words };
    let status = refusal.status;
    // A long wait explains why the request is not retried.
    let wait = refusal.retry_after.map(|wait| wait.as_secs()).filter(|seconds| *seconds > 0);
    let wait = wait.map(|seconds| format!(" and asks to wait {seconds} s")).unwrap_or_default();
    let mut error = Error::new(kind, format!("the model `{model}` answered with status {status}{wait}"));
    error.retry_after = refusal.retry_after;
    finish(error, words, key)
}

/// The error for an error object inside a stream.
pub(crate) fn reported(model: &str, object: &Json, key: &Secret) -> Error {
    let (code, words) = reported_parts(object);
    let kind = by_code(&code).or_else(|| by_number(&code)).unwrap_or(ErrorKind::Unavailable);
    finish(Error::new(kind, format!("the model `{model}` failed while answering")), &words, key)
}

/// The error for a failure that MiniMax reports by a number of its own.
pub(crate) fn of_minimax(model: &str, code: i64, words: &str, key: &Secret) -> Error {
    let kind = match code {
        1001 => ErrorKind::Timeout,
        // The second is the limit of tokens per minute.
        1002 | 1039 => ErrorKind::RateLimited,
        1004 | 2049 => ErrorKind::Unauthenticated,
        1008 | 2056 => ErrorKind::QuotaExceeded,
        1026 | 1027 => ErrorKind::Filtered,
        2013 => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    };
    finish(Error::new(kind, format!("the model `{model}` failed with the code {code}")), words, key)
}

/// The error for a request that a provider does not answer because of its content.
pub(crate) fn blocked(model: &str, reason: &str, key: &Secret) -> Error {
    let message = format!("the model `{model}` does not answer because of the content of the request");
    finish(Error::new(ErrorKind::Filtered, message), reason, key)
}

/// The error for an answer that was cut off.
pub(crate) fn cut_off(model: &str) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("the answer of the model `{model}` was cut off before its end"),
    )
}

/// The error for a response that cannot be understood.
pub(crate) fn garbled(model: &str, cause: impl std::fmt::Display, key: &Secret) -> Error {
    let error =
        Error::new(ErrorKind::Garbled, format!("the answer of the model `{model}` cannot be understood"))
            .help("check that `base_url` and `provider` of the model fit together");
    finish(error, &cause.to_string(), key)
}

/// The error for an answer of which the server at `address` sends more than is accepted: something called `what` with
/// more than `bytes_max` bytes.
pub(crate) fn too_long(model: &str, address: &reqwest::Url, what: &str, bytes_max: usize) -> Error {
    // Without a password that the address may contain.
    let host = address.host_str().unwrap_or_default();
    let server = address.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let message =
        format!("the server `{server}` of the model `{model}` sent {what} of more than {bytes_max} bytes");
    Error::new(ErrorKind::Garbled, message).help(
        "check that `base_url` and `provider` of the model fit together and that this server works; a lower \
         `max_tokens` makes answers shorter",
    )
}

/// The error for a request without a response. The URL is left out, because it may contain a key.
pub(crate) fn no_answer(model: &str, cause: reqwest::Error, key: &Secret) -> Error {
    let kind = match () {
        () if cause.is_timeout() => ErrorKind::Timeout,
        // Nothing was sent: asking again would fail in the same way.
        () if cause.is_builder() => ErrorKind::Invalid,
        () => ErrorKind::Unavailable,
    };
    let mut error = Error::new(kind, format!("no answer from the model `{model}`"));
    if cause.is_connect() {
        error = error.help("check the model's `base_url`, and that a server listens there");
    }
    // A URL may contain a key among its parameters.
    finish(error, &with_causes(&cause.without_url()), key)
}

/// How long the server asks to wait: in milliseconds, in seconds, or until a date. A date is interpreted relative to
/// the server's clock, if the response contains its time.
pub(crate) fn retry_after(headers: &reqwest::header::HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str| text(name)?.parse::<f64>().ok();
    let date = |name: &str| text(name).and_then(|text| httpdate::parse_http_date(text).ok());
    match number("retry-after-ms").map(|ms| ms / 1000.0).or_else(|| number("retry-after")) {
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        None => {
            let until = date("retry-after")?;
            // A date in the past asks for no wait. The server's clock is preferred if known: the local one may be
            // wrong.
            Some(until.duration_since(date("date").unwrap_or_else(SystemTime::now)).unwrap_or_default())
        }
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

fn finish(mut error: Error, words: &str, key: &Secret) -> Error {
    // Masked before it is cut: otherwise, part of a key across the cut would be visible.
    let words: String = masked(words.trim(), key).chars().take(WORDS_MAX).collect();
    if !words.is_empty() {
        error = error.because(words);
    }
    if error.help.is_some() {
        return error;
    }
    match error.kind {
        ErrorKind::Unauthenticated => error.help("check the model's API key"),
        ErrorKind::QuotaExceeded => error.help("check the plan and the balance at the provider"),
        _ => error,
    }
}

/// The `(code, message)` of an error object in any of the usual forms.
fn reported_parts(json: &Json) -> (String, String) {
    // Gemini responds to streaming requests with a list of one error.
    let json = json.get(0).unwrap_or(json);
    let inner = json.get("error").unwrap_or(json);
    let text = |name: &str| match inner.get(name) {
        Some(Json::String(text)) => text.clone(),
        Some(Json::Number(number)) => number.to_string(),
        _ => String::new(),
    };
    let words = match inner {
        Json::String(text) => text.clone(),
        _ => Some(text("message")).filter(|words| !words.is_empty()).unwrap_or_else(|| text("detail")),
    };
    (format!("{} {} {}", text("code"), text("type"), text("status")).to_lowercase(), words)
}

/// The status decides whether the same request may succeed later; the code refines the kind as long as it does not
/// contradict that. Some servers report all of their failures as `server_error`.
fn kind(status: u16, code: &str) -> ErrorKind {
    let by_status = by_status(status);
    match by_code(code) {
        // Whatever the code says, only a different key helps here.
        Some(_) if status == 401 => by_status,
        Some(by_code) if by_code.is_passing() && !by_status.is_passing() => by_status,
        Some(by_code) => by_code,
        None => by_status,
    }
}

fn by_code(code: &str) -> Option<ErrorKind> {
    const CODES: &[(&str, ErrorKind)] = &[
        // The first match counts: a used-up quota often comes with a code for too many requests, and waiting does not
        // help there.
        ("insufficient_quota", ErrorKind::QuotaExceeded),
        ("insufficient_balance", ErrorKind::QuotaExceeded),
        ("billing", ErrorKind::QuotaExceeded),
        ("content_filter", ErrorKind::Filtered),
        ("content_policy", ErrorKind::Filtered),
        ("data_inspection", ErrorKind::Filtered),
        ("rate_limit", ErrorKind::RateLimited),
        ("resource_exhausted", ErrorKind::RateLimited),
        ("429", ErrorKind::RateLimited),
        ("authentication", ErrorKind::Unauthenticated),
        ("invalid_api_key", ErrorKind::Unauthenticated),
        ("permission", ErrorKind::Unauthenticated),
        ("unauthenticated", ErrorKind::Unauthenticated),
        ("timeout", ErrorKind::Timeout),
        ("deadline_exceeded", ErrorKind::Timeout),
        ("overloaded", ErrorKind::Unavailable),
        ("server_error", ErrorKind::Unavailable),
        ("api_error", ErrorKind::Unavailable),
        ("invalid_request", ErrorKind::Invalid),
        ("invalid_argument", ErrorKind::Invalid),
        ("context_length_exceeded", ErrorKind::Invalid),
    ];
    CODES.iter().find(|(part, _)| code.contains(part)).map(|(_, kind)| *kind)
}

/// vLLM and OpenRouter send the status that the response would have had as the code.
fn by_number(code: &str) -> Option<ErrorKind> {
    let status = code.split_whitespace().find_map(|word| word.parse::<u16>().ok())?;
    (400..=599).contains(&status).then(|| by_status(status))
}

fn by_status(status: u16) -> ErrorKind {
    match status {
        // With 403, providers reject keys that lack a permission, and not the content of the request.
        401 | 403 => ErrorKind::Unauthenticated,
        402 => ErrorKind::QuotaExceeded,
        408 | 504 => ErrorKind::Timeout,
        429 => ErrorKind::RateLimited,
        400..=499 => ErrorKind::Invalid,
        500..=599 => ErrorKind::Unavailable,
        _ => ErrorKind::Garbled,
    }
}

/// Removes the key, and everything that looks like one, from a text.
pub(crate) fn masked(text: &str, key: &Secret) -> String {
    let mut text = text.to_owned();
    if key.reveal().len() >= KEY_LENGTH_MIN {
        text = text.replace(key.reveal(), "***");
    }
    // Also other keys than the configured one: some providers repeat what a proxy has inserted.
    for start in ["sk-", "Bearer ", "bearer ", "key=", "AIza"] {
        text = masked_after(&text, start);
    }
    text
}

fn masked_after(text: &str, start: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(start) {
        let after = &rest[at + start.len()..];
        let end =
            after.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.*".contains(c))).unwrap_or(after.len());
        out.push_str(&rest[..at + start.len()]);
        // Anything shorter than a key is a word of the sentence.
        out.push_str(if end >= KEY_LENGTH_MIN { "***" } else { &after[..end] });
        rest = &after[end..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_and_code_determine_the_kind() {
        let check = |status: u16, body: &str, expected: ErrorKind| {
            let error =
                refused("m", &ProviderRefusal { status, body, retry_after: None }, &Secret::default());
            assert_eq!(error.kind, expected, "{status} {body}");
        };
        check(
            401,
            r#"{"error":{"message":"no","type":"invalid_request_error"}}"#,
            ErrorKind::Unauthenticated,
        );
        check(403, "", ErrorKind::Unauthenticated);
        check(429, r#"{"error":{"code":"rate_limit_exceeded"}}"#, ErrorKind::RateLimited);
        check(429, r#"{"error":{"code":"insufficient_quota"}}"#, ErrorKind::QuotaExceeded);
        check(400, r#"{"error":{"code":"content_filter"}}"#, ErrorKind::Filtered);
        check(400, "what?", ErrorKind::Invalid);
        check(404, r#"{"error":"model 'x' not found"}"#, ErrorKind::Invalid);
        check(500, "<html>", ErrorKind::Unavailable);
        check(529, r#"{"type":"error","error":{"type":"overloaded_error"}}"#, ErrorKind::Unavailable);
        check(504, "", ErrorKind::Timeout);
        // The status decides whether a retry makes sense.
        check(400, r#"{"error":{"type":"server_error","message":"no such parameter"}}"#, ErrorKind::Invalid);
        check(422, r#"{"error":{"code":"timeout"}}"#, ErrorKind::Invalid);
        check(404, r#"{"error":{"code":429}}"#, ErrorKind::Invalid);
        check(403, r#"{"error":{"type":"api_error"}}"#, ErrorKind::Unauthenticated);
        check(503, r#"{"error":{"code":"rate_limit_exceeded"}}"#, ErrorKind::RateLimited);
    }

    #[test]
    fn the_code_in_a_stream_may_be_a_status() {
        let check = |object: Json, expected: ErrorKind| {
            assert_eq!(reported("m", &object, &Secret::default()).kind, expected, "{object}");
        };
        let vllm = serde_json::json!({"message": "too long", "type": "BadRequestError", "code": 400});
        check(vllm, ErrorKind::Invalid);
        check(serde_json::json!({"message": "no credits", "code": 402}), ErrorKind::QuotaExceeded);
        check(serde_json::json!({"message": "busy", "code": "503"}), ErrorKind::Unavailable);
        check(serde_json::json!({"code": 400, "type": "rate_limit_error"}), ErrorKind::RateLimited);
        check(serde_json::json!({"message": "no", "code": 7}), ErrorKind::Unavailable);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let check = |headers: &[(&'static str, &str)], expected: Option<u64>| {
            let headers = headers.iter().map(|(name, value)| {
                (reqwest::header::HeaderName::from_static(name), value.parse().unwrap())
            });
            let asked = retry_after(&headers.collect());
            assert_eq!(asked.map(|wait| wait.as_millis()), expected.map(u128::from));
        };
        check(&[("retry-after", "7")], Some(7_000));
        check(&[("retry-after", "7"), ("retry-after-ms", "20")], Some(20));
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        check(&[("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"), date], Some(30_000));
        check(&[("retry-after", "Sunday, 06-Nov-94 08:50:07 GMT"), date], Some(30_000));
        check(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT"), date], Some(0));
        check(&[("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")], Some(0));
        check(&[("retry-after", "soon")], None);
        check(&[("retry-after", "-1")], None);
        check(&[], None);
    }

    #[test]
    fn a_requested_delay_is_reported() {
        let check = |seconds: Option<f64>, expected: &str| {
            let retry_after = seconds.map(Duration::from_secs_f64);
            let refusal = ProviderRefusal { status: 429, body: "slow down", retry_after };
            assert_eq!(refused("m", &refusal, &Secret::default()).full(), expected);
        };
        check(None, "the model `m` answered with status 429: slow down");
        check(Some(0.5), "the model `m` answered with status 429: slow down");
        check(Some(3600.0), "the model `m` answered with status 429 and asks to wait 3600 s: slow down");
    }

    #[test]
    fn no_message_contains_a_key() {
        let key = Secret::new("very-secret-key");
        let body =
            r#"{"error":{"message":"Incorrect API key provided: very-secret-key or sk-abcdef123456."}}"#;
        let error = refused("m", &ProviderRefusal { status: 401, body, retry_after: None }, &key);
        let full = error.full();
        assert!(!full.contains("very-secret") && !full.contains("abcdef"), "{full}");
        assert!(full.contains("Incorrect API key provided: *** or sk-***"), "{full}");
        // Nor a part of one at the truncation point.
        let words = format!("{}{}", "x".repeat(WORDS_MAX - 6), key.reveal());
        let full = garbled("m", words, &key).full();
        assert!(full.contains("xxx***") && !full.contains("very"), "{full}");
        assert_eq!(masked("risk-free sk- Bearer abcdefgh", &key), "risk-free sk- Bearer ***");
    }
}
