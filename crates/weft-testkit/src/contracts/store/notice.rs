//! Contract of a store for notices to people.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use std::collections::BTreeSet;

use futures::future::join_all;
use serde_json::json;
use weft_core::Ending;
use weft_core::ErrorKind::{Conflict, Invalid};
use weft_core::id::{RunKey, TenantId, generate};
use weft_core::seam::notice_store::{
    Notice, NoticeKey, NoticeKind, NoticeLease, NoticeOutcome, NoticeState, StoredNotice,
};
use weft_core::seam::run_store::{FinishedRun, RunLease, StoredRun};
use weft_core::seam::{NoticeStore, RunStore};

use super::{LARGE, refused, tenant};

/// Later than all times in this suite, and long before any other notices.
const END: i64 = 1_000_000;

fn notice(tenant: &TenantId, subject: &str, at_ms: i64) -> Notice {
    let key = NoticeKey { tenant: tenant.clone(), kind: NoticeKind::Budget, subject: subject.to_owned() };
    Notice { key, said: json!({"limit": "tokens 🦜"}), at_ms }
}

/// Checks the contract of [`NoticeStore`], and that a failed run creates a notice.
pub async fn notice_store_keeps_its_contract(store: &dyn NoticeStore, runs: &dyn RunStore) {
    drain(store).await;
    a_fact_is_recorded_once(store).await;
    each_item_goes_to_one_of_many_takers(store).await;
    a_lease_ends_with_its_time(store).await;
    a_failed_run_is_recorded(store, runs).await;
    old_facts_are_removed(store).await;
}

fn outcome(state: NoticeState, reason: &str) -> NoticeOutcome {
    NoticeOutcome { done: vec!["webhook".to_owned()], state, reason: reason.to_owned() }
}

/// Settles all remaining notices, so that the next check starts without any.
async fn drain(store: &dyn NoticeStore) {
    loop {
        let taken = store.take_notices(END, END, 100).await.unwrap();
        if taken.is_empty() {
            return;
        }
        for (lease, _) in taken {
            store.settle_notice(&lease, &outcome(NoticeState::Delivered { at_ms: END }, "")).await.unwrap();
        }
    }
}

async fn one(store: &dyn NoticeStore, now_ms: i64, until_ms: i64) -> (NoticeLease, StoredNotice) {
    let mut taken = store.take_notices(now_ms, until_ms, 9).await.unwrap();
    assert_eq!(taken.len(), 1, "{taken:?}");
    taken.remove(0)
}

async fn none(store: &dyn NoticeStore, now_ms: i64) {
    assert_eq!(store.take_notices(now_ms, END, 9).await.unwrap(), []);
}

async fn a_fact_is_recorded_once(store: &dyn NoticeStore) {
    let (ours, theirs) = (tenant(), tenant());
    store.push_notices(&[]).await.unwrap();
    refused(store.push_notices(&[notice(&ours, "", 1)]).await, Invalid);
    let mut first = notice(&ours, "a", 1_000);
    first.said = json!({"text": "ж".repeat(LARGE)});
    store.push_notices(&[first.clone(), notice(&ours, "b", 2_000)]).await.unwrap();
    // The same fact is reported again, later and in other words.
    store.push_notices(&[notice(&ours, "a", 1_500), notice(&theirs, "a", 3_000)]).await.unwrap();
    let (found, total) = store.notices(&ours, 0, 9).await.unwrap();
    let subjects = |found: &[StoredNotice]| {
        found.iter().map(|one| one.notice.key.subject.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!((subjects(&found), total), ("b a".to_owned(), 2));
    assert!(found[1].notice == first && found[1].state == NoticeState::Waiting { from_ms: 1_000 });
    let (second, total) = store.notices(&ours, 1, 1).await.unwrap();
    assert_eq!((subjects(&second), total), ("a".to_owned(), 2));
    // Another kind of fact about the same subject is another notice.
    let failed = Notice::run_failed(&RunKey::new(&ours, "a"), 4_000);
    store.push_notices(std::slice::from_ref(&failed)).await.unwrap();
    assert_eq!(store.notices(&ours, 0, 9).await.unwrap().0[0].notice, failed);
    none(store, 999).await;
    drain(store).await;
    // A notice that was delivered is not delivered again.
    store.push_notices(&[notice(&ours, "a", 1_000)]).await.unwrap();
    none(store, END).await;
}

async fn each_item_goes_to_one_of_many_takers(store: &dyn NoticeStore) {
    let tenant = tenant();
    let notices: Vec<Notice> = (0..20).map(|n| notice(&tenant, &format!("n{n}"), 100)).collect();
    store.push_notices(&notices).await.unwrap();
    let taken = join_all((0..4).map(|_| store.take_notices(200, END, 20))).await;
    let taken: Vec<String> =
        taken.into_iter().flat_map(|some| some.unwrap()).map(|(lease, _)| lease.key.subject).collect();
    let different: BTreeSet<_> = taken.iter().collect();
    assert_eq!((taken.len(), different.len()), (20, 20));
    none(store, 300).await;
    drain(store).await;
}

async fn a_lease_ends_with_its_time(store: &dyn NoticeStore) {
    let tenant = tenant();
    store.push_notices(&[notice(&tenant, "a", 100)]).await.unwrap();
    let (old, stored) = one(store, 200, 500).await;
    assert_eq!((stored.attempts, stored.state), (1, NoticeState::Taken { until_ms: 500 }));
    none(store, 499).await;
    let (new, stored) = one(store, 500, 900).await;
    assert_eq!(stored.attempts, 2);
    let later = outcome(NoticeState::Waiting { from_ms: 2_000 }, "nobody answers");
    refused(store.settle_notice(&old, &later).await, Conflict);
    store.settle_notice(&new, &later).await.unwrap();
    refused(store.settle_notice(&new, &later).await, Conflict);
    none(store, 1_999).await;
    let (lease, stored) = one(store, 2_000, 3_000).await;
    assert_eq!(stored.done, ["webhook"]);
    assert_eq!((stored.attempts, stored.reason.as_str()), (3, "nobody answers"));
    let given_up = NoticeState::GivenUp { at_ms: 2_500 };
    store.settle_notice(&lease, &outcome(given_up, "there is no such place")).await.unwrap();
    none(store, END).await;
    assert_eq!(store.notices(&tenant, 0, 1).await.unwrap().0[0].state, given_up);
}

async fn a_failed_run_is_recorded(store: &dyn NoticeStore, runs: &dyn RunStore) {
    let tenant = tenant();
    let run = |ending: Ending| {
        StoredRun::begun(
            RunKey::new(&tenant, format!("{}-{}", ending.as_str(), generate())),
            generate(),
            "c",
            1,
        )
    };
    let endings = [Ending::Succeeded, Ending::Failed, Ending::Cancelled, Ending::Waiting];
    let mut failed = None;
    for ending in endings {
        let run = run(ending);
        runs.create(&run).await.unwrap();
        let stale = RunLease { fence: RunLease::FIRST + 1, ..RunLease::first(&run.key) };
        refused(runs.finish(&stale, FinishedRun::new(ending, 70)).await, Conflict);
        assert_eq!(store.notices(&tenant, 0, 9).await.unwrap().1, u64::from(failed.is_some()));
        for _ in 0..2 {
            runs.finish(&RunLease::first(&run.key), FinishedRun::new(ending, 70)).await.unwrap();
        }
        failed = failed.or((ending == Ending::Failed).then_some(run.key));
    }
    let (found, total) = store.notices(&tenant, 0, 9).await.unwrap();
    assert_eq!((found[0].notice.clone(), total), (Notice::run_failed(&failed.unwrap(), 70), 1));
    drain(store).await;
}

async fn old_facts_are_removed(store: &dyn NoticeStore) {
    // Long ago, so that they can be removed separately.
    let (tenant, base) = (tenant(), -9_000_000);
    store.push_notices(&[notice(&tenant, "a", base), notice(&tenant, "b", base + 1)]).await.unwrap();
    drain(store).await;
    store.push_notices(&[notice(&tenant, "c", base), notice(&tenant, "d", base + 1)]).await.unwrap();
    assert!(store.prune_notices(base + 1).await.unwrap() >= 2);
    assert_eq!(store.notices(&tenant, 0, 9).await.unwrap().1, 2);
    assert!(store.prune_notices(base + 2).await.unwrap() >= 2);
    assert_eq!(store.notices(&tenant, 0, 9).await.unwrap().1, 0);
}
