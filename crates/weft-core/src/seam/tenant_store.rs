//! Tenants, their members, and invitations.

use weft_macros::async_trait;

use crate::access::MemberRole;
use crate::error::{Error, ErrorKind, Result};
use crate::id::{TenantId, UserId};
use crate::seam::user_store::User;

pub use crate::access::Membership;

/// Maximum number of open invitations of one tenant.
pub const INVITATIONS_MAX: u64 = 1_000;

/// The error for a tenant that has no room for another invitation.
pub fn too_many_invitations() -> Error {
    Error::new(ErrorKind::QuotaExceeded, format!("the tenant has {INVITATIONS_MAX} open invitations"))
        .help("withdraw those that nobody accepts")
}

/// A tenant. All stored data belongs to one.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// Its id.
    pub id: TenantId,
    /// What people call it.
    pub name: String,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
}

/// An invitation to join a tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct Invitation {
    /// SHA-256 of the invitation's secret, in lower-case hex.
    pub hash: String,
    /// The tenant.
    pub tenant: TenantId,
    /// The e-mail address of the invited person, in lower case.
    pub email: String,
    /// Their role once they join.
    pub role: MemberRole,
    /// Who invited them: a user or a token.
    pub invited_by: String,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it expires, in milliseconds since 1970.
    pub expires_ms: i64,
}

impl Invitation {
    /// Returns the id that lists show. It reveals nothing about the secret.
    pub fn id(&self) -> &str {
        crate::seam::token_store::hash_id(&self.hash)
    }
}

/// The number of members of a tenant, and of people who may become members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberCounts {
    /// Its members.
    pub members: u64,
    /// Its invitations.
    pub invitations: u64,
}

/// Stores tenants, memberships and invitations.
#[async_trait]
pub trait TenantStore: Send + Sync {
    /// Stores a tenant unless one with its id exists.
    ///
    /// # Errors
    /// `Invalid` for an id that cannot be stored.
    async fn add_tenant(&self, tenant: &Tenant) -> Result<()>;

    /// Returns the tenant with this id.
    ///
    /// # Errors
    /// `NotFound`.
    async fn tenant(&self, id: &TenantId) -> Result<Tenant>;

    /// Returns up to `count_max` tenants after `after`, ordered by id.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn tenants(&self, after: Option<&TenantId>, count_max: u64) -> Result<Vec<Tenant>>;

    /// Changes what people call a tenant.
    ///
    /// # Errors
    /// `NotFound`.
    async fn rename_tenant(&self, id: &TenantId, name: &str) -> Result<()>;

    /// Removes everything that could start anything in a tenant: API keys, share tokens, invitations, schedules,
    /// queued work, and all members with their sign-ins except the owners, who may have to request its removal again.
    ///
    /// # Errors
    /// `NotFound`.
    async fn close_tenant(&self, id: &TenantId) -> Result<()>;

    /// Removes a tenant with every row stored for it, of whatever kind: members, invitations, its sign-ins and API
    /// keys, agents, conversations, runs and their usage, the audit log. The caller must first remove what is stored
    /// elsewhere, such as files and indexes. Users stay.
    ///
    /// # Errors
    /// `NotFound`, and `Conflict` while one of its runs is in progress; nothing is removed then.
    async fn remove_tenant(&self, id: &TenantId) -> Result<()>;

    /// Returns the membership of a user in a tenant.
    ///
    /// # Errors
    /// `NotFound`.
    async fn membership(&self, tenant: &TenantId, user: &UserId) -> Result<Membership>;

    /// Returns the memberships of a user, those with the highest role first and then the oldest.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn memberships(&self, user: &UserId) -> Result<Vec<Membership>>;

    /// Returns the members of a tenant with their users, oldest first: up to `count_max`, after skipping `offset`.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn members(
        &self,
        tenant: &TenantId,
        offset: u64,
        count_max: u64,
    ) -> Result<Vec<(Membership, User)>>;

    /// Returns the number of members and invitations of a tenant.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn member_counts(&self, tenant: &TenantId) -> Result<MemberCounts>;

    /// Changes the role of a member. This never adds a member, not even one who was removed a moment ago.
    ///
    /// # Errors
    /// `NotFound` for a user who is not a member; `Conflict` when the tenant would be left without an owner.
    async fn set_role(&self, tenant: &TenantId, user: &UserId, role: MemberRole) -> Result<()>;

    /// Removes a member with their sign-ins and API keys there.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` for the last owner of a tenant that has other members.
    async fn remove_member(&self, tenant: &TenantId, user: &UserId) -> Result<()>;

    /// Stores an invitation. It replaces an older one of the same tenant for the same address; expired ones are
    /// removed.
    ///
    /// # Errors
    /// `NotFound` for an unknown tenant; `QuotaExceeded` if there would be more than [`INVITATIONS_MAX`].
    async fn add_invitation(&self, invitation: &Invitation) -> Result<()>;

    /// Returns the invitation with this hash, even if it has expired.
    ///
    /// # Errors
    /// `NotFound`.
    async fn invitation(&self, hash: &str) -> Result<Invitation>;

    /// Returns the invitations of a tenant, oldest first: up to `count_max`, after skipping `offset`.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn invitations(&self, tenant: &TenantId, offset: u64, count_max: u64) -> Result<Vec<Invitation>>;

    /// Returns the invitations for an address, ignoring case, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn invitations_for(&self, email: &str) -> Result<Vec<Invitation>>;

    /// Makes the invited user a member and removes the invitation; also stores the user if they are new. Atomic: of
    /// several concurrent attempts to accept the same invitation, only one succeeds. A user who is already a member
    /// keeps the higher role.
    ///
    /// # Errors
    /// `NotFound` when the invitation no longer exists, or the user is unknown and not new; `Conflict` when a new
    /// user's address is taken.
    async fn accept_invitation(
        &self,
        invitation: &Invitation,
        joining: Joining<'_>,
        at_ms: i64,
    ) -> Result<()>;

    /// Removes an invitation.
    ///
    /// # Errors
    /// `NotFound`, also for one of another tenant.
    async fn remove_invitation(&self, tenant: &TenantId, hash: &str) -> Result<()>;
}

/// The user who accepts an invitation.
#[derive(Clone, Copy, Debug)]
pub enum Joining<'a> {
    /// A new user, who is stored as well.
    New(&'a User),
    /// An existing user.
    Known(&'a UserId),
}
