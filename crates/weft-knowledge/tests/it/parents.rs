//! Small chunks that are found, and parents that are returned.

use serde_json::json;
use weft_knowledge::retrieve::Retrieval;

use crate::kit::{Library, ids, question};

/// Five parents of four small chunks each.
fn library() -> Library {
    let texts: Vec<String> = (0..20).map(|n| format!("tiger number {n} {}", "and ".repeat(n / 4))).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let library = Library::default().with("d", "", &[("d", json!({}), &texts)]);
    for parent in 0..5 {
        library.parent("d-0", &format!("whole-{parent}"), &format!("The whole {parent}."));
        for child in 0..4 {
            library.change(&format!("d-{}", parent * 4 + child), |chunk| {
                chunk.parent = Some(format!("whole-{parent}").as_str().into());
            });
        }
    }
    library
}

#[tokio::test]
async fn the_requested_number_of_parent_passages_is_returned() {
    let library = library();
    let found = library.ask(&Retrieval { limit: 4, ..question("tiger", &["d"]) }).await;
    assert_eq!(ids(&found).len(), 4, "four small ones would be one parent");
    assert!(ids(&found).iter().all(|id| id.starts_with("whole-")));
    assert!(found.passages[0].chunk.content.starts_with("The whole"));
    let more = library.ask(&Retrieval { limit: 9, ..question("tiger", &["d"]) }).await;
    assert_eq!((ids(&more).len(), more.total), (5, 5));
}

#[tokio::test]
async fn a_parent_passage_has_the_mean_score_of_its_parts() {
    let library = library();
    let found = library.ask(&Retrieval { limit: 5, ..question("tiger 0", &["d"]) }).await;
    let first = &found.passages[0].chunk;
    assert_eq!(first.id, "whole-0");
    // One part contains both words, the others one of the two.
    let (both, one) = (1.0 - (-1.0_f64).exp(), 1.0 - (-0.5_f64).exp());
    assert!((first.similarity.unwrap() - (both + 3.0 * one) / 4.0).abs() < 1e-5, "{first:?}");
}

#[tokio::test]
async fn pages_of_parent_passages_have_each_once() {
    let library = library();
    let mut seen = Vec::new();
    for page in 0..3 {
        let asked = Retrieval { offset: page * 2, limit: 2, ..question("tiger", &["d"]) };
        let found = library.ask(&asked).await;
        assert_eq!(found.total, 5);
        seen.extend(ids(&found));
    }
    seen.sort();
    assert_eq!(seen, ["whole-0", "whole-1", "whole-2", "whole-3", "whole-4"]);
}

/// However many small chunks there are, the question is embedded once and passages are ranked once.
#[tokio::test]
async fn parent_passages_cost_one_search() {
    let texts: Vec<String> = (0..90).map(|n| format!("tiger number {n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let library = Library::default().with("d", "m@test", &[("d", json!({}), &texts)]);
    library.parent("d-0", "whole", "The whole.");
    for child in 40..90 {
        library.change(&format!("d-{child}"), |chunk| chunk.parent = Some("whole".into()));
    }
    let mut totals = Vec::new();
    for page in 0..3 {
        let asked = Retrieval { offset: page * 15, limit: 15, ..question("tiger", &["d"]) };
        let found = library.ask(&asked).await;
        totals.push((found.passages.len(), found.total, found.documents[0].count));
    }
    assert_eq!(totals, [(15, 41, 41), (15, 41, 41), (11, 41, 41)]);
    assert_eq!(library.0.queries.lock().unwrap().len(), 3);
    assert_eq!(library.0.embedded.lock().unwrap().len(), 3);
    let reranker = "liking@test".to_owned();
    library.ask(&Retrieval { reranker, limit: 5, ..question("tiger", &["d"]) }).await;
    assert_eq!(library.0.reranked.lock().unwrap().len(), 64);
    assert_eq!(library.0.embedded.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn a_part_without_its_parent_is_returned_itself() {
    let library = library();
    library.forget("whole-0");
    let found = library.ask(&Retrieval { limit: 20, ..question("tiger", &["d"]) }).await;
    let mut found_ids = ids(&found);
    found_ids.sort();
    assert_eq!(found_ids, ["d-0", "d-1", "d-2", "d-3", "whole-1", "whole-2", "whole-3", "whole-4"]);
    assert_eq!(found.total, 8);
}
