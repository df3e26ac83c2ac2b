//! Contract of an [`Index`]. The suite works in tenants of its own, so it may run against an index with other contents.

mod conditions;
mod scores;
mod writes;

use weft_core::filter::{Filter, Metadata};
use weft_core::id::{ChunkId, DatasetKey, DocumentId, generate};
use weft_core::seam::Index;
use weft_core::seam::index::{
    IndexAnswer, IndexChange, IndexQuery, IndexedChunk, IndexedDocument, TextQuery, VectorQuery,
};

use super::{fine, refused, tenant};

/// Checks the contract of an index.
///
/// # Panics
/// If the contract is violated.
pub async fn index_keeps_its_contract(index: &dyn Index) {
    writes::what_is_written_is_found(index).await;
    writes::what_is_accepted_is_found(index).await;
    writes::names_and_larger_chunks_come_along(index).await;
    writes::chunks_are_replaced_and_taken_out(index).await;
    writes::a_refused_write_changes_nothing(index).await;
    writes::a_dataset_can_begin_anew(index).await;
    writes::an_answer_is_of_one_state(index).await;
    writes::tenants_are_isolated(index).await;
    conditions::every_operator_filters_both_parts(index).await;
    conditions::documents_and_availability_count_together(index).await;
    conditions::metadata_changes_without_the_chunks(index).await;
    scores::each_part_finds_by_itself(index).await;
    scores::scores_mean_the_same_in_every_dataset(index).await;
    scores::the_usual_cosine_is_that_of_everything_there(index).await;
    scores::scores_are_exact_after_deletes(index).await;
    scores::words_of_all_parts_and_languages_are_found(index).await;
    scores::counts_are_bounded_and_totals_honest(index).await;
}

/// Checks that an index keeps its contents when it is opened again, and remains usable. The function opens the same
/// location each time.
///
/// # Panics
/// If the contract is violated.
pub async fn index_keeps_what_was_written<I: Index>(open: impl Fn() -> I) {
    let dataset = dataset();
    let index = open();
    put(&index, &dataset, "d", &[("a", "red apple", &[1.0, 0.0]), ("b", "green pear", &[0.0, 1.0])]).await;
    fine(index.write(&dataset, vec![IndexChange::RemoveChunks(vec![ChunkId::new("a")])]).await);
    drop(index);
    let index = open();
    assert_eq!(ids(&text(&index, &dataset, "apple pear").await), ["b"]);
    let size = fine(index.size(&dataset).await);
    assert_eq!((size.documents, size.chunks, size.vectors, size.dimension), (1, 1, 1, 2));
    let found = ask(&index, &dataset, &query(&dataset, "", &[0.6, 0.8])).await;
    assert!((found.cosine_mean - 0.8).abs() < 0.005 && found.cosine_count == 1, "{found:?}");
    put(&index, &dataset, "d", &[("c", "green pear", &[0.0, 1.0])]).await;
    put(&index, &dataset, "e", &[("b", "moved pear", &[1.0, 0.0])]).await;
    drop(index);
    let index = open();
    let found = text(&index, &dataset, "pear moved").await;
    assert_eq!(ids(&found), ["b", "c"]);
    assert!(found.hits.iter().any(|hit| hit.chunk.as_str() == "b" && hit.document.as_str() == "e"));
    fine(index.remove(&dataset).await);
    drop(index);
    assert_eq!(fine(open().size(&dataset).await).chunks, 0);
}

/// Checks that two handles of one index, as in two processes, see each other's writes and both make progress.
///
/// # Panics
/// If the contract is violated.
pub async fn an_index_is_shared_by_handles(one: &dyn Index, other: &dyn Index) {
    let dataset = dataset();
    put(one, &dataset, "a", &[("a", "apple", &[1.0, 0.0])]).await;
    assert_eq!(ids(&text(other, &dataset, "apple").await), ["a"]);
    put(other, &dataset, "b", &[("b", "apple", &[1.0, 0.0])]).await;
    assert_eq!(ids(&text(one, &dataset, "apple").await), ["a", "b"]);
    let many = |index, name: &'static str| {
        let dataset = dataset.clone();
        async move {
            for number in 0..12 {
                let id = format!("{name}{number}");
                put(index, &dataset, &id, &[(&id, "pear", &[0.0, 1.0])]).await;
            }
        }
    };
    tokio::join!(many(one, "one"), many(other, "other"));
    for index in [one, other] {
        let size = fine(index.size(&dataset).await);
        assert_eq!((size.documents, size.chunks, size.vectors), (26, 26, 26));
        assert_eq!(text(index, &dataset, "pear").await.text_total, 24);
    }
    // Data removed through one handle is gone for the other, which may add it again.
    fine(one.write(&dataset, vec![IndexChange::RemoveDocument(DocumentId::new("a"))]).await);
    assert_eq!(ids(&text(other, &dataset, "apple").await), ["b"]);
    put(other, &dataset, "a", &[("a", "apple", &[1.0, 0.0])]).await;
    assert_eq!(ids(&text(one, &dataset, "apple").await), ["a", "b"]);
    fine(other.remove(&dataset).await);
    assert_eq!(fine(one.size(&dataset).await).chunks, 0);
    // One removes the index while the other writes: afterwards it is consistent, whichever was first.
    let writes = async {
        for number in 0..20 {
            let id = format!("late{number}");
            let all = vec![document(&id), chunks(&id, &[(&id, "plum", &[0.0, 1.0])])];
            if let Err(error) = one.write(&dataset, all).await {
                assert!(error.kind.is_passing(), "{}", error.full());
            }
        }
    };
    tokio::join!(writes, async { fine(other.remove(&dataset).await) });
    put(other, &dataset, "last", &[("last", "plum", &[0.0, 1.0])]).await;
    let (seen_by_one, seen_by_other) =
        (text(one, &dataset, "plum").await, text(other, &dataset, "plum").await);
    assert_eq!(ids(&seen_by_one), ids(&seen_by_other));
    assert!(ids(&seen_by_one).contains(&"last"));
    fine(one.remove(&dataset).await);
    put(one, &dataset, "c", &[("c", "apple", &[1.0, 0.0, 0.0])]).await;
    assert_eq!(ids(&text(other, &dataset, "apple").await), ["c"]);
    assert_eq!(fine(other.size(&dataset).await).dimension, 3);
}

fn dataset() -> DatasetKey {
    DatasetKey::new(&tenant(), generate())
}

/// A chunk: its id, its text, and its vector unless that is empty.
type ChunkSketch<'a> = (&'a str, &'a str, &'a [f32]);

fn document(id: &str) -> IndexChange {
    document_with(id, Metadata::new())
}

fn document_with(id: &str, metadata: Metadata) -> IndexChange {
    let name = format!("{id}.txt");
    IndexChange::Document(IndexedDocument { id: DocumentId::new(id), name, metadata, available: true })
}

fn chunks(document: &str, chunks: &[ChunkSketch<'_>]) -> IndexChange {
    let chunk = |(id, content, vector): &ChunkSketch<'_>| {
        let vector = (!vector.is_empty()).then(|| of_length_one(vector));
        (
            ChunkId::new(*id),
            IndexedChunk { content: (*content).to_owned(), vector, ..IndexedChunk::default() },
        )
    };
    IndexChange::Chunks(DocumentId::new(document), chunks.iter().map(chunk).collect())
}

fn of_length_one(vector: &[f32]) -> Vec<f32> {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.iter().map(|value| value / length).collect()
}

async fn put(index: &dyn Index, dataset: &DatasetKey, id: &str, sketches: &[ChunkSketch<'_>]) {
    fine(index.write(dataset, vec![document(id), chunks(id, sketches)]).await);
}

fn query(dataset: &DatasetKey, words: &str, vector: &[f32]) -> IndexQuery {
    IndexQuery {
        datasets: vec![dataset.id.clone()],
        text: (!words.is_empty()).then(|| TextQuery { text: words.to_owned(), keywords: Vec::new() }),
        vector: (!vector.is_empty()).then(|| VectorQuery { vector: of_length_one(vector), cosine_min: 0.0 }),
        count_max: 100,
        ..IndexQuery::default()
    }
}

async fn ask(index: &dyn Index, dataset: &DatasetKey, query: &IndexQuery) -> IndexAnswer {
    fine(index.search(&dataset.tenant, query).await)
}

async fn text(index: &dyn Index, dataset: &DatasetKey, words: &str) -> IndexAnswer {
    ask(index, dataset, &query(dataset, words, &[])).await
}

async fn filtered(index: &dyn Index, dataset: &DatasetKey, query: IndexQuery, filter: Filter) -> IndexAnswer {
    ask(index, dataset, &IndexQuery { filter: Some(filter), ..query }).await
}

/// The chunks of an answer, sorted by id.
fn ids(answer: &IndexAnswer) -> Vec<&str> {
    let mut ids: Vec<&str> = answer.hits.iter().map(|hit| hit.chunk.as_str()).collect();
    ids.sort_unstable();
    ids
}
