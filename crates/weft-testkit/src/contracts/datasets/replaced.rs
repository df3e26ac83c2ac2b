//! Contract of a dataset store for replacing one document by another.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use futures::future::join_all;
use serde_json::json;
use weft_core::ErrorKind::{Conflict, NotFound};
use weft_core::id::DatasetKey;
use weft_core::seam::DatasetStore;
use weft_core::seam::dataset_store::{DatasetCounts, Document, Extra};

use super::{chunk, dataset, document, tenant};
use crate::contracts::refused;

pub(super) async fn a_document_takes_the_place_of_another(store: &dyn DatasetStore) {
    let of = dataset(&tenant(), "d");
    store.create(&of).await.unwrap();
    let set = &of.key;
    let before = document(set, "a.txt");
    store.add_document(&before).await.unwrap();
    let other = document(set, "b.txt");
    store.add_document(&other).await.unwrap();
    let kept = [chunk(&before.key, 0, "x"), chunk(&before.key, 1, "y")];
    store.put_chunks(&before.key, &kept, 0).await.unwrap();
    store.put_extra(&before.key, Extra::Contents, &json!([1])).await.unwrap();
    // A refused replacement changes nothing.
    refused(store.replace_document(&document(set, "B.txt"), &before.key.id).await, Conflict);
    let new = document(set, "A.txt");
    refused(store.replace_document(&new, &"x".into()).await, NotFound);
    let nowhere = document(&DatasetKey::new(&tenant(), set.id.clone()), "A.txt");
    refused(store.replace_document(&nowhere, &before.key.id).await, NotFound);
    refused(store.document(&new.key).await, NotFound);
    assert_eq!(store.document(&before.key).await.unwrap().chunk_count, 2);
    assert_eq!(store.extra(&before.key, Extra::Contents).await.unwrap(), Some(json!([1])));
    assert_eq!(store.replace_document(&new, &before.key.id).await.unwrap(), before.blob);
    refused(store.document(&before.key).await, NotFound);
    assert_eq!(store.document(&new.key).await.unwrap(), new);
    let ids = kept.map(|chunk| chunk.id);
    assert_eq!(store.chunks_by_id(&set.tenant, &ids).await.unwrap(), []);
    let counts = DatasetCounts { documents: 2, bytes: new.size + other.size, ..DatasetCounts::default() };
    assert_eq!(store.dataset(set).await.unwrap().counts, counts);
    // Of several concurrent replacements one succeeds; the others no longer find the document.
    let many: Vec<Document> = (0..4).map(|_| document(set, "a.txt")).collect();
    let replaced = join_all(many.iter().map(|one| store.replace_document(one, &new.key.id))).await;
    assert_eq!(replaced.iter().filter(|one| one.is_ok()).count(), 1, "{replaced:?}");
    assert_eq!(store.dataset(set).await.unwrap().counts.documents, 2);
}
