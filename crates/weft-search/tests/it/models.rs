//! Models with a wide or narrow range of cosines, through the indexes and the ranking.

use std::collections::HashSet;

use weft_core::id::{ChunkId, DatasetKey, DocumentId, TenantId};
use weft_core::seam::Index;
use weft_core::seam::index::{
    IndexAnswer, IndexChange, IndexQuery, IndexedChunk, IndexedDocument, TextQuery, VectorQuery,
};
use weft_knowledge::rank::{RankSettings, rank};
use weft_search::{MemoryChunkIndex, TantivyIndex};
use weft_testkit::HashEmbedder;

const THRESHOLD: f32 = 0.2;
const CHUNKS: usize = 1_200;

/// A model defined as a transformation of another one's vectors.
#[derive(Clone, Copy)]
enum Model {
    /// Unrelated texts have cosines near 0.
    Wide,
    /// The same neighbours, and no cosine below 0.75.
    Narrow,
}

impl Model {
    fn vector(self, text: &str) -> Vec<f32> {
        let mut vector = HashEmbedder::vector(text);
        let common = match self {
            Self::Wide => 0.0,
            Self::Narrow => 3.0_f32.sqrt(),
        };
        vector.push(common);
        let length = (1.0 + common * common).sqrt();
        vector.iter().map(|value| value / length).collect()
    }
}

fn key(id: &str) -> DatasetKey {
    DatasetKey::new(&TenantId::new("t"), id)
}

/// Texts of six words, each of which occurs in many.
fn text(number: usize) -> String {
    (0..6).map(|place| format!("w{} ", number * (7 + place * 2) % (97 + place * 4))).collect()
}

async fn fill(index: &dyn Index, dataset: &DatasetKey, model: Model, numbers: impl Iterator<Item = usize>) {
    let mut changes: Vec<IndexChange> = ["d0", "d1"].map(document).into();
    for number in numbers {
        let (content, vector) = (text(number), Some(model.vector(&text(number))));
        let chunk = IndexedChunk { content, vector, ..IndexedChunk::default() };
        let chunks = vec![(ChunkId::new(number.to_string()), chunk)];
        changes.push(IndexChange::Chunks(DocumentId::new(format!("d{}", number % 2)), chunks));
    }
    index.write(dataset, changes).await.unwrap();
}

fn document(id: &str) -> IndexChange {
    let id = DocumentId::new(id);
    IndexChange::Document(IndexedDocument {
        id,
        name: String::new(),
        metadata: Default::default(),
        available: true,
    })
}

/// The query uses words that no chunk contains, so that only vectors match.
fn question(datasets: &[&DatasetKey], model: Model) -> IndexQuery {
    IndexQuery {
        datasets: datasets.iter().map(|dataset| dataset.id.clone()).collect(),
        text: Some(TextQuery { text: "unheard".to_owned(), keywords: Vec::new() }),
        vector: Some(VectorQuery { vector: model.vector(&text(500)), cosine_min: -1.0 }),
        count_max: CHUNKS,
        ..IndexQuery::default()
    }
}

async fn ask(index: &dyn Index, query: &IndexQuery) -> IndexAnswer {
    index.search(&TenantId::new("t"), query).await.unwrap()
}

fn scores(answer: &IndexAnswer, threshold: f32) -> Vec<(String, f32)> {
    let settings = RankSettings { threshold, ..RankSettings::default() };
    let ranked = rank(answer, &settings).into_iter();
    ranked.map(|one| (one.hit.chunk.to_string(), one.similarity)).collect()
}

fn agree(one: &[(String, f32)], other: &[(String, f32)]) {
    let of = |id: &str| other.iter().find(|(other, _)| other == id).map(|(_, score)| *score);
    for (id, score) in one {
        let same = of(id).unwrap_or_default();
        assert!((score - same).abs() < 0.02, "{id}: {score} {same}");
    }
}

async fn models_are_comparable(index: &dyn Index) {
    let [wide, narrow] = ["wide", "narrow"].map(key);
    fill(index, &wide, Model::Wide, 0..CHUNKS).await;
    fill(index, &narrow, Model::Narrow, 0..CHUNKS).await;
    let of_wide = scores(&ask(index, &question(&[&wide], Model::Wide)).await, THRESHOLD);
    let answer = ask(index, &question(&[&narrow], Model::Narrow)).await;
    let of_narrow = scores(&answer, THRESHOLD);
    assert_eq!((&of_wide[0].0, &of_narrow[0].0), (&"500".to_owned(), &"500".to_owned()));
    let first = |list: &[(String, f32)]| list.iter().take(10).cloned().collect::<Vec<_>>();
    agree(&first(&of_wide), &of_narrow);
    for found in [&of_wide, &of_narrow] {
        assert!((2..CHUNKS / 8).contains(&found.len()), "the threshold leaves {}", found.len());
    }
    // Cosines taken as they are: everything reaches the threshold.
    let unknown = IndexAnswer { cosine_count: 0, ..answer };
    assert_eq!(scores(&unknown, THRESHOLD).len(), CHUNKS);
}

/// A passage has one score, whatever else is found: fewer chunks, one document, two datasets.
async fn scores_stay(index: &dyn Index) {
    let [whole, left, right] = ["whole", "left", "right"].map(key);
    fill(index, &whole, Model::Narrow, 0..CHUNKS).await;
    fill(index, &left, Model::Narrow, (0..CHUNKS).filter(|number| number % 3 == 0)).await;
    fill(index, &right, Model::Narrow, (0..CHUNKS).filter(|number| number % 3 != 0)).await;
    let asked = question(&[&whole], Model::Narrow);
    let expected = scores(&ask(index, &asked).await, 0.0);
    let few = IndexQuery { count_max: 5, ..asked.clone() };
    let of_one = IndexQuery { documents: Some(vec![DocumentId::new("d1")]), ..asked.clone() };
    let apart = question(&[&left, &right], Model::Narrow);
    for (query, count) in [(few, 5), (of_one, 100), (apart, 100)] {
        let found = scores(&ask(index, &query).await, 0.0);
        assert!(found.len() >= count, "{}", found.len());
        for (id, score) in &found {
            let same = expected.iter().find(|(other, _)| other == id).map(|(_, score)| *score);
            assert!(same.is_none_or(|same| (same - score).abs() < 1e-3), "{id}: {score} {same:?}");
        }
        let known: HashSet<&String> = expected.iter().map(|(id, _)| id).collect();
        assert!(found.iter().take(count).all(|(id, _)| known.contains(id)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scores_are_comparable_across_models() {
    models_are_comparable(&MemoryChunkIndex::new()).await;
    models_are_comparable(&TantivyIndex::in_memory()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_score_of_a_passage_is_independent_of_other_hits() {
    scores_stay(&MemoryChunkIndex::new()).await;
    scores_stay(&TantivyIndex::in_memory()).await;
}
