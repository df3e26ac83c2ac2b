//! The HTTP client with which rmcp contacts authorization servers; it adds this program's checks of addresses.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::header::{CONTENT_TYPE, LOCATION};
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest,
};
use tokio::time::Instant;
use url::{Host, Origin, Url, form_urlencoded};
use weft_core::value::number;
use weft_core::{Error, ErrorKind, Json, Result};
use weft_net::{StreamRequest, StreamResponse};

use crate::reach::Reach;

/// Time limit of one request.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(10);
/// The same for a request for tokens.
// By the time it would be abandoned, its refresh token is mostly invalid, and the replacement is only in the
// response.
pub(crate) const TOKEN_TIME_LIMIT: Duration = Duration::from_secs(60);
/// Maximum size of a response, in bytes.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Maximum number of consecutive redirects.
const REDIRECTS_MAX: usize = 3;
/// Maximum number of requests for one purpose, and the time after the first within which further ones may start. A
/// server can name thousands of authorization servers, each of which would be requested at several addresses.
const REQUESTS_MAX: usize = 40;
const ALL_LIMIT: Duration = Duration::from_secs(60);

/// Form fields with secrets, which must not be repeated in messages from authorization servers.
const SHOWN: [&str; 4] = ["client_secret", "code", "code_verifier", "refresh_token"];
/// Shorter ones would also redact ordinary words.
const SHOWN_BYTES_MIN: usize = 6;

/// Content type of forms.
const FORM: &str = "application/x-www-form-urlencoded";

type Answer = http::Response<Vec<u8>>;

/// The client for one purpose.
pub(super) struct OauthHttp {
    reach: Reach,
    /// Hosts that were configured for the server; all others are named by documents.
    configured: Vec<Host<String>>,
    begun: Instant,
    requests: AtomicUsize,
    /// Origin of the latest document.
    document: Mutex<Option<Origin>>,
}

impl OAuthHttpClient for OauthHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        let OAuthHttpRequest { request, redirect_policy, .. } = request;
        Box::pin(async move {
            let answered = self.answered(request, redirect_policy).await;
            answered.map_err(|error| OAuthHttpClientError::from(error.full()))
        })
    }
}

impl OauthHttp {
    /// Creates a client that reaches the hosts of the URLs in `configured` like servers, and all others like
    /// addresses that servers name.
    pub(super) fn new<'a>(reach: Reach, configured: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            reach,
            configured: configured.into_iter().filter_map(host_of).collect(),
            begun: Instant::now(),
            requests: AtomicUsize::default(),
            document: Mutex::default(),
        }
    }

    /// Returns whether the latest document was found at the origin of this URL.
    pub(super) fn has_found_at(&self, url: &str) -> bool {
        let document = self.document.lock().unwrap_or_else(PoisonError::into_inner);
        Url::parse(url).is_ok_and(|url| document.as_ref() == Some(&url.origin()))
    }

    /// Returns the response, within the time limit for the request.
    async fn answered(
        &self,
        request: http::Request<Vec<u8>>,
        policy: OAuthHttpRedirectPolicy,
    ) -> Result<Answer> {
        let is_for_tokens = is_for_tokens(&request);
        let limit = if is_for_tokens { TOKEN_TIME_LIMIT } else { TIME_LIMIT };
        let answer =
            tokio::time::timeout(limit, self.followed(request, policy)).await.unwrap_or_else(|_| {
                Err(Error::new(ErrorKind::Timeout, format!("no answer within {} s", limit.as_secs())))
            })?;
        Ok(if is_for_tokens { answer.map(with_seconds_as_number) } else { answer })
    }

    async fn followed(
        &self,
        request: http::Request<Vec<u8>>,
        policy: OAuthHttpRedirectPolicy,
    ) -> Result<Answer> {
        // Any other request carries a secret in its body.
        let follows = policy == OAuthHttpRedirectPolicy::Follow && request.method() == http::Method::GET;
        let mut request = plain(request)?;
        for _ in 0..=REDIRECTS_MAX {
            let answer = self.asked(request.clone()).await?;
            let elsewhere = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            let (true, true, Some(to)) = (follows, answer.status().is_redirection(), elsewhere) else {
                return Ok(answer);
            };
            // Only to the same origin: the document found there determines where people sign in.
            let here =
                Url::parse(&request.url).map_err(|cause| Error::invalid("no address").because(cause))?;
            match here.join(to) {
                Ok(there) if there.origin() == here.origin() => request.url = there.into(),
                Ok(_) | Err(_) => {
                    return Err(Error::new(ErrorKind::Denied, "it is redirected to another server"));
                }
            }
        }
        Err(Error::new(ErrorKind::Invalid, "it is redirected too many times"))
    }

    /// Opens a request with the client for its host.
    async fn open(&self, request: StreamRequest) -> Result<StreamResponse> {
        if self.is_configured(&request.url) {
            return self.reach.servers.open(request).await;
        }
        self.reach.named.open(request).await.map_err(|error| match error.kind {
            ErrorKind::Denied => Error::new(ErrorKind::Denied, "it is an address that the server has named")
                .because(error)
                .help("an operator can allow it in `net.allow`, or name the authorization server in `oauth.issuer` of the server"),
            _ => error,
        })
    }

    /// Returns whether this host was configured.
    fn is_configured(&self, url: &str) -> bool {
        host_of(url).is_some_and(|host| self.configured.contains(&host))
    }

    async fn asked(&self, request: StreamRequest) -> Result<Answer> {
        if self.requests.fetch_add(1, Ordering::Relaxed) >= REQUESTS_MAX || self.begun.elapsed() > ALL_LIMIT {
            return Err(Error::invalid("the server names too many or too slow URLs"));
        }
        let is_get = request.method == "GET";
        let sent = if is_get { Vec::new() } else { request.body.clone() };
        let place = Url::parse(&request.url).ok().filter(|_| is_get).map(|url| url.origin());
        let mut response = self.open(request).await?;
        let is_stream = response.header("content-type").is_some_and(|of| of.starts_with("text/event-stream"));
        let status = response.status;
        let mut answer = http::Response::builder().status(status);
        for (name, value) in std::mem::take(&mut response.headers) {
            answer = answer.header(name, value);
        }
        // The server itself is requested as well, for its refusal; a stream of messages is not a refusal and has no
        // end.
        let body = if is_stream { Vec::new() } else { response.read(ANSWER_BYTES_MAX).await? };
        if place.is_some() {
            *self.document.lock().unwrap_or_else(PoisonError::into_inner) = place;
        }
        let body = if status < 400 { body } else { without_shown(&sent, &body) };
        answer
            .body(body)
            .map_err(|cause| Error::new(ErrorKind::Garbled, "not a valid HTTP response").because(cause))
    }
}

fn host_of(url: &str) -> Option<Host<String>> {
    let url = Url::parse(url).ok()?;
    Some(url.host()?.to_owned())
}

/// Returns whether a request is for tokens: only those are sent as a form.
fn is_for_tokens(request: &http::Request<Vec<u8>>) -> bool {
    let of = request.headers().get(CONTENT_TYPE).and_then(|of| of.to_str().ok());
    request.method() == http::Method::POST && of.is_some_and(|of| of.starts_with(FORM))
}

/// Converts the lifetime of tokens in a response to a number of seconds: rmcp accepts nothing else, and some servers
/// send a string.
fn with_seconds_as_number(body: Vec<u8>) -> Vec<u8> {
    let Ok(Json::Object(mut answer)) = serde_json::from_slice::<Json>(&body) else { return body };
    let said = match answer.get("expires_in") {
        None | Some(Json::Null) => return body,
        Some(said) if said.is_u64() => return body,
        Some(said) => number(said),
    };
    // An invalid number is removed, as for a token whose expiry is unknown.
    match said.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
        Some(lasting) => answer.insert("expires_in".to_owned(), lasting.as_secs().into()),
        None => answer.remove("expires_in"),
    };
    serde_json::to_vec(&answer).unwrap_or(body)
}

/// Removes secrets of the request from a refusal: some servers repeat them in messages for people.
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
        let value = value.to_str().map_err(|cause| Error::invalid("a header is not text").because(cause))?;
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
    use std::sync::Arc;

    use bytes::Bytes;
    use futures::{StreamExt as _, stream};
    use serde_json::json;
    use weft_core::async_trait;
    use weft_net::StreamingHttp;

    use super::*;

    #[test]
    fn credentials_in_an_error_response_are_redacted() {
        let sent = b"grant_type=refresh_token&refresh_token=a%2Bsecret&code=short";
        let said = b"{\"error\": \"invalid_grant\", \"error_description\": \"a+secret is over, short\"}";
        let told = String::from_utf8(without_shown(sent, said)).unwrap();
        assert!(told.contains("*** is over, short") && !told.contains("a+secret"), "{told}");
    }

    #[test]
    fn the_lifetime_of_a_token_is_read_in_every_notation() {
        let check = |said: Json, expected: Json| {
            let body = json!({"access_token": "t", "expires_in": said}).to_string();
            let read = with_seconds_as_number(body.into_bytes());
            let read: Json = serde_json::from_slice(&read).unwrap();
            assert_eq!((&read["access_token"], &read["expires_in"]), (&json!("t"), &expected), "{said}");
        };
        check(json!("3600"), json!(3600));
        check(json!(" 3600.0 "), json!(3600));
        check(json!(3599.5), json!(3599));
        check(json!(3600), json!(3600));
        check(json!(-1), Json::Null);
        check(json!("soon"), Json::Null);
        check(Json::Null, Json::Null);
        assert_eq!(with_seconds_as_number(b"no JSON".to_vec()), b"no JSON");
    }

    /// Answers late, with its name.
    struct Late(&'static str);

    #[async_trait]
    impl StreamingHttp for Late {
        async fn open(&self, _: StreamRequest) -> Result<StreamResponse> {
            tokio::time::sleep(Duration::from_secs(30)).await;
            let body = stream::iter([Ok(Bytes::from(self.0))]).boxed();
            Ok(StreamResponse { status: 200, headers: Vec::new(), body })
        }
    }

    fn late() -> OauthHttp {
        let reach = Reach { servers: Arc::new(Late("configured")), named: Arc::new(Late("named")) };
        OauthHttp::new(reach, ["http://10.0.0.1:8080/mcp"])
    }

    async fn posted(url: &str, content_type: &str) -> Result<String> {
        let request = http::Request::post(url).header(CONTENT_TYPE, content_type).body(Vec::new()).unwrap();
        let answer = late().answered(request, OAuthHttpRedirectPolicy::Stop).await?;
        Ok(String::from_utf8(answer.into_body()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn only_configured_hosts_bypass_the_address_guard() {
        assert_eq!(posted("http://10.0.0.1:8080/token", FORM).await.unwrap(), "configured");
        assert_eq!(posted("http://10.0.0.1/token", FORM).await.unwrap(), "configured");
        assert_eq!(posted("http://10.0.0.2:8080/token", FORM).await.unwrap(), "named");
        assert_eq!(posted("https://auth.example/token", FORM).await.unwrap(), "named");
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_response_has_a_longer_timeout() {
        let json = posted("https://auth.example/register", "application/json").await.unwrap_err();
        assert_eq!((json.kind, json.message.as_str()), (ErrorKind::Timeout, "no answer within 10 s"));
        posted("https://auth.example/token", FORM).await.unwrap();
    }
}
