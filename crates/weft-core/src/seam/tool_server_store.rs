//! MCP servers that tenants configure themselves, in addition to the operator's.

use weft_macros::async_trait;

use crate::error::{Error, Result};
use crate::id::TenantId;
use crate::secret::Secret;
use crate::value::{Json, size};

/// Maximum number of servers of a tenant.
pub const SERVERS_MAX: u64 = 200;

/// Maximum size of the stored tools of a server, in bytes. All servers of a tenant are read together, also for each
/// check of a canvas.
pub const TOOLS_BYTES_MAX: usize = 1 << 20;

/// A server of a tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredToolServer {
    /// Its id, which canvases reference. Unique across all tenants.
    pub id: String,
    /// Its name, unique within the tenant, ignoring case.
    pub name: String,
    /// Its address.
    pub url: String,
    /// The transport: `sse` or `streamable-http`.
    pub transport: String,
    /// A description for people.
    pub description: String,
    /// Confidential data that is sent to it, as a text. Only its ciphertext is written anywhere.
    pub sealed: Secret,
    /// The tools that it has offered, by name, with their settings.
    pub tools: serde_json::Map<String, Json>,
    /// Counts the changes; a writer must supply the current value.
    pub revision: i64,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it was last changed, in milliseconds since 1970.
    pub updated_ms: i64,
}

impl StoredToolServer {
    /// Checks that it is small enough to be stored.
    ///
    /// # Errors
    /// `Invalid` when its tools take more than [`TOOLS_BYTES_MAX`].
    pub fn check_size(&self) -> Result<()> {
        let bytes: usize = self.tools.iter().map(|(name, tool)| name.len() + size(tool)).sum();
        if bytes <= TOOLS_BYTES_MAX {
            return Ok(());
        }
        let message = format!(
            "the definitions of the tools of the MCP server take {bytes} bytes, more than the maximum of {TOOLS_BYTES_MAX}"
        );
        Err(Error::invalid(message).help("use a server that offers fewer tools, or shorter definitions"))
    }
}

/// Stores servers of tenants. Errors never contain any part of the sealed data.
#[async_trait]
pub trait ToolServerStore: Send + Sync {
    /// Stores a new server.
    ///
    /// # Errors
    /// `Conflict` when another server of the tenant has the name or any server has the id; `QuotaExceeded` if there
    /// would be more than [`SERVERS_MAX`]; as [`StoredToolServer::check_size`].
    async fn add(&self, tenant: &TenantId, server: &StoredToolServer) -> Result<()>;

    /// Replaces a server if it is still at the revision of `server`, and increments the revision. Returns whether it
    /// was replaced: not if it has been changed or removed in the meantime.
    ///
    /// # Errors
    /// `Conflict` when another server of the tenant has the name; as [`StoredToolServer::check_size`].
    async fn change(&self, tenant: &TenantId, server: &StoredToolServer) -> Result<bool>;

    /// Returns all servers of a tenant, sorted by name, ignoring case.
    ///
    /// # Errors
    /// `Denied` when the sealed data was encrypted with a different key than the current one.
    async fn list(&self, tenant: &TenantId) -> Result<Vec<StoredToolServer>>;

    /// Returns the server with this id.
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

/// The error for a server that does not exist.
pub fn missing(id: &str) -> Error {
    Error::not_found(format!("there is no MCP server `{id}`"))
}
