//! Tenants, who belongs to them, and who is invited.

use async_trait::async_trait;

use crate::access::MemberRole;
use crate::error::{Error, ErrorKind, Result};
use crate::id::{TenantId, UserId};
use crate::seam::user_store::User;

/// Invitations of one tenant that are open at a time.
pub const INVITATIONS_MAX: u64 = 1_000;

/// Why there is no room for another invitation.
pub fn too_many_invitations() -> Error {
    Error::new(ErrorKind::QuotaExceeded, format!("the tenant has {INVITATIONS_MAX} open invitations"))
        .help("take back those that nobody accepts")
}

/// A tenant: everything that is kept belongs to one.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// Its id.
    pub id: TenantId,
    /// What people call it.
    pub name: String,
    /// Milliseconds since 1970.
    pub created_ms: i64,
}

/// That somebody belongs to a tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct Membership {
    /// The tenant.
    pub tenant: TenantId,
    /// Who.
    pub user: UserId,
    /// What they may do there.
    pub role: MemberRole,
    /// Since when, in milliseconds since 1970.
    pub created_ms: i64,
}

/// That somebody is asked to join a tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct Invitation {
    /// SHA-256 of the secret of the invitation, in lower-case hex.
    pub hash: String,
    /// The tenant.
    pub tenant: TenantId,
    /// The address of whoever is invited, in lower case.
    pub email: String,
    /// What they may do there.
    pub role: MemberRole,
    /// Who has invited them: a user or a token.
    pub invited_by: String,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// From then on it is worth nothing.
    pub expires_ms: i64,
}

impl Invitation {
    /// What names it in lists. It says nothing about its secret.
    pub fn id(&self) -> &str {
        crate::seam::token_store::hash_id(&self.hash)
    }
}

/// How many people belong to a tenant, or may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberCounts {
    /// Its members.
    pub members: u64,
    /// Its invitations.
    pub invitations: u64,
}

/// Where tenants, memberships and invitations are kept.
#[async_trait]
pub trait TenantStore: Send + Sync {
    /// Stores a tenant unless there is one with its id.
    ///
    /// # Errors
    /// `Invalid` for an id that cannot be stored.
    async fn add_tenant(&self, tenant: &Tenant) -> Result<()>;

    /// The tenant with this id.
    ///
    /// # Errors
    /// `NotFound`.
    async fn tenant(&self, id: &TenantId) -> Result<Tenant>;

    /// Tenants ordered by their ids: those after `after`, at most `count_max`.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn tenants(&self, after: Option<&TenantId>, count_max: u64) -> Result<Vec<Tenant>>;

    /// Takes away what lets anybody, or anything, begin something in a tenant: API keys, share tokens, invitations, schedules, work
    /// that waits, and all members with their sign-ins but the owners, who may yet have to ask again for its removal.
    ///
    /// # Errors
    /// `NotFound`.
    async fn close_tenant(&self, id: &TenantId) -> Result<()>;

    /// Removes a tenant with every row that is kept of it, whatever it is: members, invitations, sign-ins and API keys
    /// there, agents, conversations, runs, what they have used, the audit log. What lies elsewhere, such as files and
    /// indexes, is for the caller to remove before. Users stay.
    ///
    /// # Errors
    /// `NotFound`, and `Conflict` while a run of it is under way; nothing is removed then.
    async fn remove_tenant(&self, id: &TenantId) -> Result<()>;

    /// What a user is in a tenant.
    ///
    /// # Errors
    /// `NotFound`.
    async fn membership(&self, tenant: &TenantId, user: &UserId) -> Result<Membership>;

    /// The tenants of a user, the one with the greatest role first and then the oldest.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn memberships(&self, user: &UserId) -> Result<Vec<Membership>>;

    /// The members of a tenant with their users, the oldest first: `offset` are passed over, then come `count_max` at most.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn members(
        &self,
        tenant: &TenantId,
        offset: u64,
        count_max: u64,
    ) -> Result<Vec<(Membership, User)>>;

    /// How many members and invitations a tenant has.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn member_counts(&self, tenant: &TenantId) -> Result<MemberCounts>;

    /// Gives a member another role. Nobody becomes a member by it, also somebody who was one a moment ago.
    ///
    /// # Errors
    /// `NotFound` for somebody who is no member; `Conflict` when the tenant would be left without an owner.
    async fn set_role(&self, tenant: &TenantId, user: &UserId, role: MemberRole) -> Result<()>;

    /// Removes a member with their sign-ins and API keys there.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when the tenant has other members and would be left without an owner.
    async fn remove_member(&self, tenant: &TenantId, user: &UserId) -> Result<()>;

    /// Stores an invitation. An older one of the same tenant for the same address is replaced, and those that have expired by
    /// then go.
    ///
    /// # Errors
    /// `NotFound` for an unknown tenant; `QuotaExceeded` for one more than [`INVITATIONS_MAX`].
    async fn add_invitation(&self, invitation: &Invitation) -> Result<()>;

    /// The invitation with this hash, also one that has expired.
    ///
    /// # Errors
    /// `NotFound`.
    async fn invitation(&self, hash: &str) -> Result<Invitation>;

    /// The invitations of a tenant, the oldest first: `offset` are passed over, then come `count_max` at most.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn invitations(&self, tenant: &TenantId, offset: u64, count_max: u64) -> Result<Vec<Invitation>>;

    /// The invitations for an address, whatever its case, the oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn invitations_for(&self, email: &str) -> Result<Vec<Invitation>>;

    /// Makes the invited user a member and removes the invitation; stores the user when they are `new`. All of it
    /// or nothing: of several who accept the same invitation one succeeds. Somebody who is a member already keeps
    /// the greater role.
    ///
    /// # Errors
    /// `NotFound` when the invitation is gone, or the user is unknown and not new; `Conflict` when a new user's
    /// address is taken.
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

/// Who accepts an invitation.
#[derive(Clone, Copy, Debug)]
pub enum Joining<'a> {
    /// Somebody who is stored with it.
    New(&'a User),
    /// Somebody who is known.
    Known(&'a UserId),
}
