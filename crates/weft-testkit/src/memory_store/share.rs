//! Share tokens, and the audit log.

use std::collections::BTreeMap;

use weft_core::id::TenantId;
use weft_core::seam::audit_store::{AuditEntry, AuditFilter};
use weft_core::seam::share_store::{SHARES_MAX, ShareTarget, ShareToken};
use weft_core::seam::{AuditStore, ShareStore};
use weft_core::{Error, ErrorKind, Result, async_trait};

use super::{MemoryStore, conflict};

pub(super) type ShareTable = BTreeMap<String, ShareToken>;
pub(super) type Audit = BTreeMap<(TenantId, i64, String), AuditEntry>;

fn missing() -> Error {
    Error::not_found("there is no such share token")
}

#[async_trait]
impl ShareStore for MemoryStore {
    async fn add_share(&self, share: &ShareToken) -> Result<()> {
        let shares = &mut self.tables().shares;
        if shares.contains_key(&share.hash) {
            return Err(conflict("this share token is stored already".to_owned()));
        }
        let others = shares.values().filter(|one| one.tenant == share.tenant && one.target == share.target);
        if others.count() as u64 >= SHARES_MAX {
            return Err(Error::new(ErrorKind::QuotaExceeded, "there are too many share tokens"));
        }
        shares.insert(share.hash.clone(), share.clone());
        Ok(())
    }

    async fn share(&self, hash: &str) -> Result<ShareToken> {
        self.tables().shares.get(hash).cloned().ok_or_else(missing)
    }

    async fn share_used(&self, hash: &str, at_ms: i64) -> Result<()> {
        if let Some(share) = self.tables().shares.get_mut(hash) {
            share.last_used_ms = share.last_used_ms.max(Some(at_ms));
        }
        Ok(())
    }

    async fn shares(
        &self,
        tenant: &TenantId,
        target: &ShareTarget,
        count_max: u64,
    ) -> Result<Vec<ShareToken>> {
        let tables = self.tables();
        let theirs = tables.shares.values().filter(|one| one.tenant == *tenant && one.target == *target);
        let mut found: Vec<ShareToken> = theirs.cloned().collect();
        found.sort_by(|a, b| a.created_ms.cmp(&b.created_ms).then_with(|| a.hash.cmp(&b.hash)));
        found.truncate(usize::try_from(count_max).unwrap_or(usize::MAX));
        Ok(found)
    }

    async fn remove_share(&self, tenant: &TenantId, target: &ShareTarget, hash: &str) -> Result<()> {
        let shares = &mut self.tables().shares;
        if shares.get(hash).is_none_or(|one| one.tenant != *tenant || one.target != *target) {
            return Err(missing());
        }
        shares.remove(hash);
        Ok(())
    }

    async fn remove_shares(&self, tenant: &TenantId, target: &ShareTarget) -> Result<u64> {
        let shares = &mut self.tables().shares;
        let before = shares.len();
        shares.retain(|_, one| one.tenant != *tenant || one.target != *target);
        Ok((before - shares.len()) as u64)
    }
}

#[async_trait]
impl AuditStore for MemoryStore {
    async fn add_audit(&self, entry: &AuditEntry) -> Result<()> {
        let at = (entry.tenant.clone(), entry.at_ms, entry.id.clone());
        self.tables().audit.insert(at, entry.clone());
        Ok(())
    }

    async fn audit(&self, tenant: &TenantId, filter: &AuditFilter) -> Result<Vec<AuditEntry>> {
        let tables = self.tables();
        let wanted = |entry: &&AuditEntry| {
            let beyond = |after: &weft_core::seam::audit_store::AuditPosition| {
                let (this, last) = ((entry.at_ms, &entry.id), (after.at_ms, &after.id));
                if filter.ascending { this > last } else { this < last }
            };
            entry.tenant == *tenant
                && filter.actor.as_ref().is_none_or(|actor| *actor == entry.actor)
                && filter.since_ms.is_none_or(|since| entry.at_ms >= since)
                && filter.until_ms.is_none_or(|until| entry.at_ms < until)
                && filter.after.as_ref().is_none_or(beyond)
        };
        let mut found: Vec<AuditEntry> = tables.audit.values().filter(wanted).cloned().collect();
        if !filter.ascending {
            found.reverse();
        }
        found.truncate(usize::try_from(filter.limit).unwrap_or(usize::MAX));
        Ok(found)
    }

    async fn replace_audit_target(&self, target: &str, by: &str) -> Result<u64> {
        let audit = &mut self.tables().audit;
        let mut changed = 0;
        for entry in audit.values_mut().filter(|entry| entry.target == target) {
            by.clone_into(&mut entry.target);
            changed += 1;
        }
        Ok(changed)
    }

    async fn remove_audit_before(&self, before_ms: i64) -> Result<u64> {
        let audit = &mut self.tables().audit;
        let before = audit.len();
        audit.retain(|(_, at_ms, _), _| *at_ms >= before_ms);
        Ok((before - audit.len()) as u64)
    }
}
