//! Contract of the queue's records of what the index has to follow.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use serde_json::json;
use weft_core::ErrorKind::{Conflict, NotFound};
use weft_core::id::{DatasetKey, DocumentId, DocumentKey};
use weft_core::seam::dataset_store::{Document, DocumentChange, Extra, IngestStage, StoredChunk};
use weft_core::seam::ingest_queue::{IndexNote, IngestOutcome, NotedFilter, ToBeFound};
use weft_core::value::Json;

use super::ingest_queue::{Both, done, progress};
use super::{chunk, document};
use crate::contracts::refused;

/// Later than every other time.
const END: i64 = 1_000_000;

fn of(dataset: &DatasetKey) -> NotedFilter {
    NotedFilter { now_ms: 1_500, dataset: Some(dataset.clone()), after: None, count_max: 9 }
}

impl Both<'_> {
    pub(super) async fn what_may_differ_is_noted(&self) {
        self.notes_are_counted().await;
        self.changes_are_recorded().await;
        self.notes_are_listed().await;
        self.documents_being_indexed_are_left_alone().await;
        self.searchable_chunks_are_counted().await;
        self.removals_are_recorded().await;
    }

    async fn note(&self, of: &Document) -> IndexNote {
        self.queue.unindexed(&of.key).await.unwrap()
    }

    async fn is_noted(&self, of: &Document) -> bool {
        let filter = NotedFilter { now_ms: 1_500, count_max: 999, ..NotedFilter::default() };
        self.queue.to_index(&filter).await.unwrap().contains(&of.key)
    }

    async fn notes_are_counted(&self) {
        let made = self.documents(2).await;
        let stranger = DocumentKey::new(&made[0].key.dataset, "x");
        refused(self.queue.unindexed(&stranger).await, NotFound);
        assert!(self.queue.indexed(&stranger, 1).await.unwrap());
        assert!(!self.is_noted(&made[0]).await);
        let first = self.note(&made[0]).await;
        assert_eq!((first.first, first.busy), (true, false));
        let second = self.note(&made[0]).await;
        assert_eq!(second, IndexNote { number: first.number + 1, first: false, busy: false });
        assert!(self.note(&made[1]).await.first);
        // A caller with an older number may have written outdated data.
        assert!(!self.queue.indexed(&made[0].key, first.number).await.unwrap());
        assert!(!self.queue.indexed(&made[0].key, second.number).await.unwrap());
        assert!(self.is_noted(&made[0]).await);
        let last = self.note(&made[0]).await;
        assert!(self.queue.indexed(&made[0].key, last.number).await.unwrap());
        assert!(!self.is_noted(&made[0]).await && self.is_noted(&made[1]).await);
        // Once is enough, and a late report marks the document again.
        assert!(!self.queue.indexed(&made[0].key, second.number).await.unwrap());
        assert!(self.is_noted(&made[0]).await);
        let again = self.note(&made[0]).await;
        assert!(again.number > last.number, "a number is never reused");
        self.store.remove(&made[0].key.dataset).await.unwrap();
        assert!(!self.is_noted(&made[0]).await);
    }

    async fn changes_are_recorded(&self) {
        let made = self.queued().await;
        let key = &made.key;
        let chunks: Vec<StoredChunk> = (0..2).map(|n| chunk(key, n, "text")).collect();
        let expect = async |before: IndexNote, what: &str| {
            assert!(self.is_noted(&made).await, "{what}");
            assert!(!self.queue.indexed(key, before.number).await.unwrap(), "{what}");
            let note = self.note(&made).await;
            // The change itself, the refusal, and this one.
            assert_eq!((note.number, note.first), (before.number + 3, false), "{what}");
            assert!(self.queue.indexed(key, note.number).await.unwrap());
        };
        let before = self.note(&made).await;
        let taken = self.one(1_000, 2_000).await;
        self.queue.put_new(&taken.lease, &chunks, IngestStage::Indexing).await.unwrap();
        self.queue.settle(&taken.lease, &done(), 1_500).await.unwrap();
        expect(before, "done").await;
        let before = self.note(&made).await;
        self.store.put_chunks(key, &chunks[..1], 0).await.unwrap();
        expect(before, "put").await;
        let before = self.note(&made).await;
        self.store.remove_chunks(key, &[chunks[0].id.clone()]).await.unwrap();
        expect(before, "removed").await;
        let before = self.note(&made).await;
        let change = DocumentChange { enabled: Some(false), ..DocumentChange::default() };
        self.store.update_document(key, &change, 1).await.unwrap();
        expect(before, "changed").await;
        let before = self.note(&made).await;
        self.store.reset_document(key, 1).await.unwrap();
        expect(before, "reset").await;
        let before = self.note(&made).await;
        self.queue.all_unindexed(&key.dataset).await.unwrap();
        expect(before, "all").await;
    }

    async fn notes_are_listed(&self) {
        let (made, other) = (self.documents(3).await, self.documents(1).await);
        let set = &made[0].key.dataset;
        self.queue.all_unindexed(set).await.unwrap();
        assert!(!self.is_noted(&other[0]).await);
        self.note(&other[0]).await;
        let mut expected: Vec<DocumentKey> = made.iter().map(|one| one.key.clone()).collect();
        expected.sort_by(|a, b| a.id.cmp(&b.id));
        let list = async |filter: NotedFilter| self.queue.to_index(&filter).await.unwrap();
        assert_eq!(list(of(set)).await, expected);
        assert_eq!(list(NotedFilter { count_max: 1, ..of(set) }).await, expected[..1]);
        let after = Some(expected[0].id.clone());
        assert_eq!(list(NotedFilter { after, ..of(set) }).await, expected[1..]);
        let all = list(NotedFilter { dataset: None, count_max: 999, ..of(set) }).await;
        assert!(all.contains(&other[0].key) && expected.iter().all(|key| all.contains(key)));
    }

    async fn documents_being_indexed_are_left_alone(&self) {
        let made = self.queued().await;
        let taken = self.one(1_000, 2_000).await;
        self.note(&made).await;
        assert_eq!(
            self.queue.to_index(&of(&made.key.dataset)).await.unwrap(),
            std::slice::from_ref(&made.key)
        );
        self.queue.report(&taken.lease, &progress(IngestStage::Indexing, 0.9), 2_000).await.unwrap();
        assert_eq!(self.queue.to_index(&of(&made.key.dataset)).await.unwrap(), []);
        let note = self.note(&made).await;
        assert!(note.busy);
        // While the worker is busy with it, no other caller can mark it as indexed.
        assert!(!self.queue.indexed(&made.key, note.number).await.unwrap());
        let late = NotedFilter { now_ms: 2_000, ..of(&made.key.dataset) };
        assert_eq!(self.queue.to_index(&late).await.unwrap(), std::slice::from_ref(&made.key));
        let note = self.note(&made).await;
        self.queue.settle(&taken.lease, &done(), 1_500).await.unwrap();
        // The number is one higher.
        assert!(self.queue.indexed(&made.key, note.number + 1).await.unwrap());
    }

    async fn searchable_chunks_are_counted(&self) {
        let made = self.queued().await;
        let set = &made.key.dataset;
        let found = async || self.queue.to_be_found(set).await.unwrap();
        assert_eq!(found().await, ToBeFound { chunks: 0, changing: false });
        let taken = self.one(1_000, 2_000).await;
        let parent = StoredChunk { available: false, ..chunk(&made.key, 0, "whole") };
        let mut chunks: Vec<StoredChunk> = (1..4).map(|n| chunk(&made.key, n, "part")).collect();
        chunks.insert(0, parent);
        self.queue.put_new(&taken.lease, &chunks, IngestStage::Embedding).await.unwrap();
        assert_eq!(found().await, ToBeFound { chunks: 0, changing: false });
        self.queue.report(&taken.lease, &progress(IngestStage::Indexing, 0.9), 2_000).await.unwrap();
        assert_eq!(found().await, ToBeFound { chunks: 0, changing: true });
        self.queue.settle(&taken.lease, &done(), 1_500).await.unwrap();
        assert_eq!(found().await, ToBeFound { chunks: 3, changing: true });
        let hidden = StoredChunk { available: false, ..chunks[1].clone() };
        self.store.put_chunks(&made.key, &[hidden], 0).await.unwrap();
        let note = self.note(&made).await;
        self.queue.indexed(&made.key, note.number).await.unwrap();
        assert_eq!(found().await, ToBeFound { chunks: 2, changing: false });
    }

    pub(super) async fn extras_come_with_their_chunks(&self) {
        let made = self.queued().await;
        let extra = async |which| self.store.extra(&made.key, which).await.unwrap();
        let both = async || (extra(Extra::Contents).await, extra(Extra::Graph).await);
        self.store.put_extra(&made.key, Extra::Contents, &json!(["old"])).await.unwrap();
        self.store.put_extra(&made.key, Extra::Graph, &json!({"old": 1})).await.unwrap();
        let old = (Some(json!(["old"])), Some(json!({"old": 1})));
        let failed = IngestOutcome::Failed { reason: "it is broken".into() };
        for settled in [failed, done()] {
            let taken = self.one(1_000, 2_000).await;
            let put = async |which, value: Json| {
                self.queue.put_new_extra(&taken.lease, which, &value).await.unwrap();
            };
            put(Extra::Contents, json!(["half"])).await;
            self.queue.put_new(&taken.lease, &[], IngestStage::Embedding).await.unwrap();
            if settled == done() {
                put(Extra::Contents, json!(["new"])).await;
                put(Extra::Graph, Json::Null).await;
            }
            assert_eq!(both().await, old);
            let all = self.store.extras(&made.key.dataset, Extra::Contents, None, 9).await.unwrap();
            assert_eq!(all, [(made.key.id.clone(), json!(["old"]))]);
            self.queue.settle(&taken.lease, &settled, 1_500).await.unwrap();
            refused(self.queue.put_new_extra(&taken.lease, Extra::Graph, &json!(1)).await, Conflict);
            if settled == done() {
                assert_eq!(both().await, (Some(json!(["new"])), None));
            } else {
                assert_eq!(both().await, old);
                self.queue_at(&made, 1_000).await;
            }
        }
        // A removed record does not come back with the next chunks.
        self.queue_at(&made, 1_000).await;
        self.drain().await;
        assert_eq!(both().await, (Some(json!(["new"])), None));
    }

    async fn removals_are_recorded(&self) {
        let made = self.queued().await;
        let set = &made.key.dataset;
        let left = async |now_ms: i64| -> Vec<(Option<DocumentId>, String)> {
            let all = self.queue.removed(now_ms, 9_999).await.unwrap();
            let ours = all.into_iter().filter(|one| one.dataset == *set);
            ours.map(|one| (one.document, one.blob)).collect()
        };
        self.one(1_000, 2_000).await;
        let ids = [made.key.id.clone(), "x".into()];
        self.store.remove_documents(set, &ids).await.unwrap();
        // Its worker has not noticed the removal yet.
        assert_eq!(left(1_999).await, []);
        self.queue.forget(set, Some(&made.key.id), 1_999).await.unwrap();
        let gone = (Some(made.key.id.clone()), made.blob.clone());
        assert_eq!(left(2_000).await, std::slice::from_ref(&gone));
        // The same document a second time.
        self.store.add_document(&made).await.unwrap();
        self.store.remove_documents(set, &ids).await.unwrap();
        assert_eq!(left(1_000).await, std::slice::from_ref(&gone));
        self.queue.forget(set, Some(&"x".into()), 9_000).await.unwrap();
        assert_eq!(left(2_000).await.len(), 1);
        self.queue.forget(set, Some(&made.key.id), 2_000).await.unwrap();
        assert_eq!(left(END).await, []);
        // A file stored before its document, which is then not added, or is.
        self.queue.expect_file(&made.key, &made.blob, 3_000).await.unwrap();
        self.queue.expect_file(&made.key, &made.blob, 4_000).await.unwrap();
        assert_eq!(left(3_999).await, []);
        self.queue.forget(set, Some(&made.key.id), 3_999).await.unwrap();
        assert_eq!(left(4_000).await, std::slice::from_ref(&gone));
        self.store.add_document(&made).await.unwrap();
        assert_eq!(left(END).await, [], "it was added");
        // Another document, whose file was expected, replaces it.
        let new = document(set, &made.name);
        self.queue.expect_file(&new.key, &new.blob, 5_000).await.unwrap();
        self.store.replace_document(&new, &made.key.id).await.unwrap();
        assert_eq!(left(END).await, std::slice::from_ref(&gone));
        self.store.replace_document(&made, &new.key.id).await.unwrap();
        let gone_too = (Some(new.key.id.clone()), new.blob.clone());
        assert_eq!(left(END).await, [gone_too], "the first one is stored again");
        self.queue.forget(set, Some(&new.key.id), 1_000).await.unwrap();
        self.store.remove(set).await.unwrap();
        assert_eq!(left(1_000).await, [gone, (None, String::new())]);
        self.queue.forget(set, None, 1_000).await.unwrap();
        assert_eq!(left(END).await, []);
    }
}
