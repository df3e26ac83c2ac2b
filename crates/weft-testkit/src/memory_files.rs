//! In-memory conversation files.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use weft_core::id::{FileId, SessionId, TenantId, UserId};
use weft_core::seam::FileStore;
use weft_core::seam::file_store::StoredFile;
use weft_core::{Error, ErrorKind, Result, async_trait};

/// Maximum size of one file, and of all files of a tenant, in bytes.
#[derive(Clone, Copy, Debug)]
struct FileSizes {
    file: u64,
    tenant: u64,
}

/// Conversation files that live as long as this value.
#[derive(Debug)]
pub struct MemoryFiles {
    files: Mutex<BTreeMap<(TenantId, FileId), (StoredFile, Bytes)>>,
    limits: FileSizes,
}

impl Default for MemoryFiles {
    fn default() -> Self {
        Self::within(u64::MAX, u64::MAX)
    }
}

impl MemoryFiles {
    /// Creates a store with these limits, in bytes, for one file and for all files of a tenant.
    pub fn within(file: u64, tenant: u64) -> Self {
        Self { files: Mutex::default(), limits: FileSizes { file, tenant } }
    }

    /// All files, without their bytes.
    pub fn all(&self) -> Vec<StoredFile> {
        self.files().values().map(|(file, _)| file.clone()).collect()
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<(TenantId, FileId), (StoredFile, Bytes)>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(tenant: &TenantId, id: &FileId) -> (TenantId, FileId) {
    (tenant.clone(), id.clone())
}

#[async_trait]
impl FileStore for MemoryFiles {
    async fn put(&self, tenant: &TenantId, file: &StoredFile, bytes: Bytes) -> Result<()> {
        weft_core::seam::blob_store::checked(file.id.as_str())?;
        if file.size > self.limits.file {
            return Err(Error::invalid("the file is too large"));
        }
        let mut files = self.files();
        let others = files.iter().filter(|((owner, id), _)| owner == tenant && *id != file.id);
        let used: u64 = others.map(|(_, (file, _))| file.size).sum();
        if used.saturating_add(file.size) > self.limits.tenant {
            return Err(Error::new(ErrorKind::QuotaExceeded, "the tenant has no room for the file"));
        }
        files.insert(key(tenant, &file.id), (file.clone(), bytes));
        Ok(())
    }

    async fn find(&self, tenant: &TenantId, id: &FileId) -> Result<StoredFile> {
        self.read(tenant, id).await.map(|(file, _)| file)
    }

    async fn read(&self, tenant: &TenantId, id: &FileId) -> Result<(StoredFile, Bytes)> {
        let found = self.files().get(&key(tenant, id)).cloned();
        found.ok_or_else(|| Error::not_found(format!("there is no file `{id}`")))
    }

    async fn remove(&self, tenant: &TenantId, ids: &[FileId]) -> Result<u64> {
        let mut files = self.files();
        Ok(ids.iter().filter(|id| files.remove(&key(tenant, id)).is_some()).count() as u64)
    }

    async fn older_than(&self, before_ms: i64, count_max: u64) -> Result<Vec<(TenantId, FileId)>> {
        let files = self.files();
        let mut old: Vec<_> = files.iter().filter(|(_, (file, _))| file.created_ms < before_ms).collect();
        old.sort_by_key(|((_, id), (file, _))| (file.created_ms, id.clone()));
        let most = usize::try_from(count_max).unwrap_or(usize::MAX);
        Ok(old.into_iter().take(most).map(|(key, _)| key.clone()).collect())
    }

    async fn of_session(&self, tenant: &TenantId, session: &SessionId) -> Result<Vec<StoredFile>> {
        let files = self.files();
        let theirs = files
            .iter()
            .filter(|((owner, _), (file, _))| owner == tenant && file.session.as_ref() == Some(session));
        let mut found: Vec<StoredFile> = theirs.map(|(_, (file, _))| file.clone()).collect();
        found.sort_by_key(|file| (file.created_ms, file.id.clone()));
        Ok(found)
    }

    async fn of_user(
        &self,
        tenant: &TenantId,
        user: &UserId,
        after: Option<(i64, &FileId)>,
        count_max: u64,
    ) -> Result<Vec<StoredFile>> {
        let files = self.files();
        let theirs = files.iter().filter(|((owner, _), (file, _))| {
            owner == tenant
                && file.user.as_ref() == Some(user)
                && after.is_none_or(|after| (file.created_ms, &file.id) > after)
        });
        let mut found: Vec<StoredFile> = theirs.map(|(_, (file, _))| file.clone()).collect();
        found.sort_by_key(|file| (file.created_ms, file.id.clone()));
        found.truncate(usize::try_from(count_max).unwrap_or(usize::MAX));
        Ok(found)
    }
}
