//! Manual changes, and the index that follows them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use weft_core::id::{DatasetKey, DocumentKey, TenantId};
use weft_core::seam::Knowledge as _;
use weft_core::seam::dataset_store::{Dataset, Document, DocumentChange, DocumentState};
use weft_core::seam::document_reader::ChunkMethod;
use weft_core::seam::knowledge::SearchRequest;
use weft_core::{Error, ErrorKind};
use weft_knowledge::Library;
use weft_knowledge::datasets::Datasets;
use weft_knowledge::ingest::{Availability, ChunkEdit, Naming, NewChunk, WorkerPace};

use super::fakes::{Fault, Faults, hashed};
use super::kit::{World, dataset};

/// A world with a finished document.
async fn done(text: &str) -> (World, DocumentKey, Arc<Library>) {
    let world = World::new("hash@Test").await;
    let key = world.add("d", text).await;
    world.queue(std::slice::from_ref(&key)).await;
    let process = world.process(Faults::default());
    assert!(world.work(&process).await);
    (world, key, process.library)
}

/// No caller is so slow that others are always faster.
#[tokio::test(start_paused = true)]
async fn concurrent_changes_of_one_chunk_are_all_applied() {
    let (world, key, library) = done("a\nb").await;
    let id = world.found(&key).await.remove(0).id;
    let edit = |nth: usize| ChunkEdit { content: Some(format!("at once {nth}")), ..ChunkEdit::default() };
    let changes = (0..40).map(|nth| library.update_chunk(&key, &id, edit(nth)));
    for (nth, changed) in futures::future::join_all(changes).await.into_iter().enumerate() {
        assert_eq!(changed.unwrap().content, format!("at once {nth}"));
    }
    let stored = world.found(&key).await.remove(0);
    assert!(stored.content.starts_with("at once "));
    assert_eq!(world.index.held(&world.dataset).chunks[&id].1.content, stored.content, "the index agrees");
}

#[tokio::test(start_paused = true)]
async fn chunks_are_added_changed_hidden_and_removed() {
    let (world, key, library) = done("a\nb").await;
    let held = || world.index.held(&world.dataset).chunks;
    let new = NewChunk {
        content: "a".into(),
        keywords: vec!["k".into()],
        tags: vec!["t".into()],
        ..NewChunk::default()
    };
    let added = library.add_chunk(&key, new.clone()).await.unwrap();
    let again = library.add_chunk(&key, new).await.unwrap();
    assert_eq!(world.texts(&key).await, ["a", "b", "a", "a"]);
    assert_eq!(world.index.contents(&key), ["a", "a", "a", "b"]);
    assert_ne!(added.id, again.id);
    assert_eq!(held()[&added.id].1.keywords, ["k"]);
    assert_eq!(held()[&added.id].1.vector, world.found(&key).await[0].vector, "as if it had been read");
    let edit = ChunkEdit { content: Some("other".into()), ..ChunkEdit::default() };
    let changed = library.update_chunk(&key, &added.id, edit).await.unwrap();
    assert_eq!(changed.tags(), ["t"]);
    let edit = ChunkEdit { tags: Some(Vec::new()), ..ChunkEdit::default() };
    let changed = library.update_chunk(&key, &added.id, edit).await.unwrap();
    assert!(changed.fields.is_empty());
    assert_eq!((changed.id.clone(), held()[&added.id].1.content.as_str()), (added.id.clone(), "other"));
    assert_ne!(held()[&added.id].1.vector, held()[&again.id].1.vector);
    assert_eq!(held()[&added.id].1.vector, changed.vector);
    let edit = ChunkEdit { available: Some(false), ..ChunkEdit::default() };
    library.update_chunk(&key, &added.id, edit).await.unwrap();
    assert!(!held().contains_key(&added.id) && world.found(&key).await.len() == 4);
    assert_eq!(
        library.switch_chunks(&key, &[added.id.clone(), "x".into()], Availability::Found).await.unwrap(),
        1
    );
    assert!(held().contains_key(&added.id));
    assert_eq!(library.remove_chunks(&key, &[added.id.clone(), "x".into()]).await.unwrap(), 1);
    assert_eq!(world.index.contents(&key), ["a", "a", "b"]);
    let document = world.store.document(&key).await.unwrap();
    assert_eq!(document.chunk_count, 3);
    let kind = |error: weft_core::Error| error.kind;
    let none = library.update_chunk(&key, &added.id, ChunkEdit::default()).await.map_err(kind);
    assert_eq!(none, Err(ErrorKind::NotFound));
    let blank = library.add_chunk(&key, NewChunk { content: " ".into(), ..NewChunk::default() }).await;
    assert_eq!(blank.map_err(kind), Err(ErrorKind::Invalid));
    assert!(world.idle().await);
}

#[tokio::test(start_paused = true)]
async fn the_index_follows_a_document() {
    let (world, key, library) = done("a\nb").await;
    let metadata = json!({"year": 1}).as_object().cloned();
    let change =
        DocumentChange { enabled: Some(false), metadata: metadata.clone(), ..DocumentChange::default() };
    library.update_document(&key, &change).await.unwrap();
    let held = world.index.held(&world.dataset);
    assert!(!held.documents[&key.id].available);
    assert_eq!(Some(held.documents[&key.id].metadata.clone()), metadata);
    assert_eq!(held.chunks.len(), 2);
    let change = DocumentChange { name: Some("new.name.md".into()), ..DocumentChange::default() };
    library.update_document(&key, &change).await.unwrap();
    let held = world.index.held(&world.dataset);
    assert!(held.chunks.values().all(|(_, chunk)| chunk.title == "new.name\nHeading"));
    let change = DocumentChange { method: Some(ChunkMethod::Book), ..DocumentChange::default() };
    let changed = library.update_document(&key, &change).await.unwrap();
    assert_eq!((changed.state, changed.chunk_count), (DocumentState::Unstarted, 0));
    assert!(world.index.contents(&key).is_empty() && world.idle().await);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_change_is_repaired() {
    for step in 0..20 {
        let (world, key, library) = done("a\nb").await;
        let ids: Vec<_> = world.found(&key).await.into_iter().map(|chunk| chunk.id).collect();
        drop(library);
        let faults = Faults::at(step, Fault::Crash);
        let crashing = world.process(faults.clone());
        let changes = async {
            let edit = ChunkEdit { content: Some("c".into()), ..ChunkEdit::default() };
            crashing.library.update_chunk(&key, &ids[0], edit).await.unwrap();
            crashing.library.remove_chunks(&key, &ids[1..]).await.unwrap();
        };
        let whole = tokio::select! {
            biased;
            () = faults.crashed() => false,
            () = changes => true,
        };
        if whole {
            assert!(step >= 10, "{step}");
            return;
        }
        drop(crashing);
        assert!(world.work(&world.process(Faults::default())).await);
        let mut kept = world.texts(&key).await;
        kept.sort();
        assert_eq!(world.index.contents(&key), kept, "after a crash at step {step}");
    }
    panic!("more steps exist");
}

#[tokio::test(start_paused = true)]
async fn a_lost_index_is_rebuilt() {
    let (world, key, library) = done("# p\na\nb\nc").await;
    let id = world.found(&key).await[1].id.clone();
    library.switch_chunks(&key, &[id], Availability::Hidden).await.unwrap();
    let before = world.dump().await;
    assert_eq!(library.check().await.unwrap(), []);
    world.index.lose();
    assert_eq!(library.check().await.unwrap(), std::slice::from_ref(&world.dataset));
    assert!(world.dump().await == before);
    assert_eq!(library.reindex(&world.dataset).await.unwrap(), 1);
    assert!(world.dump().await == before);
    let nowhere = DatasetKey::new(&world.dataset.tenant, "x");
    assert_eq!(library.reindex(&nowhere).await.unwrap_err().kind, ErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn an_index_lost_while_a_worker_runs_is_noticed_and_rebuilt() {
    let (world, ..) = done("# p\na\nb").await;
    let before = world.dump().await;
    let process = world.process(Faults::default());
    let models = Arc::clone(&process.models);
    let searched = Datasets::new(Arc::clone(&world.store), Arc::new(world.index.clone()), models);
    let request = SearchRequest {
        datasets: vec![world.dataset.id.clone()],
        questions: vec!["a".to_owned()],
        limit: 1,
        ..SearchRequest::default()
    };
    let notes = async || searched.search(&world.dataset.tenant, &request).await.unwrap().notes;
    let stop = CancellationToken::new();
    let lost = async {
        // By now the check at the start has ended.
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(notes().await, [""; 0]);
        world.index.lose();
        let noted = notes().await;
        assert!(noted[0].contains("the index of the dataset `d` is empty"), "{noted:?}");
        tokio::time::sleep(2 * WorkerPace::default().check_every).await;
        assert!(world.dump().await == before);
        assert_eq!(notes().await, [""; 0]);
        stop.cancel();
    };
    tokio::join!(process.worker.run(&stop, Duration::ZERO), lost);
}

#[tokio::test(start_paused = true)]
async fn removal_deletes_from_store_index_and_files() {
    let (world, key, library) = done("a").await;
    let other = library.upload(&world.dataset, "b.txt", "b".into(), Naming::Numbered).await.unwrap();
    let ids = [key.id.clone(), "x".into()];
    assert_eq!(library.remove_documents(&world.dataset, &ids).await.unwrap(), 1);
    assert!(world.index.contents(&key).is_empty());
    assert_eq!(world.blobs.names(), std::slice::from_ref(&other.blob));
    library.remove_dataset(&world.dataset).await.unwrap();
    assert!(world.blobs.names().is_empty() && world.index.0.lock().unwrap().is_empty());
    assert_eq!(library.remove_dataset(&world.dataset).await.unwrap_err().kind, ErrorKind::NotFound);
    // A crash in the middle never makes it visible again.
    for step in 0..6 {
        let (world, key, _) = done("a").await;
        let faults = Faults::at(step, Fault::Crash);
        let crashing = world.process(faults.clone());
        tokio::select! {
            biased;
            () = faults.crashed() => {}
            removed = crashing.library.remove_documents(&world.dataset, std::slice::from_ref(&key.id)) => drop(removed),
        }
        assert_eq!(world.store.document(&key).await.unwrap_err().kind, ErrorKind::NotFound);
        assert!(world.work(&world.process(Faults::default())).await);
        let held = world.index.held(&world.dataset);
        assert!(held.chunks.is_empty() && held.documents.is_empty(), "after step {step}");
        assert!(world.blobs.names().is_empty(), "after step {step}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_document_removed_while_being_read_stays_removed() {
    let world = World::new("hash@Test").await;
    let key = world.add("d", "a").await;
    world.queue(std::slice::from_ref(&key)).await;
    let process = world.process(Faults::default());
    *process.reader.pause.lock().unwrap() = std::time::Duration::from_secs(10);
    let remove = async {
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        process.library.remove_documents(&world.dataset, std::slice::from_ref(&key.id)).await.unwrap();
    };
    tokio::join!(world.work(&process), remove);
    tokio::time::sleep(std::time::Duration::from_secs(20)).await;
    assert!(world.index.contents(&key).is_empty() && world.blobs.names().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_document_replaced_while_being_read_has_the_new_content() {
    let world = World::new("hash@Test").await;
    let key = world.add("d", "old").await;
    world.queue(std::slice::from_ref(&key)).await;
    let process = world.process(Faults::default());
    *process.reader.pause.lock().unwrap() = std::time::Duration::from_secs(10);
    let replace = async {
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        let made =
            process.library.replace_document(&key, ("D.txt", "new".into()), |_| DocumentChange::default());
        made.await.unwrap()
    };
    let (_, new) = tokio::join!(world.work(&process), replace);
    assert_eq!((new.name.as_str(), new.state, new.size), ("D.txt", DocumentState::Unstarted, 3));
    world.queue(std::slice::from_ref(&new.key)).await;
    assert!(world.work(&process).await);
    assert_eq!(world.store.document(&key).await.unwrap_err().kind, ErrorKind::NotFound);
    assert!(world.index.contents(&key).is_empty());
    assert_eq!(world.texts(&new.key).await, ["new"]);
    assert_eq!(world.index.contents(&new.key), ["new"]);
    assert_eq!(world.blobs.names(), [new.blob]);
}

#[tokio::test(start_paused = true)]
async fn a_crash_leaves_either_the_old_or_the_new_document() {
    for step in 0..6 {
        let (world, key, _) = done("old").await;
        let faults = Faults::at(step, Fault::Crash);
        let crashing = world.process(faults.clone());
        let change = |_: &Document| DocumentChange::default();
        tokio::select! {
            biased;
            () = faults.crashed() => {}
            made = crashing.library.replace_document(&key, ("d.txt", "new".into()), change) => drop(made),
        }
        // Until the file is no longer expected.
        tokio::time::sleep(std::time::Duration::from_secs(25 * 3_600)).await;
        let next = world.process(Faults::default());
        assert!(world.work(&next).await);
        let [document] = <[Document; 1]>::try_from(world.documents().await).unwrap();
        let file = next.library.file(&document.key).await.unwrap();
        assert_eq!(world.blobs.names(), std::slice::from_ref(&document.blob), "after step {step}");
        let there = (document.name.as_str(), document.state, &*file, world.index.contents(&key));
        let expected = if step < 2 {
            ("d.txt", DocumentState::Done, &b"old"[..], vec!["old".to_owned()])
        } else {
            ("d.txt", DocumentState::Unstarted, &b"new"[..], Vec::new())
        };
        assert_eq!(there, expected, "after step {step}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_replacement_removes_nothing() {
    let (world, key, library) = done("old").await;
    library.upload(&world.dataset, "b.txt", "b".into(), Naming::Exact).await.unwrap();
    let before = world.dump().await;
    let files = world.blobs.names();
    let kind = async |key: &DocumentKey, name: &str| {
        let made = library.replace_document(key, (name, "new".into()), |_| DocumentChange::default());
        made.await.unwrap_err().kind
    };
    assert_eq!(kind(&key, "B.txt").await, ErrorKind::Conflict);
    assert_eq!(kind(&key, "..").await, ErrorKind::Invalid);
    assert_eq!(kind(&world.key("x"), "d.txt").await, ErrorKind::NotFound);
    assert!(world.dump().await == before);
    assert_eq!(world.blobs.names(), files);
}

#[tokio::test(start_paused = true)]
async fn uploads_get_unique_names() {
    let world = World::new("hash@Test").await;
    let library = world.process(Faults::default()).library;
    let mut names = Vec::new();
    for name in ["a.tar.gz", "A.tar.gz", "a.tar.gz", "README", "readme", "guide/README"] {
        let made = library.upload(&world.dataset, name, "text".into(), Naming::Numbered).await.unwrap();
        assert_eq!(world.store.document(&made.key).await.unwrap(), made);
        assert_eq!(library.file(&made.key).await.unwrap(), Bytes::from("text"));
        names.push(made.name);
    }
    assert_eq!(names, ["a.tar.gz", "A.tar(1).gz", "a.tar(2).gz", "README", "readme(1)", "guide/README"]);
    let exact = library.upload(&world.dataset, "README", "text".into(), Naming::Exact).await;
    assert_eq!(exact.unwrap_err().kind, ErrorKind::Conflict);
    let kind = async |name: &str, bytes: Bytes| {
        library.upload(&world.dataset, name, bytes, Naming::Numbered).await.unwrap_err().kind
    };
    for bad in ["", " ", "/a", "a//b", "a/../b", "a/", "..\\c", "a\0", &"ä".repeat(128)] {
        assert_eq!(kind(bad, "x".into()).await, ErrorKind::Invalid, "{bad:?}");
    }
    let empty = library.upload(&world.dataset, "empty", Bytes::new(), Naming::Numbered).await.unwrap();
    assert_eq!(empty.size, 0);
    let large = Bytes::from(vec![0; (128 << 20) + 1]);
    assert_eq!(kind("large", large).await, ErrorKind::Invalid);
    let nowhere = DatasetKey::new(&TenantId::from("other"), "d");
    let refused = library.upload(&nowhere, "a", "x".into(), Naming::Numbered).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::NotFound);
    assert_eq!(world.blobs.names().len(), 7, "refused data is not stored");
}

/// These would be lost, or not used, when the reading ends.
#[tokio::test(start_paused = true)]
async fn a_document_being_read_refuses_chunks_and_settings() {
    let world = World::new("hash@Test").await;
    let library = world.process(Faults::default()).library;
    let document = library.upload(&world.dataset, "a.txt", "text".into(), Naming::Exact).await.unwrap();
    library.queue(&world.dataset, std::slice::from_ref(&document.key.id)).await.unwrap();
    let added = library
        .add_chunk(&document.key, NewChunk { content: "more".to_owned(), ..NewChunk::default() })
        .await;
    assert_eq!(added.unwrap_err().kind, ErrorKind::Conflict);
    let settings = serde_json::Map::from_iter([("chunk_token_num".to_owned(), 64.into())]);
    let change = DocumentChange { settings: Some(settings), ..DocumentChange::default() };
    assert_eq!(library.update_document(&document.key, &change).await.unwrap_err().kind, ErrorKind::Conflict);
    let change = DocumentChange { name: Some("b.txt".to_owned()), ..DocumentChange::default() };
    assert_eq!(library.update_document(&document.key, &change).await.unwrap().name, "b.txt");
}

#[tokio::test(start_paused = true)]
async fn datasets_keep_their_embedder() {
    let (world, _, library) = done("a").await;
    let held = world.store.dataset(&world.dataset).await.unwrap();
    let without = Dataset { embedder: String::new(), ..held.clone() };
    let refused = library.update_dataset(without.clone()).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    assert!(refused.full().contains("`d` has 1"), "{}", refused.full());
    // The same model under another name, and everything else, may be written.
    let changed = Dataset { embedder: "hash".into(), pagerank: 9, ..held };
    let changed = library.update_dataset(changed).await.unwrap().unwrap();
    assert_eq!((changed.embedder.as_str(), changed.pagerank), ("hash@Test", 9));
    let ids: Vec<_> = world.documents().await.into_iter().map(|one| one.key.id).collect();
    // While it is being read, vectors may already exist.
    library.reset_documents(&world.dataset, &ids).await.unwrap();
    library.queue(&world.dataset, &ids).await.unwrap();
    assert_eq!(library.update_dataset(without.clone()).await.unwrap(), None, "its reading is too old");
    let without = Dataset { revision: changed.revision, ..without };
    assert_eq!(library.update_dataset(without.clone()).await.unwrap_err().kind, ErrorKind::Conflict);
    library.remove_documents(&world.dataset, &ids).await.unwrap();
    assert_eq!(library.update_dataset(without).await.unwrap().unwrap().embedder, "");
    let unknown =
        Dataset { key: DatasetKey::new(&world.dataset.tenant, "e"), ..dataset("nobody", &json!({})) };
    assert_eq!(
        library.create_dataset(unknown.clone(), Naming::Exact).await.unwrap_err().kind,
        ErrorKind::NotFound
    );
    let same = Dataset { embedder: "hash".into(), name: "D".into(), ..unknown };
    assert_eq!(
        library.create_dataset(same.clone(), Naming::Exact).await.unwrap_err().kind,
        ErrorKind::Conflict
    );
    let made = library.create_dataset(same, Naming::Numbered).await.unwrap();
    assert_eq!((made.name.as_str(), made.embedder.as_str()), ("D(1)", "hash@Test"));
    assert_eq!(hashed("x").len(), 8);
}

#[tokio::test]
async fn removed_documents_do_not_prevent_a_bulk_change() {
    let world = World::new("").await;
    let process = world.process(Faults::default());
    let mut ids = Vec::new();
    for id in ["a", "b", "c"] {
        ids.push(world.add(id, "text").await.id);
    }
    let library = &process.library;
    let calls = AtomicUsize::new(0);
    let change = |document: &Document| {
        calls.fetch_add(1, Ordering::SeqCst);
        let metadata = json!({"year": 2026}).as_object().unwrap().clone();
        let differs = document.metadata != metadata;
        let change = DocumentChange { metadata: Some(metadata), ..DocumentChange::default() };
        Ok::<_, Error>(differs.then_some(change))
    };
    assert_eq!(library.remove_documents(&world.dataset, &ids[1..2]).await.unwrap(), 1);
    assert_eq!(library.rework_documents(&world.dataset, &ids, change).await.unwrap(), 2);
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    // A value that is set already is no change.
    assert_eq!(library.rework_documents(&world.dataset, &ids, change).await.unwrap(), 0);
    let last = world.store.document(&world.key("c")).await.unwrap();
    assert_eq!(last.metadata["year"], 2026);
}
