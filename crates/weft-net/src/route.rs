//! The route of a request, and what sends it there.

use std::net::SocketAddr;

use url::Url;
use weft_core::seam::http::{HttpRequest, HttpResponse};
use weft_core::{Result, async_trait};

use crate::streaming::{StreamRequest, StreamResponse};

/// Performs an exchange over a route that has been checked.
///
/// An implementation connects only to the addresses of the route, whatever a name resolves to by then, and follows no
/// redirect.
#[async_trait]
pub trait Connector: Send + Sync {
    /// Sends the request and reads the answer up to its limit.
    ///
    /// # Errors
    /// `Unavailable` when nothing answers, `Invalid` for a request that cannot be written or a body
    /// over the limit.
    async fn exchange(&self, route: &OutboundRoute, request: &HttpRequest) -> Result<HttpResponse>;

    /// Sends the request and returns the answer with its body unread.
    ///
    /// # Errors
    /// As [`Connector::exchange`], without a limit on the body.
    async fn open(&self, route: &OutboundRoute, request: &StreamRequest) -> Result<StreamResponse>;
}

/// The route of a request, with every address checked.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboundRoute {
    /// The requested URL.
    pub url: Url,
    /// The addresses of its host.
    pub target: Pinned,
    /// The proxy to connect through.
    pub proxy: Option<(Url, Pinned)>,
}

/// A host with the addresses that were checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pinned {
    /// The name or address as in the URL.
    pub host: String,
    /// The addresses to connect to.
    pub addresses: Vec<SocketAddr>,
}
