//! Contract of a work queue.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use std::collections::BTreeSet;

use futures::future::join_all;
use weft_core::ErrorKind::{Conflict, Invalid, NotFound};
use weft_core::TurnInput;
use weft_core::id::{RunKey, TenantId};
use weft_core::seam::WorkQueue;
use weft_core::seam::work_queue::{Lease, StoredWork, Taken, Work, WorkFilter, WorkOutcome, WorkState};

use super::{LARGE, refused, tenant};

/// Later than all times in this suite; all other work in the queue is due later.
const END: i64 = 1_000_000;

pub(super) fn work(tenant: &TenantId, run: &str, due_ms: i64) -> Work {
    let input = TurnInput { query: "What? 🦜 \u{0} ' \" \\".into(), ..TurnInput::default() };
    let (run, canvas) = (RunKey::new(tenant, run), "c".into());
    Work { run, canvas, session: None, input, source: "daily".into(), due_ms }
}

/// Checks the contract of [`WorkQueue`].
pub async fn work_queue_keeps_its_contract(queue: &dyn WorkQueue) {
    work_round_trips(queue).await;
    a_run_is_queued_once(queue).await;
    the_open_work_of_a_source_is_limited(queue).await;
    beyond_the_limit_the_latest_work_is_queued(queue).await;
    due_work_is_taken_longest_waiting_first(queue).await;
    each_item_goes_to_one_of_many_takers(queue).await;
    an_expired_lease_can_be_taken_by_another(queue).await;
    a_lease_can_be_renewed(queue).await;
    settled_work_is_released(queue).await;
    untaken_work_can_be_withdrawn(queue).await;
    old_settled_work_is_removed(queue).await;
    work_is_listed_latest_first(queue).await;
}

async fn the_open_work_of_a_source_is_limited(queue: &dyn WorkQueue) {
    let (ours, theirs) = (tenant(), tenant());
    let many: Vec<Work> = (0..8).map(|n| work(&ours, &format!("r{n}"), 1_000)).collect();
    let one = |work: Work, open_max| async move { queue.push_within(&[work], 1, open_max).await.unwrap() };
    let passed_over = join_all(many.iter().map(|work| one(work.clone(), 3))).await;
    assert_eq!(passed_over.iter().sum::<u64>(), 5, "{passed_over:?}");
    assert_eq!(open(queue, &ours).await.len(), 3);
    // Work that is queued already stays queued whatever the limit, and limits apply to each tenant separately.
    let first = passed_over.iter().position(|passed_over| *passed_over == 0).unwrap();
    assert_eq!(one(many[first].clone(), 3).await, 0);
    assert_eq!(one(Work { source: "weekly".into(), ..work(&ours, "w", 1_000) }, 1).await, 0);
    assert_eq!(one(work(&theirs, "r0", 1_000), 1).await, 0);
    // Completed work is no longer open.
    drain(queue).await;
    assert_eq!(one(work(&ours, "later", 1_000), 1).await, 0);
    assert_eq!(one(work(&ours, "too many", 1_000), 1).await, 1);
    drain(queue).await;
}

async fn beyond_the_limit_the_latest_work_is_queued(queue: &dyn WorkQueue) {
    let tenant = tenant();
    let many: Vec<Work> = (0..601).map(|n| work(&tenant, &format!("r{n:04}"), 1_000)).collect();
    assert_eq!(queue.push_within(&[], 1, 0).await.unwrap(), 0);
    // All of them push the same work, which each finds queued once.
    let passed_over = join_all((0..4).map(|_| queue.push_within(&many[..6], 1, 4))).await;
    assert!(passed_over.into_iter().all(|passed_over| passed_over.unwrap() == 2));
    assert_eq!(open(queue, &tenant).await, ["r0002", "r0003", "r0004", "r0005"]);
    // Work that is queued already needs no room again.
    assert_eq!(queue.push_within(&many[4..8], 1, 5).await.unwrap(), 1);
    assert_eq!(open(queue, &tenant).await, ["r0002", "r0003", "r0004", "r0005", "r0007"]);
    assert_eq!(queue.push_within(&many, 1, u64::MAX).await.unwrap(), 0);
    assert_eq!(open(queue, &tenant).await.len(), many.len());
    // A run that is named twice needs room once.
    let twice =
        ["again", "again", "other"].map(|run| Work { source: "twice".into(), ..work(&tenant, run, 1_000) });
    assert_eq!(queue.push_within(&twice, 1, 2).await.unwrap(), 0);
    let nameless = [work(&tenant, "named", 1), work(&tenant, "", 1)];
    refused(queue.push_within(&nameless, 1, u64::MAX).await, Invalid);
    refused(queue.get(&nameless[0].run).await, NotFound);
    drain(queue).await;
}

/// Queues work of one tenant and source, for checks in which there is room for all.
async fn push(queue: &dyn WorkQueue, work: &[Work], now_ms: i64) {
    assert_eq!(queue.push_within(work, now_ms, u64::MAX).await.unwrap(), 0);
}

/// The runs of a tenant that are waiting or taken, in order.
async fn open(queue: &dyn WorkQueue, tenant: &TenantId) -> Vec<String> {
    let filter = WorkFilter { open: true, limit: 10_000, ..WorkFilter::default() };
    let (found, _) = queue.list(tenant, &filter).await.unwrap();
    let mut runs: Vec<String> = found.iter().map(|stored| stored.work.run.id.to_string()).collect();
    runs.sort();
    runs
}

/// Settles all remaining work, so that the next check starts with an empty queue.
async fn drain(queue: &dyn WorkQueue) {
    loop {
        let taken = queue.take(END, END, 100).await.unwrap();
        if taken.is_empty() {
            return;
        }
        for Taken { lease, .. } in taken {
            queue.settle(&lease, &WorkOutcome::Done, END).await.unwrap();
        }
    }
}

async fn one(queue: &dyn WorkQueue, now_ms: i64, until_ms: i64) -> Taken {
    let mut taken = queue.take(now_ms, until_ms, 9).await.unwrap();
    assert_eq!(taken.len(), 1, "{taken:?}");
    taken.remove(0)
}

async fn none(queue: &dyn WorkQueue, now_ms: i64) {
    assert_eq!(queue.take(now_ms, END, 9).await.unwrap(), []);
}

async fn work_round_trips(queue: &dyn WorkQueue) {
    let tenant = tenant();
    let mut first = work(&tenant, "first", 1_000);
    first.session = Some("s".into());
    first.input.inputs.insert("text".into(), "ж".repeat(LARGE).into());
    refused(queue.get(&first.run).await, NotFound);
    push(queue, &[], 900).await;
    push(queue, &[first.clone(), work(&tenant, "second", 2_000)], 900).await;
    let stored = StoredWork {
        work: first.clone(),
        state: WorkState::Waiting { from_ms: 1_000 },
        attempts: 0,
        crashes: 0,
        reason: String::new(),
        pushed_ms: 900,
    };
    assert!(queue.get(&first.run).await.unwrap() == stored);
    let Taken { lease, stored: taken } = one(queue, 1_500, 3_000).await;
    let stored = StoredWork { state: WorkState::Taken { until_ms: 3_000 }, attempts: 1, ..stored };
    assert!(taken == stored && queue.get(&first.run).await.unwrap() == stored);
    assert_eq!(lease.run, first.run);
    let nameless = [work(&tenant, "third", 1), work(&tenant, "", 1)];
    refused(queue.push_within(&nameless, 900, u64::MAX).await, Invalid);
    refused(queue.get(&nameless[0].run).await, NotFound);
    drain(queue).await;
}

async fn a_run_is_queued_once(queue: &dyn WorkQueue) {
    let (ours, theirs) = (tenant(), tenant());
    let (first, other) = (work(&ours, "same", 1_000), work(&theirs, "same", 1_500));
    let again = Work { source: "another".into(), due_ms: 5, ..first.clone() };
    join_all((0..8).map(|_| push(queue, std::slice::from_ref(&first), 900))).await;
    push(queue, &[again.clone(), again.clone()], 950).await;
    push(queue, std::slice::from_ref(&other), 950).await;
    assert_eq!(queue.get(&first.run).await.unwrap().work, first);
    assert_eq!(queue.get(&other.run).await.unwrap().work, other);
    let Taken { lease, .. } = one(queue, 1_000, 2_000).await;
    push(queue, std::slice::from_ref(&again), 950).await;
    none(queue, 1_001).await;
    queue.settle(&lease, &WorkOutcome::Done, 1_100).await.unwrap();
    push(queue, std::slice::from_ref(&again), 950).await;
    assert_eq!(queue.get(&first.run).await.unwrap().state, WorkState::Done { at_ms: 1_100 });
    assert_eq!(one(queue, 2_000, 3_000).await.stored.work.run, other.run);
    let many: Vec<Work> = (0..1_100).map(|n| work(&ours, &format!("r{n:04}"), 5_000)).collect();
    push(queue, &many, 1).await;
    push(queue, &many, 2).await;
    let filter = WorkFilter { open: true, ..WorkFilter::default() };
    assert_eq!(queue.list(&ours, &filter).await.unwrap(), (Vec::new(), 1_100));
    drain(queue).await;
}

async fn due_work_is_taken_longest_waiting_first(queue: &dyn WorkQueue) {
    let tenant = tenant();
    let all = [("c", 3_000), ("a", 1_000), ("d", 4_000), ("b", 2_000)];
    push(queue, &all.map(|(run, due)| work(&tenant, run, due)), 0).await;
    none(queue, 999).await;
    assert_eq!(queue.take(4_000, END, 0).await.unwrap(), []);
    let names = async |now, count| -> Vec<String> {
        let taken = queue.take(now, END, count).await.unwrap();
        taken.into_iter().map(|taken| taken.stored.work.run.id.to_string()).collect()
    };
    assert_eq!(names(3_500, 2).await, ["a", "b"]);
    assert_eq!(names(3_500, 2).await, ["c"]);
    assert_eq!(names(i64::MAX - 1, 1).await.len(), 1);
    drain(queue).await;
}

async fn each_item_goes_to_one_of_many_takers(queue: &dyn WorkQueue) {
    let tenant = tenant();
    let all: Vec<Work> = (0..40).map(|n| work(&tenant, &format!("r{n:02}"), 1_000)).collect();
    push(queue, &all, 0).await;
    let mut seen = BTreeSet::new();
    // A caller that collides with others may get fewer than there are.
    while seen.len() < all.len() {
        let takes = join_all((0..8).map(|_| queue.take(1_000, 2_000, 7))).await;
        for taken in takes.into_iter().flat_map(Result::unwrap) {
            assert!(seen.insert(taken.lease.run.id.clone()), "{} was taken twice", taken.lease.run.id);
        }
    }
    none(queue, 1_999).await;
    drain(queue).await;
}

async fn an_expired_lease_can_be_taken_by_another(queue: &dyn WorkQueue) {
    let tenant = tenant();
    push(queue, &[work(&tenant, "r", 1_000)], 0).await;
    let first = one(queue, 1_000, 2_000).await;
    none(queue, 1_999).await;
    // Until another worker takes it, it still belongs to the first one.
    queue.renew(&first.lease, 2_000).await.unwrap();
    let takes = join_all((0..8).map(|_| queue.take(2_000, 3_000, 9))).await;
    let mut takes: Vec<Taken> = takes.into_iter().flat_map(Result::unwrap).collect();
    assert_eq!(takes.len(), 1);
    let second = takes.remove(0);
    assert!(second.lease.fence > first.lease.fence && second.stored.attempts == 2);
    for settled in every_way(9_000) {
        refused(queue.settle(&first.lease, &settled, 2_100).await, Conflict);
    }
    refused(queue.renew(&first.lease, 9_000).await, Conflict);
    refused(queue.renew(&Lease { fence: 77, ..first.lease.clone() }, 9_000).await, Conflict);
    refused(queue.renew(&Lease { run: RunKey::new(&tenant, "x"), fence: 1 }, 9_000).await, Conflict);
    assert_eq!(queue.get(&second.lease.run).await.unwrap(), second.stored);
    queue.settle(&second.lease, &WorkOutcome::Done, 2_200).await.unwrap();
    none(queue, 9_000).await;
}

fn every_way(from_ms: i64) -> [WorkOutcome; 4] {
    let reason = || "because".to_owned();
    [
        WorkOutcome::Done,
        WorkOutcome::Abandoned { reason: reason() },
        WorkOutcome::RetryAt { from_ms, reason: reason() },
        WorkOutcome::Released { from_ms, reason: reason() },
    ]
}

async fn a_lease_can_be_renewed(queue: &dyn WorkQueue) {
    push(queue, &[work(&tenant(), "r", 1_000)], 0).await;
    let first = one(queue, 1_000, 2_000).await;
    queue.renew(&first.lease, 5_000).await.unwrap();
    none(queue, 4_999).await;
    let second = one(queue, 5_000, 6_000).await;
    assert_eq!((second.stored.attempts, second.stored.crashes), (2, 1));
    assert_eq!(second.lease.run, first.lease.run);
    drain(queue).await;
}

async fn settled_work_is_released(queue: &dyn WorkQueue) {
    let tenant = tenant();
    for (n, settled) in every_way(3_000).into_iter().enumerate() {
        let one_work = work(&tenant, &format!("r{n}"), 1_000);
        push(queue, std::slice::from_ref(&one_work), 0).await;
        let first = one(queue, 1_000, 2_000).await;
        queue.settle(&first.lease, &settled, 1_500).await.unwrap();
        // The work is over; a second report comes too late.
        refused(queue.settle(&first.lease, &WorkOutcome::Done, 1_600).await, Conflict);
        refused(queue.renew(&first.lease, 9_000).await, Conflict);
        let stored = queue.get(&one_work.run).await.unwrap();
        none(queue, 2_999).await;
        let (state, attempts) = match settled {
            WorkOutcome::Done => (WorkState::Done { at_ms: 1_500 }, 1),
            WorkOutcome::Abandoned { .. } => (WorkState::Abandoned { at_ms: 1_500 }, 1),
            WorkOutcome::RetryAt { .. } => (WorkState::Waiting { from_ms: 3_000 }, 1),
            WorkOutcome::Released { .. } => (WorkState::Waiting { from_ms: 3_000 }, 0),
        };
        assert_eq!((&stored.state, stored.attempts), (&state, attempts));
        assert_eq!(stored.reason, if settled == WorkOutcome::Done { "" } else { "because" });
        if state.is_open() {
            let second = one(queue, 3_000, 4_000).await;
            assert!(second.lease.fence > first.lease.fence);
            assert_eq!((second.stored.attempts, second.stored.reason.as_str()), (attempts + 1, "because"));
            let stored = queue.get(&one_work.run).await.unwrap();
            assert_eq!((stored.crashes, stored.reason.as_str()), (0, ""), "the wait is over");
            // Its worker falls silent. Neither that nor what comes later is forgotten or mixed up.
            let third = one(queue, 4_000, 5_000).await;
            assert_eq!((third.stored.crashes, third.stored.reason.as_str()), (1, ""));
            let again = WorkOutcome::RetryAt { from_ms: 6_000, reason: "because".into() };
            queue.settle(&third.lease, &again, 4_500).await.unwrap();
            let fourth = one(queue, 6_000, 7_000).await;
            assert_eq!((fourth.stored.crashes, fourth.stored.reason.as_str()), (1, "because"));
        }
        drain(queue).await;
    }
}

async fn untaken_work_can_be_withdrawn(queue: &dyn WorkQueue) {
    let (ours, theirs) = (tenant(), tenant());
    let other = Work { source: "other".into(), ..work(&ours, "other", 2_000) };
    let ours_all = [work(&ours, "a", 1_000), work(&ours, "b", 2_000), work(&ours, "c", 3_000), other.clone()];
    push(queue, &ours_all[..3], 0).await;
    push(queue, &ours_all[3..], 0).await;
    push(queue, &[work(&theirs, "a", 2_000)], 0).await;
    let taken = one(queue, 1_000, 9_000).await;
    // By their runs, of which the first is taken and the last was never queued.
    let runs = [ours_all[0].run.id.clone(), ours_all[1].run.id.clone(), "nothing".into()];
    assert_eq!(queue.withdraw_runs(&ours, &runs).await.unwrap(), 1);
    assert_eq!(queue.withdraw_runs(&ours, &[]).await.unwrap(), 0);
    refused(queue.get(&ours_all[1].run).await, NotFound);
    push(queue, &ours_all[1..2], 0).await;
    // By their source.
    assert_eq!(queue.withdraw(&ours, "daily").await.unwrap(), 2);
    assert_eq!(queue.withdraw(&ours, "daily").await.unwrap(), 0);
    refused(queue.get(&ours_all[1].run).await, NotFound);
    for kept in [&taken.lease.run, &other.run, &work(&theirs, "a", 0).run] {
        queue.get(kept).await.unwrap();
    }
    // Withdrawn work was never queued.
    push(queue, &ours_all[1..2], 0).await;
    queue.get(&ours_all[1].run).await.unwrap();
    queue.renew(&taken.lease, END).await.unwrap();
    // What was settled can be removed by its source as well, and nothing else.
    assert_eq!(queue.remove_settled(&ours, "daily").await.unwrap(), 0);
    queue.settle(&taken.lease, &WorkOutcome::Done, 9_000).await.unwrap();
    assert_eq!(queue.remove_settled(&theirs, "daily").await.unwrap(), 0);
    assert_eq!(queue.remove_settled(&ours, "other").await.unwrap(), 0);
    assert_eq!(queue.remove_settled(&ours, "daily").await.unwrap(), 1);
    refused(queue.get(&taken.lease.run).await, NotFound);
    queue.get(&ours_all[1].run).await.unwrap();
    drain(queue).await;
}

async fn old_settled_work_is_removed(queue: &dyn WorkQueue) {
    queue.prune(END + 1).await.unwrap();
    let tenant = tenant();
    let all = ["done", "later", "waiting", "taken"].map(|run| work(&tenant, run, 1_000));
    for (one_work, settled_ms) in all.iter().zip([1_000, 2_000]) {
        push(queue, std::slice::from_ref(one_work), 0).await;
        let taken = one(queue, 1_000, 2_000).await;
        queue.settle(&taken.lease, &WorkOutcome::Done, settled_ms).await.unwrap();
    }
    push(queue, &all[3..], 0).await;
    one(queue, 1_000, 1_500).await;
    push(queue, &all[2..], 0).await;
    assert_eq!(queue.prune(1_000).await.unwrap(), 0);
    assert_eq!(queue.prune(2_000).await.unwrap(), 1);
    refused(queue.get(&all[0].run).await, NotFound);
    for kept in &all[1..] {
        queue.get(&kept.run).await.unwrap();
    }
    drain(queue).await;
}

async fn work_is_listed_latest_first(queue: &dyn WorkQueue) {
    let tenant = tenant();
    let mut all =
        [("a", 1_000), ("b", 4_000), ("c", 2_000), ("d", 2_000)].map(|(r, due)| work(&tenant, r, due));
    all[1].source = "Daily".into();
    for one_work in &all {
        push(queue, std::slice::from_ref(one_work), 0).await;
    }
    let taken = one(queue, 1_000, 2_000).await;
    queue.settle(&taken.lease, &WorkOutcome::Done, 1_500).await.unwrap();
    let every = WorkFilter { limit: u64::MAX, ..WorkFilter::default() };
    let check = async |filter: WorkFilter, ids: &[&str], total: u64| {
        let (found, count) = queue.list(&tenant, &filter).await.unwrap();
        let found: Vec<_> = found.iter().map(|stored| stored.work.run.id.as_str()).collect();
        assert_eq!((&*found, count), (ids, total), "{filter:?}");
    };
    check(every.clone(), &["b", "d", "c", "a"], 4).await;
    check(WorkFilter { open: true, ..every.clone() }, &["b", "d", "c"], 3).await;
    let daily = WorkFilter { source: Some("daily".into()), ..every.clone() };
    check(daily.clone(), &["d", "c", "a"], 3).await;
    check(WorkFilter { offset: 1, limit: 1, ..daily }, &["c"], 3).await;
    check(WorkFilter { source: Some("weekly".into()), ..every.clone() }, &[], 0).await;
    check(WorkFilter::default(), &[], 4).await;
    drain(queue).await;
}
