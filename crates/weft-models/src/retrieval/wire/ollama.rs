//! Ollama's `/api/embed`.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::{EmbeddingTexts, EmbeddingWire, Unread, Vectors};

pub(in crate::retrieval) const EMBEDDING: EmbeddingWire =
    EmbeddingWire { url, texts_max: 32, tokens_max: 8192, body, read };

fn url(base: &str) -> String {
    let base = base.trim().trim_end_matches('/').trim_end_matches("/v1").trim_end_matches("/api");
    format!("{base}/api/embed")
}

fn body(asked: &EmbeddingTexts<'_>) -> Json {
    // Our count is conservative but not exact: texts that are still too long are truncated instead of rejected.
    let mut body = json!({"model": asked.model, "input": asked.texts, "truncate": true});
    if let Some(dimensions) = asked.dimensions {
        body["dimensions"] = json!(dimensions);
    }
    body
}

fn read(body: &[u8]) -> Result<Vectors, Unread> {
    #[derive(Deserialize)]
    struct OllamaAnswer {
        embeddings: Vec<Vec<f32>>,
        #[serde(default, deserialize_with = "crate::sent_tokens::read")]
        prompt_eval_count: Option<u64>,
    }
    let answer: OllamaAnswer = serde_json::from_slice(body)?;
    Ok(Vectors::in_order(answer.embeddings, answer.prompt_eval_count))
}
