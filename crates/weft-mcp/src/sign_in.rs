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

use rmcp::transport::auth::{AuthError, AuthorizationManager, OAuthClientConfig, WWWAuthenticateParams};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use url::Url;
use weft_core::seam::Clock;
use weft_core::seam::ToolCredentials;
use weft_core::seam::tool_credentials::CredentialKey;
use weft_core::{Error, ErrorKind, Result, Secret};
use weft_net::{StreamResponse, StreamingHttp};

use crate::config::{OauthConfig, ServerConfig};
use http::OauthHttp;
use kept::{CredentialRow, KeptSignIn};

pub use flow::{SignInCallback, SignInPage, SignInRequest};

/// How long before its end a token is no longer used.
// A request takes its time, and two clocks differ: a token that ends on the way would be refused.
const MARGIN: Duration = Duration::from_secs(30);
/// How often, and after how long each time, the store is looked at for what another process has had.
const OTHERS_LOOKS: u32 = 5;
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
    asked: Mutex<JoinSet<Result<Option<Secret>>>>,
}

#[derive(Default)]
struct KnownToken {
    /// Whether the store was looked at.
    is_read: bool,
    token: Option<LiveToken>,
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
        let mut asked = self.0.asked.lock().await;
        {
            let known = self.0.known();
            // Somebody else has had a new one meanwhile.
            if let Some(token) = known.token.as_ref().filter(|token| token.is_good())
                && refused.is_some_and(|refused| token.access != *refused)
            {
                return Ok(Some(token.access.clone()));
            }
        }
        if asked.is_empty() {
            let (inner, refused) = (Arc::clone(&self.0), refused.cloned());
            // A task of its own, which goes on when the call that needs the token is given up: the authorization server may
            // have taken back the refresh token already, and its answer holds the only one that is good.
            asked.spawn(async move { inner.renewed(refused.as_ref()).await });
        }
        match asked.join_next().await {
            Some(Ok(token)) => token,
            Some(Err(_)) | None => Err(Error::internal("the question for a token broke off")),
        }
    }

    /// Notes how the server asks for a token.
    pub(crate) fn hear(&self, response: &StreamResponse) {
        let told = response.header("www-authenticate").filter(|told| told.len() <= CHALLENGE_BYTES_MAX);
        self.0.known().challenge = told.map(str::to_owned);
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

    /// What there is to be known before anything is asked.
    async fn manager(&self) -> Result<AuthorizationManager> {
        let http = Arc::new(OauthHttp(Arc::clone(&self.http)));
        let manager = AuthorizationManager::new_with_oauth_http_client(self.url.as_str(), http).await;
        manager.map_err(|error| failed(&error))
    }

    /// Looks for a token in the store, and has it renewed when it is over or was refused.
    async fn renewed(&self, refused: Option<&Secret>) -> Result<Option<Secret>> {
        let row = self.row();
        let kept = row.read().await?.map(|(kept, _)| kept).unwrap_or_default();
        let token = kept.token();
        let usable = token.as_ref().filter(|token| token.is_good() && refused != Some(&token.access));
        if let Some(token) = usable {
            return Ok(self.learn(Some(token.clone())));
        }
        if token.is_none() || !kept.can_be_renewed() {
            // What was refused need not be sent again; a token without an end stays what it is.
            return Ok(self.learn(None));
        }
        match Box::pin(self.renew(&row, &kept)).await {
            Ok(renewed) => Ok(self.learn(renewed)),
            Err(error) if error.kind == ErrorKind::Unauthenticated => {
                Ok(self.learn(by_another(&row, token.as_ref()).await?))
            }
            Err(error) => Err(error),
        }
    }

    async fn renew(&self, row: &CredentialRow, kept: &KeptSignIn) -> Result<Option<LiveToken>> {
        let mut manager = self.manager().await?;
        manager.set_credential_store(row.clone());
        // Not when the server has another authorization server by now: what the one before has given is then dropped.
        if !manager.initialize_from_store().await.map_err(|error| failed(&error))? {
            return Ok(None);
        }
        if let Some(client) = &kept.client {
            manager.configure_client(client.config()).map_err(|error| failed(&error))?;
        }
        manager.refresh_token().await.map_err(|error| failed(&error))?;
        Ok(row.read().await?.and_then(|(kept, _)| kept.token()))
    }

    fn learn(&self, token: Option<LiveToken>) -> Option<Secret> {
        let access = token.as_ref().map(|token| token.access.clone());
        let known = &mut *self.known();
        (known.is_read, known.token) = (true, token);
        access
    }
}

/// The token that another process has had in place of `before`: the one that renews is good once, so who comes second is
/// refused, perhaps before the first has stored what it got.
async fn by_another(row: &CredentialRow, before: Option<&LiveToken>) -> Result<Option<LiveToken>> {
    for _ in 0..OTHERS_LOOKS {
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
