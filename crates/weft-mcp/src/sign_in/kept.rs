//! The stored state of sign-ins at one server, which is encrypted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::transport::auth::{
    AuthError, CredentialStore, StateStore, StoredAuthorizationState, StoredCredentials,
};
use serde::{Deserialize, Serialize};
use weft_core::{Error, ErrorKind, Result, Secret, changes};

use super::{CredentialPlace, LiveToken};

/// Time limit for one process to renew a token, in milliseconds: longer than it waits for the response and retries to
/// store it.
const RENEWAL_MS: i64 = 90_000;
/// Maximum number of stored registrations per server; then the oldest is removed.
const REGISTERED_MAX: usize = 8;
/// Maximum number of sign-ins under way; then the oldest is removed.
const BEGUN_MAX: usize = 8;
/// Number of attempts to store a renewed token, and the pause between them.
const SAVES_MAX: u32 = 10;
const SAVE_PAUSE: Duration = Duration::from_millis(500);

/// The stored state for one server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct KeptSignIn {
    /// The URL of the server. For a different one this state is not used: the authorization for one server is never
    /// sent to another.
    pub(super) url: String,
    /// The client at the authorization server.
    pub(super) client: Option<KeptClient>,
    /// The authorization server of the last sign-in. A secret that the operator has received from it is for no other.
    pub(super) issuer: Option<String>,
    /// The issued tokens.
    pub(super) credentials: Option<StoredCredentials>,
    /// Registered clients, the oldest first.
    pub(super) registered: Vec<KeptClient>,
    /// The server's challenge for this sign-in: some servers only name their authorization server there.
    pub(super) challenge: Option<String>,
    /// Deadline of a renewal under way, in milliseconds since 1970: other processes wait for it until then, because
    /// some servers revoke all tokens if a refresh token is used twice.
    pub(super) renewing_until_ms: i64,
    /// Sign-ins under way, by the state in their redirect.
    pub(super) begun: BTreeMap<String, BegunSignIn>,
}

/// This program as a client of an authorization server.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct KeptClient {
    pub(super) id: String,
    pub(super) secret: Option<String>,
    pub(super) redirect_uri: String,
    /// The registration at the authorization server; absent if the client is configured.
    #[serde(default)]
    pub(super) registration: Option<Registration>,
}

/// A client registration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Registration {
    pub(super) issuer: String,
    /// Scopes that it may request; empty: the server's defaults.
    pub(super) scopes: Vec<String>,
}

impl Registration {
    pub(super) fn at(issuer: &str, scopes: &[&str]) -> Self {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        Self { issuer: issuer.to_owned(), scopes }
    }

    /// Returns whether this registration is sufficient for `wanted`.
    fn serves(&self, wanted: &Self) -> bool {
        self.issuer == wanted.issuer && wanted.scopes.iter().all(|scope| self.scopes.contains(scope))
    }
}

impl std::fmt::Debug for KeptClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptClient").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A sign-in under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct BegunSignIn {
    pub(super) client: KeptClient,
    pub(super) state: StoredAuthorizationState,
    /// The server's challenge for it.
    pub(super) challenge: Option<String>,
    /// Deadline in milliseconds since 1970.
    pub(super) until_ms: i64,
}

impl KeptSignIn {
    pub(super) fn token(&self) -> Option<LiveToken> {
        self.credentials.as_ref().and_then(token_of)
    }

    /// Returns whether there is a refresh token.
    pub(super) fn can_be_renewed(&self) -> bool {
        let credentials = self.credentials.as_ref().and_then(|kept| kept.token_response.as_ref());
        let answer = credentials.and_then(|answer| serde_json::to_value(answer).ok());
        answer.is_some_and(|answer| answer.get("refresh_token").is_some_and(serde_json::Value::is_string))
    }

    /// Returns the authorization server to which a secret of the operator is bound, if there was a sign-in.
    pub(super) fn bound_to(&self) -> Option<&str> {
        // State from older versions only has it here.
        let given = self.credentials.as_ref().and_then(|given| given.issuer.as_deref());
        self.issuer.as_deref().or(given)
    }

    /// Returns a registered client that is sufficient and has this redirect URI.
    pub(super) fn registered(
        &self,
        wanted: &Registration,
        redirect_uri: &str,
        now_ms: i64,
    ) -> Option<&KeptClient> {
        let serves =
            |client: &&KeptClient| client.registration.as_ref().is_some_and(|made| made.serves(wanted));
        // A sign-in with it was not completed in time: perhaps the authorization server no longer knew the client,
        // which only the person was shown.
        let is_doubtful = |client: &KeptClient| {
            self.begun.values().any(|begun| begun.client.id == client.id && begun.until_ms <= now_ms)
        };
        let mut there = self.registered.iter().rev().filter(|client| client.redirect_uri == redirect_uri);
        there.find(serves).filter(|client| !is_doubtful(client))
    }

    /// Stores a registered client.
    pub(super) fn remember(&mut self, client: &KeptClient) {
        let Some(made) = &client.registration else { return };
        self.registered.retain(|known| {
            let is_replaced = known.registration.as_ref().is_some_and(|known| known.issuer == made.issuer);
            known.redirect_uri != client.redirect_uri || !is_replaced
        });
        if self.registered.len() >= REGISTERED_MAX {
            self.registered.remove(0);
        }
        self.registered.push(client.clone());
    }

    /// Removes a registration that its authorization server has forgotten. Returns whether there was one.
    pub(super) fn forget(&mut self, client_id: &str) -> bool {
        let before = self.registered.len();
        self.registered.retain(|client| client.id != client_id);
        self.registered.len() < before
    }

    /// Adds a sign-in that starts, and removes expired ones.
    pub(super) fn begin(&mut self, state: &str, begun: BegunSignIn, now_ms: i64) {
        self.begun.retain(|_, other| other.until_ms > now_ms);
        while self.begun.len() >= BEGUN_MAX {
            let oldest =
                self.begun.iter().min_by_key(|(_, other)| other.until_ms).map(|(state, _)| state.clone());
            match oldest {
                Some(state) => self.begun.remove(&state),
                None => break,
            };
        }
        self.begun.insert(state.to_owned(), begun);
    }
}

/// Returns the issued token.
pub(super) fn token_of(credentials: &StoredCredentials) -> Option<LiveToken> {
    // rmcp's type hides its members behind traits of another crate; its JSON has them as received.
    let answer = serde_json::to_value(credentials.token_response.as_ref()?).ok()?;
    let access = Secret::new(answer.get("access_token")?.as_str()?);
    let lasting = answer.get("expires_in").and_then(serde_json::Value::as_u64);
    let until = credentials.token_received_at.zip(lasting).map(|(at, lasting)| at.saturating_add(lasting));
    Some(LiveToken { access, until })
}

/// The credentials for one server in the store. Clones share the same state.
#[derive(Clone)]
pub(super) struct CredentialRow {
    pub(super) place: CredentialPlace,
    pub(super) url: String,
}

impl CredentialRow {
    /// Reads the state for the server's URL, and the revision to replace.
    pub(super) async fn read(&self) -> Result<Option<(KeptSignIn, i64)>> {
        let Some(stored) = self.place.store.get(&self.place.key).await? else { return Ok(None) };
        let damaged = |_| {
            let message = format!("the stored data of the sign-in at `{}` is damaged", self.place.key.server);
            Error::new(ErrorKind::Garbled, message).help(self.place.remedy.clone())
        };
        let kept: KeptSignIn = serde_json::from_str(stored.sealed.reveal()).map_err(damaged)?;
        let kept = if kept.url == self.url { kept } else { KeptSignIn::default() };
        Ok(Some((kept, stored.revision)))
    }

    /// Changes the state, unless `change` returns false.
    pub(super) async fn change(&self, change: impl Fn(&mut KeptSignIn) -> bool) -> Result<()> {
        changes::made("credentials of the MCP server", async || {
            // Read again on each attempt: another process may have signed in or out.
            let (mut kept, revision) = self.read().await?.unwrap_or_default();
            if !change(&mut kept) {
                return Ok(Some(()));
            }
            kept.url.clone_from(&self.url);
            let text = serde_json::to_string(&kept)
                .map_err(|cause| Error::internal("cannot write credentials").because(cause))?;
            let put = self.place.store.put(&self.place.key, &Secret::new(text), revision).await?;
            Ok::<_, Error>(put.then_some(()))
        })
        .await
    }

    /// Replaces the tokens `before` by `credentials`, unless there was a sign-in or sign-out since.
    pub(super) async fn replace(
        &self,
        before: &StoredCredentials,
        credentials: Option<&StoredCredentials>,
    ) -> Result<()> {
        self.change(|kept| {
            let is_before = match &kept.credentials {
                Some(there) => are_same(there, before),
                // Another process was refused the tokens that were renewed here. After a sign-out there is no client.
                None => kept.client.as_ref().is_some_and(|client| client.id == before.client_id),
            };
            if is_before {
                if kept.issuer.is_none() {
                    kept.issuer.clone_from(&before.issuer);
                }
                kept.credentials = credentials.cloned();
                kept.renewing_until_ms = 0;
            }
            is_before
        })
        .await
    }

    /// Claims the renewal of these tokens for the caller. Returns false if another process has claimed it or has
    /// already renewed them.
    pub(super) async fn claim(&self, before: &StoredCredentials, now_ms: i64) -> Result<bool> {
        // Set from within, because the change may be tried several times and returns only whether to write.
        let is_claimed = AtomicBool::default();
        let claim = |kept: &mut KeptSignIn| {
            let is_same = kept.credentials.as_ref().is_some_and(|there| are_same(there, before));
            let is_free = is_same && kept.renewing_until_ms <= now_ms;
            if is_free {
                kept.renewing_until_ms = now_ms.saturating_add(RENEWAL_MS);
            }
            is_claimed.store(is_free, Ordering::Relaxed);
            is_free
        };
        self.change(claim).await?;
        Ok(is_claimed.load(Ordering::Relaxed))
    }

    /// Releases the claim after a failure.
    pub(super) async fn release(&self) -> Result<()> {
        self.change(|kept| std::mem::take(&mut kept.renewing_until_ms) != 0).await
    }
}

/// The credentials from which a renewal starts, and where it stores the result.
#[derive(Clone)]
pub(super) struct Renewal {
    pub(super) row: CredentialRow,
    pub(super) before: StoredCredentials,
}

/// A sign-in that is being completed.
pub(super) struct EndingSignIn {
    pub(super) row: CredentialRow,
    pub(super) begun: StoredAuthorizationState,
}

#[async_trait::async_trait]
impl StateStore for EndingSignIn {
    async fn save(&self, _: &str, _: StoredAuthorizationState) -> Result<(), AuthError> {
        Err(AuthError::InternalError("a sign-in that ends does not begin".to_owned()))
    }

    async fn load(&self, _: &str) -> Result<Option<StoredAuthorizationState>, AuthError> {
        Ok(Some(self.begun.clone()))
    }

    async fn delete(&self, state: &str) -> Result<(), AuthError> {
        // Taken before the code is used: servers revoke the issued tokens if a code is used twice.
        let was_there = AtomicBool::default();
        let take = |kept: &mut KeptSignIn| {
            let is_there = kept.begun.remove(state).is_some();
            was_there.store(is_there, Ordering::Relaxed);
            is_there
        };
        self.row.change(take).await.map_err(|error| told(&error))?;
        if was_there.load(Ordering::Relaxed) {
            Ok(())
        } else {
            Err(AuthError::AuthorizationFailed("it has ended already".to_owned()))
        }
    }
}

fn told(error: &Error) -> AuthError {
    AuthError::CredentialStoreError(error.full())
}

#[async_trait::async_trait]
impl CredentialStore for Renewal {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(Some(self.before.clone()))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let mut attempts = 1;
        loop {
            match self.row.replace(&self.before, Some(&credentials)).await {
                // The old refresh token is mostly invalid by now, so without this a new sign-in would be necessary.
                Err(_) if attempts < SAVES_MAX => attempts += 1,
                saved => return saved.map_err(|error| told(&error)),
            }
            tokio::time::sleep(SAVE_PAUSE).await;
        }
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.row.replace(&self.before, None).await.map_err(|error| told(&error))
    }

    async fn on_refresh_token_rejected(&self, refused: &StoredCredentials) -> Result<(), AuthError> {
        // Only while they are the refused ones: another process may have renewed them by now.
        self.row.replace(refused, None).await.map_err(|error| told(&error))
    }
}

/// Returns whether both come from the same response of an authorization server.
pub(super) fn are_same(one: &StoredCredentials, other: &StoredCredentials) -> bool {
    let answer = |of: &StoredCredentials| serde_json::to_value(&of.token_response).ok();
    (one.token_received_at, &one.client_id) == (other.token_received_at, &other.client_id)
        && answer(one) == answer(other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn credentials_of_an_older_version_are_read_and_their_secret_is_bound() {
        let older = json!({
            "url": "https://tools.example/mcp", "challenge": null, "renewing_until_ms": 0, "begun": {},
            "client": {"id": "c", "secret": "s3cret", "redirect_uri": "http://127.0.0.1:9/callback"},
            "credentials": {"client_id": "c", "issuer": "https://auth.example",
                "token_response": {"access_token": "t", "token_type": "bearer"}},
        });
        let kept: KeptSignIn = serde_json::from_value(older).unwrap();
        assert_eq!(kept.bound_to(), Some("https://auth.example"));
        assert!(kept.client.is_some_and(|client| client.registration.is_none()));
    }

    #[test]
    fn registrations_are_limited_and_the_oldest_is_removed_first() {
        let mut kept = KeptSignIn::default();
        let client = |number: usize| KeptClient {
            id: format!("client-{number}"),
            secret: None,
            redirect_uri: format!("http://127.0.0.1:{number}/callback"),
            registration: Some(Registration::at("https://auth.example", &["a"])),
        };
        for number in 0..=REGISTERED_MAX {
            kept.remember(&client(number));
        }
        let ids: Vec<&str> = kept.registered.iter().map(|client| client.id.as_str()).collect();
        assert_eq!((ids.len(), ids[0]), (REGISTERED_MAX, "client-1"));
        let wanted = |scope: &str| Registration::at("https://auth.example", &[scope]);
        let there = |wanted: &Registration| kept.registered(wanted, "http://127.0.0.1:3/callback", 0);
        assert!(there(&wanted("a")).is_some_and(|client| client.id == "client-3"));
        assert!(there(&wanted("b")).is_none());
        assert!(there(&Registration::at("https://other.example", &[])).is_none());
    }
}
