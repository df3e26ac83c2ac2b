//! Who users are at OpenID providers, and sign-ins that have begun there.

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::id::UserId;

/// Identities of one user, at most.
pub const IDENTITIES_MAX: u64 = 20;

/// That somebody at a provider is a user here. Issuer and subject say who it is; the address says nothing, since
/// providers give addresses to others.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// SHA-256 of the issuer and the subject, in lower-case hex.
    pub hash: String,
    /// Who it is here.
    pub user: UserId,
    /// The name of the provider in the settings.
    pub provider: String,
    /// The provider's own name: a URL.
    pub issuer: String,
    /// What the provider calls them.
    pub subject: String,
    /// The address that they had there when they last signed in; empty for none.
    pub email: String,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// When they last signed in with it.
    pub used_ms: Option<i64>,
}

impl Identity {
    /// What names it in lists.
    pub fn id(&self) -> &str {
        crate::seam::token_store::hash_id(&self.hash)
    }
}

/// A sign-in that has begun, while somebody is at the provider.
#[derive(Clone, PartialEq)]
pub struct AuthorizationRequest {
    /// SHA-256 of the `state` that comes back, in lower-case hex.
    pub hash: String,
    /// SHA-256 of what the browser shows that has begun it, in lower-case hex.
    pub browser_hash: String,
    /// The name of the provider in the settings.
    pub provider: String,
    /// The issuer that it was begun with.
    pub issuer: String,
    /// What the ID token has to repeat.
    pub nonce: String,
    /// What proves that the code was asked for here (PKCE).
    pub verifier: String,
    /// The page to go to then; empty for none.
    pub next: String,
    /// The user who has signed in already and wants the identity to be theirs.
    pub user: Option<UserId>,
    /// From then on it is worth nothing, in milliseconds since 1970.
    pub expires_ms: i64,
}

impl std::fmt::Debug for AuthorizationRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthorizationRequest").field("provider", &self.provider).finish_non_exhaustive()
    }
}

/// The error that a user has as many identities as may be.
pub fn too_many_identities() -> Error {
    let message = format!("an account has at most {IDENTITIES_MAX} identities at providers");
    Error::new(ErrorKind::QuotaExceeded, message).help("remove one of them before")
}

/// The error that somebody could not sign in any more.
pub fn last_identity() -> Error {
    Error::new(ErrorKind::Denied, "without this identity nobody could sign in to the account")
        .help("add another provider, or let an operator set a password")
}

/// Where identities, and sign-ins that have begun, are kept. They go with their users.
#[async_trait]
pub trait IdentityStore: Send + Sync {
    /// Stores an identity. One that the user has already stays as it is.
    ///
    /// # Errors
    /// `NotFound` for an unknown user; `Conflict` when it is another user's; `QuotaExceeded` for one more than
    /// [`IDENTITIES_MAX`].
    async fn add_identity(&self, identity: &Identity) -> Result<()>;

    /// The identity with this hash.
    ///
    /// # Errors
    /// `NotFound`.
    async fn identity(&self, hash: &str) -> Result<Identity>;

    /// The identities of a user, the oldest first, at most `count_max`.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn identities(&self, user: &UserId, count_max: u64) -> Result<Vec<Identity>>;

    /// Notes that somebody has signed in with an identity, and the address that they have there now. One that is not
    /// there is passed over.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn identity_used(&self, hash: &str, email: &str, at_ms: i64) -> Result<()>;

    /// Removes an identity of a user.
    ///
    /// # Errors
    /// `NotFound`, also for another user's; `Denied` for the last one of somebody without a password, who could not sign
    /// in any more.
    async fn remove_identity(&self, user: &UserId, hash: &str) -> Result<()>;

    /// Stores a sign-in that begins, and removes those that have expired by now.
    ///
    /// # Errors
    /// `RateLimited` when `count_max` of them are under way already.
    async fn add_authorization_request(
        &self,
        request: &AuthorizationRequest,
        now_ms: i64,
        count_max: u64,
    ) -> Result<()>;

    /// Takes a sign-in out that has begun, also one that has expired. Of several who take the same one gets it.
    ///
    /// # Errors
    /// `NotFound`.
    async fn take_authorization_request(&self, hash: &str) -> Result<AuthorizationRequest>;
}
