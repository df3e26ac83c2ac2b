//! Requests to a server at an address, with its headers and its token.

use std::sync::Arc;
use std::time::Duration;

use weft_core::{Error, ErrorKind, Result, Secret};
use weft_net::{StreamRequest, StreamResponse, StreamingHttp};

use crate::config::ServerConfig;
use crate::headers;
use crate::oauth::Oauth;

/// One server as requests see it. Clones are the same.
#[derive(Clone)]
pub(crate) struct HttpPeer(Arc<HttpPeerInner>);

struct HttpPeerInner {
    http: Arc<dyn StreamingHttp>,
    headers: Vec<(String, String)>,
    oauth: Option<Arc<Oauth>>,
    bytes_max: usize,
}

/// Names and values.
pub(crate) type Headers = Vec<(String, String)>;

impl HttpPeer {
    pub(crate) fn new(
        config: &ServerConfig,
        http: Arc<dyn StreamingHttp>,
        oauth: Option<Arc<Oauth>>,
    ) -> Result<Self> {
        let headers = headers::headers(config)?;
        Ok(Self(Arc::new(HttpPeerInner { http, headers, oauth, bytes_max: config.result_bytes_max })))
    }

    /// Bytes of one message.
    pub(crate) fn bytes_max(&self) -> usize {
        self.0.bytes_max
    }

    /// Sends a request. A refused token is renewed and the request made once more.
    ///
    /// # Errors
    /// What keeps it from being answered; any status is an answer.
    pub(crate) async fn send(&self, mut request: StreamRequest) -> Result<StreamResponse> {
        request.headers.extend(self.0.headers.iter().cloned());
        let Some(oauth) = &self.0.oauth else { return self.0.http.open(request).await };
        let token = oauth.token().await?;
        let response = self.0.http.open(signed(request.clone(), &token)).await?;
        if response.status != 401 {
            return Ok(response);
        }
        // Only once more: when a token that was just given out is refused as well, another one does not help.
        let token = oauth.token_instead_of(&token).await?;
        self.0.http.open(signed(request, &token)).await
    }
}

fn signed(mut request: StreamRequest, token: &Secret) -> StreamRequest {
    request.headers.push(("authorization".to_owned(), format!("Bearer {}", token.reveal())));
    request
}

/// A request of these parts.
pub(crate) fn request(method: &str, url: &str, headers: Headers, body: Vec<u8>) -> StreamRequest {
    StreamRequest { method: method.to_owned(), url: url.to_owned(), headers, body }
}

/// What a status that is no success means.
pub(crate) fn refusal(response: &StreamResponse) -> Error {
    let status = response.status;
    let error = |kind, text: &str| Error::new(kind, format!("{text} (status {status})"));
    match status {
        // Followed, a redirect would carry our credentials to a server that nobody has configured.
        300..=399 => error(ErrorKind::Invalid, "the server sends us elsewhere, where we do not follow")
            .help("set `url` to the address it names"),
        401 => error(ErrorKind::Unauthenticated, "the server wants other credentials")
            .help("check `headers`, `variables` and `oauth` of the server"),
        403 => error(ErrorKind::Denied, "the server does not allow it"),
        404 | 410 => error(ErrorKind::NotFound, "there is no MCP server at this address")
            .help("check `url` and `type` of the server"),
        429 => {
            let mut error = error(ErrorKind::RateLimited, "the server asks to wait");
            let seconds = response.header("retry-after").and_then(|text| text.trim().parse().ok());
            error.retry_after = seconds.map(Duration::from_secs);
            error
        }
        500..=599 => error(ErrorKind::Unavailable, "the server has failed"),
        _ => error(ErrorKind::Invalid, "the server refuses the request")
            .help("check `url` and `type` of the server"),
    }
}
