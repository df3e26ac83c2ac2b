//! Where tools come from that are no components.

use std::sync::Arc;

use weft_core::Result;
use weft_engine::clock::SystemClock;
use weft_mcp::Servers;
use weft_net::{OperatorHttp, Outbound, StreamingHttp};
use weft_plugins::{Combined, Plugins};
use weft_store::Store;

use super::{Ground, make_folder, secrets};
use crate::config::Config;
use crate::tool_servers::TenantServers;

/// The servers of tools alone, and what remembers which tools were accepted.
#[derive(Debug)]
pub struct ToolServers {
    /// The servers.
    pub servers: Servers,
    store: Store,
}

impl ToolServers {
    /// Sets them up as the configuration says. None of them is connected to.
    ///
    /// # Errors
    /// As [`assemble`].
    pub async fn open(config: &Config) -> Result<Self> {
        config.check()?;
        if config.store.url.is_empty() {
            make_folder(config).await?;
        }
        let store = Store::open(&config.store_url()).await?;
        let servers = tool_servers(config, &store)?;
        Ok(Self { servers, store })
    }

    /// Ends all connections and closes the store.
    ///
    /// # Errors
    /// When the store cannot be closed.
    pub async fn close(self) -> Result<()> {
        self.servers.close().await;
        self.store.close().await
    }
}

fn tool_servers(config: &Config, store: &Store) -> Result<Servers> {
    let http: Arc<dyn StreamingHttp> = Arc::new(OperatorHttp::new()?);
    Servers::open(config.mcp.clone(), &http, store.pins(), Arc::new(SystemClock))
}

/// The servers of the operator, and every source of tools behind those of tenants.
pub(super) fn tool_sources(
    ground: &Ground<'_>,
    plugins: &Plugins,
    outbound: Arc<Outbound>,
) -> Result<(Servers, TenantServers)> {
    let &Ground { config, place, store, clock } = ground;
    let servers = tool_servers(config, store)?;
    let tools = Combined::new(plugins.clone(), Arc::new(servers.clone()), &servers.names())?;
    let written_down = secrets::tool_servers(config, store, place)?;
    let of_tenants = TenantServers::new(Arc::new(tools), written_down, outbound, Arc::clone(clock))?;
    let names = servers.names().into_iter().chain(plugins.names().map(str::to_owned)).collect();
    Ok((servers, of_tenants.beside(names)))
}
