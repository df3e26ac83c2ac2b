//! How many objects each tenant may keep in a store.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use sea_orm::{ColumnTrait as _, EntityTrait as _, PaginatorTrait as _, QueryFilter as _, QuerySelect as _};
use weft_core::error::found;
use weft_core::quota::{LimitedKind, TenantQuotas};
use weft_core::seam::SessionStore;
use weft_core::{Result, SessionKey};

use crate::Store;
use crate::ids::text;
use crate::rows::session;

/// A tenant's sessions are counted again when this part of its room for them is used up. With several processes on
/// one store, each may exceed the limit by this part of it.
const PART_UNCOUNTED: u64 = 16;

/// Maximum number of tenants whose room for sessions is remembered.
const TENANTS_MAX: usize = 10_000;

/// The limits, and what is known about the room of tenants for sessions.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    pub(crate) limits: TenantQuotas,
    /// How many sessions a tenant may start until they are counted again. A count takes longer the more sessions
    /// there are, and many questions start a session.
    uncounted: Mutex<HashMap<String, u64>>,
}

impl Quotas {
    pub(crate) fn new(limits: TenantQuotas) -> Self {
        Self { limits, uncounted: Mutex::default() }
    }

    /// Uses up one of the sessions that need no count. Returns whether there was one.
    fn take(&self, tenant: &str) -> bool {
        let mut uncounted = self.uncounted.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(left) = uncounted.get_mut(tenant) else { return false };
        *left -= 1;
        if *left == 0 {
            uncounted.remove(tenant);
        }
        true
    }

    /// Notes that a tenant with `count` sessions of at most `limit` starts another one now.
    fn counted(&self, tenant: &str, count: u64, limit: u64) {
        let left = limit.saturating_sub(count).saturating_sub(1) / PART_UNCOUNTED;
        let mut uncounted = self.uncounted.lock().unwrap_or_else(PoisonError::into_inner);
        if left == 0 {
            uncounted.remove(tenant);
            return;
        }
        // Forgetting costs one count per tenant.
        if uncounted.len() >= TENANTS_MAX {
            uncounted.clear();
        }
        uncounted.insert(tenant.to_owned(), left);
    }
}

impl Store {
    /// Checks whether a tenant may start another session. One that exists already is not refused here: storing it
    /// again tells so, and a repeated request goes on with it.
    ///
    /// Not within the transaction that stores it: all other writers would wait for the count. So the limit can be
    /// exceeded by as many sessions as are started at the same moment.
    pub(crate) async fn check_room_for_session(&self, key: &SessionKey) -> Result<()> {
        const KIND: LimitedKind = LimitedKind::Sessions;
        let Some(limit) = self.quotas.limits.limit(KIND) else { return Ok(()) };
        let tenant = text(key.tenant.as_str());
        if self.quotas.take(&tenant) {
            return Ok(());
        }
        let count = session::Entity::find()
            .select_only()
            .column(session::Column::Id)
            .filter(session::Column::TenantId.eq(tenant.as_str()))
            .count(&self.inner.read)
            .await
            .map_err(|error| self.fail("count the sessions", error))?;
        if let Err(full) = self.quotas.limits.check(KIND, count) {
            return found(SessionStore::revision(self, key).await)?.map(drop).ok_or(full);
        }
        self.quotas.counted(&tenant, count, limit);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_counted_more_often_the_less_room_there_is() {
        let quotas = Quotas::default();
        assert!(!quotas.take("one"), "nothing is known yet");
        quotas.counted("one", 0, 49);
        assert_eq!([(); 4].map(|()| quotas.take("one")), [true, true, true, false]);
        quotas.counted("one", 0, 49);
        assert!(!quotas.take("other"));
        // Less room than was known: other processes have used it.
        quotas.counted("one", 40, 49);
        assert!(!quotas.take("one"));
        // More than there may be: the limit was lowered.
        quotas.counted("one", 90, 49);
        assert!(!quotas.take("one"));
    }

    #[test]
    fn tenants_are_forgotten_rather_than_remembered_without_bound() {
        let quotas = Quotas::default();
        for nth in 0..=TENANTS_MAX {
            quotas.counted(&nth.to_string(), 0, 100);
        }
        assert_eq!(quotas.uncounted.lock().unwrap().len(), 1);
    }
}
