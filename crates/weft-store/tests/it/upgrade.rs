//! Databases of earlier versions.

use sea_orm::{ConnectionTrait, Database};
use weft_core::id::{RunKey, SessionKey, TenantId};
use weft_core::seam::RunStore;
use weft_core::seam::run_store::StoredRun;
use weft_core::{Ending, ErrorKind};
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

/// What the program stored before a session had one run at work, as it was.
const VERSION_6: &str = include_str!("version_6.sql");

#[tokio::test]
async fn a_store_of_version_six_is_read_and_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("weft.db").display());
    let db = Database::connect(format!("{url}?mode=rwc")).await.unwrap();
    db.execute_unprepared(VERSION_6).await.unwrap();
    db.close().await.unwrap();
    let tenant = TenantId::from("default");
    let key = |id: &str| RunKey::new(&tenant, id);
    let store = Store::open(&url).await.unwrap();
    // Of two runs of a session that were cut off the newer one can still be gone on with.
    let (older, newer) = (store.get(&key("older")).await.unwrap(), store.get(&key("newer")).await.unwrap());
    assert_eq!((older.ending, older.finished_ms), (Some(Ending::Failed), Some(older.alive_ms)));
    assert_eq!((newer.ending, newer.query.as_str()), (None, "two"));
    let another = StoredRun { key: key("another"), ..newer.clone() };
    assert_eq!(store.create(&another).await.unwrap_err().kind, ErrorKind::Conflict);
    assert!(store.claim(&newer.key, newer.alive_ms, newer.alive_ms + 9).await.unwrap());
    for id in ["older", "newer", "ended"] {
        let entries = store.entries(&key(id), 0, 99).await.unwrap();
        assert!(entries.iter().map(|entry| entry.seq).eq(1..=10), "{id}");
        assert!(entries[0].record.starts_with("{\"type\":\"run_started\""), "{id}");
        assert!(entries[9].record.starts_with("{\"type\":\"run_finished\""), "{id}");
    }
    let session = SessionKey::new(&tenant, "s1");
    let sessions = store.sessions();
    assert_eq!(sessions.load(&session).await.unwrap().state["turns"], 2);
    let messages = sessions.messages(&session, i64::MAX, 9).await.unwrap();
    assert_eq!(messages.iter().map(|m| m.content.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    // And removing what is old takes its journals along.
    sessions.delete(&session).await.unwrap();
    assert_eq!(store.get(&newer.key).await.unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(store.entries(&key("ended"), 0, 99).await.unwrap().len(), 10);
    store.close().await.unwrap();
}
