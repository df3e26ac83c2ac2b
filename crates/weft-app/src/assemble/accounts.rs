//! Accounts, and where they are kept.

use std::sync::Arc;

use weft_core::seam::BlobStore;
use weft_core::{Result, TenantId};
use weft_net::{OperatorHttp, StreamingHttp};
use weft_store::{FolderWorkspace, Store};

use crate::accounts::{AccountStores, Accounts, Erasure};
use crate::config::Config;

/// Accounts as the settings have them.
///
/// # Errors
/// `Internal` when TLS cannot be set up.
pub(super) fn accounts(config: &Config, store: &Store) -> Result<Accounts> {
    let stores = AccountStores {
        users: store.users(),
        identities: store.identities(),
        tenants: store.tenants(),
        shares: store.shares(),
        audit: store.audit_log(),
    };
    let http: Arc<dyn StreamingHttp> = Arc::new(OperatorHttp::new()?);
    Ok(Accounts::new(stores, config.accounts.clone()).with_providers(&http))
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
