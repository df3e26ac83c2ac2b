//! Databases of earlier versions.

use sea_orm::{ConnectionTrait, Database};
use weft_core::id::{RunKey, TenantId};
use weft_core::seam::RunStore;
use weft_core::seam::run_store::StoredRun;
use weft_store::Store;

#[tokio::test]
async fn runs_from_before_they_said_that_they_are_alive_can_be_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("weft.db").display());
    let run = StoredRun {
        key: RunKey::new(&TenantId::from("t"), "run"),
        session: "s".into(),
        canvas: "c".into(),
        query: String::new(),
        ending: None,
        started_ms: 1,
        finished_ms: None,
        alive_ms: 0,
    };
    let store = Store::open(&url).await.unwrap();
    store.create(&StoredRun { alive_ms: 5, ..run.clone() }).await.unwrap();
    store.close().await.unwrap();
    let forget = "DELETE FROM seaql_migrations WHERE version = 'm0006_run_alive'";
    let check = async |made_older: &[&str], alive_ms: i64| {
        let db = Database::connect(&url).await.unwrap();
        for sql in made_older {
            assert_eq!(db.execute_unprepared(sql).await.map(drop), Ok(()), "{sql}");
        }
        db.close().await.unwrap();
        let store = Store::open(&url).await.unwrap();
        assert_eq!(store.get(&run.key).await.unwrap(), StoredRun { alive_ms, ..run.clone() });
        assert!(store.claim(&run.key, alive_ms, 9).await.unwrap());
        store.close().await.unwrap();
    };
    // The step was cut off between its change and the note that it is done.
    check(&[forget], 5).await;
    check(&[forget, "ALTER TABLE run DROP COLUMN alive_ms"], 0).await;
}
