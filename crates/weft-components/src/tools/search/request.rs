//! Requests to services, before they are sent.

use std::time::Duration;

use url::Url;
use weft_core::Json;
use weft_core::seam::http::{HttpBody, HttpRequest};

/// User agent for services that require one.
pub(crate) const AGENT: &str = concat!("Weft/", env!("CARGO_PKG_VERSION"), " (agent workflows)");
/// User agent for pages that answer only browsers.
pub(crate) const BROWSER: &str = concat!("Mozilla/5.0 (compatible; Weft/", env!("CARGO_PKG_VERSION"), ")");

/// A request to a service.
#[derive(Debug)]
pub struct Request {
    method: &'static str,
    url: Url,
    headers: Vec<(String, String)>,
    body: HttpBody,
    /// The answers that its reader can read.
    pub(super) accepts: Accepts,
}

/// Which answers the reader of a request can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepts {
    /// Only those that report success.
    Success,
    /// All.
    Any,
}

impl Request {
    fn of(method: &'static str, url: Url, body: HttpBody) -> Self {
        Self { method, url, headers: Vec::new(), body, accepts: Accepts::Success }
    }

    /// Creates a GET request.
    pub fn get(url: Url) -> Self {
        Self::of("GET", url, HttpBody::Empty)
    }

    /// Creates a POST request with JSON.
    pub fn post(url: Url, body: Json) -> Self {
        Self::of("POST", url, HttpBody::Json(body))
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Adds a bearer key, if it is not empty.
    #[must_use]
    pub fn bearer(self, key: &str) -> Self {
        if key.is_empty() { self } else { self.header("Authorization", format!("Bearer {key}")) }
    }

    /// Passes answers with an error status to the reader as well.
    #[must_use]
    pub fn any_status(self) -> Self {
        Self { accepts: Accepts::Any, ..self }
    }
}

impl From<Request> for HttpRequest {
    fn from(request: Request) -> Self {
        Self {
            method: request.method.to_owned(),
            url: request.url.into(),
            headers: request.headers,
            body: request.body,
            time_limit: Duration::ZERO,
            body_max: 0,
            proxy: None,
        }
    }
}
