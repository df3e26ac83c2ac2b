//! Signing in at a server: a person allows it in a browser (OAuth 2.1 with PKCE, as the protocol's chapter on authorization has
//! it), and tokens come from what was allowed then. The exchange itself is rmcp's; here is what is kept of it, for whom, and
//! when it is used.
//!
//! A sign-in may begin in one process and end in another, so everything that is needed for its end is in the store.

mod flow;
mod http;
mod kept;

use std::sync::{Arc, Mutex as Lock, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadataResolution, OAuthClientConfig, StoredCredentials,
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
use weft_net::{StreamResponse, StreamingHttp};

use crate::config::{OauthConfig, ServerConfig};
use http::OauthHttp;
use kept::{CredentialRow, KeptSignIn, Renewal, are_same, token_of};

pub use flow::{SignInCallback, SignInPage, SignInRequest};

/// How long before its end a token is no longer used.
// A request takes its time, and two clocks differ: a token that ends on the way would be refused.
const MARGIN: Duration = Duration::from_secs(30);
/// How often the store is looked at for what another process may have had, when what renews was refused,
const OTHERS_LOOKS: u32 = 5;
/// and for what another process is about to have: as long as an authorization server may take.
const RENEWED_LOOKS: u32 = 60;
/// After how long each time.
const OTHERS_LOOK: Duration = Duration::from_millis(200);
/// Bytes of what a server may say of the sign-in that it wants.
const CHALLENGE_BYTES_MAX: usize = 8 << 10;

/// Characters of what an authorization server says that are shown.
const TOLD_CHARS_MAX: usize = 300;

/// Where the credentials for a server are kept.
#[derive(Clone)]
pub struct CredentialPlace {
    /// The store.
    pub store: Arc<dyn ToolCredentials>,
    /// Whose credentials they are.
    pub key: CredentialKey,
    /// What people have to do to sign in, in half a sentence.
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
    /// The address of the server.
    url: String,
    oauth: OauthConfig,
    place: CredentialPlace,
    http: Arc<dyn StreamingHttp>,
    clock: Arc<dyn Clock>,
    known: Lock<KnownToken>,
    /// Held while a token is looked for, so that calls side by side ask once.
    asked: Mutex<Asked>,
}

/// A question for a token.
#[derive(Default)]
struct Asked {
    task: JoinSet<Result<Option<Secret>>>,
    /// The latest one that failed.
    failed: Option<FailedQuestion>,
}

struct FailedQuestion {
    at: Instant,
    kind: ErrorKind,
    why: String,
}

#[derive(Default)]
struct KnownToken {
    /// Whether the store was looked at.
    is_read: bool,
    token: Option<LiveToken>,
    /// How often somebody has signed in or out here.
    changes: u64,
    /// How the server asked for a token the last time, as its header has it.
    challenge: Option<String>,
}

#[derive(Clone)]
struct LiveToken {
    access: Secret,
    /// In seconds since 1970; absent: nobody says.
    until: Option<u64>,
}

impl SignIn {
    /// For a server at an address that nothing else shows who we are.
    pub(crate) fn of(
        server: &ServerConfig,
        place: CredentialPlace,
        http: Arc<dyn StreamingHttp>,
        clock: Arc<dyn Clock>,
    ) -> Option<Self> {
        let url = server.url.clone()?;
        if server.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
            return None;
        }
        let oauth = server.oauth.clone().unwrap_or_default();
        if !oauth.token_url.is_empty() {
            return None;
        }
        let (known, asked) = (Lock::default(), Mutex::default());
        Some(Self(Arc::new(SignInInner { url, oauth, place, http, clock, known, asked })))
    }

    /// The token of a sign-in, if there was one.
    pub(crate) async fn token(&self) -> Result<Option<Secret>> {
        let known = {
            let known = self.0.known();
            known.is_read.then(|| known.token.clone())
        };
        match known {
            Some(Some(token)) if token.is_good() => Ok(Some(token.access)),
            // Nobody had signed in when the store was looked at. Somebody may have since, and the server's
            // refusal is what tells: most servers want no token at all, and each request would read the store.
            Some(None) => Ok(None),
            Some(Some(_)) | None => self.token_instead_of(None).await,
        }
    }

    /// What the store has in place of a token that was refused, renewed if need be.
    pub(crate) async fn token_instead_of(&self, refused: Option<&Secret>) -> Result<Option<Secret>> {
        let came = Instant::now();
        let mut asked = self.0.asked.lock().await;
        // What came of the question of a call that was given up is known by now; later it would be an answer of before.
        while asked.task.try_join_next().is_some() {}
        {
            let known = self.0.known();
            // Somebody else has had a new one meanwhile.
            if let Some(token) = known.token.as_ref().filter(|token| token.is_good())
                && refused.is_some_and(|refused| token.access != *refused)
            {
                return Ok(Some(token.access.clone()));
            }
        }
        // An authorization server that says nothing is not waited for by each of those who came meanwhile, one after the other.
        if let Some(failed) = asked.failed.as_ref().filter(|failed| failed.at > came) {
            return Err(Error::new(failed.kind, failed.why.clone()));
        }
        if asked.task.is_empty() {
            let (inner, refused) = (Arc::clone(&self.0), refused.cloned());
            // A task of its own, which goes on when the call that needs the token is given up: the authorization server may
            // have taken back the refresh token already, and its answer holds the only one that is good.
            asked.task.spawn(async move { inner.renewed(refused.as_ref()).await });
        }
        let token = match asked.task.join_next().await {
            Some(Ok(token)) => token,
            Some(Err(_)) | None => Err(Error::internal("the question for a token broke off")),
        };
        asked.failed = token.as_ref().err().map(|error| FailedQuestion {
            at: Instant::now(),
            kind: error.kind,
            why: error.full(),
        });
        token
    }

    /// Whether the server has said how it asks for a token.
    pub(crate) fn has_heard(&self) -> bool {
        self.0.known().challenge.is_some()
    }

    /// Notes how the server asks for a token.
    pub(crate) fn hear(&self, response: &StreamResponse) {
        // One that says nothing takes back nothing: servers also refuse what no sign-in would allow.
        if let Some(told) =
            response.header("www-authenticate").filter(|told| told.len() <= CHALLENGE_BYTES_MAX)
        {
            self.0.known().challenge = Some(told.to_owned());
        }
    }

    /// The error that what was allowed at the sign-in is not enough; nothing when that is not the reason.
    pub(crate) fn denied(&self, response: &StreamResponse) -> Option<Error> {
        let told = response.header("www-authenticate")?;
        let told = WWWAuthenticateParams::parse(told, &Url::parse(&self.0.url).ok()?);
        told.is_insufficient_scope().then(|| {
            let error = match told.scope {
                Some(scope) => Error::new(
                    ErrorKind::Denied,
                    format!("the server wants the scope `{}` to be allowed", shortened(&scope)),
                ),
                None => Error::new(ErrorKind::Denied, "the server wants more to be allowed"),
            };
            error.help(self.remedy())
        })
    }

    /// What people have to do.
    pub(crate) fn remedy(&self) -> &str {
        &self.0.place.remedy
    }
}

impl LiveToken {
    fn is_good(&self) -> bool {
        self.until.is_none_or(|until| now_seconds().saturating_add(MARGIN.as_secs()) < until)
    }
}

/// The time by which rmcp says when a token was given.
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

    /// The authorization server of a server that has asked for a token in these words.
    async fn found(
        &self,
        challenge: Option<&str>,
    ) -> Result<(AuthorizationManager, AuthorizationMetadataResolution)> {
        let http = Arc::new(OauthHttp::new(Arc::clone(&self.http)));
        let asking: Arc<OauthHttp> = Arc::clone(&http);
        // What it is called at authorization servers, and by the browser that is sent there: a query may hold a key.
        let resource = self.url.split(['?', '#']).next().unwrap_or_default();
        let manager = AuthorizationManager::new_with_oauth_http_client(resource, asking).await;
        let manager = manager.map_err(|error| failed(&error))?;
        let found = manager.resolve_metadata_from_challenge(challenge).await;
        let found = found.map_err(|error| failed(&error))?;
        let told = &found.metadata;
        // Whoever has a document elsewhere could call themselves by any name in it, and be shown what is for the bearer of that.
        if let Some(issuer) = told.issuer.as_ref().filter(|_| found.source.is_discovered())
            && !http.has_found_at(issuer)
        {
            let message = "the authorization server goes by the name of another one";
            return Err(Error::new(ErrorKind::Denied, message));
        }
        let is_secure = Url::parse(&self.url).is_ok_and(|url| url.scheme() == "https");
        // A browser is sent to the first of them, and there an address can also be a program.
        let is_safe = |endpoint: &String| {
            Url::parse(endpoint)
                .is_ok_and(|url| url.scheme() == "https" || (url.scheme() == "http" && !is_secure))
        };
        let given_out = [&told.authorization_endpoint, &told.token_endpoint];
        if !given_out.into_iter().chain(&told.registration_endpoint).all(is_safe) {
            let message = "the authorization server names an address that is not safe";
            return Err(Error::new(ErrorKind::Denied, message));
        }
        Ok((manager, found))
    }

    /// Looks for a token in the store, and has it renewed when it is over or was refused.
    async fn renewed(&self, refused: Option<&Secret>) -> Result<Option<Secret>> {
        let as_of = self.known().changes;
        let row = self.row();
        let kept = row.read().await?.map(|(kept, _)| kept).unwrap_or_default();
        let token = kept.token();
        let usable = token.as_ref().filter(|token| token.is_good() && refused != Some(&token.access));
        if let Some(token) = usable {
            return Ok(self.learn(as_of, Some(token.clone())));
        }
        if token.is_none() || !kept.can_be_renewed() {
            // What was refused need not be sent again; a token without an end stays what it is.
            return Ok(self.learn(as_of, None));
        }
        match Box::pin(self.renew(&row, &kept)).await {
            Ok(renewed) => Ok(self.learn(as_of, renewed)),
            Err(error) if error.kind == ErrorKind::Unauthenticated => {
                Ok(self.learn(as_of, by_another(&row, token.as_ref(), OTHERS_LOOKS).await?))
            }
            Err(error) => Err(error),
        }
    }

    async fn renew(&self, row: &CredentialRow, kept: &KeptSignIn) -> Result<Option<LiveToken>> {
        let (mut manager, found) = self.found(kept.challenge.as_deref()).await?;
        // Others may have renewed it, or signed in or out, while the servers were asked.
        let now = row.read().await?.map(|(kept, _)| kept).unwrap_or_default();
        let is_same =
            |now: &&StoredCredentials| kept.credentials.as_ref().is_some_and(|kept| are_same(now, kept));
        let Some(before) = now.credentials.as_ref().filter(is_same) else { return Ok(now.token()) };
        // What renews is shown to nobody but whoever has given it.
        if found.metadata.issuer != before.issuer {
            if found.source.is_discovered() {
                row.replace(before, None).await?;
            }
            return Ok(None);
        }
        manager.set_metadata(found.metadata);
        manager.set_credential_store(Renewal { row: row.clone(), before: before.clone() });
        if !manager.initialize_from_store().await.map_err(|error| failed(&error))? {
            return Ok(None);
        }
        if let Some(client) = &kept.client {
            let client = self.as_configured(client.clone());
            manager.configure_client(client.config()).map_err(|error| failed(&error))?;
        }
        if !row.claim(before, self.clock.now_ms()).await? {
            return by_another(row, token_of(before).as_ref(), RENEWED_LOOKS).await;
        }
        if let Err(error) = manager.refresh_token().await {
            let error = failed(&error);
            if error.kind == ErrorKind::Unauthenticated {
                // It need not be shown again.
                row.replace(before, None).await?;
            } else {
                row.release().await?;
            }
            return Err(error);
        }
        Ok(row.read().await?.and_then(|(kept, _)| kept.token()))
    }

    /// The client of a sign-in, whose secret the operator may have changed since.
    fn as_configured(&self, client: kept::KeptClient) -> kept::KeptClient {
        let OauthConfig { client_id, client_secret, .. } = &self.oauth;
        if client.id == *client_id && !client_secret.is_empty() {
            kept::KeptClient { secret: Some(client_secret.reveal().to_owned()), ..client }
        } else {
            client
        }
    }

    /// Takes note of what the store has had since `as_of`.
    fn learn(&self, as_of: u64, token: Option<LiveToken>) -> Option<Secret> {
        let known = &mut *self.known();
        // Somebody who has signed in or out since knows better.
        if known.changes == as_of {
            (known.is_read, known.token) = (true, token);
        }
        known.token.as_ref().map(|token| token.access.clone())
    }
}

/// The token that another process has had in place of `before`, which may not be stored yet.
async fn by_another(
    row: &CredentialRow,
    before: Option<&LiveToken>,
    looks: u32,
) -> Result<Option<LiveToken>> {
    for _ in 0..looks {
        let now = row.read().await?.and_then(|(kept, _)| kept.token());
        let newer = now.filter(|now| before.is_none_or(|before| before.access != now.access));
        if newer.is_some() {
            return Ok(newer);
        }
        tokio::time::sleep(OTHERS_LOOK).await;
    }
    Ok(None)
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

/// Whether an authorization server does not know the client any more: many forget those that they have registered.
fn has_forgotten_us(told: &str) -> bool {
    // The library has no word of its own for it; this is how it writes the code of an answer.
    ["invalid_client", "unauthorized_client"]
        .iter()
        .any(|code| told.contains(&format!("error response: {code}")))
}

fn shortened(text: &str) -> String {
    text.chars().take(TOLD_CHARS_MAX).collect()
}

/// What went wrong with an authorization server, in the program's words; what it said itself is the cause.
fn failed(error: &AuthError) -> Error {
    // Such texts come from outside, and may be long.
    let cause = shortened(&error.to_string());
    let told = |kind, message: &str| Error::new(kind, message).because(cause.clone());
    match error {
        AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_) | AuthError::TokenExpired => {
            told(ErrorKind::Unauthenticated, "the sign-in at the server is over")
        }
        AuthError::TokenRefreshFailed(told_why) if has_forgotten_us(told_why) => {
            told(ErrorKind::Unauthenticated, "the sign-in at the server is over")
        }
        AuthError::TokenRefreshFailed(_)
        | AuthError::DiscoveryRequestFailed { .. }
        | AuthError::AuthorizationServersUnavailable { .. }
        | AuthError::HttpError(_) => told(ErrorKind::Unavailable, "the authorization server cannot be asked"),
        AuthError::AuthorizationServerMismatch { .. }
        | AuthError::AuthorizationServerMissingIssuer { .. } => {
            told(ErrorKind::Denied, "the answer comes from another authorization server")
        }
        AuthError::RegistrationFailed(_) => told(
            ErrorKind::Invalid,
            "the authorization server does not register this program as a client",
        )
        .help(
            "register it there by hand, and set `oauth.client_id` (and `oauth.client_secret`) of the server",
        ),
        AuthError::NoAuthorizationSupport => told(ErrorKind::Invalid, "the server has no sign-in"),
        AuthError::CredentialStoreError(_) => told(ErrorKind::Unavailable, "the credentials cannot be kept"),
        _ => told(ErrorKind::Invalid, "the sign-in at the server failed"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use async_trait::async_trait;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use bytes::Bytes;
    use futures::{StreamExt as _, stream};
    use serde_json::{Value as Json, json};
    use weft_core::TenantId;
    use weft_core::seam::clock::FixedClock;
    use weft_net::StreamRequest;
    use weft_testkit::MemoryCredentials;
    use weft_testkit::memory_store::MemoryStore;

    use super::*;
    use crate::config::McpConfig;
    use crate::servers::{Credentials, Servers};

    const SERVER: &str = "https://tools.example/mcp";
    const RESOURCE: &str = "https://tools.example/.well-known/oauth-protected-resource/mcp";
    const ISSUER: &str = "https://auth.example/.well-known/oauth-authorization-server";

    /// An MCP server and authorization servers, by the addresses of their documents.
    struct Sites {
        /// The code of an error that is all that renewals bring.
        refuses: Lock<Option<&'static str>>,
        /// How clients have said who they are where tokens are given out.
        clients: Lock<Vec<String>>,
        documents: Lock<BTreeMap<String, Json>>,
        /// Nothing answers.
        is_away: AtomicBool,
        requests: AtomicUsize,
        given: AtomicUsize,
        /// Tokens are given out only while this can be had.
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
                (201, json!({"client_id": "client", "redirect_uris": []}))
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
        let server = ServerConfig { url: Some(SERVER.to_owned()), ..ServerConfig::default() };
        let http: Arc<dyn StreamingHttp> = Arc::<Sites>::clone(sites);
        SignIn::of(&server, place.clone(), http, Arc::new(FixedClock(7))).unwrap()
    }

    async fn begun(sign_in: &SignIn) -> Result<SignInPage> {
        let redirect_uri = "http://127.0.0.1:9/callback".to_owned();
        sign_in.begin(&SignInRequest { redirect_uri, scope: None }).await
    }

    async fn signed_in(sign_in: &SignIn) {
        let page = begun(sign_in).await.map_err(|error| error.full()).unwrap();
        let callback = SignInCallback { state: page.state, code: "code".to_owned(), issuer: None };
        sign_in.finish(&callback).await.map_err(|error| error.full()).unwrap();
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
    async fn a_code_is_shown_once_however_often_it_is_brought() {
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
    async fn what_came_of_a_question_that_was_given_up_is_no_answer_to_a_later_one() {
        let (sites, place) = (sites(), place());
        let sign_in = process(&sites, &place);
        signed_in(&sign_in).await;
        let gives = sites.gives.lock().await;
        tokio::select! {
            _ = instead_of(&sign_in, "token-1") => panic!("nothing is given out"),
            () = until(|| sites.given.load(Ordering::SeqCst) == 2) => {}
        }
        drop(gives);
        let has_second =
            || sign_in.0.known().token.as_ref().is_some_and(|token| token.access == Secret::new("token-2"));
        until(has_second).await;
        assert_eq!(instead_of(&sign_in, "token-2").await.as_deref(), Some("token-3"));
    }

    #[tokio::test]
    async fn a_renewal_brings_nothing_back_that_somebody_has_signed_out_of() {
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
    async fn what_renews_is_shown_to_nobody_but_whoever_has_given_it() {
        let (sites, place) = (sites(), place());
        let sign_in = process(&sites, &place);
        signed_in(&sign_in).await;
        // For a moment nothing says who that is, and the server itself would be asked.
        let documents = std::mem::take(&mut *sites.documents.lock().unwrap());
        assert_eq!(instead_of(&sign_in, "token-1").await, None);
        assert_eq!(sites.given.load(Ordering::SeqCst), 1);
        *sites.documents.lock().unwrap() = documents;
        assert_eq!(instead_of(&sign_in, "token-1").await.as_deref(), Some("token-2"));
        // Another one is there for good.
        let mut other = issuer();
        other["issuer"] = json!("https://other.example");
        {
            let mut documents = sites.documents.lock().unwrap();
            documents.insert(RESOURCE.to_owned(), resource(&json!(["https://other.example"])));
            documents.insert(ISSUER.replace("auth.example", "other.example"), other);
        }
        assert_eq!(instead_of(&sign_in, "token-2").await, None);
        assert_eq!(sites.given.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_client_that_is_not_known_any_more_signs_in_again() {
        let (sites, place) = (sites(), place());
        let sign_in = process(&sites, &place);
        signed_in(&sign_in).await;
        *sites.refuses.lock().unwrap() = Some("invalid_client");
        assert_eq!(instead_of(&sign_in, "token-1").await, None);
        assert_eq!(instead_of(&sign_in, "token-1").await, None);
        assert_eq!(sites.given.load(Ordering::SeqCst), 2, "it is asked once");
        // Any other failure passes.
        *sites.refuses.lock().unwrap() = None;
        signed_in(&sign_in).await;
        *sites.refuses.lock().unwrap() = Some("temporarily_unavailable");
        let failed = sign_in.token_instead_of(Some(&Secret::new("token-3"))).await.unwrap_err();
        assert_eq!(failed.kind, ErrorKind::Unavailable, "{}", failed.full());
        *sites.refuses.lock().unwrap() = None;
        assert_eq!(instead_of(&sign_in, "token-3").await.as_deref(), Some("token-5"));
    }

    #[tokio::test]
    async fn a_secret_that_the_operator_has_changed_is_shown_when_a_token_is_renewed() {
        let (sites, place) = (sites(), place());
        let with = |secret: &str| {
            let oauth = OauthConfig {
                client_id: "c".to_owned(),
                client_secret: Secret::new(secret),
                ..OauthConfig::default()
            };
            let server =
                ServerConfig { url: Some(SERVER.to_owned()), oauth: Some(oauth), ..ServerConfig::default() };
            let http: Arc<dyn StreamingHttp> = Arc::<Sites>::clone(&sites);
            SignIn::of(&server, place.clone(), http, Arc::new(FixedClock(7))).unwrap()
        };
        signed_in(&with("before")).await;
        assert_eq!(instead_of(&with("after"), "token-1").await.as_deref(), Some("token-2"));
        let shown = |secret: &str| format!("Basic {}", STANDARD.encode(format!("c:{secret}")));
        assert_eq!(*sites.clients.lock().unwrap(), [shown("before"), shown("after")]);
    }

    #[tokio::test]
    async fn how_the_server_has_asked_is_known_to_every_process() {
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
    async fn a_server_is_sent_a_message_first_when_nothing_was_heard_of_it() {
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
        let (pins, clock) = (Arc::new(MemoryStore::new()), Arc::new(FixedClock(7)));
        let credentials =
            Credentials { store: Arc::new(MemoryCredentials::default()), tenant: TenantId::new("t") };
        let servers = Servers::open(config, &http, pins, clock, &credentials).unwrap();
        let request = SignInRequest { redirect_uri: "http://127.0.0.1:9/callback".to_owned(), scope: None };
        let page = servers.begin_sign_in("web", &request).await.map_err(|error| error.full()).unwrap();
        assert!(page.url.starts_with("https://auth.example/authorize?"), "{}", page.url);
        servers.close().await;
    }

    #[tokio::test]
    async fn nobody_is_sent_to_what_no_authorization_server_can_be() {
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
        // At such an address rmcp takes any name for the right one.
        refused("https://evil.example/.well-known/auth", issuer()).await;
    }

    #[tokio::test]
    async fn a_server_does_not_have_us_ask_thousands_of_others() {
        let sites = sites();
        let many: Vec<String> = (0..500).map(|number| format!("https://a{number}.example")).collect();
        sites.documents.lock().unwrap().insert(RESOURCE.to_owned(), resource(&json!(many)));
        begun(&process(&sites, &place())).await.unwrap_err();
        let requests = sites.requests.load(Ordering::SeqCst);
        assert!(requests <= 40, "{requests}");
    }

    #[tokio::test]
    async fn those_who_wait_for_the_same_token_are_told_together_that_there_is_none() {
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
}
