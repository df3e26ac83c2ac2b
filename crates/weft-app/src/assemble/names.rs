//! Names in the store that canvases refer to, read without assembling the app.

use weft_core::{Result, TenantId};
use weft_store::Store;

use super::secrets;
use crate::checking::{ids_of_memories, names_of_datasets};
use crate::config::Config;

/// Names in the store that the canvases of a tenant refer to. Each kind is read by itself: one that cannot be read,
/// such as secrets without a valid key, hides no other.
#[derive(Debug)]
pub struct StoredNames {
    /// The names and ids of the datasets.
    pub datasets: Result<Vec<String>>,
    /// The names of the secrets.
    pub secrets: Result<Vec<String>>,
    /// The ids of the memories.
    pub memories: Result<Vec<String>>,
}

/// Returns the names in the store that the canvases of a tenant refer to. Creates nothing: without a store there are
/// none.
///
/// # Errors
/// When the store cannot be opened.
pub async fn stored_names(config: &Config, tenant: &TenantId) -> Result<StoredNames> {
    if secrets::is_missing(config) {
        let none = || Ok(Vec::new());
        return Ok(StoredNames { datasets: none(), secrets: none(), memories: none() });
    }
    let store = Store::open_to_read(&config.store_url()).await?;
    let datasets = names_of_datasets(&*store.datasets(), tenant, u64::MAX).await;
    let names = StoredNames {
        datasets: datasets.map(Option::unwrap_or_default),
        secrets: secrets::names(config, &store, tenant).await,
        memories: ids_of_memories(&*store.memories(), tenant).await,
    };
    store.close().await?;
    Ok(names)
}
