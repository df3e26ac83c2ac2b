//! Databases of earlier versions.

use sea_orm::{ConnectionTrait, Database};
use weft_core::id::{RunKey, SessionKey, TenantId};
use weft_core::seam::RunStore;
use weft_core::seam::run_store::StoredRun;
use weft_core::{Ending, ErrorKind};
use weft_store::Store;

#[tokio::test]
async fn runs_stored_without_an_owner_can_be_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("weft.db").display());
    let run = StoredRun::begun(RunKey::new(&TenantId::from("t"), "run"), "s", "c", 1);
    let store = Store::open(&url).await.unwrap();
    store.create(&StoredRun { fence: 5, owner: Some("process".into()), ..run.clone() }).await.unwrap();
    store.close().await.unwrap();
    let forget = "DELETE FROM seaql_migrations WHERE version IN ('m0006_run_alive', 'm0013_owner')";
    let mut seen = 5;
    let mut check = async |made_older: &[&str], fence: Option<i64>| {
        let db = Database::connect(&url).await.unwrap();
        for sql in made_older {
            assert_eq!(db.execute_unprepared(sql).await.map(drop), Ok(()), "{sql}");
        }
        db.close().await.unwrap();
        let store = Store::open(&url).await.unwrap();
        seen = fence.unwrap_or(seen);
        let found = store.get(&run.key).await.unwrap();
        assert_eq!((found.fence, found.owner.is_none(), found.cancel_ms), (seen, fence.is_some(), None));
        assert_eq!(store.unattended(&[], 9).await.unwrap(), [found]);
        seen = store.claim(&run.key, seen, &"next".into()).await.unwrap().unwrap().fence;
        store.close().await.unwrap();
    };
    // The migration was interrupted between its change and the record that it is done.
    check(&[forget, "DROP TABLE process"], None).await;
    let columns =
        ["alive_ms", "fence", "owner", "cancel_ms"].map(|c| format!("ALTER TABLE run DROP COLUMN {c}"));
    let mut older: Vec<&str> = columns.iter().map(String::as_str).collect();
    older.extend([forget, "DROP TABLE process"]);
    check(&older, Some(0)).await;
}

/// A store as the program wrote it before a session was limited to one active run.
const VERSION_6: &str = include_str!("version_6.sql");

#[tokio::test]
async fn a_store_of_version_six_can_be_read_and_continued() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("weft.db").display());
    let db = Database::connect(format!("{url}?mode=rwc")).await.unwrap();
    db.execute_unprepared(VERSION_6).await.unwrap();
    db.close().await.unwrap();
    let tenant = TenantId::from("default");
    let key = |id: &str| RunKey::new(&tenant, id);
    let store = Store::open(&url).await.unwrap();
    // Of two interrupted runs of a session the newer one can still be resumed.
    let (older, newer) = (store.get(&key("older")).await.unwrap(), store.get(&key("newer")).await.unwrap());
    assert_eq!((older.ending, older.finished_ms.is_some()), (Some(Ending::Failed), true));
    assert_eq!((newer.ending, newer.query.as_str()), (None, "two"));
    let another = StoredRun { key: key("another"), ..newer.clone() };
    assert_eq!(store.create(&another).await.unwrap_err().kind, ErrorKind::Conflict);
    assert!(store.claim(&newer.key, newer.fence, &"next".into()).await.unwrap().is_some());
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
    // Removing the old session removes its journals.
    sessions.delete(&session).await.unwrap();
    assert_eq!(store.get(&newer.key).await.unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(store.entries(&key("ended"), 0, 99).await.unwrap().len(), 10);
    store.close().await.unwrap();
}

/// Opening read-only leaves the tables as they are: the program that uses them may still be the older one.
#[tokio::test]
async fn opening_a_store_read_only_does_not_migrate_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weft.db");
    let url = format!("sqlite:{}", path.display());
    let absent = Store::open_to_read(&url).await.unwrap_err();
    assert!(absent.to_string().contains("cannot open the store"), "{absent}");
    assert!(!path.exists(), "opening read-only creates no file");
    let db = Database::connect(format!("{url}?mode=rwc")).await.unwrap();
    db.execute_unprepared(VERSION_6).await.unwrap();
    db.close().await.unwrap();
    let before = std::fs::read(&path).unwrap();
    let older = Store::open_to_read(&url).await.unwrap_err();
    assert_eq!(older.kind, ErrorKind::Unsupported);
    assert!(older.to_string().contains("an older version of Weft"), "{older}");
    assert_eq!(std::fs::read(&path).unwrap(), before);

    let store = Store::open(&url).await.unwrap();
    let reads = Store::open_to_read(&url).await.unwrap();
    let key = RunKey::new(&TenantId::from("default"), "ended");
    assert_eq!(reads.get(&key).await.unwrap(), store.get(&key).await.unwrap());
    let newer = StoredRun { key: RunKey::new(&key.tenant, "new"), ..store.get(&key).await.unwrap() };
    reads.create(&newer).await.unwrap_err();
    reads.close().await.unwrap();
    store.close().await.unwrap();
}
