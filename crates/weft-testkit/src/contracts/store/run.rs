//! Contract of a run store.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a contract fails by panicking")]

use futures::future::join_all;
use weft_core::Ending;
use weft_core::ErrorKind::{Conflict, Invalid, NotFound};
use weft_core::id::{ProcessId, RunKey, TenantId};
use weft_core::seam::RunStore;
use weft_core::seam::run_store::{FinishedRun, Retention, RunFilter, RunLease, StoredEntry, StoredRun};

use super::{LARGE, refused, tenant};

pub(super) fn run(tenant: &TenantId, id: &str, session: &str, canvas: &str) -> StoredRun {
    StoredRun {
        query: "What? 🦜".into(),
        owner: Some("process".into()),
        ..StoredRun::begun(RunKey::new(tenant, id), session, canvas, 1_000)
    }
}

pub(super) fn entries(seqs: std::ops::RangeInclusive<u64>) -> Vec<StoredEntry> {
    seqs.map(|seq| StoredEntry {
        seq,
        event: (seq % 3 != 0).then_some(seq),
        at_ms: 1_000 - seq.cast_signed() * 7,
        record: format!("{{\"n\":{seq},\"text\":\"Ω🦜\"}}").into(),
    })
    .collect()
}

/// Checks the contract of [`RunStore`].
pub async fn run_store_keeps_its_contract(store: &dyn RunStore) {
    runs_round_trip(store).await;
    entries_are_read_from_any_position(store).await;
    a_journal_has_no_gaps(store).await;
    one_of_many_concurrent_writers_continues(store).await;
    runs_are_independent(store).await;
    large_records_round_trip(store).await;
    a_run_ends_with_its_last_entries(store).await;
    an_ended_run_is_left_alone(store).await;
    a_session_has_one_active_run(store).await;
    runs_are_listed_newest_first(store).await;
    runs_are_removed_by_rule(store).await;
    tenants_are_isolated(store).await;
}

async fn runs_round_trip(store: &dyn RunStore) {
    let one = run(&tenant(), "one", "s", "c");
    refused(store.get(&one.key).await, NotFound);
    refused(store.finish(&RunLease::first(&one.key), FinishedRun::new(Ending::Failed, 1)).await, NotFound);
    refused(store.entries(&one.key, 0, 9).await, NotFound);
    refused(store.append(&RunLease::first(&one.key), entries(1..=1)).await, NotFound);
    store.create(&one).await.unwrap();
    assert_eq!(store.get(&one.key).await.unwrap(), one);
    assert_eq!(store.entries(&one.key, 0, 9).await.unwrap(), []);
    refused(store.create(&one).await, Conflict);
    for ending in [Ending::Waiting, Ending::Cancelled, Ending::Failed, Ending::Succeeded, Ending::Succeeded] {
        store.finish(&RunLease::first(&one.key), FinishedRun::new(ending, 2_000)).await.unwrap();
        let ended = StoredRun { ending: Some(ending), finished_ms: Some(2_000), ..one.clone() };
        assert_eq!(store.get(&one.key).await.unwrap(), ended);
    }
    let odd = StoredRun { query: "a\0b".into(), ..run(&one.key.tenant, "odd", "t", "c") };
    store.create(&odd).await.unwrap();
}

async fn entries_are_read_from_any_position(store: &dyn RunStore) {
    let one = run(&tenant(), "one", "s", "c");
    store.create(&one).await.unwrap();
    for seqs in [1..=3, 4..=4, 5..=9, 10..=10] {
        store.append(&RunLease::first(&one.key), entries(seqs)).await.unwrap();
    }
    let all = entries(1..=10);
    for after in 0..=11_u64 {
        for count_max in [0, 1, 2, 5, u64::MAX] {
            let found = store.entries(&one.key, after, count_max).await.unwrap();
            let wanted: Vec<_> = all
                .iter()
                .filter(|entry| entry.seq > after)
                .take(usize::try_from(count_max).unwrap_or(usize::MAX))
                .cloned()
                .collect();
            assert_eq!(found, wanted, "{count_max} after {after}");
        }
    }
    assert_eq!(store.entries(&one.key, u64::MAX, 9).await.unwrap(), []);
}

async fn a_journal_has_no_gaps(store: &dyn RunStore) {
    let one = run(&tenant(), "one", "s", "c");
    store.create(&one).await.unwrap();
    refused(store.append(&RunLease::first(&one.key), entries(2..=2)).await, Conflict);
    store.append(&RunLease::first(&one.key), entries(1..=4)).await.unwrap();
    for seqs in [1..=1, 3..=5, 4..=5, 6..=6] {
        refused(store.append(&RunLease::first(&one.key), entries(seqs)).await, Conflict);
    }
    let mut torn = entries(5..=7);
    torn.remove(1);
    refused(store.append(&RunLease::first(&one.key), torn).await, Invalid);
    store.append(&RunLease::first(&one.key), Vec::new()).await.unwrap();
    assert_eq!(store.entries(&one.key, 0, 99).await.unwrap(), entries(1..=4));
    store.append(&RunLease::first(&one.key), entries(5..=5)).await.unwrap();
    store.finish(&RunLease::first(&one.key), FinishedRun::new(Ending::Waiting, 1)).await.unwrap();
    refused(store.append(&RunLease::first(&one.key), entries(5..=5)).await, Conflict);
    store.append(&RunLease::first(&one.key), entries(6..=6)).await.unwrap();
}

/// Both or neither, however many appends came before.
async fn a_run_ends_with_its_last_entries(store: &dyn RunStore) {
    for before in [0, 1, 4] {
        let one = run(&tenant(), "one", "s", "c");
        store.create(&one).await.unwrap();
        let lease = RunLease::first(&one.key);
        for seq in 1..=before {
            store.append(&lease, entries(seq..=seq)).await.unwrap();
        }
        let finished = FinishedRun::new(Ending::Succeeded, 2_000);
        refused(store.end(&lease, entries(before + 2..=before + 2), finished.clone()).await, Conflict);
        let last = entries(before + 1..=before + 2);
        let other = RunLease { fence: lease.fence + 1, ..lease.clone() };
        refused(store.end(&other, last.clone(), finished.clone()).await, Conflict);
        assert_eq!(store.get(&one.key).await.unwrap(), one);
        assert_eq!(store.entries(&one.key, 0, 9).await.unwrap(), entries(1..=before));
        store.end(&lease, last.clone(), finished.clone()).await.unwrap().unwrap();
        let ended = StoredRun { ending: Some(Ending::Succeeded), finished_ms: Some(2_000), ..one.clone() };
        refused(store.end(&lease, last, finished.clone()).await, Conflict);
        assert_eq!(store.get(&one.key).await.unwrap(), ended);
        assert_eq!(store.entries(&one.key, 0, 9).await.unwrap(), entries(1..=before + 2));
    }
    let nobody = RunLease::first(&RunKey::new(&tenant(), "nobody"));
    refused(store.end(&nobody, entries(1..=1), FinishedRun::new(Ending::Failed, 1)).await, NotFound);
}

async fn one_of_many_concurrent_writers_continues(store: &dyn RunStore) {
    let one = run(&tenant(), "one", "s", "c");
    store.create(&one).await.unwrap();
    let write = async |n: u64| (n, store.append(&RunLease::first(&one.key), entries(1..=n)).await);
    let (won, lost): (Vec<_>, Vec<_>) =
        join_all((1..=8).map(write)).await.into_iter().partition(|(_, outcome)| outcome.is_ok());
    assert_eq!(won.len(), 1);
    lost.into_iter().for_each(|(_, outcome)| refused(outcome, Conflict));
    assert_eq!(store.entries(&one.key, 0, 99).await.unwrap(), entries(1..=won[0].0));
}

async fn runs_are_independent(store: &dyn RunStore) {
    let tenant = tenant();
    let go = async |n: usize| {
        let one = run(&tenant, &format!("run{n}"), &format!("s{n}"), "c");
        // Every fifth was never created, and every fourth gets an entry that does not follow its journal.
        if !n.is_multiple_of(5) {
            store.create(&one).await.unwrap();
        }
        for step in 0..4 {
            let outcome =
                store.append(&RunLease::first(&one.key), entries(step * 2 + 1..=step * 2 + 2)).await;
            if n.is_multiple_of(5) {
                assert!(outcome.is_err());
                continue;
            }
            outcome.unwrap();
            if n.is_multiple_of(4) {
                refused(store.append(&RunLease::first(&one.key), entries(1..=1)).await, Conflict);
            }
        }
        n
    };
    for n in join_all((0..90).map(go)).await {
        let key = RunKey::new(&tenant, format!("run{n}"));
        if n.is_multiple_of(5) {
            refused(store.entries(&key, 0, 99).await, NotFound);
        } else {
            assert_eq!(store.entries(&key, 0, 99).await.unwrap(), entries(1..=8));
        }
    }
}

async fn large_records_round_trip(store: &dyn RunStore) {
    let one = run(&tenant(), "one", "s", "c");
    store.create(&one).await.unwrap();
    let mut large = entries(1..=3);
    large[1].record = format!("{{\"text\":\"{}\"}}", "ж".repeat(LARGE)).into();
    store.append(&RunLease::first(&one.key), large.clone()).await.unwrap();
    assert!(store.entries(&one.key, 0, 9).await.unwrap() == large);
}

async fn an_ended_run_is_left_alone(store: &dyn RunStore) {
    let (tenant, other) = (tenant(), ProcessId::from("other"));
    for ending in [Ending::Waiting, Ending::Cancelled, Ending::Failed, Ending::Succeeded] {
        let one = run(&tenant, ending.as_str(), "s", "c");
        store.create(&one).await.unwrap();
        store.finish(&RunLease::of(&one), FinishedRun::new(ending, 2_000)).await.unwrap();
        let ended = store.get(&one.key).await.unwrap();
        assert_eq!(store.claim(&one.key, one.fence, &other).await.unwrap(), None, "{ending:?}");
        assert!(!store.request_cancel(&one.key, 3_000).await.unwrap());
        store.release(&[RunLease::of(&one)]).await.unwrap();
        assert_eq!(store.get(&one.key).await.unwrap(), ended);
        assert_eq!(
            of_tenant(&tenant, store.unattended(&["process".into()], u64::MAX).await.unwrap()),
            [""; 0]
        );
    }
}

/// The ids of the runs that belong to a tenant.
pub(super) fn of_tenant(tenant: &TenantId, runs: Vec<StoredRun>) -> Vec<String> {
    runs.into_iter().filter(|run| run.key.tenant == *tenant).map(|run| run.key.id.to_string()).collect()
}

async fn a_session_has_one_active_run(store: &dyn RunStore) {
    let (ours, theirs) = (tenant(), tenant());
    for ending in [Ending::Waiting, Ending::Cancelled, Ending::Failed, Ending::Succeeded] {
        let ids: Vec<_> = (0..8).map(|n| format!("{}{n}", ending.as_str())).collect();
        let create = async |n: usize| (&ids[n], store.create(&run(&ours, &ids[n], "s", "c")).await);
        let (won, lost): (Vec<_>, Vec<_>) =
            join_all((0..8).map(create)).await.into_iter().partition(|(_, outcome)| outcome.is_ok());
        let [(winner, _)] = won.as_slice() else { panic!("{} began", won.len()) };
        for (id, outcome) in lost {
            let error = outcome.unwrap_err();
            assert!(error.kind == Conflict && error.message.contains(*winner), "{}", error.full());
            assert!(error.message.contains("session s ") && error.help.is_some(), "{}", error.full());
            refused(store.get(&RunKey::new(&ours, id.as_str())).await, NotFound);
        }
        let winner = RunKey::new(&ours, winner.as_str());
        // Other sessions are not blocked, however similar their names.
        for (tenant, session) in [(&ours, "S"), (&ours, "s "), (&theirs, "s")] {
            let other = run(tenant, &format!("{session}{}", ending.as_str()), session, "c");
            store.create(&other).await.unwrap();
            store.finish(&RunLease::first(&other.key), FinishedRun::new(ending, 1)).await.unwrap();
        }
        // A run that is being taken over, or was released, still counts as active.
        let taken = store.claim(&winner, RunLease::FIRST, &"other".into()).await.unwrap().unwrap();
        refused(store.create(&run(&ours, "another", "s", "c")).await, Conflict);
        store.release(std::slice::from_ref(&taken)).await.unwrap();
        refused(store.create(&run(&ours, "another", "s", "c")).await, Conflict);
        store.finish(&taken, FinishedRun::new(ending, 4_000)).await.unwrap();
    }
    store.create(&run(&ours, "another", "s", "c")).await.unwrap();
}

async fn runs_are_listed_newest_first(store: &dyn RunStore) {
    let tenant = tenant();
    for (n, (id, session)) in [("b", "x"), ("a", "x"), ("c", "y"), ("d", "X")].into_iter().enumerate() {
        let started_ms = 1_000 + n as i64;
        store.create(&StoredRun { started_ms, ..run(&tenant, id, session, "c") }).await.unwrap();
        if id == "b" {
            store
                .finish(
                    &RunLease::first(&RunKey::new(&tenant, id)),
                    FinishedRun::new(Ending::Succeeded, 2_000),
                )
                .await
                .unwrap();
        }
    }
    let all = RunFilter { limit: u64::MAX, ..RunFilter::default() };
    let check = async |filter: RunFilter, ids: &[&str]| {
        let found = store.list(&tenant, &filter).await.unwrap();
        let found: Vec<_> = found.iter().map(|run| run.key.id.as_str()).collect();
        assert_eq!(&*found, ids, "{filter:?}");
    };
    check(all.clone(), &["d", "c", "a", "b"]).await;
    check(RunFilter { session: Some("x".into()), ..all.clone() }, &["a", "b"]).await;
    check(RunFilter { unfinished: true, ..all.clone() }, &["d", "c", "a"]).await;
    check(RunFilter { offset: 1, limit: 2, ..all.clone() }, &["c", "a"]).await;
    // A reader that continues after its last entry misses nothing if that run has ended meanwhile.
    check(RunFilter { after: Some((1_002, "c".into())), ..all.clone() }, &["a", "b"]).await;
    check(RunFilter { after: Some((1_001, "b".into())), ..all.clone() }, &["a", "b"]).await;
    check(RunFilter { after: Some((1_001, "a".into())), unfinished: true, ..all.clone() }, &[]).await;
    check(RunFilter { offset: u64::MAX, ..all }, &[]).await;
    check(RunFilter::default(), &[]).await;
}

async fn runs_are_removed_by_rule(store: &dyn RunStore) {
    use Ending::{Failed, Succeeded, Waiting};
    let (ours, theirs) = (tenant(), tenant());
    let made = [
        ("a1", "a", Some((Succeeded, 50))),
        ("a2", "a", Some((Waiting, 60))),
        ("a3", "a", Some((Failed, 70))),
        ("a4", "a", Some((Succeeded, 80))),
        ("b1", "b", Some((Succeeded, 40))),
        ("b2", "b", Some((Waiting, 41))),
        ("c1", "c", Some((Succeeded, 42))),
        ("c2", "c", None),
    ];
    for tenant in [&ours, &theirs] {
        for (n, (id, session, ended)) in made.iter().enumerate() {
            let one = StoredRun { started_ms: n as i64, ..run(tenant, id, session, "c") };
            store.create(&one).await.unwrap();
            store.append(&RunLease::first(&one.key), entries(1..=3)).await.unwrap();
            if let Some((ending, at)) = ended {
                store.finish(&RunLease::first(&one.key), FinishedRun::new(*ending, *at)).await.unwrap();
            }
        }
    }
    let check = async |ended_before_ms, per_session_max, count_max, ids: &[&str]| {
        let keep = Retention { ended_before_ms, per_session_max };
        let found = store.expired(&ours, &keep, count_max).await.unwrap();
        let found: Vec<_> = found.iter().map(|run| run.key.id.as_str()).collect();
        assert_eq!(&*found, ids, "{keep:?}");
    };
    check(None, None, 99, &[]).await;
    check(Some(40), None, 99, &[]).await;
    check(Some(61), None, 99, &["b1", "c1", "a1", "a2"]).await;
    check(Some(61), None, 3, &["b1", "c1", "a1"]).await;
    check(None, Some(2), 99, &["a1", "a2"]).await;
    check(Some(43), Some(3), 99, &["b1", "c1", "a1"]).await;
    // Runs that wait for a person or are active are never removed, whatever the rules.
    check(Some(i64::MAX), Some(0), 99, &["b1", "c1", "a1", "a2", "a3", "a4"]).await;
    let key = |id: &str| RunKey::new(&ours, id);
    let some = ["a1", "a3", "c2", "absent", "a1"].map(key);
    assert_eq!(store.remove(&some).await.unwrap(), 2);
    assert_eq!(store.remove(&some).await.unwrap(), 0);
    for id in ["a1", "a3"] {
        refused(store.get(&key(id)).await, NotFound);
        refused(store.entries(&key(id), 0, 9).await, NotFound);
    }
    for key in ["a2", "a4", "b1", "c2"].map(key).into_iter().chain([RunKey::new(&theirs, "a1")]) {
        assert_eq!(store.entries(&key, 0, 9).await.unwrap(), entries(1..=3));
    }
    store.append(&RunLease::first(&key("c2")), entries(4..=4)).await.unwrap();
    check(Some(i64::MAX), Some(0), 99, &["b1", "c1", "a2", "a4"]).await;
}

async fn tenants_are_isolated(store: &dyn RunStore) {
    let (ours, theirs) = (tenant(), tenant());
    let (mine, yours) = (run(&ours, "same", "s", "c"), run(&theirs, "same", "s", "c"));
    store.create(&mine).await.unwrap();
    refused(store.get(&yours.key).await, NotFound);
    store.create(&yours).await.unwrap();
    store.append(&RunLease::first(&mine.key), entries(1..=5)).await.unwrap();
    store.append(&RunLease::first(&yours.key), entries(1..=1)).await.unwrap();
    assert_eq!(store.entries(&yours.key, 0, 9).await.unwrap(), entries(1..=1));
    store.finish(&RunLease::first(&mine.key), FinishedRun::new(Ending::Succeeded, 5)).await.unwrap();
    assert_eq!(store.get(&yours.key).await.unwrap(), yours);
}
