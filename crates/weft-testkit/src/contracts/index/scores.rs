//! Scores of hits.

use weft_core::id::{ChunkId, DatasetKey, DocumentId};
use weft_core::seam::Index;
use weft_core::seam::index::{
    Hit, IndexAnswer, IndexChange, IndexQuery, IndexedChunk, TextQuery, VectorQuery,
};

use super::{ask, chunks, dataset, document, fine, ids, put, query, text};

/// An index may round the components of a vector.
const ROUNDING: f32 = 0.005;

fn close(one: f32, other: f32) -> bool {
    (one - other).abs() <= 1e-3 * one.abs().max(1.0)
}

#[expect(clippy::panic, reason = "a contract fails by panicking")]
fn hit<'a>(answer: &'a IndexAnswer, id: &str) -> &'a Hit {
    let found = answer.hits.iter().find(|hit| hit.chunk.as_str() == id);
    found.unwrap_or_else(|| panic!("`{id}` is not among {answer:?}"))
}

pub(super) async fn each_part_finds_by_itself(index: &dyn Index) {
    let dataset = dataset();
    let sketches = [
        ("both", "a red apple", &[1.0, 0.0][..]),
        ("words", "an apple, an apple", &[0.0, 1.0]),
        ("vector", "something else", &[0.9, 0.1]),
        ("bare", "apple juice", &[]),
    ];
    put(index, &dataset, "d", &sketches).await;
    let mut asked = query(&dataset, "apple red", &[1.0, 0.0]);
    asked.vector = Some(VectorQuery { vector: vec![1.0, 0.0], cosine_min: 0.5 });
    let found = ask(index, &dataset, &asked).await;
    assert_eq!(ids(&found), ["bare", "both", "vector", "words"]);
    assert_eq!(found.text_total, 3);
    let (both, words, vector) = (hit(&found, "both"), hit(&found, "words"), hit(&found, "vector"));
    assert_eq!((both.text_rank, both.vector_rank), (Some(0), Some(0)));
    assert_eq!((vector.text, vector.text_rank, vector.vector_rank), (0.0, None, Some(1)));
    assert_eq!((words.text_rank, words.vector_rank), (Some(1), None));
    assert!(words.text > 0.0 && words.cosine.is_some_and(|cosine| cosine.abs() < ROUNDING), "{words:?}");
    assert!(both.cosine.is_some_and(|cosine| (cosine - 1.0).abs() < ROUNDING), "{both:?}");
    assert_eq!(hit(&found, "bare").cosine, None);
    let by_words = text(index, &dataset, "apple red").await;
    assert!(by_words.hits.iter().all(|hit| hit.cosine.is_none() && hit.vector_rank.is_none()));
    assert!(close(hit(&by_words, "both").text, both.text));
    // With room for one chunk in each part, a hit still has its exact score in the part that did not select it.
    let narrow = IndexQuery { count_max: 1, ..query(&dataset, "juice", &[1.0, 0.0]) };
    let found = ask(index, &dataset, &narrow).await;
    assert_eq!(ids(&found), ["bare", "both"]);
    let narrow = IndexQuery { count_max: 1, ..query(&dataset, "apple", &[0.9, 0.1]) };
    let found = ask(index, &dataset, &narrow).await;
    let all = text(index, &dataset, "apple").await;
    for one in &found.hits {
        let expected = all.hits.iter().find(|hit| hit.chunk == one.chunk).map_or(0.0, |hit| hit.text);
        assert!(close(one.text, expected), "{one:?} {expected}");
    }
}

/// The same chunks get the same scores in one dataset and in two.
pub(super) async fn scores_mean_the_same_in_every_dataset(index: &dyn Index) {
    let whole = dataset();
    let (left, right) = (DatasetKey::new(&whole.tenant, "left"), DatasetKey::new(&whole.tenant, "right"));
    let here = [("a", "apple apple pear", &[1.0, 0.0][..]), ("b", "apple", &[0.6, 0.8])];
    let there =
        [("c", "plum and plum and plum, nothing but plum", &[0.0, 1.0][..]), ("e", "pear", &[0.8, 0.6])];
    put(index, &whole, "d", &[here, there].concat()).await;
    put(index, &left, "d", &here).await;
    put(index, &right, "d", &there).await;
    let expected = ask(index, &whole, &query(&whole, "apple pear plum", &[1.0, 0.0])).await;
    let mut apart = query(&left, "apple pear plum", &[1.0, 0.0]);
    // Naming a dataset twice, or one that does not exist, changes nothing.
    apart.datasets.extend([right.id.clone(), left.id.clone(), "not there".into()]);
    let found = ask(index, &left, &apart).await;
    assert_eq!(ids(&found), ids(&expected));
    assert!(close(found.bm25_scale, expected.bm25_scale));
    assert_eq!(found.text_total, 4);
    for one in &expected.hits {
        let same = hit(&found, one.chunk.as_str());
        assert!(close(same.text, one.text), "{same:?} {one:?}");
        assert_eq!((same.text_rank, same.vector_rank), (one.text_rank, one.vector_rank));
    }
    assert_eq!((&hit(&found, "a").dataset, &hit(&found, "e").dataset), (&left.id, &right.id));
}

/// The typical score of an unrelated chunk depends only on the question and the selected datasets, not on what was
/// found or filtered out.
pub(super) async fn the_usual_cosine_is_that_of_everything_there(index: &dyn Index) {
    let (left, right) = (dataset(), dataset());
    let right = DatasetKey::new(&left.tenant, right.id);
    let usual = |answer: &IndexAnswer, mean: f32, count: usize| {
        let is_so = (answer.cosine_mean - mean).abs() < ROUNDING && answer.cosine_count == count;
        assert!(is_so, "{mean} {count} {answer:?}");
    };
    put(
        index,
        &left,
        "d",
        &[("a", "apple", &[1.0, 0.0][..]), ("b", "apple", &[0.0, 1.0]), ("c", "pear", &[])],
    )
    .await;
    put(index, &left, "e", &[("e", "plum", &[-1.0, 0.0][..]), ("f", "plum", &[0.8, 0.6])]).await;
    put(index, &right, "g", &[("g", "plum", &[1.0, 0.0][..]), ("h", "plum", &[1.0, 0.0])]).await;
    let asked = query(&left, "apple", &[1.0, 0.0]);
    usual(&ask(index, &left, &asked).await, 0.2, 4);
    usual(&ask(index, &left, &query(&left, "", &[0.0, 5.0])).await, 0.4, 4);
    usual(&text(index, &left, "apple").await, 0.0, 0);
    let narrow = IndexQuery { documents: Some(vec![DocumentId::new("e")]), count_max: 1, ..asked.clone() };
    usual(&ask(index, &left, &narrow).await, 0.2, 4);
    let both = IndexQuery { datasets: vec![right.id.clone(), left.id.clone()], ..asked.clone() };
    usual(&ask(index, &left, &both).await, 2.8 / 6.0, 6);
    usual(&ask(index, &left, &IndexQuery { datasets: vec!["absent".into()], ..asked.clone() }).await, 0.0, 0);
    // Removed and replaced chunks no longer count, and added ones do.
    fine(index.write(&left, vec![IndexChange::RemoveChunks(vec![ChunkId::new("a")])]).await);
    usual(&ask(index, &left, &asked).await, -0.2 / 3.0, 3);
    put(index, &left, "e", &[("e", "plum", &[1.0, 0.0][..]), ("new", "plum", &[0.6, 0.8])]).await;
    usual(&ask(index, &left, &asked).await, 2.4 / 4.0, 4);
    // A vector with the dimensions of another model.
    let (clear, other) =
        (IndexChange::RemoveDocument(DocumentId::new("d")), IndexChange::Clear(DocumentId::new("e")));
    fine(index.write(&left, vec![clear, other]).await);
    usual(&ask(index, &left, &asked).await, 0.0, 0);
    put(index, &left, "e", &[("e", "plum", &[0.6, 0.8, 0.0][..])]).await;
    usual(&ask(index, &left, &query(&left, "plum", &[1.0, 0.0, 0.0])).await, 0.6, 1);
}

/// Removed chunks do not count in any statistics.
pub(super) async fn scores_are_exact_after_deletes(index: &dyn Index) {
    let (fresh, worn) = (dataset(), dataset());
    let stays = [("a", "apple pear", &[1.0][..]), ("b", "apple plum cherry", &[1.0])];
    put(index, &fresh, "d", &stays).await;
    put(index, &worn, "gone", &[("x", "apple apple apple and much more", &[1.0]), ("y", "pear", &[1.0])])
        .await;
    put(index, &worn, "d", &stays).await;
    put(index, &worn, "d", &[("z", "apple pear", &[1.0])]).await;
    let changes = vec![
        IndexChange::RemoveDocument(DocumentId::new("gone")),
        IndexChange::RemoveChunks(vec![ChunkId::new("z")]),
    ];
    fine(index.write(&worn, changes).await);
    let expected = text(index, &fresh, "apple pear").await;
    let found = text(index, &worn, "apple pear").await;
    assert!(close(found.bm25_scale, expected.bm25_scale), "{} {}", found.bm25_scale, expected.bm25_scale);
    for one in &expected.hits {
        assert!(close(hit(&found, one.chunk.as_str()).text, one.text), "{one:?}");
    }
}

pub(super) async fn words_of_all_parts_and_languages_are_found(index: &dyn Index) {
    let dataset = dataset();
    let rich = IndexedChunk {
        title: "Returns › Exceptions".to_owned(),
        content: "Items may be sent back within 30 days. 退货期限为三十天。型号 KX-200。".to_owned(),
        keywords: vec!["warranty".to_owned()],
        questions: vec!["How long can I wait?".to_owned()],
        vector: None,
        parent: None,
    };
    let chunks = IndexChange::Chunks(DocumentId::new("d"), vec![(ChunkId::new("a"), rich)]);
    fine(index.write(&dataset, vec![document("d"), chunks]).await);
    for words in ["exception", "item", "warranties", "waiting", "退货", "退貨", "kx-200", "KX200", "30 días"]
    {
        assert_eq!(ids(&text(index, &dataset, words).await), ["a"], "{words}");
    }
    for words in ["", "absent", "退款", "…"] {
        assert!(text(index, &dataset, words).await.hits.is_empty(), "{words}");
    }
    let keywords = vec![("warranty".to_owned(), 2.0)];
    let asked = IndexQuery {
        text: Some(TextQuery { text: "item".to_owned(), keywords }),
        ..query(&dataset, "", &[])
    };
    let with = ask(index, &dataset, &asked).await;
    assert!(with.bm25_scale > text(index, &dataset, "item").await.bm25_scale);
}

pub(super) async fn counts_are_bounded_and_totals_honest(index: &dyn Index) {
    let dataset = dataset();
    let names: Vec<String> = (0..300).map(|number| format!("{number:03}")).collect();
    let words: Vec<String> = (0..300).map(|number| "apple ".repeat(1 + number % 7)).collect();
    let sketches: Vec<_> =
        names.iter().zip(&words).map(|(id, words)| (id.as_str(), words.as_str(), &[1.0, 0.5][..])).collect();
    let (one, two) = sketches.split_at(150);
    fine(index.write(&dataset, vec![document("d"), chunks("d", one), chunks("d", two)]).await);
    for count_max in [0, 1, 10, 299, 100_000] {
        let asked = IndexQuery { count_max, ..query(&dataset, "apple", &[]) };
        let found = ask(index, &dataset, &asked).await;
        assert_eq!((found.hits.len(), found.text_total), (count_max.min(300), 300));
        let mut ranks: Vec<Option<usize>> = found.hits.iter().map(|hit| hit.text_rank).collect();
        ranks.sort_unstable();
        assert!(ranks.into_iter().eq((0..count_max.min(300)).map(Some)));
        let again = ask(index, &dataset, &asked).await;
        assert_eq!(ids(&found), ids(&again), "the same question gets the same answer");
    }
    let none = IndexQuery { count_max: 10, ..query(&dataset, "", &[]) };
    assert_eq!(ask(index, &dataset, &none).await, IndexAnswer { fitting: 1, ..IndexAnswer::default() });
}
