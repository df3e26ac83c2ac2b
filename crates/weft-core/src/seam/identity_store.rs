//! Identities of users at OpenID providers, and sign-ins in progress there.

use weft_macros::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::id::UserId;

/// Maximum number of identities of one user.
pub const IDENTITIES_MAX: u64 = 20;

/// Links an account at a provider to a user. Issuer and subject identify the account; its e-mail address does not,
/// because providers reassign addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// SHA-256 of the issuer and the subject, in lower-case hex.
    pub hash: String,
    /// The user.
    pub user: UserId,
    /// The name of the provider in the settings.
    pub provider: String,
    /// The provider's issuer identifier: a URL.
    pub issuer: String,
    /// The provider's identifier of the account.
    pub subject: String,
    /// The e-mail address of the account at the last sign-in; empty if it had none.
    pub email: String,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it was last used to sign in, in milliseconds since 1970.
    pub used_ms: Option<i64>,
}

impl Identity {
    /// Returns the id that lists show.
    pub fn id(&self) -> &str {
        crate::seam::token_store::hash_id(&self.hash)
    }
}

/// A sign-in in progress, while the user is at the provider.
#[derive(Clone, PartialEq)]
pub struct AuthorizationRequest {
    /// SHA-256 of the `state` that the provider returns, in lower-case hex.
    pub hash: String,
    /// SHA-256 of the secret held by the browser that started it, in lower-case hex.
    pub browser_hash: String,
    /// The name of the provider in the settings.
    pub provider: String,
    /// The issuer it was started with.
    pub issuer: String,
    /// The nonce that the ID token must contain.
    pub nonce: String,
    /// The PKCE verifier, which proves that the code was requested here.
    pub verifier: String,
    /// The page to go to afterwards; empty if there is none.
    pub next: String,
    /// The signed-in user who wants to add the identity to their account, if any.
    pub user: Option<UserId>,
    /// When it expires, in milliseconds since 1970.
    pub expires_ms: i64,
}

impl std::fmt::Debug for AuthorizationRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthorizationRequest").field("provider", &self.provider).finish_non_exhaustive()
    }
}

/// The error for a user who has the maximum number of identities.
pub fn too_many_identities() -> Error {
    let message = format!("an account has at most {IDENTITIES_MAX} identities at providers");
    Error::new(ErrorKind::QuotaExceeded, message).help("remove one of them first")
}

/// The error for removing an identity without which the user could no longer sign in.
pub fn last_identity() -> Error {
    Error::new(ErrorKind::Denied, "without this identity nobody could sign in to the account")
        .help("add another provider, or let an operator set a password")
}

/// Stores identities and sign-ins in progress. They are deleted with their users.
#[async_trait]
pub trait IdentityStore: Send + Sync {
    /// Stores an identity. One that the user already has stays as it is.
    ///
    /// # Errors
    /// `NotFound` for an unknown user; `Conflict` when it belongs to another user; `QuotaExceeded` if there would be
    /// more than [`IDENTITIES_MAX`].
    async fn add_identity(&self, identity: &Identity) -> Result<()>;

    /// Returns the identity with this hash.
    ///
    /// # Errors
    /// `NotFound`.
    async fn identity(&self, hash: &str) -> Result<Identity>;

    /// Returns up to `count_max` identities of a user, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn identities(&self, user: &UserId, count_max: u64) -> Result<Vec<Identity>>;

    /// Records that an identity was used to sign in, with its current e-mail address. A missing one is ignored.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn identity_used(&self, hash: &str, email: &str, at_ms: i64) -> Result<()>;

    /// Removes an identity of a user.
    ///
    /// # Errors
    /// `NotFound`, also for another user's; `Denied` for the last identity of a user without a password, who could no
    /// longer sign in.
    async fn remove_identity(&self, user: &UserId, hash: &str) -> Result<()>;

    /// Stores a sign-in in progress, and removes expired ones.
    ///
    /// # Errors
    /// `RateLimited` when there are already `count_max` of them.
    async fn add_authorization_request(
        &self,
        request: &AuthorizationRequest,
        now_ms: i64,
        count_max: u64,
    ) -> Result<()>;

    /// Removes and returns a sign-in in progress, even if it has expired. Of several concurrent callers, only one
    /// gets it.
    ///
    /// # Errors
    /// `NotFound`.
    async fn take_authorization_request(&self, hash: &str) -> Result<AuthorizationRequest>;
}
