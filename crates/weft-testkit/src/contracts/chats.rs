//! Contract of a store for chat assistants.

use futures::future::join_all;
use serde_json::json;
use weft_core::ErrorKind::{Conflict, Invalid, NotFound};
use weft_core::id::{CanvasKey, TenantId, generate};
use weft_core::seam::ChatStore;
use weft_core::seam::chat_store::{Chat, ChatFilter, ChatKind, ChatOrder, ChatSettings};

use super::{fine, refused, tenant};

fn chat(tenant: &TenantId, name: &str, at_ms: i64) -> Chat {
    let prompt = json!({"system": "Know {knowledge}\u{0} 汉", "unknown": [1, null, {"a": 0.5}]});
    let settings = ChatSettings {
        description: "Ünïcode 🦜".to_owned(),
        datasets: vec!["d1".to_owned(), "d2".to_owned()],
        prompt_config: prompt.as_object().cloned().unwrap_or_default(),
        similarity_threshold: 0.25,
        ..ChatSettings::default()
    };
    let key = CanvasKey::new(tenant, generate());
    let kind = ChatKind::Assistant;
    Chat { key, kind, name: name.to_owned(), settings, revision: 1, created_ms: at_ms, updated_ms: at_ms }
}

async fn names(store: &dyn ChatStore, tenant: &TenantId, filter: ChatFilter) -> Vec<String> {
    let limit = if filter.limit == 0 { 100 } else { filter.limit };
    let (found, total) = fine(store.list(tenant, &ChatFilter { limit, ..filter }).await);
    assert!(total >= found.len() as u64);
    found.into_iter().map(|chat| chat.name).collect()
}

/// Checks the contract of [`ChatStore`].
pub async fn chat_store_keeps_its_contract(store: &dyn ChatStore) {
    assistants_round_trip(store).await;
    names_are_unique_within_a_tenant(store).await;
    one_of_many_concurrent_changes_wins(store).await;
    assistants_are_listed_by_filter(store).await;
}

async fn assistants_round_trip(store: &dyn ChatStore) {
    let one = chat(&tenant(), "One", 5);
    refused(store.get(&one.key).await, NotFound);
    fine(store.create(&one).await);
    assert_eq!(fine(store.get(&one.key).await), one);
    refused(store.create(&Chat { name: "Other".to_owned(), ..one.clone() }).await, Conflict);
    for name in ["", &"x".repeat(256)] {
        refused(store.create(&Chat { name: name.to_owned(), ..chat(&tenant(), "", 5) }).await, Invalid);
    }
    let stranger = CanvasKey::new(&tenant(), one.key.id.clone());
    refused(store.get(&stranger).await, NotFound);
    refused(store.delete(&stranger).await, NotFound);
    assert_eq!(fine(store.change(&Chat { key: stranger, ..one.clone() }, 9).await), None);
    fine(store.delete(&one.key).await);
    refused(store.get(&one.key).await, NotFound);
    refused(store.delete(&one.key).await, NotFound);
    assert_eq!(fine(store.change(&one, 9).await), None);
}

async fn names_are_unique_within_a_tenant(store: &dyn ChatStore) {
    let (ours, theirs) = (tenant(), tenant());
    let first = chat(&ours, "Ärger", 1);
    fine(store.create(&first).await);
    refused(store.create(&chat(&ours, "äRGER", 1)).await, Conflict);
    fine(store.create(&chat(&theirs, "ärger", 1)).await);
    let second = chat(&ours, "second", 1);
    fine(store.create(&second).await);
    refused(store.change(&Chat { name: "ÄRGER".to_owned(), ..second.clone() }, 2).await, Conflict);
    // A search app is of another kind, so the same name is free.
    let search = Chat { kind: ChatKind::Search, ..chat(&ours, "ÄRGER", 1) };
    fine(store.create(&search).await);
    assert_eq!(fine(store.get(&search.key).await), search);
    let twice = Chat { key: CanvasKey::new(&ours, generate()), ..search };
    refused(store.create(&twice).await, Conflict);
    // An assistant's own name does not count as taken.
    let renamed = fine(store.change(&Chat { name: "ÄRGER".to_owned(), ..first.clone() }, 2).await);
    assert_eq!(renamed.map(|chat| chat.name).as_deref(), Some("ÄRGER"));
    assert_eq!(fine(store.get(&second.key).await), second);
}

async fn one_of_many_concurrent_changes_wins(store: &dyn ChatStore) {
    let one = chat(&tenant(), "one", 5);
    fine(store.create(&one).await);
    let changes = (0..8).map(|number| {
        let settings = ChatSettings { top_n: number, ..one.settings.clone() };
        let changed = Chat { settings, ..one.clone() };
        async move { fine(store.change(&changed, 9).await) }
    });
    let won: Vec<Chat> = join_all(changes).await.into_iter().flatten().collect();
    let stored = fine(store.get(&one.key).await);
    assert_eq!(won, std::slice::from_ref(&stored));
    assert_eq!((stored.revision, stored.created_ms, stored.updated_ms), (one.revision + 1, 5, 9));
}

async fn assistants_are_listed_by_filter(store: &dyn ChatStore) {
    let tenant = tenant();
    let (apple, pear, fig) =
        (chat(&tenant, "Apple 100%", 3), chat(&tenant, "pear", 1), chat(&tenant, "Fig", 2));
    for one in [&apple, &pear, &fig] {
        fine(store.create(one).await);
    }
    fine(store.change(&pear, 9).await);
    let by = |order, ascending| ChatFilter { order, ascending, ..ChatFilter::default() };
    assert_eq!(names(store, &tenant, by(ChatOrder::Created, true)).await, ["pear", "Fig", "Apple 100%"]);
    assert_eq!(names(store, &tenant, by(ChatOrder::Updated, false)).await, ["pear", "Apple 100%", "Fig"]);
    assert_eq!(names(store, &tenant, by(ChatOrder::Name, true)).await, ["Apple 100%", "Fig", "pear"]);
    let holding = |keywords: &str| ChatFilter { keywords: keywords.to_owned(), ..ChatFilter::default() };
    assert_eq!(names(store, &tenant, holding("E 100%")).await, ["Apple 100%"]);
    assert!(names(store, &tenant, holding("_pp")).await.is_empty());
    let named = ChatFilter { name: Some("FIG".to_owned()), ..ChatFilter::default() };
    assert_eq!(names(store, &tenant, named).await, ["Fig"]);
    let of_id = ChatFilter { id: Some(pear.key.id.clone()), ..ChatFilter::default() };
    assert_eq!(names(store, &tenant, of_id).await, ["pear"]);
    let search = Chat { kind: ChatKind::Search, ..chat(&tenant, "Grape", 4) };
    fine(store.create(&search).await);
    let of_kind = |kind| ChatFilter { kind: Some(kind), ..by(ChatOrder::Name, true) };
    assert_eq!(names(store, &tenant, of_kind(ChatKind::Search)).await, ["Grape"]);
    assert_eq!(names(store, &tenant, of_kind(ChatKind::Assistant)).await, ["Apple 100%", "Fig", "pear"]);
    fine(store.delete(&search.key).await);
    let page = ChatFilter { offset: 1, limit: 1, ..by(ChatOrder::Name, true) };
    let (found, total) = fine(store.list(&tenant, &page).await);
    assert_eq!((found.len(), total), (1, 3));
}
