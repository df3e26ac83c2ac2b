//! A server on loopback that computes embeddings and scores passages with the protocols of several providers at once:
//! the path of a request tells which one is meant.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value as Json, json};
use tokio::task::JoinSet;

use crate::hash_embedder::HashEmbedder;
use crate::scripted_reranker::shared;

/// Maximum number of requests that are recorded.
const REQUESTS_REMEMBERED_MAX: usize = 10_000;

/// A server whose vectors are those of [`HashEmbedder`], three times as long, and whose scores are the share of the
/// question's words that a passage contains, best first. It stops when it is dropped.
#[derive(Debug)]
pub struct SearchServer {
    /// Scheme, host and port.
    pub origin: String,
    state: Arc<Mutex<SearchPlay>>,
    /// Aborts the server task on drop.
    _tasks: JoinSet<()>,
}

/// A request as it arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenSearch {
    /// Its path.
    pub path: String,
    /// Its bearer token.
    pub key: Option<String>,
    /// The body.
    pub body: Json,
}

#[derive(Debug, Default)]
struct SearchPlay {
    requests: Vec<SeenSearch>,
    /// Answers to return instead, once each.
    instead: VecDeque<(u16, String)>,
}

impl SearchServer {
    /// Starts a server on a free port.
    ///
    /// # Panics
    /// If no port of the loopback address can be opened.
    #[expect(clippy::expect_used, reason = "a test without its server cannot go on")]
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port on loopback");
        let address = listener.local_addr().expect("the address of an open port");
        let state = Arc::new(Mutex::new(SearchPlay::default()));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&state));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // Serving ends only when the task is aborted.
            let _ended = axum::serve(listener, router).await;
        });
        Self { origin: format!("http://{address}"), state, _tasks: tasks }
    }

    /// Returns this answer to the next request that has no other override.
    pub fn answer_instead(&self, status: u16, body: impl Into<String>) {
        lock(&self.state).instead.push_back((status, body.into()));
    }

    /// The requests so far, in order.
    pub fn requests(&self) -> Vec<SeenSearch> {
        lock(&self.state).requests.clone()
    }
}

fn lock(state: &Mutex<SearchPlay>) -> MutexGuard<'_, SearchPlay> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer(
    State(state): State<Arc<Mutex<SearchPlay>>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Ok(body) = serde_json::from_slice::<Json>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let instead = {
        let mut played = lock(&state);
        if played.requests.len() < REQUESTS_REMEMBERED_MAX {
            let key = headers.get("authorization").and_then(|value| value.to_str().ok());
            let key = key.map(|value| value.trim_start_matches("Bearer ").to_owned());
            let request = SeenSearch { path: uri.path().to_owned(), key, body: body.clone() };
            played.requests.push(request);
        }
        played.instead.pop_front()
    };
    if let Some((status, body)) = instead {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        return (status, [("content-type", "application/json"), ("retry-after-ms", "1")], body)
            .into_response();
    }
    match said(uri.path(), &body) {
        Some(answer) => axum::Json(answer).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn said(path: &str, body: &Json) -> Option<Json> {
    match path.rsplit('/').next()? {
        "embeddings" => {
            let list = |(at, vector): (usize, Json)| json!({"object": "embedding", "index": at, "embedding": vector});
            // Not in order, since the clients must use the indices.
            let data: Vec<Json> = vectors(&body["input"]).into_iter().enumerate().map(list).rev().collect();
            Some(json!({"object": "list", "data": data, "usage": {"prompt_tokens": 11, "total_tokens": 11}}))
        }
        "embed" if path.ends_with("/api/embed") => {
            Some(json!({"embeddings": vectors(&body["input"]), "prompt_eval_count": 11}))
        }
        "embed" if path.ends_with("/v2/embed") => {
            Some(json!({"embeddings": {"float": vectors(&body["texts"])},
            "meta": {"billed_units": {"input_tokens": 11.0}}}))
        }
        "embed" => Some(json!(vectors(&body["inputs"]))),
        "text-embedding" => {
            let list = |(at, vector): (usize, Json)| json!({"text_index": at, "embedding": vector});
            let list: Vec<Json> =
                vectors(&body["input"]["texts"]).into_iter().enumerate().map(list).collect();
            Some(json!({"output": {"embeddings": list}, "usage": {"total_tokens": 11}}))
        }
        "text-rerank" => {
            Some(json!({"output": {"results": scores(&body["input"], "documents", "relevance_score")}}))
        }
        "rerank" if body.get("texts").is_some() => Some(scores(body, "texts", "score")),
        "rerank" if path == "/v1/rerank" && body.get("truncation").is_some() => {
            Some(json!({"data": scores(body, "documents", "relevance_score")}))
        }
        "rerank" => Some(json!({"results": scores(body, "documents", "relevance_score")})),
        _ => None,
    }
}

fn texts(list: &Json) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Json::as_str).collect()
}

fn vectors(list: &Json) -> Vec<Json> {
    let longer = |text: &str| HashEmbedder::vector(text).into_iter().map(|x| x * 3.0).collect::<Vec<f32>>();
    texts(list).into_iter().map(|text| json!(longer(text))).collect()
}

/// Scores, best first; logits if the request asks for them.
fn scores(body: &Json, list: &str, name: &str) -> Json {
    let question = body["query"].as_str().unwrap_or_default();
    let as_asked = |share: f32| {
        if body["raw_scores"] == json!(true) {
            (share.clamp(0.001, 0.999) / (1.0 - share.clamp(0.001, 0.999))).ln()
        } else {
            share
        }
    };
    let mut scores: Vec<(usize, f32)> =
        texts(&body[list]).into_iter().map(|text| shared(question, text)).enumerate().collect();
    scores.sort_by(|a, b| b.1.total_cmp(&a.1));
    scores.into_iter().map(|(at, share)| json!({"index": at, name: as_asked(share)})).collect()
}
