//! Users and their sign-ins.

use weft_macros::async_trait;

use crate::access::{MemberRole, Membership};
use crate::error::Result;
use crate::id::{TenantId, UserId};

/// Maximum number of sign-ins of one user. A further one ends the oldest: a program that signs in for each call would
/// otherwise fill the store until they expire.
pub const LOGINS_MAX: u64 = 500;

/// A user who may sign in.
#[derive(Clone, PartialEq)]
pub struct User {
    /// Its id.
    pub id: UserId,
    /// The e-mail address they sign in with, unique among users, ignoring case.
    pub email: String,
    /// Their display name.
    pub nickname: String,
    /// The hash of their password in the PHC string format; empty if they have no password.
    pub password_hash: String,
    /// Whether they may sign in.
    pub enabled: bool,
    /// When they were created, in milliseconds since 1970.
    pub created_ms: i64,
    /// When they last signed in, in milliseconds since 1970.
    pub signed_in_ms: Option<i64>,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("id", &self.id).field("email", &self.email).finish_non_exhaustive()
    }
}

/// Changes to a user. Absent values stay as they are.
#[derive(Clone, Default, PartialEq)]
pub struct UserChange {
    /// The new address.
    pub email: Option<String>,
    /// The new name.
    pub nickname: Option<String>,
    /// The hash of the new password.
    pub password_hash: Option<String>,
    /// Whether they may sign in.
    pub enabled: Option<bool>,
    /// When they signed in.
    pub signed_in_ms: Option<i64>,
}

/// A sign-in: what a user presents instead of a password until it expires.
#[derive(Clone, Debug, PartialEq)]
pub struct Login {
    /// SHA-256 of the presented secret, in lower-case hex.
    pub hash: String,
    /// The user who signed in.
    pub user: UserId,
    /// The tenant they work in.
    pub tenant: TenantId,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it expires, in milliseconds since 1970.
    pub expires_ms: i64,
    /// When it was last used, to within about a minute.
    pub last_used_ms: Option<i64>,
}

impl Login {
    /// Returns the id that lists show. It reveals nothing about the secret.
    pub fn id(&self) -> &str {
        crate::seam::token_store::hash_id(&self.hash)
    }
}

/// Stores users and their sign-ins.
#[async_trait]
pub trait UserStore: Send + Sync {
    /// Stores a new user with their initial memberships, atomically.
    ///
    /// # Errors
    /// `Conflict` when the address is taken, `Invalid` when it is empty.
    async fn add_user(&self, user: &User, memberships: &[Membership]) -> Result<()>;

    /// Returns the user with this id.
    ///
    /// # Errors
    /// `NotFound`.
    async fn user(&self, id: &UserId) -> Result<User>;

    /// Returns the user with this address, ignoring case.
    ///
    /// # Errors
    /// `NotFound`.
    async fn user_by_email(&self, email: &str) -> Result<User>;

    /// Changes the given properties of a user and leaves the others at their current values, so that concurrent
    /// changes of different properties do not undo each other.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when another user has the address; `Invalid` when it is empty.
    async fn change_user(&self, id: &UserId, change: &UserChange) -> Result<()>;

    /// Returns up to `count_max` users after `after`, ordered by address.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn users(&self, after: &str, count_max: u64) -> Result<Vec<User>>;

    /// Removes a user with their memberships, sign-ins and API keys.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` for the last owner of a tenant that has other members.
    async fn remove_user(&self, id: &UserId) -> Result<()>;

    /// Stores a sign-in, and removes the oldest ones of its user beyond [`LOGINS_MAX`].
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn add_login(&self, login: &Login) -> Result<()>;

    /// Returns the sign-in with this hash, even if it has expired, with the current role of its user in its tenant;
    /// `None` for the role if they are no longer a member.
    ///
    /// # Errors
    /// `NotFound`, also when its user is disabled.
    async fn login(&self, hash: &str) -> Result<(Login, Option<MemberRole>)>;

    /// Returns the sign-ins of a user, newest first: up to `count_max` of those after `after` (a creation time and a
    /// hash), after skipping `offset`.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn logins(
        &self,
        user: &UserId,
        after: Option<(i64, &str)>,
        offset: u64,
        count_max: u64,
    ) -> Result<Vec<Login>>;

    /// Records that a sign-in was used, unless a later use is recorded already, and changes nothing else about it:
    /// the caller has read the sign-in earlier, and its user may work in another tenant by now. A missing one is
    /// ignored.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn login_used(&self, hash: &str, at_ms: i64) -> Result<()>;

    /// Switches a sign-in to another tenant. A missing one is ignored.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn move_login(&self, hash: &str, tenant: &TenantId) -> Result<()>;

    /// Removes sign-ins of a user, as selected by `which`. Returns how many were removed.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn remove_logins(&self, user: &UserId, which: Logins<'_>) -> Result<u64>;

    /// Removes the sign-ins of all users that expired before a time. Returns how many were removed.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn remove_expired_logins(&self, before_ms: i64) -> Result<u64>;
}

/// Selects sign-ins of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logins<'a> {
    /// The sign-in with this hash.
    One(&'a str),
    /// The sign-in with this [`Login::id`].
    Named(&'a str),
    /// All except the one with this hash.
    Others(&'a str),
    /// All sign-ins.
    All,
}
