//! Pictures in documents: stored with them as long as chunks refer to them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use weft_core::id::{CanvasId, DocumentKey};
use weft_core::pipeline::PipelineDocument;
use weft_core::seam::BlobStore;
use weft_core::seam::dataset_store::{Document, DocumentState};
use weft_core::{ErrorKind, Json, Result, async_trait};
use weft_knowledge::ingest::{LibraryLimits, LibraryParts, Naming, PipelineRunner};
use weft_knowledge::{IngestWorker, Library};
use weft_testkit::MemoryDatasets;

use super::fakes::Faults;
use super::kit::{Process, World, dataset};
use super::recovery::{LastStored, parts};

/// The names of all stored pictures.
fn kept(world: &World) -> Vec<String> {
    world.blobs.names().into_iter().filter(|name| name.contains(".pictures/")).collect()
}

async fn read(world: &World, process: &Process, key: &DocumentKey) {
    world.queue(std::slice::from_ref(key)).await;
    assert!(world.work(process).await);
}

/// The pictures of the chunks of a document, in order.
async fn pictures(world: &World, key: &DocumentKey) -> Vec<Option<String>> {
    world.found(key).await.into_iter().map(|chunk| chunk.picture).collect()
}

#[tokio::test(start_paused = true)]
async fn pictures_are_stored_with_their_document_and_replaced_with_its_chunks() {
    let world = World::new("").await;
    let process = world.process(Faults::default());
    let key = world.add("a", "text\npicture one\npicture two\npicture one\npicture fake").await;
    read(&world, &process, &key).await;
    let first = pictures(&world, &key).await;
    assert!(
        first[0].is_none() && first[1].is_some() && first[2].is_some() && first[4].is_none(),
        "{first:?}"
    );
    assert!(first[1] == first[3] && first[1] != first[2], "equal ones are merged: {first:?}");
    assert_eq!(kept(&world).len(), 2);
    let document = world.store.document(&key).await.unwrap();
    assert_eq!(document.picture, first[1]);
    let one = first[1].as_deref().unwrap();
    assert_eq!(&*process.library.picture(&document, one).await.unwrap(), b"GIF89a one");
    // Pictures that recur keep their names, and unreferenced ones are gone.
    world.write(&key, "picture two\npicture three").await;
    read(&world, &process, &key).await;
    let again = pictures(&world, &key).await;
    assert_eq!((kept(&world).len(), &again[0]), (2, &first[2]));
    let gone = process.library.picture(&document, one).await.unwrap_err();
    assert_eq!(gone.kind, ErrorKind::NotFound);
    process.library.reset_documents(&world.dataset, std::slice::from_ref(&key.id)).await.unwrap();
    assert_eq!(kept(&world), Vec::<String>::new());
    assert_eq!(world.store.document(&key).await.unwrap().picture, None);
}

#[tokio::test(start_paused = true)]
async fn a_picture_is_removed_with_its_last_chunk() {
    let world = World::new("").await;
    let process = world.process(Faults::default());
    let key = world.add("a", "text\npicture one\npicture two\npicture one").await;
    read(&world, &process, &key).await;
    let ids: Vec<_> = world.found(&key).await.into_iter().map(|chunk| chunk.id).collect();
    let named = pictures(&world, &key).await;
    let remove = async |nth: usize| {
        let ids = std::slice::from_ref(&ids[nth]);
        assert_eq!(process.library.remove_chunks(&key, ids).await.unwrap(), 1);
        let document = world.store.document(&key).await.unwrap();
        (kept(&world).len(), document.picture)
    };
    assert_eq!(remove(0).await, (2, named[1].clone()));
    assert_eq!(remove(1).await, (2, named[1].clone()), "the last one is shown with it, too");
    assert_eq!(remove(3).await, (1, named[2].clone()));
    let document = world.store.document(&key).await.unwrap();
    let two = named[2].as_deref().unwrap();
    assert_eq!(&*process.library.picture(&document, two).await.unwrap(), b"GIF89a two");
    // During a new reading they may be those that recur.
    world.queue(std::slice::from_ref(&key)).await;
    assert_eq!(remove(2).await, (1, None));
    assert!(world.work(&process).await);
    assert_eq!(kept(&world).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn pictures_left_by_a_crash_are_removed_by_the_index_repair() {
    let world = World::new("").await;
    let key = world.add("a", "picture one\npicture two").await;
    read(&world, &world.process(Faults::default()), &key).await;
    let chunks = world.found(&key).await;
    // The first step of removing a chunk, and then the process is killed.
    world.store.remove_chunks(&key, std::slice::from_ref(&chunks[0].id)).await.unwrap();
    assert_eq!(kept(&world).len(), 2);
    world.process(Faults::default()).library.repair().await.unwrap();
    let left = kept(&world);
    assert!(left.len() == 1 && left[0].ends_with(chunks[1].picture.as_deref().unwrap()), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn pictures_beyond_the_tenant_quota_are_omitted_and_reported() {
    let world = World::new("").await;
    let text = "picture one\npicture three\npicture two\npicture one";
    let key = world.add("a", text).await;
    // Room for the two shorter ones: each has seven bytes before its word.
    let tenant_bytes_max = text.len() as u64 + 2 * 10;
    let limits = LibraryLimits { tenant_bytes_max, ..LibraryLimits::default() };
    let library = Arc::new(Library::new(parts(&world), limits));
    let worker = IngestWorker::new(Arc::clone(&library), world.pace);
    let process = Process { library, worker, ..world.process(Faults::default()) };
    read(&world, &process, &key).await;
    let named = pictures(&world, &key).await;
    assert!(named[0].is_some() && named[0] == named[3] && named[2].is_some(), "{named:?}");
    assert_eq!((&named[1], kept(&world).len()), (&None, 2));
    assert_eq!(world.texts(&key).await.len(), 4, "its text is read anyway");
    let (state, message) = world.state(&key).await;
    assert_eq!(state, DocumentState::Done);
    assert!(
        message.contains("1 picture was") && message.contains("limits.tenant_document_bytes"),
        "{message}"
    );
    // Recurring ones take no more space; removed ones have freed theirs.
    read(&world, &process, &key).await;
    assert_eq!(pictures(&world, &key).await, named);
    world.write(&key, "picture three").await;
    read(&world, &process, &key).await;
    read(&world, &process, &key).await;
    assert!(pictures(&world, &key).await[0].is_some());
}

#[tokio::test(start_paused = true)]
async fn pictures_are_removed_with_their_document_and_dataset() {
    let world = World::new("").await;
    let process = world.process(Faults::default());
    let (one, other) = (world.add("a", "picture one").await, world.add("b", "picture one").await);
    for key in [&one, &other] {
        read(&world, &process, key).await;
    }
    assert_eq!(kept(&world).len(), 2, "each document has a separate one");
    process.library.remove_documents(&world.dataset, &[one.id]).await.unwrap();
    assert_eq!(world.blobs.names().len(), 2, "the other one with its picture");
    process.library.remove_dataset(&world.dataset).await.unwrap();
    assert_eq!(world.blobs.names(), Vec::<String>::new());
}

/// Delivers the second picture of each document.
#[derive(Debug)]
struct SecondPicture;

#[async_trait]
impl PipelineRunner for SecondPicture {
    async fn run(&self, _: &CanvasId, document: &Document) -> Result<Json> {
        let handed = PipelineDocument::new("f".into(), document.name.clone());
        let chunks = json!([{"text": "no picture"}, {"text": "the second", "picture_number": 1}]);
        Ok(json!({"document": handed, "chunks": chunks}))
    }

    async fn stop(&self, _: &Document) {}
}

#[tokio::test(start_paused = true)]
async fn pictures_named_by_pipeline_chunks_are_stored() {
    let memory = MemoryDatasets::new();
    let piped = dataset("", &json!({"pipeline_id": "p"}));
    let world = World::over(Arc::new(memory.clone()), Arc::new(memory), piped).await;
    let process = world.process(Faults::default());
    let worker = process.worker.clone().with_pipelines(Arc::new(SecondPicture));
    let process = Process { worker, ..process };
    let key = world.add("a", "picture one\npicture two").await;
    read(&world, &process, &key).await;
    let found = pictures(&world, &key).await;
    assert!(found.len() == 2 && found[0].is_none(), "{found:?}");
    let document = world.store.document(&key).await.unwrap();
    let second = found[1].as_deref().unwrap();
    assert_eq!(&*process.library.picture(&document, second).await.unwrap(), b"GIF89a two");
    assert_eq!(kept(&world).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_picture_document_is_not_stored_twice() {
    let world = World::new("").await;
    let process = world.process(Faults::default());
    let gif = Bytes::from_static(b"GIF89a\npicture one");
    let uploaded = process.library.upload(&world.dataset, "a.gif", gif, Naming::Exact);
    let key = uploaded.await.unwrap().key;
    read(&world, &process, &key).await;
    assert_eq!(world.state(&key).await.0, DocumentState::Done);
    assert_eq!((kept(&world), pictures(&world, &key).await), (Vec::new(), vec![None, None]));
}

#[tokio::test(start_paused = true)]
async fn leftovers_of_a_killed_reading_are_removed_with_the_document() {
    let world = World::new("").await;
    let key = world.add("a", "picture one\npicture two").await;
    world.queue(std::slice::from_ref(&key)).await;
    let parts = LibraryParts { blobs: Arc::new(LastStored(world.blobs.clone())), ..parts(&world) };
    let killed = IngestWorker::new(Arc::new(Library::new(parts, LibraryLimits::default())), world.pace);
    let stop = CancellationToken::new();
    let run = killed.run(&stop, Duration::ZERO);
    tokio::time::timeout(Duration::from_secs(1), run).await.unwrap_err();
    assert_eq!(kept(&world).len(), 1, "it was killed between the one and the other");
    let next = world.process(Faults::default()).library;
    next.remove_documents(&world.dataset, std::slice::from_ref(&key.id)).await.unwrap();
    assert_eq!(world.blobs.names(), Vec::<String>::new());
    // The write in flight when it was killed arrives after the document is gone.
    let late = "documents/a.pictures/late";
    world.blobs.put(&world.dataset.tenant, late, Bytes::from_static(b"GIF89a")).await.unwrap();
    tokio::time::sleep(world.pace.lease * 2).await;
    next.repair().await.unwrap();
    assert_eq!(world.blobs.names(), Vec::<String>::new());
    assert!(world.idle().await);
}
