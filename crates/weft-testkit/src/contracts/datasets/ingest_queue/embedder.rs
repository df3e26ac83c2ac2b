//! Vectors of two models are not comparable, so a dataset cannot change its embedder while documents are being read.

use futures::future::join;
use weft_core::ErrorKind::Conflict;
use weft_core::seam::dataset_store::{Dataset, DocumentState};
use weft_core::seam::ingest_queue::Wanted;

use super::Both;
use crate::contracts::datasets::chunk;
use crate::contracts::refused;

/// Number of times that a change and a queueing race.
const MEETINGS: usize = 8;

impl Both<'_> {
    pub(super) async fn what_is_being_read_keeps_its_embedder(&self) {
        let made = self.queued().await;
        let set = async || self.store.dataset(&made.key.dataset).await.unwrap();
        let with = |set: Dataset| Dataset { embedder: "another".into(), ..set };
        refused(self.store.update(&with(set().await)).await, Conflict);
        // Everything else may change.
        assert!(self.store.update(&Dataset { pagerank: 7, ..set().await }).await.unwrap());
        self.queue.stop(&made.key, Wanted::Pause, 1_100).await.unwrap();
        refused(self.store.update(&with(set().await)).await, Conflict);
        self.queue.stop(&made.key, Wanted::Cancel, 1_200).await.unwrap();
        self.store.put_chunks(&made.key, &[chunk(&made.key, 0, "text")], 0).await.unwrap();
        refused(self.store.update(&with(set().await)).await, Conflict);
        self.store.reset_document(&made.key, 1_300).await.unwrap();
        assert!(self.store.update(&with(set().await)).await.unwrap());
        assert_eq!(set().await.embedder, "another");
        // A chunk with a vector from before is refused, and one with a vector from now is accepted.
        let added = [chunk(&made.key, 0, "text")];
        refused(self.store.put_chunks(&made.key, &added, 0).await, Conflict);
        self.store.put_chunks(&made.key, &added, set().await.generation).await.unwrap();
        self.store.reset_document(&made.key, 1_400).await.unwrap();
        self.none(super::END).await;
        for n in 0..MEETINGS {
            self.an_embedder_changes_before_or_after_a_document_is_queued(n).await;
            self.an_embedder_changes_before_or_after_a_chunk_is_added(n).await;
        }
    }

    /// Either the queueing sees the new embedder, or the change sees the queued document.
    async fn an_embedder_changes_before_or_after_a_document_is_queued(&self, n: usize) {
        let made = self.documents(1).await.remove(0);
        let before = self.store.dataset(&made.key.dataset).await.unwrap();
        let changed = Dataset { embedder: format!("another-{n}"), ..before };
        let change = self.store.update(&changed);
        // Whether it was queued, and the embedder that its reader would get.
        let queue = async {
            let ids = [made.key.id.clone()];
            self.queue.queue(&made.key.dataset, &ids, 1_000).await.unwrap();
            self.store.dataset(&made.key.dataset).await.unwrap().embedder
        };
        let (change, given) = join(change, queue).await;
        match change {
            Ok(is_changed) => assert!(is_changed && given == changed.embedder, "{given}"),
            Err(error) => assert_eq!(error.kind, Conflict, "{error}"),
        }
        assert_eq!(self.state(&made).await, DocumentState::Running);
        self.drain().await;
    }

    /// Either the addition sees the new embedder, or the change sees the chunk.
    async fn an_embedder_changes_before_or_after_a_chunk_is_added(&self, n: usize) {
        let made = self.documents(1).await.remove(0);
        let before = self.store.dataset(&made.key.dataset).await.unwrap();
        let changed = Dataset { embedder: format!("another-{n}"), ..before.clone() };
        let added = [chunk(&made.key, 0, "text")];
        let add = self.store.put_chunks(&made.key, &added, before.generation);
        let (change, added) = join(self.store.update(&changed), add).await;
        let after = self.store.dataset(&made.key.dataset).await.unwrap();
        let expected = match change {
            Ok(is_changed) => {
                assert!(is_changed);
                refused(added, Conflict);
                (changed.embedder, 0)
            }
            Err(error) => {
                assert_eq!(error.kind, Conflict, "{error}");
                added.unwrap();
                (before.embedder, 1)
            }
        };
        assert_eq!((after.embedder, after.counts.chunks), expected);
    }
}
