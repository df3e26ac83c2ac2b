//! DashScope's native API. Its scores are from 0 to 1.

use serde::Deserialize;
use serde_json::{Value as Json, json};
use weft_core::seam::embedder::EmbeddingPurpose;

use super::{
    EmbeddingTexts, EmbeddingWire, Passages, Ranking, RerankWire, Score, Scores, TotalUsage, Unread, Vector,
    Vectors, at,
};

pub(in crate::retrieval) const EMBEDDING: EmbeddingWire = EmbeddingWire {
    url: |base| at(root(base), "api/v1", "services/embeddings/text-embedding/text-embedding"),
    texts_max: 10,
    tokens_max: 8192,
    body: embed,
    read,
};

pub(in crate::retrieval) const RERANK: RerankWire = RerankWire {
    url: |base| at(root(base), "api/v1", "services/rerank/text-rerank/text-rerank"),
    passages_max: 100,
    tokens_max: 4000,
    scores: Scores::Shares,
    body: rerank,
    read: scores,
};

/// Removes the suffix of the OpenAI-compatible address, which is often configured instead.
fn root(base: &str) -> &str {
    base.trim().trim_end_matches('/').trim_end_matches("/compatible-mode/v1")
}

fn embed(asked: &EmbeddingTexts<'_>) -> Json {
    // Its models compute different vectors for questions and for passages.
    let text_type = match asked.purpose {
        EmbeddingPurpose::Query => "query",
        EmbeddingPurpose::Passage => "document",
    };
    let mut body = json!({"model": asked.model, "input": {"texts": asked.texts},
        "parameters": {"text_type": text_type}});
    if let Some(dimensions) = asked.dimensions {
        body["parameters"]["dimension"] = json!(dimensions);
    }
    body
}

fn read(body: &[u8]) -> Result<Vectors, Unread> {
    #[derive(Deserialize)]
    struct EmbeddingAnswer {
        output: EmbeddingOutput,
        #[serde(default)]
        usage: Option<TotalUsage>,
    }
    #[derive(Deserialize)]
    struct EmbeddingOutput {
        embeddings: Vec<TextEmbedding>,
    }
    #[derive(Deserialize)]
    struct TextEmbedding {
        #[serde(default)]
        text_index: Option<usize>,
        embedding: Vec<f32>,
    }
    let answer: EmbeddingAnswer = serde_json::from_slice(body)?;
    let vector = |item: TextEmbedding| Vector { index: item.text_index, numbers: item.embedding };
    let items = answer.output.embeddings.into_iter().map(vector).collect();
    Ok(Vectors { items, tokens: answer.usage.and_then(|usage| usage.total_tokens) })
}

fn rerank(asked: &Passages<'_>) -> Json {
    json!({"model": asked.model, "input": {"query": asked.question, "documents": asked.passages},
        "parameters": {"return_documents": false, "top_n": asked.passages.len()}})
}

fn scores(body: &[u8]) -> Result<Ranking, Unread> {
    #[derive(Deserialize)]
    struct RerankAnswer {
        output: RerankOutput,
        usage: Option<TotalUsage>,
    }
    #[derive(Deserialize)]
    struct RerankOutput {
        results: Vec<Score>,
    }
    let answer: RerankAnswer = serde_json::from_slice(body)?;
    let tokens = answer.usage.and_then(|usage| usage.total_tokens);
    Ok(Ranking { scores: answer.output.results, tokens })
}
