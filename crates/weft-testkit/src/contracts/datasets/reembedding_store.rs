//! Contract of tasks that recompute all vectors of a dataset.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use weft_core::ErrorKind::{Conflict, NotFound};
use weft_core::id::{DatasetKey, DocumentKey};
use weft_core::seam::dataset_store::{ChunkFilter, Dataset, DocumentState, IngestStage, StoredChunk};
use weft_core::seam::ingest_queue::{IngestOutcome, IngestQueue, NotedFilter, Wanted};
use weft_core::seam::reembedding_store::{
    NumberedDocument, ReembeddingOutcome, ReembeddingProgress, ReembeddingState, TakenReembedding,
};
use weft_core::seam::{DatasetStore, ReembeddingStore};

use super::{chunk, dataset, document, tenant};
use crate::contracts::refused;

/// Checks the contract of [`ReembeddingStore`], which is another interface of `store` and `queue`.
pub async fn reembedding_store_keeps_its_contract(
    store: &dyn DatasetStore,
    queue: &dyn IngestQueue,
    tasks: &dyn ReembeddingStore,
) {
    let three = Three { store, queue, tasks };
    three.one_task_at_a_time_has_one_owner().await;
    three.staged_vectors_replace_the_searchable_ones().await;
    three.changed_chunks_are_unstaged().await;
    three.documents_being_read_prevent_the_switch().await;
    three.a_cancelled_task_is_cleaned_up().await;
    three.tasks_are_removed_with_their_datasets().await;
}

struct Three<'a> {
    store: &'a dyn DatasetStore,
    queue: &'a dyn IngestQueue,
    tasks: &'a dyn ReembeddingStore,
}

/// Time of these tasks, long before those of any other suite.
const BEGUN: i64 = 10;

fn vector(chunk: &StoredChunk, vector: &[f32]) -> StoredChunk {
    StoredChunk { vector: Some(vector.to_vec()), ..chunk.clone() }
}

impl Three<'_> {
    async fn dataset(&self) -> DatasetKey {
        let new = dataset(&tenant(), "Anew");
        self.store.create(&new).await.unwrap();
        new.key
    }

    /// A document with two chunks that have vectors.
    async fn document(&self, dataset: &DatasetKey, name: &str) -> DocumentKey {
        let new = document(dataset, name);
        self.store.add_document(&new).await.unwrap();
        let generation = self.store.dataset_uncounted(dataset).await.unwrap().generation;
        let chunks = [0, 1].map(|n| vector(&chunk(&new.key, n, "x"), &[1.0, 0.0]));
        self.store.put_chunks(&new.key, &chunks, generation).await.unwrap();
        new.key
    }

    /// Begins a task and takes it; no other task may be due.
    async fn taken(&self, dataset: &DatasetKey) -> TakenReembedding {
        self.tasks.begin(dataset, "new@Model", BEGUN).await.unwrap();
        let taken = self.tasks.take(BEGUN, BEGUN + 100).await.unwrap().unwrap();
        assert_eq!((&taken.lease.dataset, taken.is_littered), (dataset, true));
        taken
    }

    async fn numbered(&self, document: &DocumentKey) -> NumberedDocument {
        let all = self.tasks.unstaged(&document.dataset, None, 99).await.unwrap();
        all.into_iter().find(|one| one.id == document.id).unwrap()
    }

    /// Stages all chunks of a document.
    async fn stage(&self, taken: &TakenReembedding, document: &DocumentKey) {
        let numbered = self.numbered(document).await;
        let vectors = [0, 1].map(|n| (chunk(document, n, "x").id, vec![0.0, 0.5, 0.25]));
        assert!(self.tasks.stage(&taken.lease, &numbered, &vectors).await.unwrap());
        self.tasks.staged(&taken.lease, &[numbered]).await.unwrap();
    }

    async fn vectors(&self, document: &DocumentKey) -> Vec<Option<Vec<f32>>> {
        let filter = ChunkFilter { vectors: true, limit: 99, ..ChunkFilter::default() };
        let (found, _) = self.store.chunks(document, &filter).await.unwrap();
        found.into_iter().map(|chunk| chunk.vector).collect()
    }

    /// Ends the task, so that the next test finds nothing to take.
    async fn settle(&self, taken: &TakenReembedding) {
        let failed = ReembeddingOutcome::Failed { reason: "enough".to_owned() };
        self.tasks.settle(&taken.lease, &failed, BEGUN).await.unwrap();
        let left = self.tasks.take(BEGUN, BEGUN + 100).await.unwrap().unwrap();
        assert_eq!((&left.task.state, left.task.message.as_str()), (&ReembeddingState::Failed, "enough"));
        self.tasks.clear(&left.lease).await.unwrap();
        self.tasks.settle(&left.lease, &ReembeddingOutcome::Cleared, BEGUN).await.unwrap();
        assert_eq!(self.tasks.take(BEGUN, BEGUN + 100).await.unwrap(), None);
    }

    async fn one_task_at_a_time_has_one_owner(&self) {
        let key = self.dataset().await;
        assert_eq!(self.tasks.last(&key).await.unwrap(), None);
        refused(self.tasks.begin(&DatasetKey::new(&tenant(), "x"), "m", BEGUN).await, NotFound);
        refused(self.tasks.cancel(&key, BEGUN).await, Conflict);
        let taken = self.taken(&key).await;
        assert_eq!((taken.attempts, taken.task.embedder.as_str()), (1, "new@Model"));
        refused(self.tasks.begin(&key, "other", BEGUN).await, Conflict);
        assert_eq!(self.tasks.take(BEGUN + 99, BEGUN + 200).await.unwrap(), None, "another worker has it");
        let progress = ReembeddingProgress { share: 0.5, message: "half 🦜".to_owned() };
        self.tasks.report(&taken.lease, &progress, BEGUN + 150).await.unwrap();
        let told = self.tasks.last(&key).await.unwrap().unwrap();
        assert_eq!((told.progress, told.message.as_str(), told.begun_ms), (0.5, "half 🦜", BEGUN));
        // Its worker has died.
        let again = self.tasks.take(BEGUN + 150, BEGUN + 300).await.unwrap().unwrap();
        assert_eq!(again.attempts, 2);
        refused(self.tasks.report(&taken.lease, &progress, BEGUN).await, Conflict);
        refused(self.tasks.clear(&taken.lease).await, Conflict);
        let released = ReembeddingOutcome::Released { from_ms: BEGUN };
        refused(self.tasks.settle(&taken.lease, &released, BEGUN).await, Conflict);
        self.tasks.settle(&again.lease, &released, BEGUN).await.unwrap();
        let third = self.tasks.take(BEGUN, BEGUN + 100).await.unwrap().unwrap();
        assert_eq!(third.attempts, 2, "a worker that is told to end has not failed");
        let later = ReembeddingOutcome::RetryAt { from_ms: BEGUN + 50, reason: "busy".to_owned() };
        self.tasks.settle(&third.lease, &later, BEGUN).await.unwrap();
        assert_eq!(self.tasks.take(BEGUN + 49, BEGUN + 100).await.unwrap(), None);
        let last = self.tasks.take(BEGUN + 50, BEGUN + 100).await.unwrap().unwrap();
        assert_eq!((last.attempts, last.task.message.as_str()), (3, "busy"));
        self.settle(&last).await;
        let told = self.tasks.last(&key).await.unwrap().unwrap();
        assert_eq!((told.state, told.ended_ms), (ReembeddingState::Failed, Some(BEGUN)));
    }

    async fn staged_vectors_replace_the_searchable_ones(&self) {
        let key = self.dataset().await;
        let [first, second] = [self.document(&key, "a.txt").await, self.document(&key, "b.txt").await];
        let stranger = self.document(&self.dataset().await, "c.txt").await;
        let note = self.queue.unindexed(&second).await.unwrap();
        assert!(self.queue.indexed(&second, note.number).await.unwrap());
        let taken = self.taken(&key).await;
        assert_eq!(self.tasks.unstaged(&key, None, 1).await.unwrap().len(), 1);
        let mut ids = [first.id.clone(), second.id.clone()];
        ids.sort();
        let behind = self.tasks.unstaged(&key, Some(&ids[0]), 99).await.unwrap();
        assert_eq!(behind.iter().map(|one| &one.id).collect::<Vec<_>>(), [&ids[1]]);
        self.stage(&taken, &first).await;
        assert!(!self.tasks.switch(&taken.lease, 2, 500, 900).await.unwrap(), "one does not exist yet");
        self.stage(&taken, &second).await;
        assert_eq!(self.tasks.unstaged(&key, None, 99).await.unwrap(), []);
        assert!(!self.tasks.switch(&taken.lease, 3, 500, 900).await.unwrap(), "the index has another id");
        assert_eq!(self.vectors(&first).await, vec![Some(vec![1.0, 0.0]); 2]);
        let one = chunk(&first, 0, "x").id;
        let ids = [one.clone(), "x".into()];
        let staged = self.tasks.staged_vectors(&first, &ids).await.unwrap();
        assert_eq!(staged.into_iter().collect::<Vec<_>>(), [(one, vec![0.0, 0.5, 0.25])]);
        assert!(self.tasks.switch(&taken.lease, 2, 500, 900).await.unwrap());
        for document in [&first, &second] {
            assert_eq!(self.vectors(document).await, vec![Some(vec![0.0, 0.5, 0.25]); 2]);
        }
        assert_eq!(self.vectors(&stranger).await, vec![Some(vec![1.0, 0.0]); 2]);
        let set = self.store.dataset_uncounted(&key).await.unwrap();
        assert_eq!((set.generation, set.embedder.as_str(), set.updated_ms), (1, "new@Model", 500));
        let told = self.tasks.last(&key).await.unwrap().unwrap();
        assert_eq!((told.state, told.progress, told.ended_ms), (ReembeddingState::Done, 1.0, Some(500)));
        // Records made before still exist, with other numbers; and what had no record has one now.
        let filter = NotedFilter {
            now_ms: i64::MAX,
            dataset: Some(key.clone()),
            count_max: 99,
            ..NotedFilter::default()
        };
        assert_eq!(self.queue.to_index(&filter).await.unwrap(), std::slice::from_ref(&first));
        assert!(!self.queue.indexed(&second, note.number).await.unwrap(), "who wrote to the old index");
        // A caller that had read the dataset before cannot write to it.
        let old = vector(&chunk(&first, 0, "y"), &[1.0, 0.0]);
        refused(self.store.put_chunks(&first, &[old], 0).await, Conflict);
        assert!(!self.store.update(&Dataset { generation: 0, ..set.clone() }).await.unwrap());
        assert!(self.store.update(&set).await.unwrap());
        self.cleared(&key, &first).await;
    }

    /// The old vectors are removed in due time; and the task can be reversed.
    async fn cleared(&self, key: &DatasetKey, document: &DocumentKey) {
        assert_eq!(self.tasks.take(899, 1_000).await.unwrap(), None);
        let left = self.tasks.take(900, 1_000).await.unwrap().unwrap();
        assert_eq!((left.task.state, left.is_littered), (ReembeddingState::Done, true));
        refused(self.tasks.switch(&left.lease, 2, 1, 1).await, Conflict);
        let before = self.tasks.staged_vectors(document, &[chunk(document, 0, "x").id]).await.unwrap();
        assert_eq!(before.into_values().collect::<Vec<_>>(), [vec![1.0, 0.0]]);
        self.tasks.clear(&left.lease).await.unwrap();
        let after = self.tasks.staged_vectors(document, &[chunk(document, 0, "x").id]).await.unwrap();
        assert!(after.is_empty());
        self.tasks.settle(&left.lease, &ReembeddingOutcome::Cleared, 901).await.unwrap();
        assert_eq!(self.vectors(document).await, vec![Some(vec![0.0, 0.5, 0.25]); 2]);
        let changed = vector(&chunk(document, 1, "y"), &[0.5, 0.5, 0.5]);
        self.store.put_chunks(document, &[changed], 1).await.unwrap();
        let found = self.vectors(document).await;
        assert_eq!(found, [Some(vec![0.0, 0.5, 0.25]), Some(vec![0.5, 0.5, 0.5])]);
        // Not before the old vectors would have been removed.
        self.tasks.begin(key, "", BEGUN).await.unwrap();
        assert_eq!(self.tasks.take(900, 1_000).await.unwrap(), None);
        let taken = self.tasks.take(901, 1_000).await.unwrap().unwrap();
        self.settle(&taken).await;
    }

    async fn changed_chunks_are_unstaged(&self) {
        let key = self.dataset().await;
        let document = self.document(&key, "a.txt").await;
        let taken = self.taken(&key).await;
        let before = self.numbered(&document).await;
        self.stage(&taken, &document).await;
        let changed = vector(&chunk(&document, 1, "y"), &[0.5, 0.5]);
        self.store.put_chunks(&document, &[changed], 0).await.unwrap();
        assert!(!self.tasks.switch(&taken.lease, 1, 500, 900).await.unwrap());
        let ids = [0, 1].map(|n| chunk(&document, n, "").id);
        let staged = self.tasks.staged_vectors(&document, &ids).await.unwrap();
        assert!(staged.contains_key(&ids[0]) && !staged.contains_key(&ids[1]), "it has a different text");
        let late = [(ids[1].clone(), vec![9.0, 9.0, 9.0])];
        assert!(!self.tasks.stage(&taken.lease, &before, &late).await.unwrap());
        assert!(!self.tasks.staged_vectors(&document, &ids).await.unwrap().contains_key(&ids[1]));
        let gone = NumberedDocument { id: "gone".into(), number: 1 };
        assert!(!self.tasks.stage(&taken.lease, &gone, &late).await.unwrap());
        self.settle(&taken).await;
    }

    async fn documents_being_read_prevent_the_switch(&self) {
        let key = self.dataset().await;
        let [read, waits] = [self.document(&key, "a.txt").await, self.document(&key, "b.txt").await];
        let ids = [read.id.clone(), waits.id.clone()];
        self.queue.queue(&key, &ids, BEGUN).await.unwrap();
        let mut reading = self.queue.take(BEGUN, BEGUN + 1_000, 2).await.unwrap();
        reading.sort_by_key(|one| one.document.key.id != waits.id);
        for one in &reading {
            let new = chunk(&one.document.key, 7, "new");
            self.queue.put_new(&one.lease, &[new], IngestStage::Embedding).await.unwrap();
        }
        // One is paused with its results so far.
        self.queue.stop(&waits, Wanted::Pause, BEGUN).await.unwrap();
        self.queue.settle(&reading[0].lease, &IngestOutcome::Stopped, BEGUN).await.unwrap();
        assert_eq!(self.store.document(&waits).await.unwrap().state, DocumentState::Paused);
        let taken = self.taken(&key).await;
        self.stage(&taken, &read).await;
        self.stage(&taken, &waits).await;
        assert!(!self.tasks.switch(&taken.lease, 2, 500, BEGUN).await.unwrap(), "one is being read");
        self.queue.settle(&reading[1].lease, &IngestOutcome::Released, BEGUN).await.unwrap();
        assert!(self.tasks.switch(&taken.lease, 2, 500, BEGUN).await.unwrap());
        // Both start over: their results were for the old model.
        self.queue.queue(&key, std::slice::from_ref(&waits.id), BEGUN).await.unwrap();
        let again = self.queue.take(BEGUN, BEGUN + 1_000, 2).await.unwrap();
        assert_eq!(again.len(), 2);
        for one in again {
            assert_eq!(one.stage, IngestStage::Reading);
            assert_eq!(self.queue.new_chunks(&one.lease, None, 9).await.unwrap(), []);
            let failed = IngestOutcome::Failed { reason: String::new() };
            self.queue.settle(&one.lease, &failed, BEGUN).await.unwrap();
        }
        let left = self.tasks.take(BEGUN, BEGUN + 100).await.unwrap().unwrap();
        self.tasks.clear(&left.lease).await.unwrap();
        self.tasks.settle(&left.lease, &ReembeddingOutcome::Cleared, BEGUN).await.unwrap();
    }

    async fn a_cancelled_task_is_cleaned_up(&self) {
        let key = self.dataset().await;
        let document = self.document(&key, "a.txt").await;
        let taken = self.taken(&key).await;
        self.stage(&taken, &document).await;
        self.tasks.cancel(&key, BEGUN + 1).await.unwrap();
        refused(self.tasks.cancel(&key, BEGUN).await, Conflict);
        refused(self.tasks.switch(&taken.lease, 1, 500, 900).await, Conflict);
        let told = self.tasks.last(&key).await.unwrap().unwrap();
        assert_eq!((told.state, told.ended_ms), (ReembeddingState::Cancelled, Some(BEGUN + 1)));
        let left = self.tasks.take(BEGUN + 1, BEGUN + 100).await.unwrap().unwrap();
        self.tasks.clear(&left.lease).await.unwrap();
        assert_eq!(self.tasks.unstaged(&key, None, 9).await.unwrap().len(), 1);
        assert_eq!(self.vectors(&document).await, vec![Some(vec![1.0, 0.0]); 2]);
        self.tasks.settle(&left.lease, &ReembeddingOutcome::Cleared, BEGUN).await.unwrap();
        assert_eq!(self.tasks.take(BEGUN + 1, BEGUN + 100).await.unwrap(), None);
    }

    async fn tasks_are_removed_with_their_datasets(&self) {
        let key = self.dataset().await;
        let taken = self.taken(&key).await;
        self.store.remove(&key).await.unwrap();
        assert_eq!(self.tasks.last(&key).await.unwrap(), None);
        refused(self.tasks.report(&taken.lease, &ReembeddingProgress::default(), BEGUN).await, Conflict);
        assert_eq!(self.tasks.take(BEGUN + 1_000, BEGUN + 2_000).await.unwrap(), None);
    }
}
