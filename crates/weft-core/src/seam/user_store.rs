//! People who sign in, and their sign-ins.

use async_trait::async_trait;

use crate::access::MemberRole;
use crate::error::Result;
use crate::id::{TenantId, UserId};
use crate::seam::tenant_store::Membership;

/// Somebody who may sign in.
#[derive(Clone, PartialEq)]
pub struct User {
    /// Its id.
    pub id: UserId,
    /// The address that they sign in with. Two users never have the same one, whatever its case.
    pub email: String,
    /// What others call them.
    pub nickname: String,
    /// The hash of their password in the PHC string format; empty for somebody without a password.
    pub password_hash: String,
    /// Whether they may sign in.
    pub enabled: bool,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// When they last signed in.
    pub signed_in_ms: Option<i64>,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("id", &self.id).field("email", &self.email).finish_non_exhaustive()
    }
}

/// What is to be changed of a user.
#[derive(Clone, Default, PartialEq)]
pub struct UserChange {
    /// Another address.
    pub email: Option<String>,
    /// Another name.
    pub nickname: Option<String>,
    /// The hash of another password.
    pub password_hash: Option<String>,
    /// Whether they may sign in.
    pub enabled: Option<bool>,
    /// When they signed in.
    pub signed_in_ms: Option<i64>,
}

/// A sign-in: what somebody may show instead of a password until it expires.
#[derive(Clone, Debug, PartialEq)]
pub struct Login {
    /// SHA-256 of what they show, in lower-case hex.
    pub hash: String,
    /// Who has signed in.
    pub user: UserId,
    /// The tenant that they work in.
    pub tenant: TenantId,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// From then on it is worth nothing.
    pub expires_ms: i64,
    /// When it was last shown, to the minute or so.
    pub last_used_ms: Option<i64>,
}

impl Login {
    /// What names it in lists. It says nothing about what is shown.
    pub fn id(&self) -> &str {
        crate::seam::token_store::hash_id(&self.hash)
    }
}

/// Where users and their sign-ins are kept.
#[async_trait]
pub trait UserStore: Send + Sync {
    /// Stores a new user with the tenants that they belong to from the beginning; all of it or nothing.
    ///
    /// # Errors
    /// `Conflict` when somebody has the address already, `Invalid` for an empty one.
    async fn add_user(&self, user: &User, memberships: &[Membership]) -> Result<()>;

    /// The user with this id.
    ///
    /// # Errors
    /// `NotFound`.
    async fn user(&self, id: &UserId) -> Result<User>;

    /// The user with this address, whatever its case.
    ///
    /// # Errors
    /// `NotFound`.
    async fn user_by_email(&self, email: &str) -> Result<User>;

    /// Changes what is named of a user, and leaves the rest as it is by then: two who change different things at the
    /// same time do not undo each other.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when somebody else has the address; `Invalid` for an empty one.
    async fn change_user(&self, id: &UserId, change: &UserChange) -> Result<()>;

    /// Users ordered by their addresses: those after `after`, at most `count_max`.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn users(&self, after: &str, count_max: u64) -> Result<Vec<User>>;

    /// Removes a user with their memberships, sign-ins and API keys.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when a tenant that has other members would be left without an owner.
    async fn remove_user(&self, id: &UserId) -> Result<()>;

    /// Stores a sign-in.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn add_login(&self, login: &Login) -> Result<()>;

    /// The sign-in with this hash, also one that has expired, with the role that its user has now in its tenant:
    /// absent when they are no member of it any more.
    ///
    /// # Errors
    /// `NotFound`, also when its user is disabled.
    async fn login(&self, hash: &str) -> Result<(Login, Option<MemberRole>)>;

    /// The sign-ins of a user, the newest first: of those behind `after`, which is a time of creation and a hash, at most
    /// `count_max` after the first `offset`.
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

    /// Notes that a sign-in was shown, and nothing else of it: whoever notes this has read the sign-in before, and its
    /// user may work in another tenant by now. One that is not there is passed over.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn login_used(&self, hash: &str, at_ms: i64) -> Result<()>;

    /// Lets the user of a sign-in work in this tenant from now on. One that is not there is passed over.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn move_login(&self, hash: &str, tenant: &TenantId) -> Result<()>;

    /// Removes sign-ins of a user: the one with this hash, or all but the one that is `kept`. How many.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn remove_logins(&self, user: &UserId, which: Logins<'_>) -> Result<u64>;

    /// Removes the sign-ins of all users that have expired before a time. How many.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn remove_expired_logins(&self, before_ms: i64) -> Result<u64>;
}

/// Which sign-ins of a user are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logins<'a> {
    /// The one with this hash.
    One(&'a str),
    /// The one with this [`Login::id`].
    Named(&'a str),
    /// All but the one with this hash.
    Others(&'a str),
    /// All.
    All,
}
