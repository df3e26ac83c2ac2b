//! Uploaded files in memory, for a store that ends with its process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use weft_core::seam::BlobStore;
use weft_core::seam::blob_store::checked;
use weft_core::{Error, Result, TenantId, async_trait};

type Blobs = HashMap<(TenantId, String), Bytes>;

/// Files in memory. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct MemoryBlobs(Arc<Mutex<Blobs>>);

impl MemoryBlobs {
    fn of(&self, tenant: &TenantId, name: &str) -> Result<(MutexGuard<'_, Blobs>, (TenantId, String))> {
        checked(name)?;
        Ok((self.0.lock().unwrap_or_else(PoisonError::into_inner), (tenant.clone(), name.to_owned())))
    }
}

#[async_trait]
impl BlobStore for MemoryBlobs {
    async fn put(&self, tenant: &TenantId, name: &str, bytes: Bytes) -> Result<()> {
        let (mut blobs, key) = self.of(tenant, name)?;
        blobs.insert(key, bytes);
        Ok(())
    }

    async fn get(&self, tenant: &TenantId, name: &str) -> Result<Bytes> {
        let (blobs, key) = self.of(tenant, name)?;
        blobs.get(&key).cloned().ok_or_else(|| Error::not_found("there is no stored file with this name"))
    }

    async fn remove(&self, tenant: &TenantId, name: &str) -> Result<()> {
        let (mut blobs, key) = self.of(tenant, name)?;
        blobs.remove(&key);
        Ok(())
    }

    async fn below(&self, tenant: &TenantId, folder: &str) -> Result<Vec<String>> {
        let (blobs, (tenant, folder)) = self.of(tenant, folder)?;
        // With the slash, because `ab/c` is not in the folder `a`.
        let folder = format!("{folder}/");
        let found = blobs.keys().filter(|(of, name)| *of == tenant && name.starts_with(&folder));
        Ok(found.map(|(_, name)| name.clone()).collect())
    }

    async fn remove_all(&self, tenant: &TenantId) -> Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|(of, _), _| of != tenant);
        Ok(())
    }
}
