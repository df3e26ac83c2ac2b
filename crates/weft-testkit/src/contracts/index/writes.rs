//! Changes and their visibility.

use weft_core::ErrorKind;
use weft_core::id::{ChunkId, DatasetKey, DocumentId};
use weft_core::seam::Index;
use weft_core::seam::index::{IndexChange, IndexSize, IndexedChunk, IndexedDocument};

use super::{ask, chunks, dataset, document, fine, ids, put, query, refused, tenant, text};

/// Number of rounds of concurrent writes and queries.
const ROUNDS: usize = 6;

pub(super) async fn what_is_written_is_found(index: &dyn Index) {
    let dataset = dataset();
    assert!(text(index, &dataset, "apple").await.hits.is_empty());
    assert_eq!(fine(index.size(&dataset).await), IndexSize::default());
    fine(index.write(&dataset, Vec::new()).await);
    put(index, &dataset, "d", &[("a", "A red apple.", &[1.0, 0.0]), ("b", "A pear.", &[])]).await;
    let found = text(index, &dataset, "apples").await;
    assert_eq!(ids(&found), ["a"]);
    let hit = &found.hits[0];
    assert_eq!((&hit.dataset, hit.document.as_str(), hit.text_rank), (&dataset.id, "d", Some(0)));
    let size = IndexSize { documents: 1, chunks: 2, vectors: 1, dimension: 2 };
    assert_eq!(fine(index.size(&dataset).await), size);
    put(index, &dataset, "", &[("", "Ids may be anything.", &[])]).await;
    assert_eq!(ids(&text(index, &dataset, "anything").await), [""]);
}

/// Each query finds what was accepted before it, in order of acceptance, and all of it is stored in the end.
pub(super) async fn what_is_accepted_is_found(index: &dyn Index) {
    let dataset = dataset();
    let mut kept = Vec::new();
    for at in 0..20 {
        let id = format!("a{at}");
        let changes = vec![document("d"), chunks("d", &[(id.as_str(), "apple", &[1.0, 0.0])])];
        kept.push(fine(index.write_behind(&dataset, changes).await));
        if at % 7 == 0 {
            assert_eq!(text(index, &dataset, "apple").await.text_total, at + 1);
        }
    }
    assert_eq!(fine(index.size(&dataset).await).chunks, 20);
    // A write comes after what was accepted before it.
    let first = vec![chunks("d", &[("b", "pear", &[1.0, 0.0])])];
    // Not awaited.
    drop(fine(index.write_behind(&dataset, first).await));
    fine(index.write(&dataset, vec![IndexChange::RemoveChunks(vec![ChunkId::new("b")])]).await);
    assert!(text(index, &dataset, "pear").await.hits.is_empty());
    let last = vec![IndexChange::Clear(DocumentId::new("d")), chunks("d", &[("c", "plum", &[])])];
    kept.push(fine(index.write_behind(&dataset, last).await));
    for kept in kept {
        fine(kept.await);
    }
    assert_eq!(ids(&text(index, &dataset, "apple pear plum").await), ["c"]);
    let refused_one = vec![chunks("nowhere", &[("x", "apple", &[])])];
    let refused_one = match index.write_behind(&dataset, refused_one).await {
        Ok(kept) => kept.await,
        Err(error) => Err(error),
    };
    refused(refused_one, ErrorKind::NotFound);
    assert_eq!(fine(index.size(&dataset).await).chunks, 1);
}

pub(super) async fn names_and_larger_chunks_come_along(index: &dyn Index) {
    let dataset = dataset();
    let part = |parent: Option<&str>| {
        let parent = parent.map(ChunkId::new);
        IndexedChunk { content: "apple".to_owned(), parent, ..IndexedChunk::default() }
    };
    let all = [("a", Some("x")), ("b", None), ("c", Some("y")), ("d", Some("x"))];
    let all = all.map(|(id, parent)| (ChunkId::new(id), part(parent))).to_vec();
    put(index, &dataset, "other", &[("z", "apple", &[])]).await;
    fine(index.write(&dataset, vec![document("d"), IndexChange::Chunks(DocumentId::new("d"), all)]).await);
    let check = async |name: &str| {
        let found = text(index, &dataset, "apple").await;
        let parent = |id: &str| found.hits.iter().find(|hit| hit.chunk.as_str() == id)?.parent.clone();
        let parents = ["a", "b", "c", "d", "z"].map(|id| parent(id).map(|parent| parent.to_string()));
        let expected = [Some("x"), None, Some("y"), Some("x"), None];
        assert_eq!(parents.each_ref().map(|parent| parent.as_deref()), expected);
        let names: Vec<(&str, &str)> =
            found.names.iter().map(|(id, name)| (id.as_str(), name.as_str())).collect();
        assert_eq!(names, [("d", name), ("other", "other.txt")]);
    };
    check("d.txt").await;
    let renamed = IndexedDocument {
        id: DocumentId::new("d"),
        name: "new.txt".to_owned(),
        metadata: serde_json::Map::new(),
        available: true,
    };
    fine(index.write(&dataset, vec![IndexChange::Document(renamed)]).await);
    check("new.txt").await;
    assert!(text(index, &dataset, "pear").await.names.is_empty());
}

pub(super) async fn chunks_are_replaced_and_taken_out(index: &dyn Index) {
    let dataset = dataset();
    let three = [("a", "one apple", &[1.0][..]), ("b", "two apple", &[1.0]), ("c", "three apple", &[1.0])];
    put(index, &dataset, "d", &three).await;
    put(index, &dataset, "e", &[("f", "four apple", &[1.0])]).await;
    let found = |words: &'static str| {
        let dataset = dataset.clone();
        async move { ids(&text(index, &dataset, words).await).join(" ") }
    };
    fine(index.write(&dataset, vec![chunks("d", &[("a", "one pear", &[1.0])])]).await);
    assert_eq!((found("apple").await, found("pear").await), ("b c f".to_owned(), "a".to_owned()));
    let twice = vec![chunks("d", &[("g", "first plum", &[]), ("g", "second plum", &[])])];
    fine(index.write(&dataset, twice).await);
    assert_eq!((found("first").await, found("second plum").await), (String::new(), "g".to_owned()));
    let gone = IndexChange::RemoveChunks(vec![ChunkId::new("b"), ChunkId::new("never there")]);
    fine(index.write(&dataset, vec![gone]).await);
    assert_eq!(found("apple").await, "c f");
    let anew = vec![IndexChange::Clear(DocumentId::new("d")), chunks("d", &[("h", "new apple", &[1.0])])];
    fine(index.write(&dataset, anew).await);
    assert_eq!((found("apple").await, found("plum pear").await), ("f h".to_owned(), String::new()));
    assert_eq!(fine(index.size(&dataset).await).documents, 2);
    let order = vec![
        chunks("e", &[("i", "never apple", &[])]),
        IndexChange::RemoveDocument(DocumentId::new("e")),
        IndexChange::RemoveDocument(DocumentId::new("never there")),
    ];
    fine(index.write(&dataset, order).await);
    assert_eq!(found("apple").await, "h");
    let size = IndexSize { documents: 1, chunks: 1, vectors: 1, dimension: 1 };
    assert_eq!(fine(index.size(&dataset).await), size);
    fine(index.remove(&dataset).await);
    assert_eq!(
        (found("apple").await, fine(index.size(&dataset).await)),
        (String::new(), IndexSize::default())
    );
    fine(index.remove(&dataset).await);
    put(index, &dataset, "d", &[("a", "back apple", &[1.0, 0.0, 0.0])]).await;
    assert_eq!(found("apple").await, "a");
}

pub(super) async fn a_refused_write_changes_nothing(index: &dyn Index) {
    let dataset = dataset();
    let early = vec![document("other"), chunks("unknown", &[("a", "apple", &[])])];
    refused(index.write(&dataset, early).await, ErrorKind::NotFound);
    put(index, &dataset, "d", &[("a", "apple", &[1.0, 0.0])]).await;
    let before = fine(index.size(&dataset).await);
    let wrong = vec![
        IndexChange::RemoveChunks(vec![ChunkId::new("a")]),
        chunks("d", &[("b", "apple", &[0.0, 1.0]), ("c", "apple", &[1.0, 0.0, 0.0])]),
    ];
    refused(index.write(&dataset, wrong).await, ErrorKind::Invalid);
    refused(index.write(&dataset, vec![chunks("d", &[("c", "apple", &[1.0])])]).await, ErrorKind::Invalid);
    refused(
        index.write(&dataset, vec![chunks("d", &[("c", "apple", &[f32::NAN, 1.0])])]).await,
        ErrorKind::Invalid,
    );
    assert_eq!(ids(&text(index, &dataset, "apple").await), ["a"]);
    assert_eq!(fine(index.size(&dataset).await), before);
    let wrong = query(&dataset, "apple", &[1.0, 0.0, 0.0]);
    refused(index.search(&dataset.tenant, &wrong).await, ErrorKind::Invalid);
    fine(index.write(&dataset, vec![chunks("d", &[("b", "apple", &[])])]).await);
    assert_eq!(ids(&text(index, &dataset, "apple").await), ["a", "b"]);
}

pub(super) async fn a_dataset_can_begin_anew(index: &dyn Index) {
    let dataset = dataset();
    put(index, &dataset, "d", &[("a", "apple", &[1.0, 0.0]), ("b", "apple", &[1.0, 0.0])]).await;
    let longer = vec![chunks("d", &[("a", "apple", &[1.0, 0.0, 0.0])])];
    refused(index.write(&dataset, longer).await, ErrorKind::Invalid);
    let anew = vec![
        IndexChange::Clear(DocumentId::new("d")),
        chunks("d", &[("a", "apple", &[0.0, 1.0, 0.0]), ("b", "pear", &[1.0, 0.0, 0.0])]),
    ];
    fine(index.write(&dataset, anew).await);
    assert_eq!(fine(index.size(&dataset).await).dimension, 3);
    let found = ask(index, &dataset, &query(&dataset, "", &[0.0, 1.0, 0.0])).await;
    let nearest = found.hits.iter().find(|hit| hit.vector_rank == Some(0));
    assert_eq!(nearest.map(|hit| hit.chunk.as_str()), Some("a"));
}

/// Each write changes both chunks; a query that sees only one of them changed has seen half a write.
pub(super) async fn an_answer_is_of_one_state(index: &dyn Index) {
    let dataset = dataset();
    put(index, &dataset, "d", &[("a", "apple round0", &[1.0]), ("b", "apple round0", &[1.0])]).await;
    let writing = async {
        for round in 1..ROUNDS {
            let words = format!("apple round{round}");
            let anew = vec![
                IndexChange::Clear(DocumentId::new("d")),
                chunks("d", &[("a", words.as_str(), &[1.0]), ("b", words.as_str(), &[1.0])]),
            ];
            fine(index.write(&dataset, anew).await);
            let found = text(index, &dataset, &format!("round{round}")).await;
            assert_eq!(ids(&found), ["a", "b"], "written data is found at once");
        }
    };
    let others = async {
        let writes = (0..ROUNDS).map(|number| {
            let dataset = dataset.clone();
            async move {
                let id = format!("other{number}");
                put(index, &dataset, &id, &[(id.as_str(), "plum", &[1.0])]).await;
            }
        });
        futures::future::join_all(writes).await;
    };
    let asking = async {
        for _ in 0..ROUNDS * 8 {
            let found = ask(index, &dataset, &query(&dataset, "apple", &[1.0])).await;
            let of_two: Vec<f32> =
                found.hits.iter().filter(|hit| hit.text_rank.is_some()).map(|hit| hit.text).collect();
            assert_eq!(of_two.len(), 2, "{found:?}");
            assert_eq!(found.text_total, 2);
            tokio::task::yield_now().await;
        }
    };
    futures::join!(writing, others, asking);
    assert_eq!(text(index, &dataset, "plum").await.text_total, ROUNDS);
}

pub(super) async fn tenants_are_isolated(index: &dyn Index) {
    let mine = dataset();
    let theirs = DatasetKey::new(&tenant(), mine.id.clone());
    put(index, &mine, "d", &[("a", "apple", &[1.0])]).await;
    assert!(ask(index, &theirs, &query(&theirs, "apple", &[1.0])).await.hits.is_empty());
    assert_eq!(fine(index.size(&theirs).await), IndexSize::default());
    fine(index.remove(&theirs).await);
    put(index, &theirs, "d", &[("a", "pear", &[1.0, 1.0])]).await;
    assert_eq!(ids(&text(index, &mine, "apple pear").await), ["a"]);
    assert!(text(index, &mine, "pear").await.hits.is_empty());
}
