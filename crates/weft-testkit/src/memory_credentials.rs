//! In-memory credentials for MCP servers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weft_core::seam::ToolCredentials;
use weft_core::seam::tool_credentials::{CredentialKey, StoredCredentials};
use weft_core::{Result, Secret, async_trait};

/// Credentials that live as long as this value.
#[derive(Debug, Default)]
pub struct MemoryCredentials(Mutex<HashMap<CredentialKey, StoredCredentials>>);

impl MemoryCredentials {
    fn kept(&self) -> MutexGuard<'_, HashMap<CredentialKey, StoredCredentials>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ToolCredentials for MemoryCredentials {
    async fn get(&self, key: &CredentialKey) -> Result<Option<StoredCredentials>> {
        let found = self.kept().get(key).cloned();
        // Like a store on disk: other tasks run before the result arrives.
        tokio::task::yield_now().await;
        Ok(found)
    }

    async fn put(&self, key: &CredentialKey, sealed: &Secret, revision: i64) -> Result<bool> {
        let stored = StoredCredentials { sealed: sealed.clone(), revision: revision + 1 };
        match self.kept().entry(key.clone()) {
            Entry::Occupied(mut there) if there.get().revision == revision => {
                there.insert(stored);
                Ok(true)
            }
            Entry::Vacant(place) if revision == 0 => {
                place.insert(stored);
                Ok(true)
            }
            Entry::Occupied(_) | Entry::Vacant(_) => Ok(false),
        }
    }

    async fn remove(&self, key: &CredentialKey) -> Result<bool> {
        Ok(self.kept().remove(key).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn credentials_in_memory_keep_the_contract() {
        crate::contracts::credentials::credentials_keep_their_contract(&MemoryCredentials::default()).await;
    }
}
