//! Jina. Its scores are from 0 to 1; those of the third generation are cosines, of which negative ones count as 0.

use serde_json::{Value as Json, json};
use weft_core::seam::embedder::EmbeddingPurpose;

use super::{EmbeddingTexts, EmbeddingWire, RerankWire, Scores, at, openai, read_listed, read_results};

pub(in crate::retrieval) const EMBEDDING: EmbeddingWire = EmbeddingWire {
    url: |base| at(base, "v1", "embeddings"),
    texts_max: 128,
    tokens_max: 8192,
    body: embed,
    read: read_listed,
};

pub(in crate::retrieval) const RERANK: RerankWire = RerankWire {
    url: |base| at(base, "v1", "rerank"),
    passages_max: 64,
    tokens_max: 8192,
    scores: Scores::Shares,
    body: openai::rerank,
    read: read_results,
};

fn embed(asked: &EmbeddingTexts<'_>) -> Json {
    let mut body = json!({"model": asked.model, "input": asked.texts, "embedding_type": "float"});
    // The second generation has only one task, and truncates without being told.
    if !asked.model.contains("-v2") {
        let task = match asked.purpose {
            EmbeddingPurpose::Query => "retrieval.query",
            EmbeddingPurpose::Passage => "retrieval.passage",
        };
        (body["task"], body["truncate"]) = (json!(task), json!(true));
    }
    if let Some(dimensions) = asked.dimensions {
        body["dimensions"] = json!(dimensions);
    }
    body
}
