//! Contract of a store for versions.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use std::sync::Arc;

use futures::future::join_all;
use weft_core::ErrorKind::{Invalid, NotFound};
use weft_core::id::CanvasKey;
use weft_core::seam::canvas_store::{CanvasFilter, CanvasHead};
use weft_core::seam::version_store::{LABELS_MAX, VersionChange};
use weft_core::seam::{CanvasStore, VersionStore};

use super::{later, refused, tenant};

fn titled(title: &str) -> CanvasHead {
    CanvasHead { title: title.into(), ..CanvasHead::default() }
}

fn hashes(found: &[weft_core::seam::version_store::CanvasVersion]) -> Vec<Arc<str>> {
    found.iter().map(|version| Arc::clone(&version.version)).collect()
}

/// Checks the contract of [`VersionStore`], together with a canvas store.
pub async fn version_store_keeps_its_contract(canvases: &dyn CanvasStore, store: &dyn VersionStore) {
    versions_are_listed_and_described(canvases, store).await;
    one_version_is_published_and_labels_point_to_some(canvases, store).await;
    canvases_have_tags(canvases, store).await;
}

async fn versions_are_listed_and_described(canvases: &dyn CanvasStore, store: &dyn VersionStore) {
    let key = CanvasKey::new(&tenant(), "one");
    assert_eq!(store.versions(&key, 0, 10).await.unwrap(), (vec![], 0));
    let first = canvases.put(&key, &titled("One"), r#"{"n":1}"#).await.unwrap().version;
    later().await;
    let second = canvases.put(&key, &titled("One"), r#"{"n":2}"#).await.unwrap().version;
    let (found, total) = store.versions(&key, 0, 10).await.unwrap();
    assert_eq!((hashes(&found), total), (vec![second.clone(), first.clone()], 2));
    let fresh = &found[1];
    assert_eq!((fresh.title.as_str(), fresh.note.as_str(), fresh.published_ms), ("", "", None));
    assert_eq!((fresh.created_ms, fresh.labels.len()), (fresh.updated_ms, 0));
    later().await;
    canvases.put(&key, &titled("One"), r#"{"n":1}"#).await.unwrap();
    let (found, _) = store.versions(&key, 0, 10).await.unwrap();
    assert_eq!(hashes(&found), [first.clone(), second.clone()], "the one saved last comes first");
    assert!(found[0].updated_ms > found[0].created_ms);
    let (some, total) = store.versions(&key, 1, 1).await.unwrap();
    assert_eq!((hashes(&some), total), (vec![second.clone()], 2));

    let change = VersionChange { title: Some("Spring 🌱".into()), note: None };
    assert_eq!(store.describe(&key, &first, &change).await.unwrap().title, "Spring 🌱");
    let change = VersionChange { title: None, note: Some("line\nline".into()) };
    let described = store.describe(&key, &first, &change).await.unwrap();
    assert_eq!((described.title.as_str(), described.note.as_str()), ("Spring 🌱", "line\nline"));
    assert_eq!(store.get_version(&key, &first).await.unwrap(), described);
    canvases.put(&key, &titled("One"), r#"{"n":1}"#).await.unwrap();
    assert_eq!(
        store.get_version(&key, &first).await.unwrap().title,
        "Spring 🌱",
        "saving it again keeps that"
    );
    refused(store.describe(&key, "none", &change).await, NotFound);
    refused(store.get_version(&key, "none").await, NotFound);
    let other = CanvasKey::new(&tenant(), "one");
    refused(store.get_version(&other, &first).await, NotFound);
    refused(store.describe(&other, &first, &change).await, NotFound);

    assert_eq!(store.canvas_of(&key.tenant, &second).await.unwrap(), key);
    refused(store.canvas_of(&other.tenant, &second).await, NotFound);
    later().await;
    let twin = CanvasKey::new(&key.tenant, "twin");
    canvases.put(&twin, &titled("Twin"), r#"{"n":2}"#).await.unwrap();
    assert_eq!(store.canvas_of(&key.tenant, &second).await.unwrap(), twin);
}

async fn one_version_is_published_and_labels_point_to_some(
    canvases: &dyn CanvasStore,
    store: &dyn VersionStore,
) {
    let key = CanvasKey::new(&tenant(), "p");
    refused(store.publish(&key, "none").await, NotFound);
    let first = canvases.put(&key, &titled("P"), r#"{"n":1}"#).await.unwrap().version;
    let second = canvases.put(&key, &titled("P"), r#"{"n":2}"#).await.unwrap().version;
    assert_eq!(canvases.get(&key).await.unwrap().published, None);
    refused(store.publish(&key, "none").await, NotFound);
    store.publish(&key, &first).await.unwrap();
    let stored = canvases.get(&key).await.unwrap();
    assert_eq!((stored.published.unwrap().0, stored.version), (first.clone(), second.clone()));
    assert!(store.get_version(&key, &first).await.unwrap().published_ms.is_some());
    store.publish(&key, &second).await.unwrap();
    assert_eq!(store.get_version(&key, &first).await.unwrap().published_ms, None);
    canvases.put(&key, &titled("P"), r#"{"n":3}"#).await.unwrap();
    assert_eq!(canvases.get(&key).await.unwrap().published.unwrap().0, second, "saving publishes nothing");
    // A caller that unpublishes another version has not seen that this one is published.
    store.unpublish(&key, &first).await.unwrap();
    assert_eq!(canvases.get(&key).await.unwrap().published.unwrap().0, second);
    store.unpublish(&key, &second).await.unwrap();
    store.unpublish(&CanvasKey::new(&tenant(), "p"), &second).await.unwrap();
    assert_eq!(canvases.get(&key).await.unwrap().published, None);

    refused(store.labelled(&key, "production").await, NotFound);
    store.label(&key, "production", Some(&first)).await.unwrap();
    store.label(&key, "beta", Some(&first)).await.unwrap();
    assert_eq!(store.get_version(&key, &first).await.unwrap().labels, ["beta", "production"]);
    store.label(&key, "production", Some(&second)).await.unwrap();
    store.label(&key, "production", Some(&second)).await.unwrap();
    assert_eq!(store.labelled(&key, "production").await.unwrap(), second);
    assert_eq!(store.get_version(&key, &first).await.unwrap().labels, ["beta"]);
    refused(store.label(&key, "new", Some("none")).await, NotFound);
    refused(store.label(&key, "latest", Some(&first)).await, Invalid);
    let other = CanvasKey::new(&tenant(), "p");
    refused(store.labelled(&other, "production").await, NotFound);
    refused(store.label(&other, "production", None).await, NotFound);
    refused(store.label(&key, "none", None).await, NotFound);
    store.label(&key, "beta", None).await.unwrap();
    refused(store.labelled(&key, "beta").await, NotFound);
    for n in 1..LABELS_MAX - 1 {
        store.label(&key, &format!("l{n}"), Some(&first)).await.unwrap();
    }
    // There is room for one more, even under concurrent requests.
    let many = ["m1", "m2", "m3", "m4"];
    let put = join_all(many.iter().map(|label| store.label(&key, label, Some(&first)))).await;
    assert_eq!(put.iter().filter(|put| put.is_ok()).count(), 1, "{put:?}");
    refused(store.label(&key, "one-more", Some(&first)).await, Invalid);
    store.label(&key, "l1", Some(&second)).await.unwrap();
    canvases.delete(&key).await.unwrap();
    refused(store.labelled(&key, "production").await, NotFound);
    canvases.put(&key, &titled("P"), r#"{"n":1}"#).await.unwrap();
    refused(store.labelled(&key, "production").await, NotFound);
}

async fn canvases_have_tags(canvases: &dyn CanvasStore, store: &dyn VersionStore) {
    let ours = tenant();
    let key = |id: &str| CanvasKey::new(&ours, id);
    for id in ["a", "b", "c"] {
        canvases.put(&key(id), &titled(id), "{}").await.unwrap();
    }
    let tags = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>();
    store.set_tags(&key("a"), &tags(&["Sales", "100%_"])).await.unwrap();
    store.set_tags(&key("b"), &tags(&["sales", "Öl"])).await.unwrap();
    assert_eq!(canvases.get(&key("a")).await.unwrap().tags, ["Sales", "100%_"]);
    assert_eq!(store.tags(&ours).await.unwrap().len(), 3);
    assert_eq!(store.tags(&tenant()).await.unwrap(), [""; 0]);
    let found = async |wanted: &[&str]| {
        let filter = CanvasFilter { tags: tags(wanted), limit: 10, ..CanvasFilter::default() };
        let (found, total) = canvases.list(&ours, &filter).await.unwrap();
        let mut ids: Vec<_> = found.iter().map(|canvas| canvas.key.id.to_string()).collect();
        ids.sort();
        assert_eq!(ids.len() as u64, total);
        ids
    };
    assert_eq!(found(&["SALES"]).await, ["a", "b"]);
    assert_eq!(found(&["öl", "none"]).await, ["b"]);
    assert_eq!(found(&["100%_"]).await, ["a"]);
    assert_eq!(found(&["sale", "%"]).await, [""; 0], "a part of a tag does not match");
    canvases.put(&key("a"), &titled("a"), r#"{"n":2}"#).await.unwrap();
    assert_eq!(found(&["sales"]).await, ["a", "b"], "saving keeps the tags");
    store.set_tags(&key("a"), &[]).await.unwrap();
    assert_eq!(found(&["sales"]).await, ["b"]);
    refused(store.set_tags(&key("none"), &[]).await, NotFound);
    refused(store.set_tags(&key("a"), &tags(&["a,b"])).await, Invalid);
}
