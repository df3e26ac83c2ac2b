//! What authorization servers have given for MCP servers at which somebody has signed in.

use async_trait::async_trait;

use crate::error::Result;
use crate::id::TenantId;
use crate::secret::Secret;

/// Whose credentials they are, and for which server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CredentialKey {
    /// Whose server it is; those of the operator are the default tenant's.
    pub tenant: TenantId,
    /// The server's id.
    pub server: String,
}

/// The credentials for one server, and the sign-ins that have begun at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCredentials {
    /// Only its ciphertext is written anywhere.
    pub sealed: Secret,
    /// Counts the changes, from 1; a writer must know the current one.
    pub revision: i64,
}

/// Where credentials are kept. Nothing of what is sealed is ever in an error.
#[async_trait]
pub trait ToolCredentials: Send + Sync {
    /// The credentials for a server, as they are now: also those that another process has just stored.
    ///
    /// # Errors
    /// `Denied` when they were sealed with another key than there is now.
    async fn get(&self, key: &CredentialKey) -> Result<Option<StoredCredentials>>;

    /// Stores what takes the place of the credentials of this revision, 0 when there were none. Whether it was stored: not
    /// when somebody has changed or removed them in the meantime.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn put(&self, key: &CredentialKey, sealed: &Secret, revision: i64) -> Result<bool>;

    /// Removes the credentials for a server; whether there were any.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn remove(&self, key: &CredentialKey) -> Result<bool>;
}
