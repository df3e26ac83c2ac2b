//! The way by which rmcp asks authorization servers: ours, with its checks of addresses.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::LOCATION;
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest,
};
use tokio::time::Instant;
use url::{Origin, Url, form_urlencoded};
use weft_core::{Error, ErrorKind, Result};
use weft_net::{StreamRequest, StreamingHttp};

/// How long one request may take.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Answers that say where else to ask, one after the other.
const REDIRECTS_MAX: usize = 3;
/// Requests for one purpose, and how long after the first there may be another one. What a server says of its authorization
/// servers can name thousands, and each of them would be asked at several addresses.
const REQUESTS_MAX: usize = 40;
const ALL_LIMIT: Duration = Duration::from_secs(60);

/// What is shown to authorization servers, and not told with what they say.
const SHOWN: [&str; 4] = ["client_secret", "code", "code_verifier", "refresh_token"];
/// Shorter ones would blot out ordinary words.
const SHOWN_BYTES_MIN: usize = 6;

type Answer = http::Response<Vec<u8>>;

/// The way for one purpose.
pub(super) struct OauthHttp {
    http: Arc<dyn StreamingHttp>,
    begun: Instant,
    requests: AtomicUsize,
    /// Where the latest document was found.
    document: Mutex<Option<Origin>>,
}

impl OAuthHttpClient for OauthHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        let OAuthHttpRequest { request, redirect_policy, .. } = request;
        Box::pin(async move {
            let asked = tokio::time::timeout(TIME_LIMIT, self.followed(request, redirect_policy)).await;
            let asked = asked.unwrap_or_else(|_| {
                Err(Error::new(ErrorKind::Timeout, format!("no answer within {} s", TIME_LIMIT.as_secs())))
            });
            asked.map_err(|error| OAuthHttpClientError::from(error.full()))
        })
    }
}

impl OauthHttp {
    pub(super) fn new(http: Arc<dyn StreamingHttp>) -> Self {
        Self { http, begun: Instant::now(), requests: AtomicUsize::default(), document: Mutex::default() }
    }

    /// Whether the latest document was found at the server of this address.
    pub(super) fn has_found_at(&self, url: &str) -> bool {
        let document = self.document.lock().unwrap_or_else(PoisonError::into_inner);
        Url::parse(url).is_ok_and(|url| document.as_ref() == Some(&url.origin()))
    }

    async fn followed(
        &self,
        request: http::Request<Vec<u8>>,
        policy: OAuthHttpRedirectPolicy,
    ) -> Result<Answer> {
        let follows = policy == OAuthHttpRedirectPolicy::Follow && request.method() == http::Method::GET;
        let mut request = plain(request)?;
        for _ in 0..=REDIRECTS_MAX {
            let answer = self.asked(request.clone()).await?;
            let elsewhere = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            let (true, true, Some(to)) = (follows, answer.status().is_redirection(), elsewhere) else {
                return Ok(answer);
            };
            // To the same server only: what is found there says where people are sent to sign in.
            let here =
                Url::parse(&request.url).map_err(|cause| Error::invalid("no address").because(cause))?;
            match here.join(to) {
                Ok(there) if there.origin() == here.origin() => request.url = there.into(),
                Ok(_) | Err(_) => return Err(Error::new(ErrorKind::Denied, "it is sent to another server")),
            }
        }
        Err(Error::new(ErrorKind::Invalid, "it is sent from one place to the next"))
    }

    async fn asked(&self, request: StreamRequest) -> Result<Answer> {
        if self.requests.fetch_add(1, Ordering::Relaxed) >= REQUESTS_MAX || self.begun.elapsed() > ALL_LIMIT {
            return Err(Error::invalid("the server names too many places to ask, or too slow ones"));
        }
        let is_get = request.method == "GET";
        let sent = if is_get { Vec::new() } else { request.body.clone() };
        let place = Url::parse(&request.url).ok().filter(|_| is_get).map(|url| url.origin());
        let mut response = self.http.open(request).await?;
        let is_stream = response.header("content-type").is_some_and(|of| of.starts_with("text/event-stream"));
        let status = response.status;
        let mut answer = http::Response::builder().status(status);
        for (name, value) in std::mem::take(&mut response.headers) {
            answer = answer.header(name, value);
        }
        // The server itself is asked, too, for what its refusal says; a stream of messages is no refusal, and has no end.
        let body = if is_stream { Vec::new() } else { response.read(ANSWER_BYTES_MAX).await? };
        if place.is_some() {
            *self.document.lock().unwrap_or_else(PoisonError::into_inner) = place;
        }
        let body = if status < 400 { body } else { without_shown(&sent, &body) };
        answer.body(body).map_err(|cause| Error::new(ErrorKind::Garbled, "no answer of HTTP").because(cause))
    }
}

/// What a server says that refuses a request, without what it was shown: some repeat that in their words for people.
fn without_shown(sent: &[u8], said: &[u8]) -> Vec<u8> {
    let mut text = String::from_utf8_lossy(said).into_owned();
    for (name, value) in form_urlencoded::parse(sent) {
        if SHOWN.contains(&name.as_ref()) && value.len() >= SHOWN_BYTES_MIN {
            text = text.replace(value.as_ref(), "***");
        }
    }
    text.into_bytes()
}

fn plain(request: http::Request<Vec<u8>>) -> Result<StreamRequest> {
    let (parts, body) = request.into_parts();
    let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        let value = value.to_str().map_err(|cause| Error::invalid("a header is no text").because(cause))?;
        Ok((name.as_str().to_owned(), value.to_owned()))
    };
    Ok(StreamRequest {
        method: parts.method.as_str().to_owned(),
        url: parts.uri.to_string(),
        headers: parts.headers.iter().map(header).collect::<Result<_>>()?,
        body,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_was_shown_is_not_told_with_its_refusal() {
        let sent = b"grant_type=refresh_token&refresh_token=a%2Bsecret&code=short";
        let said = b"{\"error\": \"invalid_grant\", \"error_description\": \"a+secret is over, short\"}";
        let told = String::from_utf8(without_shown(sent, said)).unwrap();
        assert!(told.contains("*** is over, short") && !told.contains("a+secret"), "{told}");
    }
}
