//! Processing of documents: paused, cancelled, postponed, by one worker or two.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use weft_core::id::{CanvasId, DocumentKey};
use weft_core::seam::ModelDirectory;
use weft_core::seam::dataset_store::{Document, DocumentChange, DocumentState, Extra, Settings, StoredChunk};
use weft_core::seam::document_reader::ChunkMethod;
use weft_core::seam::ingest_queue::Wanted;
use weft_core::value::Json;
use weft_core::{Result, async_trait};
use weft_knowledge::additions::MindMap;
use weft_knowledge::ingest::{Addition, IngestEnding, MadeAddition, PipelineRunner};
use weft_testkit::MemoryDatasets;
use weft_testkit::memory_store::MemoryStore;

use super::fakes::{Fault, Faults, hashed};
use super::kit::{Process, World, dataset};

async fn with_settings(settings: Json) -> World {
    let memory = MemoryDatasets::new();
    World::over(Arc::new(memory.clone()), Arc::new(memory), dataset("hash@Test", &settings)).await
}

fn second() -> Duration {
    Duration::from_secs(1)
}

#[tokio::test(start_paused = true)]
async fn a_document_can_be_paused_resumed_and_cancelled() {
    let world = World::new("hash@Test").await;
    let process = world.process(Faults::default());
    *process.reader.pause.lock().unwrap() = Duration::from_secs(3_600);
    let key = world.add("d", "a\nb").await;
    world.queue(std::slice::from_ref(&key)).await;
    let stop = CancellationToken::new();
    let all = async {
        for (wanted, state) in
            [(Wanted::Pause, DocumentState::Paused), (Wanted::Cancel, DocumentState::Cancelled)]
        {
            // It outlives its lease, since its worker renews it.
            tokio::time::sleep(Duration::from_secs(100)).await;
            assert_eq!(world.state(&key).await, (DocumentState::Running, "Reading the file".to_owned()));
            process.library.stop(&key, wanted).await.unwrap();
            tokio::time::sleep(second()).await;
            assert_eq!(world.state(&key).await.0, state);
            assert_eq!(process.reader.at_once.load(Ordering::SeqCst), 0, "it is no longer being read");
            process.library.queue(&world.dataset, std::slice::from_ref(&key.id)).await.unwrap();
        }
        *process.reader.pause.lock().unwrap() = Duration::ZERO;
        process.library.stop(&key, Wanted::Cancel).await.unwrap();
        tokio::time::sleep(second()).await;
        process.library.queue(&world.dataset, std::slice::from_ref(&key.id)).await.unwrap();
        tokio::time::sleep(second()).await;
        assert_eq!(world.state(&key).await, (DocumentState::Done, "Task done".to_owned()));
        stop.cancel();
    };
    tokio::join!(process.worker.run(&stop, Duration::ZERO), all);
    assert_eq!(world.index.contents(&key), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn two_workers_never_read_the_same_document() {
    let world = World::new("hash@Test").await;
    let mut keys = Vec::new();
    for n in 0..10 {
        keys.push(world.add(&format!("d{n}"), &format!("text {n}")).await);
    }
    world.queue(&keys).await;
    let (first, second) = (world.process(Faults::default()), world.process(Faults::default()));
    for process in [&first, &second] {
        *process.reader.pause.lock().unwrap() = Duration::from_secs(90);
    }
    let both = futures::future::join(world.work(&first), world.work(&second));
    assert_eq!(both.await, (true, true));
    let reads = [&first, &second].map(|process| process.reader.reads.load(Ordering::SeqCst));
    assert_eq!(reads.iter().sum::<usize>(), 10);
    assert!(reads.iter().all(|reads| *reads > 2), "{reads:?}");
    assert_eq!(first.reader.most_at_once.load(Ordering::SeqCst), world.pace.concurrency);
}

#[tokio::test(start_paused = true)]
async fn a_stopping_worker_hands_back_its_documents() {
    let world = World::new("hash@Test").await;
    let key = world.add("d", "a").await;
    world.queue(std::slice::from_ref(&key)).await;
    let first = world.process(Faults::default());
    *first.reader.pause.lock().unwrap() = Duration::from_secs(3_600);
    let stop = CancellationToken::new();
    let stopping = async {
        tokio::time::sleep(second()).await;
        stop.cancel();
    };
    tokio::join!(first.worker.run(&stop, Duration::from_secs(5)), stopping);
    // At once, and as if nobody had started.
    let taken = world.queue.take(world.clock.now_ms(), i64::MAX, 9).await.unwrap();
    assert_eq!((taken.len(), taken[0].attempts), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_rate_limited_embedder_is_retried_later() {
    let world = World::new("hash@Test").await;
    let key = world.add("d", "a\nb").await;
    world.queue(std::slice::from_ref(&key)).await;
    let process = world.process(Faults::default());
    process.models.embedder.busy.store(2, Ordering::SeqCst);
    let begun = world.clock.now_ms();
    assert!(world.work(&process).await);
    assert_eq!(world.state(&key).await, (DocumentState::Done, "Task done".to_owned()));
    // The requested delay each time, and the file was read once.
    assert!(world.clock.now_ms() - begun > 80_000);
    assert_eq!(process.reader.reads.load(Ordering::SeqCst), 1);
    // Not forever.
    world.queue(std::slice::from_ref(&key)).await;
    process.models.embedder.busy.store(usize::MAX, Ordering::SeqCst);
    assert!(world.work(&process).await);
    assert_eq!(world.state(&key).await, (DocumentState::Failed, "429".to_owned()));
    assert_eq!(world.texts(&key).await, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn work_that_progresses_is_not_given_up() {
    let world = with_settings(json!({"filename_embd_weight": 0.0})).await;
    let text = |n: usize| (0..n).map(|line| format!("line {line}")).collect::<Vec<_>>().join("\n");
    let key = world.add("d", &text(32 * 12)).await;
    world.queue(std::slice::from_ref(&key)).await;
    let process = world.process(Faults::default());
    // Twelve batches, and a wait after each of them.
    process.models.embedder.stumbling.store(true, Ordering::SeqCst);
    assert!(world.work(&process).await);
    assert_eq!(world.state(&key).await, (DocumentState::Done, "Task done".to_owned()));
    assert_eq!(process.models.embedder.texts.load(Ordering::SeqCst), 32 * 12);
    // Five times in vain; the sixth attempt is the last one, and succeeds.
    world.write(&key, &text(40)).await;
    world.queue(std::slice::from_ref(&key)).await;
    process.models.embedder.calls.store(1, Ordering::SeqCst);
    process.models.embedder.busy.store(2, Ordering::SeqCst);
    assert!(world.work(&process).await);
    assert_eq!(world.state(&key).await, (DocumentState::Done, "Task done".to_owned()));
    assert_eq!(world.texts(&key).await.len(), 40);
}

#[tokio::test(start_paused = true)]
async fn given_up_work_resumes_on_request() {
    let mut world = with_settings(json!({"filename_embd_weight": 0.0, "toc_extraction": true})).await;
    world.additions = vec![Arc::new(Count)];
    let key = world.add("d", "a").await;
    world.queue(std::slice::from_ref(&key)).await;
    assert!(world.work(&world.process(Faults::default())).await);
    let contents = async || world.store.extra(&key, Extra::Contents).await.unwrap();
    assert_eq!(contents().await, Some(json!(["a"])));
    world.write(&key, "b").await;
    world.queue(std::slice::from_ref(&key)).await;
    let process = world.process(Faults::default());
    process.models.embedder.busy.store(usize::MAX, Ordering::SeqCst);
    assert!(world.work(&process).await);
    assert_eq!(world.state(&key).await, (DocumentState::Failed, "429".to_owned()));
    assert_eq!((world.texts(&key).await, contents().await), (vec!["a".to_owned()], Some(json!(["a"]))));
    process.models.embedder.busy.store(0, Ordering::SeqCst);
    world.queue(std::slice::from_ref(&key)).await;
    assert!(world.work(&process).await);
    assert_eq!((world.texts(&key).await, contents().await), (vec!["b".to_owned()], Some(json!(["b"]))));
    assert_eq!(process.reader.reads.load(Ordering::SeqCst), 1, "it is not read again");
}

#[tokio::test(start_paused = true)]
async fn a_bad_file_fails_alone_with_a_reason() {
    let world = World::new("hash@Test").await;
    let keys =
        [world.add("good", "a").await, world.add("bad", "a\nbroken").await, world.add("empty", "\n").await];
    world.queue(&keys[..2]).await;
    world.queue(&keys[2..]).await;
    assert!(world.work(&world.process(Faults::default())).await);
    assert_eq!(world.state(&keys[0]).await.0, DocumentState::Done);
    let failed = |why: &str| (DocumentState::Failed, why.to_owned());
    assert_eq!(world.state(&keys[1]).await, failed("`bad.txt` is broken in its second line"));
    assert_eq!(world.state(&keys[2]).await.0, DocumentState::Done);
    let gone = world.add("gone", "").await;
    world.queue(std::slice::from_ref(&gone)).await;
    assert!(world.work(&world.process(Faults::default())).await);
    assert_eq!(world.state(&gone).await, failed("there is no text in the file"));
}

#[tokio::test(start_paused = true)]
async fn old_chunks_are_found_until_the_new_ones_are_in() {
    let world = World::new("hash@Test").await;
    let key = world.add("d", "old\nsame").await;
    world.queue(std::slice::from_ref(&key)).await;
    assert!(world.work(&world.process(Faults::default())).await);
    let same = world.found(&key).await[1].id.clone();
    world.write(&key, "same\nnew").await;
    world.queue(std::slice::from_ref(&key)).await;
    // The result at each step: both of the store and of the index.
    let seen = async || {
        let held = world.index.held(&world.dataset);
        let found = world.found(&key).await;
        assert!(found.iter().all(|chunk| held.chunks.contains_key(&chunk.id)), "found at any time");
        found.into_iter().map(|chunk| chunk.content).collect::<Vec<_>>()
    };
    for step in 0.. {
        let process = world.process(Faults::at(step, super::fakes::Fault::Crash));
        let worked = world.work(&process).await;
        let texts = seen().await;
        assert!(texts == ["old", "same"] || texts == ["same", "new"], "{texts:?} at {step}");
        if worked {
            assert_eq!(texts, ["same", "new"]);
            break;
        }
        // Restarted each time, so that every step occurs.
        tokio::time::sleep(Duration::from_secs(31)).await;
        if world.state(&key).await.0 == DocumentState::Running {
            world.queue.stop(&key, Wanted::Cancel, world.clock.now_ms()).await.unwrap();
            world.queue(std::slice::from_ref(&key)).await;
        }
    }
    assert_eq!(world.found(&key).await[0].id, same, "unchanged chunks keep their ids");
    assert_eq!(world.index.contents(&key), ["new", "same"]);
}

#[tokio::test(start_paused = true)]
async fn a_dataset_without_an_embedder_is_reported() {
    let world = World::new("").await;
    let key = world.add("d", "a").await;
    world.queue(std::slice::from_ref(&key)).await;
    assert!(world.work(&world.process(Faults::default())).await);
    let (state, message) = world.state(&key).await;
    assert_eq!(state, DocumentState::Done);
    assert_eq!(message, "Task done. The dataset has no embedder: it is searched by words alone");
    assert_eq!(world.found(&key).await[0].vector, None);
    assert_eq!(world.index.contents(&key), ["a"]);
}

struct Count;

#[async_trait]
impl Addition for Count {
    fn extra(&self) -> Extra {
        Extra::Contents
    }

    fn wanted(&self, settings: &Settings) -> bool {
        settings.get("toc_extraction") == Some(&json!(true))
    }

    async fn make(
        &self,
        _: &dyn ModelDirectory,
        _: &Document,
        chunks: &[StoredChunk],
    ) -> Result<MadeAddition> {
        let value = json!(chunks.iter().map(|chunk| &chunk.content).collect::<Vec<_>>());
        Ok(MadeAddition { value, notes: vec!["part 2 gave nothing".into()] })
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_adds_the_configured_extras() {
    let settings = json!({"auto_keywords": 2, "auto_questions": 1, "enable_metadata": true, "toc_extraction": true,
        "metadata": [{"key": "author"}, {"key": "year"}], "filename_embd_weight": 0.0});
    let mut world = with_settings(settings).await;
    world.additions = vec![Arc::new(Count)];
    let key = world.add("d", "# whole\nalpha\nbeta").await;
    let change =
        DocumentChange { metadata: json!({"author": "by hand"}).as_object().cloned(), ..Default::default() };
    world.store.update_document(&key, &change, 1).await.unwrap();
    world.queue(std::slice::from_ref(&key)).await;
    let process = world.process(Faults::default());
    assert!(world.work(&process).await);
    let found = world.found(&key).await;
    assert_eq!(found[0].keywords, ["key of alpha", "second"]);
    assert_eq!(found[1].questions, ["What of beta?"]);
    // The vector is that of the generated questions.
    assert_eq!(found[1].vector, Some(hashed("What of beta?")));
    let metadata = world.store.document(&key).await.unwrap().metadata;
    assert_eq!(Json::from(metadata.clone()), json!({"author": "by hand", "year": 1843}));
    let held = world.index.held(&world.dataset);
    assert_eq!(held.documents[&key.id].metadata, metadata);
    assert_eq!(held.chunks[&found[0].id].1.keywords, ["key of alpha", "second"]);
    assert_eq!(held.chunks[&found[0].id].1.title, "d\nHeading");
    assert_eq!(held.chunks.len(), 2, "a parent is not found");
    let contents = world.store.extra(&key, Extra::Contents).await.unwrap();
    assert_eq!(contents, Some(json!(["alpha", "beta"])));
    assert_eq!(process.models.chat.1.load(Ordering::SeqCst), 5);
    // A model's refusal is left out and reported.
    process.models.chat.2.store(true, Ordering::SeqCst);
    world.queue(std::slice::from_ref(&key)).await;
    assert!(world.work(&process).await);
    let (state, message) = world.state(&key).await;
    assert_eq!(
        (state, message.as_str()),
        (
            DocumentState::Done,
            "Task done. The model could not answer: not this. Incomplete: part 2 gave nothing"
        )
    );
    assert!(world.found(&key).await[0].keywords.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_long_document_is_indexed_in_steps() {
    let world = World::new("hash@Test").await;
    let text = |n: usize| (0..n).map(|line| format!("line {line}")).collect::<Vec<_>>().join("\n");
    let key = world.add("d", &text(2_500)).await;
    for count in [2_500, 1_100] {
        world.write(&key, &text(count)).await;
        world.queue(std::slice::from_ref(&key)).await;
        assert!(world.work(&world.process(Faults::default())).await);
        assert_eq!(world.found(&key).await.len(), count);
        assert_eq!(world.index.contents(&key).len(), count);
    }
}

/// No run brings in a document, so its usage would otherwise not be recorded.
#[tokio::test(start_paused = true)]
async fn tokens_read_for_documents_are_recorded() {
    let world = World::new("hash@Test").await;
    let uses = Arc::new(MemoryStore::default());
    let process = world.noting_process(&uses);
    let key = world.add("a", "one\ntwo").await;
    world.queue(std::slice::from_ref(&key)).await;
    let stop = CancellationToken::new();
    let read = async {
        while world.state(&key).await.0 != DocumentState::Done {
            tokio::time::sleep(second()).await;
        }
        stop.cancel();
    };
    // With time to finish the work after the document is found.
    tokio::join!(process.worker.run(&stop, second() * 60), read);
    // The fake counts one token per text.
    let texts = process.models.embedder.texts.load(Ordering::SeqCst) as u64;
    assert!(texts > 0);
    assert_eq!(world.used(&uses).await, [("dataset:d|hash@Test||".to_owned(), texts)]);
    let counts = &process.library.counts().documents;
    assert_eq!((counts.get(IngestEnding::Done), counts.get(IngestEnding::Failed)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn tokens_read_in_pictures_are_recorded() {
    let world = World::new("").await;
    let uses = Arc::new(MemoryStore::default());
    let process = world.noting_process(&uses);
    process.reader.asks.store(true, Ordering::SeqCst);
    let key = world.add("a", "a picture").await;
    world.queue(std::slice::from_ref(&key)).await;
    assert!(world.work(&process).await);
    assert_eq!(world.used(&uses).await, [("dataset:d|eyes||".to_owned(), 300)]);
}

#[tokio::test(start_paused = true)]
async fn a_paper_has_its_title_and_its_authors_as_metadata() {
    let world = World::new("").await;
    let (paper, other) = (world.add("p", "a").await, world.add("o", "b").await);
    let change = DocumentChange {
        method: Some(ChunkMethod::Paper),
        metadata: json!({"author": "by hand"}).as_object().cloned(),
        ..DocumentChange::default()
    };
    world.store.update_document(&paper, &change, 1).await.unwrap();
    world.queue(&[paper.clone(), other.clone()]).await;
    assert!(world.work(&world.process(Faults::default())).await);
    let metadata = async |key: &DocumentKey| Json::from(world.store.document(key).await.unwrap().metadata);
    let expected = json!({"author": "by hand", "title": "A title"});
    assert_eq!((metadata(&paper).await, metadata(&other).await), (expected.clone(), json!({})));
    let held = world.index.held(&world.dataset);
    assert_eq!(Json::from(held.documents[&paper.id].metadata.clone()), expected);
}

#[tokio::test(start_paused = true)]
async fn a_document_that_was_removed_has_not_failed() {
    let mut world = World::new("").await;
    // Its worker learns it from what it cannot store any more.
    world.pace.tell_every = second() * 3_600;
    let key = world.add("d", "a").await;
    let change = DocumentChange { method: Some(ChunkMethod::Paper), ..DocumentChange::default() };
    world.store.update_document(&key, &change, 1).await.unwrap();
    world.queue(std::slice::from_ref(&key)).await;
    let process = world.process(Faults::default());
    *process.reader.pause.lock().unwrap() = second() * 5;
    let stop = CancellationToken::new();
    let remove = async {
        tokio::time::sleep(second() * 2).await;
        process.library.remove_documents(&world.dataset, std::slice::from_ref(&key.id)).await.unwrap();
        tokio::time::sleep(second() * 5).await;
        stop.cancel();
    };
    tokio::join!(process.worker.run(&stop, Duration::ZERO), remove);
    let counts = &process.library.counts().documents;
    assert_eq!((counts.get(IngestEnding::Lost), counts.get(IngestEnding::Failed)), (1, 0));
    assert!(world.blobs.names().is_empty());
}

/// A pipeline whose chunker wants a table of contents.
#[derive(Debug)]
struct Chunker;

#[async_trait]
impl PipelineRunner for Chunker {
    async fn run(&self, _: &CanvasId, _: &Document) -> Result<Json> {
        let document = json!({"file": "f", "name": "d.txt", "contents": true});
        Ok(json!({"document": document, "chunks": [{"text": "a"}, {"text": "b"}]}))
    }

    async fn stop(&self, _: &Document) {}
}

/// A pipeline whose chunks are found by words alone.
#[derive(Debug)]
struct WordsAlone;

#[async_trait]
impl PipelineRunner for WordsAlone {
    async fn run(&self, _: &CanvasId, _: &Document) -> Result<Json> {
        let search = json!({"vectors": false, "field": "text"});
        let document = json!({"file": "f", "name": "d.txt", "search": search});
        Ok(json!({"document": document, "chunks": [{"text": "a"}, {"text": "b"}]}))
    }

    async fn stop(&self, _: &Document) {}
}

/// A pipeline that never ends, and notes for which documents it was told to stop.
#[derive(Debug, Default)]
struct Endless(Mutex<Vec<String>>);

#[async_trait]
impl PipelineRunner for Endless {
    async fn run(&self, _: &CanvasId, _: &Document) -> Result<Json> {
        std::future::pending().await
    }

    async fn stop(&self, document: &Document) {
        let begun = document.begun_ms.is_some();
        self.0.lock().unwrap().push(format!("{} {begun}", document.key.id));
    }
}

/// It is an ordinary run: it would go on by itself, and ask models that nobody reads.
#[tokio::test(start_paused = true)]
async fn the_run_of_a_pipeline_ends_when_nobody_waits_for_it() {
    let world = with_settings(json!({"pipeline_id": "p"})).await;
    let key = world.add("d", "what the pipeline reads").await;
    world.queue(std::slice::from_ref(&key)).await;
    let endless = Arc::new(Endless::default());
    let process = world.process(Faults::default());
    let worker = process.worker.clone().with_pipelines(Arc::clone(&endless) as _);
    let stop = CancellationToken::new();
    let stopped = || endless.0.lock().unwrap().clone();
    let all = async {
        tokio::time::sleep(second() * 2).await;
        assert!(stopped().is_empty());
        // Its worker does not see the cancellation before the document is to be read once more.
        process.library.stop(&key, Wanted::Cancel).await.unwrap();
        process.library.queue(&world.dataset, std::slice::from_ref(&key.id)).await.unwrap();
        tokio::time::sleep(second() * 2).await;
        assert_eq!(stopped(), ["d true"]);
        process.library.remove_documents(&world.dataset, std::slice::from_ref(&key.id)).await.unwrap();
        tokio::time::sleep(second() * 2).await;
        assert_eq!(stopped(), ["d true", "d true"]);
        stop.cancel();
    };
    tokio::join!(worker.run(&stop, Duration::ZERO), all);
}

/// Crashes at each step in turn, until there is none left to crash at.
async fn crashed_everywhere(settings: &Json) -> usize {
    for step in 0.. {
        let world = with_settings(settings.clone()).await;
        let key = world.add("d", "what the pipeline reads").await;
        world.queue(std::slice::from_ref(&key)).await;
        let process = |faults: Faults| {
            let process = world.process(faults);
            let worker = process.worker.clone().with_pipelines(Arc::new(WordsAlone));
            Process { worker, ..process }
        };
        let ended = world.work(&process(Faults::at(step, Fault::Crash))).await;
        if !ended {
            assert!(world.work(&process(Faults::default())).await);
        }
        let (state, message) = world.state(&key).await;
        assert_eq!((state, message.as_str()), (DocumentState::Done, "Task done"), "step {step}");
        let found = world.found(&key).await;
        assert!(found.len() == 2 && found.iter().all(|chunk| chunk.vector.is_none()), "step {step}");
        if ended {
            return step;
        }
    }
    unreachable!("a document is read in several steps")
}

#[tokio::test(start_paused = true)]
async fn a_pipeline_without_vectors_gets_none_even_after_a_crash() {
    assert!(crashed_everywhere(&json!({"pipeline_id": "p"})).await > 5);
    assert!(crashed_everywhere(&json!({"pipeline_id": "p", "auto_keywords": 1})).await > 8);
}

#[tokio::test(start_paused = true)]
async fn missing_parts_that_a_pipeline_needs_are_reported() {
    let mut world = with_settings(json!({"pipeline_id": "p", "filename_embd_weight": 0.0})).await;
    world.additions = vec![Arc::new(Count)];
    let key = world.add("d", "what the pipeline reads").await;
    world.queue(std::slice::from_ref(&key)).await;
    let process = world.process(Faults::default());
    let worker = process.worker.clone().with_pipelines(Arc::new(Chunker));
    assert!(world.work(&Process { worker, ..process }).await);
    let (state, message) = world.state(&key).await;
    assert_eq!(
        (state, message.as_str()),
        (DocumentState::Done, "Task done. Incomplete: part 2 gave nothing")
    );
    assert_eq!(world.texts(&key).await, ["a", "b"]);
    assert_eq!(world.store.extra(&key, Extra::Contents).await.unwrap(), Some(json!(["a", "b"])));
}

#[tokio::test(start_paused = true)]
async fn a_mind_map_exists_after_a_crash_at_any_step() {
    for step in 0.. {
        let mut world = with_settings(json!({"mindmap": {"use_mindmap": true}})).await;
        world.additions = vec![Arc::new(MindMap)];
        let key = world.add("d", "Foxes\nare quick").await;
        world.queue(std::slice::from_ref(&key)).await;
        let ended = world.work(&world.process(Faults::at(step, Fault::Crash))).await;
        if !ended {
            assert!(world.work(&world.process(Faults::default())).await);
        }
        assert_eq!(world.state(&key).await, (DocumentState::Done, "Task done".to_owned()), "step {step}");
        let kept = world.store.extra(&key, Extra::MindMap).await.unwrap();
        assert_eq!(kept, Some(json!({"nodes": [{"name": "Foxes"}]})), "step {step}");
        if ended {
            assert!(step > 5, "{step}");
            return;
        }
    }
}
