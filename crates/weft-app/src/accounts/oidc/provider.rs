//! A provider: its endpoints (OpenID Connect Discovery 1.0), its keys, and the exchange of codes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use url::form_urlencoded;
use weft_core::{Error, ErrorKind, Result, Secret};
use weft_net::{StreamRequest, StreamingHttp};

use super::cached::Cached;
use super::jws::{Claims, Keys, Unverified};
use crate::config::{OidcConfig, is_private_way};

/// Maximum size of a provider's response, in bytes.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Time limit of a response.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Maximum number of characters of a provider's message that are repeated.
const TOLD_CHARS_MAX: usize = 200;

/// A configured provider.
pub(crate) struct Provider {
    pub(super) name: String,
    pub(super) config: OidcConfig,
    /// The URL to which browsers are redirected back.
    redirect_uri: String,
    http: Arc<dyn StreamingHttp>,
    description: Cached<ProviderEndpoints>,
    keys: Cached<Keys>,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The endpoints of a provider.
#[derive(Debug, Deserialize)]
pub(super) struct ProviderEndpoints {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// Whether it names itself when it redirects back (RFC 9207).
    #[serde(default, rename = "authorization_response_iss_parameter_supported")]
    pub(super) names_itself: bool,
}

/// The tokens for a code. They are neither shown nor stored.
#[derive(Deserialize)]
pub(super) struct ProviderTokens {
    pub(super) id_token: Secret,
    #[serde(default)]
    access_token: Secret,
}

/// An error of an OAuth server in place of tokens.
#[derive(Default, Deserialize)]
struct TokenRefusal {
    #[serde(default)]
    error: String,
    #[serde(default)]
    error_description: String,
}

/// Converts text of a third party into a short single line.
pub(super) fn line(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(TOLD_CHARS_MAX).collect::<String>().trim().to_owned()
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Values that a provider has to return, or for which it has to prove that it received them.
pub(super) struct AskedBack<'a> {
    /// Returned with the redirect.
    pub(super) state: &'a str,
    /// Returned in the token.
    pub(super) nonce: &'a str,
    /// Sent with the code; the provider has received its hash.
    pub(super) verifier: &'a str,
}

impl Provider {
    pub(super) fn new(
        name: &str,
        config: OidcConfig,
        public_url: &str,
        http: Arc<dyn StreamingHttp>,
    ) -> Self {
        let redirect_uri = format!("{}/api/v1/auth/oidc/{name}/callback", public_url.trim_end_matches('/'));
        let (description, keys) = (Cached::default(), Cached::default());
        Self { name: name.to_owned(), config, redirect_uri, http, description, keys }
    }

    /// Returns its name for people.
    pub(super) fn title(&self) -> &str {
        if self.config.title.is_empty() { &self.name } else { &self.config.title }
    }

    fn failed(&self, kind: ErrorKind, what: &str) -> Error {
        Error::new(kind, format!("the provider `{}` {what}", self.name))
    }

    fn away(&self, cause: Error) -> Error {
        let error = self.failed(ErrorKind::Unavailable, "cannot be reached at the moment");
        error.help("sign in with a password, or try again later").because(cause)
    }

    /// Sends a request, and returns the status and the whole body.
    async fn ask(&self, request: StreamRequest) -> Result<(u16, Vec<u8>)> {
        // One time limit for both, so that a response that arrives slowly holds up no sign-in.
        let asking = async {
            let response = self.http.open(request).await?;
            let status = response.status;
            Ok::<_, Error>((status, response.read(ANSWER_BYTES_MAX).await?))
        };
        let late = || Error::new(ErrorKind::Timeout, "the response takes too long");
        let answered = tokio::time::timeout(ANSWER_LIMIT, asking).await.unwrap_or_else(|_| Err(late()));
        answered.map_err(|cause| self.away(cause))
    }

    async fn get(&self, url: &str, headers: Vec<(String, String)>) -> Result<Vec<u8>> {
        let request =
            StreamRequest { method: "GET".to_owned(), url: url.to_owned(), headers, body: Vec::new() };
        match self.ask(request).await? {
            (200, body) => Ok(body),
            (status, _) => {
                let cause = Error::new(ErrorKind::Unavailable, format!("it responded with status {status}"));
                Err(self.away(cause))
            }
        }
    }

    fn read<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T> {
        // Without the cause, which may repeat parts of the response.
        serde_json::from_slice(body)
            .map_err(|_| self.failed(ErrorKind::Garbled, "sent a response that cannot be parsed"))
    }

    /// Returns the provider's endpoints from its metadata, which is cached.
    pub(super) async fn description(&self, now_ms: i64) -> Result<Arc<ProviderEndpoints>> {
        self.description.get(self.describe(), now_ms).await
    }

    async fn describe(&self) -> Result<ProviderEndpoints> {
        let issuer = self.config.issuer.trim_end_matches('/');
        let body = self.get(&format!("{issuer}/.well-known/openid-configuration"), Vec::new()).await?;
        let found: ProviderEndpoints = self.read(&body)?;
        // Compared exactly, as the standard requires: otherwise another server could pose as this one.
        if found.issuer != self.config.issuer {
            let error = self.failed(ErrorKind::Garbled, "names a different issuer");
            return Err(error.help("`issuer` in the settings must be exactly the one in its metadata"));
        }
        // Codes and secrets are sent to them, and keys are received from them.
        let all = [&found.authorization_endpoint, &found.token_endpoint, &found.jwks_uri];
        if !all.into_iter().chain(&found.userinfo_endpoint).all(|url| is_private_way(url)) {
            return Err(self.failed(ErrorKind::Garbled, "names URLs that are not https://"));
        }
        Ok(found)
    }

    async fn ask_for_keys(&self, description: &ProviderEndpoints) -> Result<Keys> {
        Keys::read(&self.get(&description.jwks_uri, Vec::new()).await?)
    }

    /// Returns the URL to which a browser is redirected for signing in.
    pub(super) fn authorization_url(
        &self,
        description: &ProviderEndpoints,
        asked: &AskedBack<'_>,
    ) -> Result<String> {
        let AskedBack { state, nonce, verifier } = asked;
        let garbled = |_| self.failed(ErrorKind::Garbled, "names a URL that is not valid");
        let mut url = url::Url::parse(&description.authorization_endpoint).map_err(garbled)?;
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.config.client_id)
            .append_pair("redirect_uri", &self.redirect_uri)
            .append_pair("scope", &self.config.scopes.join(" "))
            .append_pair("state", state)
            .append_pair("nonce", nonce)
            .append_pair("code_challenge", &URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes())))
            .append_pair("code_challenge_method", "S256");
        // The URL of an endpoint must not contain a fragment (RFC 6749, 3.1).
        url.set_fragment(None);
        Ok(url.into())
    }

    /// Returns the request that exchanges a code. The client authenticates in the header unless the provider only
    /// supports the body.
    fn token_request(&self, description: &ProviderEndpoints, code: &str, verifier: &str) -> StreamRequest {
        let (id, secret) = (&self.config.client_id, self.config.client_secret.reveal());
        let mut headers = vec![
            ("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned()),
            ("accept".to_owned(), "application/json".to_owned()),
        ];
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", &self.redirect_uri)
            .append_pair("code_verifier", verifier);
        let has = |methods: &Vec<String>, name: &str| methods.iter().any(|method| method == name);
        let methods = description.token_endpoint_auth_methods_supported.as_ref();
        let in_body =
            methods.is_some_and(|all| has(all, "client_secret_post") && !has(all, "client_secret_basic"));
        // A client without a secret identifies itself in the body (RFC 6749, 3.2.1).
        if secret.is_empty() || in_body {
            form.append_pair("client_id", id);
        }
        if in_body && !secret.is_empty() {
            form.append_pair("client_secret", secret);
        } else if !secret.is_empty() {
            // Both are form-encoded before they are joined (RFC 6749, 2.3.1).
            let both = STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret)));
            headers.push(("authorization".to_owned(), format!("Basic {both}")));
        }
        let (method, url) = ("POST".to_owned(), description.token_endpoint.clone());
        let body = form.finish().into_bytes();
        StreamRequest { method, url, headers, body }
    }

    /// Exchanges a code for tokens.
    ///
    /// # Errors
    /// `Denied` with the provider's message when it refuses; `Unavailable`.
    pub(super) async fn exchange(
        &self,
        description: &ProviderEndpoints,
        code: &str,
        verifier: &str,
    ) -> Result<ProviderTokens> {
        let request = self.token_request(description, code, verifier);
        match self.ask(request).await? {
            (200, body) => self.read(&body),
            // The provider rejects the code; any other failure may be temporary.
            (400..=403, body) => {
                let TokenRefusal { error, error_description } =
                    serde_json::from_slice(&body).unwrap_or_default();
                tracing::warn!(
                    provider = self.name,
                    error = line(&error),
                    "an OpenID provider rejected a code"
                );
                Err(self.declined(&error, &error_description))
            }
            (status, _) => {
                let cause = Error::new(ErrorKind::Unavailable, format!("it responded with status {status}"));
                Err(self.away(cause))
            }
        }
    }

    /// Returns the error for a refusal of the provider, with its message as plain text.
    pub(super) fn declined(&self, error: &str, description: &str) -> Error {
        let words = [line(error), line(description)].into_iter().filter(|words| !words.is_empty());
        let words: Vec<String> = words.collect();
        let words = if words.is_empty() { "without a reason".to_owned() } else { words.join(": ") };
        self.failed(ErrorKind::Denied, &format!("has not signed you in: {words}"))
            .help("start the sign-in again")
    }

    /// Returns the claims of an ID token that the provider has signed. If its key is unknown, the keys are fetched
    /// again.
    pub(super) async fn verified(
        &self,
        description: &ProviderEndpoints,
        token: &Secret,
        now_ms: i64,
    ) -> Result<Claims> {
        let keys = self.keys.get(self.ask_for_keys(description), now_ms).await?;
        let verified = match keys.verified(token.reveal()) {
            Err(Unverified::UnknownKey) => {
                let keys = self.keys.renewed(self.ask_for_keys(description), now_ms).await?;
                keys.verified(token.reveal())
            }
            verified => verified,
        };
        verified.map_err(|why| match why {
            Unverified::UnknownKey => {
                self.refused("the ID token is signed with a key that the provider does not publish")
            }
            Unverified::Wrong(why) => self.refused(why),
        })
    }

    /// Returns the error for an answer of the provider that must not be trusted.
    pub(super) fn refused(&self, why: &str) -> Error {
        tracing::warn!(provider = self.name, why, "a response of an OpenID provider is not trusted");
        self.failed(ErrorKind::Denied, &format!("sent a response that is not trusted: {why}"))
            .help("start the sign-in again; if it keeps failing, tell whoever runs this server")
    }

    /// Adds claims that are missing in the token and that the provider returns for the access token.
    pub(super) async fn completed(
        &self,
        description: &ProviderEndpoints,
        tokens: &ProviderTokens,
        mut claims: Claims,
    ) -> Result<Claims> {
        let role_claim = &self.config.role_claim;
        let lacks_role = !role_claim.is_empty() && !claims.contains_key(role_claim);
        let Some(url) = &description.userinfo_endpoint else { return Ok(claims) };
        if (claims.contains_key("email") && !lacks_role) || tokens.access_token.is_empty() {
            return Ok(claims);
        }
        let bearer = format!("Bearer {}", tokens.access_token.reveal());
        let more: Claims = self.read(&self.get(url, vec![("authorization".to_owned(), bearer)]).await?)?;
        // Claims of a different subject must not be mixed in (OpenID Connect Core, 5.3.2).
        if more.get("sub") != claims.get("sub") {
            return Err(self.refused("the user info is about another user"));
        }
        // The flag for a confirmed address belongs to the address next to it.
        let has_email = claims.contains_key("email");
        if !has_email {
            claims.remove("email_verified");
        }
        for (name, value) in more {
            if !(has_email && name == "email_verified") {
                claims.entry(name).or_insert(value);
            }
        }
        Ok(claims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_messages_become_one_short_line() {
        assert_eq!(line(" <b>no\r\nset-cookie: a\u{1b}[2J "), "<b>no  set-cookie: a [2J");
        assert_eq!(line(&"ü".repeat(999)).chars().count(), TOLD_CHARS_MAX);
    }
}
