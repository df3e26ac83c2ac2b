//! Where secrets are.

use std::sync::Arc;

use async_trait::async_trait;
use weft_core::seam::secrets::{NamedSecret, NoSecrets, SecretInfo};
use weft_core::seam::{Secrets, ToolCredentials, ToolServerStore};
use weft_core::{Error, Result, Secret, TenantId};
use weft_store::{KeyPlace, SealedCredentials, SealedToolServers, Store, Vault, VaultKey};

use super::Place;
use crate::config::{Config, STORE_FILE};

fn key_place(config: &Config) -> Result<KeyPlace> {
    match config.secrets.key.reveal().trim() {
        "" => Ok(KeyPlace::File(config.secrets_file())),
        key => Ok(KeyPlace::Given(VaultKey::from_hex(key)?)),
    }
}

/// The secrets that runs may use: those of the store; for an app in memory those of the data folder, to be read.
///
/// # Errors
/// `Invalid` for a key of another form.
pub(super) fn secrets(config: &Config, store: &Store, place: Place) -> Result<Arc<dyn Secrets>> {
    let key = key_place(config)?;
    Ok(match place {
        Place::Folders => Arc::new(Vault::new(store.clone(), key)),
        Place::Memory => Arc::new(OfDataFolder { config: config.clone(), key }),
    })
}

/// The MCP servers that tenants have written down.
///
/// # Errors
/// `Invalid` for a key of another form.
pub(super) fn tool_servers(config: &Config, store: &Store, place: Place) -> Result<Arc<dyn ToolServerStore>> {
    Ok(Arc::new(SealedToolServers(vault(config, store, place)?)))
}

/// What people have allowed when they signed in at MCP servers.
///
/// # Errors
/// `Invalid` for a key of another form.
pub(super) fn credentials(config: &Config, store: &Store, place: Place) -> Result<Arc<dyn ToolCredentials>> {
    Ok(Arc::new(SealedCredentials(vault(config, store, place)?)))
}

fn vault(config: &Config, store: &Store, place: Place) -> Result<Vault> {
    let key = match place {
        Place::Folders => key_place(config)?,
        // What is in memory ends with the process, and so does its key: none is written into the data folder.
        Place::Memory => KeyPlace::Process,
    };
    Ok(Vault::new(store.clone(), key))
}

/// The names of the secrets that a tenant has. Makes nothing: without a store there are none.
///
/// # Errors
/// When the store cannot be read.
pub async fn secret_names(config: &Config, tenant: &TenantId) -> Result<Vec<String>> {
    if is_missing(config) {
        return Ok(Vec::new());
    }
    let store = Store::open_to_read(&config.store_url()).await?;
    let found = Vault::new(store.clone(), key_place(config)?).list(tenant).await;
    // Closed before the outcome is looked at, so that a failure leaves no store open.
    store.close().await?;
    Ok(found?.into_iter().map(|info| info.name.to_string()).collect())
}

/// Whether there is no store yet.
pub(super) fn is_missing(config: &Config) -> bool {
    config.store.url.is_empty() && !config.data.join(STORE_FILE).exists()
}

/// The secrets of a store that is opened for each look at them, if it is there. Most canvases name none.
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
        Err(Error::invalid("secrets are not changed from here"))
    }
}
