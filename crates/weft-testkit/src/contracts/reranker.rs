//! Contract of a [`Reranker`].

use weft_core::seam::Reranker;

/// Checks the contract of a reranker.
///
/// # Panics
/// If the contract is violated.
pub async fn reranker_keeps_its_contract(reranker: &dyn Reranker) {
    assert!(!reranker.name().trim().is_empty());
    assert_eq!(scores(reranker, "anything", &[]).await, Vec::<f32>::new());
    let question = "Where does the cat sleep?";
    let passages =
        ["Central banks raised their rates.", "The cat does sleep on the sofa.", "", "汉字", "Rates fell."];
    let scored = scores(reranker, question, &passages).await;
    let best = scored.iter().copied().fold(0.0, f32::max);
    assert_eq!(scored[1], best, "scores are in the order of the passages: {scored:?}");
    assert!(scored[0] < best && scored[4] < best, "{scored:?}");
    // Also for more passages than fit in one request, and each one independently.
    let many: Vec<&str> = (0..130).map(|at| passages[at % 2]).collect();
    let scored = scores(reranker, question, &many).await;
    for (at, score) in scored.iter().enumerate() {
        assert!((score - scored[at % 2]).abs() < 1e-3, "passage {at} got {score}: {scored:?}");
    }
    assert!(scored[1] > scored[0]);
    scores(reranker, "", &passages).await;
}

#[expect(clippy::panic, reason = "a contract fails by panicking")]
async fn scores(reranker: &dyn Reranker, question: &str, passages: &[&str]) -> Vec<f32> {
    let passages: Vec<String> = passages.iter().map(|passage| (*passage).to_owned()).collect();
    let scores = match reranker.rerank(question, &passages).await {
        Ok(answer) => answer.scores,
        Err(error) => panic!("{} passages: {}", passages.len(), error.full()),
    };
    assert_eq!(scores.len(), passages.len(), "one score for each passage");
    assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)), "from 0 to 1: {scores:?}");
    scores
}
