//! What is kept of sign-ins at one server, sealed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use rmcp::transport::auth::{
    AuthError, CredentialStore, StateStore, StoredAuthorizationState, StoredCredentials,
};
use serde::{Deserialize, Serialize};
use weft_core::{Error, ErrorKind, Result, Secret, changes};

use super::{CredentialPlace, LiveToken};

/// How long one process may take to have something renewed, in milliseconds: longer than it waits for the answer, and asks the
/// store to keep that.
const RENEWAL_MS: i64 = 90_000;
/// Registrations of this program that are kept for one server; then the oldest is forgotten.
const REGISTERED_MAX: usize = 8;
/// Sign-ins that have begun and not ended, at most; then the oldest is forgotten.
const BEGUN_MAX: usize = 8;
/// How often, and after how long each time, the store is asked to keep what a renewal has brought.
const SAVES_MAX: u32 = 10;
const SAVE_PAUSE: Duration = Duration::from_millis(500);

/// Everything that is kept for one server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct KeptSignIn {
    /// The server's address. For another one nothing of this is used: what people have allowed one server is sent to no other.
    pub(super) url: String,
    /// Who we are at the authorization server.
    pub(super) client: Option<KeptClient>,
    /// The authorization server at which somebody signed in last. A secret that the operator has had from it is for no other.
    pub(super) issuer: Option<String>,
    /// What it gave.
    pub(super) credentials: Option<StoredCredentials>,
    /// Who we are where we were registered, the oldest first.
    pub(super) registered: Vec<KeptClient>,
    /// How the server had asked for that: some say only there which authorization server is theirs.
    pub(super) challenge: Option<String>,
    /// Until when one process has what was given renewed, in milliseconds since 1970: others wait for it so long, since there are
    /// servers that take back everything when the token that renews is shown twice.
    pub(super) renewing_until_ms: i64,
    /// Sign-ins that wait for their person, by the state that comes back with them.
    pub(super) begun: BTreeMap<String, BegunSignIn>,
}

/// This program as a client of an authorization server.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct KeptClient {
    pub(super) id: String,
    pub(super) secret: Option<String>,
    pub(super) redirect_uri: String,
    /// The authorization server that has registered it, and for what; absent: the operator says who we are.
    #[serde(default)]
    pub(super) registration: Option<Registration>,
}

/// A registration of this program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Registration {
    pub(super) issuer: String,
    /// What it may ask for; nothing: what servers allow by themselves.
    pub(super) scopes: Vec<String>,
}

impl Registration {
    pub(super) fn at(issuer: &str, scopes: &[&str]) -> Self {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        Self { issuer: issuer.to_owned(), scopes }
    }

    /// Whether this one does as well as that.
    fn serves(&self, wanted: &Self) -> bool {
        self.issuer == wanted.issuer && wanted.scopes.iter().all(|scope| self.scopes.contains(scope))
    }
}

impl std::fmt::Debug for KeptClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptClient").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A sign-in that waits for its person.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct BegunSignIn {
    pub(super) client: KeptClient,
    pub(super) state: StoredAuthorizationState,
    /// How the server asked for it.
    pub(super) challenge: Option<String>,
    /// In milliseconds since 1970.
    pub(super) until_ms: i64,
}

impl KeptSignIn {
    pub(super) fn token(&self) -> Option<LiveToken> {
        self.credentials.as_ref().and_then(token_of)
    }

    /// Whether a token that renews was given.
    pub(super) fn can_be_renewed(&self) -> bool {
        let credentials = self.credentials.as_ref().and_then(|kept| kept.token_response.as_ref());
        let answer = credentials.and_then(|answer| serde_json::to_value(answer).ok());
        answer.is_some_and(|answer| answer.get("refresh_token").is_some_and(serde_json::Value::is_string))
    }

    /// The authorization server that a secret of the operator belongs to, if somebody has signed in there.
    pub(super) fn bound_to(&self) -> Option<&str> {
        // What was kept before that was kept has it here.
        let given = self.credentials.as_ref().and_then(|given| given.issuer.as_deref());
        self.issuer.as_deref().or(given)
    }

    /// Who we are by such a registration, with answers that are sent there.
    pub(super) fn registered(
        &self,
        wanted: &Registration,
        redirect_uri: &str,
        now_ms: i64,
    ) -> Option<&KeptClient> {
        let serves =
            |client: &&KeptClient| client.registration.as_ref().is_some_and(|made| made.serves(wanted));
        // Nobody has come back with it in time: perhaps the page knew no such client, and said so to nobody but the person.
        let is_doubtful = |client: &KeptClient| {
            self.begun.values().any(|begun| begun.client.id == client.id && begun.until_ms <= now_ms)
        };
        let mut there = self.registered.iter().rev().filter(|client| client.redirect_uri == redirect_uri);
        there.find(serves).filter(|client| !is_doubtful(client))
    }

    /// Keeps who we are where we were registered.
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

    /// Forgets a registration that its authorization server has forgotten; whether there was one.
    pub(super) fn forget(&mut self, client_id: &str) -> bool {
        let before = self.registered.len();
        self.registered.retain(|client| client.id != client_id);
        self.registered.len() < before
    }

    /// The same for a sign-in that begins, without those that are over.
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

/// The token that was given.
pub(super) fn token_of(credentials: &StoredCredentials) -> Option<LiveToken> {
    // rmcp's type of an answer hides its members behind traits of another crate; on paper it is what came.
    let answer = serde_json::to_value(credentials.token_response.as_ref()?).ok()?;
    let access = Secret::new(answer.get("access_token")?.as_str()?);
    let lasting = answer.get("expires_in").and_then(serde_json::Value::as_u64);
    let until = credentials.token_received_at.zip(lasting).map(|(at, lasting)| at.saturating_add(lasting));
    Some(LiveToken { access, until })
}

/// The credentials for one server in the store. Clones are the same.
#[derive(Clone)]
pub(super) struct CredentialRow {
    pub(super) place: CredentialPlace,
    pub(super) url: String,
}

impl CredentialRow {
    /// What is kept for the server's address, and the revision to be replaced.
    pub(super) async fn read(&self) -> Result<Option<(KeptSignIn, i64)>> {
        let Some(stored) = self.place.store.get(&self.place.key).await? else { return Ok(None) };
        let damaged = |_| {
            let message = format!("what is stored of the sign-in at `{}` is damaged", self.place.key.server);
            Error::new(ErrorKind::Garbled, message).help(self.place.remedy.clone())
        };
        let kept: KeptSignIn = serde_json::from_str(stored.sealed.reveal()).map_err(damaged)?;
        let kept = if kept.url == self.url { kept } else { KeptSignIn::default() };
        Ok(Some((kept, stored.revision)))
    }

    /// Changes what is kept, where there is anything to be changed.
    pub(super) async fn change(&self, change: impl Fn(&mut KeptSignIn) -> bool) -> Result<()> {
        changes::made("credentials of the MCP server", async || {
            // Read once more for each attempt: others may have signed in, or out.
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

    /// Puts `credentials` in the place of what was given before, unless somebody has signed in or out since.
    pub(super) async fn replace(
        &self,
        before: &StoredCredentials,
        credentials: Option<&StoredCredentials>,
    ) -> Result<()> {
        self.change(|kept| {
            let is_before = match &kept.credentials {
                Some(there) => are_same(there, before),
                // Another process has been refused what was renewed here. Where somebody has signed out, there is no client.
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

    /// Says that what was given is renewed by whoever calls this; not when somebody else is about it, or has done it.
    pub(super) async fn claim(&self, before: &StoredCredentials, now_ms: i64) -> Result<bool> {
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

    /// Takes that back: it came to nothing.
    pub(super) async fn release(&self) -> Result<()> {
        self.change(|kept| std::mem::take(&mut kept.renewing_until_ms) != 0).await
    }
}

/// The credentials that one renewal begins with, and where it puts what it brings.
#[derive(Clone)]
pub(super) struct Renewal {
    pub(super) row: CredentialRow,
    pub(super) before: StoredCredentials,
}

/// A sign-in that is about to end.
pub(super) struct Ending {
    pub(super) row: CredentialRow,
    pub(super) begun: StoredAuthorizationState,
}

#[async_trait]
impl StateStore for Ending {
    async fn save(&self, _: &str, _: StoredAuthorizationState) -> Result<(), AuthError> {
        Err(AuthError::InternalError("a sign-in that ends does not begin".to_owned()))
    }

    async fn load(&self, _: &str) -> Result<Option<StoredAuthorizationState>, AuthError> {
        Ok(Some(self.begun.clone()))
    }

    async fn delete(&self, state: &str) -> Result<(), AuthError> {
        // Asked before the code is shown: for one that is shown twice servers take back what they have given for it.
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

#[async_trait]
impl CredentialStore for Renewal {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(Some(self.before.clone()))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let mut attempts = 1;
        loop {
            match self.row.replace(&self.before, Some(&credentials)).await {
                // What was shown for it is mostly good for nothing by now: without this somebody has to sign in again.
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
        // Only as long as they are what was refused: another process may have had new ones by now.
        self.row.replace(refused, None).await.map_err(|error| told(&error))
    }
}

/// Whether both are of the same answer of an authorization server.
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
    fn what_an_older_program_has_kept_is_read_and_its_secret_is_bound_as_well() {
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
    fn registrations_have_a_limit_and_the_oldest_goes_first() {
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
