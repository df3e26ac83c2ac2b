//! The embedded index as its users see it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests fail by panicking"
)]
#![allow(missing_docs, reason = "tests")]

mod index;

use weft_core::citation::Chunk;
use weft_core::seam::knowledge::{Knowledge as _, Passage, Scored, SearchRequest};
use weft_core::{ErrorKind, TenantId};
use weft_search::{Document, MemoryIndex, load_folder};

fn documents() -> Vec<Document> {
    let document = |name: &str, text: &str| Document { name: name.to_owned(), text: text.to_owned() };
    vec![
        document(
            "returns.md",
            "# Returns\nYou can return a product within 30 days for a full refund.\n\n## Costs\nWe pay for shipping.",
        ),
        document("shipping.md", "# Shipping\nParcels leave our warehouse within two days."),
        document("检索.md", "全文检索引擎按相关性排序。\n\n# 退款\n三十天内可以退款。"),
    ]
}

async fn memory_index() -> MemoryIndex {
    let index = MemoryIndex::new();
    index.add(&TenantId::new("t"), "help", load_folder(&documents()));
    index
}

async fn found(
    index: &MemoryIndex,
    tenant: &str,
    query: &str,
    datasets: &[&str],
    score_min: f64,
) -> Vec<Chunk> {
    let tenant = TenantId::new(tenant);
    let names: Vec<String> = datasets.iter().map(|name| (*name).to_owned()).collect();
    let briefs = index.datasets(&tenant, &names).await.unwrap();
    let request = SearchRequest {
        datasets: briefs.into_iter().map(|brief| brief.id).collect(),
        questions: vec![query.to_owned()],
        similarity_min: score_min,
        candidates_max: 5,
        limit: 5,
        ..SearchRequest::default()
    };
    let found = index.search(&tenant, &request).await.unwrap();
    assert_eq!(found.total, found.passages.len());
    let ids: Vec<_> = found.passages.iter().map(|scored| scored.chunk.clone()).collect();
    let passages = index.passages(&tenant, &request.datasets, &ids).await.unwrap();
    let scored = |(passage, scored): (Passage, &Scored)| Chunk {
        similarity: Some(scored.similarity),
        ..passage.chunk
    };
    passages.into_iter().zip(&found.passages).map(scored).collect()
}

#[tokio::test]
async fn the_best_chunk_comes_first_with_a_score_between_0_and_1() {
    let index = memory_index().await;
    let check = async |query: &str, expected: &str| {
        let chunks = found(&index, "t", query, &["help"], 0.0).await;
        assert!(chunks[0].content.contains(expected), "{query}: {}", chunks[0].content);
        let scores: Vec<f64> = chunks.iter().map(|chunk| chunk.similarity.unwrap()).collect();
        assert!(
            scores.is_sorted_by(|a, b| a >= b) && scores.iter().all(|score| (0.0..=1.0).contains(score)),
            "{scores:?}"
        );
        assert!(scores[0] > 0.3, "{query}: {scores:?}");
    };
    check("How do I get a refund for returned products?", "full refund").await;
    check("Who pays for shipping?", "We pay").await;
    check("When does my parcel leave the warehouse?", "Parcels leave").await;
    check("怎么退款", "退款").await;
    check("全文检索", "全文检索").await;
    let chunks = found(&index, "t", "refund", &[], 0.0).await;
    assert_eq!((chunks[0].dataset_id.as_str(), chunks[0].document_name.as_str()), ("help", "returns.md"));
}

#[tokio::test]
async fn nothing_and_weak_matches_are_left_out() {
    let index = memory_index().await;
    assert!(found(&index, "t", "quantum chromodynamics", &[], 0.0).await.is_empty());
    assert!(found(&index, "t", "the of and", &[], 0.0).await.is_empty());
    assert!(found(&index, "t", "", &[], 0.0).await.is_empty());
    assert!(found(&index, "t", "refund", &[], 1.0).await.is_empty());
    let weak = found(&index, "t", "days warehouse parcels", &[], 0.0).await;
    let strong = found(&index, "t", "days warehouse parcels", &[], 0.4).await;
    assert!(strong.len() < weak.len() && !strong.is_empty());
}

#[tokio::test]
async fn tenants_and_datasets_are_kept_apart() {
    let index = memory_index().await;
    let chunk =
        |id: &str| Chunk { id: id.to_owned(), content: "refund secret".to_owned(), ..Chunk::default() };
    index.add(&TenantId::new("other"), "help", vec![chunk("x")]);
    index.add(&TenantId::new("t"), "more", vec![chunk("y")]);
    let ids = async |datasets: &[&str]| {
        found(&index, "t", "secret", datasets, 0.0)
            .await
            .into_iter()
            .map(|chunk| chunk.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&[]).await, ["y"]);
    assert!(ids(&["help"]).await.is_empty());
    assert_eq!(ids(&["help", "more", "more"]).await, ["y"]);
    assert_eq!(index.sizes(&TenantId::new("t")).len(), 2);
    let error = index.datasets(&TenantId::new("other"), &["nope".to_owned()]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.full().contains("nope") && !error.full().contains("more"));
}

#[tokio::test]
async fn a_chunk_of_the_same_id_is_replaced() {
    let index = MemoryIndex::new();
    let tenant = TenantId::new("t");
    let chunk = |text: &str| Chunk { id: "1".to_owned(), content: text.to_owned(), ..Chunk::default() };
    index.add(&tenant, "d", vec![chunk("apples")]);
    index.add(&tenant, "d", vec![chunk("pears")]);
    assert!(found(&index, "t", "apples", &[], 0.0).await.is_empty());
    assert_eq!(found(&index, "t", "pear", &[], 0.0).await.len(), 1);
    assert_eq!(index.sizes(&tenant), [("d".to_owned(), 1)]);
}
