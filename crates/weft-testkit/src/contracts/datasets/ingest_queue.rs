//! Contract of a queue of documents.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

mod added;
mod called_off;
mod embedder;
mod turns;

use std::collections::BTreeSet;

use futures::future::join_all;
use weft_core::ErrorKind::{Conflict, Invalid, NotFound};
use weft_core::id::{DocumentId, DocumentKey};
use weft_core::seam::DatasetStore;
use weft_core::seam::dataset_store::{
    ChunkFilter, Dataset, Document, DocumentChange, DocumentState, IngestStage, StoredChunk,
};
use weft_core::seam::ingest_queue::{
    Amended, IngestLease, IngestOutcome, IngestProgress, IngestQueue, TakenDocument, Wanted,
};

use super::{chunk, dataset, document, tenant};
use crate::contracts::refused;

/// Later than all times in this suite; the queue must be empty otherwise.
const END: i64 = 1_000_000;

/// Checks the contract of [`IngestQueue`], which is another interface of `store`.
pub async fn ingest_queue_keeps_its_contract(store: &dyn DatasetStore, queue: &dyn IngestQueue) {
    let both = Both { store, queue };
    both.documents_are_queued_once().await;
    both.what_is_being_read_keeps_its_embedder().await;
    both.the_longest_waiting_are_taken_first().await;
    both.tenants_take_turns().await;
    both.each_item_goes_to_one_of_many_takers().await;
    both.an_expired_lease_can_be_taken_by_another().await;
    both.new_chunks_are_stored_beside_the_old_ones().await;
    both.new_chunks_are_amended().await;
    both.new_chunks_are_added().await;
    both.parents_are_not_counted().await;
    both.waiting_work_is_stopped_at_once().await;
    both.who_has_it_hears_that_it_is_to_stop().await;
    both.an_unobserved_stop_is_applied().await;
    both.a_failure_leaves_the_previous_chunks().await;
    both.postponed_work_comes_again().await;
    both.given_up_work_resumes_where_it_stopped().await;
    both.stored_progress_resets_the_attempts().await;
    both.extras_come_with_their_chunks().await;
    both.the_work_of_removed_documents_is_lost().await;
    both.what_may_differ_is_noted().await;
}

pub(super) struct Both<'a> {
    pub(super) store: &'a dyn DatasetStore,
    pub(super) queue: &'a dyn IngestQueue,
}

pub(super) fn progress(stage: IngestStage, share: f64) -> IngestProgress {
    IngestProgress { stage, share, message: format!("at {share}") }
}

pub(super) fn done() -> IngestOutcome {
    IngestOutcome::Done { message: "Task done".into() }
}

fn every_way() -> [IngestOutcome; 6] {
    [
        done(),
        IngestOutcome::Failed { reason: "because".into() },
        IngestOutcome::Abandoned { reason: "because".into() },
        IngestOutcome::RetryAt { from_ms: 9_000, reason: "because".into() },
        IngestOutcome::Stopped,
        IngestOutcome::Released,
    ]
}

impl Both<'_> {
    pub(super) async fn documents(&self, count: usize) -> Vec<Document> {
        let set = dataset(&tenant(), "d");
        self.store.create(&set).await.unwrap();
        let made: Vec<_> = (0..count).map(|n| document(&set.key, &format!("{n:03}.txt"))).collect();
        for one in &made {
            self.store.add_document(one).await.unwrap();
        }
        made
    }

    /// A document queued at time 1000.
    pub(super) async fn queued(&self) -> Document {
        let made = self.documents(1).await.remove(0);
        self.queue_at(&made, 1_000).await;
        made
    }

    pub(super) async fn queue_at(&self, made: &Document, now_ms: i64) {
        let ids = [made.key.id.clone()];
        assert_eq!(self.queue.queue(&made.key.dataset, &ids, now_ms).await.unwrap(), ids);
    }

    pub(super) async fn one(&self, now_ms: i64, until_ms: i64) -> TakenDocument {
        let mut taken = self.queue.take(now_ms, until_ms, 9).await.unwrap();
        assert_eq!(taken.len(), 1, "{taken:?}");
        taken.remove(0)
    }

    async fn none(&self, now_ms: i64) {
        assert_eq!(self.queue.take(now_ms, END, 9).await.unwrap(), []);
    }

    pub(super) async fn drain(&self) {
        loop {
            let taken = self.queue.take(END, END, 100).await.unwrap();
            if taken.is_empty() {
                return;
            }
            for TakenDocument { lease, .. } in taken {
                self.queue.settle(&lease, &done(), END).await.unwrap();
            }
        }
    }

    async fn state(&self, of: &Document) -> DocumentState {
        self.store.document(&of.key).await.unwrap().state
    }

    async fn found(&self, of: &Document) -> Vec<StoredChunk> {
        let filter = ChunkFilter { vectors: true, limit: 9_999, ..ChunkFilter::default() };
        self.store.chunks(&of.key, &filter).await.unwrap().0
    }

    async fn documents_are_queued_once(&self) {
        let made = self.documents(3).await;
        let set = &made[0].key.dataset;
        let ids: Vec<DocumentId> = made.iter().map(|one| one.key.id.clone()).collect();
        let with_stranger = [ids[0].clone(), "x".into()];
        refused(self.queue.queue(set, &with_stranger, 1_000).await, NotFound);
        self.none(END).await;
        assert_eq!(self.queue.queue(set, &ids[..2], 1_000).await.unwrap(), ids[..2]);
        assert_eq!(self.queue.queue(set, &ids, 1_100).await.unwrap(), ids[2..]);
        let state = self.store.document(&made[0].key).await.unwrap();
        assert_eq!((state.state, state.begun_ms), (DocumentState::Running, None));
        refused(self.store.reset_document(&made[0].key, 1).await, Conflict);
        let first = self.queue.take(1_050, 2_000, 9).await.unwrap();
        assert_eq!(first.len(), 2);
        for taken in &first {
            assert_eq!((taken.stage, taken.attempts), (IngestStage::Reading, 1));
            assert_eq!(taken.document, self.store.document(&taken.document.key).await.unwrap());
            assert_eq!(taken.document.begun_ms, Some(1_050));
        }
        assert_eq!(self.queue.queue(set, &ids, 1_200).await.unwrap(), []);
        self.drain().await;
        let state = self.store.document(&made[0].key).await.unwrap();
        assert_eq!((state.state, state.progress), (DocumentState::Done, 1.0));
        assert_eq!((state.message.as_str(), state.chunk_count), ("Task done", 0));
        // From the beginning.
        assert_eq!(self.queue.queue(set, &ids[..1], 3_000).await.unwrap(), ids[..1]);
        let state = self.store.document(&made[0].key).await.unwrap();
        assert_eq!((state.begun_ms, state.progress, state.duration_ms), (None, 0.0, 0));
        let again = self.one(3_000, 4_000).await;
        assert_eq!((again.stage, again.attempts), (IngestStage::Reading, 1));
        self.drain().await;
    }

    async fn the_longest_waiting_are_taken_first(&self) {
        let made = self.documents(4).await;
        for (one, now_ms) in made.iter().zip([3_000, 1_000, 4_000, 2_000]) {
            self.queue_at(one, now_ms).await;
        }
        self.none(999).await;
        assert_eq!(self.queue.take(4_000, END, 0).await.unwrap(), []);
        let names = async |now, count| -> Vec<String> {
            let taken = self.queue.take(now, END, count).await.unwrap();
            taken.into_iter().map(|taken| taken.document.name).collect()
        };
        assert_eq!(names(3_500, 2).await, ["001.txt", "003.txt"]);
        assert_eq!(names(3_500, 2).await, ["000.txt"]);
        assert_eq!(names(END - 1, 9).await, ["002.txt"]);
        self.drain().await;
    }

    async fn each_item_goes_to_one_of_many_takers(&self) {
        let made = self.documents(24).await;
        let ids: Vec<DocumentId> = made.iter().map(|one| one.key.id.clone()).collect();
        self.queue.queue(&made[0].key.dataset, &ids, 1_000).await.unwrap();
        let mut seen = BTreeSet::new();
        // A caller that collides with others may get fewer than there are.
        while seen.len() < made.len() {
            let takes = join_all((0..6).map(|_| self.queue.take(1_000, 2_000, 5))).await;
            for taken in takes.into_iter().flat_map(Result::unwrap) {
                assert!(
                    seen.insert(taken.document.key.id.clone()),
                    "{} was taken twice",
                    taken.document.name
                );
            }
        }
        self.none(1_999).await;
        self.drain().await;
    }

    async fn an_expired_lease_can_be_taken_by_another(&self) {
        let made = self.queued().await;
        let first = self.one(1_000, 2_000).await;
        self.none(1_999).await;
        let said = self.queue.report(&first.lease, &progress(IngestStage::Embedding, 0.5), 3_000).await;
        assert_eq!(said.unwrap(), Wanted::GoOn);
        let state = self.store.document(&made.key).await.unwrap();
        assert_eq!((state.progress, state.message.as_str()), (0.5, "at 0.5"));
        self.none(2_999).await;
        let takes = join_all((0..6).map(|_| self.queue.take(3_000, 4_000, 9))).await;
        let mut takes: Vec<TakenDocument> = takes.into_iter().flat_map(Result::unwrap).collect();
        assert_eq!(takes.len(), 1);
        let second = takes.remove(0);
        assert!(second.lease.fence > first.lease.fence);
        assert_eq!((second.stage, second.attempts), (IngestStage::Embedding, 2));
        let stranger = IngestLease { document: DocumentKey::new(&made.key.dataset, "x"), fence: 1 };
        for lost in [&first.lease, &IngestLease { fence: 77, ..first.lease.clone() }, &stranger] {
            for settled in every_way() {
                refused(self.queue.settle(lost, &settled, 3_100).await, Conflict);
            }
            refused(self.queue.report(lost, &progress(IngestStage::Reading, 0.1), 9_000).await, Conflict);
            refused(self.queue.put_new(lost, &[], IngestStage::Reading).await, Conflict);
            refused(self.queue.new_chunks(lost, None, 9).await, Conflict);
            refused(self.queue.amend_new(lost, &[]).await, Conflict);
            refused(self.queue.add_new(lost, &[]).await, Conflict);
        }
        self.queue.settle(&second.lease, &done(), 3_200).await.unwrap();
        // The reading is over; a second report comes too late.
        refused(self.queue.settle(&second.lease, &done(), 3_300).await, Conflict);
        assert_eq!(self.store.document(&made.key).await.unwrap().duration_ms, 200);
        self.none(END).await;
    }

    async fn new_chunks_are_stored_beside_the_old_ones(&self) {
        let made = self.queued().await;
        let chunks: Vec<_> = (0..1_203).map(|n| chunk(&made.key, n, &format!("text {n}"))).collect();
        let first = self.one(1_000, 2_000).await;
        self.queue.put_new(&first.lease, &chunks[..5], IngestStage::Enriching).await.unwrap();
        self.queue.put_new(&first.lease, &chunks, IngestStage::Embedding).await.unwrap();
        assert!(self.found(&made).await.is_empty());
        let tenant = &made.key.dataset.tenant;
        assert_eq!(self.store.chunks_by_id(tenant, &[chunks[0].id.clone()]).await.unwrap(), []);
        let page = self.queue.new_chunks(&first.lease, Some(1_199), 9).await.unwrap();
        assert_eq!(page, chunks[1_200..]);
        assert_eq!(self.queue.new_chunks(&first.lease, None, 2).await.unwrap(), chunks[..2]);
        assert_eq!(self.store.document(&made.key).await.unwrap().chunk_count, 0);
        self.queue.settle(&first.lease, &done(), 1_500).await.unwrap();
        assert!(self.found(&made).await == chunks);
        let counts = self.store.dataset(&made.key.dataset).await.unwrap().counts;
        assert_eq!((counts.chunks, counts.tokens), (1_203, 3_609));
        // Read again, with some equal chunks: the searchable chunks change in a single step.
        self.queue_at(&made, 2_000).await;
        let second = self.one(2_000, 3_000).await;
        let new =
            [StoredChunk { tokens: 1, ordinal: 0, ..chunks[3].clone() }, chunk(&made.key, 9_999, "new")];
        self.queue.put_new(&second.lease, &new, IngestStage::Indexing).await.unwrap();
        assert!(self.found(&made).await == chunks);
        self.queue.settle(&second.lease, &done(), 2_500).await.unwrap();
        assert_eq!(self.found(&made).await, new);
        let held = self.store.document(&made.key).await.unwrap();
        assert_eq!((held.chunk_count, held.token_count), (2, 4));
    }

    async fn new_chunks_are_amended(&self) {
        let made = self.queued().await;
        let chunks: Vec<_> = (0..3).map(|n| chunk(&made.key, n, "text")).collect();
        let taken = self.one(1_000, 2_000).await;
        self.queue.put_new(&taken.lease, &chunks, IngestStage::Enriching).await.unwrap();
        let nothing =
            |n: usize| Amended { id: chunks[n].id.clone(), keywords: None, questions: None, vector: None };
        let amended = [
            Amended { vector: Some(vec![0.5, -1.0]), ..nothing(0) },
            Amended { keywords: Some(vec!["ä".into()]), questions: Some(vec![]), ..nothing(1) },
            Amended { id: "x".into(), ..nothing(2) },
        ];
        self.queue.amend_new(&taken.lease, &amended).await.unwrap();
        let again = Amended { keywords: Some(vec!["k".into()]), ..nothing(0) };
        self.queue.amend_new(&taken.lease, &[again]).await.unwrap();
        let mut expected = chunks.clone();
        (expected[0].vector, expected[0].keywords) = (Some(vec![0.5, -1.0]), vec!["k".into()]);
        (expected[1].keywords, expected[1].questions) = (vec!["ä".into()], vec![]);
        assert_eq!(self.queue.new_chunks(&taken.lease, None, 9).await.unwrap(), expected);
        self.queue.settle(&taken.lease, &done(), 1_500).await.unwrap();
        assert_eq!(self.found(&made).await, expected);
    }

    async fn parents_are_not_counted(&self) {
        let made = self.queued().await;
        let taken = self.one(1_000, 2_000).await;
        let parent = StoredChunk { available: false, ..chunk(&made.key, 0, "whole") };
        let child = StoredChunk { parent: Some(parent.id.clone()), ..chunk(&made.key, 1, "part") };
        let new = [parent.clone(), child.clone()];
        self.queue.put_new(&taken.lease, &new, IngestStage::Indexing).await.unwrap();
        self.queue.settle(&taken.lease, &done(), 1_500).await.unwrap();
        assert_eq!(self.found(&made).await, std::slice::from_ref(&child));
        assert_eq!(self.store.document(&made.key).await.unwrap().chunk_count, 1);
        let tenant = &made.key.dataset.tenant;
        let ids = std::slice::from_ref(&parent.id);
        assert_eq!(self.store.chunks_by_id(tenant, ids).await.unwrap(), std::slice::from_ref(&parent));
        // A child hidden by hand is listed nevertheless.
        let hidden = StoredChunk { available: false, ..child };
        let both = [hidden.clone(), StoredChunk { content: "all".into(), ..parent }];
        self.store.put_chunks(&made.key, &both, 0).await.unwrap();
        assert_eq!(self.found(&made).await, [hidden]);
    }

    async fn waiting_work_is_stopped_at_once(&self) {
        let made = self.queued().await;
        refused(self.queue.stop(&DocumentKey::new(&made.key.dataset, "x"), Wanted::Pause, 1).await, NotFound);
        refused(self.queue.stop(&made.key, Wanted::GoOn, 1).await, Invalid);
        self.queue.stop(&made.key, Wanted::Pause, 1_100).await.unwrap();
        assert_eq!(self.state(&made).await, DocumentState::Paused);
        self.none(END).await;
        self.queue.stop(&made.key, Wanted::Pause, 1_150).await.unwrap();
        self.queue_at(&made, 1_200).await;
        self.queue.stop(&made.key, Wanted::Cancel, 1_300).await.unwrap();
        assert_eq!(self.state(&made).await, DocumentState::Cancelled);
        self.none(END).await;
        for wanted in [Wanted::Pause, Wanted::Cancel] {
            refused(self.queue.stop(&made.key, wanted, 1_400).await, Conflict);
        }
        self.queue_at(&made, 1_500).await;
        self.queue.stop(&made.key, Wanted::Pause, 1_600).await.unwrap();
        self.queue.stop(&made.key, Wanted::Cancel, 1_700).await.unwrap();
        assert_eq!(self.state(&made).await, DocumentState::Cancelled);
    }

    async fn an_unobserved_stop_is_applied(&self) {
        for (wanted, state) in
            [(Wanted::Pause, DocumentState::Paused), (Wanted::Cancel, DocumentState::Cancelled)]
        {
            // Its worker dies before it notices, or has died already.
            let made = self.queued().await;
            let lost = self.one(1_000, 2_000).await;
            self.queue.stop(&made.key, wanted, 1_100).await.unwrap();
            self.none(2_000).await;
            assert_eq!(self.state(&made).await, state);
            refused(self.queue.settle(&lost.lease, &done(), 2_100).await, Conflict);
            let made = self.queued().await;
            let lost = self.one(1_000, 2_000).await;
            self.queue.stop(&made.key, wanted, 2_100).await.unwrap();
            assert_eq!(self.state(&made).await, state);
            refused(self.queue.settle(&lost.lease, &done(), 2_200).await, Conflict);
        }
        self.none(END).await;
    }

    async fn a_failure_leaves_the_previous_chunks(&self) {
        let made = self.queued().await;
        let old = [chunk(&made.key, 0, "old")];
        let first = self.one(1_000, 2_000).await;
        self.queue.put_new(&first.lease, &old, IngestStage::Indexing).await.unwrap();
        self.queue.settle(&first.lease, &done(), 1_500).await.unwrap();
        self.queue_at(&made, 2_000).await;
        let second = self.one(2_000, 3_000).await;
        let new = chunk(&made.key, 1, "new");
        self.queue.put_new(&second.lease, &[new], IngestStage::Indexing).await.unwrap();
        let failed = IngestOutcome::Failed { reason: "it is broken".into() };
        self.queue.settle(&second.lease, &failed, 2_500).await.unwrap();
        let state = self.store.document(&made.key).await.unwrap();
        assert_eq!((state.state, state.message.as_str()), (DocumentState::Failed, "it is broken"));
        assert_eq!(state.chunk_count, 1);
        assert_eq!(self.found(&made).await, old);
        self.none(END).await;
    }

    /// A document with one new chunk, which is given up at time 1500.
    async fn given_up(&self) -> Document {
        let made = self.queued().await;
        let taken = self.one(1_000, 2_000).await;
        let new = chunk(&made.key, 0, "new");
        self.queue.put_new(&taken.lease, std::slice::from_ref(&new), IngestStage::Embedding).await.unwrap();
        let with = Amended { id: new.id, keywords: None, questions: None, vector: Some(vec![1.0]) };
        self.queue.amend_new(&taken.lease, &[with]).await.unwrap();
        let given_up = IngestOutcome::Abandoned { reason: "too busy".into() };
        self.queue.settle(&taken.lease, &given_up, 1_500).await.unwrap();
        let state = self.store.document(&made.key).await.unwrap();
        assert_eq!((state.state, state.message.as_str()), (DocumentState::Failed, "too busy"));
        self.none(END).await;
        made
    }

    async fn given_up_work_resumes_where_it_stopped(&self) {
        let made = self.given_up().await;
        self.queue_at(&made, 2_000).await;
        let again = self.one(2_000, 3_000).await;
        assert_eq!((again.stage, again.attempts), (IngestStage::Embedding, 1));
        let found = self.queue.new_chunks(&again.lease, None, 9).await.unwrap();
        assert_eq!(found[0].vector, Some(vec![1.0]));
        self.drain().await;
        // Not with other settings, or with vectors of another model.
        let other = self.given_up().await;
        let settings = Some(serde_json::Map::new());
        let change = DocumentChange { settings, ..DocumentChange::default() };
        self.store.update_document(&other.key, &change, 1).await.unwrap();
        let another = self.given_up().await;
        let set = self.store.dataset(&another.key.dataset).await.unwrap();
        self.store.update(&Dataset { embedder: "another".into(), ..set }).await.unwrap();
        for made in [other, another] {
            self.queue_at(&made, 2_000).await;
            let again = self.one(2_000, 3_000).await;
            assert_eq!(again.stage, IngestStage::Reading);
            assert_eq!(self.queue.new_chunks(&again.lease, None, 9).await.unwrap(), []);
            self.drain().await;
        }
    }

    async fn stored_progress_resets_the_attempts(&self) {
        let made = self.queued().await;
        let first = self.one(1_000, 2_000).await;
        let new = chunk(&made.key, 0, "new");
        self.queue.put_new(&first.lease, std::slice::from_ref(&new), IngestStage::Embedding).await.unwrap();
        let again = IngestOutcome::RetryAt { from_ms: 1_000, reason: "too busy".into() };
        self.queue.settle(&first.lease, &again, 1_500).await.unwrap();
        let second = self.one(1_500, 2_000).await;
        assert_eq!(second.attempts, 2);
        self.queue.amend_new(&second.lease, &[]).await.unwrap();
        self.queue.settle(&second.lease, &again, 1_500).await.unwrap();
        let third = self.one(1_500, 2_000).await;
        assert_eq!(third.attempts, 3);
        let with = Amended { id: new.id, keywords: None, questions: None, vector: Some(vec![1.0]) };
        self.queue.amend_new(&third.lease, std::slice::from_ref(&with)).await.unwrap();
        self.queue.settle(&third.lease, &again, 1_500).await.unwrap();
        let fourth = self.one(1_500, 2_000).await;
        assert_eq!(fourth.attempts, 1);
        self.queue.amend_new(&fourth.lease, &[with]).await.unwrap();
        self.queue.settle(&fourth.lease, &IngestOutcome::Released, 1_500).await.unwrap();
        assert_eq!(self.one(1_500, 2_000).await.attempts, 1);
        self.drain().await;
    }

    async fn postponed_work_comes_again(&self) {
        let made = self.queued().await;
        let first = self.one(1_000, 2_000).await;
        self.queue.put_new(&first.lease, &[chunk(&made.key, 0, "x")], IngestStage::Embedding).await.unwrap();
        let again = IngestOutcome::RetryAt { from_ms: 5_000, reason: "too busy".into() };
        self.queue.settle(&first.lease, &again, 1_500).await.unwrap();
        let state = self.store.document(&made.key).await.unwrap();
        assert_eq!((state.state, state.message.as_str()), (DocumentState::Running, "too busy"));
        self.none(4_999).await;
        let second = self.one(5_000, 6_000).await;
        assert_eq!((second.stage, second.attempts), (IngestStage::Embedding, 2));
        self.queue.settle(&second.lease, &IngestOutcome::Released, 5_500).await.unwrap();
        let third = self.one(5_500, 6_500).await;
        assert_eq!((third.stage, third.attempts), (IngestStage::Embedding, 2));
        assert_eq!(self.queue.new_chunks(&third.lease, None, 9).await.unwrap().len(), 1);
        self.drain().await;
    }

    async fn the_work_of_removed_documents_is_lost(&self) {
        let made = self.queued().await;
        let taken = self.one(1_000, 2_000).await;
        self.queue.put_new(&taken.lease, &[chunk(&made.key, 0, "x")], IngestStage::Embedding).await.unwrap();
        let ids = [made.key.id.clone()];
        self.store.remove_documents(&made.key.dataset, &ids).await.unwrap();
        for settled in every_way() {
            refused(self.queue.settle(&taken.lease, &settled, 1_500).await, Conflict);
        }
        refused(self.queue.amend_new(&taken.lease, &[]).await, Conflict);
        // Not one is left behind.
        self.store.add_document(&made).await.unwrap();
        self.queue_at(&made, 2_000).await;
        let again = self.one(2_000, 3_000).await;
        assert_eq!(self.queue.new_chunks(&again.lease, None, 9).await.unwrap(), []);
        self.drain().await;
    }
}
