//! Contract of the store for the audit log.

use weft_core::id::{TenantId, generate};
use weft_core::seam::AuditStore;
use weft_core::seam::audit_store::{AuditEntry, AuditFilter, AuditPosition};

use super::{fine, tenant};

/// Checks the contract of [`AuditStore`].
pub async fn audit_store_keeps_its_contract(store: &dyn AuditStore) {
    let (ours, theirs) = (tenant(), tenant());
    let entry = |tenant: &TenantId, at_ms: i64, actor: &str| AuditEntry {
        tenant: tenant.clone(),
        at_ms,
        id: generate(),
        actor: actor.to_owned(),
        action: "PUT /api/v1/agents/{id}".to_owned(),
        target: "/api/v1/agents/ü".to_owned(),
        outcome: 0,
        address: "::1".to_owned(),
    };
    // Long ago, so that they can be removed separately.
    let base = -9_000_000;
    let all: Vec<AuditEntry> = [(0, "user:a"), (1, "user:b"), (1, "user:a"), (1, "user:a"), (2, "nobody")]
        .map(|(at, actor)| entry(&ours, base + at, actor))
        .into();
    for one in &all {
        fine(store.add_audit(one).await);
    }
    fine(store.add_audit(&entry(&theirs, base + 1, "user:a")).await);
    let mut sorted = all.clone();
    sorted.sort_by(|a, b| (a.at_ms, &a.id).cmp(&(b.at_ms, &b.id)));
    let list = async |filter: AuditFilter| {
        fine(store.audit(&ours, &AuditFilter { limit: filter.limit.max(1), ..filter }).await)
    };
    let many = AuditFilter { limit: 100, ..AuditFilter::default() };
    assert_eq!(list(AuditFilter { ascending: true, ..many.clone() }).await, sorted);
    let newest: Vec<_> = sorted.iter().rev().cloned().collect();
    assert_eq!(list(many.clone()).await, newest);
    for (ascending, expected) in [(true, &sorted), (false, &newest)] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page =
                list(AuditFilter { ascending, after: after.clone(), limit: 2, ..AuditFilter::default() })
                    .await;
            let Some(last) = page.last() else { break };
            after = Some(AuditPosition { at_ms: last.at_ms, id: last.id.clone() });
            seen.extend(page);
        }
        assert_eq!(seen, *expected);
    }
    let of = AuditFilter { actor: Some("user:a".to_owned()), ..many.clone() };
    assert_eq!(list(of).await.len(), 3);
    let between = AuditFilter { since_ms: Some(base + 1), until_ms: Some(base + 2), ..many.clone() };
    assert_eq!(list(between).await.len(), 3);
    assert!(fine(store.remove_audit_before(base + 2).await) >= 5);
    assert_eq!(list(many).await, newest[..1]);
    fine(store.remove_audit_before(base + 3).await);
    objects_are_replaced(store).await;
}

/// The address of a removed user is replaced in every tenant, and nothing else that contains it.
async fn objects_are_replaced(store: &dyn AuditStore) {
    let (ours, theirs) = (tenant(), tenant());
    let address = format!("{}@example.com", generate());
    let longer = format!("{address}.org");
    for (nth, (tenant, target)) in
        (0..).zip([(&ours, &address), (&ours, &longer), (&ours, &address), (&theirs, &address)])
    {
        let entry = AuditEntry {
            tenant: tenant.clone(),
            at_ms: nth,
            id: generate(),
            actor: "cli".to_owned(),
            action: "login".to_owned(),
            target: target.clone(),
            outcome: 0,
            address: String::new(),
        };
        fine(store.add_audit(&entry).await);
    }
    assert_eq!(fine(store.replace_audit_target(&address, "u1").await), 3);
    assert_eq!(fine(store.replace_audit_target(&address, "u2").await), 0);
    for (tenant, expected) in [(&ours, vec!["u1", &*longer, "u1"]), (&theirs, vec!["u1"])] {
        let all = AuditFilter { ascending: true, limit: 9, ..AuditFilter::default() };
        let listed = fine(store.audit(tenant, &all).await);
        let targets: Vec<&str> = listed.iter().map(|one| one.target.as_str()).collect();
        assert_eq!(targets, expected);
    }
}
