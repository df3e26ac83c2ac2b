//! Failures as the API tells them: one mapping from kinds to codes and HTTP statuses.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value as Json, json};
use weft_core::{Error, ErrorKind};

use crate::audit::Outcome;
use crate::wire::envelope;

/// A failure as an envelope. Most come with HTTP status 200: that is what the API's clients expect.
#[derive(Debug)]
pub struct ApiError {
    code: u16,
    status: StatusCode,
    message: String,
    data: Json,
    /// What its readers know.
    shape: Shape,
}

/// What the readers of a failure know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Shape {
    /// A code, a message and data.
    #[default]
    Envelope,
    /// The same, and a second time in the words of the OpenAI-compatible routes.
    OpenAi,
    /// A code and a message, and nothing else: old clients take any other JSON for the file that they
    /// asked for.
    Bare,
}

/// The codes of the API.
pub(crate) mod code {
    /// Something unforeseen.
    pub(crate) const EXCEPTION: u16 = 100;
    /// An argument is missing or wrong.
    pub(crate) const ARGUMENT: u16 = 101;
    /// The data does not allow it: not there, there already.
    pub(crate) const DATA: u16 = 102;
    /// The caller may not do it.
    pub(crate) const OPERATING: u16 = 103;
    /// Something else cannot be reached.
    pub(crate) const CONNECTION: u16 = 105;
    /// It is being worked on.
    pub(crate) const RUNNING: u16 = 106;
    /// It is not the caller's.
    pub(crate) const NO_ACCESS: u16 = 109;
    /// No valid token.
    pub(crate) const UNAUTHORIZED: u16 = 401;
    /// Somebody else was first.
    pub(crate) const CONFLICT: u16 = 409;
    /// Larger than allowed.
    pub(crate) const TOO_LARGE: u16 = 413;
    /// Too often, too much.
    pub(crate) const TOO_MANY: u16 = 429;
    /// A run failed.
    pub(crate) const FAILED: u16 = 500;
}

/// Code and HTTP status of a kind of failure.
fn codes(kind: ErrorKind) -> (u16, StatusCode) {
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
    /// A failure with HTTP status 200.
    pub fn new(code: u16, message: impl Into<String>) -> Self {
        Self {
            code,
            status: StatusCode::OK,
            message: message.into(),
            data: Json::Null,
            shape: Shape::default(),
        }
    }

    /// An argument is missing or wrong.
    pub fn argument(message: impl Into<String>) -> Self {
        Self::new(code::ARGUMENT, message)
    }

    /// The data does not allow it.
    pub fn data(message: impl Into<String>) -> Self {
        Self::new(code::DATA, message)
    }

    /// Whoever asks has no valid token. The wording is the one that clients know.
    pub fn unauthorized() -> Self {
        let status = StatusCode::UNAUTHORIZED;
        Self { status, ..Self::new(code::UNAUTHORIZED, "<Unauthorized '401: Unauthorized'>") }
    }

    /// The body is larger than allowed.
    pub fn too_large() -> Self {
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        let message = "the body is too large; the limit is the setting `limits.body_bytes`";
        Self { status, ..Self::new(code::TOO_LARGE, message) }
    }

    /// A defect of ours: the reader gets a number, the log has the reason under it.
    pub fn internal(reason: &str) -> Self {
        let id = weft_core::id::generate();
        tracing::error!(error.id = id, reason, "a request failed");
        let message = format!("something went wrong inside Weft; its log has the reason under {id}");
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, ..Self::new(code::EXCEPTION, message) }
    }

    /// Why, for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Says more to programs.
    #[must_use]
    pub fn with_data(mut self, data: Json) -> Self {
        self.data = data;
        self
    }

    /// With another HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Says its code and its message, and nothing else.
    #[must_use]
    pub fn bare(mut self) -> Self {
        self.shape = Shape::Bare;
        self
    }

    /// Says it in the shape of the OpenAI API as well, where the code tells clients what is wrong with a request and
    /// the HTTP status does not.
    #[must_use]
    pub fn in_openai_shape(mut self) -> Self {
        self.shape = Shape::OpenAi;
        if self.status == StatusCode::BAD_REQUEST {
            self.status = StatusCode::OK;
        }
        self
    }

    /// Says it in the shape of the OpenAI API as well, and with an HTTP status that its clients take for a
    /// failure: they look at nothing else.
    #[must_use]
    pub fn for_openai(mut self) -> Self {
        self.shape = Shape::OpenAi;
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
        // What the store failed at has a number and stands in the log already.
        if error.kind == ErrorKind::Internal && !error.is_private() {
            return Self::internal(&error.detail());
        }
        let (code, status) = codes(error.kind);
        Self { status, ..Self::new(code, error.full()) }
    }
}

#[derive(Serialize)]
struct Failure<'a> {
    code: u16,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Json>,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self { code, status, message, data, shape } = self;
        let error = (shape == Shape::OpenAi).then(|| {
            let kind = match status {
                StatusCode::UNAUTHORIZED => "authentication_error",
                status if status.is_server_error() => "server_error",
                _ => "invalid_request_error",
            };
            // Some clients read nothing of an error whose members are no texts.
            json!({"message": message, "type": kind, "param": "", "code": word(status)})
        });
        let data = (shape != Shape::Bare).then_some(&data);
        let mut response = envelope::respond(status, &Failure { code, message: &message, data, error });
        // For the audit log, which cannot look into the body.
        response.extensions_mut().insert(Outcome(code));
        response
    }
}

/// What the OpenAI API calls a failure of this status.
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

/// There is no such route.
pub(crate) async fn no_route(uri: axum::http::Uri) -> Response {
    let body = json!({
        "code": 404,
        "message": format!("Not Found: {}", uri.path()),
        "data": null,
        "error": "Not Found",
    });
    envelope::respond(StatusCode::NOT_FOUND, &body)
}

/// The route is there and does not take the method.
pub(crate) async fn no_method() -> ApiError {
    ApiError::new(code::EXCEPTION, "<MethodNotAllowed '405: Method Not Allowed'>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defects_are_not_told_to_callers() {
        let error = ApiError::from(Error::internal("the disk /secret/path is full"));
        assert_eq!((error.code, error.status), (100, StatusCode::INTERNAL_SERVER_ERROR));
        assert!(!error.message.contains("secret"), "{}", error.message);
        let error = ApiError::from(Error::invalid("no").help("yes"));
        assert_eq!((error.code, error.message.as_str()), (101, "no (yes)"));
    }
}
