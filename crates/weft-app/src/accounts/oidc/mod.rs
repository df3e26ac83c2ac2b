//! Signing in by OpenID Connect: somebody is sent to a provider, comes back with a code, and the code is exchanged for a
//! token that says who they are (authorization code flow with PKCE).
//!
//! What one process has begun another may finish: a sign-in that is under way stands in the store, is taken out of it
//! once, and belongs to the browser that has begun it.

mod cached;
mod claims;
mod jws;
mod people;
mod provider;

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_core::id::UserId;
use weft_core::seam::identity_store::{AuthorizationRequest, Identity};
use weft_core::{Error, ErrorKind, Result, Secret, TenantId};
use weft_net::StreamingHttp;

use self::claims::{Expected, Person};
use self::jws::Claims;
use self::provider::{AskedBack, Provider};
use super::{Accounts, Attempts, SignInRefusal, SignedIn};
use crate::app::App;
use crate::config::AccountsConfig;
use crate::hmac::same;
use crate::tokens;

/// How long somebody may be at a provider, in milliseconds.
const LIFETIME_MS: i64 = 10 * 60_000;
/// Sign-ins that are under way at the same time, of all processes.
const UNDER_WAY_MAX: u64 = 10_000;
/// Bytes of what a provider sends people back with.
const RETURNED_BYTES_MAX: usize = 8 << 10;
/// Bytes of the path of a page.
const NEXT_BYTES_MAX: usize = 2_000;

/// The providers that people sign in with.
#[derive(Debug, Default)]
pub(crate) struct Providers(BTreeMap<String, Provider>);

/// A provider, as a page for signing in shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offered {
    /// Its name in addresses.
    pub name: String,
    /// What people call it.
    pub title: String,
}

/// A sign-in that has begun.
#[derive(Debug)]
pub struct Begun {
    /// Where the browser goes now.
    pub url: String,
    /// What the cookie is called by which the browser is known again.
    pub cookie: String,
    /// What it holds.
    pub browser: Secret,
}

/// What somebody brings back from a provider.
#[derive(Clone, Debug, Default)]
pub struct Returned {
    /// Tells which sign-in it is.
    pub state: String,
    /// What is exchanged for tokens.
    pub code: Secret,
    /// The issuer, where the provider names itself.
    pub issuer: Option<String>,
    /// Why there is no code.
    pub error: Option<String>,
    /// The same in words.
    pub error_description: String,
}

/// A sign-in that was under way and is over.
#[derive(Debug)]
pub struct Finished {
    /// The page to go to; empty for none.
    pub next: String,
    /// The tenant whose audit log tells of it.
    pub tenant: TenantId,
    /// What has come of it.
    pub outcome: Result<Outcome, SignInRefusal>,
}

/// What comes of a sign-in.
#[derive(Debug)]
pub enum Outcome {
    /// Somebody has signed in.
    SignedIn(Box<SignedIn>),
    /// A user who had signed in before has one identity more.
    Linked(Box<Identity>),
}

impl Providers {
    pub(crate) fn new(config: &AccountsConfig, http: &Arc<dyn StreamingHttp>) -> Self {
        let provider = |(name, one): (&String, &crate::config::OidcConfig)| {
            let provider = Provider::new(name, one.clone(), &config.public_url, Arc::clone(http));
            (name.clone(), provider)
        };
        Self(config.oidc.iter().map(provider).collect())
    }

    fn named(&self, name: &str) -> Result<&Provider> {
        self.0.get(name).ok_or_else(|| {
            let error = Error::not_found("there is no such provider to sign in with");
            error.help(
                "`accounts.oidc` in the settings has those there are; /api/v1/auth/providers lists them",
            )
        })
    }
}

impl Accounts {
    /// The providers that people may sign in with.
    pub fn offered(&self) -> Vec<Offered> {
        let all = self.providers.0.values();
        all.map(|one| Offered { name: one.name.clone(), title: one.title().to_owned() }).collect()
    }

    /// What the cookie is called by which a browser is known again. Each sign-in has its own, so that several may be
    /// under way in one browser. Over TLS no other server of the same domain can set it.
    pub fn oidc_cookie(&self, state: &str) -> String {
        let prefix = if self.is_over_tls() { "__Host-" } else { "" };
        let hash = tokens::hash(state);
        format!("{prefix}weft-oidc-{}", hash.get(..16).unwrap_or_default())
    }

    /// Whether browsers reach this server over TLS.
    pub fn is_over_tls(&self) -> bool {
        self.config.public_url.starts_with("https://")
    }
}

/// A page that somebody may be sent to: its path, and nothing that a browser takes for another server. What stands
/// behind the `#` goes along with every redirect, and agents decide what the API answers for them, so no page is below the
/// API, in whatever spelling.
fn checked_next(next: &str) -> Result<()> {
    let is_plain = |c: u8| c.is_ascii_graphic() && !matches!(c, b'\\' | b'#' | b'"' | b'<' | b'>');
    let is_name =
        |part: &str| !part.is_empty() && !matches!(part.to_lowercase().as_str(), "." | ".." | "api" | "v1");
    let (path, _) = next.split_once('?').unwrap_or((next, ""));
    let is_page = path.strip_prefix('/').is_some_and(|rest| {
        rest.is_empty() || rest.strip_suffix('/').unwrap_or(rest).split('/').all(is_name)
    });
    let fits = is_page && !path.contains('%') && next.bytes().all(is_plain) && next.len() <= NEXT_BYTES_MAX;
    if next.is_empty() || fits {
        Ok(())
    } else {
        let error = Error::invalid("`next` is not the path of a page");
        Err(error
            .help("such as /chat?id=7: without #, with % behind the ? only, and nothing below /api or /v1"))
    }
}

fn over() -> Error {
    let error = Error::new(ErrorKind::Denied, "this sign-in is over, or was begun in another browser");
    error.help("begin it once more, and finish it within ten minutes")
}

impl App {
    /// Begins a sign-in, or lets a user who has signed in add an identity.
    ///
    /// # Errors
    /// `NotFound` for an unknown provider; `Invalid` for a page that is not of this server; `RateLimited`;
    /// `Unavailable` when the provider cannot be asked.
    pub async fn begin_oidc(
        &self,
        name: &str,
        next: &str,
        user: Option<&UserId>,
        address: &str,
    ) -> Result<Begun> {
        let provider = self.accounts.providers.named(name)?;
        checked_next(next)?;
        let now_ms = self.clock.now_ms();
        // Counted before the provider is asked, which may take long.
        let rate = Accounts::rate(self.accounts.config.sign_in_attempts_per_address);
        if !self.accounts.limits.attempts.take(&Attempts::Begun(address.to_owned()), rate, now_ms) {
            let error = Error::new(ErrorKind::RateLimited, "too many sign-ins were begun and not finished");
            return Err(error.help("try again in a quarter of an hour"));
        }
        let description = provider.description(now_ms).await?;
        let random = || tokens::random("");
        let (state, browser, nonce, verifier) = (random()?, random()?, random()?, random()?);
        let request = AuthorizationRequest {
            hash: tokens::hash(state.reveal()),
            browser_hash: tokens::hash(browser.reveal()),
            provider: name.to_owned(),
            issuer: provider.config.issuer.clone(),
            nonce: nonce.reveal().to_owned(),
            verifier: verifier.reveal().to_owned(),
            next: next.to_owned(),
            user: user.cloned(),
            expires_ms: now_ms.saturating_add(LIFETIME_MS),
        };
        let asked = AskedBack { state: state.reveal(), nonce: nonce.reveal(), verifier: verifier.reveal() };
        let url = provider.authorization_url(&description, &asked)?;
        let identities = &self.accounts.stores.identities;
        // Stored before the browser is sent away: it may come back to another process.
        identities.add_authorization_request(&request, now_ms, UNDER_WAY_MAX).await?;
        Ok(Begun { url, cookie: self.accounts.oidc_cookie(state.reveal()), browser })
    }

    /// Finishes a sign-in with what somebody brings back. `browser` is what the cookie of the sign-in holds.
    ///
    /// # Errors
    /// `NotFound` for an unknown provider; `Denied` for what is no sign-in of this browser that is under way. What goes
    /// wrong after that is in the outcome.
    pub async fn finish_oidc(
        &self,
        name: &str,
        returned: &Returned,
        browser: Option<&str>,
        address: &str,
    ) -> Result<Finished> {
        let provider = self.accounts.providers.named(name)?;
        let now_ms = self.clock.now_ms();
        let request = self.taken(provider, returned, browser, now_ms).await?;
        let tenant = match &request.user {
            Some(user) => self.first_tenant(user).await?,
            None => TenantId::from(provider.config.tenant.as_str()),
        };
        let outcome = self.end_of(provider, &request, returned, now_ms).await;
        // Whoever finishes a sign-in uses up nothing of what others from the same address may begin.
        if outcome.is_ok() {
            self.accounts.limits.attempts.give_back(&Attempts::Begun(address.to_owned()));
        }
        let tenant = match &outcome {
            Ok(Outcome::SignedIn(signed_in)) => signed_in.tenant.clone(),
            _ => tenant,
        };
        Ok(Finished { next: request.next, tenant, outcome })
    }

    /// The sign-in that somebody comes back to. It is worth nothing from then on, whatever comes of it.
    async fn taken(
        &self,
        provider: &Provider,
        returned: &Returned,
        browser: Option<&str>,
        now_ms: i64,
    ) -> Result<AuthorizationRequest> {
        let lengths = [returned.state.len(), returned.code.reveal().len(), browser.map_or(0, str::len)];
        if returned.state.is_empty() || lengths.iter().any(|length| *length > RETURNED_BYTES_MAX) {
            return Err(over());
        }
        let hash = tokens::hash(&returned.state);
        let taken = self.accounts.stores.identities.take_authorization_request(&hash).await;
        let request =
            taken.map_err(|error| if error.kind == ErrorKind::NotFound { over() } else { error })?;
        let browser_hash = tokens::hash(browser.unwrap_or_default());
        let is_theirs = same(browser_hash.as_bytes(), request.browser_hash.as_bytes());
        // Somebody who is sent back to another provider's address may bring that one's code.
        let is_its = request.provider == provider.name && request.issuer == provider.config.issuer;
        if is_theirs && is_its && now_ms < request.expires_ms { Ok(request) } else { Err(over()) }
    }

    async fn end_of(
        &self,
        provider: &Provider,
        request: &AuthorizationRequest,
        returned: &Returned,
        now_ms: i64,
    ) -> Result<Outcome, SignInRefusal> {
        let (person, claims) = self.person(provider, request, returned, now_ms).await?;
        match &request.user {
            Some(user) => Ok(Outcome::Linked(Box::new(self.link(provider, &person, user).await?))),
            None => {
                let signed_in = self.sign_in_person(provider, &person, &claims).await?;
                Ok(Outcome::SignedIn(Box::new(signed_in)))
            }
        }
    }

    /// Who the provider says it is.
    async fn person(
        &self,
        provider: &Provider,
        request: &AuthorizationRequest,
        returned: &Returned,
        now_ms: i64,
    ) -> Result<(Person, Claims)> {
        let description = provider.description(now_ms).await?;
        // Another provider's answer may be passed off as this one's; one that always names itself cannot
        // leave that out (RFC 9207).
        match &returned.issuer {
            Some(issuer) if *issuer != request.issuer => return Err(provider.refused("it is another issuer")),
            None if description.names_itself => return Err(provider.refused("it does not name itself")),
            _ => {}
        }
        if let Some(error) = &returned.error {
            return Err(provider.declined(error, &returned.error_description));
        }
        if returned.code.is_empty() {
            return Err(provider.declined("there is no code", ""));
        }
        let tokens = provider.exchange(&description, returned.code.reveal(), &request.verifier).await?;
        let claims = provider.verified(&description, &tokens.id_token, now_ms).await?;
        let expected = Expected {
            issuer: &request.issuer,
            client_id: &provider.config.client_id,
            nonce: &request.nonce,
            begun_ms: request.expires_ms.saturating_sub(LIFETIME_MS),
            // The clock is asked anew: the exchange of the code may have taken long.
            now_ms: self.clock.now_ms(),
        };
        claims::check(&claims, &expected).map_err(|why| provider.refused(why))?;
        // More is asked for only when the token is believed, since it shows another one.
        let claims = provider.completed(&description, &tokens, claims).await?;
        let person = claims::person(&claims).map_err(|why| provider.refused(why))?;
        Ok((person, claims))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_to_another_server() {
        for fine in
            ["", "/", "/chat", "/chat?id=7&to=https://x.example/api/%20..", "/a/b", "/a/", "/apis", "/a:b@c"]
        {
            assert!(checked_next(fine).is_ok(), "{fine}");
        }
        let long = format!("/{}", "x".repeat(NEXT_BYTES_MAX));
        for wrong in [
            "//x.example",
            "//",
            "/a//",
            "/\\x.example",
            "\\\\x.example",
            "https://x.example",
            "javascript:alert(1)",
            "chat",
            "/a\r\nset-cookie: x",
            "/\t/x.example",
            " /a",
            "/a#b",
            "/ü",
            "/a\\b",
            "/api/v1/webhook/7",
            "/below/API/v1/webhook/7",
            "/v1/x",
            "/chat/../api/v1/webhook/7",
            "/chat/%2e%2e/%61pi",
            "/./api",
            "/a//b",
            "/%2F%2Fx.example",
            "/<a",
            &long,
        ] {
            assert!(checked_next(wrong).is_err(), "{wrong}");
        }
    }
}
