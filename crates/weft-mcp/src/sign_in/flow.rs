//! The steps of a sign-in: the page for the person, and the completion by the redirect.

use std::collections::BTreeSet;

use rmcp::transport::auth::{
    AuthorizationManager, CredentialStore as _, InMemoryCredentialStore, InMemoryStateStore,
    OAuthClientConfig, StateStore as _, StoredCredentials,
};
use url::{Host, Url};
use weft_core::{Error, ErrorKind, Result};

use super::faults::{failed, has_forgotten_us, shortened};
use super::kept::{BegunSignIn, EndingSignIn, KeptClient, KeptSignIn, Registration, token_of};
use super::{LiveToken, SignIn, SignInInner, name_of};

/// Time limit for a person to sign in, in milliseconds.
const TIME_LIMIT_MS: i64 = 10 * 60 * 1_000;
/// Name of this program in client registrations.
const CLIENT_NAME: &str = "Weft";

/// A sign-in to be started.
#[derive(Clone, Debug, Default)]
pub struct SignInRequest {
    /// The redirect URI, to which the authorization server sends the browser afterwards.
    pub redirect_uri: String,
    /// Requested scopes, separated by spaces; absent: those that the server requests.
    pub scope: Option<String>,
}

/// The page at which a person signs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInPage {
    /// The URL at the authorization server, for a browser.
    pub url: String,
    /// Returned with the redirect.
    pub state: String,
}

/// Parameters of the redirect.
#[derive(Clone, Default)]
pub struct SignInCallback {
    /// The same as [`SignInPage::state`].
    pub state: String,
    /// The code to exchange for tokens.
    pub code: String,
    /// The issuer that claims to have redirected the browser.
    pub issuer: Option<String>,
}

impl SignInCallback {
    /// Parses the URL to which the browser was redirected.
    ///
    /// # Errors
    /// `Invalid` for a URL without an answer of an authorization server; `Denied` with its message when it, or the
    /// person, refuses.
    pub fn of_url(url: &str) -> Result<Self> {
        let wrong = || {
            Error::invalid("the URL contains no `code` and `state`")
                .help("give the whole URL that the browser was redirected to after the sign-in")
        };
        let url = Url::parse(url.trim()).map_err(|_| wrong())?;
        let said = |name: &str| {
            url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
        };
        if let Some(error) = said("error") {
            let words = said("error_description").map(|words| format!(": {words}")).unwrap_or_default();
            let message = shortened(&format!("the sign-in was refused: {error}{words}"));
            return Err(Error::new(ErrorKind::Denied, message));
        }
        match (said("state"), said("code")) {
            (Some(state), Some(code)) => Ok(Self { state, code, issuer: said("iss") }),
            (None, _) | (_, None) => Err(wrong()),
        }
    }
}

impl std::fmt::Debug for SignInCallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignInCallback").finish_non_exhaustive()
    }
}

/// Returns the type of a client with this redirect URI, in the terms of OpenID Connect's registration.
pub(super) fn application_type(redirect_uri: &str) -> &'static str {
    let is_loopback = Url::parse(redirect_uri).is_ok_and(|url| match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => true,
    });
    if is_loopback { "native" } else { "web" }
}

impl SignIn {
    /// Starts a sign-in.
    ///
    /// # Errors
    /// `Invalid` when the server has no sign-in or does not accept clients such as this program; otherwise the
    /// failure of the server or of its authorization server.
    pub(crate) async fn begin(&self, request: &SignInRequest) -> Result<SignInPage> {
        let inner = &self.0;
        let before = inner.row().read().await?.map(|(kept, _)| kept).unwrap_or_default();
        let mut found = Box::pin(inner.discovered(&before)).await?;
        let scopes = inner.scopes(&found.manager, request, &before).await;
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let client = Box::pin(inner.registered(&mut found, &request.redirect_uri, &scopes, &before)).await?;
        let Discovered { mut manager, challenge, .. } = found;
        manager.configure_client(client.config()).map_err(|error| failed(&error))?;
        let states = InMemoryStateStore::new();
        manager.set_state_store(states.clone());
        let url = manager.get_authorization_url(&scopes).await.map_err(|error| failed(&error))?;
        let state = state_of(&url).ok_or_else(|| Error::internal("a sign-in has no state"))?;
        // rmcp keeps the verifier there, and another process may have to finish the sign-in.
        let kept = states.load(&state).await.map_err(|error| failed(&error))?;
        let kept = kept.ok_or_else(|| Error::internal("a sign-in has no state"))?;
        let now_ms = inner.clock.now_ms();
        let begun =
            BegunSignIn { client, state: kept, challenge, until_ms: now_ms.saturating_add(TIME_LIMIT_MS) };
        let begin = |kept: &mut KeptSignIn| {
            kept.remember(&begun.client);
            kept.begin(&state, begun.clone(), now_ms);
            true
        };
        inner.row().change(begin).await?;
        Ok(SignInPage { url, state })
    }

    /// Completes a sign-in with the parameters of the redirect.
    ///
    /// # Errors
    /// `Invalid` for one that was not started here or has expired; `Denied` when a different authorization server
    /// answers; otherwise the failure of the authorization server.
    pub(crate) async fn finish(&self, callback: &SignInCallback) -> Result<()> {
        let inner = &self.0;
        let kept = inner.row().read().await?.map(|(kept, _)| kept).unwrap_or_default();
        let is_timely = |begun: &&BegunSignIn| begun.until_ms > inner.clock.now_ms();
        let begun = kept.begun.get(&callback.state).filter(is_timely).ok_or_else(|| {
            Error::invalid("this sign-in does not exist or has ended")
                .help("start it again and finish it within 10 minutes")
        })?;
        let Exchanged { issuer, credentials } = Box::pin(inner.exchanged(begun, callback, &kept)).await?;
        inner
            .row()
            .change(|kept| {
                kept.issuer = Some(issuer.clone());
                kept.client = Some(begun.client.clone());
                kept.credentials = Some(credentials.clone());
                kept.challenge.clone_from(&begun.challenge);
                true
            })
            .await?;
        inner.signed_in(token_of(&credentials));
        Ok(())
    }

    /// Returns the local port of the redirect URI in the latest registration.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn port(&self) -> Result<Option<u16>> {
        let kept = self.0.row().read().await?.map(|(kept, _)| kept).unwrap_or_default();
        let latest = kept.registered.last().and_then(|client| Url::parse(&client.redirect_uri).ok());
        let local = latest.filter(|url| matches!(url.host(), Some(Host::Ipv4(ip)) if ip.is_loopback()));
        Ok(local.and_then(|url| url.port()))
    }

    /// Removes the authorization. Returns whether there was one.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub(crate) async fn sign_out(&self) -> Result<bool> {
        let was = self.0.place.store.remove(&self.0.place.key).await?;
        self.0.signed_in(None);
        Ok(was)
    }
}

/// The authorization server of a server.
struct Discovered {
    manager: AuthorizationManager,
    /// Its issuer.
    name: String,
    /// The server's authentication challenge.
    challenge: Option<String>,
    /// Whether it accepts the URL of a client metadata document in place of a registration.
    takes_descriptions: bool,
}

/// The tokens that an authorization server has issued for a code.
struct Exchanged {
    /// Its issuer.
    issuer: String,
    credentials: StoredCredentials,
}

impl SignInInner {
    fn signed_in(&self, token: Option<LiveToken>) {
        let known = &mut *self.known();
        known.note(token);
        known.challenge = None;
        known.changes = known.changes.wrapping_add(1);
    }

    /// Discovers the authorization server, and the server's authentication challenge.
    async fn discovered(&self, kept: &KeptSignIn) -> Result<Discovered> {
        let challenge = self.known().challenge.clone();
        let (mut manager, found) = self.found(challenge.as_deref()).await?;
        // Otherwise its endpoints would be guessed, and people sent to pages that do not exist.
        if !found.source.is_discovered() && challenge.is_none() {
            return Err(Error::invalid("the server names no authorization server")
                .help("if it needs a token, set it in `headers` of the server"));
        }
        self.check_bond(&found.metadata, kept)?;
        let name = name_of(&found.metadata);
        let said = found.metadata.additional_fields.get("client_id_metadata_document_supported");
        let takes_descriptions = said.and_then(serde_json::Value::as_bool) == Some(true);
        manager.set_metadata(found.metadata);
        Ok(Discovered { manager, name, challenge, takes_descriptions })
    }

    /// Returns the scopes to request.
    async fn scopes(
        &self,
        manager: &AuthorizationManager,
        request: &SignInRequest,
        before: &KeptSignIn,
    ) -> Vec<String> {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        if let Some(scope) = request.scope.as_deref().or(self.oauth.scope.as_deref()) {
            return words(scope);
        }
        let granted = before.credentials.iter().flat_map(|kept| kept.granted_scopes.iter().cloned());
        let asked = manager.select_initial_scopes(&[]).await;
        // Requesting more scopes must not lose those granted before.
        let mut seen = BTreeSet::new();
        granted.chain(asked).filter(|scope| seen.insert(scope.clone())).collect()
    }

    /// Returns the client for the authorization server: as configured by the operator, by the URL of a metadata
    /// document, or by a registration, new or earlier.
    async fn registered(
        &self,
        found: &mut Discovered,
        redirect_uri: &str,
        scopes: &[&str],
        before: &KeptSignIn,
    ) -> Result<KeptClient> {
        let redirect_uri = redirect_uri.to_owned();
        let oauth = &self.oauth;
        if !oauth.client_id.is_empty() {
            let secret = (!oauth.client_secret.is_empty()).then(|| oauth.client_secret.reveal().to_owned());
            return Ok(KeptClient { id: oauth.client_id.clone(), secret, redirect_uri, registration: None });
        }
        let unregistered = OAuthClientConfig::new("unregistered", &redirect_uri)
            .with_application_type(application_type(&redirect_uri));
        // The registration takes the application type from it.
        found.manager.configure_client(unregistered).map_err(|error| failed(&error))?;
        if let Some(url) = oauth.client_metadata_url.as_ref().filter(|_| found.takes_descriptions) {
            return Ok(KeptClient { id: url.clone(), secret: None, redirect_uri, registration: None });
        }
        let registration = Registration::at(&found.name, scopes);
        if let Some(known) = before.registered(&registration, &redirect_uri, self.clock.now_ms()) {
            return Ok(known.clone());
        }
        let client = found.manager.register_client(CLIENT_NAME, &redirect_uri, scopes).await;
        let client = client.map_err(|error| failed(&error))?;
        let (id, secret) = (client.client_id, client.client_secret);
        Ok(KeptClient { id, secret, redirect_uri, registration: Some(registration) })
    }

    /// Exchanges the code of the redirect for tokens.
    async fn exchanged(
        &self,
        begun: &BegunSignIn,
        callback: &SignInCallback,
        kept: &KeptSignIn,
    ) -> Result<Exchanged> {
        let (mut manager, found) = self.found(begun.challenge.as_deref()).await?;
        let metadata = found.metadata;
        // The code is only valid at the authorization server that was asked, and must not be sent to any other.
        if metadata.issuer != begun.state.expected_issuer {
            return Err(Error::new(ErrorKind::Denied, "the server now uses another authorization server")
                .help("sign in again"));
        }
        self.check_bond(&metadata, kept)?;
        let name = name_of(&metadata);
        manager.set_metadata(metadata);
        manager.configure_client(begun.client.config()).map_err(|error| failed(&error))?;
        let credentials = InMemoryCredentialStore::new();
        manager.set_state_store(EndingSignIn { row: self.row(), begun: begun.state.clone() });
        manager.set_credential_store(credentials.clone());
        let (code, state, issuer) = (&callback.code, &callback.state, callback.issuer.as_deref());
        let exchanged = manager.exchange_code_for_token_with_issuer(code, state, issuer).await;
        if let Err(error) = exchanged {
            let told = failed(&error);
            if begun.client.registration.is_some() && has_forgotten_us(&error) {
                self.row().change(|kept| kept.forget(&begun.client.id)).await?;
                return Err(told.help("sign in again: this program is then registered anew"));
            }
            return Err(told);
        }
        let given = credentials.load().await.map_err(|error| failed(&error))?;
        let none = || Error::new(ErrorKind::Garbled, "the authorization server returned no tokens");
        Ok(Exchanged { issuer: name, credentials: given.ok_or_else(none)? })
    }
}

fn state_of(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    url.query_pairs().find(|(name, _)| name == "state").map(|(_, state)| state.into_owned())
}
