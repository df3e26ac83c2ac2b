//! MCP servers that tenants have written down for themselves, beside those of the operator.

use async_trait::async_trait;

use crate::error::Result;
use crate::id::TenantId;
use crate::secret::Secret;
use crate::value::Json;

/// Servers of a tenant, at most.
pub const SERVERS_MAX: u64 = 200;

/// A server of a tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredToolServer {
    /// Its id, which canvases name. No server of another tenant has it.
    pub id: String,
    /// What people call it: no two of a tenant differ in case only.
    pub name: String,
    /// Where it is.
    pub url: String,
    /// What is spoken there: `sse` or `streamable-http`.
    pub transport: String,
    /// What it is for; for people.
    pub description: String,
    /// What it is sent and nobody may see, as a text. Only its ciphertext is written anywhere.
    pub sealed: Secret,
    /// The tools that it has offered, by their names, and what people said of them.
    pub tools: serde_json::Map<String, Json>,
    /// Counts the changes; a writer must know the current one.
    pub revision: i64,
    /// When it was written down, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it was changed the last time.
    pub updated_ms: i64,
}

/// Where servers of tenants are kept. Nothing of what is sealed is ever in an error.
#[async_trait]
pub trait ToolServerStore: Send + Sync {
    /// Stores a new server.
    ///
    /// # Errors
    /// `Conflict` when another server of the tenant has the name or any server has the id; `QuotaExceeded` for one more than
    /// [`SERVERS_MAX`].
    async fn add(&self, tenant: &TenantId, server: &StoredToolServer) -> Result<()>;

    /// Replaces a server that is still at the revision of `server`, and raises the revision. Whether it was replaced: not
    /// when somebody has changed it in the meantime, or removed it.
    ///
    /// # Errors
    /// `Conflict` when another server of the tenant has the name.
    async fn change(&self, tenant: &TenantId, server: &StoredToolServer) -> Result<bool>;

    /// All servers of a tenant by name, whatever its case.
    ///
    /// # Errors
    /// `Denied` when what is sealed was written with another key than there is now.
    async fn list(&self, tenant: &TenantId) -> Result<Vec<StoredToolServer>>;

    /// The server with this id.
    ///
    /// # Errors
    /// `NotFound`, also for one of another tenant; as [`ToolServerStore::list`].
    async fn get(&self, tenant: &TenantId, id: &str) -> Result<StoredToolServer>;

    /// Removes a server.
    ///
    /// # Errors
    /// `NotFound`, also for one of another tenant.
    async fn remove(&self, tenant: &TenantId, id: &str) -> Result<()>;
}

/// The error that there is no such server.
pub fn missing(id: &str) -> crate::error::Error {
    crate::error::Error::not_found(format!("there is no MCP server `{id}`"))
}
