//! The requests and responses of providers: one file each.

pub(super) mod cohere;
pub(super) mod dashscope;
pub(super) mod jina;
pub(super) mod ollama;
pub(super) mod openai;
pub(super) mod tei;
pub(super) mod voyage;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value as Json;
use weft_core::seam::embedder::EmbeddingPurpose;

use crate::factories::Provider;
use crate::sent_tokens;

/// Why a response cannot be parsed.
pub(super) type Unread = Box<dyn std::error::Error + Send + Sync>;

/// How a provider computes vectors.
pub(super) struct EmbeddingWire {
    /// The URL of requests, given the base URL.
    pub url: fn(&str) -> String,
    /// Maximum number of texts per request.
    pub texts_max: usize,
    /// Maximum tokens of one text, unless configured otherwise.
    pub tokens_max: usize,
    pub body: fn(&EmbeddingTexts<'_>) -> Json,
    pub read: fn(&[u8]) -> Result<Vectors, Unread>,
}

/// How a provider scores passages.
pub(super) struct RerankWire {
    /// The URL of requests, given the base URL.
    pub url: fn(&str) -> String,
    /// Maximum number of passages per request.
    pub passages_max: usize,
    /// Maximum tokens of question and passage together, unless configured otherwise.
    pub tokens_max: usize,
    /// The meaning of its scores.
    pub scores: Scores,
    pub body: fn(&Passages<'_>) -> Json,
    pub read: fn(&[u8]) -> Result<Ranking, Unread>,
}

/// The meaning of a provider's scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scores {
    /// From 0 to 1 according to the documentation; values outside are clamped.
    Shares,
    /// Presumably from 0 to 1; values outside show that they are logits.
    Unsure,
    /// Any number: a logit.
    Logits,
}

/// The texts of one request.
pub(super) struct EmbeddingTexts<'a> {
    pub model: &'a str,
    pub purpose: EmbeddingPurpose,
    pub texts: &'a [String],
    /// The number of dimensions, if it was configured.
    pub dimensions: Option<usize>,
}

/// A question and the passages of one request.
pub(super) struct Passages<'a> {
    pub model: &'a str,
    pub question: &'a str,
    pub passages: &'a [String],
    /// Whether to request logits from providers that offer the choice.
    pub scores: Scores,
}

/// Vectors as received.
pub(super) struct Vectors {
    pub items: Vec<Vector>,
    /// Tokens that were processed, if reported.
    pub tokens: Option<u64>,
}

/// One vector, and the number of its text if sent.
pub(super) struct Vector {
    pub index: Option<usize>,
    pub numbers: Vec<f32>,
}

/// Scores as received.
pub(super) struct Ranking {
    pub scores: Vec<Score>,
    /// Tokens that were processed, if reported.
    pub tokens: Option<u64>,
}

/// One score, and the number of its passage.
#[derive(Deserialize)]
pub(super) struct Score {
    pub index: usize,
    #[serde(alias = "score")]
    pub relevance_score: f32,
}

impl Vectors {
    fn in_order(vectors: Vec<Vec<f32>>, tokens: Option<u64>) -> Self {
        let vector = |numbers| Vector { index: None, numbers };
        Self { items: vectors.into_iter().map(vector).collect(), tokens }
    }
}

impl Provider {
    /// How it computes vectors over HTTP, if supported.
    pub(super) fn embedding_wire(self) -> Option<&'static EmbeddingWire> {
        match self {
            Self::OpenAi => Some(&openai::EMBEDDING),
            Self::Ollama => Some(&ollama::EMBEDDING),
            Self::Cohere => Some(&cohere::EMBEDDING),
            Self::Jina => Some(&jina::EMBEDDING),
            Self::Tei => Some(&tei::EMBEDDING),
            Self::DashScope => Some(&dashscope::EMBEDDING),
            Self::Voyage => Some(&voyage::EMBEDDING),
            Self::Anthropic | Self::Gemini | Self::Scripted | Self::Extractive | Self::Local => None,
        }
    }

    /// How it scores passages over HTTP, if supported.
    pub(super) fn rerank_wire(self) -> Option<&'static RerankWire> {
        match self {
            Self::OpenAi => Some(&openai::RERANK),
            Self::Cohere => Some(&cohere::RERANK),
            Self::Jina => Some(&jina::RERANK),
            Self::Tei => Some(&tei::RERANK),
            Self::DashScope => Some(&dashscope::RERANK),
            Self::Voyage => Some(&voyage::RERANK),
            Self::Ollama | Self::Anthropic | Self::Gemini => None,
            Self::Scripted | Self::Extractive | Self::Local => None,
        }
    }
}

/// Appends a path to a base URL; an existing version is not added again.
fn at(base_url: &str, version: &str, rest: &str) -> String {
    let base = base_url.trim().trim_end_matches('/');
    let versioned = base.rsplit('/').next().is_some_and(|last| {
        last.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    if versioned { format!("{base}/{rest}") } else { format!("{base}/{version}/{rest}") }
}

/// The response list of OpenAI's API and those modelled on it.
#[derive(Deserialize)]
struct ListedVectors {
    data: Vec<ListedVector>,
    #[serde(default)]
    usage: Option<ListedUsage>,
}

#[derive(Deserialize)]
struct ListedVector {
    #[serde(default)]
    index: Option<usize>,
    embedding: Numbers,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListedUsage {
    #[serde(deserialize_with = "sent_tokens::read")]
    total_tokens: Option<u64>,
    #[serde(deserialize_with = "sent_tokens::read")]
    prompt_tokens: Option<u64>,
}

/// Numbers, or their bytes in base64.
#[derive(Deserialize)]
#[serde(untagged)]
enum Numbers {
    Plain(Vec<f32>),
    Base64(String),
}

fn read_listed(body: &[u8]) -> Result<Vectors, Unread> {
    let ListedVectors { data, usage } = serde_json::from_slice(body)?;
    let usage = usage.unwrap_or_default();
    let vector =
        |item: ListedVector| Ok(Vector { index: item.index, numbers: item.embedding.into_numbers()? });
    let items = data.into_iter().map(vector).collect::<Result<_, Unread>>()?;
    Ok(Vectors { items, tokens: usage.total_tokens.or(usage.prompt_tokens) })
}

impl Numbers {
    fn into_numbers(self) -> Result<Vec<f32>, Unread> {
        let text = match self {
            Self::Plain(numbers) => return Ok(numbers),
            Self::Base64(text) => text,
        };
        // Some servers send it although plain numbers were requested.
        let bytes = STANDARD.decode(text)?;
        let (numbers, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err("a base64 vector ends with an incomplete number".into());
        }
        Ok(numbers.iter().map(|number| f32::from_le_bytes(*number)).collect())
    }
}

/// The tokens of a whole response. Providers that count in other units do not send it.
#[derive(Deserialize)]
struct TotalUsage {
    #[serde(default, deserialize_with = "sent_tokens::read")]
    total_tokens: Option<u64>,
}

/// The response list of most rerankers.
fn read_results(body: &[u8]) -> Result<Ranking, Unread> {
    #[derive(Deserialize)]
    struct ScoredAnswer {
        #[serde(alias = "data")]
        results: Vec<Score>,
        usage: Option<TotalUsage>,
        meta: Option<Meta>,
    }
    #[derive(Deserialize)]
    struct Meta {
        tokens: Option<MetaTokens>,
    }
    #[derive(Deserialize)]
    struct MetaTokens {
        #[serde(default, deserialize_with = "sent_tokens::read")]
        input_tokens: Option<u64>,
    }
    let answer: ScoredAnswer = serde_json::from_slice(body)?;
    let in_meta = answer.meta.and_then(|meta| meta.tokens).and_then(|tokens| tokens.input_tokens);
    let tokens = answer.usage.and_then(|usage| usage.total_tokens).or(in_meta);
    Ok(Ranking { scores: answer.results, tokens })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_has_its_version_once() {
        let check = |base: &str, expected: &str| assert_eq!(at(base, "v2", "embed"), expected);
        check("https://api.cohere.com", "https://api.cohere.com/v2/embed");
        check("https://api.cohere.com/v2/", "https://api.cohere.com/v2/embed");
        check("http://vserver/", "http://vserver/v2/embed");
    }

    #[test]
    fn vectors_are_read_from_numbers_and_bytes() {
        let bytes = STANDARD.encode([1.5_f32, -2.0].map(f32::to_le_bytes).concat());
        let read = |embedding: &str| {
            let body = format!(
                r#"{{"data":[{{"index":3,"embedding":{embedding}}}],"usage":{{"prompt_tokens":7}}}}"#
            );
            read_listed(body.as_bytes())
                .map(|vectors| (vectors.items[0].index, vectors.items[0].numbers.clone(), vectors.tokens))
        };
        for embedding in ["[1.5,-2]".to_owned(), format!("\"{bytes}\"")] {
            assert_eq!(read(&embedding).unwrap(), (Some(3), vec![1.5, -2.0], Some(7)));
        }
        for embedding in ["\"AAAA\"", "\"?\"", "[null]", "{}"] {
            assert!(read(embedding).is_err(), "{embedding}");
        }
    }
}
