//! Credentials issued by authorization servers for MCP servers at which a user has signed in.

use weft_macros::async_trait;

use crate::error::Result;
use crate::id::TenantId;
use crate::secret::Secret;

/// Identifies credentials by tenant and server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CredentialKey {
    /// The tenant that owns the server; servers of the operator belong to the default tenant.
    pub tenant: TenantId,
    /// The server's id.
    pub server: String,
}

/// The credentials for one server, and sign-ins in progress there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCredentials {
    /// The encrypted data. Only its ciphertext is written anywhere.
    pub sealed: Secret,
    /// Counts the changes, from 1; a writer must supply the current value.
    pub revision: i64,
}

/// Stores credentials. Errors never contain any part of the sealed data.
#[async_trait]
pub trait ToolCredentials: Send + Sync {
    /// Returns the current credentials for a server, including those that another process has just stored.
    ///
    /// # Errors
    /// `Denied` when they were encrypted with a different key than the current one.
    async fn get(&self, key: &CredentialKey) -> Result<Option<StoredCredentials>>;

    /// Replaces the credentials of this revision, which is 0 if there were none. Returns whether they were stored:
    /// not if they have been changed or removed in the meantime.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn put(&self, key: &CredentialKey, sealed: &Secret, revision: i64) -> Result<bool>;

    /// Removes the credentials for a server. Returns whether there were any.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn remove(&self, key: &CredentialKey) -> Result<bool>;
}
