//! Stopping documents that a worker is processing.

use weft_core::ErrorKind::Conflict;
use weft_core::seam::dataset_store::{DocumentState, IngestStage};
use weft_core::seam::ingest_queue::{IngestLease, IngestOutcome, Wanted};

use super::{Both, END, chunk, progress};
use crate::contracts::refused;

impl Both<'_> {
    pub(super) async fn who_has_it_hears_that_it_is_to_stop(&self) {
        let made = self.queued().await;
        let first = self.one(1_000, 2_000).await;
        let chunks = [chunk(&made.key, 0, "text")];
        self.queue.put_new(&first.lease, &chunks, IngestStage::Enriching).await.unwrap();
        let hears = async |lease: &IngestLease| {
            self.queue.report(lease, &progress(IngestStage::Embedding, 0.5), 5_000).await.unwrap()
        };
        self.queue.stop(&made.key, Wanted::Pause, 1_100).await.unwrap();
        assert_eq!(self.state(&made).await, DocumentState::Running);
        assert_eq!(hears(&first.lease).await, Wanted::Pause);
        // A request that is revoked in time reaches the worker, too.
        self.queue_at(&made, 1_150).await;
        assert_eq!(hears(&first.lease).await, Wanted::GoOn);
        self.queue.stop(&made.key, Wanted::Pause, 1_200).await.unwrap();
        assert_eq!(hears(&first.lease).await, Wanted::Pause);
        self.queue.settle(&first.lease, &IngestOutcome::Stopped, 1_300).await.unwrap();
        assert_eq!(self.state(&made).await, DocumentState::Paused);
        self.none(END).await;
        self.queue_at(&made, 2_000).await;
        let second = self.one(2_000, 3_000).await;
        assert_eq!((second.stage, second.attempts), (IngestStage::Embedding, 1));
        assert_eq!(self.queue.new_chunks(&second.lease, None, 9).await.unwrap(), chunks);
        self.queue.stop(&made.key, Wanted::Cancel, 2_100).await.unwrap();
        self.queue.stop(&made.key, Wanted::Pause, 2_200).await.unwrap();
        assert_eq!(hears(&second.lease).await, Wanted::Cancel);
        self.queue.settle(&second.lease, &IngestOutcome::Stopped, 2_300).await.unwrap();
        assert_eq!(self.state(&made).await, DocumentState::Cancelled);
        self.queue_at(&made, 3_000).await;
        let third = self.one(3_000, 4_000).await;
        assert_eq!(third.stage, IngestStage::Reading);
        assert_eq!(self.queue.new_chunks(&third.lease, None, 9).await.unwrap(), []);
        // Queued again before its worker has noticed the cancellation, the document is not lost.
        self.queue.put_new(&third.lease, &chunks, IngestStage::Embedding).await.unwrap();
        self.queue.stop(&made.key, Wanted::Cancel, 3_100).await.unwrap();
        self.queue_at(&made, 3_200).await;
        assert_eq!(self.state(&made).await, DocumentState::Running);
        refused(self.queue.settle(&third.lease, &IngestOutcome::Stopped, 3_300).await, Conflict);
        let fourth = self.one(3_400, 4_400).await;
        assert_eq!((fourth.stage, fourth.attempts), (IngestStage::Reading, 1));
        assert_eq!(self.queue.new_chunks(&fourth.lease, None, 9).await.unwrap(), []);
        assert_eq!(hears(&fourth.lease).await, Wanted::GoOn);
        self.drain().await;
    }
}
