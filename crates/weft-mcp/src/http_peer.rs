//! Requests to a server at a URL, with its headers and its token.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use weft_core::{Result, Secret};
use weft_net::{StreamRequest, StreamResponse, StreamingHttp};

use crate::authorization::Authorization;
use crate::config::ServerConfig;
use crate::faults::Redactor;
use crate::headers;

/// The least time between two attempts to resume streams of one connection.
// A stream that breaks is resumed at once, and a server may ask for no pause: one whose streams all end at once would
// be asked as fast as the network allows.
pub(crate) const RESUME_LEAST: Duration = Duration::from_millis(100);

/// The connection data of one server. Clones share the same state.
#[derive(Clone)]
pub(crate) struct HttpPeer(Arc<HttpPeerInner>);

struct HttpPeerInner {
    http: Arc<dyn StreamingHttp>,
    headers: Vec<(String, String)>,
    authorization: Authorization,
    redactor: Redactor,
    bytes_max: usize,
    /// The latest attempt to resume a stream.
    resumed: Mutex<Option<Instant>>,
}

/// Names and values.
pub(crate) type Headers = Vec<(String, String)>;

impl HttpPeer {
    pub(crate) fn new(
        config: &ServerConfig,
        http: Arc<dyn StreamingHttp>,
        authorization: Authorization,
        redactor: Redactor,
    ) -> Result<Self> {
        let (headers, bytes_max) = (headers::headers(config)?, config.result_bytes_max);
        let resumed = Mutex::default();
        Ok(Self(Arc::new(HttpPeerInner { http, headers, authorization, redactor, bytes_max, resumed })))
    }

    /// Returns the authentication at the server.
    pub(crate) fn authorization(&self) -> &Authorization {
        &self.0.authorization
    }

    /// Returns the maximum size of a message, in bytes.
    pub(crate) fn bytes_max(&self) -> usize {
        self.0.bytes_max
    }

    /// Waits until a stream may be resumed.
    pub(crate) async fn wait_to_resume(&self) {
        let latest = *self.resumed();
        if let Some(latest) = latest {
            sleep_until(latest + RESUME_LEAST).await;
        }
        *self.resumed() = Some(Instant::now());
    }

    fn resumed(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.resumed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request. If the token is refused, it is renewed and the request repeated.
    ///
    /// # Errors
    /// The failure to get a response; any status is a response.
    pub(crate) async fn send(&self, mut request: StreamRequest) -> Result<StreamResponse> {
        request.headers.extend(self.0.headers.iter().cloned());
        let authorization = &self.0.authorization;
        let token = authorization.token().await?;
        let response = self.0.http.open(self.signed(request.clone(), token.as_ref())).await?;
        authorization.hear(&response);
        if response.status != 401 {
            return Ok(response);
        }
        let Some(token) = authorization.token_instead_of(token.as_ref()).await? else { return Ok(response) };
        // Only once: if a newly issued token is refused as well, another one does not help.
        let response = self.0.http.open(self.signed(request, Some(&token))).await?;
        authorization.hear(&response);
        Ok(response)
    }

    fn signed(&self, mut request: StreamRequest, token: Option<&Secret>) -> StreamRequest {
        if let Some(token) = token {
            // Servers may repeat a refused token in messages, which are shown and stored.
            self.0.redactor.hide(token);
            request.headers.push(("authorization".to_owned(), format!("Bearer {}", token.reveal())));
        }
        request
    }
}

/// Builds a request from its parts.
pub(crate) fn request(method: &str, url: &str, headers: Headers, body: Vec<u8>) -> StreamRequest {
    StreamRequest { method: method.to_owned(), url: url.to_owned(), headers, body }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::{StreamExt as _, stream};
    use weft_core::async_trait;

    use super::*;
    use crate::config::OauthConfig;
    use crate::oauth::Oauth;

    /// An MCP server, and a token endpoint for it.
    struct Site;

    #[async_trait]
    impl StreamingHttp for Site {
        async fn open(&self, request: StreamRequest) -> Result<StreamResponse> {
            let gives = request.url.ends_with("/token");
            let body = if gives { r#"{"access_token": "token-4711"}"# } else { "" };
            let body = stream::iter([Ok(Bytes::from(body))]).boxed();
            Ok(StreamResponse { status: 200, headers: Vec::new(), body })
        }
    }

    #[tokio::test]
    async fn a_token_is_redacted_from_messages_of_the_server() {
        let oauth = OauthConfig {
            token_url: "https://auth.example/token".to_owned(),
            client_id: "c".to_owned(),
            client_secret: Secret::new("s"),
            ..OauthConfig::default()
        };
        let redactor = Redactor::default();
        let authorization = Authorization::Client(Arc::new(Oauth::new(oauth, Arc::new(Site))));
        let config = ServerConfig::default();
        let peer = HttpPeer::new(&config, Arc::new(Site), authorization, redactor.clone()).unwrap();
        peer.send(request("GET", "https://tools.example/mcp", Headers::new(), Vec::new())).await.unwrap();
        assert_eq!(redactor.clean("token-4711 is over", 100), "*** is over");
    }
}
