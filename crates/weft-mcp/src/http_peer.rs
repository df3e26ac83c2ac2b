//! Requests to a server at an address, with its headers and its token.

use std::sync::Arc;
use std::time::Duration;

use weft_core::{Error, ErrorKind, Result, Secret};
use weft_net::{StreamRequest, StreamResponse, StreamingHttp};

use crate::authorization::Authorization;
use crate::config::ServerConfig;
use crate::headers;

/// One server as requests see it. Clones are the same.
#[derive(Clone)]
pub(crate) struct HttpPeer(Arc<HttpPeerInner>);

struct HttpPeerInner {
    http: Arc<dyn StreamingHttp>,
    headers: Vec<(String, String)>,
    authorization: Authorization,
    bytes_max: usize,
}

/// Names and values.
pub(crate) type Headers = Vec<(String, String)>;

impl HttpPeer {
    pub(crate) fn new(
        config: &ServerConfig,
        http: Arc<dyn StreamingHttp>,
        authorization: Authorization,
    ) -> Result<Self> {
        let (headers, bytes_max) = (headers::headers(config)?, config.result_bytes_max);
        Ok(Self(Arc::new(HttpPeerInner { http, headers, authorization, bytes_max })))
    }

    /// How the server is shown who we are.
    pub(crate) fn authorization(&self) -> &Authorization {
        &self.0.authorization
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
        let authorization = &self.0.authorization;
        let token = authorization.token().await?;
        let response = self.0.http.open(signed(request.clone(), token.as_ref())).await?;
        authorization.hear(&response);
        if response.status != 401 {
            return Ok(response);
        }
        let Some(token) = authorization.token_instead_of(token.as_ref()).await? else { return Ok(response) };
        // Only once more: when a token that was just given out is refused as well, another one does not help.
        let response = self.0.http.open(signed(request, Some(&token))).await?;
        authorization.hear(&response);
        Ok(response)
    }
}

fn signed(mut request: StreamRequest, token: Option<&Secret>) -> StreamRequest {
    let header = |token: &Secret| ("authorization".to_owned(), format!("Bearer {}", token.reveal()));
    request.headers.extend(token.map(header));
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
