//! Text Embeddings Inference, a server for a single model. It converts logits to scores from 0 to 1 unless asked not
//! to.

use serde_json::{Value as Json, json};

use super::{EmbeddingTexts, EmbeddingWire, Passages, Ranking, RerankWire, Score, Scores, Unread, Vectors};

pub(in crate::retrieval) const EMBEDDING: EmbeddingWire = EmbeddingWire {
    url: |base| format!("{}/embed", root(base)),
    // The server's own default.
    texts_max: 32,
    tokens_max: 8192,
    body: embed,
    read,
};

pub(in crate::retrieval) const RERANK: RerankWire = RerankWire {
    url: |base| format!("{}/rerank", root(base)),
    passages_max: 32,
    tokens_max: 8192,
    scores: Scores::Shares,
    body: rerank,
    read: scores,
};

/// Removes the suffix of the OpenAI-compatible address, which is often configured instead.
fn root(base: &str) -> &str {
    base.trim().trim_end_matches('/').trim_end_matches("/v1")
}

fn embed(asked: &EmbeddingTexts<'_>) -> Json {
    // Our count of tokens is not exact: a text that is still too long is truncated instead of rejected.
    let mut body = json!({"inputs": asked.texts, "truncate": true, "normalize": true});
    if let Some(dimensions) = asked.dimensions {
        body["dimensions"] = json!(dimensions);
    }
    body
}

fn read(body: &[u8]) -> Result<Vectors, Unread> {
    Ok(Vectors::in_order(serde_json::from_slice(body)?, None))
}

fn rerank(asked: &Passages<'_>) -> Json {
    json!({"query": asked.question, "texts": asked.passages, "truncate": true,
        "raw_scores": asked.scores == Scores::Logits})
}

fn scores(body: &[u8]) -> Result<Ranking, Unread> {
    let scores: Vec<Score> = serde_json::from_slice(body)?;
    Ok(Ranking { scores, tokens: None })
}
