//! Requests to services, before anybody sends them.

use std::time::Duration;

use url::Url;
use weft_core::Json;
use weft_core::seam::http::{HttpBody, HttpRequest};

/// Who asks, for services that want to know.
pub(crate) const AGENT: &str = concat!("Weft/", env!("CARGO_PKG_VERSION"), " (agent workflows)");
/// Who asks, for pages that are made for browsers and answer nobody else.
pub(crate) const BROWSER: &str = concat!("Mozilla/5.0 (compatible; Weft/", env!("CARGO_PKG_VERSION"), ")");

/// A request to a service.
#[derive(Debug)]
pub struct Request {
    method: &'static str,
    url: Url,
    headers: Vec<(String, String)>,
    body: HttpBody,
    /// Which answers its reader understands.
    pub(super) accepts: Accepts,
}

/// Which answers the reader of a request understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepts {
    /// Those that say that all went well.
    Success,
    /// All.
    Any,
}

impl Request {
    fn of(method: &'static str, url: Url, body: HttpBody) -> Self {
        Self { method, url, headers: Vec::new(), body, accepts: Accepts::Success }
    }

    /// Gets something.
    pub fn get(url: Url) -> Self {
        Self::of("GET", url, HttpBody::Empty)
    }

    /// Asks with JSON.
    pub fn post(url: Url, body: Json) -> Self {
        Self::of("POST", url, HttpBody::Json(body))
    }

    /// With a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// With a key, where there is one.
    #[must_use]
    pub fn bearer(self, key: &str) -> Self {
        if key.is_empty() { self } else { self.header("Authorization", format!("Bearer {key}")) }
    }

    /// An answer that says that something went wrong is read as well.
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
