//! Summaries over all documents of a dataset.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use weft_core::id::{DatasetKey, DocumentKey};
use weft_core::seam::dataset_store::{Dataset, DocumentChange, DocumentState, Extra, StoredChunk};
use weft_core::{ErrorKind, Json};
use weft_knowledge::ingest::ChunkEdit;
use weft_knowledge::raptor::dataset::{DOCUMENTS, NAME, document_id};
use weft_knowledge::raptor::{LEVEL, is_summary};

use super::fakes::{Fault, Faults};
use super::kit::{Process, World, dataset};

fn over_all() -> Json {
    json!({"raptor": {"use_raptor": true, "scope": "dataset"}})
}

/// Lines about one subject more than about others.
fn text(about: usize) -> String {
    let lines = (0..18).map(|n| format!("about {}: line {n} of {about}", (about + n % 2) % 7));
    lines.collect::<Vec<_>>().join("\n")
}

async fn world(embedder: &str) -> World {
    let memory = weft_testkit::MemoryDatasets::new();
    World::over(Arc::new(memory.clone()), Arc::new(memory), dataset(embedder, &over_all())).await
}

fn summaries_key(world: &World) -> DocumentKey {
    DocumentKey::new(&world.dataset, document_id(&world.dataset))
}

/// Lets a process work for a while, which takes no time on a stopped clock. Returns whether it did not crash.
async fn work(world: &World, process: &Process) -> bool {
    let stop = CancellationToken::new();
    tokio::select! {
        biased;
        () = process.faults.crashed() => false,
        () = process.worker.run(&stop, Duration::ZERO) => unreachable!("nobody has stopped it"),
        () = tokio::time::sleep(Duration::from_secs(300)) => {
            assert!(world.idle().await, "it is done by then");
            true
        }
    }
}

async fn read(world: &World, documents: &[(&str, usize)]) -> Process {
    let mut keys = Vec::new();
    for (id, about) in documents {
        keys.push(world.add(id, &text(*about)).await);
    }
    world.queue(&keys).await;
    let process = world.process(Faults::default());
    assert!(work(world, &process).await);
    process
}

fn asked(process: &Process) -> usize {
    process.models.chat.1.load(Ordering::SeqCst)
}

/// Ids of the documents that summaries cover.
fn sources(summaries: &[StoredChunk]) -> BTreeSet<String> {
    let listed = summaries.iter().filter_map(|one| one.fields[DOCUMENTS].as_array()).flatten();
    listed.map(|id| id.as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn dataset_summaries_cover_documents_and_name_them() {
    let world = world("hash@Test").await;
    let process = read(&world, &[("a", 1), ("b", 1), ("c", 2)]).await;
    let key = summaries_key(&world);
    let document = world.store.document(&key).await.unwrap();
    assert_eq!((document.name.as_str(), document.state), (NAME, DocumentState::Done));
    let summaries = world.found(&key).await;
    assert_eq!(summaries.len(), asked(&process), "one request for each, and one more for all documents");
    assert!(summaries.iter().all(|one| is_summary(one) && one.vector.is_some()));
    assert!(summaries.iter().any(|one| one.fields[LEVEL].as_u64() > Some(1)));
    assert!(
        summaries.iter().any(|one| one.fields[DOCUMENTS].as_array().unwrap().len() > 1),
        "several together"
    );
    assert_eq!(sources(&summaries), ["a", "b", "c"].map(str::to_owned).into());
    let whole = summaries.iter().find(|one| one.fields[DOCUMENTS].as_array().unwrap().len() == 3).unwrap();
    assert!(whole.content.starts_with("Sums up: a.txt, b.txt, c.txt\n\nsum of"), "{}", whole.content);
    for id in ["a", "b", "c"] {
        assert!(!world.found(&world.key(id)).await.iter().any(is_summary), "no document has its own");
    }
    let held = world.index.held(&world.dataset).chunks;
    assert!(summaries.iter().all(|one| held[&one.id].0 == key.id), "they are found with their kind");
    assert_eq!(String::from_utf8_lossy(&process.library.file(&key).await.unwrap()).lines().count(), 3);
}

#[tokio::test(start_paused = true)]
async fn dataset_summaries_follow_document_changes() {
    let world = world("hash@Test").await;
    let first = read(&world, &[("a", 1), ("b", 3)]).await;
    let key = summaries_key(&world);
    let before = world.found(&key).await;
    // Nothing has changed: no request, and the same summaries.
    let idle = world.process(Faults::default());
    assert!(work(&world, &idle).await);
    assert_eq!((asked(&idle), world.found(&key).await == before), (0, true));
    // One more document: the summaries cover it, too.
    let more = read(&world, &[("c", 5)]).await;
    assert!(asked(&more) > 0);
    assert!(sources(&world.found(&key).await).contains("c"));
    // It is removed again: at once nothing derived from it is left, and then everything is as before.
    more.library.remove_documents(&world.dataset, &["c".into()]).await.unwrap();
    assert!(!sources(&world.found(&key).await).contains("c"), "no request to a model is pending");
    assert!(work(&world, &more).await);
    let texts =
        |chunks: &[StoredChunk]| chunks.iter().map(|one| one.content.clone()).collect::<BTreeSet<_>>();
    assert_eq!(texts(&world.found(&key).await), texts(&before));
    // A document that is not searchable is not mentioned.
    let hide = DocumentChange { enabled: Some(false), ..DocumentChange::default() };
    more.library.update_document(&world.key("b"), &hide).await.unwrap();
    assert!(work(&world, &more).await);
    assert_eq!(sources(&world.found(&key).await), ["a".to_owned()].into());
    // Without documents there is nothing to summarise.
    more.library.remove_documents(&world.dataset, &["a".into(), "b".into()]).await.unwrap();
    assert!(work(&world, &more).await);
    assert_eq!(world.store.document(&key).await.unwrap_err().kind, ErrorKind::NotFound);
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn unchanged_summaries_are_not_requested_again() {
    let world = world("hash@Test").await;
    let process = read(&world, &[("a", 1), ("b", 3)]).await;
    let (key, before) = (summaries_key(&world), asked(&process));
    let name = DocumentChange { name: Some("renamed.txt".to_owned()), ..DocumentChange::default() };
    process.library.update_document(&world.key("a"), &name).await.unwrap();
    assert!(work(&world, &process).await);
    assert_eq!(asked(&process), before);
    assert!(
        world.found(&key).await.iter().any(|one| one.content.starts_with("Sums up: b.txt, renamed.txt\n\n"))
    );
    // A text changed by hand is another text.
    let chunk = world.found(&world.key("a")).await[0].id.clone();
    let edit = ChunkEdit { content: Some("about 1: another line".to_owned()), ..ChunkEdit::default() };
    process.library.update_chunk(&world.key("a"), &chunk, edit).await.unwrap();
    assert!(work(&world, &process).await);
    assert!(asked(&process) > before);
    // A request for them rebuilds them from cached results.
    let before = asked(&process);
    process.library.ask_for_summaries(&world.dataset).await.unwrap();
    assert_eq!(world.store.extra(&key, Extra::Summaries).await.unwrap(), None);
    assert!(work(&world, &process).await);
    assert!(world.store.extra(&key, Extra::Summaries).await.unwrap().is_some());
    assert_eq!(asked(&process), before);
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_step_leaves_the_same_summaries() {
    let documents = [("a", 1), ("b", 3)];
    let undisturbed = world("hash@Test").await;
    let process = read(&undisturbed, &documents).await;
    let (expected, steps) = (undisturbed.found(&summaries_key(&undisturbed)).await, process.faults.steps());
    let all = asked(&process);
    // Every third step, of the work on documents and summaries together.
    for step in (0..steps).step_by(3) {
        let world = world("hash@Test").await;
        let mut keys = Vec::new();
        for (id, about) in documents {
            keys.push(world.add(id, &text(about)).await);
        }
        world.queue(&keys).await;
        let crashing = world.process(Faults::at(step, Fault::Crash));
        let whole = work(&world, &crashing).await;
        let (first, kept) = (asked(&crashing), world.kept_summaries(&summaries_key(&world)).await);
        drop(crashing);
        let second = world.process(Faults::default());
        assert!(work(&world, &second).await);
        let found = world.found(&summaries_key(&world)).await;
        assert!(found == expected, "after a crash at step {step} ({whole}): {} summaries", found.len());
        assert!(
            asked(&second) <= all - kept,
            "step {step}: {} again, {kept} were kept of {first}",
            asked(&second)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn leftovers_of_removed_documents_are_ignored() {
    let world = world("hash@Test").await;
    let undisturbed = read(&world, &[("a", 1), ("b", 3)]).await;
    let (key, steps) = (summaries_key(&world), undisturbed.faults.steps());
    let mut orphans = false;
    for step in (steps / 2..steps).step_by(5) {
        let world = self::world("hash@Test").await;
        let keys = [world.add("a", &text(1)).await, world.add("b", &text(3)).await];
        world.queue(&keys).await;
        let crashing = world.process(Faults::at(step, Fault::Crash));
        if work(&world, &crashing).await {
            continue;
        }
        orphans |= world.kept_summaries(&key).await > 0;
        drop(crashing);
        let second = world.process(Faults::default());
        second.library.remove_documents(&world.dataset, &["b".into()]).await.unwrap();
        assert!(work(&world, &second).await);
        let found = world.found(&key).await;
        assert_eq!(sources(&found), ["a".to_owned()].into(), "after a crash at step {step}");
        assert!(found.iter().all(|one| one.vector.is_some()));
    }
    assert!(orphans, "some attempt had kept summaries");
}

#[tokio::test(start_paused = true)]
async fn without_vectors_documents_report_why_there_are_no_summaries() {
    let world = world("").await;
    read(&world, &[("a", 1)]).await;
    let (state, message) = world.state(&world.key("a")).await;
    assert!(state == DocumentState::Done && message.contains("Summaries (raptor) need vectors"), "{message}");
    assert!(world.store.document(&summaries_key(&world)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_dataset_that_cannot_be_summarised_does_not_block_others() {
    let first = world("hash@Test").await;
    let process = first.process(Faults::default());
    let mut all = vec![first.clone()];
    // In whatever order they are visited, the first one is hardly ahead of all others.
    for name in (0..7).map(|n| format!("refused{n}")) {
        let key = DatasetKey::new(&first.dataset.tenant, name.as_str());
        let made = Dataset { key: key.clone(), name, ..dataset("hash@Test", &over_all()) };
        first.store.create(&made).await.unwrap();
        let refused = World { dataset: key, ..first.clone() };
        process.faults.refuse(&summaries_key(&refused));
        all.push(refused);
    }
    for (n, world) in all.iter().enumerate() {
        let key = world.add(&format!("a{n}"), &text(1)).await;
        world.queue(std::slice::from_ref(&key)).await;
    }
    let stop = CancellationToken::new();
    tokio::select! {
        biased;
        () = process.worker.run(&stop, Duration::ZERO) => unreachable!("nobody has stopped it"),
        () = tokio::time::sleep(Duration::from_secs(300)) => {}
    }
    let summaries = first.store.document(&summaries_key(&first)).await.unwrap();
    assert_eq!(summaries.state, DocumentState::Done);
}
