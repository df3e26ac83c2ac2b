//! OpenAI's `/embeddings`, and the `/rerank` of compatible servers: vLLM, Xinference, LocalAI, llama.cpp,
//! SiliconFlow. The meaning of their scores depends on the server and its model.

use serde_json::{Value as Json, json};

use super::{EmbeddingTexts, EmbeddingWire, Passages, RerankWire, Scores, read_listed, read_results};

pub(in crate::retrieval) const EMBEDDING: EmbeddingWire = EmbeddingWire {
    url: |base| format!("{}/embeddings", base.trim().trim_end_matches('/')),
    // Some compatible servers accept no more.
    texts_max: 32,
    tokens_max: 8191,
    body: embed,
    read: read_listed,
};

pub(in crate::retrieval) const RERANK: RerankWire = RerankWire {
    url: |base| format!("{}/rerank", base.trim().trim_end_matches('/')),
    passages_max: 64,
    tokens_max: 8192,
    scores: Scores::Unsure,
    body: rerank,
    read: read_results,
};

fn embed(asked: &EmbeddingTexts<'_>) -> Json {
    let mut body = json!({"model": asked.model, "input": asked.texts, "encoding_format": "float"});
    if let Some(dimensions) = asked.dimensions {
        body["dimensions"] = json!(dimensions);
    }
    body
}

pub(super) fn rerank(asked: &Passages<'_>) -> Json {
    // The passages are known here: the response need not repeat them.
    json!({"model": asked.model, "query": asked.question, "documents": asked.passages,
        "top_n": asked.passages.len(), "return_documents": false})
}
