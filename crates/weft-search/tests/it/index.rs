//! The two implementations of the chunk index.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weft_core::ErrorKind;
use weft_core::id::{ChunkId, DatasetKey, DocumentId, TenantId};
use weft_core::seam::Index;
use weft_core::seam::index::{
    IndexAnswer, IndexChange, IndexQuery, IndexedChunk, IndexedDocument, TextQuery, VectorQuery,
};
use weft_search::{MemoryChunkIndex, TantivyIndex};
use weft_testkit::Dice;
use weft_testkit::contracts::index::{
    an_index_is_shared_by_handles, index_keeps_its_contract, index_keeps_what_was_written,
};

#[tokio::test(flavor = "multi_thread")]
async fn memory_keeps_the_contract() {
    index_keeps_its_contract(&MemoryChunkIndex::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tantivy_keeps_the_contract_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    index_keeps_its_contract(&TantivyIndex::in_folder(folder.path())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tantivy_keeps_the_contract_in_memory() {
    index_keeps_its_contract(&TantivyIndex::in_memory()).await;
}

/// Without memory, every dataset is closed as soon as another one is opened.
#[tokio::test(flavor = "multi_thread")]
async fn tantivy_keeps_the_contract_with_hardly_any_memory() {
    let folder = tempfile::tempdir().unwrap();
    index_keeps_its_contract(&TantivyIndex::in_folder_with(folder.path(), 0)).await;
}

#[tokio::test]
async fn tantivy_persists_writes() {
    let folder = tempfile::tempdir().unwrap();
    index_keeps_what_was_written(|| TantivyIndex::in_folder(folder.path())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_handles_on_a_folder_take_turns() {
    let folder = tempfile::tempdir().unwrap();
    an_index_is_shared_by_handles(
        &TantivyIndex::in_folder(folder.path()),
        &TantivyIndex::in_folder(folder.path()),
    )
    .await;
}

fn key() -> DatasetKey {
    DatasetKey::new(&TenantId::new("t"), "k")
}

fn document(id: &str) -> IndexChange {
    IndexChange::Document(IndexedDocument {
        id: DocumentId::new(id),
        name: String::new(),
        metadata: Default::default(),
        available: true,
    })
}

fn chunk(id: &str, content: &str, vector: Vec<f32>) -> (ChunkId, IndexedChunk) {
    (
        ChunkId::new(id),
        IndexedChunk { content: content.to_owned(), vector: Some(vector), ..IndexedChunk::default() },
    )
}

async fn put(index: &dyn Index, id: &str, words: &str) {
    let chunks = IndexChange::Chunks(DocumentId::new(id), vec![chunk(id, words, vec![1.0, 0.5])]);
    index.write(&key(), vec![document(id), chunks]).await.unwrap();
}

async fn found(index: &dyn Index, words: &str) -> Vec<String> {
    let query = IndexQuery {
        datasets: vec![key().id],
        text: Some(TextQuery { text: words.to_owned(), keywords: Vec::new() }),
        count_max: 10,
        ..IndexQuery::default()
    };
    let answer = index.search(&key().tenant, &query).await.unwrap();
    let mut ids: Vec<String> = answer.hits.iter().map(|hit| hit.chunk.to_string()).collect();
    ids.sort();
    ids
}

/// The folder with the files of the only dataset.
fn inner(folder: &Path) -> PathBuf {
    let only = |folder: &Path| fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    only(&only(folder))
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

/// The process dies after the files of a write exist, completely or in part, and before the commit.
#[tokio::test]
async fn an_interrupted_write_is_not_visible() {
    let (folder, before) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let index = TantivyIndex::in_folder(folder.path());
    put(&index, "a", "apple").await;
    copy(&inner(folder.path()), before.path());
    put(&index, "b", "apple pear").await;
    index.write(&key(), vec![IndexChange::RemoveDocument(DocumentId::new("a"))]).await.unwrap();
    assert_eq!(found(&index, "apple").await, ["b"]);
    drop(index);
    for left in [None, Some(0), Some(7)] {
        let place = inner(folder.path());
        for entry in fs::read_dir(&place).unwrap() {
            let path = entry.unwrap().path();
            let is_new = !before.path().join(path.file_name().unwrap()).exists();
            if let (true, Some(bytes)) = (is_new, left) {
                fs::File::options().write(true).open(&path).unwrap().set_len(bytes).unwrap();
            }
        }
        copy(before.path(), &place);
        let index = TantivyIndex::in_folder(folder.path());
        assert_eq!(found(&index, "apple").await, ["a"], "{left:?}");
        put(&index, "c", "apple").await;
        assert_eq!(found(&index, "apple").await, ["a", "c"], "{left:?}");
        index.write(&key(), vec![IndexChange::RemoveDocument(DocumentId::new("c"))]).await.unwrap();
    }
}

#[tokio::test]
async fn a_damaged_index_is_an_error_that_names_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let index = TantivyIndex::in_folder(folder.path());
    put(&index, "a", "apple").await;
    drop(index);
    fs::write(inner(folder.path()).join("meta.json"), "{").unwrap();
    let index = TantivyIndex::in_folder(folder.path());
    let query = IndexQuery { datasets: vec![key().id], count_max: 1, ..IndexQuery::default() };
    let error = index.search(&key().tenant, &query).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Internal);
    assert!(error.full().contains("rebuild its index"), "{}", error.full());
    index.remove(&key()).await.unwrap();
    put(&index, "b", "apple").await;
    assert_eq!(found(&index, "apple").await, ["b"]);
}

/// Accepted writes exist after the process has waited for them, and an index of an older version takes no
/// space.
#[tokio::test(flavor = "multi_thread")]
async fn accepted_writes_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let index = TantivyIndex::in_folder(folder.path());
    let other = TantivyIndex::in_folder(folder.path());
    let chunks = IndexChange::Chunks(DocumentId::new("d"), vec![chunk("c", "apple", vec![1.0, 0.5])]);
    let kept = index.write_behind(&key(), vec![document("d"), chunks]).await.unwrap();
    assert_eq!(found(&index, "apple").await, ["c"]);
    kept.await.unwrap();
    assert_eq!(found(&other, "apple").await, ["c"]);
    let chunks = IndexChange::Chunks(DocumentId::new("d"), vec![chunk("e", "apple", vec![1.0, 0.5])]);
    // Nobody queries and nobody waits: it is stored anyway.
    drop(index.write_behind(&key(), vec![chunks]).await.unwrap());
    drop(index);
    let kept = async {
        while found(&other, "apple").await != ["c", "e"] {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), kept).await.unwrap();
}

#[tokio::test]
async fn an_index_of_an_older_version_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    put(&TantivyIndex::in_folder(folder.path()), "a", "apple").await;
    let now = inner(folder.path());
    let version = |name: &str| now.with_extension(name);
    let other = now.with_file_name("of another dataset.v0");
    fs::rename(&now, version("v0")).unwrap();
    fs::create_dir(&other).unwrap();
    let index = TantivyIndex::in_folder(folder.path());
    assert!(found(&index, "apple").await.is_empty(), "and nothing was changed");
    assert!(version("v0").exists());
    put(&index, "b", "apple").await;
    assert_eq!(found(&index, "apple").await, ["b"]);
    assert!(now.exists() && other.exists() && !version("v0").exists());
}

/// The entries with their vectors are most of an index. What a query needs of them is in memory already.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn entry_files_are_mapped_only_while_read() {
    let folder = tempfile::tempdir().unwrap();
    let mapped = |ending: &str| {
        let own = fs::read_to_string("/proc/self/maps").unwrap();
        let folder = folder.path().canonicalize().unwrap();
        own.lines().filter(|line| line.contains(folder.to_str().unwrap()) && line.ends_with(ending)).count()
    };
    let index = TantivyIndex::in_folder(folder.path());
    put(&index, "d1", "whales sing").await;
    put(&index, "d2", "whales dive").await;
    index.write(&key(), vec![IndexChange::RemoveDocument(DocumentId::new("d1"))]).await.unwrap();
    assert_eq!(found(&index, "whales").await, ["d2"]);
    assert_eq!((mapped(".store"), mapped(".idx") > 0), (0, true));
    drop(index);
    // Opened again, every part is read anew.
    let index = TantivyIndex::in_folder(folder.path());
    assert_eq!(found(&index, "whales").await, ["d2"]);
    assert_eq!((mapped(".store"), mapped(".idx") > 0), (0, true));
}

#[tokio::test]
async fn a_search_creates_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let index = TantivyIndex::in_folder(folder.path().join("index"));
    assert!(found(&index, "apple").await.is_empty());
    assert!(!folder.path().join("index").exists());
}

/// Concurrent writes share a commit, and a refused one does not affect the others.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writes_share_commits() {
    let folder = tempfile::tempdir().unwrap();
    let index = Arc::new(TantivyIndex::in_folder(folder.path()));
    put(&*index, "first", "apple").await;
    let writes = (0..60).map(|number| {
        let index = Arc::clone(&index);
        async move {
            let id = format!("d{number}");
            let vector = if number % 3 == 0 { vec![1.0] } else { vec![1.0, 0.5] };
            let chunks = IndexChange::Chunks(DocumentId::new(id.as_str()), vec![chunk(&id, "apple", vector)]);
            index.write(&key(), vec![document(&id), chunks]).await.is_ok()
        }
    });
    let written = futures::future::join_all(writes).await;
    assert_eq!(written.iter().filter(|written| **written).count(), 40);
    let size = index.size(&key()).await.unwrap();
    assert_eq!((size.documents, size.chunks), (41, 41));
}

/// Random changes and queries: the two indexes agree.
#[tokio::test]
async fn tantivy_agrees_with_the_plain_index() {
    const WORDS: [&str; 12] = [
        "apple",
        "pear",
        "plum",
        "退货",
        "期限",
        "KX-200",
        "the",
        "is",
        "searching",
        "cherry",
        "café",
        "三十天",
    ];
    for seed in 0..4 {
        let mut dice = Dice::new(seed);
        let (plain, tantivy) = (MemoryChunkIndex::new(), TantivyIndex::in_memory());
        for _ in 0..25 {
            let changes: Vec<IndexChange> =
                (0..1 + dice.below(3)).map(|_| change(&mut dice, &WORDS)).collect();
            let one = plain.write(&key(), changes.clone()).await;
            let other = tantivy.write(&key(), changes).await;
            assert_eq!(one.is_ok(), other.is_ok(), "{seed}: {one:?} {other:?}");
            assert_eq!(plain.size(&key()).await.unwrap(), tantivy.size(&key()).await.unwrap(), "{seed}");
            let query = question(&mut dice, &WORDS);
            let one = plain.search(&key().tenant, &query).await.unwrap();
            let other = tantivy.search(&key().tenant, &query).await.unwrap();
            agree(one, other, seed);
        }
    }
}

fn pick<'a>(dice: &mut Dice, words: &[&'a str]) -> &'a str {
    words[usize::try_from(dice.below(words.len() as u64)).unwrap()]
}

fn text(dice: &mut Dice, words: &[&str]) -> String {
    let count = 1 + dice.below(9);
    (0..count).map(|_| pick(dice, words)).collect::<Vec<_>>().join(" ")
}

fn vector(dice: &mut Dice) -> Vec<f32> {
    let mut vector: Vec<f32> =
        (0..8).map(|_| f32::from(u8::try_from(dice.below(200)).unwrap()) / 100.0 - 1.0).collect();
    vector[0] += 2.5;
    vector
}

fn change(dice: &mut Dice, words: &[&str]) -> IndexChange {
    let id = DocumentId::new(format!("d{}", dice.below(4)));
    match dice.below(8) {
        0 => IndexChange::RemoveDocument(id),
        1 => IndexChange::Clear(id),
        2 => IndexChange::RemoveChunks(vec![ChunkId::new(format!("c{}", dice.below(9)))]),
        3 | 4 => IndexChange::Document(IndexedDocument {
            id,
            name: String::new(),
            metadata: Default::default(),
            available: dice.below(4) > 0,
        }),
        _ => {
            let chunks = (0..1 + dice.below(3)).map(|_| {
                let text = text(dice, words);
                let vector = vector(dice);
                chunk(&format!("c{}", dice.below(9)), &text, vector)
            });
            IndexChange::Chunks(id, chunks.collect())
        }
    }
}

fn question(dice: &mut Dice, words: &[&str]) -> IndexQuery {
    IndexQuery {
        datasets: vec![key().id],
        text: Some(TextQuery { text: text(dice, words), keywords: Vec::new() }),
        vector: Some(VectorQuery { vector: vector(dice), cosine_min: -1.0 }),
        count_max: 100,
        ..IndexQuery::default()
    }
}

fn agree(mut one: IndexAnswer, mut other: IndexAnswer, seed: u64) {
    let close = |one: f32, other: f32, by: f32| (one - other).abs() <= by;
    assert_eq!(one.text_total, other.text_total, "{seed}");
    assert!(close(one.bm25_scale, other.bm25_scale, 1e-3), "{seed}");
    assert!(close(one.cosine_mean, other.cosine_mean, 0.01), "{seed}: {one:?} {other:?}");
    assert_eq!(one.cosine_count, other.cosine_count, "{seed}");
    one.hits.sort_by(|a, b| a.chunk.cmp(&b.chunk));
    other.hits.sort_by(|a, b| a.chunk.cmp(&b.chunk));
    assert_eq!(one.hits.len(), other.hits.len(), "{seed}");
    for (one, other) in one.hits.iter().zip(&other.hits) {
        assert_eq!((&one.chunk, &one.document), (&other.chunk, &other.document), "{seed}");
        assert!(close(one.text, other.text, 1e-3), "{seed}: {one:?} {other:?}");
        assert!(close(one.cosine.unwrap(), other.cosine.unwrap(), 0.01), "{seed}: {one:?} {other:?}");
    }
}
