//! Whatever fails, and wherever: the end result is the same.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use weft_core::id::DatasetKey;
use weft_core::seam::dataset_store::DocumentState;
use weft_core::seam::index::{IndexAnswer, IndexChange, IndexQuery, IndexSize, WriteConfirmation};
use weft_core::seam::ingest_queue::Wanted;
use weft_core::seam::{BlobStore, Index};
use weft_core::{Error, ErrorKind, Result, TenantId, async_trait};
use weft_knowledge::Library;
use weft_knowledge::ingest::{LibraryLimits, LibraryParts, Naming, NewChunk, WorkerPace};
use weft_store::Store;
use weft_testkit::MemoryBlobs;

use super::fakes::{FakeIndex, Fault, Faults, Faulty, LineReader, Models};
use super::kit::{Dump, World, dataset};

const DOCUMENTS: usize = 26;

/// A text with a parent, repetitions, and a different length for each document.
fn text(n: usize) -> String {
    let lines = (0..n % 7 * 9).map(|line| format!("line {line} of {n}"));
    let head = ["# a section".to_owned(), "twice".to_owned(), format!("only in {n}"), "twice".to_owned()];
    head.into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}

/// 26 queued documents, of which one is broken and one was read before.
async fn with_26(world: &World) {
    let before = world.add("d03", "old\ntwice\nwords").await;
    world.queue(std::slice::from_ref(&before)).await;
    assert!(world.work(&world.process(Faults::default())).await);
    assert_eq!(world.texts(&before).await, ["old", "twice", "words"]);
    let mut keys = vec![before.clone()];
    for n in (0..DOCUMENTS).filter(|n| *n != 3) {
        let text = if n == 11 { "fine\nbroken".to_owned() } else { text(n) };
        keys.push(world.add(&format!("d{n:02}"), &text).await);
    }
    world.write(&before, &text(3)).await;
    world.queue(&keys).await;
}

async fn undisturbed() -> (Dump, usize) {
    let world = World::new("hash@Test").await;
    with_26(&world).await;
    let process = world.process(Faults::default());
    assert!(world.work(&process).await);
    (world.dump().await, process.faults.steps())
}

fn is_whole(dump: &Dump) {
    assert_eq!(dump.chunks.len(), DOCUMENTS);
    let all: Vec<_> = dump.chunks.values().flatten().collect();
    let expected: usize = (0..DOCUMENTS).filter(|n| *n != 11).map(|n| 3 + n % 7 * 9).sum();
    assert_eq!(all.len(), expected);
    assert!(all.iter().all(|chunk| chunk.vector.as_ref().is_some_and(|vector| vector.len() == 8)));
    assert!(all.iter().all(|chunk| dump.index.chunks.contains_key(&chunk.id)));
    assert_eq!(dump.index.chunks.len(), expected);
    for (name, state, message) in &dump.messages {
        let expected = match name.as_str() {
            "d11.txt" => (DocumentState::Failed, "`d11.txt` is broken in its second line"),
            _ => (DocumentState::Done, "Task done"),
        };
        assert_eq!((*state, message.as_str()), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_step_loses_and_duplicates_nothing() {
    let (expected, steps) = undisturbed().await;
    is_whole(&expected);
    println!("{steps} steps");
    assert!(steps > 300);
    for step in 0..steps {
        let world = World::new("hash@Test").await;
        with_26(&world).await;
        let crashing = world.process(Faults::at(step, Fault::Crash));
        if world.work(&crashing).await {
            continue;
        }
        drop(crashing);
        assert!(world.work(&world.process(Faults::default())).await);
        assert!(world.dump().await == expected, "after a crash at step {step}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_seam_failure_at_any_step_only_delays() {
    let (expected, steps) = undisturbed().await;
    for step in 0..steps {
        let world = World::new("hash@Test").await;
        with_26(&world).await;
        assert!(world.work(&world.process(Faults::at(step, Fault::Fail))).await);
        let dump = world.dump().await;
        assert!(dump == expected, "after a failure at step {step}: {:?}", dump.messages);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_loses_nothing_in_a_real_store() {
    let (expected, steps) = undisturbed().await;
    for step in (5..steps).step_by(steps / 6) {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("weft.db").display());
        let store = Store::open(&url).await.unwrap();
        let mut world =
            World::over(Arc::new(store.clone()), Arc::new(store.clone()), dataset("hash@Test", &json!({})))
                .await;
        world.pace = WorkerPace {
            look_every: Duration::from_millis(20),
            lease: Duration::from_millis(2_000),
            tell_every: Duration::from_millis(100),
            repair_every: Duration::from_millis(100),
            ..WorkerPace::default()
        };
        with_26(&world).await;
        let crashing = world.process(Faults::at(step, Fault::Crash));
        if !world.work(&crashing).await {
            drop(crashing);
            assert!(world.work(&world.process(Faults::default())).await);
        }
        assert!(world.dump().await == expected, "after a crash at step {step}");
        store.close().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn embedded_chunks_are_not_embedded_again() {
    let world = World::new("hash@Test").await;
    let key = world.add("d", &(0..100).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n")).await;
    world.queue(std::slice::from_ref(&key)).await;
    // Four batches; the embedder fails at the third.
    let whole = world.process(Faults::default());
    assert!(world.work(&whole).await);
    assert_eq!(whole.models.embedder.texts.load(Ordering::SeqCst), 101);
    world.queue(std::slice::from_ref(&key)).await;
    let first = world.process(Faults::default());
    let late = tokio::select! {
        worked = world.work(&first) => worked,
        () = async {
            while first.models.embedder.texts.load(Ordering::SeqCst) < 65 {
                tokio::task::yield_now().await;
            }
        } => false,
    };
    assert!(!late);
    drop(first);
    let second = world.process(Faults::default());
    assert!(world.work(&second).await);
    assert!(second.models.embedder.texts.load(Ordering::SeqCst) <= 101 - 32);
    assert_eq!(second.reader.reads.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_document_that_kills_every_worker_is_given_up() {
    let world = World::new("hash@Test").await;
    let (bad, good) = (world.add("bad", "a\nb").await, world.add("good", "c").await);
    world.queue(std::slice::from_ref(&bad)).await;
    for _ in 0..6 {
        // The second step is in the middle of its reading.
        assert!(!world.work(&world.process(Faults::at(3, Fault::Crash))).await);
        tokio::time::sleep(Duration::from_secs(31)).await;
    }
    world.queue(std::slice::from_ref(&good)).await;
    assert!(world.work(&world.process(Faults::default())).await);
    let (state, message) = world.state(&bad).await;
    assert_eq!(state, DocumentState::Failed);
    assert_eq!(message, "it was started 6 times without success: Reading the file");
    assert_eq!(world.state(&good).await.0, DocumentState::Done);
}

#[tokio::test(start_paused = true)]
async fn a_stop_of_a_dead_worker_leaves_the_index_consistent() {
    // At every step of a second reading the process dies, and then the document is cancelled.
    for step in 0..80 {
        let world = World::new("hash@Test").await;
        let key = world.add("d", "old\nsame").await;
        world.queue(std::slice::from_ref(&key)).await;
        assert!(world.work(&world.process(Faults::default())).await);
        let before = world.dump().await;
        world.write(&key, "new\nsame\nmore").await;
        world.queue(std::slice::from_ref(&key)).await;
        if world.work(&world.process(Faults::at(step, Fault::Crash))).await {
            assert!(step > 20, "{step}");
            return;
        }
        tokio::time::sleep(Duration::from_secs(31)).await;
        let stopped = world.queue.stop(&key, Wanted::Cancel, world.clock.now_ms()).await;
        let process = world.process(Faults::default());
        assert!(world.work(&process).await);
        let after = world.dump().await;
        if stopped.is_ok() {
            assert_eq!(world.texts(&key).await, ["old", "same"]);
            assert!(after.chunks == before.chunks && after.index == before.index, "after step {step}");
        } else {
            assert_eq!(world.index.contents(&key), ["more", "new", "same"]);
        }
    }
    panic!("more steps exist");
}

/// The seams of a process that does not fail.
pub(super) fn parts(world: &World) -> LibraryParts {
    LibraryParts {
        store: Arc::clone(&world.store),
        queue: Arc::clone(&world.queue),
        blobs: Arc::new(world.blobs.clone()),
        index: Arc::new(world.index.clone()),
        reader: Arc::new(LineReader::default()),
        models: Arc::new(Models::new(&Faults::default())),
        clock: Arc::clone(&world.clock),
        additions: Vec::new(),
    }
}

/// A file store whose process is killed as soon as something is stored.
pub(super) struct LastStored(pub MemoryBlobs);

#[async_trait]
impl BlobStore for LastStored {
    async fn put(&self, tenant: &TenantId, name: &str, bytes: Bytes) -> Result<()> {
        self.0.put(tenant, name, bytes).await?;
        std::future::pending().await
    }

    async fn get(&self, tenant: &TenantId, name: &str) -> Result<Bytes> {
        self.0.get(tenant, name).await
    }

    async fn remove(&self, tenant: &TenantId, name: &str) -> Result<()> {
        self.0.remove(tenant, name).await
    }

    async fn below(&self, tenant: &TenantId, folder: &str) -> Result<Vec<String>> {
        self.0.below(tenant, folder).await
    }

    async fn remove_all(&self, tenant: &TenantId) -> Result<()> {
        self.0.remove_all(tenant).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_of_a_killed_upload_is_removed() {
    let world = World::new("").await;
    let parts = LibraryParts { blobs: Arc::new(LastStored(world.blobs.clone())), ..parts(&world) };
    let killed = Library::new(parts, LibraryLimits::default());
    let upload = killed.upload(&world.dataset, "lost.txt", "text".into(), Naming::Exact);
    tokio::time::timeout(Duration::from_secs(1), upload).await.unwrap_err();
    let next = world.process(Faults::default()).library;
    let kept = next.upload(&world.dataset, "kept.txt", "text".into(), Naming::Exact).await.unwrap();
    next.repair().await.unwrap();
    assert_eq!(world.blobs.names().len(), 2, "its process may be slow, not dead");
    tokio::time::sleep(Duration::from_secs(25 * 3_600)).await;
    next.repair().await.unwrap();
    assert_eq!(world.blobs.names(), [kept.blob]);
    assert!(world.idle().await);
}

/// An index that accepts entries to be written with others, and does not write them.
struct Forgetful(FakeIndex);

#[async_trait]
impl Index for Forgetful {
    async fn write(&self, dataset: &DatasetKey, changes: Vec<IndexChange>) -> Result<()> {
        self.0.write(dataset, changes).await
    }

    async fn write_behind(&self, _: &DatasetKey, _: Vec<IndexChange>) -> Result<WriteConfirmation> {
        Ok(Box::pin(async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            Err(Error::new(ErrorKind::Unavailable, "the disk is full"))
        }))
    }

    async fn remove(&self, dataset: &DatasetKey) -> Result<()> {
        self.0.remove(dataset).await
    }

    async fn search(&self, tenant: &TenantId, query: &IndexQuery) -> Result<IndexAnswer> {
        self.0.search(tenant, query).await
    }

    async fn size(&self, dataset: &DatasetKey) -> Result<IndexSize> {
        self.0.size(dataset).await
    }
}

#[tokio::test(start_paused = true)]
async fn unwritten_index_entries_are_repaired_after_a_store_outage() {
    let world = World::new("").await;
    let key = world.add("d", "a").await;
    world.queue(std::slice::from_ref(&key)).await;
    assert!(world.work(&world.process(Faults::default())).await);
    // The first call to the queue marks the document for reindexing.
    let queue = Faulty { inner: Arc::clone(&world.queue), faults: Faults::at(0, Fault::Fail) };
    let index = Arc::new(Forgetful(world.index.clone()));
    let parts = LibraryParts { queue: Arc::new(queue), index, ..parts(&world) };
    let library = Library::new(parts, LibraryLimits::default());
    let new = NewChunk { content: "b".into(), ..NewChunk::default() };
    library.add_chunk(&key, new).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.noted().await, std::slice::from_ref(&key));
    let elsewhere = DatasetKey::new(&key.dataset.tenant, "elsewhere");
    assert_eq!(library.repair_dataset(&elsewhere).await.unwrap(), 0);
    assert_eq!(library.repair_dataset(&key.dataset).await.unwrap(), 1);
    assert_eq!(world.index.contents(&key), ["a", "b"]);
    assert!(world.noted().await.is_empty());
}
