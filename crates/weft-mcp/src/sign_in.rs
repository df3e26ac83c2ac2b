//! Sign-in at a server: a person authorizes this program in a browser (OAuth 2.1 with PKCE, as in the protocol's
//! chapter on authorization), and tokens are derived from that authorization. The exchange itself is implemented by
//! rmcp; this module decides what is stored of it, for whom, and when it is used.
//!
//! A sign-in may start in one process and end in another, so everything needed to complete it is in the store.

mod faults;
mod flow;
mod http;
mod kept;
mod renewal;

use std::sync::{Arc, Mutex as Lock, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rmcp::transport::auth::{
    AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataResolution, OAuthClientConfig,
    WWWAuthenticateParams,
};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;
use url::Url;
use weft_core::seam::Clock;
use weft_core::seam::ToolCredentials;
use weft_core::seam::tool_credentials::CredentialKey;
use weft_core::{Error, ErrorKind, Result, Secret};
use weft_net::StreamResponse;

use crate::config::{OauthConfig, ServerConfig, TransportKind};
use crate::headers;
use crate::http_peer::{Headers, request};
use crate::reach::Reach;
use faults::{failed, shortened};
use http::{OauthHttp, TIME_LIMIT};
use kept::{CredentialRow, KeptSignIn};

pub(crate) use http::TOKEN_TIME_LIMIT;

pub use flow::{SignInCallback, SignInPage, SignInRequest};

/// Time before its expiry from which on a token is no longer used.
// A request takes time and clocks differ, so a token could expire on its way.
const MARGIN: Duration = Duration::from_secs(30);
/// How long a token is used before the store is checked again, because another process may have signed out.
const KNOWN_FOR: Duration = Duration::from_secs(5);
/// How long shutdown waits for a token that is being renewed.
const SETTLE_LIMIT: Duration = Duration::from_secs(10);
/// Maximum size of a server's authentication challenge, in bytes.
const CHALLENGE_BYTES_MAX: usize = 8 << 10;
/// Request that triggers an authentication challenge: most servers that accept an unauthenticated start refuse it.
const KNOCK: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

/// Location of the credentials for a server.
#[derive(Clone)]
pub struct CredentialPlace {
    /// The store.
    pub store: Arc<dyn ToolCredentials>,
    /// The key of the credentials in the store.
    pub key: CredentialKey,
    /// How people sign in, as half a sentence.
    pub remedy: String,
}

impl std::fmt::Debug for CredentialPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CredentialPlace").field("key", &self.key).finish_non_exhaustive()
    }
}

/// The sign-in at one server.
pub(crate) struct SignIn(Arc<SignInInner>);

struct SignInInner {
    /// The URL of the server.
    url: String,
    kind: TransportKind,
    /// Sent with every request to it.
    headers: Headers,
    oauth: OauthConfig,
    place: CredentialPlace,
    reach: Reach,
    clock: Arc<dyn Clock>,
    known: Lock<KnownToken>,
    /// Held while a token is obtained, so that concurrent calls share one request.
    asked: Mutex<TokenRequest>,
}

/// State of a request for a token.
#[derive(Default)]
struct TokenRequest {
    task: JoinSet<Result<Option<Secret>>>,
    /// The latest failed request.
    failed: Option<FailedQuestion>,
}

struct FailedQuestion {
    at: Instant,
    kind: ErrorKind,
    why: String,
}

#[derive(Default)]
struct KnownToken {
    /// When the store was last read, if it was.
    read_at: Option<Instant>,
    token: Option<LiveToken>,
    /// Number of sign-ins and sign-outs in this process.
    changes: u64,
    /// The last authentication challenge of the server, from its header.
    challenge: Option<String>,
}

#[derive(Clone)]
struct LiveToken {
    access: Secret,
    /// Expiry in seconds since 1970; absent if unknown.
    until: Option<u64>,
}

impl SignIn {
    /// Creates the sign-in for a server at a URL, unless its settings already authenticate.
    pub(crate) fn of(
        server: &ServerConfig,
        place: CredentialPlace,
        reach: Reach,
        clock: Arc<dyn Clock>,
    ) -> Option<Self> {
        let (url, kind) = (server.url.clone()?, server.kind());
        if server.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
            return None;
        }
        let oauth = server.oauth.clone().unwrap_or_default();
        if !oauth.token_url.is_empty() {
            return None;
        }
        // Invalid headers are reported where the server's settings are read.
        let headers = headers::headers(server).unwrap_or_default();
        let (known, asked) = (Lock::default(), Mutex::default());
        Some(Self(Arc::new(SignInInner { url, kind, headers, oauth, place, reach, clock, known, asked })))
    }

    /// Returns the token of a sign-in, if there was one.
    pub(crate) async fn token(&self) -> Result<Option<Secret>> {
        let (read_at, token) = {
            let known = self.0.known();
            (known.read_at, known.token.clone())
        };
        match (read_at, token) {
            (Some(at), Some(token)) if at.elapsed() < KNOWN_FOR && token.is_good() => Ok(Some(token.access)),
            // There was no sign-in when the store was read. If there was one since, the server's refusal triggers a
            // new read: most servers need no token at all, and otherwise each request would read the store.
            (Some(_), None) => Ok(None),
            (Some(_), Some(_)) | (None, _) => self.token_instead_of(None).await,
        }
    }

    /// Returns the token in the store in place of a refused one, renewing it if necessary.
    pub(crate) async fn token_instead_of(&self, refused: Option<&Secret>) -> Result<Option<Secret>> {
        let came = Instant::now();
        let mut asked = self.0.asked.lock().await;
        // The result of a request by an abandoned call is known by now; used later it would be outdated.
        while asked.task.try_join_next().is_some() {}
        // Another call has obtained a new one meanwhile, or checked that this one is still valid.
        if let Some(token) = self.0.known().since(came, refused) {
            return Ok(Some(token));
        }
        // Concurrent calls share a failure; otherwise each of them would wait for an unresponsive authorization
        // server, one after the other.
        if let Some(failed) = asked.failed.as_ref().filter(|failed| failed.at > came) {
            return Err(Error::new(failed.kind, failed.why.clone()));
        }
        if asked.task.is_empty() {
            let (inner, refused) = (Arc::clone(&self.0), refused.cloned());
            // A separate task, which continues if the call that needs the token is abandoned: the authorization
            // server may already have invalidated the old refresh token, and its response contains the only valid
            // one.
            asked.task.spawn(async move { inner.renewed(refused.as_ref()).await });
        }
        let token = match asked.task.join_next().await {
            Some(Ok(token)) => token,
            Some(Err(_)) | None => Err(Error::internal("the request for a token was interrupted")),
        };
        asked.failed = token.as_ref().err().map(|error| FailedQuestion {
            at: Instant::now(),
            kind: error.kind,
            why: error.full(),
        });
        token
    }

    /// Waits for a renewal under way, whose response may contain the only valid token; at most [`SETTLE_LIMIT`].
    pub(crate) async fn settle(&self) {
        let settled = async {
            // A call that waits for the response holds this lock.
            let mut asked = self.0.asked.lock().await;
            while asked.task.join_next().await.is_some() {}
        };
        if tokio::time::timeout(SETTLE_LIMIT, settled).await.is_err() {
            let server = &self.0.place.key.server;
            tracing::warn!(%server, "a token is still being renewed: somebody may have to sign in again");
        }
    }

    /// Sends a message to the server to obtain its authentication challenge: some servers only name their
    /// authorization server in a refusal. Other outcomes are reported by what follows.
    pub(crate) async fn knock(&self) {
        let inner = &self.0;
        let (method, accept, body) = match inner.kind {
            // With this transport, the URL for messages is only known from the stream.
            TransportKind::Sse => ("GET", "text/event-stream", b"".as_slice()),
            TransportKind::StreamableHttp | TransportKind::Stdio => {
                ("POST", "application/json, text/event-stream", KNOCK)
            }
        };
        let mut headers = inner.headers.clone();
        headers.push(("accept".to_owned(), accept.to_owned()));
        if !body.is_empty() {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        let knocked = inner.reach.servers.open(request(method, &inner.url, headers, body.to_vec()));
        if let Ok(Ok(response)) = tokio::time::timeout(TIME_LIMIT, knocked).await
            && matches!(response.status, 401 | 403)
        {
            self.hear(&response);
        }
    }

    /// Returns whether the server has sent an authentication challenge.
    pub(crate) fn has_heard(&self) -> bool {
        self.0.known().challenge.is_some()
    }

    /// Records the authentication challenge of a response.
    pub(crate) fn hear(&self, response: &StreamResponse) {
        // A response without a challenge does not clear the last one: servers also refuse requests that no sign-in
        // would permit.
        if let Some(told) =
            response.header("www-authenticate").filter(|told| told.len() <= CHALLENGE_BYTES_MAX)
        {
            self.0.known().challenge = Some(told.to_owned());
        }
    }

    /// Returns the error for an authorization with insufficient scope; `None` if that is not the reason.
    pub(crate) fn denied(&self, response: &StreamResponse) -> Option<Error> {
        let told = response.header("www-authenticate")?;
        let told = WWWAuthenticateParams::parse(told, &Url::parse(&self.0.url).ok()?);
        told.is_insufficient_scope().then(|| {
            let error = match told.scope {
                Some(scope) => Error::new(
                    ErrorKind::Denied,
                    format!("the server requires the scope `{}`", shortened(&scope)),
                ),
                None => Error::new(ErrorKind::Denied, "the server requires more permissions"),
            };
            error.help(self.remedy())
        })
    }

    /// Returns how people sign in.
    pub(crate) fn remedy(&self) -> &str {
        &self.0.place.remedy
    }
}

impl KnownToken {
    /// Records the content of the store.
    fn note(&mut self, token: Option<LiveToken>) {
        (self.read_at, self.token) = (Some(Instant::now()), token);
    }

    /// Returns a token other than the refused one, if the store was read since `came` or just before.
    fn since(&self, came: Instant, refused: Option<&Secret>) -> Option<Secret> {
        let read_at = self.read_at?;
        let token = self.token.as_ref().filter(|token| token.is_good())?;
        let is_other = match refused {
            Some(refused) => token.access != *refused && read_at.elapsed() < KNOWN_FOR,
            None => read_at > came,
        };
        is_other.then(|| token.access.clone())
    }
}

impl LiveToken {
    fn is_good(&self) -> bool {
        self.until.is_none_or(|until| now_seconds().saturating_add(MARGIN.as_secs()) < until)
    }
}

/// Returns the time on the clock with which rmcp records when a token was issued.
fn now_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl SignInInner {
    fn known(&self) -> MutexGuard<'_, KnownToken> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn row(&self) -> CredentialRow {
        CredentialRow { place: self.place.clone(), url: self.url.clone() }
    }

    /// Discovers the authorization server from a server's challenge.
    async fn found(
        &self,
        challenge: Option<&str>,
    ) -> Result<(AuthorizationManager, AuthorizationMetadataResolution)> {
        let configured = [Some(self.url.as_str()), self.oauth.issuer.as_deref()];
        let http = Arc::new(OauthHttp::new(self.reach.clone(), configured.into_iter().flatten()));
        let asking: Arc<OauthHttp> = Arc::clone(&http);
        // The name of the resource at authorization servers and in the browser's URL, without the query, which may
        // contain a key.
        let resource = self.url.split(['?', '#']).next().unwrap_or_default();
        let manager = AuthorizationManager::new_with_oauth_http_client(resource, asking).await;
        let manager = manager.map_err(|error| failed(&error))?;
        let found = manager.resolve_metadata_from_challenge(challenge).await;
        let found = found.map_err(|error| failed(&error))?;
        let told = &found.metadata;
        // Otherwise the owner of a document elsewhere could claim any issuer in it, and receive secrets that are
        // meant for that issuer.
        if let Some(issuer) = told.issuer.as_ref().filter(|_| found.source.is_discovered())
            && !http.has_found_at(issuer)
        {
            let message = "the authorization server uses the name of another one";
            return Err(Error::new(ErrorKind::Denied, message));
        }
        let is_secure = Url::parse(&self.url).is_ok_and(|url| url.scheme() == "https");
        // A browser is redirected to the first of them, where a URL could also start a program.
        let is_safe = |endpoint: &String| {
            Url::parse(endpoint)
                .is_ok_and(|url| url.scheme() == "https" || (url.scheme() == "http" && !is_secure))
        };
        let given_out = [&told.authorization_endpoint, &told.token_endpoint];
        if !given_out.into_iter().chain(&told.registration_endpoint).all(is_safe) {
            let message = "the authorization server names a URL that is not secure";
            return Err(Error::new(ErrorKind::Denied, message));
        }
        Ok((manager, found))
    }

    /// Refuses an authorization server other than the configured one, or the first one to which the operator's secret
    /// was sent, whichever the server names: the secret is for no other.
    fn check_bond(&self, told: &AuthorizationMetadata, kept: &KeptSignIn) -> Result<()> {
        let OauthConfig { issuer, client_secret, .. } = &self.oauth;
        let first = kept.bound_to().filter(|_| !client_secret.is_empty());
        let Some(wanted) = issuer.as_deref().or(first) else { return Ok(()) };
        let name = name_of(told);
        if name.trim_end_matches('/') == wanted.trim_end_matches('/') {
            return Ok(());
        }
        let name = shortened(&name);
        let message = format!(
            "the server names the authorization server `{name}`, but this client is registered at `{wanted}`"
        );
        Err(Error::new(ErrorKind::Denied, message).help(
            "if it has moved, register the client there, and set `oauth.issuer` of the server to the new name",
        ))
    }
}

impl kept::KeptClient {
    fn config(&self) -> OAuthClientConfig {
        let config = OAuthClientConfig::new(&self.id, &self.redirect_uri)
            .with_application_type(flow::application_type(&self.redirect_uri));
        match &self.secret {
            Some(secret) => config.with_client_secret(secret),
            None => config,
        }
    }
}

/// Returns the issuer of an authorization server, or if it has none, the origin of its token endpoint.
fn name_of(told: &AuthorizationMetadata) -> String {
    let place =
        || Url::parse(&told.token_endpoint).map(|url| url.origin().ascii_serialization()).unwrap_or_default();
    told.issuer.clone().unwrap_or_else(place)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use bytes::Bytes;
    use futures::{StreamExt as _, stream};
    use serde_json::{Value as Json, json};
    use weft_core::seam::clock::FixedClock;
    use weft_core::{TenantId, async_trait};
    use weft_net::{StreamRequest, StreamingHttp};
    use weft_testkit::MemoryCredentials;
    use weft_testkit::memory_store::MemoryStore;

    use super::*;
    use crate::config::McpConfig;
    use crate::servers::{Credentials, Servers};

    const SERVER: &str = "https://tools.example/mcp";
    const RESOURCE: &str = "https://tools.example/.well-known/oauth-protected-resource/mcp";
    const ISSUER: &str = "https://auth.example/.well-known/oauth-authorization-server";

    /// An MCP server and authorization servers, as documents by their addresses.
    struct Sites {
        /// The error code that every renewal gets.
        refuses: Lock<Option<&'static str>>,
        /// How clients have authenticated at the token endpoint.
        clients: Lock<Vec<String>>,
        documents: Lock<BTreeMap<String, Json>>,
        /// Nothing answers.
        is_away: AtomicBool,
        requests: AtomicUsize,
        registered: AtomicUsize,
        given: AtomicUsize,
        /// Tokens are issued only while this lock is free.
        gives: Mutex<()>,
    }

    #[async_trait]
    impl StreamingHttp for Sites {
        async fn open(&self, request: StreamRequest) -> Result<StreamResponse> {
            self.requests.fetch_add(1, Ordering::SeqCst);
            if self.is_away.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(50)).await;
                return Err(Error::new(ErrorKind::Unavailable, "away"));
            }
            if request.method == "GET" && request.url == SERVER {
                let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
                return Ok(StreamResponse { status: 200, headers, body: stream::pending().boxed() });
            }
            if request.url == SERVER {
                let told = "Bearer resource_metadata=\"https://tools.example/who\"".to_owned();
                let headers = vec![("www-authenticate".to_owned(), told)];
                return Ok(StreamResponse { status: 401, headers, body: stream::empty().boxed() });
            }
            let (status, answer) = if request.method == "POST" && request.url.ends_with("/token") {
                let header = request.headers.iter().find(|(name, _)| name == "authorization");
                self.clients.lock().unwrap().extend(header.map(|(_, value)| value.clone()));
                let number = self.given.fetch_add(1, Ordering::SeqCst) + 1;
                drop(self.gives.lock().await);
                let (access, refresh) = (format!("token-{number}"), format!("refresh-{number}"));
                let answer = json!({"access_token": access, "token_type": "Bearer", "expires_in": 3600, "refresh_token": refresh});
                match *self.refuses.lock().unwrap() {
                    Some(error) => (401, json!({"error": error})),
                    None => (200, answer),
                }
            } else if request.method == "POST" {
                let number = self.registered.fetch_add(1, Ordering::SeqCst) + 1;
                (201, json!({"client_id": format!("client-{number}"), "redirect_uris": []}))
            } else {
                match self.documents.lock().unwrap().get(&request.url) {
                    Some(document) => (200, document.clone()),
                    None => (404, json!({})),
                }
            };
            let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
            let body = stream::iter([Ok(Bytes::from(answer.to_string()))]).boxed();
            Ok(StreamResponse { status, headers, body })
        }
    }

    fn issuer() -> Json {
        let at = |path: &str| format!("https://auth.example/{path}");
        json!({"issuer": "https://auth.example", "authorization_endpoint": at("authorize"), "token_endpoint": at("token"),
            "registration_endpoint": at("register"), "code_challenge_methods_supported": ["S256"]})
    }

    fn resource(servers: &Json) -> Json {
        json!({"resource": SERVER, "authorization_servers": servers})
    }

    fn sites() -> Arc<Sites> {
        let documents = [(RESOURCE, resource(&json!(["https://auth.example"]))), (ISSUER, issuer())];
        let documents = documents.map(|(url, document)| (url.to_owned(), document));
        Arc::new(Sites {
            refuses: Lock::default(),
            clients: Lock::default(),
            documents: Lock::new(documents.into()),
            is_away: AtomicBool::default(),
            requests: AtomicUsize::default(),
            registered: AtomicUsize::default(),
            given: AtomicUsize::default(),
            gives: Mutex::default(),
        })
    }

    fn place() -> CredentialPlace {
        CredentialPlace {
            store: Arc::new(MemoryCredentials::default()),
            key: CredentialKey { tenant: TenantId::new("t"), server: "web".to_owned() },
            remedy: "sign in".to_owned(),
        }
    }

    fn process(sites: &Arc<Sites>, place: &CredentialPlace) -> SignIn {
        process_as(sites, place, OauthConfig::default(), 7)
    }

    fn process_as(sites: &Arc<Sites>, place: &CredentialPlace, oauth: OauthConfig, now_ms: i64) -> SignIn {
        let server =
            ServerConfig { url: Some(SERVER.to_owned()), oauth: Some(oauth), ..ServerConfig::default() };
        let http: Arc<dyn StreamingHttp> = Arc::<Sites>::clone(sites);
        SignIn::of(&server, place.clone(), Reach::by(&http), Arc::new(FixedClock(now_ms))).unwrap()
    }

    /// A client that the operator has registered by hand.
    fn client(secret: &str) -> OauthConfig {
        let client_id = "c".to_owned();
        OauthConfig { client_id, client_secret: Secret::new(secret), ..OauthConfig::default() }
    }

    /// From now on the server uses another authorization server.
    fn move_elsewhere(sites: &Sites) {
        let mut other = issuer();
        other["issuer"] = json!("https://other.example");
        let mut documents = sites.documents.lock().unwrap();
        documents.insert(RESOURCE.to_owned(), resource(&json!(["https://other.example"])));
        documents.insert(ISSUER.replace("auth.example", "other.example"), other);
    }

    fn request_to(port: u16, scope: Option<&str>) -> SignInRequest {
        let redirect_uri = format!("http://127.0.0.1:{port}/callback");
        SignInRequest { redirect_uri, scope: scope.map(str::to_owned) }
    }

    async fn begun(sign_in: &SignIn) -> Result<SignInPage> {
        sign_in.begin(&request_to(9, None)).await
    }

    async fn came_back(sign_in: &SignIn, page: SignInPage) -> Result<()> {
        let callback = SignInCallback { state: page.state, code: "code".to_owned(), issuer: None };
        sign_in.finish(&callback).await
    }

    async fn signed_in(sign_in: &SignIn) {
        let page = begun(sign_in).await.map_err(|error| error.full()).unwrap();
        came_back(sign_in, page).await.map_err(|error| error.full()).unwrap();
    }

    async fn instead_of(sign_in: &SignIn, refused: &str) -> Option<String> {
        let token = sign_in.token_instead_of(Some(&Secret::new(refused))).await;
        token.map_err(|error| error.full()).unwrap().map(|token| token.reveal().to_owned())
    }

    async fn until(holds: impl Fn() -> bool) {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    #[tokio::test]
    async fn a_code_is_exchanged_only_once() {
        let (sites, place) = (sites(), place());
        let sign_in = process(&sites, &place);
        let page = begun(&sign_in).await.unwrap();
        let callback = SignInCallback { state: page.state, code: "code".to_owned(), issuer: None };
        let (one, other) = tokio::join!(sign_in.finish(&callback), sign_in.finish(&callback));
        assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
        assert_eq!(sites.given.load(Ordering::SeqCst), 1);
        assert_eq!(sign_in.token().await.unwrap(), Some(Secret::new("token-1")));
    }

    #[tokio::test]
    async fn the_result_of_an_abandoned_renewal_does_not_answer_a_later_one() {
        let (sites, place) = (sites(), place());
        let sign_in = process(&sites, &place);
        signed_in(&sign_in).await;
        let gives = sites.gives.lock().await;
        tokio::select! {
            _ = instead_of(&sign_in, "token-1") => panic!("no token is issued"),
            () = until(|| sites.given.load(Ordering::SeqCst) == 2) => {}
        }
        drop(gives);
        let has_second =
            || sign_in.0.known().token.as_ref().is_some_and(|token| token.access == Secret::new("token-2"));
        until(has_second).await;
        assert_eq!(instead_of(&sign_in, "token-2").await.as_deref(), Some("token-3"));
    }

    #[tokio::test]
    async fn a_renewal_does_not_undo_a_sign_out() {
        let (sites, place) = (sites(), place());
        let sign_in = process(&sites, &place);
        signed_in(&sign_in).await;
        let gives = sites.gives.lock().await;
        let sign_out = async {
            until(|| sites.given.load(Ordering::SeqCst) == 2).await;
            assert!(sign_in.sign_out().await.unwrap());
            drop(gives);
        };
        let (token, ()) = tokio::join!(instead_of(&sign_in, "token-1"), sign_out);
        assert_eq!(token, None);
        assert_eq!(place.store.get(&place.key).await.unwrap(), None);
        assert_eq!(sign_in.token().await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_refresh_token_is_sent_only_to_its_issuer() {
        let (sites, place) = (sites(), place());
        let sign_in = process(&sites, &place);
        signed_in(&sign_in).await;
        // For a moment no document names the issuer; the fallback would be the MCP server itself.
        let documents = std::mem::take(&mut *sites.documents.lock().unwrap());
        assert_eq!(instead_of(&sign_in, "token-1").await, None);
        assert_eq!(sites.given.load(Ordering::SeqCst), 1);
        *sites.documents.lock().unwrap() = documents;
        assert_eq!(instead_of(&sign_in, "token-1").await.as_deref(), Some("token-2"));
        // Now the server names another issuer for good.
        move_elsewhere(&sites);
        assert_eq!(instead_of(&sign_in, "token-2").await, None);
        assert_eq!(sites.given.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_client_that_is_no_longer_registered_signs_in_again() {
        let (sites, place) = (sites(), place());
        let sign_in = process(&sites, &place);
        signed_in(&sign_in).await;
        *sites.refuses.lock().unwrap() = Some("invalid_client");
        assert_eq!(instead_of(&sign_in, "token-1").await, None);
        assert_eq!(instead_of(&sign_in, "token-1").await, None);
        assert_eq!(sites.given.load(Ordering::SeqCst), 2, "the token endpoint is called once");
        // Any other failure is temporary.
        *sites.refuses.lock().unwrap() = None;
        signed_in(&sign_in).await;
        *sites.refuses.lock().unwrap() = Some("temporarily_unavailable");
        let failed = sign_in.token_instead_of(Some(&Secret::new("token-3"))).await.unwrap_err();
        assert_eq!(failed.kind, ErrorKind::Unavailable, "{}", failed.full());
        *sites.refuses.lock().unwrap() = None;
        assert_eq!(instead_of(&sign_in, "token-3").await.as_deref(), Some("token-5"));
    }

    #[tokio::test]
    async fn a_changed_client_secret_is_used_at_the_next_renewal() {
        let (sites, place) = (sites(), place());
        let with = |secret: &str| process_as(&sites, &place, client(secret), 7);
        signed_in(&with("before")).await;
        assert_eq!(instead_of(&with("after"), "token-1").await.as_deref(), Some("token-2"));
        let shown = |secret: &str| format!("Basic {}", STANDARD.encode(format!("c:{secret}")));
        assert_eq!(*sites.clients.lock().unwrap(), [shown("before"), shown("after")]);
    }

    #[tokio::test]
    async fn the_challenge_of_the_server_is_known_to_every_process() {
        let (sites, place) = (sites(), place());
        let hidden = "https://tools.example/who";
        {
            let mut documents = sites.documents.lock().unwrap();
            let resource = documents.remove(RESOURCE).unwrap();
            documents.insert(hidden.to_owned(), resource);
        }
        let sign_in = process(&sites, &place);
        let headers = vec![("www-authenticate".to_owned(), format!("Bearer resource_metadata=\"{hidden}\""))];
        sign_in.hear(&StreamResponse { status: 401, headers, body: stream::empty().boxed() });
        sign_in.hear(&StreamResponse { status: 403, headers: Vec::new(), body: stream::empty().boxed() });
        signed_in(&sign_in).await;
        let another = process(&sites, &place);
        assert_eq!(instead_of(&another, "token-1").await.as_deref(), Some("token-2"));
    }

    #[tokio::test]
    async fn a_server_without_a_known_challenge_is_sent_a_message_first() {
        let sites = sites();
        {
            let mut documents = sites.documents.lock().unwrap();
            let resource = documents.remove(RESOURCE).unwrap();
            documents.insert("https://tools.example/who".to_owned(), resource);
        }
        let server = ServerConfig { url: Some(SERVER.to_owned()), ..ServerConfig::default() };
        let config =
            McpConfig { servers: BTreeMap::from([("web".to_owned(), server)]), ..McpConfig::default() };
        let http: Arc<dyn StreamingHttp> = Arc::<Sites>::clone(&sites);
        let reach = Reach::by(&http);
        let (pins, clock) = (Arc::new(MemoryStore::new()), Arc::new(FixedClock(7)));
        let credentials =
            Credentials { store: Arc::new(MemoryCredentials::default()), tenant: TenantId::new("t") };
        let servers = Servers::open(config, &reach, pins, clock, &credentials).unwrap();
        let page =
            servers.begin_sign_in("web", &request_to(9, None)).await.map_err(|error| error.full()).unwrap();
        assert!(page.url.starts_with("https://auth.example/authorize?"), "{}", page.url);
        servers.close().await;
    }

    #[tokio::test]
    async fn invalid_authorization_servers_are_refused() {
        let refused = async |url: &str, document: Json| {
            let sites = sites();
            {
                let mut documents = sites.documents.lock().unwrap();
                documents.insert(RESOURCE.to_owned(), resource(&json!([url])));
                documents.insert(url.to_owned(), document.clone());
                documents.insert(ISSUER.to_owned(), document.clone());
            }
            let error = begun(&process(&sites, &place())).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Denied, "{document}: {}", error.full());
        };
        for (member, address) in [
            ("authorization_endpoint", "javascript:alert(1)"),
            ("token_endpoint", "http://auth.example/token"),
        ] {
            let mut document = issuer();
            document[member] = json!(address);
            refused("https://auth.example", document).await;
        }
        // At such an address rmcp accepts any issuer name.
        refused("https://evil.example/.well-known/auth", issuer()).await;
    }

    #[tokio::test]
    async fn the_number_of_listed_authorization_servers_is_limited() {
        let sites = sites();
        let many: Vec<String> = (0..500).map(|number| format!("https://a{number}.example")).collect();
        sites.documents.lock().unwrap().insert(RESOURCE.to_owned(), resource(&json!(many)));
        begun(&process(&sites, &place())).await.unwrap_err();
        let requests = sites.requests.load(Ordering::SeqCst);
        assert!(requests <= 40, "{requests}");
    }

    #[tokio::test]
    async fn callers_waiting_for_the_same_token_fail_together() {
        let (sites, place) = (sites(), place());
        let sign_in = process(&sites, &place);
        signed_in(&sign_in).await;
        sites.is_away.store(true, Ordering::SeqCst);
        sites.requests.store(0, Ordering::SeqCst);
        let refused = Secret::new("token-1");
        let ask = || sign_in.token_instead_of(Some(&refused));
        let (first, second, third) = tokio::join!(ask(), ask(), ask());
        for asked in [first, second, third] {
            assert_eq!(asked.unwrap_err().kind, ErrorKind::Unavailable);
        }
        assert_eq!(sites.requests.load(Ordering::SeqCst), 1);
        sites.is_away.store(false, Ordering::SeqCst);
        assert_eq!(instead_of(&sign_in, "token-1").await.as_deref(), Some("token-2"));
    }
    #[tokio::test]
    async fn a_client_secret_is_bound_to_the_first_authorization_server() {
        let (sites, place) = (sites(), place());
        let sign_in = process_as(&sites, &place, client("s3cret"), 7);
        signed_in(&sign_in).await;
        move_elsewhere(&sites);
        // The grant of the first server is over, but the secret stays bound to it.
        assert_eq!(instead_of(&sign_in, "token-1").await, None);
        let refused = async |oauth: OauthConfig| {
            let error = begun(&process_as(&sites, &place, oauth, 7)).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Denied, "{}", error.full());
            assert!(error.full().contains("oauth.issuer"), "{}", error.full());
        };
        refused(client("s3cret")).await;
        let issuer = |name: &str| Some(format!("https://{name}.example"));
        refused(OauthConfig { issuer: issuer("auth"), ..OauthConfig::default() }).await;
        assert_eq!(sites.given.load(Ordering::SeqCst), 1);
        // The operator names the new issuer, or the client has no secret that could leak.
        for oauth in [OauthConfig { issuer: issuer("other"), ..client("s3cret") }, client("")] {
            begun(&process_as(&sites, &place, oauth, 7)).await.map_err(|error| error.full()).unwrap();
        }
        assert!(sign_in.sign_out().await.unwrap());
        signed_in(&sign_in).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_registration_is_reused_until_the_server_forgets_it() {
        let (sites, place) = (sites(), place());
        let sign_in = process(&sites, &place);
        let registered = || sites.registered.load(Ordering::SeqCst);
        signed_in(&sign_in).await;
        signed_in(&process(&sites, &place)).await;
        assert_eq!(registered(), 1);
        // A registration is valid for one redirect address and for the requested scope.
        sign_in.begin(&request_to(10, None)).await.unwrap();
        sign_in.begin(&request_to(9, Some("more"))).await.unwrap();
        assert_eq!(registered(), 3);
        assert_eq!(sign_in.port().await.unwrap(), Some(9));
        let page = begun(&sign_in).await.unwrap();
        *sites.refuses.lock().unwrap() = Some("invalid_client");
        let error = came_back(&sign_in, page).await.unwrap_err();
        assert!(error.full().contains("registered anew"), "{}", error.full());
        *sites.refuses.lock().unwrap() = None;
        signed_in(&sign_in).await;
        assert_eq!(registered(), 4);
        let token = sign_in.token().await.unwrap().unwrap();
        *sites.refuses.lock().unwrap() = Some("invalid_client");
        assert_eq!(instead_of(&sign_in, token.reveal()).await, None);
        *sites.refuses.lock().unwrap() = None;
        signed_in(&sign_in).await;
        assert_eq!(registered(), 5);
        move_elsewhere(&sites);
        begun(&sign_in).await.unwrap();
        assert_eq!(registered(), 6);
    }

    #[tokio::test]
    async fn a_registration_that_never_completed_is_not_reused() {
        let (sites, place) = (sites(), place());
        begun(&process(&sites, &place)).await.unwrap();
        begun(&process(&sites, &place)).await.unwrap();
        assert_eq!(sites.registered.load(Ordering::SeqCst), 1, "the sign-in may still complete");
        let later = process_as(&sites, &place, OauthConfig::default(), 11 * 60 * 1_000);
        begun(&later).await.unwrap();
        begun(&later).await.unwrap();
        assert_eq!(sites.registered.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_arrives_late_is_kept() {
        let (sites, place) = (sites(), place());
        let sign_in = process(&sites, &place);
        signed_in(&sign_in).await;
        let gives = sites.gives.lock().await;
        let given_up = tokio::time::timeout(Duration::from_secs(10), instead_of(&sign_in, "token-1")).await;
        assert!(given_up.is_err());
        tokio::time::sleep(Duration::from_secs(30)).await;
        drop(gives);
        sign_in.settle().await;
        let another = process(&sites, &place);
        assert_eq!(another.token().await.unwrap(), Some(Secret::new("token-2")));
    }

    #[tokio::test(start_paused = true)]
    async fn shutdown_waits_for_a_renewal_up_to_a_limit() {
        let (sites, place) = (sites(), place());
        let sign_in = process(&sites, &place);
        signed_in(&sign_in).await;
        let gives = sites.gives.lock().await;
        let given_up = tokio::time::timeout(Duration::from_secs(1), instead_of(&sign_in, "token-1")).await;
        assert!(given_up.is_err());
        let began = Instant::now();
        sign_in.settle().await;
        assert_eq!(began.elapsed().as_secs(), SETTLE_LIMIT.as_secs());
        drop(gives);
        sign_in.settle().await;
        drop(sign_in);
        assert_eq!(process(&sites, &place).token().await.unwrap(), Some(Secret::new("token-2")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_sign_out_reaches_other_processes_within_seconds() {
        let (sites, place) = (sites(), place());
        let (one, other) = (process(&sites, &place), process(&sites, &place));
        signed_in(&one).await;
        assert_eq!(other.token().await.unwrap(), Some(Secret::new("token-1")));
        assert!(one.sign_out().await.unwrap());
        tokio::time::sleep(KNOWN_FOR).await;
        assert_eq!(other.token().await.unwrap(), None);
    }
}
