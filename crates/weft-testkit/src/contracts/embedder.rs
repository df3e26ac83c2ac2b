//! Contract of an [`Embedder`].

use weft_core::seam::embedder::{Embedded, Embedder, EmbeddingPurpose};

/// Maximum difference in any dimension between two computations of one vector.
const DIFFERENCE_MAX: f32 = 1e-4;

/// Checks the contract as far as it holds for any model: the vectors, their order and their lengths.
///
/// # Panics
/// If the contract is violated.
pub async fn embedder_keeps_its_contract(embedder: &dyn Embedder) {
    assert!(!embedder.name().trim().is_empty(), "datasets store the name");
    assert!(embedder.tokens_max() > 0, "a model reads tokens");
    no_texts_give_no_vectors(embedder).await;
    every_text_has_its_vector(embedder).await;
    a_vector_depends_on_its_text_alone(embedder).await;
    long_texts_are_truncated(embedder).await;
}

/// Checks models that know the meaning of words: texts with a shared meaning are closer than texts without.
///
/// # Panics
/// If they are not.
pub async fn similar_texts_have_similar_vectors(embedder: &dyn Embedder) {
    let passages = texts(&[
        "The cat sleeps on the warm sofa all day.",
        "Interest rates of central banks rose again in the spring.",
    ]);
    let passages = fine(embedder, EmbeddingPurpose::Passage, &passages).await;
    let question =
        fine(embedder, EmbeddingPurpose::Query, &texts(&["Where does the cat sleep all day?"])).await;
    let near = |at: usize| dot(&question.vectors[0], &passages.vectors[at]);
    assert!(near(0) > near(1) + 0.1, "{} is not well above {}", near(0), near(1));
}

async fn no_texts_give_no_vectors(embedder: &dyn Embedder) {
    for purpose in [EmbeddingPurpose::Query, EmbeddingPurpose::Passage] {
        let embedded = fine(embedder, purpose, &[]).await;
        assert_eq!(embedded.vectors, Vec::<Vec<f32>>::new());
    }
}

async fn every_text_has_its_vector(embedder: &dyn Embedder) {
    let texts = texts(&["one", "", "汉字和词语", "  \n ", "one two three\u{0}four", "one", "🦀"]);
    for purpose in [EmbeddingPurpose::Query, EmbeddingPurpose::Passage] {
        let embedded = fine(embedder, purpose, &texts).await;
        check(&embedded, texts.len());
        same(&embedded.vectors[0], &embedded.vectors[5]);
    }
}

async fn a_vector_depends_on_its_text_alone(embedder: &dyn Embedder) {
    let many: Vec<String> =
        (0..70).map(|at| format!("text number {at}{}", " and more".repeat(at % 7))).collect();
    let together = fine(embedder, EmbeddingPurpose::Passage, &many).await;
    check(&together, many.len());
    for at in [0, 33, 69] {
        let alone = fine(embedder, EmbeddingPurpose::Passage, &many[at..=at]).await;
        same(&alone.vectors[0], &together.vectors[at]);
    }
}

async fn long_texts_are_truncated(embedder: &dyn Embedder) {
    let words = embedder.tokens_max().min(10_000) * 2;
    let long = texts(&[&"word ".repeat(words), &"字".repeat(words), &"x".repeat(words * 4)]);
    check(&fine(embedder, EmbeddingPurpose::Passage, &long).await, long.len());
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[track_caller]
fn check(embedded: &Embedded, count: usize) {
    assert_eq!(embedded.vectors.len(), count, "one vector for each text");
    let dimensions = embedded.vectors.first().map_or(0, Vec::len);
    for vector in &embedded.vectors {
        assert_eq!(vector.len(), dimensions, "all of one length");
        let length = dot(vector, vector).sqrt();
        assert!((length - 1.0).abs() < 1e-3, "normalised, and this one is {length} long");
    }
}

#[track_caller]
fn same(one: &[f32], other: &[f32]) {
    assert_eq!(one.len(), other.len());
    let apart = one.iter().zip(other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(apart <= DIFFERENCE_MAX, "the same text got vectors that are {apart} apart");
}

fn dot(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

#[expect(clippy::panic, reason = "a contract fails by panicking")]
async fn fine(embedder: &dyn Embedder, purpose: EmbeddingPurpose, texts: &[String]) -> Embedded {
    match embedder.embed(purpose, texts).await {
        Ok(embedded) => embedded,
        Err(error) => panic!("{purpose:?} of {} texts: {}", texts.len(), error.full()),
    }
}
