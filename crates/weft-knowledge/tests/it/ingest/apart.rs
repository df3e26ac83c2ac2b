//! Concurrent changes of the same data, in one process and in several.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use weft_core::ErrorKind;
use weft_core::id::DocumentKey;
use weft_core::seam::dataset_store::{Dataset, DocumentChange, DocumentState};
use weft_core::seam::index::IndexedDocument;
use weft_knowledge::ingest::{Availability, ChunkEdit, NewChunk, TagChange};

use super::fakes::{Fault, Faults};
use super::kit::{Process, World};

fn lines(what: &str, count: usize) -> String {
    (0..count).map(|line| format!("{what} {line}")).collect::<Vec<_>>().join("\n")
}

fn new(content: &str) -> NewChunk {
    NewChunk { content: content.into(), ..NewChunk::default() }
}

/// A world with a finished document.
async fn done(embedder: &str, text: &str) -> (World, DocumentKey) {
    let world = World::new(embedder).await;
    let key = world.add("d", text).await;
    world.queue(std::slice::from_ref(&key)).await;
    assert!(world.work(&world.process(Faults::default())).await);
    (world, key)
}

async fn sorted(world: &World, key: &DocumentKey) -> Vec<String> {
    let mut texts = world.texts(key).await;
    texts.sort();
    texts
}

/// Whether the index is consistent, or is recorded as possibly inconsistent.
async fn is_known(world: &World, key: &DocumentKey) -> bool {
    world.index.contents(key) == sorted(world, key).await || !world.noted().await.is_empty()
}

/// Lets a process work and, while it is held, something else happen. Returns whether it was held.
async fn meanwhile(world: &World, process: &Process, other: impl Future<Output = ()>) -> bool {
    let mut other = std::pin::pin!(other);
    let mut held = false;
    let beside = async {
        process.faults.held().await;
        (&mut other).await;
        held = true;
        process.faults.release();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        worked = world.work(process) => assert!(worked),
        () = beside => {}
    }
    held
}

#[tokio::test(start_paused = true)]
async fn a_second_process_that_starts_or_repairs_does_not_disturb_others() {
    // Three pages, of a new document and of one that is read again.
    for again in [false, true] {
        for step in 0.. {
            let world = World::new("").await;
            let key = world.add("d", &lines("old", 3)).await;
            world.queue(std::slice::from_ref(&key)).await;
            if again {
                assert!(world.work(&world.process(Faults::default())).await);
                world.write(&key, &lines("new", 2_200)).await;
                world.queue(std::slice::from_ref(&key)).await;
            } else {
                world.write(&key, &lines("new", 2_200)).await;
            }
            let process = world.process(Faults::at(step, Fault::Hold));
            let starts = async {
                let library = world.process(Faults::default()).library;
                let before = world.index.contents(&key);
                assert_eq!(library.check().await.unwrap(), [], "nothing is wrong at step {step}");
                library.repair().await.unwrap();
                if world.texts(&key).await.len() < 2_200 {
                    // Neither searchable entries nor those being indexed.
                    assert_eq!(world.index.contents(&key), before, "at step {step}");
                }
            };
            if !meanwhile(&world, &process, starts).await {
                assert!(step > 20, "{step}");
                break;
            }
            assert_eq!(world.index.contents(&key).len(), 2_200, "after step {step}");
            assert_eq!(world.index.contents(&key), sorted(&world, &key).await);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_edit_in_another_process_is_not_lost() {
    for step in 0.. {
        let (world, key) = done("", &lines("old", 3)).await;
        let ids: Vec<_> = world.found(&key).await.into_iter().map(|chunk| chunk.id).collect();
        world.write(&key, &lines("new", 1_200)).await;
        world.queue(std::slice::from_ref(&key)).await;
        let process = world.process(Faults::at(step, Fault::Hold));
        let edits = async {
            let library = world.process(Faults::default()).library;
            library.remove_chunks(&key, &ids[..1]).await.unwrap();
            let change = DocumentChange { enabled: Some(false), ..DocumentChange::default() };
            library.update_document(&key, &change).await.unwrap();
            assert!(is_known(&world, &key).await, "at step {step}");
        };
        if !meanwhile(&world, &process, edits).await {
            assert!(step > 20, "{step}");
            break;
        }
        assert_eq!(world.index.contents(&key), sorted(&world, &key).await, "after step {step}");
        assert!(!world.index.held(&world.dataset).documents[&key.id].available, "after step {step}");
    }
}

#[tokio::test(start_paused = true)]
async fn edits_in_two_processes_are_both_indexed() {
    for step in 0.. {
        let (world, key) = done("", "a\nb").await;
        let ids: Vec<_> = world.found(&key).await.into_iter().map(|chunk| chunk.id).collect();
        let process = world.process(Faults::at(step, Fault::Hold));
        let edit = |content: &str| ChunkEdit { content: Some(content.into()), ..ChunkEdit::default() };
        let first = process.library.update_chunk(&key, &ids[0], edit("first"));
        let second = async {
            process.faults.held().await;
            let library = world.process(Faults::default()).library;
            library.update_chunk(&key, &ids[1], edit("second")).await.unwrap();
            library.repair().await.unwrap();
            process.faults.release();
        };
        tokio::select! {
            biased;
            both = async { tokio::join!(first, second) } => drop(both.0.unwrap()),
            () = tokio::time::sleep(Duration::from_secs(5)) => {
                assert!(step >= 4, "{step}");
                return;
            }
        }
        assert!(is_known(&world, &key).await, "after step {step}");
        assert!(world.work(&world.process(Faults::default())).await);
        assert_eq!(world.index.contents(&key), ["first", "second"], "after step {step}");
    }
}

#[tokio::test(start_paused = true)]
async fn changes_of_one_chunk_in_two_processes_are_both_kept() {
    let (world, key) = done("", "a\nb").await;
    let one = world.process(Faults::default()).library;
    let other = world.process(Faults::default()).library;
    let id = world.found(&key).await.remove(0).id;
    let tagged = ChunkEdit { tags: Some(vec!["x".into()]), ..ChunkEdit::default() };
    one.update_chunk(&key, &id, tagged).await.unwrap();
    let document = world.store.document(&key).await.unwrap();
    let rename = TagChange::Rename { from: "x".into(), to: "y".into() };
    let (hidden, renamed) = tokio::join!(
        one.switch_chunks(&key, std::slice::from_ref(&id), Availability::Hidden),
        other.retag(&document, &rename)
    );
    assert_eq!((hidden.unwrap(), renamed.unwrap()), (1, 1));
    let chunk = world.found(&key).await.remove(0);
    assert!(!chunk.available && chunk.tags() == ["y"], "{chunk:?}");
    let (first, second) = tokio::join!(one.add_chunk(&key, new("same")), other.add_chunk(&key, new("same")));
    assert_ne!(first.unwrap().id, second.unwrap().id);
    assert_eq!(world.texts(&key).await, ["a", "b", "same", "same"]);
    assert!(world.work(&world.process(Faults::default())).await);
    assert_eq!(world.index.contents(&key), ["b", "same", "same"]);
}

/// Its data would be removed when the reading ends.
#[tokio::test(start_paused = true)]
async fn a_chunk_is_refused_if_its_document_starts_being_read_meanwhile() {
    let (world, key) = done("hash@Test", "a").await;
    let id = world.found(&key).await.remove(0).id;
    // The first step is the embedder's, which is called after the document was checked.
    let process = world.process(Faults::at(0, Fault::Hold));
    let meanwhile = async |process: &Process| {
        process.faults.held().await;
        world.queue(std::slice::from_ref(&key)).await;
        process.faults.release();
    };
    let (added, ()) = tokio::join!(process.library.add_chunk(&key, new("b")), meanwhile(&process));
    assert_eq!(added.unwrap_err().kind, ErrorKind::Conflict);
    assert!(world.work(&world.process(Faults::default())).await);
    let process = world.process(Faults::at(0, Fault::Hold));
    let edit = ChunkEdit { content: Some("c".into()), ..ChunkEdit::default() };
    let (changed, ()) = tokio::join!(process.library.update_chunk(&key, &id, edit), meanwhile(&process));
    assert_eq!(changed.unwrap_err().kind, ErrorKind::Conflict);
    assert!(world.work(&world.process(Faults::default())).await);
    assert_eq!(world.texts(&key).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_chunk_is_embedded_with_the_current_embedder_of_its_dataset() {
    let world = World::new("hash@Test").await;
    let key = world.add("d", "a").await;
    // The first step is the embedder's, which is called after the dataset was checked.
    let process = world.process(Faults::at(0, Fault::Hold));
    let meanwhile = async {
        process.faults.held().await;
        let before = world.store.dataset(&world.dataset).await.unwrap();
        let changed = Dataset { embedder: "wide@Test".into(), ..before };
        let other = world.process(Faults::default()).library;
        assert!(other.update_dataset(changed).await.unwrap().is_some());
        process.faults.release();
    };
    let (added, ()) = tokio::join!(process.library.add_chunk(&key, new("b")), meanwhile);
    assert_eq!(added.unwrap().vector.map(|vector| vector.len()), Some(12));
    assert_eq!(world.texts(&key).await, ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_later_change_does_not_hide_an_interrupted_one() {
    for step in 0..20 {
        let (world, key) = done("", "a\nb\nc").await;
        let ids: Vec<_> = world.found(&key).await.into_iter().map(|chunk| chunk.id).collect();
        let faults = Faults::at(step, Fault::Crash);
        let crashing = world.process(faults.clone());
        tokio::select! {
            biased;
            () = faults.crashed() => {}
            added = crashing.library.add_chunk(&key, new("cut off")) => {
                added.unwrap();
                assert!(step >= 4, "{step}");
                return;
            }
        }
        let next = world.process(Faults::default()).library;
        let metadata = json!({"a": 1}).as_object().cloned();
        match step % 3 {
            0 => drop(next.switch_chunks(&key, &ids[..1], Availability::Hidden).await.unwrap()),
            1 => drop(next.remove_chunks(&key, &ids[..1]).await.unwrap()),
            _ => {
                let change = DocumentChange { metadata, ..DocumentChange::default() };
                next.update_document(&key, &change).await.unwrap();
            }
        }
        let found = world.found(&key).await.into_iter().filter(|chunk| chunk.available);
        let mut found: Vec<String> = found.map(|chunk| chunk.content).collect();
        found.sort();
        assert_eq!(world.index.contents(&key), found, "after a crash at step {step}");
        assert!(world.noted().await.is_empty());
    }
    panic!("more steps exist");
}

#[tokio::test(start_paused = true)]
async fn a_change_completes_even_if_its_caller_leaves() {
    for step in 0.. {
        let (world, key) = done("", "a\nb").await;
        let process = world.process(Faults::at(step, Fault::Hold));
        let ids = world.found(&key).await.into_iter().map(|chunk| chunk.id).collect::<Vec<_>>();
        let changes = async {
            process.library.remove_chunks(&key, &ids[..1]).await.unwrap();
            process.library.remove_documents(&world.dataset, std::slice::from_ref(&key.id)).await.unwrap();
        };
        tokio::select! {
            biased;
            () = process.faults.held() => {}
            () = changes => {
                assert!(step >= 8, "{step}");
                return;
            }
        }
        process.faults.release();
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(world.noted().await.is_empty() && world.idle().await, "after step {step}");
        match world.store.document(&key).await {
            Ok(_) => assert_eq!(world.index.contents(&key), ["b"], "after step {step}"),
            Err(_) => assert!(
                world.index.held(&world.dataset).documents.is_empty() && world.blobs.names().is_empty(),
                "after step {step}"
            ),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_edit_indexes_the_current_state_of_the_document() {
    let (world, key) = done("hash@Test", "a").await;
    // The first step of an embedder comes after the document was read.
    let process = world.process(Faults::at(0, Fault::Hold));
    let library = Arc::clone(&process.library);
    let add = library.add_chunk(&key, new("b"));
    let meanwhile = async {
        process.faults.held().await;
        let metadata = json!({"year": 1}).as_object().cloned();
        let change = DocumentChange { metadata, name: Some("other.txt".into()), ..DocumentChange::default() };
        world.process(Faults::default()).library.update_document(&key, &change).await.unwrap();
        // No caller has to wait for an embedder called by others.
        let ids: Vec<_> = world.found(&key).await.into_iter().map(|chunk| chunk.id).collect();
        let switch = process.library.switch_chunks(&key, &ids, Availability::Hidden);
        assert_eq!(tokio::time::timeout(Duration::from_secs(1), switch).await.unwrap().unwrap(), 1);
        process.faults.release();
    };
    let (added, ()) = tokio::join!(add, meanwhile);
    let held = world.index.held(&world.dataset);
    assert_eq!(held.documents[&key.id].metadata, json!({"year": 1}).as_object().cloned().unwrap());
    let added = added.unwrap();
    assert_eq!(held.chunks[&added.id].1.title, "other");
    // Its vector includes the name that the document has now.
    let again = process.library.add_chunk(&key, new("b")).await.unwrap();
    assert_eq!(again.vector, added.vector);
    // Even if nothing has changed that its vector depends on.
    let process = world.process(Faults::at(0, Fault::Hold));
    let add = process.library.add_chunk(&key, new("c"));
    let meanwhile = async {
        process.faults.held().await;
        let change = DocumentChange { enabled: Some(false), ..DocumentChange::default() };
        world.process(Faults::default()).library.update_document(&key, &change).await.unwrap();
        process.faults.release();
    };
    tokio::join!(async { add.await.unwrap() }, meanwhile);
    assert!(!world.index.held(&world.dataset).documents[&key.id].available);
}

#[tokio::test(start_paused = true)]
async fn a_difference_is_repaired_without_rebuilding() {
    let (world, key) = done("", "a\nb").await;
    let stranger = IndexedDocument {
        id: "x".into(),
        name: String::new(),
        metadata: serde_json::Map::new(),
        available: true,
    };
    let place = (world.dataset.tenant.clone(), world.dataset.id.clone());
    {
        let mut all = world.index.0.lock().unwrap();
        let held = all.get_mut(&place).unwrap();
        held.chunks.pop_first().unwrap();
        held.documents.insert("x".into(), stranger);
    }
    let library = world.process(Faults::default()).library;
    assert_eq!(library.check().await.unwrap(), std::slice::from_ref(&world.dataset));
    assert_eq!(world.index.contents(&key), ["a", "b"]);
    assert!(world.index.held(&world.dataset).documents.contains_key("x"), "it was not removed");
    assert_eq!(library.check().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_long_document_stays_searchable_while_it_is_renamed() {
    for step in 0.. {
        let (world, key) = done("", &lines("line", 2_200)).await;
        let process = world.process(Faults::at(step, Fault::Hold));
        let change = DocumentChange { name: Some("other.txt".into()), ..DocumentChange::default() };
        let look = async {
            process.faults.held().await;
            assert_eq!(world.index.contents(&key).len(), 2_200, "at step {step}");
            process.faults.release();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            changed = process.library.update_document(&key, &change) => drop(changed.unwrap()),
            () = look => {}
        }
        let held = world.index.held(&world.dataset);
        assert!(held.chunks.values().all(|(_, chunk)| chunk.title.starts_with("other")));
        assert!(world.noted().await.is_empty());
        if process.faults.steps() <= step {
            assert!(step >= 8, "{step}");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_document_being_indexed_takes_no_place_in_results() {
    for step in 0.. {
        let world = World::new("").await;
        let key = world.add("d", &lines("line", 1_200)).await;
        world.queue(std::slice::from_ref(&key)).await;
        let process = world.process(Faults::at(step, Fault::Hold));
        let look = async {
            let held = world.index.held(&world.dataset);
            let shown = held.documents.get(&key.id).is_some_and(|document| document.available);
            assert!(!shown || !world.texts(&key).await.is_empty(), "at step {step}");
        };
        if !meanwhile(&world, &process, look).await {
            assert!(step > 20, "{step}");
            break;
        }
        assert!(world.index.held(&world.dataset).documents[&key.id].available, "after step {step}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_document_that_cannot_be_indexed_does_not_block_others() {
    let world = World::new("").await;
    let mut keys = Vec::new();
    for n in 0..130 {
        keys.push(world.add(&format!("d{n:03}"), &format!("text {n}")).await);
    }
    world.queue(&keys).await;
    assert!(world.work(&world.process(Faults::default())).await);
    world.index.lose();
    world.queue.all_unindexed(&world.dataset).await.unwrap();
    let process = world.process(Faults::default());
    keys[..110].iter().for_each(|key| process.faults.refuse(key));
    assert_eq!(process.library.repair().await.unwrap(), 20);
    assert_eq!(world.index.contents(&keys[129]), ["text 129"]);
    assert_eq!(world.noted().await.len(), 99);
}

#[tokio::test(start_paused = true)]
async fn a_worker_keeps_working_while_it_repairs_the_index() {
    let (world, key) = done("", "a").await;
    world.queue.unindexed(&key).await.unwrap();
    let more = world.add("more", "b").await;
    // It starts with the repair, and does not finish it yet.
    let process = world.process(Faults::at(0, Fault::Hold));
    let stop = CancellationToken::new();
    let all = async {
        process.faults.held().await;
        tokio::time::sleep(Duration::from_secs(200)).await;
        process.library.queue(&world.dataset, std::slice::from_ref(&more.id)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(world.state(&more).await.0, DocumentState::Done);
        stop.cancel();
    };
    let worker = process.worker.run(&stop, Duration::from_secs(60));
    let both = futures::future::join(worker, all);
    tokio::time::timeout(Duration::from_secs(270), both)
        .await
        .expect("it does not wait for interrupted work");
}

#[tokio::test(start_paused = true)]
async fn a_stopping_worker_leaves_finished_documents_searchable() {
    for step in 0.. {
        let world = World::new("").await;
        let key = world.add("d", "a").await;
        world.queue(std::slice::from_ref(&key)).await;
        let process = world.process(Faults::at(step, Fault::Hold));
        let stop = CancellationToken::new();
        let all = async {
            let held = tokio::time::timeout(Duration::from_secs(5), process.faults.held()).await;
            stop.cancel();
            // Longer than it has time to finish.
            tokio::time::sleep(Duration::from_secs(1)).await;
            process.faults.release();
            held.is_ok()
        };
        let ((), held) = tokio::join!(process.worker.run(&stop, Duration::from_millis(100)), all);
        if world.state(&key).await.0 == DocumentState::Done {
            assert!(world.index.held(&world.dataset).documents[&key.id].available, "after step {step}");
            assert!(world.noted().await.is_empty(), "after step {step}");
        }
        if !held {
            assert!(step > 20, "{step}");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_worker_completes_the_index_repair() {
    let (world, key) = done("", "a").await;
    world.queue.unindexed(&key).await.unwrap();
    world.index.lose();
    let process = world.process(Faults::at(0, Fault::Hold));
    let stop = CancellationToken::new();
    let all = async {
        process.faults.held().await;
        stop.cancel();
        tokio::time::sleep(Duration::from_secs(5)).await;
        process.faults.release();
    };
    tokio::join!(process.worker.run(&stop, Duration::from_secs(60)), all);
    assert_eq!(world.index.contents(&key), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn model_metadata_is_indexed_even_if_later_stages_fail() {
    let settings = json!({"enable_metadata": true, "metadata": [{"key": "author"}]});
    let (world, key) = done("hash@Test", "a").await;
    let change = DocumentChange { settings: settings.as_object().cloned(), ..DocumentChange::default() };
    let process = world.process(Faults::default());
    process.library.update_document(&key, &change).await.unwrap();
    world.write(&key, "b").await;
    world.queue(std::slice::from_ref(&key)).await;
    process.models.embedder.busy.store(usize::MAX, std::sync::atomic::Ordering::SeqCst);
    assert!(world.work(&process).await);
    assert_eq!(world.state(&key).await.0, DocumentState::Failed);
    let metadata = world.store.document(&key).await.unwrap().metadata;
    assert_eq!(metadata["author"], "Ada");
    assert_eq!(world.index.held(&world.dataset).documents[&key.id].metadata, metadata);
}
