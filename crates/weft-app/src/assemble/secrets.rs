//! Assembly of the stores for secrets.

use std::sync::Arc;

use weft_core::seam::secrets::{NamedSecret, NoSecrets, SecretInfo};
use weft_core::seam::{Secrets, ToolCredentials, ToolServerStore};
use weft_core::{Error, Result, Secret, TenantId, async_trait};
use weft_store::{KeyPlace, SealedCredentials, SealedToolServers, Store, Vault, VaultKey};

use super::StoragePlace;
use crate::config::{Config, STORE_FILE};

fn key_place(config: &Config) -> Result<KeyPlace> {
    match config.secrets.key.reveal().trim() {
        "" => Ok(KeyPlace::File(config.secrets_file())),
        key => Ok(KeyPlace::Given(VaultKey::from_hex(key)?)),
    }
}

/// Returns the secrets for runs: those of the store; for an app in memory those of the data folder, read-only.
///
/// # Errors
/// `Invalid` for a key that is not valid.
pub(super) fn secrets(config: &Config, store: &Store, place: StoragePlace) -> Result<Arc<dyn Secrets>> {
    let key = key_place(config)?;
    Ok(match place {
        StoragePlace::Folders => Arc::new(Vault::new(store.clone(), key)),
        StoragePlace::Memory => Arc::new(OfDataFolder { config: config.clone(), key }),
    })
}

/// Returns the MCP servers that tenants have registered.
///
/// # Errors
/// `Invalid` for a key that is not valid.
pub(super) fn tool_servers(
    config: &Config,
    store: &Store,
    place: StoragePlace,
) -> Result<Arc<dyn ToolServerStore>> {
    Ok(Arc::new(SealedToolServers(vault(config, store, place)?)))
}

/// Returns the authorizations from sign-ins at MCP servers.
///
/// # Errors
/// `Invalid` for a key that is not valid.
pub(super) fn credentials(
    config: &Config,
    store: &Store,
    place: StoragePlace,
) -> Result<Arc<dyn ToolCredentials>> {
    Ok(Arc::new(SealedCredentials(vault(config, store, place)?)))
}

fn vault(config: &Config, store: &Store, place: StoragePlace) -> Result<Vault> {
    let key = match place {
        StoragePlace::Folders => key_place(config)?,
        // Data in memory ends with the process, and so does its key: none is written to the data folder.
        StoragePlace::Memory => KeyPlace::Process,
    };
    Ok(Vault::new(store.clone(), key))
}

/// Returns the names of a tenant's secrets.
///
/// # Errors
/// `Invalid` for a key that is not valid; when the store cannot be read.
pub(super) async fn names(config: &Config, store: &Store, tenant: &TenantId) -> Result<Vec<String>> {
    let found = Vault::new(store.clone(), key_place(config)?).list(tenant).await?;
    Ok(found.into_iter().map(|info| info.name.to_string()).collect())
}

/// Returns whether there is no store yet.
pub(super) fn is_missing(config: &Config) -> bool {
    config.store.url.is_empty() && !config.data.join(STORE_FILE).exists()
}

/// The secrets of a data folder, whose store is opened for each access if it exists. Most canvases use no secrets.
struct OfDataFolder {
    config: Config,
    key: KeyPlace,
}

impl OfDataFolder {
    async fn vault(&self) -> Result<Option<(Store, Vault)>> {
        if is_missing(&self.config) {
            return Ok(None);
        }
        let store = Store::open(&self.config.store_url()).await?;
        Ok(Some((store.clone(), Vault::new(store, self.key.clone()))))
    }
}

#[async_trait]
impl Secrets for OfDataFolder {
    async fn put(&self, tenant: &TenantId, name: &str, value: &Secret) -> Result<SecretInfo> {
        NoSecrets.put(tenant, name, value).await
    }

    async fn list(&self, tenant: &TenantId) -> Result<Vec<SecretInfo>> {
        let Some((store, vault)) = self.vault().await? else { return Ok(Vec::new()) };
        let found = vault.list(tenant).await;
        store.close().await?;
        found
    }

    async fn values(&self, tenant: &TenantId, names: &[Arc<str>]) -> Result<Vec<NamedSecret>> {
        let Some((store, vault)) = self.vault().await? else { return Ok(Vec::new()) };
        let found = vault.values(tenant, names).await;
        store.close().await?;
        found
    }

    async fn remove(&self, _: &TenantId, _: &str) -> Result<()> {
        Err(Error::invalid("secrets cannot be changed here"))
    }
}
