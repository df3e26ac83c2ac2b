//! HTTP requests on behalf of a canvas.

use std::time::Duration;

use weft_macros::async_trait;

use crate::error::Result;
use crate::id::TenantId;

/// A request made by a canvas.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpRequest {
    /// Upper case.
    pub method: String,
    /// Absolute, `http` or `https`.
    pub url: String,
    /// Name and value.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: HttpBody,
    /// Time limit for the whole exchange.
    pub time_limit: Duration,
    /// Maximum size of the response body in bytes. A larger body is an error.
    pub body_max: usize,
    /// A proxy to use, as given in the canvas. It is checked like any other address.
    pub proxy: Option<String>,
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub enum HttpBody {
    /// Nothing.
    Empty,
    /// JSON.
    Json(serde_json::Value),
    /// `application/x-www-form-urlencoded` pairs.
    Form(Vec<(String, String)>),
}

/// A response that was received completely, with any status.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct HttpResponse {
    /// 100 to 599.
    pub status: u16,
    /// Names in lower case, with values.
    pub headers: Vec<(String, String)>,
    /// The body as text, decoded by its declared character set.
    pub body: String,
}

/// The only way out for nodes and tools.
///
/// An implementation resolves the host, refuses addresses that are not public unless the operator has allowed them,
/// connects to exactly the address it checked, and does not follow redirects.
#[async_trait]
pub trait Http: Send + Sync {
    /// Sends a request. Any status is a response, not an error.
    ///
    /// # Errors
    /// `Denied` for a refused address, `Timeout`, `Unavailable` when nothing responds, `Invalid` for an invalid URL
    /// or a body over the limit.
    async fn send(&self, tenant: &TenantId, request: HttpRequest) -> Result<HttpResponse>;

    /// Checks whether a request to this address would be sent, without sending anything. For addresses that are
    /// passed to another service, which resolves them again: what is refused here must not be reachable by that
    /// detour.
    ///
    /// # Errors
    /// As [`Http::send`].
    async fn may_reach(&self, tenant: &TenantId, url: &str) -> Result<()>;
}
