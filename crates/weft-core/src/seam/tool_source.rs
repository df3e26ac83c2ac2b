//! Servers that offer tools (MCP), as configured by the operator.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weft_macros::async_trait;

use crate::error::Result;
use crate::id::TenantId;
use crate::tool::Tool;
use crate::value::Json;

/// The tools that a server offers, and its status.
#[derive(Clone, Debug, Default)]
pub struct Offered {
    /// The usable tools, under the names that the server gives them.
    pub tools: Vec<Arc<Tool>>,
    /// Tools that must not be used: either their definition differs from the accepted one and an operator has yet to
    /// accept it, or the server's definition is not a valid tool.
    pub refused: Vec<RefusedTool>,
    /// Why the server cannot be reached now; the tools are then those accepted earlier.
    pub down: Option<String>,
}

/// A tool that must not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedTool {
    /// Its name.
    pub name: String,
    /// The reason, and what to do about it.
    pub reason: String,
}

/// Provides the tools of servers.
///
/// An implementation connects on first use, caches the list of a server until the server announces a change, limits
/// every wait and every size, and offers a tool only while its definition is the accepted one.
#[async_trait]
pub trait ToolSource: Send + Sync {
    /// Returns what the server with this id offers now; if it cannot be reached, what was accepted earlier, if
    /// anything.
    ///
    /// # Errors
    /// `NotFound` for a server that is not configured, naming those that are; `Unavailable`, `Timeout`,
    /// `Unauthenticated` or `Garbled` when it cannot be reached.
    async fn tools(&self, tenant: &TenantId, server: &str) -> Result<Offered>;
}

/// There are no servers.
#[derive(Clone, Copy, Debug)]
pub struct NoTools;

#[async_trait]
impl ToolSource for NoTools {
    async fn tools(&self, _: &TenantId, server: &str) -> Result<Offered> {
        Err(crate::error::Error::not_found(format!("there is no MCP server and no plugin `{server}`"))
            .help("configure it below `mcp.servers`, or put it into the plugin folder"))
    }
}

/// The accepted definition of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolPin {
    /// The server's id.
    pub server: String,
    /// The tool's name on that server.
    pub tool: String,
    /// Name, description and schema, as given by the server.
    pub definition: Json,
    /// When it was accepted, in milliseconds since 1970.
    pub accepted_ms: i64,
}

/// Stores which definitions of tools were accepted. One list for all tenants, because servers belong to the operator.
#[async_trait]
pub trait PinStore: Send + Sync {
    /// Returns the accepted definitions of a server's tools, sorted by name.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn pins(&self, server: &str) -> Result<Vec<ToolPin>>;

    /// Accepts definitions, replacing earlier ones of the same tools. All or none.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn accept(&self, pins: &[ToolPin]) -> Result<()>;
}
