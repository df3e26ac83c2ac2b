//! Contract of a store for the usage of runs.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use futures::future::join_all;
use weft_core::Ending;
use weft_core::ErrorKind::{Conflict, NotFound};
use weft_core::budget::Spent;
use weft_core::id::{CanvasId, RunKey, TenantId, generate};
use weft_core::seam::run_store::{FinishedRun, RunLease, StoredEntry, StoredRun};
use weft_core::seam::spending_store::{DaySpent, FOLDED_DAY};
use weft_core::seam::{RunStore, SpendingStore};

use super::{refused, tenant};

fn tokens(tokens: u64) -> Spent {
    Spent { tokens, ..Spent::default() }
}

async fn run_of(runs: &dyn RunStore, tenant: &TenantId, canvas: &str) -> RunLease {
    let run = StoredRun::begun(RunKey::new(tenant, generate()), generate(), canvas, 1);
    runs.create(&run).await.unwrap();
    RunLease::of(&run)
}

/// Old days become one sum per canvas, however often and by however many at the same time.
async fn old_days_are_added_up(store: &dyn SpendingStore, runs: &dyn RunStore) {
    let (here, elsewhere) = (tenant(), tenant());
    let canvas = CanvasId::from("a");
    let run = run_of(runs, &here, "a").await;
    let other = run_of(runs, &elsewhere, "a").await;
    store.note(&other, 1, tokens(7)).await.unwrap();
    for day in 1..=250 {
        store.note(&run, day, tokens(u64::try_from(day).unwrap())).await.unwrap();
    }
    for before in [0, 1] {
        assert_eq!(store.fold_days(&here, before).await.unwrap(), 0);
    }
    for folded in join_all((0..3).map(|_| store.fold_days(&here, 249))).await {
        folded.unwrap();
    }
    // What several refused each other is added up now.
    store.fold_days(&here, 249).await.unwrap();
    assert_eq!(store.fold_days(&here, 249).await.unwrap(), 0);
    for of in [None, Some(&canvas)] {
        assert_eq!(store.spent(&here, of, FOLDED_DAY).await.unwrap(), tokens(250));
        assert_eq!(store.spent(&here, of, 0).await.unwrap(), tokens(2));
        assert_eq!(store.spent(&elsewhere, of, 0).await.unwrap(), tokens(7));
    }
    let kept = [250, 249].map(|day| DaySpent { canvas: canvas.clone(), day, spent: tokens(1) });
    assert_eq!(store.days(&here, FOLDED_DAY, 9).await.unwrap(), kept);
    store.fold_days(&here, i64::MAX).await.unwrap();
    assert_eq!(store.spent(&here, None, FOLDED_DAY).await.unwrap(), tokens(250));
    assert_eq!(store.spent(&here, None, 0).await.unwrap(), Spent::default());
}

/// Checks the contract of [`SpendingStore`].
pub async fn spending_store_keeps_its_contract(store: &dyn SpendingStore, runs: &dyn RunStore) {
    old_days_are_added_up(store, runs).await;
    let (here, elsewhere) = (tenant(), tenant());
    let (a, b) = (CanvasId::from("a"), CanvasId::from("b"));
    let first = run_of(runs, &here, "a").await;
    let all = Spent { rounds: 1, tool_calls: 2, model_calls: 3, tokens: 4, micros: 5, millis: 6 };
    assert_eq!(store.spent(&here, None, 0).await.unwrap(), Spent::default());

    // A run is counted once, however often it is reported, and never decreases.
    for _ in 0..2 {
        store.note(&first, 10, all).await.unwrap();
    }
    store.note(&first, 10, tokens(3)).await.unwrap();
    assert_eq!(store.spent(&here, Some(&a), 10).await.unwrap(), all);
    // Additional usage counts for the day on which it is reported.
    let later = Spent { tokens: 9, ..all };
    store.note(&first, 11, later).await.unwrap();
    assert_eq!(store.spent(&here, Some(&a), 11).await.unwrap(), tokens(5));
    assert_eq!(store.spent(&here, Some(&a), 12).await.unwrap(), Spent::default());
    assert_eq!(store.spent(&here, Some(&a), 0).await.unwrap(), later);

    // Sums the canvases of a tenant, and of no other tenant.
    let second = run_of(runs, &here, "b").await;
    let third = run_of(runs, &elsewhere, "a").await;
    store.note(&second, 11, tokens(100)).await.unwrap();
    store.note(&third, 11, tokens(1_000)).await.unwrap();
    assert_eq!(store.spent(&here, None, 11).await.unwrap(), tokens(105));
    assert_eq!(store.spent(&here, Some(&b), 0).await.unwrap(), tokens(100));
    let expected = [(&a, 11, tokens(5)), (&b, 11, tokens(100)), (&a, 10, all)]
        .map(|(canvas, day, spent)| DaySpent { canvas: canvas.clone(), day, spent });
    assert_eq!(store.days(&here, 0, 9).await.unwrap(), expected);
    assert_eq!(store.days(&here, 11, 1).await.unwrap(), expected[..1]);

    // Under concurrent reports nothing is lost, and nothing is counted twice.
    let crowd = tenant();
    let keys = join_all((0..8).map(|_| run_of(runs, &crowd, "c"))).await;
    let notes = keys.iter().flat_map(|key| (1..=4).map(move |count| store.note(key, 20, tokens(count))));
    for noted in join_all(notes).await {
        noted.unwrap();
    }
    assert_eq!(store.spent(&crowd, None, 20).await.unwrap(), tokens(8 * 4));

    // The end of a run reports additional usage once, even if it is repeated.
    let finished = FinishedRun {
        spent: Some((12, Spent { tokens: 11, ..all })),
        ..FinishedRun::new(Ending::Succeeded, 1)
    };
    for _ in 0..2 {
        runs.finish(&first, finished.clone()).await.unwrap();
    }
    assert_eq!(store.spent(&here, Some(&a), 12).await.unwrap(), tokens(2));
    let entry = StoredEntry { seq: 1, event: None, at_ms: 1, record: "{}".into() };
    let next = StoredEntry { seq: 2, ..entry.clone() };
    runs.append(&second, vec![entry]).await.unwrap();
    let with_entry = FinishedRun { spent: Some((13, tokens(107))), ..finished.clone() };
    runs.end(&second, vec![next], with_entry).await.unwrap().unwrap();
    assert_eq!(store.spent(&here, Some(&b), 13).await.unwrap(), tokens(7));
    let overtaken = RunLease { fence: first.fence + 1, ..first.clone() };
    refused(runs.finish(&overtaken, finished).await, Conflict);
    assert_eq!(store.spent(&here, None, 12).await.unwrap(), tokens(9));

    refused(store.note(&RunLease::first(&RunKey::new(&here, generate())), 10, all).await, NotFound);
    refused(store.note(&RunLease::first(&RunKey::new(&elsewhere, first.run.id)), 10, all).await, NotFound);
}
