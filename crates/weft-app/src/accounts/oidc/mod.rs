//! Sign-in with OpenID Connect: the browser is redirected to a provider and returns with a code, which is exchanged
//! for a token that identifies the user (authorization code flow with PKCE).
//!
//! A sign-in that one process has started can be finished by another: while under way it is in the store, from which
//! it is taken exactly once, and it is bound to the browser that started it.

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

use self::claims::{ExpectedClaims, Person};
use self::jws::Claims;
use self::provider::{AskedBack, Provider};
use super::{Accounts, Attempts, SignInRefusal, SignedIn};
use crate::app::App;
use crate::config::AccountsConfig;
use crate::hmac::same;
use crate::tokens;

/// Time limit for a sign-in, in milliseconds.
// Enough for a person to enter a password and a second factor at the provider.
const LIFETIME_MS: i64 = 10 * 60_000;
/// Maximum number of sign-ins under way in all processes.
// Anyone can start a sign-in, and each is stored until it expires.
const UNDER_WAY_MAX: u64 = 10_000;
/// Maximum size of the parameters with which a provider redirects back, in bytes.
const RETURNED_BYTES_MAX: usize = 8 << 10;
/// Maximum length of the path of a page, in bytes.
const NEXT_BYTES_MAX: usize = 2_000;

/// The configured providers.
#[derive(Debug, Default)]
pub(crate) struct Providers(BTreeMap<String, Provider>);

/// A provider as it is shown on a sign-in page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedProvider {
    /// Its name in URLs.
    pub name: String,
    /// Its name for people.
    pub title: String,
}

/// A sign-in that was started.
#[derive(Debug)]
pub struct SignInBegun {
    /// The URL to which the browser is redirected.
    pub url: String,
    /// Name of the cookie that identifies the browser.
    pub cookie: String,
    /// Value of the cookie.
    pub browser: Secret,
}

/// The parameters with which a provider redirects back.
#[derive(Clone, Debug, Default)]
pub struct Returned {
    /// Identifies the sign-in.
    pub state: String,
    /// The code to exchange for tokens.
    pub code: Secret,
    /// The issuer, if the provider names itself.
    pub issuer: Option<String>,
    /// The error, if there is no code.
    pub error: Option<String>,
    /// A description of the error.
    pub error_description: String,
}

/// The result of a redirect back from a provider, and what the response needs.
#[derive(Debug)]
pub struct SignInFinished {
    /// The page to redirect to; empty for none.
    pub next: String,
    /// The tenant whose audit log records it.
    pub tenant: TenantId,
    /// Its outcome.
    pub outcome: Result<SignInOutcome, SignInRefusal>,
}

/// What a successful sign-in at a provider led to.
#[derive(Debug)]
pub enum SignInOutcome {
    /// A user was signed in.
    SignedIn(Box<SignedIn>),
    /// An identity was added to a user who was already signed in.
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
            let error = Error::not_found("there is no such sign-in provider");
            error.help("`accounts.oidc` in the settings defines them; /api/v1/auth/providers lists them")
        })
    }
}

impl Accounts {
    /// Returns the providers for a sign-in page.
    pub fn offered(&self) -> Vec<OfferedProvider> {
        let all = self.providers.0.values();
        all.map(|one| OfferedProvider { name: one.name.clone(), title: one.title().to_owned() }).collect()
    }

    /// Returns the name of the cookie that identifies a browser. Each sign-in has its own, so that several may be
    /// under way in one browser. Over TLS no other server of the same domain can set it.
    pub fn oidc_cookie(&self, state: &str) -> String {
        let prefix = if self.is_over_tls() { "__Host-" } else { "" };
        let hash = tokens::hash(state);
        // A part of the hash is enough to tell the sign-ins of one browser apart; the value is what is compared.
        format!("{prefix}weft-oidc-{}", hash.get(..16).unwrap_or_default())
    }

    /// Returns whether browsers reach this server over TLS.
    pub fn is_over_tls(&self) -> bool {
        self.config.public_url.starts_with("https://")
    }
}

/// Checks a page to which a browser may be redirected: it must be a path, and nothing that a browser could take for
/// another server. The fragment is passed along by every redirect, and the content of the API is influenced by
/// agents; therefore the page must not be below the API, in any spelling.
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
        Err(error.help("such as /chat?id=7: without #, with % only after the ?, and not below /api or /v1"))
    }
}

fn over() -> Error {
    let error = Error::new(ErrorKind::Denied, "this sign-in has ended or was started in another browser");
    error.help("start it again and finish it within ten minutes")
}

impl App {
    /// Starts a sign-in, or adding an identity to a user who is signed in.
    ///
    /// # Errors
    /// `NotFound` for an unknown provider; `Invalid` for a page that is not of this server; `RateLimited`;
    /// `Unavailable` when the provider cannot be reached.
    pub async fn begin_oidc(
        &self,
        name: &str,
        next: &str,
        user: Option<&UserId>,
        address: &str,
    ) -> Result<SignInBegun> {
        let provider = self.accounts.providers.named(name)?;
        checked_next(next)?;
        let now_ms = self.clock.now_ms();
        // Counted before contacting the provider, which may take long.
        let rate = Accounts::rate(self.accounts.config.sign_in_attempts_per_address);
        let counted = Attempts::Begun(address.to_owned());
        if !self.accounts.limits.attempts.take(&counted, rate, self.clock.running()) {
            let error = Error::new(ErrorKind::RateLimited, "too many sign-ins were started but not finished");
            return Err(error.help("try again in a quarter of an hour"));
        }
        let description = provider.description(now_ms).await?;
        let random = || tokens::random("");
        let (state, browser, nonce, verifier) = (random()?, random()?, random()?, random()?);
        let request = AuthorizationRequest {
            // As hashes, so that whoever reads the store cannot finish the sign-in.
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
        // Stored before the browser is redirected: it may return to another process.
        identities.add_authorization_request(&request, now_ms, UNDER_WAY_MAX).await?;
        Ok(SignInBegun { url, cookie: self.accounts.oidc_cookie(state.reveal()), browser })
    }

    /// Finishes a sign-in with the parameters from the provider. `browser` is the value of the sign-in's cookie.
    ///
    /// # Errors
    /// `NotFound` for an unknown provider; `Denied` unless this browser has such a sign-in under way. Later failures
    /// are in the outcome.
    pub async fn finish_oidc(
        &self,
        name: &str,
        returned: &Returned,
        browser: Option<&str>,
        address: &str,
    ) -> Result<SignInFinished> {
        let provider = self.accounts.providers.named(name)?;
        let now_ms = self.clock.now_ms();
        let request = self.taken(provider, returned, browser, now_ms).await?;
        let tenant = match &request.user {
            Some(user) => self.first_tenant(user).await?,
            None => TenantId::from(provider.config.tenant.as_str()),
        };
        let outcome = self.end_of(provider, &request, returned, now_ms).await;
        if request.user.is_none() {
            self.accounts.count_sign_in(&outcome);
        }
        // A finished sign-in does not count towards the limit of its address.
        if outcome.is_ok() {
            self.accounts.limits.attempts.give_back(&Attempts::Begun(address.to_owned()));
        }
        let tenant = match &outcome {
            Ok(SignInOutcome::SignedIn(signed_in)) => signed_in.tenant.clone(),
            _ => tenant,
        };
        Ok(SignInFinished { next: request.next, tenant, outcome })
    }

    /// Takes the sign-in out of the store. It cannot be used again, whatever its outcome.
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
        // Prevents a mix-up: a redirect to one provider's URL may carry the code of another provider.
        let is_its = request.provider == provider.name && request.issuer == provider.config.issuer;
        if is_theirs && is_its && now_ms < request.expires_ms { Ok(request) } else { Err(over()) }
    }

    async fn end_of(
        &self,
        provider: &Provider,
        request: &AuthorizationRequest,
        returned: &Returned,
        now_ms: i64,
    ) -> Result<SignInOutcome, SignInRefusal> {
        let (person, claims) = self.person(provider, request, returned, now_ms).await?;
        match &request.user {
            Some(user) => Ok(SignInOutcome::Linked(Box::new(self.link(provider, &person, user).await?))),
            None => {
                let signed_in = self.sign_in_person(provider, &person, &claims).await?;
                Ok(SignInOutcome::SignedIn(Box::new(signed_in)))
            }
        }
    }

    /// Returns the person that the provider has authenticated.
    async fn person(
        &self,
        provider: &Provider,
        request: &AuthorizationRequest,
        returned: &Returned,
        now_ms: i64,
    ) -> Result<(Person, Claims)> {
        let description = provider.description(now_ms).await?;
        // The answer of another provider may be passed off as this one's; a provider that always names itself cannot
        // omit that (RFC 9207).
        match &returned.issuer {
            Some(issuer) if *issuer != request.issuer => {
                return Err(provider.refused("the issuer is another one"));
            }
            None if description.names_itself => return Err(provider.refused("the issuer is missing")),
            _ => {}
        }
        if let Some(error) = &returned.error {
            return Err(provider.declined(error, &returned.error_description));
        }
        if returned.code.is_empty() {
            return Err(provider.declined("the code is missing", ""));
        }
        let tokens = provider.exchange(&description, returned.code.reveal(), &request.verifier).await?;
        let claims = provider.verified(&description, &tokens.id_token, now_ms).await?;
        let expected = ExpectedClaims {
            issuer: &request.issuer,
            client_id: &provider.config.client_id,
            nonce: &request.nonce,
            begun_ms: request.expires_ms.saturating_sub(LIFETIME_MS),
            // Read again, because the exchange of the code may have taken long.
            now_ms: self.clock.now_ms(),
        };
        claims::check(&claims, &expected).map_err(|why| provider.refused(why))?;
        // Further claims are only requested once the token is verified, because this sends another token.
        let claims = provider.completed(&description, &tokens, claims).await?;
        let person = claims::person(&claims).map_err(|why| provider.refused(why))?;
        Ok((person, claims))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_after_sign_in_must_be_on_this_server() {
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
