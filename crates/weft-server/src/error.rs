//! Errors of the API: one mapping from kinds of errors to codes and HTTP statuses.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value as Json, json};
use weft_app::late::is_of_ended_task;
use weft_core::{Error, ErrorKind};

use crate::audit::Outcome;
use crate::wire::envelope;

/// An error in an envelope. Most have HTTP status 200, as the API's clients expect.
#[derive(Debug)]
pub struct ApiError {
    code: u16,
    status: StatusCode,
    message: String,
    data: Json,
    /// When the request may be repeated, for the header `Retry-After`.
    retry_after: Option<Duration>,
    /// The format that the client expects.
    shape: ErrorFormat,
}

/// The format in which an error is sent, which depends on the route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ErrorFormat {
    /// A code, a message and data.
    #[default]
    Envelope,
    /// The same, and in addition the format of the OpenAI-compatible routes.
    OpenAi,
    /// A code and a message only: old clients take any other JSON for the file that they requested.
    Bare,
}

/// Time to wait after a rate limit that does not say when it permits more.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The codes of the API.
pub(crate) mod code {
    /// An unexpected error.
    pub(crate) const EXCEPTION: u16 = 100;
    /// An argument is missing or wrong.
    pub(crate) const ARGUMENT: u16 = 101;
    /// The state of the data does not allow it: something does not exist, or exists already.
    pub(crate) const DATA: u16 = 102;
    /// The caller does not have the permission.
    pub(crate) const OPERATING: u16 = 103;
    /// Another service cannot be reached.
    pub(crate) const CONNECTION: u16 = 105;
    /// The object is being processed.
    pub(crate) const RUNNING: u16 = 106;
    /// The object does not belong to the caller.
    pub(crate) const NO_ACCESS: u16 = 109;
    /// No valid token.
    pub(crate) const UNAUTHORIZED: u16 = 401;
    /// A concurrent change came first.
    pub(crate) const CONFLICT: u16 = 409;
    /// The body exceeds the limit.
    pub(crate) const TOO_LARGE: u16 = 413;
    /// A rate or quantity limit was exceeded.
    pub(crate) const TOO_MANY: u16 = 429;
    /// A run failed.
    pub(crate) const FAILED: u16 = 500;
}

/// Returns the code and the HTTP status for a kind of error.
fn codes(kind: ErrorKind) -> (u16, StatusCode) {
    // Clients of the compatible API expect the status 200 for most errors, and read the code in the body.
    match kind {
        ErrorKind::Invalid => (code::ARGUMENT, StatusCode::OK),
        ErrorKind::NotFound | ErrorKind::Unsupported | ErrorKind::Filtered => (code::DATA, StatusCode::OK),
        ErrorKind::Conflict => (code::RUNNING, StatusCode::OK),
        ErrorKind::Denied => (code::OPERATING, StatusCode::OK),
        ErrorKind::Unauthenticated => (code::UNAUTHORIZED, StatusCode::UNAUTHORIZED),
        ErrorKind::RateLimited | ErrorKind::QuotaExceeded => (code::TOO_MANY, StatusCode::TOO_MANY_REQUESTS),
        ErrorKind::Timeout | ErrorKind::Unavailable => (code::CONNECTION, StatusCode::OK),
        ErrorKind::Garbled | ErrorKind::Cancelled | ErrorKind::Interrupted => {
            (code::EXCEPTION, StatusCode::OK)
        }
        ErrorKind::Internal => (code::EXCEPTION, StatusCode::INTERNAL_SERVER_ERROR),
    }
}

impl ApiError {
    /// An error with HTTP status 200.
    pub fn new(code: u16, message: impl Into<String>) -> Self {
        Self {
            code,
            status: StatusCode::OK,
            message: message.into(),
            data: Json::Null,
            retry_after: None,
            shape: ErrorFormat::default(),
        }
    }

    /// An argument is missing or wrong.
    pub fn argument(message: impl Into<String>) -> Self {
        Self::new(code::ARGUMENT, message)
    }

    /// The state of the data does not allow the request.
    pub fn data(message: impl Into<String>) -> Self {
        Self::new(code::DATA, message)
    }

    /// The request has no valid token. Clients know this wording.
    pub fn unauthorized() -> Self {
        let status = StatusCode::UNAUTHORIZED;
        Self { status, ..Self::new(code::UNAUTHORIZED, "<Unauthorized '401: Unauthorized'>") }
    }

    /// The body exceeds the limit, of this many bytes if that is known.
    pub(crate) fn too_large(bytes_max: Option<usize>) -> Self {
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        let limit = bytes_max.map(|bytes| format!(" ({bytes} bytes)")).unwrap_or_default();
        let message = format!(
            "the body is too large; the limit is the setting `limits.body_bytes`{limit}, and 64 KiB for a request that \
             needs no token"
        );
        Self { status, ..Self::new(code::TOO_LARGE, message) }
    }

    /// An internal error: the client gets an id, under which the log has the reason.
    pub fn internal(reason: &str) -> Self {
        let id = weft_core::id::generate();
        tracing::error!(error.id = id, reason, "a request failed");
        let message = format!("something went wrong inside Weft; its log has the reason under {id}");
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, ..Self::new(code::EXCEPTION, message) }
    }

    /// The reason, for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Replaces `usual` in the message by `name`, for protocols in which a field has another name.
    #[must_use]
    pub fn naming(mut self, usual: &str, name: &str) -> Self {
        self.message = self.message.replacen(usual, name, 1);
        self
    }

    /// Adds data for programs.
    #[must_use]
    pub fn with_data(mut self, data: Json) -> Self {
        self.data = data;
        self
    }

    /// Sets the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Says when the request may be repeated.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Sends only the code and the message.
    #[must_use]
    pub fn bare(mut self) -> Self {
        self.shape = ErrorFormat::Bare;
        self
    }

    /// Adds the format of the OpenAI API, for routes on which the code tells clients what is wrong with a request and
    /// the HTTP status does not.
    #[must_use]
    pub fn in_openai_shape(mut self) -> Self {
        self.shape = ErrorFormat::OpenAi;
        if self.status == StatusCode::BAD_REQUEST {
            self.status = StatusCode::OK;
        }
        self
    }

    /// Adds the format of the OpenAI API and an HTTP status that its clients take for a failure: they check nothing
    /// else.
    #[must_use]
    pub fn for_openai(mut self) -> Self {
        self.shape = ErrorFormat::OpenAi;
        if self.status == StatusCode::OK {
            self.status = match self.code {
                code::ARGUMENT => StatusCode::BAD_REQUEST,
                code::DATA => StatusCode::NOT_FOUND,
                code::OPERATING => StatusCode::FORBIDDEN,
                code::RUNNING => StatusCode::CONFLICT,
                code::CONNECTION => StatusCode::BAD_GATEWAY,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            };
        }
        self
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        // An internal error of a store already has an id and is logged.
        if error.kind == ErrorKind::Internal && !error.is_private() {
            return Self::internal(&error.detail());
        }
        // Unlike a session that is busy, it does not get better with time.
        let (code, status) =
            if is_of_ended_task(&error) { (code::CONFLICT, StatusCode::CONFLICT) } else { codes(error.kind) };
        // Waiting for a quota that is used up is of no use, unless the error says for how long.
        let usual = (error.kind == ErrorKind::RateLimited).then_some(RETRY_AFTER);
        Self { status, retry_after: error.retry_after.or(usual), ..Self::new(code, error.full()) }
    }
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    code: u16,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Json>,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self { code, status, message, data, retry_after, shape } = self;
        let error = (shape == ErrorFormat::OpenAi).then(|| {
            let kind = match status {
                StatusCode::UNAUTHORIZED => "authentication_error",
                status if status.is_server_error() => "server_error",
                _ => "invalid_request_error",
            };
            // Some clients ignore an error whose members are not strings.
            json!({"message": message, "type": kind, "param": "", "code": word(status)})
        });
        let data = (shape != ErrorFormat::Bare).then_some(&data);
        let mut response = envelope::respond(status, &ErrorBody { code, message: &message, data, error });
        // For the audit log, which cannot read the body.
        response.extensions_mut().insert(Outcome(code));
        if let (StatusCode::TOO_MANY_REQUESTS, Some(wait)) = (status, retry_after) {
            // Rounded up: a client that is early is refused again.
            let seconds = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Returns the OpenAI API's code for a failure with this status.
fn word(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "invalid_api_key",
        StatusCode::FORBIDDEN => "forbidden",
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::CONFLICT => "conflict",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_exceeded",
        status if status.is_server_error() => "server_error",
        _ => "invalid_request",
    }
}

/// The answer for a route that does not exist.
pub(crate) async fn no_route(uri: axum::http::Uri) -> Response {
    let body = json!({
        "code": 404,
        "message": format!("Not Found: {}", uri.path()),
        "data": null,
        "error": "Not Found",
    });
    envelope::respond(StatusCode::NOT_FOUND, &body)
}

/// The error for a route that does not support the method.
pub(crate) async fn no_method() -> ApiError {
    ApiError::new(code::EXCEPTION, "<MethodNotAllowed '405: Method Not Allowed'>")
}

/// The same for a route that OpenAI's clients call.
pub(crate) async fn no_openai_method() -> ApiError {
    no_method().await.with_status(StatusCode::METHOD_NOT_ALLOWED).for_openai()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_limit_says_when_to_try_again() {
        let after = |error: Error| {
            let response = ApiError::from(error).into_response();
            response.headers().get(header::RETRY_AFTER).map(|value| value.to_str().unwrap().to_owned())
        };
        let of = |kind| Error::new(kind, "too many");
        assert_eq!(after(of(ErrorKind::RateLimited)).as_deref(), Some("5"));
        let wait = Some(Duration::from_millis(1_500));
        assert_eq!(after(Error { retry_after: wait, ..of(ErrorKind::RateLimited) }).as_deref(), Some("2"));
        assert_eq!(after(of(ErrorKind::QuotaExceeded)), None);
        assert_eq!(after(of(ErrorKind::Conflict)), None);
    }

    #[test]
    fn internal_errors_are_not_shown_to_callers() {
        let error = ApiError::from(Error::internal("the disk /secret/path is full"));
        assert_eq!((error.code, error.status), (100, StatusCode::INTERNAL_SERVER_ERROR));
        assert!(!error.message.contains("secret"), "{}", error.message);
        let error = ApiError::from(Error::invalid("no").help("yes"));
        assert_eq!((error.code, error.message.as_str()), (101, "no (yes)"));
    }
}
