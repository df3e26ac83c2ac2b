//! What several do to datasets at the same time.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use futures::future::join_all;
use weft_core::ErrorKind::QuotaExceeded;
use weft_core::seam::DatasetStore;
use weft_core::seam::dataset_store::{Document, DocumentChange, DocumentQuota};
use weft_core::{Error, changes};

use super::{dataset, document, tenant};

/// Each adds something of its own to what it reads.
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
