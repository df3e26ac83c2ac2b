//! Contract of fencing: of several successive owners of a run, only the last one may write to it.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use futures::future::join_all;
use serde_json::json;
use weft_core::Ending;
use weft_core::ErrorKind::{Conflict, NotFound};
use weft_core::budget::Spent;
use weft_core::id::{ProcessId, RunKey, TaskKey};
use weft_core::seam::run_store::{
    FinishedRun, GiveWay, GiveWayWord, Retention, RunLease, RunRequest, StoredRun,
};
use weft_core::seam::session_store::SessionCommit;
use weft_core::seam::{RunStore, SessionStore, SpendingStore, TaskStore};

use super::run::{entries, of_tenant, run};
use super::session::{said, session};
use super::task::{by, task};
use super::{LARGE, refused, tenant};

/// The interfaces of one store that a run writes to.
#[derive(Clone, Copy)]
pub struct FencedStores<'a> {
    /// Runs and journals.
    pub runs: &'a dyn RunStore,
    /// Conversations.
    pub sessions: &'a dyn SessionStore,
    /// Questions to people.
    pub tasks: &'a dyn TaskStore,
    /// Usage of runs.
    pub spending: &'a dyn SpendingStore,
}

/// Checks that an owner that has lost a run changes nothing in it, whatever has happened to the run since.
pub async fn stores_are_fenced(stores: FencedStores<'_>) {
    a_run_is_claimed_by_one_owner(stores.runs).await;
    runs_are_handed_over(stores.runs).await;
    a_run_is_asked_to_stop(stores.runs).await;
    a_run_is_asked_to_yield(stores.runs).await;
    for ended in [
        OwnerProgress::No,
        OwnerProgress::Shortly,
        OwnerProgress::AfterManySteps,
        OwnerProgress::AfterLargeOnes,
    ] {
        an_old_owner_writes_nothing(stores, ended).await;
    }
    an_owner_overtaken_during_a_write_stops(stores.runs).await;
}

/// How far the new owner has got when the old one resumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerProgress {
    /// It has only taken over the run.
    No,
    /// It has ended the run after one step.
    Shortly,
    /// The rows of a long journal have been compacted.
    AfterManySteps,
    /// Some of its values are stored in pieces.
    AfterLargeOnes,
}

async fn a_run_is_claimed_by_one_owner(store: &dyn RunStore) {
    let one = run(&tenant(), "one", "s", "c");
    let by = ProcessId::from("first");
    assert_eq!(store.claim(&one.key, one.fence, &by).await.unwrap(), None, "there is no such run");
    store.create(&one).await.unwrap();
    for seen in [one.fence - 1, one.fence + 1, i64::MAX] {
        assert_eq!(store.claim(&one.key, seen, &by).await.unwrap(), None, "{seen}");
    }
    assert_eq!(store.get(&one.key).await.unwrap(), one);
    for fence in one.fence..one.fence + 3 {
        let names: Vec<_> = (0..8).map(|n| ProcessId::new(format!("{fence}-{n}"))).collect();
        let claims = join_all(names.iter().map(|by| store.claim(&one.key, fence, by))).await;
        let won: Vec<_> = (0..8).filter(|n| claims[*n].as_ref().unwrap().is_some()).collect();
        assert_eq!(won.len(), 1, "at {fence}");
        let lease = RunLease { run: one.key.clone(), fence: fence + 1 };
        assert_eq!(claims[won[0]].as_ref().unwrap(), &Some(lease));
        let taken = StoredRun { fence: fence + 1, owner: Some(names[won[0]].clone()), ..one.clone() };
        assert_eq!(store.get(&one.key).await.unwrap(), taken);
    }
}

async fn runs_are_handed_over(store: &dyn RunStore) {
    let tenant = tenant();
    // Unique names, because processes do not belong to a tenant.
    let (living, gone) = (ProcessId::generate(), ProcessId::generate());
    let mut all = Vec::new();
    for (n, owner) in [&living, &living, &gone, &living].into_iter().enumerate() {
        let id = format!("run{n}");
        let started_ms = 1_000 - n as i64;
        let one = StoredRun { owner: Some(owner.clone()), started_ms, ..run(&tenant, &id, &id, "c") };
        store.create(&one).await.unwrap();
        all.push(one);
    }
    let check = async |gone: &[ProcessId], count_max, wanted: &[&str]| {
        let found = store.unattended(gone, u64::MAX).await.unwrap();
        let mut found = of_tenant(&tenant, found);
        found.truncate(count_max);
        assert_eq!(found, wanted, "{gone:?}");
    };
    // Neither process is known.
    check(&[], 9, &["run3", "run2", "run1", "run0"]).await;
    check(&[living.clone(), gone.clone()], 9, &["run3", "run2", "run1", "run0"]).await;
    assert_eq!(store.unattended(&[], 0).await.unwrap(), []);
    // A run that another process has claimed meanwhile is not released by the old one.
    let taken = store.claim(&all[1].key, all[1].fence, &gone).await.unwrap().unwrap();
    store.release(&[RunLease::of(&all[0]), RunLease::of(&all[1])]).await.unwrap();
    let owner = async |n: usize| store.get(&all[n].key).await.unwrap().owner;
    assert_eq!((owner(0).await, owner(1).await), (None, Some(gone.clone())));
    store.release(&[taken, RunLease::first(&RunKey::new(&tenant, "nobody"))]).await.unwrap();
    assert_eq!(owner(1).await, None);
    // A claim of a released run gets a new fencing token.
    let lease = store.claim(&all[0].key, all[0].fence, &gone).await.unwrap().unwrap();
    assert_eq!(lease.fence, all[0].fence + 1);
    refused(store.append(&RunLease::of(&all[0]), entries(1..=1)).await, Conflict);
    store.append(&lease, entries(1..=1)).await.unwrap();
}

async fn a_run_is_asked_to_stop(store: &dyn RunStore) {
    let (ours, theirs) = (tenant(), tenant());
    let (owner, other) = (ProcessId::generate(), ProcessId::generate());
    let one = StoredRun { owner: Some(owner.clone()), ..run(&ours, "one", "s", "c") };
    let same = StoredRun { owner: Some(owner.clone()), ..run(&theirs, "one", "s", "c") };
    assert!(!store.request_cancel(&one.key, 5).await.unwrap(), "there is no such run");
    store.create(&one).await.unwrap();
    store.create(&same).await.unwrap();
    assert_eq!(store.requests(&owner).await.unwrap(), []);
    let cancel = [RunRequest { run: one.key.clone(), cancel: true, give_way: GiveWay::default() }];
    for now_ms in [5, 9] {
        assert!(store.request_cancel(&one.key, now_ms).await.unwrap());
        assert_eq!(store.get(&one.key).await.unwrap().cancel_ms, Some(5), "the first call counts");
        assert_eq!(store.requests(&owner).await.unwrap(), cancel);
    }
    // The new owner receives the request.
    let lease = store.claim(&one.key, one.fence, &other).await.unwrap().unwrap();
    assert_eq!(store.requests(&owner).await.unwrap(), []);
    assert_eq!(store.requests(&other).await.unwrap(), cancel);
    store.finish(&lease, FinishedRun::new(Ending::Cancelled, 10)).await.unwrap();
    assert_eq!(store.requests(&other).await.unwrap(), []);
    assert_eq!(store.get(&same.key).await.unwrap(), same);
}

async fn a_run_is_asked_to_yield(store: &dyn RunStore) {
    use GiveWayWord::{Asked, Listened};
    let (ours, theirs) = (tenant(), tenant());
    let (owner, other) = (ProcessId::generate(), ProcessId::generate());
    let one = StoredRun { owner: Some(owner.clone()), ..run(&ours, "one", "s", "c") };
    let same = StoredRun { owner: Some(owner.clone()), ..run(&theirs, "one", "s", "c") };
    for word in [Asked, Listened] {
        assert!(!store.say_of_giving_way(&one.key, word).await.unwrap(), "there is no such run");
    }
    store.create(&one).await.unwrap();
    store.create(&same).await.unwrap();
    let asked = |asked, listened, cancel| {
        let give_way = GiveWay { asked, listened };
        vec![RunRequest { run: one.key.clone(), cancel, give_way }]
    };
    let say = async |word| assert!(store.say_of_giving_way(&one.key, word).await.unwrap());
    say(Listened).await;
    assert_eq!(store.requests(&owner).await.unwrap(), [], "no request was made");
    join_all((0..3).map(|_| say(Asked))).await;
    assert_eq!(store.requests(&owner).await.unwrap(), asked(3, 1, false));
    assert_eq!(store.get(&one.key).await.unwrap().give_way, GiveWay { asked: 3, listened: 1 });
    say(Listened).await;
    store.request_cancel(&one.key, 5).await.unwrap();
    assert_eq!(store.requests(&owner).await.unwrap(), asked(3, 2, true));
    // The new owner receives the request.
    let lease = store.claim(&one.key, one.fence, &other).await.unwrap().unwrap();
    assert_eq!(store.requests(&owner).await.unwrap(), []);
    assert_eq!(store.requests(&other).await.unwrap(), asked(3, 2, true));
    store.finish(&lease, FinishedRun::new(Ending::Cancelled, 10)).await.unwrap();
    assert_eq!(store.requests(&other).await.unwrap(), []);
    for word in [Asked, Listened] {
        assert!(!store.say_of_giving_way(&one.key, word).await.unwrap(), "it has ended");
    }
    let keep = Retention { ended_before_ms: Some(11), per_session_max: None };
    store.create(&run(&ours, "next", "s", "c")).await.unwrap();
    let expired = store.expired(&ours, &keep, 9).await.unwrap();
    assert_eq!(expired.iter().map(|run| run.give_way.asked).collect::<Vec<_>>(), [3]);
    assert_eq!(store.get(&same.key).await.unwrap(), same);
}

/// A run changes owners; the old one resumes and continues where it was, with the numbers that it knows.
async fn an_old_owner_writes_nothing(stores: FencedStores<'_>, ended: OwnerProgress) {
    let FencedStores { runs, sessions, tasks, spending } = stores;
    let tenant = tenant();
    let conversation = session(&tenant, "s", "c");
    sessions.create(&conversation, &[]).await.unwrap();
    let one = run(&tenant, "one", "s", "c");
    runs.create(&one).await.unwrap();
    let old = RunLease::of(&one);
    runs.append(&old, entries(1..=3)).await.unwrap();
    runs.append(&old, entries(4..=4)).await.unwrap();
    let new = runs.claim(&one.key, one.fence, &"other".into()).await.unwrap().unwrap();
    let last = if ended == OwnerProgress::No { 4 } else { go_on(runs, &new, ended).await };
    if ended != OwnerProgress::No {
        let used = Spent { tokens: 5, ..Spent::default() };
        spending.note(&new, 10, used).await.unwrap();
        let (messages, state) = ([said("user", "q", Some("one"))], json!({"by": "new"}));
        let lease = Some(&new);
        let commit = SessionCommit { revision: 0, state: &state, messages: &messages, tasks: None, lease };
        sessions.commit(&conversation.key, commit).await.unwrap();
        runs.finish(&new, FinishedRun::new(Ending::Succeeded, 2_000)).await.unwrap();
    }
    let seen = async || {
        let journal = runs.entries(&one.key, 0, u64::MAX).await.unwrap();
        let session = sessions.load(&conversation.key).await.unwrap();
        let messages = sessions.messages(&conversation.key, i64::MAX, 99).await.unwrap();
        let spent = spending.spent(&tenant, None, 0).await.unwrap();
        (runs.get(&one.key).await.unwrap(), journal, (session.state, session.revision), messages, spent)
    };
    let before = seen().await;
    assert_eq!(before.1.len() as u64, last);
    // What it may try: its next entry, a later one, an existing one, one that would follow now; alone, and together
    // with entries of other runs that it owns.
    let beside = StoredRun { session: "t".into(), ..run(&tenant, "beside", "t", "c") };
    runs.create(&beside).await.unwrap();
    let others = RunLease::of(&beside);
    for (n, first) in [5, 2, 1, last, last + 1, last + 7].into_iter().enumerate() {
        let next = n as u64 + 1;
        let (mine, theirs) = futures::join!(
            runs.append(&old, entries(first..=first + 2)),
            runs.append(&others, entries(next..=next))
        );
        refused(mine, Conflict);
        theirs.unwrap();
    }
    let mut large = entries(5..=5);
    large[0].record = format!("\"{}\"", "x".repeat(LARGE)).into();
    refused(runs.append(&old, large).await, Conflict);
    ends_nothing(runs, &old, [5, last + 1]).await;
    refused(spending.note(&old, 10, Spent { tokens: 900, ..Spent::default() }).await, Conflict);
    runs.release(std::slice::from_ref(&old)).await.unwrap();
    let change = by("one", &[task(&conversation.key, "t1")], &[]);
    for revision in [0, 1] {
        let (messages, state) = ([said("user", "q", Some("one"))], json!({"by": "old"}));
        let (tasks, lease) = (Some(&change), Some(&old));
        let commit = SessionCommit { revision, state: &state, messages: &messages, tasks, lease };
        refused(sessions.commit(&conversation.key, commit).await, Conflict);
    }
    assert_eq!(runs.claim(&one.key, one.fence, &"process".into()).await.unwrap(), None);
    refused(tasks.get(&TaskKey::new(&tenant, "t1")).await, NotFound);
    assert!(seen().await == before, "{ended:?}");
    // Nor does it restore what was removed since.
    if ended != OwnerProgress::No {
        let keep = Retention { ended_before_ms: Some(i64::MAX), per_session_max: None };
        let found = runs.expired(&tenant, &keep, 9).await.unwrap();
        assert_eq!(
            found.into_iter().map(|run| (run.key, run.fence)).collect::<Vec<_>>(),
            [(one.key.clone(), new.fence)]
        );
        assert_eq!(runs.remove(std::slice::from_ref(&one.key)).await.unwrap(), 1);
        refused(runs.append(&old, entries(5..=5)).await, NotFound);
        refused(runs.finish(&old, FinishedRun::new(Ending::Failed, 9)).await, NotFound);
    }
}

/// Nor does it end the run, with any of these entries or without.
async fn ends_nothing(runs: &dyn RunStore, old: &RunLease, firsts: [u64; 2]) {
    for first in firsts {
        let end = runs.end(old, entries(first..=first), FinishedRun::new(Ending::Failed, 9));
        refused(end.await, Conflict);
    }
    refused(runs.finish(old, FinishedRun::new(Ending::Failed, 9)).await, Conflict);
}

/// Performs the new owner's steps and returns the number of its last entry.
async fn go_on(runs: &dyn RunStore, new: &RunLease, ended: OwnerProgress) -> u64 {
    let steps: u64 = match ended {
        OwnerProgress::No | OwnerProgress::Shortly => 1,
        OwnerProgress::AfterManySteps => 200,
        OwnerProgress::AfterLargeOnes => 4,
    };
    for step in 0..steps {
        let mut some = entries(5 + 3 * step..=7 + 3 * step);
        if ended == OwnerProgress::AfterLargeOnes {
            some[1].record = format!("\"{}\"", "жy".repeat(LARGE / 4)).into();
        }
        if ended == OwnerProgress::AfterManySteps {
            some[1].record = format!("\"{step} {}\"", "words ".repeat(500)).into();
        }
        runs.append(new, some).await.unwrap();
    }
    4 + 3 * steps
}

/// Appends race with a claim: whatever was acknowledged to the old owner was there when the new one got the run, and
/// nothing of the old one is added later.
async fn an_owner_overtaken_during_a_write_stops(store: &dyn RunStore) {
    let tenant = tenant();
    for n in 0..12 {
        let id = format!("run{n}");
        let one = run(&tenant, &id, &id, "c");
        store.create(&one).await.unwrap();
        let (old, by) = (RunLease::of(&one), ProcessId::from("other"));
        let write = async {
            let mut told = 0;
            for seq in 1..=20 {
                match store.append(&old, entries(seq..=seq)).await {
                    Ok(()) => told = seq,
                    Err(error) => {
                        assert_eq!(error.kind, Conflict, "{}", error.full());
                        break;
                    }
                }
            }
            told
        };
        let take = async {
            for _ in 0..n {
                tokio::task::yield_now().await;
            }
            let new = store.claim(&one.key, one.fence, &by).await.unwrap().unwrap();
            let found = store.entries(&one.key, 0, 99).await.unwrap().len() as u64;
            store.append(&new, entries(found + 1..=found + 2)).await.unwrap();
            store.finish(&new, FinishedRun::new(Ending::Succeeded, 9)).await.unwrap();
            found
        };
        let (told, found) = futures::join!(write, take);
        assert!(told <= found, "{told} were reported as stored, and {found} were found");
        assert_eq!(store.entries(&one.key, 0, 99).await.unwrap(), entries(1..=found + 2));
    }
}
