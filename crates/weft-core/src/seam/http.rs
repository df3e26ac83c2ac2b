//! HTTP requests on behalf of a canvas.

use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;
use crate::id::TenantId;

/// A request that a canvas asks for.
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
    /// For the whole exchange.
    pub time_limit: Duration,
    /// More than this many bytes of body is an error.
    pub body_max: usize,
    /// A proxy to go through, as the canvas names it. It is checked like any other address.
    pub proxy: Option<String>,
}

/// What a request carries.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub enum HttpBody {
    /// Nothing.
    Empty,
    /// JSON.
    Json(serde_json::Value),
    /// `application/x-www-form-urlencoded` pairs.
    Form(Vec<(String, String)>),
}

/// What came back.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct HttpResponse {
    /// 100 to 599.
    pub status: u16,
    /// Lower-case name and value.
    pub headers: Vec<(String, String)>,
    /// The body as text, decoded by its declared character set.
    pub body: String,
}

/// The one way out for nodes and tools.
///
/// An implementation resolves the host, refuses addresses that are not public unless the operator
/// allowed them, connects to exactly the address it checked, and follows no redirect.
#[async_trait]
pub trait Http: Send + Sync {
    /// Sends a request. Any status is a response, not an error.
    ///
    /// # Errors
    /// `Denied` for a refused address, `Timeout`, `Unavailable` when nothing answers, `Invalid` for
    /// a URL that is not valid or a body over the limit.
    async fn send(&self, tenant: &TenantId, request: HttpRequest) -> Result<HttpResponse>;

    /// Whether a request to this address would be sent. For addresses that are handed to somebody else, who
    /// resolves them anew: what is refused here must not be reached by that detour either. Nothing is sent.
    ///
    /// # Errors
    /// As [`Http::send`].
    async fn may_reach(&self, tenant: &TenantId, url: &str) -> Result<()>;
}
