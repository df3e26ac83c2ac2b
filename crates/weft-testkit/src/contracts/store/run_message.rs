//! Contract of a store in which messages wait for runs.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use futures::future::join_all;
use weft_core::Ending;
use weft_core::ErrorKind::Conflict;
use weft_core::id::{ProcessId, RunKey};
use weft_core::seam::run_messages::{MESSAGES_MAX, RunMessage};
use weft_core::seam::run_store::{FinishedRun, RunLease, StoredRun};
use weft_core::seam::{RunMessages, RunStore};

use super::run::run;
use super::{LARGE, refused, tenant};

fn message(run: &RunKey, id: &str, sent_ms: i64) -> RunMessage {
    RunMessage { run: run.clone(), id: id.to_owned(), text: format!("faster, {id} 🦜"), sent_ms }
}

/// Checks the contract of [`RunMessages`]. The two are one store.
pub async fn run_messages_keep_their_contract(store: &dyn RunMessages, runs: &dyn RunStore) {
    let (tenant, one, other) = (tenant(), ProcessId::generate(), ProcessId::generate());
    let owned = StoredRun { owner: Some(one.clone()), ..run(&tenant, "r", "s", "c") };
    let beside = StoredRun { owner: Some(one.clone()), ..run(&tenant, "beside", "s2", "c") };
    let key = &owned.key;
    let first = message(key, "b", 1);
    assert!(!store.leave_message(&first).await.unwrap(), "there is no such run");
    for run in [&owned, &beside] {
        runs.create(run).await.unwrap();
    }
    let large = RunMessage { text: "x".repeat(LARGE), ..message(key, "a", 2) };
    let same_time = message(&beside.key, "c", 2);
    for message in [&large, &same_time, &first] {
        assert!(store.leave_message(message).await.unwrap());
    }
    refused(store.leave_message(&first).await, Conflict);
    let all = [first.clone(), large.clone(), same_time.clone()];
    assert_eq!(store.messages_for(&one, 99).await.unwrap(), all, "in order, and in their last state");
    assert_eq!(store.messages_for(&one, 1).await.unwrap(), all[..1]);
    assert!(store.messages_for(&other, 99).await.unwrap().is_empty());
    // They follow the run to the process that takes it over.
    runs.claim(key, owned.fence, &other).await.unwrap().unwrap();
    assert_eq!(store.messages_for(&other, 99).await.unwrap(), all[..2]);
    assert_eq!(store.messages_for(&one, 99).await.unwrap(), all[2..]);
    // Message ids belong to one run of one tenant.
    let ids = ["a".to_owned(), "c".to_owned()];
    let stranger = RunKey::new(&super::tenant(), key.id.as_str());
    assert_eq!(store.remove_messages(&stranger, &ids).await.unwrap(), 0);
    assert!(!store.message_waits(&stranger, "a").await.unwrap());
    assert!(store.message_waits(key, "a").await.unwrap());
    let removed = join_all((0..4).map(|_| store.remove_messages(key, &ids))).await;
    assert_eq!(removed.into_iter().map(Result::unwrap).sum::<u64>(), 1, "one of four has taken it");
    assert!(!store.message_waits(key, "a").await.unwrap());
    assert_eq!(store.messages_for(&other, 99).await.unwrap(), all[..1]);
    concurrent_messages_are_limited(store, key).await;
    // A run that has ended accepts no messages, and those waiting for it are removed with it.
    let lease = RunLease { run: key.clone(), fence: owned.fence + 1 };
    runs.finish(&lease, FinishedRun::new(Ending::Succeeded, 9)).await.unwrap();
    assert!(!store.leave_message(&message(key, "late", 9)).await.unwrap());
    assert!(store.messages_for(&other, 99).await.unwrap().is_empty());
    assert!(store.message_waits(key, "b").await.unwrap());
    assert_eq!(runs.remove(&[key.clone(), beside.key.clone()]).await.unwrap(), 1);
    assert!(!store.message_waits(key, "b").await.unwrap());
    assert_eq!(store.messages_for(&one, 99).await.unwrap(), all[2..], "that run is active");
    runs.finish(&RunLease::of(&beside), FinishedRun::new(Ending::Succeeded, 9)).await.unwrap();
}

async fn concurrent_messages_are_limited(store: &dyn RunMessages, key: &RunKey) {
    let many: Vec<_> = (0..2 * MESSAGES_MAX).map(|nth| message(key, &format!("m{nth}"), 3)).collect();
    let outcomes = join_all(many.iter().map(|message| store.leave_message(message))).await;
    let (left, full): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert_eq!(left.len(), MESSAGES_MAX - 1, "one is waiting already");
    full.into_iter().for_each(|outcome| refused(outcome, Conflict));
}
