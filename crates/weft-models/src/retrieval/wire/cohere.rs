//! Cohere, version 2. Its scores are from 0 to 1.

use serde::Deserialize;
use serde_json::{Value as Json, json};
use weft_core::seam::embedder::EmbeddingPurpose;

use super::{EmbeddingTexts, EmbeddingWire, Passages, RerankWire, Scores, Unread, Vectors, at, read_results};

pub(in crate::retrieval) const EMBEDDING: EmbeddingWire =
    EmbeddingWire { url: |base| at(base, "v2", "embed"), texts_max: 96, tokens_max: 8192, body: embed, read };

pub(in crate::retrieval) const RERANK: RerankWire = RerankWire {
    url: |base| at(base, "v2", "rerank"),
    passages_max: 500,
    tokens_max: 4096,
    scores: Scores::Shares,
    body: rerank,
    read: read_results,
};

fn embed(asked: &EmbeddingTexts<'_>) -> Json {
    // Its models compute different vectors for questions and for passages.
    let input_type = match asked.purpose {
        EmbeddingPurpose::Query => "search_query",
        EmbeddingPurpose::Passage => "search_document",
    };
    // Older models have a smaller limit; the server truncates.
    let mut body = json!({"model": asked.model, "texts": asked.texts, "input_type": input_type,
        "embedding_types": ["float"], "truncate": "END"});
    if let Some(dimensions) = asked.dimensions {
        body["output_dimension"] = json!(dimensions);
    }
    body
}

fn read(body: &[u8]) -> Result<Vectors, Unread> {
    #[derive(Deserialize)]
    struct CohereAnswer {
        embeddings: ByType,
        #[serde(default)]
        meta: Option<Meta>,
    }
    #[derive(Deserialize)]
    struct ByType {
        float: Vec<Vec<f32>>,
    }
    #[derive(Deserialize)]
    struct Meta {
        #[serde(default)]
        billed_units: Option<Billed>,
    }
    #[derive(Deserialize)]
    struct Billed {
        #[serde(default, deserialize_with = "crate::sent_tokens::read")]
        input_tokens: Option<u64>,
    }
    let answer: CohereAnswer = serde_json::from_slice(body)?;
    let billed = answer.meta.and_then(|meta| meta.billed_units).and_then(|billed| billed.input_tokens);
    Ok(Vectors::in_order(answer.embeddings.float, billed))
}

fn rerank(asked: &Passages<'_>) -> Json {
    json!({"model": asked.model, "query": asked.question, "documents": asked.passages,
        "top_n": asked.passages.len()})
}
