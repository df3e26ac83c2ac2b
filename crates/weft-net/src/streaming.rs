//! Exchanges whose answers are read while they come, for protocols that keep a line open.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use weft_core::{Error, ErrorKind, Result};

use crate::outbound::Outbound;

/// A request with all that goes with it.
#[derive(Clone, PartialEq)]
pub struct StreamRequest {
    /// Upper case.
    pub method: String,
    /// Absolute, `http` or `https`.
    pub url: String,
    /// Name and value; values may be secret, so they do not show.
    pub headers: Vec<(String, String)>,
    /// The body; empty for none.
    pub body: Vec<u8>,
}

impl fmt::Debug for StreamRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The query of the URL may hold a key, as headers and body may.
        f.debug_struct("StreamRequest").field("method", &self.method).finish_non_exhaustive()
    }
}

/// What came back so far. Dropping the body ends the exchange.
pub struct StreamResponse {
    /// 100 to 599.
    pub status: u16,
    /// Lower-case name and value.
    pub headers: Vec<(String, String)>,
    /// The rest as it comes; nobody but the reader limits its length.
    pub body: BoxStream<'static, Result<Bytes>>,
}

impl fmt::Debug for StreamResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamResponse").field("status", &self.status).finish_non_exhaustive()
    }
}

impl StreamResponse {
    /// A header's value, by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The whole body.
    ///
    /// # Errors
    /// `Invalid` as soon as there are more than `max` bytes, otherwise what broke the line.
    pub async fn read(self, max: usize) -> Result<Vec<u8>> {
        let announced = self.header("content-length").and_then(|text| text.parse::<usize>().ok());
        let too_long = || Error::invalid(format!("the answer has more than {max} bytes"));
        if announced.is_some_and(|length| length > max) {
            return Err(too_long());
        }
        let mut body = self.body;
        let mut whole = Vec::new();
        while let Some(piece) = body.next().await {
            let piece = piece?;
            // Before it is kept: what a body announces need not be true.
            if piece.len() > max.saturating_sub(whole.len()) {
                return Err(too_long());
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole)
    }
}

/// Marks a failure before anything was sent, as the cause of an error: the request may be made again.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotSent(pub String);

/// HTTP with answers that are read while they come. It limits the time to connect and nothing else:
/// who asks knows how long an answer may take.
///
/// An implementation follows no redirect, and names no part of the URL but its host in errors.
#[async_trait]
pub trait StreamingHttp: Send + Sync {
    /// Sends a request and waits for the head of the answer. Any status is an answer.
    ///
    /// # Errors
    /// `Denied` for a refused address, `Unavailable` when nothing answers ([`NotSent`] is the cause
    /// when no connection was made), `Invalid` for a request that cannot be written.
    async fn open(&self, request: StreamRequest) -> Result<StreamResponse>;
}

/// Reaches what the operator configured, which may be private.
#[derive(Clone, Debug)]
pub struct OperatorHttp(reqwest::Client);

impl OperatorHttp {
    /// Over the operator's client.
    ///
    /// # Errors
    /// `Internal` when TLS cannot be set up.
    pub fn new() -> Result<Self> {
        crate::operator_client().map(Self)
    }
}

#[async_trait]
impl StreamingHttp for OperatorHttp {
    async fn open(&self, request: StreamRequest) -> Result<StreamResponse> {
        send(&self.0, &request.url, &request).await
    }
}

/// The same through the guard, for addresses that are not the operator's.
#[async_trait]
impl StreamingHttp for Outbound {
    async fn open(&self, request: StreamRequest) -> Result<StreamResponse> {
        let route = self.route_in_time(&request.url).await?;
        self.connector().open(&route, &request).await
    }
}

/// Sends a request over a client and hands on the answer's body unread.
pub(crate) async fn send(
    client: &reqwest::Client,
    url: &str,
    request: &StreamRequest,
) -> Result<StreamResponse> {
    let url: url::Url = url.parse().map_err(|cause| Error::invalid("the URL is not valid").because(cause))?;
    let host = url.host_str().unwrap_or_default().to_owned();
    let mut sending = client
        .request(crate::connector::method(&request.method)?, url)
        .headers(crate::connector::headers(&request.headers)?);
    if !request.body.is_empty() {
        sending = sending.body(request.body.clone());
    }
    let response = sending.send().await.map_err(|cause| no_answer(&host, cause))?;
    let headers = response.headers().iter().map(|(name, value)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    });
    Ok(StreamResponse {
        status: response.status().as_u16(),
        headers: headers.collect(),
        body: response.bytes_stream().map_err(move |cause| broken(&host, cause)).boxed(),
    })
}

fn no_answer(host: &str, cause: reqwest::Error) -> Error {
    let error = Error::new(ErrorKind::Unavailable, format!("no answer from `{host}`"));
    // Of nothing else is it certain that nothing was sent: a server may act on half a request.
    if cause.is_connect() {
        error.because(NotSent(reason(&cause.without_url())))
    } else {
        error.because(cause.without_url())
    }
}

/// The innermost cause says most: "connection refused" and not "error sending request".
fn reason(cause: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = cause;
    while let Some(next) = innermost.source() {
        innermost = next;
    }
    innermost.to_string()
}

fn broken(host: &str, cause: reqwest::Error) -> Error {
    Error::new(ErrorKind::Unavailable, format!("`{host}` stopped unexpectedly its answer"))
        .because(cause.without_url())
}
