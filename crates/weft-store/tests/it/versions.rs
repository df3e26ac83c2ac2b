//! Removal of old versions of canvases, against every database of this build: called by the contracts.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{join, join_all};
use weft_core::id::{CanvasKey, RunKey, SessionKey, TenantId, generate};
use weft_core::seam::canvas_store::{CHAT_TYPE, CanvasHead};
use weft_core::seam::run_store::StoredRun;
use weft_core::seam::session_store::Session;
use weft_core::seam::version_store::VersionChange;
use weft_core::{ErrorKind, Json};
use weft_store::Store;

pub(crate) async fn old_versions_are_removed(opened: &Store) {
    let store = opened.clone().with_versions_kept(2);
    the_newest_versions_are_kept(&store).await;
    versions_that_something_depends_on_are_kept(&store).await;
    canvases_of_assistants_keep_all(&store).await;
    versions_of_assistants_that_no_run_needs_are_removed(opened).await;
    many_old_versions_are_removed_step_by_step(opened).await;
    versions_are_not_removed_while_they_are_labelled(opened).await;
}

fn canvas() -> CanvasKey {
    CanvasKey::new(&TenantId::new(generate()), "c")
}

/// Stores a canvas; returns its version. Waits first, so that it is later than the one before.
async fn save(store: &Store, key: &CanvasKey, dsl: &str) -> Arc<str> {
    tokio::time::sleep(Duration::from_millis(2)).await;
    store.canvases().put(key, &CanvasHead::default(), dsl).await.unwrap().version
}

/// The versions of a canvas, most recently saved first.
async fn kept(store: &Store, key: &CanvasKey) -> Vec<Arc<str>> {
    let (found, total) = store.versions().versions(key, 0, 500).await.unwrap();
    assert_eq!(found.len() as u64, total);
    found.into_iter().map(|version| version.version).collect()
}

async fn the_newest_versions_are_kept(store: &Store) {
    let (key, other) = (canvas(), canvas());
    let theirs = save(store, &other, "1").await;
    let first = save(store, &key, "1").await;
    let second = save(store, &key, "2").await;
    assert_eq!(kept(store, &key).await, [second.clone(), first.clone()]);
    let third = save(store, &key, "3").await;
    assert_eq!(kept(store, &key).await, [third.clone(), second.clone()]);
    let gone = store.canvases().version(&key, &first).await.unwrap_err();
    assert_eq!(gone.kind, ErrorKind::NotFound);
    // A canvas that is saved again is no other version, and its version is a new one again.
    assert_eq!(save(store, &key, "3").await, third);
    assert_eq!(save(store, &key, "2").await, second);
    assert_eq!(kept(store, &key).await, [second.clone(), third]);
    let fourth = save(store, &key, "4").await;
    assert_eq!(kept(store, &key).await, [fourth, second]);
    assert_eq!(save(store, &key, "1").await, first, "it may come back");
    assert_eq!(kept(store, &other).await, [theirs], "canvases are separate");
}

async fn versions_that_something_depends_on_are_kept(store: &Store) {
    let key = canvas();
    let titled = save(store, &key, "1").await;
    let change = |title: &str| VersionChange { title: Some(title.to_owned()), note: None };
    store.versions().describe(&key, &titled, &change("Spring")).await.unwrap();
    let noted = save(store, &key, "2").await;
    let note = |note: &str| VersionChange { title: None, note: Some(note.to_owned()) };
    store.versions().describe(&key, &noted, &note("before the sale")).await.unwrap();
    let labelled = save(store, &key, "3").await;
    store.versions().label(&key, "production", Some(&labelled)).await.unwrap();
    let published = save(store, &key, "4").await;
    store.versions().publish(&key, &published).await.unwrap();
    let used = save(store, &key, "5").await;
    let session =
        Session::new(SessionKey::new(&key.tenant, generate()), "c", Arc::clone(&used), Json::Null, 1);
    store.sessions().create(&session, &[]).await.unwrap();
    // A session of another canvas keeps none of this one.
    let elsewhere = save(store, &key, "6").await;
    let other = Session::new(SessionKey::new(&key.tenant, generate()), "other", elsewhere, Json::Null, 1);
    store.sessions().create(&other, &[]).await.unwrap();
    let (last, newest) = (save(store, &key, "7").await, save(store, &key, "8").await);
    let all = [newest, last, used, published.clone(), labelled, noted.clone(), titled.clone()];
    assert_eq!(kept(store, &key).await, all);

    store.versions().describe(&key, &titled, &change("")).await.unwrap();
    store.versions().describe(&key, &noted, &note("")).await.unwrap();
    store.versions().label(&key, "production", None).await.unwrap();
    store.versions().unpublish(&key, &published).await.unwrap();
    store.sessions().delete(&session.key).await.unwrap();
    let [newest, ..] = all;
    assert_eq!(kept(store, &key).await.len(), 7, "only saving removes versions");
    let next = save(store, &key, "9").await;
    assert_eq!(kept(store, &key).await, [next, newest]);
    store.canvases().delete(&key).await.unwrap();
}

async fn canvases_of_assistants_keep_all(store: &Store) {
    let key = canvas();
    for dsl in ["1", "2", "3"] {
        let head = CanvasHead { canvas_type: CHAT_TYPE.to_owned(), ..CanvasHead::default() };
        store.canvases().put(&key, &head, dsl).await.unwrap();
    }
    assert_eq!(kept(store, &key).await.len(), 3);
}

async fn versions_of_assistants_that_no_run_needs_are_removed(opened: &Store) {
    const DAY_MS: i64 = 86_400_000;
    let store = opened.clone().with_versions_kept(2);
    let chat = |title: &str| {
        let (title, canvas_type) = (title.to_owned(), CHAT_TYPE.to_owned());
        CanvasHead { title, canvas_type, ..CanvasHead::default() }
    };
    let used = canvas();
    let [unused, agent] = ["unused", "agent"].map(|id| CanvasKey::new(&used.tenant, id));
    for n in 0..150 {
        store.canvases().put(&unused, &chat("unused"), &format!("unused {n}")).await.unwrap();
    }
    let newest = store.canvases().get(&unused).await.unwrap().version;
    for n in 0..3 {
        store.canvases().put(&used, &chat("used"), &format!("used {n}")).await.unwrap();
        opened.canvases().put(&agent, &CanvasHead::default(), &format!("agent {n}")).await.unwrap();
    }
    let saved_ms = store.versions().get_version(&unused, &newest).await.unwrap().created_ms;
    for (key, started_ms) in [(&unused, saved_ms - 3 * DAY_MS), (&used, saved_ms + DAY_MS / 2)] {
        let run = RunKey::new(&key.tenant, generate());
        let run = StoredRun::begun(run, generate(), key.id.clone(), started_ms);
        store.runs().create(&run).await.unwrap();
    }
    let remove = async |store: &Store, before_ms: i64| {
        store.versions().remove_unused_versions(&used.tenant, before_ms).await.unwrap()
    };
    assert_eq!(remove(&store, saved_ms - DAY_MS).await, 0, "all were saved later");
    assert_eq!(remove(opened, i64::MAX).await, 0, "without the setting, all are kept");
    assert_eq!(remove(&store, i64::MAX).await, 149);
    assert_eq!(kept(&store, &unused).await, [newest]);
    assert_eq!((kept(&store, &used).await.len(), kept(&store, &agent).await.len()), (3, 3));
    assert_eq!(remove(&store, i64::MAX).await, 0);
}

async fn many_old_versions_are_removed_step_by_step(opened: &Store) {
    let key = canvas();
    for n in 0..80 {
        opened.canvases().put(&key, &CanvasHead::default(), &n.to_string()).await.unwrap();
    }
    assert_eq!(kept(opened, &key).await.len(), 80, "without the setting, all are kept");
    let store = opened.clone().with_versions_kept(2);
    save(&store, &key, "a").await;
    let some = kept(&store, &key).await.len();
    assert!(some > 2 && some < 80, "{some}");
    save(&store, &key, "b").await;
    assert_eq!(kept(&store, &key).await.len(), 2);
}

/// A label that was stored points to a version that is there.
async fn versions_are_not_removed_while_they_are_labelled(opened: &Store) {
    let store = opened.clone().with_versions_kept(1);
    for _ in 0..10 {
        let key = canvas();
        let old = save(opened, &key, "old").await;
        let older = save(opened, &key, "older").await;
        let (canvases, versions) = (store.canvases(), store.versions());
        let (head, texts) = (CanvasHead::default(), ["1", "2", "3"]);
        let saves = join_all(texts.iter().map(|dsl| canvases.put(&key, &head, dsl)));
        let marks = join(versions.label(&key, "production", Some(&old)), versions.publish(&key, &older));
        let (saved, (labelled, published)) = join(saves, marks).await;
        for saved in saved {
            saved.unwrap();
        }
        for (outcome, version) in [(labelled, &old), (published, &older)] {
            match outcome {
                Ok(()) => {
                    store.versions().get_version(&key, version).await.unwrap();
                }
                Err(gone) => assert_eq!(gone.kind, ErrorKind::NotFound, "{}", gone.full()),
            }
        }
    }
}
