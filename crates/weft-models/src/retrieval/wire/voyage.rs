//! Voyage. Its scores are from 0 to 1.

use serde_json::{Value as Json, json};
use weft_core::seam::embedder::EmbeddingPurpose;

use super::{EmbeddingTexts, EmbeddingWire, Passages, RerankWire, Scores, at, read_listed, read_results};

pub(in crate::retrieval) const EMBEDDING: EmbeddingWire = EmbeddingWire {
    url: |base| at(base, "v1", "embeddings"),
    texts_max: 128,
    tokens_max: 16_000,
    body: embed,
    read: read_listed,
};

pub(in crate::retrieval) const RERANK: RerankWire = RerankWire {
    url: |base| at(base, "v1", "rerank"),
    passages_max: 100,
    tokens_max: 8000,
    scores: Scores::Shares,
    body: rerank,
    read: read_results,
};

fn embed(asked: &EmbeddingTexts<'_>) -> Json {
    let input_type = match asked.purpose {
        EmbeddingPurpose::Query => "query",
        EmbeddingPurpose::Passage => "document",
    };
    let mut body =
        json!({"model": asked.model, "input": asked.texts, "input_type": input_type, "truncation": true});
    if let Some(dimensions) = asked.dimensions {
        body["output_dimension"] = json!(dimensions);
    }
    body
}

fn rerank(asked: &Passages<'_>) -> Json {
    json!({"model": asked.model, "query": asked.question, "documents": asked.passages, "truncation": true})
}
