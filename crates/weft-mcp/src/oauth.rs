//! Tokens that expire, and their renewal.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;
use url::form_urlencoded;
use weft_core::value::number;
use weft_core::{Error, ErrorKind, Json, Result, Secret};
use weft_net::{StreamRequest, StreamingHttp};

use crate::config::OauthConfig;
use crate::sign_in::TOKEN_TIME_LIMIT;

/// Time before its expiry from which on a token is no longer used.
// A request takes time and clocks differ, so a token could expire on its way.
const MARGIN: Duration = Duration::from_secs(30);
/// Maximum size of a response with tokens, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// The tokens of one server.
pub(crate) struct Oauth {
    config: Arc<OauthConfig>,
    http: Arc<dyn StreamingHttp>,
    /// Held while a new token is requested, so that concurrent calls share one request.
    tokens: Mutex<TokenPair>,
}

#[derive(Default)]
struct TokenPair {
    current: Option<AccessToken>,
    /// The refresh token that has replaced the configured one.
    refresh: Option<Secret>,
    /// The request for a new token, which continues if the call that needs it is abandoned: the token server may
    /// already have invalidated the old refresh token, and its response contains the only valid one.
    asked: JoinSet<Result<TokenAnswer>>,
}

struct AccessToken {
    access: Secret,
    until: Option<Instant>,
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: Secret,
    // Some servers send a string.
    expires_in: Option<Json>,
    refresh_token: Option<Secret>,
}

#[derive(Deserialize)]
struct TokenRefusal {
    error: String,
}

impl Oauth {
    pub(crate) fn new(config: OauthConfig, http: Arc<dyn StreamingHttp>) -> Self {
        Self { config: Arc::new(config), http, tokens: Mutex::default() }
    }

    /// Returns a token that is currently valid, as far as is known.
    ///
    /// # Errors
    /// `Unauthenticated` when the token server refuses, `Unavailable`, `Timeout` or `Garbled` when the request fails.
    pub(crate) async fn token(&self) -> Result<Secret> {
        let mut tokens = self.tokens.lock().await;
        let is_good = |token: &&AccessToken| token.until.is_none_or(|until| Instant::now() + MARGIN < until);
        if let Some(token) = tokens.current.as_ref().filter(is_good) {
            return Ok(token.access.clone());
        }
        self.renew(&mut tokens).await
    }

    /// Returns a token in place of a refused one.
    ///
    /// # Errors
    /// As [`Oauth::token`].
    pub(crate) async fn token_instead_of(&self, refused: &Secret) -> Result<Secret> {
        let mut tokens = self.tokens.lock().await;
        match &tokens.current {
            // A concurrent call has renewed it meanwhile.
            Some(token) if token.access != *refused => Ok(token.access.clone()),
            Some(_) | None => self.renew(&mut tokens).await,
        }
    }

    async fn renew(&self, tokens: &mut TokenPair) -> Result<Secret> {
        let answer = match tokens.asked.try_join_next() {
            // From an abandoned call.
            Some(Ok(Ok(answer))) => answer,
            _ => {
                if tokens.asked.is_empty() {
                    let refresh = tokens.refresh.as_ref().unwrap_or(&self.config.refresh_token).clone();
                    tokens.asked.spawn(ask(Arc::clone(&self.config), Arc::clone(&self.http), refresh));
                }
                match tokens.asked.join_next().await {
                    Some(Ok(answer)) => answer?,
                    Some(Err(_)) | None => {
                        return Err(Error::internal("the request for a token was interrupted"));
                    }
                }
            }
        };
        let seconds = answer.expires_in.as_ref().and_then(number);
        let lasting = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let until = lasting.and_then(|lasting| Instant::now().checked_add(lasting));
        // With rotating refresh tokens, the one that was used is invalid from now on.
        if let Some(refresh) = answer.refresh_token.filter(|token| !token.is_empty()) {
            tokens.refresh = Some(refresh);
        }
        tokens.current = Some(AccessToken { access: answer.access_token.clone(), until });
        Ok(answer.access_token)
    }
}

fn form(config: &OauthConfig, refresh: &Secret) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    if refresh.is_empty() {
        form.append_pair("grant_type", "client_credentials")
    } else {
        form.append_pair("grant_type", "refresh_token").append_pair("refresh_token", refresh.reveal())
    };
    form.append_pair("client_id", &config.client_id);
    if !config.client_secret.is_empty() {
        form.append_pair("client_secret", config.client_secret.reveal());
    }
    if let Some(scope) = &config.scope {
        form.append_pair("scope", scope);
    }
    form.finish()
}

async fn ask(config: Arc<OauthConfig>, http: Arc<dyn StreamingHttp>, refresh: Secret) -> Result<TokenAnswer> {
    let asked = tokio::time::timeout(TOKEN_TIME_LIMIT, exchange(&config, http.as_ref(), &refresh)).await;
    asked.unwrap_or_else(|_| {
        let seconds = TOKEN_TIME_LIMIT.as_secs();
        Err(Error::new(ErrorKind::Timeout, format!("the token server did not answer within {seconds} s")))
    })
}

async fn exchange(config: &OauthConfig, http: &dyn StreamingHttp, refresh: &Secret) -> Result<TokenAnswer> {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let request = StreamRequest {
        method: "POST".to_owned(),
        url: config.token_url.clone(),
        headers: vec![
            header("content-type", "application/x-www-form-urlencoded"),
            header("accept", "application/json"),
        ],
        body: form(config, refresh).into_bytes(),
    };
    let failed = |kind| Error::new(kind, "cannot get a token");
    let response = http.open(request).await.map_err(|cause| failed(cause.kind).because(cause))?;
    let status = response.status;
    let body = response.read(ANSWER_BYTES_MAX).await.map_err(|cause| failed(cause.kind).because(cause))?;
    match status {
        200..=299 => serde_json::from_slice(&body)
            .map_err(|_| Error::new(ErrorKind::Garbled, "the token server's response contains no token")),
        429 => Err(failed(ErrorKind::RateLimited).because("the token server limits the rate of requests")),
        // Only the error code: other members of such a response may repeat what was sent.
        400..=499 if status != 408 => {
            let reason = serde_json::from_slice::<TokenRefusal>(&body).map(|refusal| refusal.error);
            let reason = reason.unwrap_or_else(|_| format!("status {status}"));
            let message = format!("the token server refused the request: {reason}");
            Err(Error::new(ErrorKind::Unauthenticated, message)
                .help("check `oauth` of the server, and whether its refresh token is still valid"))
        }
        _ => {
            Err(failed(ErrorKind::Unavailable).because(format!("the token server returned status {status}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::{StreamExt as _, stream};
    use weft_core::async_trait;
    use weft_net::StreamResponse;

    use super::*;

    /// A token server that gives nothing, and says so in this way.
    struct Refuses(u16, &'static str);

    #[async_trait]
    impl StreamingHttp for Refuses {
        async fn open(&self, _: StreamRequest) -> Result<StreamResponse> {
            let body = stream::iter([Ok(Bytes::from(self.1))]).boxed();
            Ok(StreamResponse { status: self.0, headers: Vec::new(), body })
        }
    }

    #[tokio::test]
    async fn only_a_refusal_of_the_client_asks_for_other_credentials() {
        let check = async |status: u16, body: &'static str, expected: ErrorKind| {
            let oauth = Oauth::new(OauthConfig::default(), Arc::new(Refuses(status, body)));
            let error = oauth.token().await.unwrap_err();
            assert_eq!(error.kind, expected, "{status}: {}", error.full());
        };
        check(400, r#"{"error": "invalid_grant"}"#, ErrorKind::Unauthenticated).await;
        check(401, "", ErrorKind::Unauthenticated).await;
        check(408, "", ErrorKind::Unavailable).await;
        check(429, "slow down", ErrorKind::RateLimited).await;
        check(503, "", ErrorKind::Unavailable).await;
        check(200, "{}", ErrorKind::Garbled).await;
    }
}
