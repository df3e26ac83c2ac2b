//! Contract of a store for schedules.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use futures::future::join_all;
use weft_core::ErrorKind::{Conflict, NotFound, QuotaExceeded};
use weft_core::TurnInput;
use weft_core::id::{ScheduleKey, TenantId};
use weft_core::seam::ScheduleStore;
use weft_core::seam::schedule_store::{Misfire, Schedule, ScheduleFilter, SessionPolicy, Timing};

use super::{LARGE, refused, tenant};

/// More schedules than a tenant has in these suites.
pub(super) const MANY: u64 = 1_000;

pub(super) fn schedule(tenant: &TenantId, id: &str, canvas: &str) -> Schedule {
    Schedule {
        key: ScheduleKey::new(tenant, id),
        canvas: canvas.into(),
        name: id.into(),
        timing: Timing::Cron { expression: "0 8 * * MON".into(), zone: "Europe/Berlin".into() },
        input: TurnInput { query: "What? 🦜 \u{0} ' \" \\".into(), ..TurnInput::default() },
        session: SessionPolicy::New,
        misfire: Misfire::Once,
        next_ms: Some(2_000),
        decided_ms: 1_000,
        revision: 0,
        created_ms: 900,
        updated_ms: 900,
    }
}

/// Checks the contract of [`ScheduleStore`].
pub async fn schedule_store_keeps_its_contract(store: &dyn ScheduleStore) {
    schedules_round_trip(store).await;
    a_schedule_change_needs_its_current_revision(store).await;
    one_of_many_concurrent_decisions_is_recorded(store).await;
    due_schedules_come_longest_overdue_first(store).await;
    schedules_are_listed_by_name(store).await;
    the_schedules_of_a_tenant_are_limited(store).await;
}

async fn schedules_round_trip(store: &dyn ScheduleStore) {
    let (ours, theirs) = (tenant(), tenant());
    let first = schedule(&ours, "first", "c");
    refused(store.get(&first.key).await, NotFound);
    refused(store.delete(&first.key).await, NotFound);
    store.create(&first, MANY).await.unwrap();
    refused(store.create(&first, MANY).await, Conflict);
    let mut second = Schedule {
        timing: Timing::Every { every_ms: 60_000, from_ms: -5 },
        session: SessionPolicy::One("s".into()),
        misfire: Misfire::All { max: 7 },
        next_ms: None,
        ..schedule(&theirs, "first", "d")
    };
    second.input.inputs.insert("text".into(), "ж".repeat(LARGE).into());
    store.create(&second, MANY).await.unwrap();
    assert!(store.get(&first.key).await.unwrap() == first && store.get(&second.key).await.unwrap() == second);
    store.delete(&first.key).await.unwrap();
    refused(store.get(&first.key).await, NotFound);
    store.get(&second.key).await.unwrap();
}

async fn a_schedule_change_needs_its_current_revision(store: &dyn ScheduleStore) {
    let tenant = tenant();
    let first = schedule(&tenant, "s", "c");
    refused(store.replace(&first).await, Conflict);
    store.create(&first, MANY).await.unwrap();
    let other = schedule(&tenant, "other", "c");
    store.create(&other, MANY).await.unwrap();
    let changed = Schedule {
        canvas: "d".into(),
        name: "Ω".into(),
        timing: Timing::Every { every_ms: 1_000, from_ms: 7 },
        input: TurnInput::default(),
        session: SessionPolicy::One("s".into()),
        misfire: Misfire::Skip,
        next_ms: None,
        decided_ms: 5_000,
        updated_ms: 6_000,
        ..first.clone()
    };
    store.replace(&changed).await.unwrap();
    assert_eq!(store.get(&first.key).await.unwrap(), Schedule { revision: 1, ..changed.clone() });
    refused(store.replace(&changed).await, Conflict);
    assert!(!store.advance(&first, Some(9_000), 8_000).await.unwrap());
    store.replace(&Schedule { revision: 1, ..first.clone() }).await.unwrap();
    assert_eq!(store.get(&first.key).await.unwrap(), Schedule { revision: 2, ..first });
    assert_eq!(store.get(&other.key).await.unwrap(), other);
}

async fn one_of_many_concurrent_decisions_is_recorded(store: &dyn ScheduleStore) {
    let tenant = tenant();
    let first = schedule(&tenant, "s", "c");
    assert!(!store.advance(&first, Some(3_000), 2_500).await.unwrap(), "there is no such schedule");
    store.create(&first, MANY).await.unwrap();
    let mut seen = first.clone();
    for (next_ms, decided_ms) in [(Some(3_000), 2_500), (Some(3_000), 2_500), (None, 9_000)] {
        let tries = join_all((0..8).map(|_| store.advance(&seen, next_ms, decided_ms))).await;
        assert_eq!(tries.into_iter().filter(|noted| *noted.as_ref().unwrap()).count(), 1);
        seen = Schedule { next_ms, decided_ms, revision: seen.revision + 1, ..seen };
        assert_eq!(store.get(&first.key).await.unwrap(), seen);
    }
}

/// Uses times before all others, so that other stored schedules are not due.
async fn due_schedules_come_longest_overdue_first(store: &dyn ScheduleStore) {
    const FAR: i64 = i64::MAX;
    let (ours, theirs) = (tenant(), tenant());
    let at = |tenant: &TenantId, id: &str, next_ms| Schedule {
        next_ms,
        decided_ms: -9_000,
        ..schedule(tenant, id, "c")
    };
    let all = [
        at(&ours, "b", Some(-2_000)),
        at(&theirs, "a", Some(-3_000)),
        at(&ours, "c", Some(-1_000)),
        at(&ours, "off", None),
    ];
    for one in &all {
        store.create(one, MANY).await.unwrap();
    }
    let due = async |now_ms, ahead_ms, count| -> Vec<String> {
        let due = store.due(now_ms, ahead_ms, count).await.unwrap();
        due.into_iter().map(|schedule| schedule.key.id.to_string()).collect()
    };
    assert_eq!(due(-3_001, FAR, 9).await, Vec::<String>::new());
    assert_eq!(due(-1_001, FAR, 9).await, ["a", "b"]);
    assert_eq!(due(-1_000, FAR, 9).await, ["a", "b", "c"]);
    assert_eq!(due(-1_000, FAR, 1).await, ["a"]);
    assert_eq!(store.due(-1_000, FAR, 9).await.unwrap()[1], all[0]);
    // The clock was far ahead at the last decision and has been set back.
    let ahead = Schedule { decided_ms: FAR - 10, ..at(&ours, "ahead", Some(FAR - 5)) };
    store.create(&ahead, MANY).await.unwrap();
    store
        .create(
            &Schedule { next_ms: None, ..Schedule { key: ScheduleKey::new(&ours, "x"), ..ahead.clone() } },
            MANY,
        )
        .await
        .unwrap();
    assert_eq!(due(-3_001, FAR - 11, 9).await, ["ahead"]);
    assert_eq!(due(-3_001, FAR - 10, 9).await, Vec::<String>::new());
    for one in all.iter().chain([&ahead]) {
        store.delete(&one.key).await.unwrap();
    }
}

async fn schedules_are_listed_by_name(store: &dyn ScheduleStore) {
    let (ours, theirs) = (tenant(), tenant());
    for (id, name, canvas) in [("1", "b", "x"), ("2", "a", "x"), ("3", "c", "y"), ("4", "a", "X")] {
        store.create(&Schedule { name: name.into(), ..schedule(&ours, id, canvas) }, MANY).await.unwrap();
    }
    store.create(&schedule(&theirs, "5", "x"), MANY).await.unwrap();
    let all = ScheduleFilter { limit: u64::MAX, ..ScheduleFilter::default() };
    let check = async |filter: ScheduleFilter, ids: &[&str], total: u64| {
        let (found, count) = store.list(&ours, &filter).await.unwrap();
        let found: Vec<_> = found.iter().map(|schedule| schedule.key.id.as_str()).collect();
        assert_eq!((&*found, count), (ids, total), "{filter:?}");
    };
    check(all.clone(), &["2", "4", "1", "3"], 4).await;
    check(ScheduleFilter { canvas: Some("x".into()), ..all.clone() }, &["2", "1"], 2).await;
    check(ScheduleFilter { offset: 1, limit: 2, ..all }, &["4", "1"], 4).await;
    check(ScheduleFilter::default(), &[], 4).await;
}

async fn the_schedules_of_a_tenant_are_limited(store: &dyn ScheduleStore) {
    let (ours, theirs) = (tenant(), tenant());
    store.create(&schedule(&theirs, "theirs", "c"), 1).await.unwrap();
    let many: Vec<Schedule> = (0..8).map(|n| schedule(&ours, &n.to_string(), "c")).collect();
    let made = join_all(many.iter().map(|one| store.create(one, 3))).await;
    assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 3);
    let refusals = made.into_iter().filter_map(Result::err);
    assert!(refusals.into_iter().all(|error| error.kind == QuotaExceeded));
    let there = ScheduleFilter { limit: 9, ..ScheduleFilter::default() };
    assert_eq!(store.list(&ours, &there).await.unwrap().1, 3);
}
