//! What queues return, and in which order.

use sea_orm::{ConnectionTrait as _, Database};
use weft_core::TurnInput;
use weft_core::id::{RunKey, ScheduleKey, TenantId};
use weft_core::seam::notice_store::Notice;
use weft_core::seam::reembedding_store::ReembeddingState;
use weft_core::seam::schedule_store::{Misfire, Schedule, SessionPolicy, Timing};
use weft_core::seam::work_queue::Work;
use weft_core::seam::{DatasetStore, IngestQueue, NoticeStore, ReembeddingStore, ScheduleStore, WorkQueue};
use weft_store::Store;
use weft_testkit::contracts::datasets::{dataset, document};

const DAMAGE: [&str; 4] = [
    "UPDATE work SET input = '{' WHERE run_id = 'damaged'",
    "UPDATE notice SET said = '{' WHERE subject = 'damaged'",
    "UPDATE schedule SET terms = '{' WHERE id = 'damaged'",
    "UPDATE document SET settings = '{' WHERE name = 'damaged'",
];

fn work(tenant: &TenantId, run: &str) -> Work {
    let run = RunKey::new(tenant, run);
    let (canvas, source) = ("c".into(), "daily".into());
    Work { run, canvas, session: None, input: TurnInput::default(), source, due_ms: 1 }
}

fn schedule(tenant: &TenantId, id: &str) -> Schedule {
    Schedule {
        key: ScheduleKey::new(tenant, id),
        canvas: "c".into(),
        name: id.into(),
        timing: Timing::Every { every_ms: 60_000, from_ms: 0 },
        input: TurnInput::default(),
        session: SessionPolicy::New,
        misfire: Misfire::Once,
        next_ms: Some(1),
        decided_ms: 0,
        revision: 0,
        created_ms: 0,
        updated_ms: 0,
    }
}

/// A damaged row, or one that a newer program has written, of another tenant.
#[tokio::test]
async fn unreadable_rows_do_not_block_a_queue() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("weft.db").display());
    let store = Store::open(&url).await.unwrap();
    for name in ["damaged", "whole"] {
        let tenant = TenantId::from(format!("of-{name}"));
        assert_eq!(store.push_within(&[work(&tenant, name)], 1, 1).await.unwrap(), 0);
        store.push_notices(&[Notice::run_failed(&RunKey::new(&tenant, name), 1)]).await.unwrap();
        ScheduleStore::create(&store, &schedule(&tenant, name), 9).await.unwrap();
        let of = dataset(&tenant, "d");
        DatasetStore::create(&store, &of).await.unwrap();
        let made = document(&of.key, name);
        store.add_document(&made).await.unwrap();
        IngestQueue::queue(&store, &of.key, std::slice::from_ref(&made.key.id), 1).await.unwrap();
    }
    store.close().await.unwrap();
    let db = Database::connect(&url).await.unwrap();
    for sql in DAMAGE {
        assert_eq!(db.execute_unprepared(sql).await.unwrap().rows_affected(), 1, "{sql}");
    }
    db.close().await.unwrap();
    let store = Store::open(&url).await.unwrap();
    let taken = WorkQueue::take(&store, 9, 10, 5).await.unwrap();
    let runs: Vec<&str> = taken.iter().map(|one| one.lease.run.id.as_str()).collect();
    assert_eq!(runs, ["whole"]);
    let told = store.take_notices(9, 10, 5).await.unwrap();
    let subjects: Vec<&str> = told.iter().map(|(lease, _)| lease.key.subject.as_str()).collect();
    assert_eq!(subjects, ["whole"]);
    let due = ScheduleStore::due(&store, 9, i64::MAX, 5).await.unwrap();
    let ids: Vec<&str> = due.iter().map(|one| one.key.id.as_str()).collect();
    assert_eq!(ids, ["whole"]);
    let taken = IngestQueue::take(&store, 9, 10, 5).await.unwrap();
    let names: Vec<&str> = taken.iter().map(|one| one.document.name.as_str()).collect();
    assert_eq!(names, ["whole"]);
    store.close().await.unwrap();
}

/// Otherwise it would be taken again each time its lease expires, and nobody could see its state.
#[tokio::test]
async fn an_unreadable_task_for_new_vectors_fails_with_its_error() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("weft.db").display());
    let store = Store::open(&url).await.unwrap();
    let mut keys = Vec::new();
    for (name, begun_ms) in [("damaged", 1), ("whole", 2)] {
        let of = dataset(&TenantId::from(format!("of-{name}")), "d");
        DatasetStore::create(&store, &of).await.unwrap();
        ReembeddingStore::begin(&store, &of.key, "m@Test", begun_ms).await.unwrap();
        keys.push(of.key);
    }
    store.close().await.unwrap();
    let db = Database::connect(&url).await.unwrap();
    let damage = "UPDATE reembedding SET state = 'odd' WHERE tenant_id = 'of-damaged'";
    assert_eq!(db.execute_unprepared(damage).await.unwrap().rows_affected(), 1);
    db.close().await.unwrap();
    let store = Store::open(&url).await.unwrap();
    assert!(ReembeddingStore::take(&store, 9, 20).await.unwrap().is_none());
    let failed = ReembeddingStore::last(&store, &keys[0]).await.unwrap().unwrap();
    assert_eq!((failed.state, failed.message.is_empty()), (ReembeddingState::Failed, false));
    let taken = ReembeddingStore::take(&store, 9, 20).await.unwrap().unwrap();
    assert_eq!(taken.lease.dataset, keys[1]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn with_very_many_tenants_the_oldest_work_comes_first() {
    let store = Store::open("sqlite::memory:").await.unwrap();
    for n in 0..70 {
        let of = dataset(&TenantId::from(format!("t{n:02}")), "d");
        DatasetStore::create(&store, &of).await.unwrap();
        let made = document(&of.key, "a.txt");
        store.add_document(&made).await.unwrap();
        // Those at the end of the list were queued first.
        let ids = std::slice::from_ref(&made.key.id);
        IngestQueue::queue(&store, &of.key, ids, 2_000 - n).await.unwrap();
    }
    let taken = IngestQueue::take(&store, 9_000, 10_000, 2).await.unwrap();
    let tenants: Vec<&str> = taken.iter().map(|one| one.document.key.dataset.tenant.as_str()).collect();
    assert_eq!(tenants, ["t69", "t68"]);
    store.close().await.unwrap();
}
