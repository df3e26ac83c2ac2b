//! Accounts, and where they are kept.

use std::sync::Arc;

use weft_core::TenantId;
use weft_core::seam::BlobStore;
use weft_store::{FolderWorkspace, Store};

use crate::accounts::{AccountStores, Accounts, Erasure};
use crate::config::Config;

/// Accounts as the settings have them.
pub(super) fn accounts(config: &Config, store: &Store) -> Accounts {
    let stores = AccountStores {
        users: store.users(),
        tenants: store.tenants(),
        shares: store.shares(),
        audit: store.audit_log(),
    };
    Accounts::new(stores, config.accounts)
}

/// Removes what a tenant has in folders.
pub(super) fn erasure(config: &Config, blobs: Arc<dyn BlobStore>) -> Arc<Erasure> {
    let workspace = config.files_root().map(|root| FolderWorkspace::new(root, config.files.bytes_max));
    Arc::new(move |tenant: TenantId| {
        let (blobs, workspace) = (Arc::clone(&blobs), workspace.clone());
        Box::pin(async move {
            blobs.remove_all(&tenant).await?;
            match &workspace {
                Some(workspace) => workspace.remove_all(&tenant).await,
                None => Ok(()),
            }
        })
    })
}
