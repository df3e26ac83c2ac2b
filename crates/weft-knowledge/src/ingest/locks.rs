//! One lock per document that is being changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use weft_core::id::DocumentKey;

/// The locks of documents. Locks that are no longer held are forgotten.
#[derive(Debug, Default)]
pub(super) struct Locks(Mutex<HashMap<DocumentKey, Weak<AsyncMutex<()>>>>);

impl Locks {
    fn of(&self, document: &DocumentKey) -> Arc<AsyncMutex<()>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = all.get(document).and_then(Weak::upgrade) {
            return lock;
        }
        // Cleaned up only when the map would grow, so that a lock costs next to nothing on average.
        if all.len() == all.capacity() {
            all.retain(|_, lock| lock.strong_count() > 0);
        }
        let lock = Arc::default();
        all.insert(document.clone(), Arc::downgrade(&lock));
        lock
    }

    /// Waits for the right to change what the index holds of a document.
    pub(super) async fn lock(&self, document: &DocumentKey) -> OwnedMutexGuard<()> {
        self.of(document).lock_owned().await
    }

    /// Acquires the lock unless it is held already.
    pub(super) fn try_lock(&self, document: &DocumentKey) -> Option<OwnedMutexGuard<()>> {
        self.of(document).try_lock_owned().ok()
    }
}

#[cfg(test)]
mod tests {
    use weft_core::id::{DatasetKey, TenantId};

    use super::*;

    #[tokio::test]
    async fn each_document_has_its_own_lock_while_in_use() {
        let locks = Locks::default();
        let dataset = DatasetKey::new(&TenantId::from("t"), "d");
        let key = |n: usize| DocumentKey::new(&dataset, n.to_string());
        let held = locks.lock(&key(0)).await;
        assert!(locks.try_lock(&key(0)).is_none());
        for n in 1..10_000 {
            assert!(locks.try_lock(&key(n)).is_some());
        }
        assert!(locks.try_lock(&key(0)).is_none());
        assert!(locks.0.lock().unwrap().len() < 100);
        drop(held);
        assert!(locks.try_lock(&key(0)).is_some());
    }
}
