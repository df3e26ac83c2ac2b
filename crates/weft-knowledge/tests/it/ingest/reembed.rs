//! New vectors replace the old ones at one moment, whatever fails or changes before and after it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use weft_core::counts::Success;
use weft_core::id::{ChunkId, DatasetKey, DocumentId, DocumentKey};
use weft_core::seam::dataset_store::{Dataset, DocumentChange};
use weft_core::seam::reembedding_store::{
    NumberedDocument, Reembedding, ReembeddingLease, ReembeddingOutcome, ReembeddingProgress,
    ReembeddingState, TakenReembedding,
};
use weft_core::seam::{DatasetStore as _, ReembeddingStore};
use weft_core::{Result, async_trait};
use weft_knowledge::ingest::{ChunkEdit, NewChunk, Reembedder, ReembedderPace};
use weft_testkit::MemoryDatasets;
use weft_testkit::memory_store::MemoryStore;

use super::fakes::{Fault, Faults, Faulty};
use super::kit::{Process, World, dataset};

#[async_trait]
impl ReembeddingStore for Faulty<MemoryDatasets> {
    async fn begin(&self, dataset: &DatasetKey, embedder: &str, now_ms: i64) -> Result<()> {
        self.inner.begin(dataset, embedder, now_ms).await
    }

    async fn last(&self, dataset: &DatasetKey) -> Result<Option<Reembedding>> {
        self.inner.last(dataset).await
    }

    async fn cancel(&self, dataset: &DatasetKey, now_ms: i64) -> Result<()> {
        self.inner.cancel(dataset, now_ms).await
    }

    async fn take(&self, now_ms: i64, until_ms: i64) -> Result<Option<TakenReembedding>> {
        // Finding nothing to do is no step.
        let taken = ReembeddingStore::take(&self.inner, now_ms, until_ms).await?;
        if taken.is_some() {
            self.faults.step().await?;
        }
        Ok(taken)
    }

    async fn report(
        &self,
        lease: &ReembeddingLease,
        progress: &ReembeddingProgress,
        until_ms: i64,
    ) -> Result<()> {
        ReembeddingStore::report(&self.inner, lease, progress, until_ms).await
    }

    async fn unstaged(
        &self,
        dataset: &DatasetKey,
        after: Option<&DocumentId>,
        limit: u64,
    ) -> Result<Vec<NumberedDocument>> {
        self.faults.around(self.inner.unstaged(dataset, after, limit)).await
    }

    async fn staged_vectors(
        &self,
        document: &DocumentKey,
        ids: &[ChunkId],
    ) -> Result<HashMap<ChunkId, Vec<f32>>> {
        self.faults.around(self.inner.staged_vectors(document, ids)).await
    }

    async fn stage(
        &self,
        lease: &ReembeddingLease,
        document: &NumberedDocument,
        vectors: &[(ChunkId, Vec<f32>)],
    ) -> Result<bool> {
        self.faults.around(self.inner.stage(lease, document, vectors)).await
    }

    async fn staged(&self, lease: &ReembeddingLease, documents: &[NumberedDocument]) -> Result<()> {
        self.faults.around(self.inner.staged(lease, documents)).await
    }

    async fn switch(
        &self,
        lease: &ReembeddingLease,
        documents: u64,
        now_ms: i64,
        clear_from_ms: i64,
    ) -> Result<bool> {
        self.faults.around(self.inner.switch(lease, documents, now_ms, clear_from_ms)).await
    }

    async fn clear(&self, lease: &ReembeddingLease) -> Result<()> {
        self.faults.around(self.inner.clear(lease)).await
    }

    async fn settle(
        &self,
        lease: &ReembeddingLease,
        outcome: &ReembeddingOutcome,
        now_ms: i64,
    ) -> Result<()> {
        self.faults.around(ReembeddingStore::settle(&self.inner, lease, outcome, now_ms)).await
    }
}

/// A world whose datasets get new vectors.
struct Anew {
    world: World,
    memory: MemoryDatasets,
}

/// What is found through the one index that a query would read, as long as nothing is wrong.
type Found = BTreeMap<ChunkId, Option<Vec<f32>>>;

impl Anew {
    /// Seven documents that are read, one of them large.
    async fn new() -> Self {
        let memory = MemoryDatasets::new();
        let set = dataset("hash@Test", &json!({}));
        let world = World::over(Arc::new(memory.clone()), Arc::new(memory.clone()), set).await;
        let mut keys = Vec::new();
        for n in 0..7 {
            let count = if n == 5 { 70 } else { 1 + n };
            let lines: Vec<String> = (0..count).map(|line| format!("line {line} of {n}")).collect();
            keys.push(world.add(&format!("d{n}"), &format!("# a section\n{}", lines.join("\n"))).await);
        }
        world.queue(&keys).await;
        assert!(world.work(&world.process(Faults::default())).await);
        // One chunk is hidden, and could be unhidden without a model call.
        let hidden = world.found(&keys[2]).await.remove(0).id;
        let edit = ChunkEdit { available: Some(false), ..ChunkEdit::default() };
        world.process(Faults::default()).library.update_chunk(&keys[2], &hidden, edit).await.unwrap();
        Self { world, memory }
    }

    async fn begin(&self, embedder: &str) {
        let now_ms = self.world.clock.now_ms();
        self.memory.begin(&self.world.dataset, embedder, now_ms).await.unwrap();
    }

    fn worker(&self, process: &Process) -> Reembedder {
        let tasks = Faulty { inner: self.memory.clone(), faults: process.faults.clone() };
        Reembedder::new(Arc::clone(&process.library), Arc::new(tasks), ReembedderPace::default())
    }

    async fn last(&self) -> Reembedding {
        self.memory.last(&self.world.dataset).await.unwrap().unwrap()
    }

    async fn set(&self) -> Dataset {
        self.memory.dataset(&self.world.dataset).await.unwrap()
    }

    /// Lets a process work until the task is over and its leftovers are removed. Returns whether it did not
    /// crash.
    async fn work(&self, process: &Process) -> bool {
        let stop = CancellationToken::new();
        let worker = self.worker(process);
        let over = async {
            while self.last().await.state == ReembeddingState::Running || !self.is_clear().await {
                tokio::time::sleep(Duration::from_millis(700)).await;
            }
        };
        tokio::select! {
            biased;
            () = process.faults.crashed() => false,
            () = over => true,
            () = Box::pin(worker.run(&stop)) => unreachable!("nobody has stopped it"),
        }
    }

    /// Whether nothing is left besides the searched index.
    async fn is_clear(&self) -> bool {
        let held = self.world.index.held(&self.set().await.next_index());
        held.documents.is_empty() && held.chunks.is_empty()
    }

    /// The result of a query: all vectors are of the model that the dataset names, and index and store agree.
    async fn found(&self) -> Found {
        let set = self.set().await;
        let held = self.world.index.held(&set.index());
        let length = match set.embedder.as_str() {
            "" => None,
            "hash@Test" => Some(8),
            "wide@Test" => Some(12),
            other => panic!("{other}"),
        };
        let mut stored = Found::new();
        let mut documents = BTreeSet::new();
        for document in self.world.documents().await {
            for chunk in self.world.found(&document.key).await {
                assert_eq!(chunk.vector.as_ref().map(Vec::len), length, "{} of {}", chunk.id, document.name);
                if chunk.available {
                    stored.insert(chunk.id, chunk.vector);
                }
            }
            documents.insert(document.key.id);
        }
        let indexed = held.chunks.into_iter().map(|(id, (_, chunk))| (id, chunk.vector)).collect();
        assert_eq!(stored, indexed);
        assert_eq!(held.documents.into_keys().collect::<BTreeSet<_>>(), documents);
        stored
    }
}

fn is_done(task: &Reembedding) {
    assert_eq!(
        (task.state, task.progress, task.message.as_str()),
        (ReembeddingState::Done, 1.0, "Task done")
    );
}

async fn undisturbed() -> (Found, usize, usize) {
    let anew = Anew::new().await;
    let before = anew.found().await;
    assert_eq!(before.len(), 1 + 2 + 2 + 4 + 5 + 70 + 7);
    anew.begin("wide@Test").await;
    let process = anew.world.process(Faults::default());
    assert!(anew.work(&process).await);
    is_done(&anew.last().await);
    let set = anew.set().await;
    assert_eq!((set.generation, set.embedder.as_str()), (1, "wide@Test"));
    let found = anew.found().await;
    for (id, vector) in &found {
        let old = before[id].as_ref().unwrap();
        let new = vector.as_ref().unwrap();
        assert!(
            old.iter().zip(new).all(|(old, new)| (old - new).abs() < 1e-6),
            "the same text, the same share of the name"
        );
    }
    (found, process.faults.steps(), process.models.wide.texts.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_step_is_invisible_and_repeats_little() {
    let (expected, steps, texts) = undisturbed().await;
    assert_eq!(texts, 92 + 7, "every chunk once, and the name of every document");
    assert!(steps > 60, "{steps}");
    for step in 0..steps {
        let anew = Anew::new().await;
        anew.begin("wide@Test").await;
        let crashing = anew.world.process(Faults::at(step, Fault::Crash));
        if anew.work(&crashing).await {
            continue;
        }
        // A query at this point finds everything of one model.
        anew.found().await;
        let made = crashing.models.wide.texts.load(Ordering::SeqCst);
        drop(crashing);
        let next = anew.world.process(Faults::default());
        assert!(anew.work(&next).await);
        is_done(&anew.last().await);
        assert_eq!(anew.found().await, expected, "after a crash at step {step}");
        let again = made + next.models.wide.texts.load(Ordering::SeqCst) - texts;
        assert!(again <= 4 * 33, "{again} texts were embedded twice after a crash at step {step}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_seam_failure_at_any_step_only_delays() {
    let (expected, steps, _) = undisturbed().await;
    for step in 0..steps {
        let anew = Anew::new().await;
        anew.begin("wide@Test").await;
        assert!(anew.work(&anew.world.process(Faults::at(step, Fault::Fail))).await);
        is_done(&anew.last().await);
        assert_eq!(anew.found().await, expected, "after a failure at step {step}");
    }
}

#[tokio::test(start_paused = true)]
async fn edits_at_any_step_are_found_afterwards() {
    let (_, steps, _) = undisturbed().await;
    for step in 0..steps {
        let anew = Anew::new().await;
        anew.begin("wide@Test").await;
        let held = anew.world.process(Faults::at(step, Fault::Hold));
        let people = async {
            held.faults.held().await;
            let other = anew.world.process(Faults::default());
            let library = &other.library;
            let key = |n: usize| anew.world.key(&format!("d{n}"));
            let chunk = anew.world.found(&key(0)).await.remove(0).id;
            let edit = ChunkEdit { content: Some("edited".into()), ..ChunkEdit::default() };
            library.update_chunk(&key(0), &chunk, edit).await.unwrap();
            let new = NewChunk { content: "added".into(), ..NewChunk::default() };
            library.add_chunk(&key(1), new).await.unwrap();
            library.remove_documents(&anew.world.dataset, &[key(3).id]).await.unwrap();
            let change = DocumentChange { enabled: Some(false), ..DocumentChange::default() };
            library.update_document(&key(4), &change).await.unwrap();
            let fresh = anew.world.add("fresh", "one\ntwo").await;
            anew.world.write(&key(6), "read again").await;
            anew.world.queue(&[fresh, key(6)]).await;
            assert!(anew.world.work(&other).await);
            held.faults.release();
        };
        let (whole, ()) = futures::join!(anew.work(&held), people);
        assert!(whole);
        is_done(&anew.last().await);
        let found = anew.found().await;
        assert_eq!(found.len(), 1 + 3 + 2 + 5 + 70 + 1 + 2, "at step {step}");
        let texts = anew.world.texts(&anew.world.key("d0")).await;
        assert_eq!(
            (texts, anew.world.texts(&anew.world.key("d6")).await),
            (vec!["edited".into()], vec!["read again".into()])
        );
        assert!(anew.world.noted().await.is_empty(), "nothing is left to repair");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_reembedding_leaves_nothing() {
    let (_, steps, _) = undisturbed().await;
    for step in 0..steps {
        let anew = Anew::new().await;
        let before = anew.found().await;
        anew.begin("wide@Test").await;
        let held = anew.world.process(Faults::at(step, Fault::Hold));
        let people = async {
            held.faults.held().await;
            let cancelled = anew.memory.cancel(&anew.world.dataset, anew.world.clock.now_ms()).await;
            held.faults.release();
            cancelled
        };
        let (whole, cancelled) = futures::join!(anew.work(&held), people);
        assert!(whole);
        let found = anew.found().await;
        match cancelled {
            Ok(()) => assert_eq!((anew.last().await.state, found), (ReembeddingState::Cancelled, before)),
            // It was done before.
            Err(_) => is_done(&anew.last().await),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dataset_removed_meanwhile_leaves_no_index() {
    let (_, steps, _) = undisturbed().await;
    for step in 0..steps {
        let anew = Anew::new().await;
        anew.begin("wide@Test").await;
        let held = anew.world.process(Faults::at(step, Fault::Hold));
        let worker = anew.worker(&held);
        let stop = CancellationToken::new();
        let people = async {
            held.faults.held().await;
            let other = anew.world.process(Faults::default());
            other.library.remove_dataset(&anew.world.dataset).await.unwrap();
            held.faults.release();
            tokio::time::sleep(Duration::from_secs(5)).await;
            stop.cancel();
        };
        futures::join!(people, Box::pin(worker.run(&stop)));
        for index in Dataset::indexes(&anew.world.dataset) {
            assert!(anew.world.index.held(&index).documents.is_empty(), "{} at step {step}", index.id);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dataset_can_drop_and_regain_vectors() {
    let anew = Anew::new().await;
    anew.begin("").await;
    let process = anew.world.process(Faults::default());
    assert!(anew.work(&process).await);
    assert_eq!((anew.set().await.embedder.as_str(), anew.set().await.generation), ("", 1));
    assert!(anew.found().await.values().all(Option::is_none));
    anew.begin("hash@Test").await;
    assert!(anew.work(&process).await);
    assert_eq!((anew.set().await.embedder.as_str(), anew.set().await.generation), ("hash@Test", 2));
    assert!(anew.found().await.values().all(Option::is_some));
}

#[tokio::test(start_paused = true)]
async fn a_missing_model_is_reported() {
    let anew = Anew::new().await;
    let before = anew.found().await;
    anew.begin("gone@Test").await;
    assert!(anew.work(&anew.world.process(Faults::default())).await);
    let task = anew.last().await;
    assert_eq!(task.state, ReembeddingState::Failed);
    assert!(task.message.contains("there is no model `gone@Test`"), "{}", task.message);
    assert_eq!(anew.found().await, before);
}

#[tokio::test(start_paused = true)]
async fn tokens_read_for_new_vectors_are_recorded() {
    let anew = Anew::new().await;
    let uses = Arc::new(MemoryStore::default());
    let process = anew.world.noting_process(&uses);
    anew.begin("wide@Test").await;
    assert!(anew.work(&process).await);
    let texts = process.models.wide.texts.load(Ordering::SeqCst) as u64;
    assert_eq!(anew.world.used(&uses).await, [("dataset:d|wide@Test||".to_owned(), texts)]);
    assert_eq!(process.library.counts().reembeddings.get(Success::Succeeded), 1);
}
