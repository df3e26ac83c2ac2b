//! Concurrent changes to datasets.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use futures::future::join_all;
use weft_core::ErrorKind::QuotaExceeded;
use weft_core::seam::DatasetStore;
use weft_core::seam::dataset_store::{
    ChunkReplacement, Document, DocumentChange, DocumentQuota, StoredChunk,
};
use weft_core::{Error, changes};

use super::{chunk, dataset, document, tenant};

/// Concurrent changes, each of which adds to what it has read, are all kept.
pub(super) async fn changes_all_stay(store: &dyn DatasetStore) {
    let of = dataset(&tenant(), "d");
    store.create(&of).await.unwrap();
    let made = document(&of.key, "a.txt");
    store.add_document(&made).await.unwrap();
    let key = &made.key;
    let change_dataset = async |n: u64| {
        changes::made("dataset", || async {
            let mut there = store.dataset(&key.dataset).await?;
            there.settings.insert(format!("s{n}"), n.into());
            Ok::<_, Error>(store.update(&there).await?.then_some(()))
        })
        .await
    };
    let change_document = async |n: u64| {
        changes::made("document", || async {
            let mut metadata = store.document(key).await?;
            metadata.metadata.insert(format!("m{n}"), n.into());
            let revision = Some(metadata.revision);
            let metadata = Some(metadata.metadata);
            let change = DocumentChange { revision, metadata, ..DocumentChange::default() };
            Ok::<_, Error>(store.update_document(key, &change, 1).await?.map(drop))
        })
        .await
    };
    let both = join_all((0..8).map(async |n| (change_dataset(n).await, change_document(n).await))).await;
    assert!(both.iter().all(|(dataset, document)| dataset.is_ok() && document.is_ok()), "{both:?}");
    let (dataset, document) =
        (store.dataset(&key.dataset).await.unwrap(), store.document(key).await.unwrap());
    assert!((0..8).all(|n| dataset.settings.contains_key(&format!("s{n}"))), "{:?}", dataset.settings);
    assert!((0..8).all(|n| document.metadata.contains_key(&format!("m{n}"))), "{:?}", document.metadata);
    assert_eq!((dataset.revision, document.revision), (8, 8));
}

pub(super) async fn documents_are_no_more_than_may_be(store: &dyn DatasetStore) {
    let (first, other) = (dataset(&tenant(), "a"), dataset(&tenant(), "b"));
    let second = dataset(&first.key.tenant, "c");
    for one in [&first, &second, &other] {
        store.create(one).await.unwrap();
    }
    let few = DocumentQuota { documents: 3, bytes: 0 };
    let made =
        |n: u64| document(if n.is_multiple_of(2) { &first.key } else { &second.key }, &format!("{n}.txt"));
    let many: Vec<Document> = (0..8).map(made).collect();
    let added = join_all(many.iter().map(|one| store.add_document_within(one, few))).await;
    assert_eq!(added.iter().filter(|added| added.is_ok()).count(), 3);
    for error in added.into_iter().filter_map(Result::err) {
        assert_eq!(error.kind, QuotaExceeded, "{error}");
    }
    // Each takes 12 bytes.
    let small = DocumentQuota { documents: 0, bytes: 4 * 12 };
    let many: Vec<Document> = (10..14).map(made).collect();
    let added = join_all(many.iter().map(|one| store.add_document_within(one, small))).await;
    assert_eq!(added.iter().filter(|added| added.is_ok()).count(), 1);
    store.add_document_within(&document(&other.key, "x.txt"), few).await.unwrap();
    store.add_document(&made(20)).await.unwrap();
}

/// Concurrently adds a keyword to the same chunk, and a chunk with the same id, several times.
pub(super) async fn changes_of_chunks_all_stay(store: &dyn DatasetStore) {
    let of = dataset(&tenant(), "d");
    store.create(&of).await.unwrap();
    let made = document(&of.key, "a.txt");
    store.add_document(&made).await.unwrap();
    let (key, first) = (&made.key, chunk(&made.key, 0, "x"));
    let add = async |new: &StoredChunk| {
        store.replace_chunks(key, &[ChunkReplacement::added(new.clone())], 0).await.unwrap()
    };
    assert!(
        add(&StoredChunk { vector: Some(vec![0.5]), ..first.clone() }).await.is_some_and(|note| note.first)
    );
    let read = async || store.chunks_with_vectors(key, std::slice::from_ref(&first.id)).await;
    let change = async |n: u64| {
        changes::made("chunk", || async {
            let with = |mut chunk: StoredChunk| {
                chunk.keywords.push(format!("k{n}"));
                chunk
            };
            let changed: Vec<_> =
                read().await?.into_iter().map(|one| ChunkReplacement::of(one, with)).collect();
            Ok::<_, Error>(store.replace_chunks(key, &changed, 0).await?.map(drop))
        })
        .await
    };
    let all = join_all((0..8).map(async |n| change(n).await)).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    let there = read().await.unwrap();
    assert_eq!((there.len(), there[0].keywords.len()), (1, 9), "{:?}", there[0].keywords);
    assert_eq!(there[0].vector, Some(vec![0.5]));
    // One is first, and the others have to choose another id.
    let second = chunk(key, 1, "y");
    let added = join_all((0..4).map(async |_| add(&second).await)).await;
    assert_eq!(added.iter().flatten().count(), 1);
    // A change based on an outdated state is not stored, and neither is anything written together with it.
    let third = ChunkReplacement::added(chunk(key, 2, "z"));
    let stale = ChunkReplacement::of(first.clone(), |one| StoredChunk { tokens: 77, ..one });
    assert_eq!(store.replace_chunks(key, &[third.clone(), stale], 0).await.unwrap(), None);
    store.remove_chunks(key, std::slice::from_ref(&second.id)).await.unwrap();
    let gone = ChunkReplacement::of(second, |one| StoredChunk { tokens: 78, ..one });
    assert_eq!(store.replace_chunks(key, &[gone], 0).await.unwrap(), None);
    let held = store.document(key).await.unwrap();
    assert_eq!((held.chunk_count, held.token_count), (1, 3));
    assert_eq!(store.chunks_with_vectors(key, std::slice::from_ref(&third.after.id)).await.unwrap(), []);
}
