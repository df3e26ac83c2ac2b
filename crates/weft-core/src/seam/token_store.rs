//! API tokens.

use async_trait::async_trait;

use crate::access::MemberRole;
use crate::error::Result;
use crate::id::{TenantId, UserId};

/// A token as stored: never the token itself.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredToken {
    /// Whose.
    pub tenant: TenantId,
    /// SHA-256 of the token, in lower-case hex.
    pub hash: String,
    /// What people call it.
    pub name: String,
    /// What whoever shows it may do at most.
    pub role: MemberRole,
    /// Who has made it: it may do no more than they may, and nothing once they are no member any more. Absent for
    /// one that was made on the command line or at the first start.
    pub user: Option<UserId>,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// When somebody last showed it, to the minute or so; absent while nobody has.
    pub last_used_ms: Option<i64>,
}

/// Characters of a hash that name a token to people. They say nothing about the token itself.
const ID_CHARS: usize = 12;

/// The part of a hash that names what it is of.
pub fn hash_id(hash: &str) -> &str {
    hash.get(..ID_CHARS).unwrap_or(hash)
}

impl StoredToken {
    /// What names the token in lists.
    pub fn id(&self) -> &str {
        hash_id(&self.hash)
    }
}

/// Which tokens to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenFilter {
    /// Only those of this tenant.
    pub tenant: Option<TenantId>,
    /// Only those that this user has made.
    pub user: Option<UserId>,
    /// Only those that are called this, or have it as their id.
    pub name: Option<String>,
    /// Only those behind this place in the list, which is a time of creation and a hash. All of them count.
    pub after: Option<(i64, String)>,
    /// How many to pass over.
    pub offset: u64,
    /// How many at most.
    pub limit: u64,
}

/// Where API tokens are kept.
#[async_trait]
pub trait TokenStore: Send + Sync {
    /// Stores a token.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn add(&self, token: &StoredToken) -> Result<()>;

    /// The token with this hash.
    ///
    /// # Errors
    /// `NotFound`.
    async fn find(&self, hash: &str) -> Result<StoredToken>;

    /// Notes that a token was shown. A time never goes back, and one that is not there is passed over.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn used(&self, hash: &str, at_ms: i64) -> Result<()>;

    /// Tokens by filter, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list(&self, filter: &TokenFilter) -> Result<Vec<StoredToken>>;

    /// How many tokens a filter finds, whatever it passes over and how many it takes at most.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn total(&self, filter: &TokenFilter) -> Result<u64>;

    /// Removes a token: whoever shows it from now on is nobody.
    ///
    /// # Errors
    /// `NotFound`, also for one of another tenant.
    async fn remove(&self, tenant: &TenantId, hash: &str) -> Result<()>;

    /// How many tokens there are, over all tenants; 0 tells a first start.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn count(&self) -> Result<u64>;
}
