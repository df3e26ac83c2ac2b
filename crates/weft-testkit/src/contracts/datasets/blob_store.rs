//! Contract of a blob store.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use bytes::Bytes;
use futures::future::join_all;
use weft_core::ErrorKind::{Invalid, NotFound};
use weft_core::id::TenantId;
use weft_core::seam::BlobStore;

use super::tenant;
use crate::contracts::refused;

/// Checks the contract of [`BlobStore`].
pub async fn blob_store_keeps_its_contract(blobs: &dyn BlobStore) {
    for ours in [tenant(), TenantId::from("Ünïcode/../and more")] {
        let (theirs, name) = (tenant(), "documents/5f0c");
        refused(blobs.get(&ours, name).await, NotFound);
        blobs.remove(&ours, name).await.unwrap();
        let large = Bytes::from(vec![7_u8; 3_000_000]);
        blobs.put(&ours, name, large.clone()).await.unwrap();
        assert!(blobs.get(&ours, name).await.unwrap() == large);
        blobs.put(&ours, name, Bytes::from_static(b"\0 small \xff")).await.unwrap();
        blobs.put(&ours, "a", Bytes::new()).await.unwrap();
        assert_eq!(&*blobs.get(&ours, name).await.unwrap(), b"\0 small \xff");
        assert_eq!(&*blobs.get(&ours, "a").await.unwrap(), b"");
        refused(blobs.get(&theirs, name).await, NotFound);
        blobs.remove(&theirs, name).await.unwrap();
        refused(blobs.get(&ours, "documents").await, NotFound);
        blobs.get(&ours, name).await.unwrap();
        blobs.remove(&ours, name).await.unwrap();
        refused(blobs.get(&ours, name).await, NotFound);
        blobs.get(&ours, "a").await.unwrap();
        let long = "x".repeat(300);
        for bad in
            ["", "/a", "a/", "a//b", ".", "..", "a/../b", ".a", "a/.b", "ä", "a b", "a\\b", "a\0", &long]
        {
            refused(blobs.put(&ours, bad, Bytes::new()).await, Invalid);
            refused(blobs.get(&ours, bad).await, Invalid);
            refused(blobs.remove(&ours, bad).await, Invalid);
            refused(blobs.below(&ours, bad).await, Invalid);
        }
        concurrent_writers_leave_one_complete_value(blobs, &ours).await;
        folders_are_listed(blobs, [&ours, &theirs]).await;
        blobs.put(&theirs, name, Bytes::new()).await.unwrap();
        for _ in 0..2 {
            blobs.remove_all(&ours).await.unwrap();
        }
        refused(blobs.get(&ours, "a").await, NotFound);
        blobs.get(&theirs, name).await.unwrap();
    }
}

async fn folders_are_listed(blobs: &dyn BlobStore, [ours, theirs]: [&TenantId; 2]) {
    let below = async |tenant: &TenantId, folder: &str| {
        let mut names = blobs.below(tenant, folder).await.unwrap();
        names.sort();
        names
    };
    assert!(below(ours, "documents/1.pictures").await.is_empty());
    let all = ["documents/1.pictures/a", "documents/1.pictures/b/c", "documents/1", "documents/1.pictures2"];
    for name in all {
        blobs.put(ours, name, Bytes::from_static(b"x")).await.unwrap();
    }
    assert_eq!(below(ours, "documents/1.pictures").await, all[..2]);
    assert!(below(ours, "documents/1").await.is_empty(), "it is a file");
    assert!(below(theirs, "documents/1.pictures").await.is_empty());
    for name in &all[..2] {
        blobs.remove(ours, name).await.unwrap();
    }
    assert!(below(ours, "documents/1.pictures").await.is_empty());
    // Also if its folder was removed with the previous blob.
    blobs.put(ours, all[0], Bytes::new()).await.unwrap();
    assert_eq!(below(ours, "documents/1.pictures").await, all[..1]);
    for name in all {
        blobs.remove(ours, name).await.unwrap();
    }
}

async fn concurrent_writers_leave_one_complete_value(blobs: &dyn BlobStore, ours: &TenantId) {
    let body = |n: u8| Bytes::from(vec![n; 100_000]);
    let writes = join_all((0..8).map(|n| blobs.put(ours, "many/one", body(n))));
    let reads = async {
        loop {
            // A blob that is read is always complete.
            if let Ok(read) = blobs.get(ours, "many/one").await {
                assert!(read.len() == 100_000 && read.iter().all(|byte| *byte == read[0]));
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    let (written, ()) = futures::join!(writes, reads);
    written.into_iter().for_each(Result::unwrap);
    let read = blobs.get(ours, "many/one").await.unwrap();
    assert!((0..8).any(|n| read == body(n)));
}
