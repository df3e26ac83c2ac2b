//! Two processes that write one journal, and group commits.

use std::path::Path;

use futures::future::join_all;
use weft_core::ErrorKind;
use weft_core::id::{RunKey, TenantId};
use weft_core::seam::RunStore;
use weft_core::seam::run_store::{RunLease, StoredEntry, StoredRun};
use weft_store::Store;

fn run(id: usize) -> StoredRun {
    StoredRun::begun(RunKey::new(&TenantId::from("t"), format!("{id:032x}")), format!("s{id}"), "c", 0)
}

fn entries(first_seq: u64, count: u64, record: &str) -> Vec<StoredEntry> {
    (first_seq..first_seq + count)
        .map(|seq| StoredEntry { seq, event: Some(seq), at_ms: 1_700_000_000_000, record: record.into() })
        .collect()
}

async fn open(folder: &Path) -> Store {
    Store::open(&format!("sqlite:{}", folder.join("weft.db").display())).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_lost_its_run_does_not_block_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (open(folder.path()).await, open(folder.path()).await);
    for n in 0..30 {
        ours.create(&run(n)).await.unwrap();
        ours.append(&RunLease::first(&run(n).key), entries(1, 1, "{}")).await.unwrap();
    }
    // Another process continues every third run without our knowledge.
    for n in (0..30).step_by(3) {
        theirs.append(&RunLease::first(&run(n).key), entries(2, 2, "{\"by\":\"them\"}")).await.unwrap();
    }
    let outcomes = join_all(
        (0..30).map(async |n| ours.append(&RunLease::first(&run(n).key), entries(2, 1, "{}")).await),
    )
    .await;
    for (n, outcome) in outcomes.into_iter().enumerate() {
        if n % 3 == 0 {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Conflict, "{}", error.full());
            // The next append notices it.
            ours.append(&RunLease::first(&run(n).key), entries(4, 1, "{}")).await.unwrap();
        } else {
            outcome.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_run_does_not_block_the_others() {
    use weft_core::id::SessionKey;
    use weft_core::seam::SessionStore;
    use weft_core::seam::session_store::Session;
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (open(folder.path()).await, open(folder.path()).await);
    let session =
        Session::new(SessionKey::new(&TenantId::from("t"), "doomed"), "c", "v", serde_json::Value::Null, 0);
    SessionStore::create(&ours, &session, &[]).await.unwrap();
    RunStore::create(&ours, &StoredRun { session: "doomed".into(), ..run(0) }).await.unwrap();
    RunStore::create(&ours, &run(1)).await.unwrap();
    SessionStore::delete(&theirs, &session.key).await.unwrap();
    let outcomes =
        join_all((0..2).map(async |n| ours.append(&RunLease::first(&run(n).key), entries(1, 1, "{}")).await))
            .await;
    assert_eq!(outcomes[0].as_ref().unwrap_err().kind, ErrorKind::NotFound);
    outcomes[1].as_ref().unwrap();
}

#[tokio::test]
async fn close_writes_what_is_queued() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    for n in 0..50 {
        store.create(&run(n)).await.unwrap();
    }
    let appends = join_all(
        (0..50).map(async |n| store.append(&RunLease::first(&run(n).key), entries(1, 1, "{}")).await),
    );
    let (outcomes, closed) = tokio::join!(biased; appends, store.close());
    closed.unwrap();
    assert!(outcomes.iter().all(Result::is_ok));
    let late = store.append(&RunLease::first(&run(0).key), entries(2, 1, "{}")).await.unwrap_err();
    assert_eq!(late.kind, ErrorKind::Unavailable, "{}", late.full());
    let again = open(folder.path()).await;
    for n in 0..50 {
        assert_eq!(again.entries(&run(n).key, 0, 9).await.unwrap().len(), 1);
    }
}
