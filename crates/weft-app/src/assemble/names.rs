//! Names in the store that canvases refer to, read without assembling the app.

use weft_core::{Result, TenantId};
use weft_store::Store;

use super::secrets;
use crate::checking::{ids_of_memories, names_of_datasets};
use crate::config::Config;

/// Returns the names and ids of a tenant's datasets. Creates nothing: without a store there are none.
///
/// # Errors
/// When the store cannot be read.
pub async fn dataset_names(config: &Config, tenant: &TenantId) -> Result<Vec<String>> {
    if secrets::is_missing(config) {
        return Ok(Vec::new());
    }
    let store = Store::open_to_read(&config.store_url()).await?;
    let names = names_of_datasets(&*store.datasets(), tenant, u64::MAX).await;
    store.close().await?;
    Ok(names?.unwrap_or_default())
}

/// Returns the ids of a tenant's memories. Creates nothing: without a store there are none.
///
/// # Errors
/// When the store cannot be read.
pub async fn memory_names(config: &Config, tenant: &TenantId) -> Result<Vec<String>> {
    if secrets::is_missing(config) {
        return Ok(Vec::new());
    }
    let store = Store::open_to_read(&config.store_url()).await?;
    let names = ids_of_memories(&*store.memories(), tenant).await;
    // Closed before checking the result, so that a failure leaves no store open.
    store.close().await?;
    names
}
