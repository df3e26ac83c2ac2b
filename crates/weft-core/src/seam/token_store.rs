//! API tokens.

use async_trait::async_trait;

use crate::error::Result;
use crate::id::TenantId;

/// A token as stored: never the token itself.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredToken {
    /// Whose.
    pub tenant: TenantId,
    /// SHA-256 of the token, in lower-case hex.
    pub hash: String,
    /// What people call it.
    pub name: String,
    /// Milliseconds since 1970.
    pub created_ms: i64,
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

    /// How many tokens there are, over all tenants; 0 tells a first start.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn count(&self) -> Result<u64>;
}
