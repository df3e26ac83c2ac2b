//! In-memory secrets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_core::seam::Secrets;
use weft_core::seam::secrets::{NamedSecret, SECRETS_MAX, SecretInfo, check, missing};
use weft_core::{Error, ErrorKind, Result, Secret, TenantId, async_trait};

type Kept = BTreeMap<(TenantId, Arc<str>), (SecretInfo, Secret)>;

/// Secrets that live as long as this value.
#[derive(Debug, Default)]
pub struct MemorySecrets(Mutex<Kept>);

impl MemorySecrets {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Secrets for MemorySecrets {
    async fn put(&self, tenant: &TenantId, name: &str, value: &Secret) -> Result<SecretInfo> {
        check(name, value)?;
        let mut kept = self.kept();
        let key = (tenant.clone(), Arc::from(name));
        let is_new = !kept.contains_key(&key);
        if is_new && kept.keys().filter(|(of, _)| of == tenant).count() as u64 >= SECRETS_MAX {
            return Err(Error::new(ErrorKind::QuotaExceeded, "there are too many secrets"));
        }
        let info = SecretInfo { name: Arc::clone(&key.1), created_ms: 0, updated_ms: 0 };
        kept.insert(key, (info.clone(), value.clone()));
        Ok(info)
    }

    async fn list(&self, tenant: &TenantId) -> Result<Vec<SecretInfo>> {
        let kept = self.kept();
        let ours = kept.iter().filter(|((of, _), _)| of == tenant);
        Ok(ours.map(|(_, (info, _))| info.clone()).collect())
    }

    async fn values(&self, tenant: &TenantId, names: &[Arc<str>]) -> Result<Vec<NamedSecret>> {
        let kept = self.kept();
        let ours = kept.iter().filter(|((of, name), _)| of == tenant && names.contains(name));
        Ok(ours
            .map(|((_, name), (_, value))| NamedSecret { name: Arc::clone(name), value: value.clone() })
            .collect())
    }

    async fn remove(&self, tenant: &TenantId, name: &str) -> Result<()> {
        let removed = self.kept().remove(&(tenant.clone(), Arc::from(name)));
        removed.map(drop).ok_or_else(|| missing(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn secrets_in_memory_keep_the_contract() {
        crate::contracts::secrets::secrets_keep_their_contract(&MemorySecrets::default()).await;
    }
}
