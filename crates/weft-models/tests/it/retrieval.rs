//! Vectors and scores from loopback servers, on every wire.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use weft_core::seam::chat_model::ModelKind;
use weft_core::seam::embedder::EmbeddingPurpose;
use weft_core::seam::{Embedder, ModelDirectory as _, Reranker};
use weft_core::{ErrorKind, TenantId};
use weft_models::{Directory, ModelEntry, ModelsConfig, OneServer, Provider, Secret};
use weft_testkit::contracts::embedder::{embedder_keeps_its_contract, similar_texts_have_similar_vectors};
use weft_testkit::contracts::reranker::reranker_keeps_its_contract;
use weft_testkit::{HashEmbedder, SearchServer};

use crate::{KEY, open};

const EMBEDDING: [Provider; 7] = [
    Provider::OpenAi,
    Provider::Ollama,
    Provider::Cohere,
    Provider::Jina,
    Provider::Tei,
    Provider::DashScope,
    Provider::Voyage,
];
const RERANKING: [Provider; 6] = [
    Provider::OpenAi,
    Provider::Cohere,
    Provider::Jina,
    Provider::Tei,
    Provider::DashScope,
    Provider::Voyage,
];

fn entry(provider: Provider, kind: ModelKind, server: &SearchServer) -> ModelEntry {
    let mut entry = ModelEntry::new("m", provider);
    // Only OpenAI's own base URL contains the version.
    let version = if provider == Provider::OpenAi { "/v1/" } else { "" };
    entry.base_url = Some(format!("{}{version}", server.origin));
    entry.api_key = Secret::new(KEY);
    entry.model = Some("model-x".into());
    entry.kind = kind;
    entry
}

fn tenant() -> TenantId {
    TenantId::from("t")
}

fn embedder(entry: ModelEntry) -> Arc<dyn Embedder> {
    open(vec![entry]).unwrap().embedder(&tenant(), "").unwrap()
}

fn reranker(entry: ModelEntry) -> Arc<dyn Reranker> {
    open(vec![entry]).unwrap().reranker(&tenant(), "").unwrap()
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[tokio::test]
async fn every_wire_keeps_the_contract_of_embedders() {
    for provider in EMBEDDING {
        let server = SearchServer::start().await;
        let embedder = embedder(entry(provider, ModelKind::Embedding, &server));
        embedder_keeps_its_contract(&*embedder).await;
        similar_texts_have_similar_vectors(&*embedder).await;
        assert!(server.requests().iter().all(|request| request.key.as_deref() == Some(KEY)), "{provider:?}");
    }
}

#[tokio::test]
async fn every_wire_keeps_the_contract_of_rerankers() {
    for provider in RERANKING {
        for raw in [None, Some(true)] {
            // Only one of these mocks gives logits.
            if raw.is_some() && provider != Provider::Tei {
                continue;
            }
            let server = SearchServer::start().await;
            let entry = ModelEntry { raw_scores: raw, ..entry(provider, ModelKind::Rerank, &server) };
            reranker_keeps_its_contract(&*reranker(entry)).await;
        }
    }
}

/// The request for a vector.
async fn embedding_request(
    entry: ModelEntry,
    server: &SearchServer,
    purpose: EmbeddingPurpose,
) -> (String, Json) {
    let found = embedder(entry).embed(purpose, &texts(&["cats", ""])).await.unwrap();
    assert_eq!(found.vectors[0].len(), HashEmbedder::vector("").len());
    let mut requests = server.requests();
    assert_eq!(requests.len(), 1);
    let request = requests.remove(0);
    (request.path, request.body)
}

#[tokio::test]
async fn embedding_requests_match_each_provider() {
    let check = async |provider: Provider, purpose: EmbeddingPurpose, path: &str, expected: Json| {
        let server = SearchServer::start().await;
        let entry = entry(provider, ModelKind::Embedding, &server);
        let (asked, body) = embedding_request(entry, &server, purpose).await;
        assert_eq!((asked.as_str(), body), (path, expected), "{provider:?}");
    };
    let input = json!(["cats", "."]);
    let (query, passage) = (EmbeddingPurpose::Query, EmbeddingPurpose::Passage);
    let openai = json!({"model": "model-x", "input": input, "encoding_format": "float"});
    check(Provider::OpenAi, query, "/v1/embeddings", openai).await;
    let ollama = json!({"model": "model-x", "input": input, "truncate": true});
    check(Provider::Ollama, query, "/api/embed", ollama).await;
    for (purpose, word) in [(query, "search_query"), (passage, "search_document")] {
        let cohere = json!({"model": "model-x", "texts": input, "input_type": word,
            "embedding_types": ["float"], "truncate": "END"});
        check(Provider::Cohere, purpose, "/v2/embed", cohere).await;
    }
    for (purpose, word) in [(query, "retrieval.query"), (passage, "retrieval.passage")] {
        let jina = json!({"model": "model-x", "input": input, "embedding_type": "float", "task": word,
            "truncate": true});
        check(Provider::Jina, purpose, "/v1/embeddings", jina).await;
    }
    let tei = json!({"inputs": input, "truncate": true, "normalize": true});
    check(Provider::Tei, passage, "/embed", tei).await;
    for (purpose, word) in [(query, "query"), (passage, "document")] {
        let path = "/api/v1/services/embeddings/text-embedding/text-embedding";
        let dashscope =
            json!({"model": "model-x", "input": {"texts": input}, "parameters": {"text_type": word}});
        check(Provider::DashScope, purpose, path, dashscope).await;
        let voyage = json!({"model": "model-x", "input": input, "input_type": word, "truncation": true});
        check(Provider::Voyage, purpose, "/v1/embeddings", voyage).await;
    }
}

#[tokio::test]
async fn rerank_requests_match_each_provider() {
    let check = async |provider: Provider, path: &str, expected: Json| {
        let server = SearchServer::start().await;
        let reranker = reranker(entry(provider, ModelKind::Rerank, &server));
        assert_eq!(reranker.rerank("cats", &texts(&["dogs", "cats"])).await.unwrap().scores, [0.0, 1.0]);
        let request = server.requests().remove(0);
        assert_eq!((request.path.as_str(), request.body), (path, expected), "{provider:?}");
    };
    let documents = json!(["dogs", "cats"]);
    let usual = json!({"model": "model-x", "query": "cats", "documents": documents, "top_n": 2,
        "return_documents": false});
    check(Provider::OpenAi, "/v1/rerank", usual.clone()).await;
    check(Provider::Jina, "/v1/rerank", usual).await;
    let cohere = json!({"model": "model-x", "query": "cats", "documents": documents, "top_n": 2});
    check(Provider::Cohere, "/v2/rerank", cohere).await;
    let tei = json!({"query": "cats", "texts": documents, "truncate": true, "raw_scores": false});
    check(Provider::Tei, "/rerank", tei).await;
    let dashscope = json!({"model": "model-x", "input": {"query": "cats", "documents": documents},
        "parameters": {"return_documents": false, "top_n": 2}});
    check(Provider::DashScope, "/api/v1/services/rerank/text-rerank/text-rerank", dashscope).await;
    let voyage = json!({"model": "model-x", "query": "cats", "documents": documents, "truncation": true});
    check(Provider::Voyage, "/v1/rerank", voyage).await;
}

#[tokio::test]
async fn an_entry_sets_prefixes_dimensions_batches_and_windows() {
    let server = SearchServer::start().await;
    let mut entry = entry(Provider::OpenAi, ModelKind::Embedding, &server);
    entry.query_prefix = Some("query: ".into());
    entry.passage_prefix = Some("passage: ".into());
    entry.dimensions = Some(64);
    entry.batch = Some(2);
    entry.window = 6;
    let embedder = embedder(entry);
    assert_eq!(embedder.tokens_max(), 6);
    let found =
        embedder.embed(EmbeddingPurpose::Passage, &texts(&["a", "b", "long words here"])).await.unwrap();
    assert_eq!((found.vectors.len(), found.tokens), (3, 22));
    embedder.embed(EmbeddingPurpose::Query, &texts(&["a"])).await.unwrap();
    let mut inputs: Vec<Json> =
        server.requests().into_iter().map(|request| request.body["input"].clone()).collect();
    // The first two were sent concurrently.
    inputs[..2].sort_by_key(|input| std::cmp::Reverse(input.as_array().map(Vec::len)));
    assert_eq!(
        inputs,
        [json!(["passage: a", "passage: b"]), json!(["passage: long wor"]), json!(["query: a"])]
    );
    assert!(server.requests().iter().all(|request| request.body["dimensions"] == 64));
}

#[tokio::test]
async fn a_repeated_question_is_sent_once() {
    let server = SearchServer::start().await;
    let embedder = embedder(entry(Provider::OpenAi, ModelKind::Embedding, &server));
    let first = embedder.embed(EmbeddingPurpose::Query, &texts(&["cats"])).await.unwrap();
    let second = embedder.embed(EmbeddingPurpose::Query, &texts(&["cats"])).await.unwrap();
    assert_eq!((first.vectors, first.tokens, second.tokens), (second.vectors, 11, 0));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn failures_are_classified_and_transient_ones_retried() {
    let server = SearchServer::start().await;
    let embedder = embedder(entry(Provider::OpenAi, ModelKind::Embedding, &server));
    let ask = async || embedder.embed(EmbeddingPurpose::Passage, &texts(&["cats"])).await;
    for status in [429, 503] {
        server.answer_instead(status, r#"{"error": {"message": "not now"}}"#);
    }
    assert_eq!(ask().await.unwrap().vectors.len(), 1);
    assert_eq!(server.requests().len(), 3);
    let check = async |status: u16, body: &str, kind: ErrorKind, words: &str| {
        server.answer_instead(status, body);
        let error = ask().await.unwrap_err();
        assert_eq!(error.kind, kind, "{}", error.full());
        let full = error.full();
        assert!(full.contains(words) && !full.contains(KEY), "{full}");
    };
    check(401, &format!(r#"{{"detail": "no key {KEY}"}}"#), ErrorKind::Unauthenticated, "no key ***").await;
    check(400, r#"{"message": "too long"}"#, ErrorKind::Invalid, "too long").await;
    check(413, r#"{"error": "batch size 3 > maximum 2"}"#, ErrorKind::Invalid, "batch size").await;
    check(200, "<html>", ErrorKind::Garbled, "cannot be understood").await;
    check(200, r#"{"data": []}"#, ErrorKind::Garbled, "1 text was sent, but 0 vectors were").await;
    check(200, r#"{"data": [{"index": 0, "embedding": [null]}]}"#, ErrorKind::Garbled, "").await;
    check(200, r#"{"data": [{"index": 0, "embedding": [0, 0]}]}"#, ErrorKind::Garbled, "no direction").await;
}

#[tokio::test]
async fn reranker_tokens_are_reported_if_the_provider_gives_them() {
    let results = json!([{"index": 0, "relevance_score": 0.5}]);
    for (provider, answer, tokens) in [
        (Provider::Jina, json!({"results": results, "usage": {"total_tokens": 12}}), 12),
        (Provider::Voyage, json!({"data": results, "usage": {"total_tokens": 13}}), 13),
        (Provider::Cohere, json!({"results": results, "meta": {"tokens": {"input_tokens": 14}}}), 14),
        (Provider::Cohere, json!({"results": results, "meta": {"billed_units": {"search_units": 1}}}), 0),
        (Provider::DashScope, json!({"output": {"results": results}, "usage": {"total_tokens": 15}}), 15),
        (Provider::OpenAi, json!({"results": results}), 0),
        (Provider::OpenAi, json!({"results": results, "usage": null}), 0),
    ] {
        let server = SearchServer::start().await;
        server.answer_instead(200, answer.to_string());
        let answer = reranker(entry(provider, ModelKind::Rerank, &server)).rerank("q", &texts(&["a"])).await;
        let answer = answer.unwrap();
        assert_eq!((answer.scores.as_slice(), answer.tokens), (&[0.5][..], tokens), "{provider:?}");
    }
}

#[tokio::test]
async fn scores_are_normalised_or_refused() {
    let server = SearchServer::start().await;
    let results = |scores: &[(usize, f64)]| {
        let list: Vec<Json> =
            scores.iter().map(|(index, score)| json!({"index": index, "relevance_score": score})).collect();
        json!({"results": list}).to_string()
    };
    let ask = async |provider: Provider, raw_scores: Option<bool>, scores: &[(usize, f64)]| {
        server.answer_instead(200, results(scores));
        let entry = ModelEntry { raw_scores, ..entry(provider, ModelKind::Rerank, &server) };
        reranker(entry).rerank("q", &texts(&["a", "b"])).await.map(|answer| answer.scores)
    };
    let logits = [(1, 0.0), (0, -20.0)];
    let scored = ask(Provider::OpenAi, Some(true), &logits).await.unwrap();
    assert!(scored[0] < 1e-6 && (scored[1] - 0.5).abs() < 1e-6, "{scored:?}");
    assert_eq!(ask(Provider::OpenAi, Some(false), &[(1, 1.5), (0, -20.0)]).await.unwrap(), [0.0, 1.0]);
    assert_eq!(ask(Provider::Jina, None, &[(1, 0.75), (0, -0.2)]).await.unwrap(), [0.0, 0.75]);
    let error = ask(Provider::OpenAi, None, &logits).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.full().contains("raw_scores = true"), "{}", error.full());
    for scores in [&[(1, 0.5)][..], &[(1, 0.5), (1, 0.6)], &[(0, 0.5), (2, 0.6)]] {
        assert_eq!(
            ask(Provider::Cohere, None, scores).await.unwrap_err().kind,
            ErrorKind::Garbled,
            "{scores:?}"
        );
    }
}

#[test]
fn retrieval_models_resolve_by_name_and_by_default() {
    let config: ModelsConfig = serde_json::from_value(json!({
        "default_embedding": "small", "default_rerank": "second@Cohere",
        "entries": [
            {"name": "gpt", "factory": "OpenAI"},
            {"name": "small", "model": "text-embedding-3-small", "factory": "OpenAI", "kind": "embedding"},
            {"name": "bge-m3", "provider": "ollama", "kind": "embedding"},
            {"name": "second", "factory": "Cohere", "kind": "rerank"},
            {"name": "gte-rerank", "factory": "Tongyi-Qianwen", "kind": "rerank"},
            {"name": "voice", "kind": "tts"},
        ]
    }))
    .unwrap();
    let open =
        |config: &ModelsConfig| Directory::open(config, &weft_net::operator_client().unwrap()).unwrap();
    let directory = open(&config);
    let embedder = |id: &str| directory.embedder(&tenant(), id).map(|found| found.name().to_owned());
    let reranker = |id: &str| directory.reranker(&tenant(), id).map(|found| found.name().to_owned());
    assert_eq!(embedder("").unwrap(), "small@OpenAI");
    assert_eq!(embedder("text-embedding-3-small").unwrap(), "small@OpenAI");
    for id in ["bge-m3", "bge-m3@Ollama", "bge-m3@ollama", "bge-m3@default@Ollama"] {
        assert_eq!(embedder(id).unwrap(), "bge-m3@ollama", "{id}");
    }
    assert_eq!(reranker(" ").unwrap(), "second@Cohere");
    assert_eq!(reranker("gte-rerank@Tongyi-Qianwen").unwrap(), "gte-rerank@Tongyi-Qianwen");
    let check = |error: weft_core::Error, words: &[&str]| {
        assert_eq!(error.kind, ErrorKind::NotFound);
        assert!(error.message.starts_with("MODEL_NOT_CONFIGURED"), "{}", error.message);
        let full = error.full();
        assert!(words.iter().all(|part| full.contains(part)), "{full}");
    };
    check(
        embedder("gpt").unwrap_err(),
        &["`gpt` is configured for answering messages, not for embedding texts"],
    );
    check(embedder("second").unwrap_err(), &["for reranking passages, not for embedding"]);
    check(embedder("voice").unwrap_err(), &["for reading aloud, not for embedding"]);
    check(embedder("e5").unwrap_err(), &["`e5` is not configured", "`small@OpenAI`, `bge-m3`"]);
    check(reranker("bge-m3").unwrap_err(), &["for embedding texts, not for reranking passages"]);
    let unset = open(&ModelsConfig { default_embedding: None, default_rerank: None, ..config });
    let error = unset.embedder(&tenant(), "").err().unwrap();
    check(error, &["a default model for embedding texts", "`models.default_embedding`"]);
    let none = open(&ModelsConfig::default());
    check(none.reranker(&tenant(), "").err().unwrap(), &["kind = \"rerank\""]);
}

#[test]
fn an_invalid_entry_is_refused_at_start() {
    let check = |entry: Json, words: &str| {
        let entry: ModelEntry = serde_json::from_value(entry).unwrap();
        let error = open(vec![entry]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.full().contains(words), "{}", error.full());
    };
    check(json!({"name": "x", "provider": "cohere"}), "has no chat models");
    check(json!({"name": "x", "provider": "anthropic", "kind": "embedding"}), "has no embedding models");
    check(json!({"name": "x", "provider": "ollama", "kind": "rerank"}), "has no rerankers");
    check(json!({"name": "x", "provider": "tei", "kind": "rerank"}), "set its `base_url`");
    check(json!({"name": "x", "factory": "HuggingFace", "kind": "embedding"}), "set its `base_url`");
    check(json!({"name": "x", "provider": "local", "kind": "embedding"}), "local");
}

#[tokio::test]
async fn one_server_has_retrieval_models_only_if_named() {
    let server = SearchServer::start().await;
    let config = |embedding: Option<&str>, rerank: Option<&str>| ModelsConfig {
        one_server: Some(OneServer {
            base_url: format!("{}/v1", server.origin),
            embedding: embedding.map(str::to_owned),
            rerank: rerank.map(str::to_owned),
            ..OneServer::default()
        }),
        entries: vec![entry(Provider::Tei, ModelKind::Embedding, &server)],
        ..ModelsConfig::default()
    };
    let open =
        |config: &ModelsConfig| Directory::open(config, &weft_net::operator_client().unwrap()).unwrap();
    let both = open(&config(Some("e"), Some("r")));
    for id in ["", "anything", "m@tei"] {
        assert_eq!(both.embedder(&tenant(), id).unwrap().name(), "e@openai");
        assert_eq!(both.reranker(&tenant(), id).unwrap().name(), "r@openai");
    }
    let kinds: Vec<ModelKind> = both.list(&tenant()).into_iter().map(|info| info.kind).collect();
    assert_eq!(kinds, [ModelKind::Embedding, ModelKind::Embedding, ModelKind::Rerank]);
    both.embedder(&tenant(), "").unwrap().embed(EmbeddingPurpose::Query, &texts(&["a"])).await.unwrap();
    assert_eq!(server.requests()[0].body["model"], "e");
    let neither = open(&config(None, None));
    assert_eq!(neither.embedder(&tenant(), "").unwrap().name(), "m@tei");
    assert!(neither.reranker(&tenant(), "").is_err());
}
