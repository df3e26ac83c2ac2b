//! Assembly of the sources of tools that are not components.

use std::sync::Arc;

use weft_core::seam::ToolCredentials;
use weft_core::{Result, TenantId};
use weft_engine::clock::SystemClock;
use weft_mcp::{Credentials, Reach, Servers};
use weft_net::{AllowList, OperatorHttp, Outbound};
use weft_plugins::{Combined, Plugins};
use weft_store::Store;

use super::{Ground, StoragePlace, make_folder, secrets};
use crate::app::DEFAULT_TENANT;
use crate::config::Config;
use crate::tool_servers::{TenantServerStores, TenantServers};

/// The MCP servers without the rest of the app, and the store of accepted tools.
#[derive(Debug)]
pub struct ToolServers {
    /// The servers.
    pub servers: Servers,
    store: Store,
}

impl ToolServers {
    /// Opens them from the configuration, without connecting to any.
    ///
    /// # Errors
    /// As [`assemble`].
    pub async fn open(config: &Config) -> Result<Self> {
        config.check()?;
        if config.store.url.is_empty() {
            make_folder(config).await?;
        }
        let store = Store::open(&config.store_url()).await?;
        let credentials = secrets::credentials(config, &store, StoragePlace::Folders)?;
        let outbound = Arc::new(Outbound::open(AllowList::parse(&config.net.allow)?));
        let servers = tool_servers(config, &store, credentials, outbound)?;
        Ok(Self { servers, store })
    }

    /// Closes all connections and the store.
    ///
    /// # Errors
    /// When the store cannot be closed.
    pub async fn close(self) -> Result<()> {
        self.servers.close().await;
        self.store.close().await
    }
}

fn tool_servers(
    config: &Config,
    store: &Store,
    credentials: Arc<dyn ToolCredentials>,
    outbound: Arc<Outbound>,
) -> Result<Servers> {
    // The operator has configured the servers, but not the addresses that these name.
    let reach = Reach { servers: Arc::new(OperatorHttp::new()?), named: outbound };
    // Servers of the operator belong to no tenant; their sign-ins are stored under the default one.
    let credentials = Credentials { store: credentials, tenant: TenantId::new(DEFAULT_TENANT) };
    Servers::open(config.mcp.clone(), &reach, store.pins(), Arc::new(SystemClock), &credentials)
}

/// Returns the servers of the operator, and all sources of tools including those of tenants.
pub(super) fn tool_sources(
    ground: &Ground<'_>,
    plugins: &Plugins,
    outbound: Arc<Outbound>,
) -> Result<(Servers, TenantServers)> {
    let &Ground { config, place, store, clock } = ground;
    let credentials = secrets::credentials(config, store, place)?;
    let servers = tool_servers(config, store, Arc::clone(&credentials), Arc::clone(&outbound))?;
    let tools = Combined::new(plugins.clone(), Arc::new(servers.clone()), &servers.names())?;
    let stores = TenantServerStores { servers: secrets::tool_servers(config, store, place)?, credentials };
    let of_tenants = TenantServers::new(Arc::new(tools), stores, outbound, Arc::clone(clock))?;
    let names = servers.names().into_iter().chain(plugins.names().map(str::to_owned)).collect();
    Ok((servers, of_tenants.beside(names)))
}
