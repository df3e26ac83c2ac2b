//! Servers that offer tools (MCP), as the operator configured them.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::id::TenantId;
use crate::tool::Tool;
use crate::value::Json;

/// What tools a server offers, and what should be told about it.
#[derive(Clone, Debug, Default)]
pub struct Offered {
    /// The tools that may be used, under the names the server gives them.
    pub tools: Vec<Arc<Tool>>,
    /// Tools that may not be used: because their definition is not the accepted one, until an operator
    /// accepts it, or because what the server says of them cannot be a tool.
    pub refused: Vec<RefusedTool>,
    /// Why the server cannot be asked now; then the tools are as they were accepted earlier.
    pub down: Option<String>,
}

/// A tool that may not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedTool {
    /// Its name.
    pub name: String,
    /// Why, and what to do.
    pub reason: String,
}

/// Servers that offer tools.
///
/// An implementation connects when it is first asked, keeps the list of a server until the server
/// says that it has changed, bounds every wait and every size, and offers a tool only as long as its
/// definition is the one that was accepted.
#[async_trait]
pub trait ToolSource: Send + Sync {
    /// What the server with this id offers now; when it cannot be asked, what was accepted of it
    /// earlier, if anything was.
    ///
    /// # Errors
    /// `NotFound` for a server that is not configured, naming those that are; `Unavailable`,
    /// `Timeout`, `Unauthenticated` or `Garbled` when it cannot be asked.
    async fn tools(&self, tenant: &TenantId, server: &str) -> Result<Offered>;
}

/// No servers.
#[derive(Clone, Copy, Debug)]
pub struct NoTools;

#[async_trait]
impl ToolSource for NoTools {
    async fn tools(&self, _: &TenantId, server: &str) -> Result<Offered> {
        Err(crate::error::Error::not_found(format!("there is no MCP server and no plugin `{server}`"))
            .help("configure it below `mcp.servers`, or put it into the folder of plugins"))
    }
}

/// The definition of a tool as it was accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolPin {
    /// The server's id.
    pub server: String,
    /// The tool's name on that server.
    pub tool: String,
    /// Name, description and schema as the server gave them.
    pub definition: Json,
    /// When it was accepted, in milliseconds since 1970.
    pub accepted_ms: i64,
}

/// Which definitions of tools were accepted. One list for all tenants: servers are the operator's.
#[async_trait]
pub trait PinStore: Send + Sync {
    /// The accepted definitions of a server's tools, by name.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn pins(&self, server: &str) -> Result<Vec<ToolPin>>;

    /// Accepts definitions; they replace earlier ones of the same tools. All or none.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn accept(&self, pins: &[ToolPin]) -> Result<()>;
}
