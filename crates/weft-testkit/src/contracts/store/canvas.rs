//! Contract of a canvas store.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use futures::future::join_all;
use weft_core::Error;
use weft_core::ErrorKind::{Conflict, NotFound};
use weft_core::changes;
use weft_core::id::{CanvasId, CanvasKey, TenantId};
use weft_core::seam::CanvasStore;
use weft_core::seam::canvas_store::{
    CHAT_TYPE, CanvasFilter, CanvasHead, CanvasOrder, PIPELINE_TYPE, StoredCanvas,
};

use super::{LARGE, later, refused, tenant};

fn titled(title: &str) -> CanvasHead {
    CanvasHead {
        title: title.into(),
        description: "what it is for 🦜".into(),
        avatar: "data:image/png;base64,AAAA".into(),
        permission: "me".into(),
        canvas_type: "agent".into(),
        source: "/srv/shop/canvas.json".into(),
    }
}

/// Checks the contract of [`CanvasStore`].
pub async fn canvas_store_keeps_its_contract(store: &dyn CanvasStore) {
    versions_are_immutable_and_named_by_content(store).await;
    titles_are_unique_without_regard_to_case(store).await;
    a_refused_change_changes_nothing(store).await;
    keys_are_exact(store).await;
    an_id_alone_decides_who_was_first(store).await;
    lists_have_the_requested_order(store).await;
    lists_are_ordered_and_paged(store).await;
    keywords_are_taken_literally(store).await;
    large_canvases_round_trip(store).await;
    removed_canvases_are_deleted(store).await;
    one_of_two_concurrent_titles_wins(store).await;
    concurrent_changes_are_all_kept(store).await;
    a_change_restores_nothing_removed(store).await;
}

async fn versions_are_immutable_and_named_by_content(store: &dyn CanvasStore) {
    let key = CanvasKey::new(&tenant(), "one");
    refused(store.get(&key).await, NotFound);
    refused(store.newest(&key).await, NotFound);
    let first = store.put(&key, &titled("One"), r#"{"n":1}"#).await.unwrap();
    assert_eq!(first.key, key);
    assert_eq!(first.head, titled("One"));
    assert_eq!(&*first.dsl, r#"{"n":1}"#);
    assert_eq!(first.created_ms, first.updated_ms);
    assert_eq!(store.get(&key).await.unwrap(), first);
    assert_eq!(store.newest(&key).await.unwrap(), first.version);

    later().await;
    let renamed = store.put(&key, &titled("Uno"), r#"{"n":1}"#).await.unwrap();
    assert_eq!(renamed.version, first.version, "an unchanged DSL is not a new version");
    assert_eq!(renamed.created_ms, first.created_ms);
    assert!(renamed.updated_ms > first.updated_ms);
    assert_eq!(store.get(&key).await.unwrap().head.title, "Uno");

    let second = store.put(&key, &titled("Uno"), r#"{"n":2}"#).await.unwrap();
    assert_ne!(second.version, first.version);
    assert_eq!(&*store.version(&key, &first.version).await.unwrap(), r#"{"n":1}"#);
    assert_eq!(&*store.version(&key, &second.version).await.unwrap(), r#"{"n":2}"#);
    refused(store.version(&key, "none").await, NotFound);

    let back = store.put(&key, &titled("Uno"), r#"{"n":1}"#).await.unwrap();
    assert_eq!(back.version, first.version, "the same DSL is the same version");
    assert_eq!(store.get(&key).await.unwrap().version, first.version);
    assert_eq!(store.newest(&key).await.unwrap(), first.version);
    assert_eq!(store.put(&key, &titled("Uno"), r#"{"n":1}"#).await.unwrap().version, first.version);

    // Only questions to an assistant can start its canvas.
    let of_chat = CanvasKey::new(&key.tenant, "assistant");
    let head = CanvasHead { canvas_type: CHAT_TYPE.to_owned(), ..titled("Assistant") };
    store.put(&of_chat, &head, r#"{"n":1}"#).await.unwrap();
    refused(store.newest(&of_chat).await, NotFound);
    assert_eq!(store.get(&of_chat).await.unwrap().head, head);
}

async fn titles_are_unique_without_regard_to_case(store: &dyn CanvasStore) {
    let tenant = tenant();
    store.put(&CanvasKey::new(&tenant, "a"), &titled("Café Ünïon"), "{}").await.unwrap();
    let b = CanvasKey::new(&tenant, "b");
    refused(store.put(&b, &titled("CAFÉ üNÏON"), "{}").await, Conflict);
    refused(store.get(&b).await, NotFound);
    store.put(&b, &titled("Cafe Union"), "{}").await.unwrap();
    store.put(&CanvasKey::new(&tenant, "c"), &titled("Cafe Union "), "{}").await.unwrap();
    store.put(&b, &titled("CAFE UNION"), "{}").await.unwrap();
    store.put(&CanvasKey::new(&super::tenant(), "d"), &titled("Café Ünïon"), "{}").await.unwrap();
}

async fn a_refused_change_changes_nothing(store: &dyn CanvasStore) {
    let tenant = tenant();
    let key = CanvasKey::new(&tenant, "mine");
    store.put(&CanvasKey::new(&tenant, "other"), &titled("Taken"), "{}").await.unwrap();
    let before = store.put(&key, &titled("Mine"), "{}").await.unwrap();
    refused(store.put(&key, &titled("taken"), r#"{"n":2}"#).await, Conflict);
    assert_eq!(store.get(&key).await.unwrap(), before);
}

async fn keys_are_exact(store: &dyn CanvasStore) {
    let (ours, theirs) = (tenant(), tenant());
    for (n, id) in ["id", "ID", "id ", "íd"].into_iter().enumerate() {
        let title = titled(&format!("title {n}"));
        store.put(&CanvasKey::new(&ours, id), &title, &format!("{{\"n\":{n}}}")).await.unwrap();
    }
    for (n, id) in ["id", "ID", "id ", "íd"].into_iter().enumerate() {
        let found = store.get(&CanvasKey::new(&ours, id)).await.unwrap();
        assert_eq!((&*found.dsl, found.key.id.as_str()), (&*format!("{{\"n\":{n}}}"), id));
    }
    let other = CanvasKey::new(&theirs, "id");
    refused(store.get(&other).await, NotFound);
    let version = store.get(&CanvasKey::new(&ours, "id")).await.unwrap().version;
    refused(store.version(&other, &version).await, NotFound);
    refused(store.delete(&other).await, NotFound);
    assert_eq!(store.list(&theirs, &all()).await.unwrap(), (vec![], 0));
    refused(store.get(&CanvasKey::new(&ours, "id\0")).await, NotFound);
}

async fn an_id_alone_decides_who_was_first(store: &dyn CanvasStore) {
    let (first, second) = (tenant(), tenant());
    let id = CanvasId::generate();
    assert_eq!(store.tenant_of(&id).await.unwrap(), None);
    store.put(&CanvasKey::new(&first, id.clone()), &titled("whose"), "{}").await.unwrap();
    later().await;
    store.put(&CanvasKey::new(&second, id.clone()), &titled("whose"), "{}").await.unwrap();
    assert_eq!(store.tenant_of(&id).await.unwrap(), Some(first.clone()));
    store.put(&CanvasKey::new(&first, id.clone()), &titled("whose"), "{\"n\":1}").await.unwrap();
    assert_eq!(store.tenant_of(&id).await.unwrap(), Some(first.clone()));
    store.delete(&CanvasKey::new(&first, id.clone())).await.unwrap();
    assert_eq!(store.tenant_of(&id).await.unwrap(), Some(second));
}

fn all() -> CanvasFilter {
    CanvasFilter { limit: u64::MAX, ..CanvasFilter::default() }
}

fn ids(found: &[StoredCanvas]) -> Vec<&str> {
    found.iter().map(|canvas| canvas.key.id.as_str()).collect()
}

async fn lists_have_the_requested_order(store: &dyn CanvasStore) {
    let tenant = tenant();
    for (id, title) in [("x", "b"), ("y", "C"), ("z", "a")] {
        store.put(&CanvasKey::new(&tenant, id), &titled(title), "{}").await.unwrap();
        later().await;
    }
    store.put(&CanvasKey::new(&tenant, "x"), &titled("b"), r#"{"n":2}"#).await.unwrap();
    for (order, expected) in [
        (CanvasOrder::Updated, ["y", "z", "x"]),
        (CanvasOrder::Created, ["x", "y", "z"]),
        (CanvasOrder::Title, ["z", "x", "y"]),
    ] {
        let ascending = CanvasFilter { order, ascending: true, ..all() };
        assert_eq!(ids(&store.list(&tenant, &ascending).await.unwrap().0), expected, "{order:?}");
        let (descending, _) = store.list(&tenant, &CanvasFilter { order, ..all() }).await.unwrap();
        assert_eq!(ids(&descending).into_iter().rev().collect::<Vec<_>>(), expected, "{order:?}");
    }
}

async fn lists_are_ordered_and_paged(store: &dyn CanvasStore) {
    let tenant = tenant();
    for id in ["p", "q", "r", "s"] {
        store.put(&CanvasKey::new(&tenant, id), &titled(id), "{}").await.unwrap();
        later().await;
    }
    let changed = store.put(&CanvasKey::new(&tenant, "p"), &titled("p"), r#"{"n":2}"#).await.unwrap();
    let (newest_first, total) = store.list(&tenant, &all()).await.unwrap();
    assert_eq!((ids(&newest_first), total), (vec!["p", "s", "r", "q"], 4));
    assert_eq!(newest_first[0], StoredCanvas { dsl: "".into(), ..changed });
    let ascending = CanvasFilter { ascending: true, offset: 1, limit: 2, ..all() };
    let (some, total) = store.list(&tenant, &ascending).await.unwrap();
    assert_eq!((ids(&some), total), (vec!["r", "s"], 4));
    let by_id = CanvasFilter { id: Some("r".into()), ..all() };
    let (one, total) = store.list(&tenant, &by_id).await.unwrap();
    assert_eq!((ids(&one), total), (vec!["r"], 1));
    let title = one[0].head.title.to_uppercase();
    let by_title = CanvasFilter { title: Some(title), ..all() };
    assert_eq!(ids(&store.list(&tenant, &by_title).await.unwrap().0), ["r"]);
    let neither = CanvasFilter { id: Some("r".into()), title: Some("no such title".into()), ..all() };
    assert_eq!(store.list(&tenant, &neither).await.unwrap(), (vec![], 0));
    let beyond = CanvasFilter { offset: u64::MAX, ..all() };
    assert_eq!(store.list(&tenant, &beyond).await.unwrap(), (vec![], 4));
    let head = CanvasHead { canvas_type: PIPELINE_TYPE.to_owned(), ..titled("q") };
    store.put(&CanvasKey::new(&tenant, "q"), &head, "{}").await.unwrap();
    for (pipelines, found) in [(true, &["q"] as &[&str]), (false, &["p", "r", "s"])] {
        let filter = CanvasFilter { pipelines: Some(pipelines), ..all() };
        let (some, total) = store.list(&tenant, &filter).await.unwrap();
        let mut some = ids(&some);
        some.sort_unstable();
        assert_eq!((some.as_slice(), total), (found, found.len() as u64));
    }
    let none = CanvasFilter::default();
    assert_eq!(store.list(&tenant, &none).await.unwrap(), (vec![], 4));
}

async fn keywords_are_taken_literally(store: &dyn CanvasStore) {
    let tenant = tenant();
    for title in ["100% wool", "100 wool", "snake_case", "snakecase", "Hey!", "天気 Ü", r"back\slash"] {
        store.put(&CanvasKey::new(&tenant, title), &titled(title), "{}").await.unwrap();
    }
    for (keywords, found) in [
        ("100%", vec!["100% wool"]),
        ("E_C", vec!["snake_case"]),
        ("hey!", vec!["Hey!"]),
        ("気 ü", vec!["天気 Ü"]),
        (r"K\S", vec![r"back\slash"]),
        ("SNAKE", vec!["snake_case", "snakecase"]),
        ("nothing\0", vec![]),
    ] {
        let filter = CanvasFilter { keywords: keywords.into(), ..all() };
        let (canvases, total) = store.list(&tenant, &filter).await.unwrap();
        let mut titles: Vec<_> = canvases.iter().map(|canvas| canvas.head.title.as_str()).collect();
        titles.sort_unstable();
        assert_eq!((titles, total), (found.clone(), found.len() as u64), "{keywords}");
    }
}

async fn large_canvases_round_trip(store: &dyn CanvasStore) {
    let key = CanvasKey::new(&tenant(), "large");
    let dsl = format!("{{\"text\":\"{}\"}}", "ж🦜".repeat(LARGE / 6));
    let head = CanvasHead { avatar: "A".repeat(LARGE), ..titled("large") };
    store.put(&key, &head, &dsl).await.unwrap();
    let found = store.get(&key).await.unwrap();
    assert!(*found.dsl == *dsl && found.head == head);
}

async fn removed_canvases_are_deleted(store: &dyn CanvasStore) {
    let tenant = tenant();
    let key = CanvasKey::new(&tenant, "gone");
    let stored = store.put(&key, &titled("gone"), "{}").await.unwrap();
    store.put(&CanvasKey::new(&tenant, "stays"), &titled("stays"), "{}").await.unwrap();
    store.delete(&key).await.unwrap();
    refused(store.delete(&key).await, NotFound);
    refused(store.get(&key).await, NotFound);
    refused(store.version(&key, &stored.version).await, NotFound);
    let (left, _) = store.list(&tenant, &all()).await.unwrap();
    assert_eq!(ids(&left), ["stays"]);
    store.put(&key, &titled("gone"), "{}").await.unwrap();
}

async fn one_of_two_concurrent_titles_wins(store: &dyn CanvasStore) {
    let tenant = TenantId::new(weft_core::id::generate());
    let want = async |n: usize| {
        let key = CanvasKey::new(&tenant, n.to_string());
        store.put(&key, &titled("wanted"), "{}").await
    };
    let outcomes = join_all((0..6).map(want)).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    outcomes.into_iter().filter(Result::is_err).for_each(|outcome| refused(outcome, Conflict));
    let key = CanvasKey::new(&tenant, "same");
    let put = async |n: usize| store.put(&key, &titled("same"), &format!("{{\"n\":{n}}}")).await;
    for outcome in join_all((0..4).map(put)).await {
        outcome.unwrap();
    }
}

/// Concurrent changes, each of which adds to what it has read, are all kept.
async fn concurrent_changes_are_all_kept(store: &dyn CanvasStore) {
    let key = CanvasKey::new(&tenant(), "shared");
    let first = store.put(&key, &titled("Shared"), "{}").await.unwrap();
    assert!(store.put(&key, &titled("Shared"), "{}").await.unwrap().revision > first.revision);
    let add = async |n: usize| {
        changes::made("canvas", || async {
            let there = store.get(&key).await?;
            let head =
                CanvasHead { description: format!("{}+{n}", there.head.description), ..there.head.clone() };
            let dsl = format!("{}{n}", there.dsl);
            let changed = store.change(&there, &head, &dsl).await?;
            // The result is what this change stored, not what another caller has stored since.
            assert!(changed.iter().all(|changed| changed.head == head && *changed.dsl == *dsl));
            Ok::<_, Error>(changed)
        })
        .await
    };
    for changed in join_all((0..8).map(add)).await {
        changed.unwrap();
    }
    let there = store.get(&key).await.unwrap();
    for n in 0..8 {
        assert!(there.head.description.contains(&format!("+{n}")), "{}", there.head.description);
        assert!(there.dsl.contains(&n.to_string()), "{}", there.dsl);
    }
    let taken = titled("Taken");
    store.put(&CanvasKey::new(&key.tenant, "other"), &taken, "{}").await.unwrap();
    refused(store.change(&there, &taken, "{}").await, Conflict);
    assert_eq!(store.get(&key).await.unwrap(), there);
}

async fn a_change_restores_nothing_removed(store: &dyn CanvasStore) {
    let key = CanvasKey::new(&tenant(), "gone");
    let seen = store.put(&key, &titled("Gone"), "{}").await.unwrap();
    store.delete(&key).await.unwrap();
    assert_eq!(store.change(&seen, &seen.head, &seen.dsl).await.unwrap(), None);
    refused(store.get(&key).await, NotFound);
}
