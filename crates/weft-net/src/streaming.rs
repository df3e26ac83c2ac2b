//! Exchanges whose answers are read while they arrive, for protocols that keep a connection open.

use std::fmt;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use weft_core::{Error, ErrorKind, Result, async_trait};

use crate::request::{headers, method};

/// A complete request.
#[derive(Clone, PartialEq)]
pub struct StreamRequest {
    /// The method, in upper case.
    pub method: String,
    /// An absolute `http` or `https` URL.
    pub url: String,
    /// Names and values; values may be secret, so `Debug` does not show them.
    pub headers: Vec<(String, String)>,
    /// The body; empty for none.
    pub body: Vec<u8>,
}

impl fmt::Debug for StreamRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The query of the URL may contain a key, and so may headers and body.
        f.debug_struct("StreamRequest").field("method", &self.method).finish_non_exhaustive()
    }
}

/// The beginning of an answer. Dropping the body ends the exchange.
pub struct StreamResponse {
    /// The status: 100 to 599.
    pub status: u16,
    /// Names, in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body as it arrives; only the reader limits its length.
    pub body: BoxStream<'static, Result<Bytes>>,
}

impl fmt::Debug for StreamResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamResponse").field("status", &self.status).finish_non_exhaustive()
    }
}

impl StreamResponse {
    /// Returns a header's value, by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Reads the whole body.
    ///
    /// # Errors
    /// `Invalid` as soon as there are more than `max` bytes, otherwise the error of the connection.
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
            // Checked before it is stored: the declared length of a body need not be true.
            if piece.len() > max.saturating_sub(whole.len()) {
                return Err(too_long());
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole)
    }
}

/// Marks a failure before anything was sent, as the cause of an error: the request may be repeated.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotSent(pub String);

/// HTTP with answers that are read while they arrive. Only the time to connect is limited: the caller knows how long an
/// answer may take.
///
/// An implementation follows no redirect, and mentions only the host of the URL in errors.
#[async_trait]
pub trait StreamingHttp: Send + Sync {
    /// Sends a request and waits for the head of the answer. Any status is an answer.
    ///
    /// # Errors
    /// `Denied` for a refused address, `Unavailable` when nothing answers ([`NotSent`] is the cause when no connection
    /// was made), `Invalid` for a request that cannot be written.
    async fn open(&self, request: StreamRequest) -> Result<StreamResponse>;
}

/// Reaches servers that the operator configured, which may be private.
#[derive(Clone, Debug)]
pub struct OperatorHttp(reqwest::Client);

impl OperatorHttp {
    /// Creates one with the operator's client.
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

/// Sends a request with a client and returns the answer with its body unread.
pub(crate) async fn send(
    client: &reqwest::Client,
    url: &str,
    request: &StreamRequest,
) -> Result<StreamResponse> {
    let url: url::Url = url.parse().map_err(|cause| Error::invalid("the URL is not valid").because(cause))?;
    let host = url.host_str().unwrap_or_default().to_owned();
    let mut sending = client.request(method(&request.method)?, url).headers(headers(&request.headers)?);
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
    // In any other case something may have been sent: a server may act on half a request.
    if cause.is_connect() {
        error.because(NotSent(reason(&cause.without_url())))
    } else {
        error.because(cause.without_url())
    }
}

/// Returns the innermost cause, which is the most specific: "connection refused" rather than "error sending request".
fn reason(cause: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = cause;
    while let Some(next) = innermost.source() {
        innermost = next;
    }
    innermost.to_string()
}

fn broken(host: &str, cause: reqwest::Error) -> Error {
    Error::new(ErrorKind::Unavailable, format!("`{host}` ended its answer unexpectedly"))
        .because(cause.without_url())
}
