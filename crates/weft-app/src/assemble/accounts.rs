//! Assembly of accounts and their stores.

use std::sync::Arc;

use weft_core::seam::BlobStore;
use weft_core::{Result, TenantId};
use weft_net::{OperatorHttp, StreamingHttp};
use weft_store::{FolderWorkspace, Store};

use crate::accounts::{AccountStores, Accounts, Erasure};
use crate::config::{BrowserConfig, Config};

/// Creates the accounts from the settings.
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
    // The operator names the providers, so their addresses may be private.
    let http: Arc<dyn StreamingHttp> = Arc::new(OperatorHttp::new()?);
    Ok(Accounts::new(stores, config.accounts.clone()).with_providers(&http))
}

/// Returns the function that removes a tenant's data in folders.
pub(super) fn erasure(config: &Config, blobs: Arc<dyn BlobStore>) -> Arc<Erasure> {
    let workspace = config.files_root().map(|root| FolderWorkspace::new(root, config.files.bytes_max));
    let profiles = BrowserConfig::profiles(&config.data);
    Arc::new(move |tenant: TenantId| {
        let (blobs, workspace, profiles) = (Arc::clone(&blobs), workspace.clone(), profiles.clone());
        Box::pin(async move {
            blobs.remove_all(&tenant).await?;
            weft_browser::remove_profiles(&profiles, &tenant).await?;
            match &workspace {
                Some(workspace) => workspace.remove_all(&tenant).await,
                None => Ok(()),
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use weft_store::MemoryBlobs;

    use super::*;

    #[tokio::test]
    async fn erasing_a_tenant_removes_its_browser_profiles() {
        let data = tempfile::tempdir().unwrap();
        let config = Config { data: data.path().to_owned(), ..Config::default() };
        let of = |tenant: &str| BrowserConfig::profiles(&config.data).join(tenant);
        for tenant in ["shop", "other"] {
            std::fs::create_dir_all(of(tenant).join("profile")).unwrap();
        }
        let erase = erasure(&config, Arc::new(MemoryBlobs::default()));
        erase(TenantId::new("shop")).await.unwrap();
        assert!(!of("shop").exists() && of("other").exists());
    }
}
