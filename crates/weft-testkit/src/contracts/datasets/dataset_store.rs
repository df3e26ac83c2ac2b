//! Contract of a dataset store.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use futures::future::join_all;
use serde_json::json;
use weft_core::ErrorKind::{Conflict, Invalid, NotFound};
use weft_core::filter::{Condition, Filter, FilterOperator, Logic};
use weft_core::id::{ChunkId, DatasetKey, DocumentId, DocumentKey};
use weft_core::seam::DatasetStore;
use weft_core::seam::dataset_store::{
    ChunkFilter, ChunkHead, Counting, Dataset, DatasetCounts, DatasetFilter, Document, DocumentChange,
    DocumentFilter, DocumentHead, DocumentOrder, DocumentState, Extra, Heads, RemovedChunks, StoredChunk,
};
use weft_core::seam::document_reader::ChunkMethod;
use weft_core::value::Json;

use super::{LARGE, all_datasets, all_documents, at_once, chunk, dataset, document, map, replaced, tenant};
use crate::contracts::refused;

/// Checks the contract of [`DatasetStore`].
pub async fn dataset_store_keeps_its_contract(store: &dyn DatasetStore) {
    a_dataset_round_trips(store).await;
    names_of_datasets_are_unique(store).await;
    at_once::changes_all_stay(store).await;
    datasets_are_listed(store).await;
    a_document_round_trips(store).await;
    at_once::documents_are_no_more_than_may_be(store).await;
    documents_are_listed(store).await;
    documents_are_found_by_metadata(store).await;
    every_document_has_a_head(store).await;
    documents_are_changed(store).await;
    chunks_round_trip(store).await;
    chunks_are_listed(store).await;
    at_once::changes_of_chunks_all_stay(store).await;
    removed_data_is_gone(store).await;
    replaced::a_document_takes_the_place_of_another(store).await;
    extras_are_stored(store).await;
}

async fn in_dataset(store: &dyn DatasetStore) -> Dataset {
    let made = dataset(&tenant(), "d");
    store.create(&made).await.unwrap();
    made
}

async fn with_document(store: &dyn DatasetStore, name: &str) -> Document {
    let made = document(&in_dataset(store).await.key, name);
    store.add_document(&made).await.unwrap();
    made
}

async fn a_dataset_round_trips(store: &dyn DatasetStore) {
    let ours = tenant();
    let mut made = dataset(&ours, "Büro 🦜");
    made.description = "ж".repeat(LARGE);
    refused(store.dataset(&made.key).await, NotFound);
    assert!(!store.update(&made).await.unwrap(), "there is none");
    store.create(&made).await.unwrap();
    assert!(store.dataset(&made.key).await.unwrap() == made);
    refused(store.create(&Dataset { name: "other".into(), ..made.clone() }).await, Conflict);
    refused(store.dataset(&DatasetKey::new(&tenant(), made.key.id.clone())).await, NotFound);
    let changed = Dataset {
        name: "other".into(),
        embedder: String::new(),
        method: ChunkMethod::Table,
        settings: map(json!({})),
        similarity_threshold: 0.125,
        vector_similarity_weight: 1.0,
        pagerank: 100,
        created_ms: 5,
        updated_ms: 2_000,
        ..dataset(&ours, "x")
    };
    let changed = Dataset { key: made.key.clone(), ..changed };
    assert!(store.update(&changed).await.unwrap());
    let generation = made.with_other_embedder();
    let there = Dataset { created_ms: 1_000, revision: 1, generation, ..changed.clone() };
    assert_eq!(store.dataset(&made.key).await.unwrap(), there);
    // A write based on an outdated read changes nothing.
    assert!(!store.update(&Dataset { pagerank: 1, ..changed }).await.unwrap());
    assert_eq!(store.dataset(&made.key).await.unwrap(), there);
    refused(store.create(&dataset(&ours, "")).await, Invalid);
}

async fn names_of_datasets_are_unique(store: &dyn DatasetStore) {
    let (ours, theirs) = (tenant(), tenant());
    let made = dataset(&ours, "Ärzte");
    store.create(&made).await.unwrap();
    refused(store.create(&dataset(&ours, "äRZTE")).await, Conflict);
    store.create(&dataset(&theirs, "Ärzte")).await.unwrap();
    let tenants = store.tenants().await.unwrap();
    let count = |tenant| tenants.iter().filter(|one| *one == tenant).count();
    assert_eq!((count(&ours), count(&theirs), count(&tenant())), (1, 1, 0));
    let other = dataset(&ours, "other");
    store.create(&other).await.unwrap();
    refused(store.update(&Dataset { name: "ärzte".into(), ..other.clone() }).await, Conflict);
    // Its own name in another case is not taken by another dataset.
    assert!(store.update(&Dataset { name: "ÄRZTE".into(), ..made }).await.unwrap());
    let many: Vec<Dataset> = (0..8).map(|_| dataset(&ours, "at once")).collect();
    let made = join_all(many.iter().map(|one| store.create(one))).await;
    assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1);
}

async fn datasets_are_listed(store: &dyn DatasetStore) {
    let ours = tenant();
    let mut all = Vec::new();
    for (n, (created_ms, updated_ms)) in [(100, 900), (300, 700), (200, 800)].into_iter().enumerate() {
        let made = Dataset { created_ms, updated_ms, ..dataset(&ours, &format!("Set {n}")) };
        store.create(&made).await.unwrap();
        all.push(made.key.id);
    }
    store.create(&dataset(&tenant(), "theirs")).await.unwrap();
    let check = async |filter: DatasetFilter, expected: &[usize], count: u64| {
        let (found, total) = store.datasets(&ours, &filter).await.unwrap();
        let found: Vec<_> = found.into_iter().map(|one| one.key.id).collect();
        let expected: Vec<_> = expected.iter().map(|n| all[*n].clone()).collect();
        assert_eq!((found, total), (expected, count), "{filter:?}");
    };
    check(all_datasets(), &[1, 2, 0], 3).await;
    check(DatasetFilter { by_update: true, ..all_datasets() }, &[0, 2, 1], 3).await;
    check(DatasetFilter { ascending: true, ..all_datasets() }, &[0, 2, 1], 3).await;
    check(DatasetFilter { offset: 1, limit: 1, ..DatasetFilter::default() }, &[2], 3).await;
    // A reader that continues after its last entry misses nothing if that entry is removed.
    let after = |time_ms: i64, n: usize| Some((time_ms, all[n].clone()));
    check(DatasetFilter { after: after(300, 1), ..all_datasets() }, &[2, 0], 3).await;
    check(DatasetFilter { after: after(200, 2), ascending: true, ..all_datasets() }, &[1], 3).await;
    check(DatasetFilter { after: after(900, 0), by_update: true, ..all_datasets() }, &[2, 1], 3).await;
    check(DatasetFilter { after: Some((200, "".into())), ..all_datasets() }, &[0], 3).await;
    check(DatasetFilter { after: Some((200, "".into())), ascending: true, ..all_datasets() }, &[2, 1], 3)
        .await;
    check(DatasetFilter { name: Some("sEt 2".into()), ..all_datasets() }, &[2], 1).await;
    check(DatasetFilter { name: Some("Set".into()), ..all_datasets() }, &[], 0).await;
    let names = Some(vec!["sEt 2".to_owned(), "SET 0".to_owned(), "Set".to_owned()]);
    check(DatasetFilter { names, ..all_datasets() }, &[2, 0], 2).await;
    check(DatasetFilter { names: Some(vec![]), ..all_datasets() }, &[], 0).await;
    let some = vec![all[0].clone(), all[1].clone(), "x".into()];
    check(DatasetFilter { ids: Some(some), ..all_datasets() }, &[1, 0], 2).await;
    check(DatasetFilter { ids: Some(vec![]), ..all_datasets() }, &[], 0).await;
    check(DatasetFilter::default(), &[], 3).await;
}

async fn a_document_round_trips(store: &dyn DatasetStore) {
    let set = in_dataset(store).await;
    let made = document(&set.key, "Überblick 🦜.PDF");
    refused(store.document(&made.key).await, NotFound);
    let nowhere = DatasetKey::new(&set.key.tenant, "nowhere");
    refused(store.add_document(&document(&nowhere, "x")).await, NotFound);
    let theirs = DatasetKey::new(&tenant(), set.key.id.clone());
    refused(store.add_document(&document(&theirs, "x")).await, NotFound);
    store.add_document(&made).await.unwrap();
    assert_eq!(store.document(&made.key).await.unwrap(), made);
    refused(store.document(&DocumentKey::new(&theirs, made.key.id.clone())).await, NotFound);
    refused(store.add_document(&document(&set.key, "überblick 🦜.pdf")).await, Conflict);
    store.add_document(&document(&in_dataset(store).await.key, &made.name)).await.unwrap();
    let many: Vec<Document> = (0..8).map(|_| document(&set.key, "At once.txt")).collect();
    let added = join_all(many.iter().map(|one| store.add_document(one))).await;
    assert_eq!(added.iter().filter(|added| added.is_ok()).count(), 1);
    assert_eq!(store.dataset(&set.key).await.unwrap().counts.documents, 2);
}

async fn documents_are_listed(store: &dyn DatasetStore) {
    let set = in_dataset(store).await;
    let mut all = Vec::new();
    let names = ["Report 100%.pdf", "notes.TXT", "a_b.txt", "ÄRGER"];
    for (n, name) in names.into_iter().enumerate() {
        let (created_ms, updated_ms) = (1_000 + n as i64, 9_000 - n as i64);
        let state = if n == 2 { DocumentState::Failed } else { DocumentState::Unstarted };
        let made = Document { created_ms, updated_ms, state, ..document(&set.key, name) };
        store.add_document(&made).await.unwrap();
        all.push(made.key.id);
    }
    let check = async |filter: DocumentFilter, expected: &[usize], count: u64| {
        let (found, total) = store.documents(&set.key, &filter).await.unwrap();
        let found: Vec<_> = found.into_iter().map(|one| one.key.id).collect();
        let expected: Vec<_> = expected.iter().map(|n| all[*n].clone()).collect();
        assert_eq!((found, total), (expected, count), "{filter:?}");
    };
    let every = all_documents;
    check(every(), &[3, 2, 1, 0], 4).await;
    check(DocumentFilter { order: DocumentOrder::Updated, ..every() }, &[0, 1, 2, 3], 4).await;
    let named = DocumentFilter { order: DocumentOrder::Name, ascending: true, ..every() };
    check(DocumentFilter { ids: Some(all[..3].to_vec()), ..named }, &[2, 1, 0], 3).await;
    check(DocumentFilter { ascending: true, offset: 1, limit: 2, ..every() }, &[1, 2], 4).await;
    check(DocumentFilter { name: Some("NOTES.txt".into()), ..every() }, &[1], 1).await;
    check(DocumentFilter { keywords: Some("%".into()), ..every() }, &[0], 1).await;
    check(DocumentFilter { keywords: Some("A_".into()), ..every() }, &[2], 1).await;
    check(DocumentFilter { keywords: Some("ärg".into()), ..every() }, &[3], 1).await;
    check(DocumentFilter { suffixes: vec!["txt".into()], ..every() }, &[2, 1], 2).await;
    check(DocumentFilter { suffixes: vec!["PDF".into(), "doc".into()], ..every() }, &[0], 1).await;
    check(DocumentFilter { other_suffixes: vec!["TXT".into(), String::new()], ..every() }, &[0], 1).await;
    check(DocumentFilter { states: vec![DocumentState::Failed], ..every() }, &[2], 1).await;
    check(DocumentFilter { from_ms: Some(1_001), to_ms: Some(1_002), ..every() }, &[2, 1], 2).await;
    check(DocumentFilter { ids: Some(vec![all[0].clone(), "x".into()]), ..every() }, &[0], 1).await;
    let (none, total) =
        store.documents(&DatasetKey::new(&tenant(), set.key.id.clone()), &every()).await.unwrap();
    assert!(none.is_empty() && total == 0);
}

async fn documents_are_found_by_metadata(store: &dyn DatasetStore) {
    let set = in_dataset(store).await;
    for n in 0..7_i64 {
        let metadata = if n == 6 { map(json!({})) } else { map(json!({"year": 2000 + n})) };
        let made = Document { metadata, created_ms: n, ..document(&set.key, &format!("{n}.txt")) };
        store.add_document(&made).await.unwrap();
    }
    let check = async |operator: FilterOperator,
                       value: Json,
                       (offset, limit): (u64, u64),
                       expected: &[&str],
                       count| {
        let condition = Condition { key: "year".into(), operator, value };
        let metadata = Some(Filter { logic: Logic::And, conditions: vec![condition] });
        let filter = DocumentFilter { metadata, ascending: true, offset, limit, ..DocumentFilter::default() };
        let (found, total) = store.documents(&set.key, &filter).await.unwrap();
        let found: Vec<_> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!((&*found, total), (expected, count), "{filter:?}");
    };
    check(FilterOperator::AtLeast, json!(2003), (0, 99), &["3.txt", "4.txt", "5.txt"], 3).await;
    check(FilterOperator::AtLeast, json!("2003"), (1, 1), &["4.txt"], 3).await;
    check(FilterOperator::NotEqual, json!(2000), (4, 99), &["5.txt", "6.txt"], 6).await;
    check(FilterOperator::Empty, Json::Null, (0, 0), &[], 1).await;
    let (bare, total) =
        store.documents(&set.key, &DocumentFilter { bare: true, ..all_documents() }).await.unwrap();
    assert_eq!((bare.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), total), (vec!["6.txt"], 1));
}

/// Pages continue where others ended, however many documents were added at the same time.
async fn every_document_has_a_head(store: &dyn DatasetStore) {
    let set = in_dataset(store).await;
    let mut all = Vec::new();
    for n in 0..503_i64 {
        let metadata = map(json!({"even": n % 2}));
        let made = Document { metadata, created_ms: n / 250, ..document(&set.key, &format!("{n}.txt")) };
        store.add_document(&made).await.unwrap();
        all.push(made);
    }
    let condition = Condition { key: "even".into(), operator: FilterOperator::Equal, value: json!(0) };
    let metadata = Some(Filter { logic: Logic::And, conditions: vec![condition] });
    for ascending in [true, false] {
        let filter = DocumentFilter { metadata: metadata.clone(), ascending, ..all_documents() };
        let (found, total) = store.documents(&set.key, &filter).await.unwrap();
        let mut names: Vec<_> = found.into_iter().map(|one| one.name).collect();
        names.sort();
        names.dedup();
        assert_eq!((names.len() as u64, total), (252.min(filter.limit), 252));
    }
    all.sort_by(|one, other| one.key.id.cmp(&other.key.id));
    let head = |made: &Document| DocumentHead {
        id: made.key.id.clone(),
        name: made.name.clone(),
        metadata: made.metadata.clone(),
        enabled: made.enabled,
        revision: made.revision,
        updated_ms: made.updated_ms,
    };
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = store.document_heads(&set.key, &Heads::Page(after, 200)).await.unwrap();
        assert!(page.len() <= 200);
        let Some(last) = page.last() else { break };
        after = Some(last.id.clone());
        seen.extend(page);
    }
    assert!(seen == all.iter().map(head).collect::<Vec<_>>());
    let some = vec![all[7].key.id.clone(), "x".into()];
    assert_eq!(store.document_heads(&set.key, &Heads::Of(some)).await.unwrap(), [head(&all[7])]);
    let every: Vec<_> = all.iter().map(|made| made.key.id.clone()).collect();
    assert_eq!(store.document_heads(&set.key, &Heads::Of(every.clone())).await.unwrap().len(), 503);
    store.put_extra(&all[9].key, Extra::Graph, &json!([1])).await.unwrap();
    store.put_extra(&all[8].key, Extra::Contents, &json!([1])).await.unwrap();
    let with = Heads::With(Extra::Graph);
    assert_eq!(store.document_heads(&set.key, &with).await.unwrap(), [head(&all[9])]);
    let theirs = DatasetKey::new(&tenant(), set.key.id.clone());
    for wanted in [with, Heads::Of(every), Heads::Page(None, 9)] {
        assert_eq!(store.document_heads(&theirs, &wanted).await.unwrap(), []);
    }
}

async fn documents_are_changed(store: &dyn DatasetStore) {
    let made = with_document(store, "old.txt").await;
    let other = document(&made.key.dataset, "other.txt");
    store.add_document(&other).await.unwrap();
    let change = DocumentChange {
        name: Some("New.MD".into()),
        method: Some(ChunkMethod::Book),
        settings: Some(map(json!({"b": 1}))),
        metadata: Some(map(json!({"k": "v"}))),
        enabled: Some(false),
        revision: Some(0),
    };
    let changed = store.update_document(&made.key, &change, 7_000).await.unwrap();
    let expected = Document {
        revision: 1,
        name: "New.MD".into(),
        method: ChunkMethod::Book,
        settings: map(json!({"b": 1})),
        metadata: map(json!({"k": "v"})),
        enabled: false,
        updated_ms: 7_000,
        ..made.clone()
    };
    assert_eq!(changed, Some(expected.clone()));
    assert_eq!(store.document(&made.key).await.unwrap(), expected);
    // A change based on an outdated state has no effect.
    assert_eq!(store.update_document(&made.key, &change, 8_000).await.unwrap(), None);
    assert_eq!(store.document(&made.key).await.unwrap(), expected);
    let nothing = DocumentChange::default();
    let again = store.update_document(&made.key, &nothing, 7_000).await.unwrap();
    assert_eq!(again, Some(Document { revision: 2, ..expected }));
    let name = |name: &str| DocumentChange { name: Some(name.into()), ..DocumentChange::default() };
    refused(store.update_document(&made.key, &name("OTHER.txt"), 1).await, Conflict);
    store.update_document(&made.key, &name("NEW.md"), 1).await.unwrap();
    let filter = DocumentFilter { suffixes: vec!["md".into()], ..all_documents() };
    assert_eq!(store.documents(&made.key.dataset, &filter).await.unwrap().1, 1);
    refused(store.update_document(&DocumentKey::new(&made.key.dataset, "x"), &nothing, 1).await, NotFound);
}

async fn chunks_round_trip(store: &dyn DatasetStore) {
    let made = with_document(store, "a.txt").await;
    let mut first = chunk(&made.key, 0, &"ж 🦜".repeat(LARGE / 8));
    first.vector = Some(vec![0.25, -0.5, f32::MIN_POSITIVE]);
    let second = StoredChunk { searched: None, available: false, tokens: 9, ..chunk(&made.key, 1, "x") };
    refused(store.put_chunks(&DocumentKey::new(&made.key.dataset, "x"), &[], 0).await, NotFound);
    refused(store.next_ordinal(&DocumentKey::new(&made.key.dataset, "x")).await, NotFound);
    assert_eq!(store.next_ordinal(&made.key).await.unwrap(), 0);
    let note = store.put_chunks(&made.key, &[second.clone(), first.clone()], 0).await.unwrap();
    assert!(note.first && !note.busy, "{note:?}");
    let next = store.put_chunks(&made.key, std::slice::from_ref(&second), 0).await.unwrap();
    assert_eq!((next.number, next.first), (note.number + 1, false));
    assert_eq!(store.next_ordinal(&made.key).await.unwrap(), 2);
    let filter = ChunkFilter { vectors: true, limit: 99, ..ChunkFilter::default() };
    let (found, total) = store.chunks(&made.key, &filter).await.unwrap();
    assert!(total == 2 && found == [first.clone(), second.clone()]);
    let without = StoredChunk { vector: None, ..first.clone() };
    let ids = [second.id.clone(), "x".into(), first.id.clone(), second.id.clone()];
    let found = store.chunks_by_id(&made.key.dataset.tenant, &ids).await.unwrap();
    assert!(found == [second.clone(), without]);
    assert_eq!(store.chunks_by_id(&tenant(), &ids).await.unwrap(), []);
    let head = |chunk: &StoredChunk| ChunkHead {
        id: chunk.id.clone(),
        document: made.key.clone(),
        parent: chunk.parent.clone(),
        available: chunk.available,
    };
    let heads = store.chunk_heads(&made.key.dataset.tenant, &ids).await.unwrap();
    assert_eq!(heads, [head(&second), head(&first)]);
    assert_eq!(store.chunk_heads(&tenant(), &ids).await.unwrap(), []);
    let held = store.document(&made.key).await.unwrap();
    assert_eq!((held.chunk_count, held.token_count), (2, 12));
    // Replaces the previous chunk.
    let again = StoredChunk { content: "y".into(), tokens: 1, available: true, ..second.clone() };
    store.put_chunks(&made.key, std::slice::from_ref(&again), 0).await.unwrap();
    let ids = std::slice::from_ref(&second.id);
    assert_eq!(store.chunks_by_id(&made.key.dataset.tenant, ids).await.unwrap(), [again]);
    let counts = DatasetCounts { documents: 1, chunks: 2, tokens: 4, bytes: made.size };
    let set = store.dataset(&made.key.dataset).await.unwrap();
    assert_eq!(set.counts, counts);
    let uncounted = Dataset { counts: DatasetCounts::default(), ..set.clone() };
    assert_eq!(store.dataset_uncounted(&set.key).await.unwrap(), uncounted);
    refused(store.dataset_uncounted(&DatasetKey::new(&tenant(), set.key.id.clone())).await, NotFound);
    let listed = async |counting| {
        let filter = DatasetFilter { counting, ..all_datasets() };
        store.datasets(&set.key.tenant, &filter).await.unwrap().0
    };
    assert_eq!(listed(Counting::With).await, std::slice::from_ref(&set));
    assert_eq!(listed(Counting::Without).await, [uncounted]);
    let other = document(&made.key.dataset, "b.txt");
    store.add_document(&other).await.unwrap();
    let stolen = StoredChunk { id: first.id.clone(), ..chunk(&other.key, 0, "z") };
    refused(store.put_chunks(&other.key, &[stolen], 0).await, Conflict);
    // Removal counts only what existed.
    let ids = [first.id.clone(), "x".into()];
    assert_eq!(store.remove_chunks(&other.key, &ids).await.unwrap(), RemovedChunks::default());
    assert_eq!(store.remove_chunks(&made.key, &ids).await.unwrap().count, 1);
    refused(store.remove_chunks(&DocumentKey::new(&made.key.dataset, "x"), &ids).await, NotFound);
    let held = store.document(&made.key).await.unwrap();
    assert_eq!((held.chunk_count, held.token_count), (1, 1));
}

async fn chunks_are_listed(store: &dyn DatasetStore) {
    let made = with_document(store, "a.txt").await;
    let mut all: Vec<StoredChunk> =
        (0..1_203).map(|n| chunk(&made.key, n, if n % 400 == 7 { "Ein ÜBEL" } else { "nichts" })).collect();
    all[3].available = false;
    all[4].keywords = vec!["das \"Übel\"".into()];
    store.put_chunks(&made.key, &all, 0).await.unwrap();
    let check = async |filter: ChunkFilter, expected: &[u64], count: u64| {
        let (found, total) = store.chunks(&made.key, &filter).await.unwrap();
        let found: Vec<_> = found.iter().map(|one| one.ordinal).collect();
        assert_eq!((&*found, total), (expected, count), "{filter:?}");
    };
    let some = |offset, limit| ChunkFilter { offset, limit, ..ChunkFilter::default() };
    check(some(1_201, 9), &[1_201, 1_202], 1_203).await;
    check(ChunkFilter { available: Some(false), ..some(0, 9) }, &[3], 1).await;
    check(ChunkFilter { available: Some(true), ..some(2, 2) }, &[2, 4], 1_202).await;
    check(ChunkFilter { keywords: Some("übel".into()), ..some(0, 9) }, &[4, 7, 407, 807], 4).await;
    check(ChunkFilter { keywords: Some("\"übel\"".into()), ..some(0, 9) }, &[4], 1).await;
    check(ChunkFilter { keywords: Some("übel".into()), ..some(3, 9) }, &[807], 4).await;
    let stranger = DocumentKey::new(&made.key.dataset, "x");
    refused(store.chunks(&stranger, &some(0, 9)).await, NotFound);
    // By id, also for more ids than fit into one query.
    let with_vector = StoredChunk { vector: Some(vec![0.5, -1.0]), ..all[900].clone() };
    store.put_chunks(&made.key, std::slice::from_ref(&with_vector), 0).await.unwrap();
    let ids = [with_vector.id.clone(), "x".into(), all[3].id.clone(), with_vector.id.clone()];
    let found = store.chunks_with_vectors(&made.key, &ids).await.unwrap();
    assert_eq!(found, [all[3].clone(), with_vector]);
    let every: Vec<ChunkId> = all.iter().rev().map(|chunk| chunk.id.clone()).collect();
    assert_eq!(store.chunks_with_vectors(&made.key, &every).await.unwrap().len(), 1_203);
    assert_eq!(store.chunks_with_vectors(&made.key, &[]).await.unwrap(), []);
    refused(store.chunks_with_vectors(&stranger, &ids).await, NotFound);
}

async fn removed_data_is_gone(store: &dyn DatasetStore) {
    let set = in_dataset(store).await;
    let mut all = Vec::new();
    for n in 0..4 {
        let made = document(&set.key, &format!("{n}.txt"));
        store.add_document(&made).await.unwrap();
        store.put_chunks(&made.key, &[chunk(&made.key, 0, "x"), chunk(&made.key, 1, "y")], 0).await.unwrap();
        store.put_extra(&made.key, Extra::Contents, &json!([n])).await.unwrap();
        all.push(made);
    }
    let tenant = &set.key.tenant;
    let chunk_of = |made: &Document| ChunkId::new(format!("{}-0", made.key.id));
    let ids: Vec<DocumentId> = vec![all[0].key.id.clone(), "x".into(), all[2].key.id.clone()];
    let mut blobs = store.remove_documents(&set.key, &ids).await.unwrap();
    let mut expected = vec![all[0].blob.clone(), all[2].blob.clone()];
    blobs.sort();
    expected.sort();
    assert_eq!(blobs, expected);
    assert_eq!(store.remove_documents(&set.key, &ids).await.unwrap(), Vec::<String>::new());
    refused(store.document(&all[0].key).await, NotFound);
    assert_eq!(store.chunks_by_id(tenant, &[chunk_of(&all[0])]).await.unwrap(), []);
    refused(store.extra(&all[0].key, Extra::Contents).await, NotFound);
    assert_eq!(
        store.dataset(&set.key).await.unwrap().counts,
        DatasetCounts { documents: 2, chunks: 4, tokens: 12, bytes: all[1].size + all[3].size }
    );
    // As if it had never been read.
    store.reset_document(&all[1].key, 8_000).await.unwrap();
    assert_eq!(store.document(&all[1].key).await.unwrap(), Document { updated_ms: 8_000, ..all[1].clone() });
    assert_eq!(store.chunks_by_id(tenant, &[chunk_of(&all[1])]).await.unwrap(), []);
    assert_eq!(store.extra(&all[1].key, Extra::Contents).await.unwrap(), None);
    refused(store.reset_document(&all[0].key, 1).await, NotFound);
    let theirs = DatasetKey::new(&super::tenant(), set.key.id.clone());
    refused(store.remove(&theirs).await, NotFound);
    let mut blobs = store.remove(&set.key).await.unwrap();
    let mut expected = vec![all[1].blob.clone(), all[3].blob.clone()];
    blobs.sort();
    expected.sort();
    assert_eq!(blobs, expected);
    refused(store.remove(&set.key).await, NotFound);
    refused(store.dataset(&set.key).await, NotFound);
    refused(store.document(&all[3].key).await, NotFound);
    assert_eq!(store.chunks_by_id(tenant, &[chunk_of(&all[3])]).await.unwrap(), []);
    assert_eq!(store.extras(&set.key, Extra::Contents, None, 9).await.unwrap(), []);
}

async fn extras_are_stored(store: &dyn DatasetStore) {
    let first = with_document(store, "a.txt").await;
    let second = document(&first.key.dataset, "b.txt");
    store.add_document(&second).await.unwrap();
    assert_eq!(store.extra(&first.key, Extra::Graph).await.unwrap(), None);
    let nowhere = DocumentKey::new(&first.key.dataset, "x");
    refused(store.extra(&nowhere, Extra::Graph).await, NotFound);
    refused(store.put_extra(&nowhere, Extra::Graph, &json!(1)).await, NotFound);
    let large = json!({"text": "ж".repeat(LARGE)});
    store.put_extra(&first.key, Extra::Graph, &json!(["before"])).await.unwrap();
    store.put_extra(&first.key, Extra::Graph, &large).await.unwrap();
    store.put_extra(&first.key, Extra::Contents, &json!([1])).await.unwrap();
    store.put_extra(&second.key, Extra::Contents, &json!([2])).await.unwrap();
    assert!(store.extra(&first.key, Extra::Graph).await.unwrap() == Some(large));
    let mut expected = vec![(first.key.id.clone(), json!([1])), (second.key.id.clone(), json!([2]))];
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(store.extras(&first.key.dataset, Extra::Contents, None, 9).await.unwrap(), expected);
    let page = async |after: Option<&DocumentId>, count_max| {
        store.extras(&first.key.dataset, Extra::Contents, after, count_max).await.unwrap()
    };
    let [lower, upper] = [&expected[0].0, &expected[1].0];
    assert_eq!(page(None, 1).await, expected[..1]);
    assert_eq!(page(Some(lower), 1).await, expected[1..]);
    assert_eq!(page(Some(lower), 9).await, expected[1..]);
    assert!(page(Some(upper), 9).await.is_empty() && page(None, 0).await.is_empty());
    store.put_extra(&first.key, Extra::Contents, &Json::Null).await.unwrap();
    assert_eq!(store.extra(&first.key, Extra::Contents).await.unwrap(), None);
    assert_eq!(store.extras(&first.key.dataset, Extra::Contents, None, 9).await.unwrap().len(), 1);
}
