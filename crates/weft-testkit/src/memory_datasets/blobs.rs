//! In-memory blobs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use weft_core::seam::BlobStore;
use weft_core::seam::blob_store::checked;
use weft_core::{Error, Result, TenantId, async_trait};

/// Blobs that live as long as this value and its clones. A clone is another handle to the same blobs.
#[derive(Clone, Debug, Default)]
pub struct MemoryBlobs(Arc<Mutex<BTreeMap<(TenantId, String), Bytes>>>);

impl MemoryBlobs {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// The names of all blobs.
    pub fn names(&self) -> Vec<String> {
        let blobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        blobs.keys().map(|(_, name)| name.clone()).collect()
    }
}

#[async_trait]
impl BlobStore for MemoryBlobs {
    async fn put(&self, tenant: &TenantId, name: &str, bytes: Bytes) -> Result<()> {
        checked(name)?;
        let mut blobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        blobs.insert((tenant.clone(), name.to_owned()), bytes);
        Ok(())
    }

    async fn get(&self, tenant: &TenantId, name: &str) -> Result<Bytes> {
        checked(name)?;
        let blobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = blobs.get(&(tenant.clone(), name.to_owned())).cloned();
        found.ok_or_else(|| Error::not_found(format!("there is no stored file `{name}`")))
    }

    async fn remove(&self, tenant: &TenantId, name: &str) -> Result<()> {
        checked(name)?;
        let mut blobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        blobs.remove(&(tenant.clone(), name.to_owned()));
        Ok(())
    }

    async fn below(&self, tenant: &TenantId, folder: &str) -> Result<Vec<String>> {
        checked(folder)?;
        let folder = format!("{folder}/");
        let blobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = blobs.keys().filter(|(of, name)| of == tenant && name.starts_with(&folder));
        Ok(found.map(|(_, name)| name.clone()).collect())
    }

    async fn remove_all(&self, tenant: &TenantId) -> Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|(of, _), _| of != tenant);
        Ok(())
    }
}
