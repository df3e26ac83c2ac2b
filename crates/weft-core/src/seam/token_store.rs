//! API tokens.

use weft_macros::async_trait;

use crate::access::MemberRole;
use crate::error::Result;
use crate::id::{TenantId, UserId};

/// A token as stored: never the token itself.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredToken {
    /// The tenant it belongs to.
    pub tenant: TenantId,
    /// SHA-256 of the token, in lower-case hex.
    pub hash: String,
    /// Its name.
    pub name: String,
    /// The maximum role that it grants.
    pub role: MemberRole,
    /// The user who created it. It grants no more than their current role, and nothing once they are no longer a
    /// member. Absent for tokens created on the command line or at the first start.
    pub user: Option<UserId>,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it was last used, to within about a minute; absent if it never was.
    pub last_used_ms: Option<i64>,
}

/// Number of characters of a hash that form the displayed id. They reveal nothing about the token itself.
pub(super) const ID_CHARS: usize = 12;

/// Returns the part of a hash that identifies its token in lists.
pub fn hash_id(hash: &str) -> &str {
    hash.get(..ID_CHARS).unwrap_or(hash)
}

impl StoredToken {
    /// Returns the id that lists show.
    pub fn id(&self) -> &str {
        hash_id(&self.hash)
    }
}

/// Which tokens to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenFilter {
    /// Only those of this tenant.
    pub tenant: Option<TenantId>,
    /// Only those created by this user.
    pub user: Option<UserId>,
    /// Only those with this name or id.
    pub name: Option<String>,
    /// Only those after this place in the list, given by creation time and hash. Does not affect the total count.
    pub after: Option<(i64, String)>,
    /// How many to skip.
    pub offset: u64,
    /// Maximum number to return.
    pub limit: u64,
}

/// Stores API tokens.
#[async_trait]
pub trait TokenStore: Send + Sync {
    /// Stores a token.
    ///
    /// # Errors
    /// `Conflict` when its hash already exists; `QuotaExceeded` for one too many.
    async fn add(&self, token: &StoredToken) -> Result<()>;

    /// Returns the token with this hash.
    ///
    /// # Errors
    /// `NotFound`.
    async fn find(&self, hash: &str) -> Result<StoredToken>;

    /// Records that a token was used. The recorded time never goes back. A missing token is ignored.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn used(&self, hash: &str, at_ms: i64) -> Result<()>;

    /// Returns tokens that match a filter, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list(&self, filter: &TokenFilter) -> Result<Vec<StoredToken>>;

    /// Returns the number of tokens that match a filter, ignoring its offset and limit.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn total(&self, filter: &TokenFilter) -> Result<u64>;

    /// Removes a token; it is no longer valid then.
    ///
    /// # Errors
    /// `NotFound`, also for one of another tenant.
    async fn remove(&self, tenant: &TenantId, hash: &str) -> Result<()>;

    /// Returns the number of tokens across all tenants; 0 indicates the first start.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn count(&self) -> Result<u64>;
}
