//! Contract of a store for memories.

use weft_core::ErrorKind::{Conflict, Invalid, NotFound};
use weft_core::id::{MemoryKey, TenantId, generate};
use weft_core::seam::MemoryStore;
use weft_core::seam::memory_store::{
    Extraction, ExtractionOutcome, Memory, MemorySettings, MessageFilter, MessageStatus, MessageType,
    NewMessage, TakenMessage,
};

use super::{fine, refused, tenant};

/// A typical memory.
pub fn memory(tenant: &TenantId, name: &str) -> Memory {
    Memory {
        key: MemoryKey::new(tenant, generate()),
        settings: MemorySettings {
            name: name.to_owned(),
            avatar: String::new(),
            description: "Ünïcode 汉".to_owned(),
            types: vec![MessageType::Raw, MessageType::Semantic],
            embedder: "e".to_owned(),
            llm_id: "m".to_owned(),
            team: false,
            owner: "ada".to_owned(),
            size_max: 10_000,
            temperature: 0.25,
            system_prompt: String::new(),
            user_prompt: String::new(),
        },
        created_ms: 5,
        updated_ms: 5,
    }
}

/// A turn.
pub fn message(content: &str) -> NewMessage {
    NewMessage {
        kind: MessageType::Raw,
        user: "ada".to_owned(),
        agent: "agent".to_owned(),
        session: "Session".to_owned(),
        content: content.to_owned(),
        vector: Vec::new(),
        valid_ms: 7,
        invalid_ms: None,
    }
}

fn all() -> MessageFilter {
    MessageFilter { limit: 100, ..MessageFilter::default() }
}

async fn numbers(store: &dyn MemoryStore, key: &MemoryKey, filter: &MessageFilter) -> Vec<i64> {
    let (found, total) = fine(store.messages(key, filter).await);
    assert!(total >= found.len() as u64);
    found.into_iter().map(|message| message.number).collect()
}

/// The due messages of one memory; other suites may have work of their own in the store.
async fn taken(store: &dyn MemoryStore, key: &MemoryKey, now_ms: i64) -> Vec<TakenMessage> {
    let all = fine(store.take(now_ms, now_ms + 100, 100).await);
    all.into_iter().filter(|taken| taken.memory == *key).collect()
}

/// Checks the contract of [`MemoryStore`].
pub async fn memory_store_keeps_its_contract(store: &dyn MemoryStore) {
    memories_are_kept(store).await;
    messages_are_kept(store).await;
    old_messages_make_room_for_new_ones(store).await;
    turns_are_taken_for_extraction(store).await;
    the_messages_of_a_user_are_removed(store).await;
}

async fn memories_are_kept(store: &dyn MemoryStore) {
    let (ours, theirs) = (tenant(), tenant());
    let first = memory(&ours, "Notes");
    refused(store.get(&first.key).await, NotFound);
    assert_eq!(fine(store.create(&first).await), first);
    refused(store.create(&first).await, Conflict);
    assert_eq!(fine(store.get(&first.key).await), first);
    refused(store.get(&MemoryKey::new(&theirs, first.key.id.as_str())).await, NotFound);
    let second = fine(store.create(&Memory { created_ms: 6, ..memory(&ours, "notes") }).await);
    assert_eq!(second.settings.name, "notes(1)");
    // Names are per tenant.
    assert_eq!(fine(store.create(&memory(&theirs, "Notes")).await).settings.name, "Notes");
    assert_eq!(fine(store.list(&ours).await), [second.clone(), first.clone()]);
    let settings = MemorySettings { types: vec![MessageType::Episodic], ..first.settings.clone() };
    let changed = fine(store.change(&first, &settings, 9).await).unwrap_or_else(|| first.clone());
    assert_eq!((changed.updated_ms, &changed.settings), (9, &settings));
    assert_eq!(fine(store.get(&first.key).await), changed);
    assert_eq!(fine(store.change(&first, &first.settings, 10).await), None);
    fine(store.add(&first.key, "o", &message("a"), 1).await);
    // Settings that messages were processed with cannot change while there are any.
    refused(store.change(&changed, &first.settings, 10).await, Conflict);
    let named = MemorySettings { name: "NOTES(1)".to_owned(), ..changed.settings.clone() };
    let renamed = fine(store.change(&changed, &named, 10).await).unwrap_or(changed);
    assert_eq!(renamed.settings.name, "NOTES(1)(1)");
    fine(store.delete(&first.key).await);
    assert_eq!(fine(store.change(&renamed, &named, 11).await), None);
    refused(store.delete(&first.key).await, NotFound);
    refused(store.message(&first.key, 1).await, NotFound);
    refused(store.add(&first.key, "o", &message("a"), 1).await, NotFound);
    assert_eq!(fine(store.list(&ours).await), [second]);
    // Memories created concurrently get different names.
    let many: Vec<Memory> = (0..6).map(|_| memory(&theirs, "same")).collect();
    let made = futures::future::join_all(many.iter().map(|one| store.create(one))).await;
    let mut names: Vec<String> = made.into_iter().map(|made| fine(made).settings.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 6, "{names:?}");
}

async fn messages_are_kept(store: &dyn MemoryStore) {
    let (ours, theirs) = (tenant(), tenant());
    let key = fine(store.create(&memory(&ours, "m")).await).key;
    let other = NewMessage {
        user: "bob".to_owned(),
        agent: "other".to_owned(),
        session: "50%_done".to_owned(),
        vector: vec![0.6, -0.8],
        invalid_ms: Some(8),
        ..message("second 汉")
    };
    assert_eq!(fine(store.add(&key, "one", &message("first"), 1).await), 1);
    assert_eq!(fine(store.add(&key, "two", &other, 1).await), 2);
    assert_eq!(fine(store.add(&key, "one", &message("once more"), 1).await), 1);
    let second = fine(store.message(&key, 2).await);
    assert_eq!((&second.message, second.enabled, second.source), (&other, true, None));
    assert_eq!(second.extraction, Extraction::Pending { problem: String::new() });
    assert_eq!(fine(store.message(&key, 1).await).message.content, "first");
    let strange = MemoryKey::new(&theirs, key.id.as_str());
    refused(store.message(&strange, 1).await, NotFound);
    assert_eq!(fine(store.messages(&strange, &all()).await), (Vec::new(), 0));
    refused(store.set_status(&strange, 1, MessageStatus::Disabled).await, NotFound);
    refused(store.forget(&strange, 1, 1).await, NotFound);
    let check = async |filter: MessageFilter, expected: &[i64]| {
        assert_eq!(numbers(store, &key, &filter).await, expected, "{filter:?}");
    };
    check(all(), &[2, 1]).await;
    check(MessageFilter { limit: 1, offset: 1, ..all() }, &[1]).await;
    for (after, follow) in [(3, &[2, 1][..]), (2, &[1]), (1, &[])] {
        let behind = MessageFilter { after: Some(after), ..all() };
        check(behind.clone(), follow).await;
        assert_eq!(fine(store.messages(&key, &behind).await).1, 2);
    }
    check(MessageFilter { agents: vec!["other".to_owned(), "third".to_owned()], ..all() }, &[2]).await;
    check(MessageFilter { session: Some("Session".to_owned()), ..all() }, &[1]).await;
    check(MessageFilter { session_holds: Some("SESS".to_owned()), ..all() }, &[1]).await;
    check(MessageFilter { session_holds: Some("%_".to_owned()), ..all() }, &[2]).await;
    check(MessageFilter { user: Some("bob".to_owned()), ..all() }, &[2]).await;
    check(MessageFilter { kind: Some(MessageType::Semantic), ..all() }, &[]).await;
    fine(store.set_status(&key, 2, MessageStatus::Disabled).await);
    check(MessageFilter { found_only: true, ..all() }, &[1]).await;
    check(all(), &[2, 1]).await;
    fine(store.set_status(&key, 2, MessageStatus::Enabled).await);
    check(MessageFilter { found_only: true, ..all() }, &[2, 1]).await;
    fine(store.forget(&key, 1, 3).await);
    refused(store.forget(&key, 1, 4).await, NotFound);
    refused(store.set_status(&key, 1, MessageStatus::Enabled).await, NotFound);
    refused(store.message(&key, 1).await, NotFound);
    check(all(), &[2]).await;
    // A number is never reused.
    assert_eq!(fine(store.add(&key, "three", &message("third"), 1).await), 3);
}

async fn old_messages_make_room_for_new_ones(store: &dyn MemoryStore) {
    let ours = tenant();
    let key = fine(store.create(&memory(&ours, "m")).await).key;
    let large = |letter: &str| message(&letter.repeat(3_000));
    for (number, letter) in (1..).zip(["a", "b", "c"]) {
        assert_eq!(fine(store.add(&key, letter, &large(letter), 1).await), number);
    }
    refused(store.add(&key, "huge", &message(&"x".repeat(10_000)), 1).await, Invalid);
    assert_eq!(numbers(store, &key, &all()).await, [3, 2, 1]);
    fine(store.forget(&key, 2, 1).await);
    assert_eq!(fine(store.add(&key, "d", &large("d"), 1).await), 4);
    assert_eq!(numbers(store, &key, &all()).await, [4, 3, 1]);
    assert_eq!(fine(store.add(&key, "e", &large("e"), 1).await), 5);
    assert_eq!(numbers(store, &key, &all()).await, [5, 4, 3]);
    let seen = fine(store.get(&key).await);
    let smaller = MemorySettings { size_max: 4_000, ..seen.settings.clone() };
    fine(store.change(&seen, &smaller, 2).await);
    assert_eq!(numbers(store, &key, &all()).await, [5]);
}

async fn turns_are_taken_for_extraction(store: &dyn MemoryStore) {
    let ours = tenant();
    let key = fine(store.create(&memory(&ours, "m")).await).key;
    fine(store.add(&key, "one", &message("first"), 1_000).await);
    assert!(taken(store, &key, 999).await.is_empty());
    let first = taken(store, &key, 1_000).await;
    assert_eq!((first.len(), first[0].attempts, first[0].message.number), (1, 1, 1));
    // It is leased until the time is over.
    assert!(taken(store, &key, 1_099).await.is_empty());
    let second = taken(store, &key, 1_100).await;
    assert_eq!(second[0].attempts, 2);
    let fact = NewMessage { kind: MessageType::Semantic, vector: vec![1.0], ..message("a fact") };
    let done = ExtractionOutcome::Done { vector: vec![0.5, 0.5], derived: vec![fact.clone(), fact.clone()] };
    refused(store.settle(&first[0], &done).await, Conflict);
    assert_eq!(numbers(store, &key, &all()).await, [1]);
    let later = ExtractionOutcome::RetryAt { from_ms: 2_000, problem: "busy".to_owned() };
    fine(store.settle(&second[0], &later).await);
    let pending = Extraction::Pending { problem: "busy".to_owned() };
    assert_eq!(fine(store.message(&key, 1).await).extraction, pending);
    assert!(taken(store, &key, 1_999).await.is_empty());
    let third = taken(store, &key, 2_000).await;
    fine(store.settle(&third[0], &done).await);
    refused(store.settle(&third[0], &done).await, Conflict);
    let raw = fine(store.message(&key, 1).await);
    assert_eq!((raw.extraction, raw.message.vector), (Extraction::Done, vec![0.5, 0.5]));
    let derived = fine(store.message(&key, 3).await);
    assert_eq!((derived.message, derived.source, derived.extraction), (fact, Some(1), Extraction::Done));
    let of_the_first = MessageFilter { sources: Some(vec![1]), ..all() };
    assert_eq!(numbers(store, &key, &of_the_first).await, [3, 2]);
    assert!(taken(store, &key, 9_000).await.is_empty());
    fine(store.add(&key, "two", &message("second"), 10_000).await);
    let given_up = taken(store, &key, 10_000).await;
    let failed = ExtractionOutcome::Failed { vector: vec![1.0], problem: "no model".to_owned() };
    fine(store.settle(&given_up[0], &failed).await);
    assert_eq!(fine(store.message(&key, 4).await).extraction, Extraction::Failed("no model".to_owned()));
    assert!(taken(store, &key, 99_000).await.is_empty());
}

async fn the_messages_of_a_user_are_removed(store: &dyn MemoryStore) {
    let (ours, theirs) = (tenant(), tenant());
    let key = fine(store.create(&memory(&ours, "m")).await).key;
    let strange = fine(store.create(&memory(&theirs, "m")).await).key;
    let large = |user: &str| NewMessage { user: user.to_owned(), ..message(&"x".repeat(4_000)) };
    fine(store.add(&strange, "one", &large("ada"), 1).await);
    fine(store.add(&key, "one", &large("ada"), 1).await);
    fine(store.add(&key, "two", &large("bob"), 1).await);
    let at_work = taken(store, &key, 1).await;
    assert_eq!((at_work.len(), at_work[0].message.number), (2, 1));
    fine(store.forget(&key, 1, 1).await);
    fine(store.remove_of_user(&ours, "ada").await);
    // Not even those with the same origin are left: one that was merely forgotten would be found here.
    assert_eq!(fine(store.add(&key, "one", &large("carl"), 1).await), 3);
    // They take up no room: nothing had to go for the new one.
    assert_eq!(numbers(store, &key, &all()).await, [3, 2]);
    assert_eq!(numbers(store, &strange, &all()).await, [1]);
    // An extraction that was under way adds nothing from a removed message.
    let derived = vec![NewMessage { kind: MessageType::Semantic, ..message("a fact") }];
    let done = ExtractionOutcome::Done { vector: Vec::new(), derived };
    refused(store.settle(&at_work[0], &done).await, Conflict);
    fine(store.remove_of_user(&ours, "ada").await);
    fine(store.remove_of_user(&tenant(), "ada").await);
    assert_eq!(numbers(store, &key, &all()).await, [3, 2]);
}
